"""Folders of transformers' classes: which load, and how far results are from transformers'.

    python benchmarks/transformers_files.py
    python benchmarks/transformers_files.py --released --classes SamModel Sam2VideoModel

Needs transformers 5 and an editable install. Each class is saved by `save_pretrained` with random
weights: whole, in shards, in float16 and bfloat16, at another image size, and in the layouts that
versions of transformers have given it. A row for each folder tells whether it loads, and the
largest ratio of our error to that of transformers in float32, both measured against transformers in
float64: at most 4, but for errors below 1e-6 of the largest value. How wrong float32 is on few
numbers is a matter of luck, so that results with fewer than 64 are judged by the worst of several
runs with weights that differ in their last bit. The exit status is 1 otherwise.
`--released` takes the sizes of the releases (SAM: ViT-B, SAM 2: T) in float32, whole, with Meta's
epsilon where transformers' default is another one (docs/checkpoints.md).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sam_rlx import SamRlxError, _testing

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support import hugging_face_models as hf  # noqa: E402
from support import parity, upstream  # noqa: E402

ROW = "{:<22} {:<12} {:<9} {:>6}  {:<10} {:>7} {:>7}"
Layout = tuple[str, str, Path]  # name, dtype, folder


def layouts(name: str, model: Any, folder: Path) -> Iterator[Layout]:
    """Write the folders of a tiny model."""
    whole = hf.save(model, folder / "whole")
    yield "whole", "float32", whole
    yield "sharded", "float32", hf.save(model, folder / "sharded", shard="300KB")
    for dtype in ("float16", "bfloat16"):
        yield "whole", dtype, hf.save(model, folder / dtype, dtype=dtype)
    if name.startswith("Sam3Tracker"):
        yield "bare", "float32", hf.rename(whole, folder / "bare", hf.BARE_LAYOUT)
    if "Tracker" in name or name == "Sam3VideoModel":
        yield "hub", "float32", hf.rename(whole, folder / "hub", hf.HUB_LAYOUT)


def ratio(name: str, model: Any, layout: Layout) -> float:
    """Return our largest error as a multiple of that of float32, beyond 1e-6 of the scale."""
    _, dtype, folder = layout
    with hf.rounded(model, dtype):
        exact, single = hf.reference(model, "float64"), hf.reference(model, "float32")
        few = any(value.size < parity.FEW for value in exact.values())
        seeds = range(parity.NUDGES if few else 0)
        nudged = [hf.reference(model, "float32", seed) for seed in seeds]
    found, worst = hf.ours(_testing, name, folder), 0.0
    for key, value in exact.items():
        more = [each[key] for each in nudged] if value.size < parity.FEW else []
        one = parity.difference(found[key], value, single[key], key, more)
        beyond = max(0.0, one.error - parity.FLOOR * one.scale)
        worst = max(worst, beyond / one.reference_error if beyond else 0.0)
    return worst


def measure(name: str, model: Any, layout: Layout) -> bool:
    """Print the row of a folder; tell whether it is as it should be."""
    begin = time.perf_counter()
    found, text, good = "refused", "", False
    try:
        worst = ratio(name, model, layout)
        found, text, good = "loads", f"{worst:.2f}", worst <= parity.FACTOR
    except SamRlxError as error:
        found = f"refused: {error}"
    seconds = f"{time.perf_counter() - begin:.1f}"
    row = (name, layout[0], layout[1], hf.model_side(model), found, text, seconds)
    print(ROW.format(*row), flush=True)
    return good


def tiny(name: str) -> bool:
    """Measure the tiny folders of a class."""
    good = True
    with tempfile.TemporaryDirectory() as text:
        model, folder = hf.make(name), Path(text)
        for layout in layouts(name, model, folder):
            good &= measure(name, model, layout)
        other = hf.make(name, hf.side(name, other=True), seed=1)
        good &= measure(name, other, ("whole", "float32", hf.save(other, folder / "other")))
    return good


def released(name: str) -> bool:
    """Measure a folder of the released size."""
    with tempfile.TemporaryDirectory() as text:
        model = hf.make_released(name)
        return measure(name, model, ("whole", "float32", hf.save(model, Path(text) / "whole")))


def refuses(name: str) -> bool:
    """Print the row of a class that is an image encoder alone."""
    import sam_rlx

    with tempfile.TemporaryDirectory() as text:
        folder = hf.save(hf.make(name), Path(text) / "whole")
        try:
            sam_rlx.load_model(folder)
        except SamRlxError as error:
            found = str(error).rpartition(", found ")[2]
            print(ROW.format(name, "whole", "float32", hf.side(name), f"refused: {found}", "", ""))
            return True
    print(ROW.format(name, "whole", "float32", hf.side(name), "loads", "", ""))
    return False


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--released", action="store_true", help="the sizes of the releases")
    parser.add_argument("--classes", nargs="+", help="names of transformers' classes")
    args = parser.parse_args()
    upstream.prepare()
    print(ROW.format("class", "layout", "dtype", "side", "result", "ratio", "seconds"))
    good = True
    for name in args.classes or (hf.CLASSES if args.released else hf.CLASSES + hf.VISION_CLASSES):
        if name in hf.VISION_CLASSES:
            good &= refuses(name)
        else:
            good &= (released if args.released else tiny)(name)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
