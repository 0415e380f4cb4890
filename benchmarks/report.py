"""Turn a result file of `run.py` into tables: ``python benchmarks/report.py FILE``."""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

HEAD = ("engine", "seconds, median", "[min, max]", "against best rival", "GFLOP/s", "peak memory")
OURS = "sam_rlx"
REDUCED = ("int8", "bfloat16")
# Results of float32 engines differ by rounding; more than this is another computation.
AGREEMENT = 1e-3
# Upstream keeps memories of videos in bfloat16, which every later frame inherits.
VIDEO_AGREEMENT = 1e-2


def seconds(value: float) -> str:
    return f"{value:.2f}" if value >= 1 else f"{value:.4f}"


def gflops(workload: dict[str, Any], median: float, peak: float | None) -> str:
    if not workload["gflop"]:
        return ""
    speed = workload["gflop"] / median
    return f"{speed:.0f}" + (f" ({100 * speed / peak:.0f} %)" if peak else "")


def precision(engine: str) -> str:
    last = engine.rsplit("-", 1)[-1]
    return last if last in REDUCED else "float32"


def best_rival(engine: str, rows: list[dict[str, Any]]) -> float | None:
    """Median of the fastest other engine that is as exact, or more so."""
    allowed = {"float32", precision(engine)}
    medians = [
        statistics.median(row["seconds"])
        for row in rows
        if row["engine"].split("-")[0] != OURS
        and precision(row["engine"]) in allowed
        and not row["failure"]
    ]
    return min(medians, default=None)


def disagreement(row: dict[str, Any], rows: list[dict[str, Any]]) -> float | None:
    """Largest relative difference from PyTorch's result, at the sampled places."""
    exact = [r for r in rows if r["engine"].startswith("pytorch") and r["sample"]]
    base = next((r for r in exact if precision(r["engine"]) == "float32"), None)
    if base is None or row is base or not row["sample"]:
        return None
    if len(base["sample"]) != len(row["sample"]):
        return float("inf")
    pairs = zip(row["sample"], base["sample"], strict=True)
    scale = max(map(abs, base["sample"])) or 1.0
    return max(abs(a - b) for a, b in pairs) / scale


def cells(workload: dict[str, Any], row: dict[str, Any], peak: float | None) -> list[str]:
    if row["failure"]:
        return [row["engine"], f"failed: {row['failure']}", "", "", "", ""]
    median = statistics.median(row["seconds"])
    rival = best_rival(row["engine"], workload["rows"])
    return [
        row["engine"],
        seconds(median),
        f"[{seconds(min(row['seconds']))}, {seconds(max(row['seconds']))}]",
        f"{rival / median:.2f}x" if rival else "",
        gflops(workload, median, peak),
        f"{row['peak_rss'] / 1e9:.2f} GB",
    ]


def table(workload: dict[str, Any], peak: float | None) -> str:
    """Return one workload as a Markdown table, the fastest engine first."""
    rows = sorted(
        workload["rows"], key=lambda r: statistics.median(r["seconds"]) if r["seconds"] else 1e9
    )
    lines = [HEAD, tuple("---" for _ in HEAD), *(cells(workload, row, peak) for row in rows)]
    gflop = f", {workload['gflop']:.1f} GFLOP" if workload["gflop"] else ""
    text = [f"### {workload['name']} ({workload['variant']}{gflop})", ""]
    if workload["about"]:
        text += [workload["about"], ""]
    text += ["| " + " | ".join(line) + " |" for line in lines]
    allowed = VIDEO_AGREEMENT if workload["name"].startswith("video") else AGREEMENT
    notes = [f"Not measured: {name}, {why}." for name, why in workload["skipped"].items()]
    notes += [
        f"{row['engine']}: result differs from PyTorch's by {difference:.1e} of its scale."
        for row in rows
        if (difference := disagreement(row, rows)) is not None and difference > allowed
    ]
    return "\n".join([*text, "", *notes] if notes else text)


def render(result: dict[str, Any]) -> str:
    """Return a whole result as Markdown."""
    machine, peak = result["machine"], result.get("peak_gflops")
    about = [
        f"{machine['cpu']}, {result['threads']} threads, {result['rounds']} interleaved rounds, "
        f"{machine['date']}, commit {machine['commit']}.",
        "Versions: " + ", ".join(f"{k} {v}" for k, v in machine["versions"].items()) + ".",
    ]
    if peak:
        about.append(
            f"Measured peak of float32 multiply-adds: {peak:.0f} GFLOP/s. Arithmetic is counted as "
            "upstream does it: an engine that needs less can be above the peak."
        )
    about += [f"Not measured: {name}, {why}." for name, why in result["skipped"].items()]
    if result["quick"]:
        about.append("Quick run: sizes too small to compare engines by.")
    tables = [table(workload, peak) for workload in result["workloads"]]
    return "\n\n".join(["\n".join(about), *tables])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="written by run.py --json")
    print(render(json.loads(parser.parse_args().file.read_text())))


if __name__ == "__main__":
    main()
