"""Measure models that are made for CPUs, and SAM-HQ, beside the engines that people run them with.

    python benchmarks/light_models.py FOLDER --prepare    # packages, weights and graphs; one round
    python benchmarks/light_models.py FOLDER              # measure, and print one table a workload

FOLDER becomes a virtual environment beside the one of the caller, whose packages it has too: with
sam_rlx and PyTorch there, the rest is installed. Engines alternate within a group of rows:
MobileSAM's encoder; EdgeTAM's frame and that of SAM 2.1 T; an image of SAM-HQ; a click on it. All
weights are random numbers of the released sizes, which take the same time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import client
import report
import run
from rivals import pytorch_edgetam
from workloads import EDGETAM, MOBILE_SAM, SAM_HQ, SAM_HQ_CLICK, all_workloads, light_workloads

OURS = ("sam_rlx", "sam_rlx-bfloat16", "sam_rlx-int8")
EXPORTED = ("openvino", "openvino-int8", "onnxruntime", "onnxruntime-int8")
VIDEO = "video-1"  # of SAM 2.1 T
# Rows that alternate: engines of each workload.
GROUPS: tuple[dict[str, tuple[str, ...]], ...] = (
    {MOBILE_SAM: (*OURS, "pytorch", *EXPORTED)},
    {EDGETAM: ("sam_rlx", "sam_rlx-int8", "pytorch-edgetam"), VIDEO: ("sam_rlx", "sam_rlx-int8")},
    {SAM_HQ: ("sam_rlx", "sam_rlx-int8", "pytorch")},
    {SAM_HQ_CLICK: ("sam_rlx", "pytorch")},
)
WITH_NEEDS = ("openvino", "nncf", "onnx", "onnxruntime")
# What these need is PyTorch and timm.
ALONE = ("mobilesam-mirror", "segment-anything-hq")
READY = "light_models.txt"


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="environment, made where it is not there")
    parser.add_argument(
        "--prepare", action="store_true", help="one round, whose times do not count"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", help="workloads")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    return parser.parse_args()


def inside(folder: Path) -> bool:
    """Tell whether this process runs in the environment."""
    return Path(sys.prefix).resolve() == folder.resolve()


def make(folder: Path) -> Path:
    """Make the environment unless it is there; return its Python."""
    python = folder.resolve() / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if (folder / READY).exists():
        return python
    venv.create(folder, with_pip=True, clear=folder.exists())
    own = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    )
    # Folders of the caller's environment stand behind, with what their own .pth files add.
    lines = [f"import site; site.addsitedir({path!r})" for path in sys.path if "-packages" in path]
    Path(own.strip(), "caller.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *WITH_NEEDS], check=True)
    subprocess.run([*pip, "--no-deps", *ALONE], check=True)
    edgetam = folder.resolve() / pytorch_edgetam.FOLDER.name
    subprocess.run([*pip, "--no-deps", "--target", edgetam, "edgetam-dimos"], check=True)
    (folder / READY).write_text("made by light_models.py\n", encoding="utf-8")
    return python


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure all groups, one after the other."""
    table = {**light_workloads(), VIDEO: all_workloads("vit_b", False)[VIDEO]}
    groups = [
        {name: engines for name, engines in group.items() if name in (options.only or table)}
        for group in GROUPS
    ]
    for name in (name for group in groups for name in group):
        client.export([table[name]], onnx=name == MOBILE_SAM)
    results = []
    for group in filter(None, groups):
        lacking, pairs = {}, []
        for name, engines in group.items():
            ready, lacking[name] = run.installed(list(engines), name)
            pairs += [(engine, table[name]) for engine in ready]
        print(f"{', '.join(group)}: {len(pairs)} rows", file=sys.stderr, flush=True)
        warmup = 0 if options.prepare else 1
        rows = client.interleave_pairs(pairs, options.threads, options.rounds, warmup)
        for name in group:
            own = [
                row for row, (_, workload) in zip(rows, pairs, strict=True) if workload.name == name
            ]
            results.append(run.result_of(table[name], own, lacking[name]))
    return {
        "machine": run.machine(),
        "threads": options.threads,
        "rounds": options.rounds,
        "quick": options.prepare,
        "skipped": {},
        "workloads": results,
    }


def main() -> None:
    """Run the command, in the environment."""
    options = arguments()
    if not inside(options.folder):
        python = make(options.folder)
        sys.exit(subprocess.run([python, *sys.argv], check=False).returncode)
    if options.prepare:
        options.rounds = 1
    result = measure(options)
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    print(report.render(result))
    sys.exit(any(row["failure"] for each in result["workloads"] for row in each["rows"]))


if __name__ == "__main__":
    main()
