"""Measure sam_rlx and every rival that is installed, and print one table for each workload.

Example: ``python benchmarks/run.py --threads 2 --rounds 5 --json result.json``

The first table is that of the README: ours in each precision beside the fastest rival of equal or
higher precision.

Videos take minutes a round: ``--workloads hiera-tiny video-1`` runs what it names.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import client
import report
import rivals
from workloads import NAMES, ROOT, Workload, all_workloads

VERSIONED = (
    "sam_rlx",
    "torch",
    "onnxruntime",
    "openvino",
    "nncf",
    "transformers",
    "segment_anything",
    "sam2",
    "rf-sam-2",
    "sam3",
    "mobilesam-mirror",
    "segment-anything-hq",
    "numpy",
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser.add_argument("--threads", type=int, default=cores or 1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=1, help="runs that do not count, for each")
    parser.add_argument("--workloads", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument(
        "--engines", nargs="+", choices=list(rivals.ENGINES), default=list(rivals.ENGINES)
    )
    variants = ["tiny", "vit_b", "vit_l", "vit_h"]
    parser.add_argument("--variant", default=None, choices=variants, help="of SAM, version 1")
    parser.add_argument("--quick", action="store_true", help="a tiny network: does it all run?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    return parser.parse_args()


def installed(names: list[str], workload: str | None = None) -> tuple[list[str], dict[str, str]]:
    """Split engines into those that can run and those that cannot, with the reason."""
    missing = {name: rivals.missing_packages(name, workload) for name in names}
    ready = [name for name in names if not missing[name]]
    return ready, {name: f"needs {', '.join(gone)}" for name, gone in missing.items() if gone}


def write_files(engines: list[str], workloads: list[Workload]) -> None:
    """Make the checkpoints and the ONNX files, in a process that ends before the measurement."""
    onnx = any(getattr(rivals.adapter(engine), "ONNX", False) for engine in engines)
    if not client.export(workloads, onnx):
        print("run.py: not every checkpoint and ONNX file could be made", file=sys.stderr)


def able_engines(engines: list[str], workload: Workload) -> tuple[list[str], dict[str, str]]:
    """Engines that can run a workload, and why others cannot that it was made for."""
    able = [e for e in engines if workload.name in rivals.adapter(e).WORKLOADS]
    if not workload.ours.exists():
        maker = "PyTorch and upstream are" if workload.family == "sam3" else "safetensors is"
        reason = f"needs {workload.ours}, which is made where {maker} installed"
        return [], dict.fromkeys(able, reason)
    return installed(able, workload.name)


def cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """Return the commit of this checkout; "unknown" without git, or outside of a checkout."""
    if not (ROOT / ".git").exists():  # git would go on to look in the folders above
        return "unknown"
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def machine() -> dict[str, Any]:
    """Return what a speed claim has to name."""
    versions = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "cpu": cpu_name(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "versions": versions,
    }


def heading(title: str, threads: int) -> str:
    """Return the heading of a table that is measured here and now."""
    return report.heading(title, machine(), threads)


def measured_peak(threads: int) -> float | None:
    """GFLOP/s of float32 multiply-adds, if the testing module is there and measures it."""
    if importlib.util.find_spec("sam_rlx") is None:
        return None
    if importlib.util.find_spec("sam_rlx._testing") is None:
        return None
    process = client.python(["-m", "peak", str(threads)], {}, stdout=subprocess.PIPE, text=True)
    shown, _ = process.communicate()
    if process.returncode != 0:
        print("run.py: the peak of the machine could not be measured", file=sys.stderr)
        return None
    return float(shown)


def result_of(
    workload: Workload, rows: list[client.Measurement], lacking: dict[str, str]
) -> dict[str, Any]:
    """Return one workload of the result; `lacking`: why engines have no row."""
    return {
        **workload.to_json(),
        "gflop": workload.gflop(),
        "about": workload.about(),
        "skipped": lacking | {row.engine: row.unable for row in rows if row.unable},
        "rows": [asdict(row) for row in rows if not row.unable],
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    variant = options.variant or ("tiny" if options.quick else "vit_b")
    table = all_workloads(variant, options.quick)
    chosen = [table[name] for name in options.workloads]
    engines, skipped = installed(options.engines)
    if importlib.util.find_spec("safetensors") is not None:  # which all files are made with
        write_files(engines, chosen)
    peak = measured_peak(options.threads)
    results = []
    for workload in chosen:
        able, lacking = able_engines(engines, workload)
        print(f"{workload.name}: {', '.join(able) or 'no engine'}", file=sys.stderr, flush=True)
        rows = client.interleave(able, workload, options.threads, options.rounds, options.warmup)
        results.append(result_of(workload, rows, lacking))
    return {
        "machine": machine(),
        "threads": options.threads,
        "rounds": options.rounds,
        "quick": options.quick,
        "peak_gflops": peak,
        "skipped": skipped,
        "workloads": results,
    }


def main() -> None:
    options = arguments()
    result = measure(options)
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    print(report.render(result))
    failed = [row for w in result["workloads"] for row in w["rows"] if row["failure"]]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
