"""A parity report as JUnit and as a page."""

import base64
import html
import io
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.files.marks import NAME

Images = Mapping[tuple[str, str], tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]

_MAX_SIDE = 320  # of images on a page, in pixels


def _cases(report: Mapping[str, Any]) -> list[tuple[str, str, bool, str]]:
    """Return (stage, name, same, figures) of each layer and call."""
    rows = []
    for layer in report["layers"]:
        figures = f"relative {_number(layer['relative'])}, allowed {_number(layer['allowed'])}"
        rows.append((layer["stage"], layer["path"], layer["same"], figures))
    for entry in report["masks"]:
        figures = f"{entry['count']} masks, reference {entry['reference_count']}, IoU "
        figures += f"{entry['iou']:.6f}, score {_number(entry['score'])}"
        rows.append((entry["stage"], f"masks of {entry['item']}", entry["same"], figures))
    return rows


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3e}"


def junit_text(report: Mapping[str, Any]) -> str:
    """Return a JUnit document: a test case for each layer and each call."""
    cases = _cases(report)
    failures = sum(not same for _, _, same, _ in cases)
    counts = {"tests": str(len(cases)), "failures": str(failures), "errors": "0", "skipped": "0"}
    root = ET.Element("testsuites", counts)
    suite = ET.SubElement(root, "testsuite", {"name": "sam_rlx.parity", **counts})
    for stage, name, same, figures in cases:
        case = ET.SubElement(suite, "testcase", {"classname": f"parity.{stage}", "name": name})
        if not same:
            failure = ET.SubElement(case, "failure", {"message": figures, "type": "AssertionError"})
            failure.text = figures
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _png(pixels: NDArray[np.uint8]) -> str:
    from PIL import Image

    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()


def _panels(ours: NDArray[Any], theirs: NDArray[Any], image: NDArray[Any]) -> list[str]:
    """Return the image with our mask, with the reference's, and where they differ, as PNG."""
    step = max(1, -(-max(image.shape[:2]) // _MAX_SIDE))
    base, a, b = (x[::step, ::step] for x in (image, ours, theirs))
    panels = []
    for mask in (a, b):
        drawn = base.astype(np.float32)
        drawn[mask] = 0.45 * drawn[mask] + 0.55 * np.array([30, 144, 255], np.float32)
        panels.append(_png(drawn.astype(np.uint8)))
    differs = np.full((*a.shape, 3), 235, np.uint8)
    differs[a & b] = 160
    differs[a & ~b] = 30, 144, 255
    differs[b & ~a] = 220, 60, 40
    return [*panels, _png(differs)]


_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em;
  color: #222; background: #fff; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { text-align: left; padding: .15em .6em; border-bottom: 1px solid #e4e4e4; }
td.n { text-align: right; font-family: ui-monospace, monospace; }
tr.differs { background: #fde8e4; }
figure { margin: 0 0 1.5em; } figure img { max-width: 32%; margin-right: 1%; }
.same { color: #17692b; } .differs { color: #9c1f0c; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #1c1c1c; }
  td, th { border-color: #3a3a3a; } tr.differs { background: #4a201a; }
  .same { color: #7fd494; } .differs { color: #ff9a86; } }
"""


def html_page(report: Mapping[str, Any], images: Images) -> str:
    """Return one page without scripts or links: verdict, images, and the table of layers."""
    escape = html.escape
    kind = "same" if report["same"] else "differs"
    title = f"{report['family']} {report['variant']}, {report['precision']}"
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<meta name='generator' content='{NAME}'>",
        "<meta name='viewport' content='width=device-width'>",
        f"<title>Parity: {escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>Parity: {escape(title)}</h1>",
        f"<p>{escape(report['checkpoint'])} against {escape(report['reference'])}"
        f"{'' if report['exact'] else ' (float32 alone)'}</p>",
        f"<p class='{kind}'><strong>{escape(report['verdict'])}</strong></p>",
        "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in report["notes"]) + "</ul>"
        if report["notes"]
        else "",
        "<h2>Masks</h2><p>Ours, the reference's, and both: grey where they agree, blue where only "
        "ours is set, red where only the reference's is.</p>",
    ]
    figures = {(entry["item"], entry["stage"]): entry for entry in report["masks"]}
    for key, arrays in images.items():
        entry = figures[key]
        caption = f"{key[1]}, image {key[0]}: IoU {entry['iou']:.6f}"
        shown = "".join(f"<img src='{panel}' alt=''>" for panel in _panels(*arrays))
        parts.append(f"<figure>{shown}<figcaption>{escape(caption)}</figcaption></figure>")
    parts.append("<h2>Layers and calls</h2><table><tr><th>stage<th>layer or call<th>figures</tr>")
    for stage, name, same, text in _cases(report):
        row = "" if same else " class='differs'"
        parts.append(
            f"<tr{row}><td>{escape(stage)}<td>{escape(name)}<td class='n'>{escape(text)}</tr>"
        )
    parts.append("</table></body></html>\n")
    return "\n".join(parts)
