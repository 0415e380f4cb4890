"""Turn a result file of `run.py` into tables: ``python benchmarks/report.py FILE``."""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any, NamedTuple

HEAD = ("engine", "seconds, median", "[min, max]", "against best rival", "GFLOP/s", "peak memory")
RATIOS = ("workload", "precision", "sam_rlx", "strongest rival", "ratio", "peak memory of sam_rlx")
OURS = "sam_rlx"
PRECISIONS = ("float32", "bfloat16", "int8")  # falling
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


def heading(title: str, machine: dict[str, Any], threads: int) -> str:
    """Return the heading of a table, with what a figure has to name."""
    about = f"{machine['cpu']}, {threads} threads, {machine['date']}, commit {machine['commit']}"
    return f"### {title}: {about}"


def precision(engine: str) -> str:
    last = engine.rsplit("-", 1)[-1]
    return last if last in PRECISIONS else PRECISIONS[0]


def is_ours(engine: str) -> bool:
    return engine.split("-")[0] == OURS


class Rival(NamedTuple):
    """The engine to beat, and its median in seconds."""

    engine: str
    median: float


def best_rival(engine: str, rows: list[dict[str, Any]]) -> Rival | None:
    """Return the fastest other engine of equal or higher precision."""
    allowed = PRECISIONS[: PRECISIONS.index(precision(engine)) + 1]
    rivals = [
        Rival(row["engine"], statistics.median(row["seconds"]))
        for row in rows
        if not is_ours(row["engine"]) and precision(row["engine"]) in allowed and not row["failure"]
    ]
    return min(rivals, key=lambda rival: rival.median, default=None)


def disagreement(row: dict[str, Any], rows: list[dict[str, Any]]) -> float | None:
    """Largest relative difference from PyTorch's result, at the sampled positions."""
    exact = [r for r in rows if r["engine"].startswith("pytorch") and r["sample"]]
    base = next((r for r in exact if precision(r["engine"]) == "float32"), None)
    if base is None or row is base or not row["sample"]:
        return None
    if len(base["sample"]) != len(row["sample"]):
        return float("inf")
    pairs = zip(row["sample"], base["sample"], strict=True)
    scale = max(map(abs, base["sample"])) or 1.0
    return max(abs(a - b) for a, b in pairs) / scale


def cells(workload: dict[str, Any], row: dict[str, Any], peak: float | None) -> tuple[str, ...]:
    if row["failure"]:
        return row["engine"], f"failed: {row['failure']}", "", "", "", ""
    median = statistics.median(row["seconds"])
    rival = best_rival(row["engine"], workload["rows"])
    return (
        row["engine"],
        seconds(median),
        f"[{seconds(min(row['seconds']))}, {seconds(max(row['seconds']))}]",
        f"{rival.median / median:.2f}x" if rival else "",
        gflops(workload, median, peak),
        f"{row['peak_rss'] / 1e9:.2f} GB",
    )


def ratio_cells(workload: dict[str, Any], row: dict[str, Any]) -> tuple[str, ...]:
    median = statistics.median(row["seconds"])
    rival = best_rival(row["engine"], workload["rows"])
    beside = ("-", "-")
    if rival is not None:
        beside = (f"{seconds(rival.median)} s ({rival.engine})", f"{median / rival.median:.2f}")
    return (
        f"{workload['name']} ({workload['variant']})",
        precision(row["engine"]),
        f"{seconds(median)} s",
        *beside,
        f"{row['peak_rss'] / 1e9:.2f} GB",
    )


def markdown(lines: list[tuple[str, ...]]) -> list[str]:
    """Return rows of cells, the head first, as lines of a Markdown table."""
    head, *rest = lines
    return ["| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rest)]


def ratios(result: dict[str, Any]) -> str:
    """Return the table of the README: ours, each precision, beside its strongest rival.

    A ratio below 1 is faster than the rival.
    """
    lines = [
        ratio_cells(workload, row)
        for workload in result["workloads"]
        for row in workload["rows"]
        if is_ours(row["engine"]) and not row["failure"]
    ]
    if not lines:
        return ""
    title = heading("Ratios", result["machine"], result["threads"])
    return "\n".join([title, "", *markdown([RATIOS, *lines])])


def table(workload: dict[str, Any], result: dict[str, Any]) -> str:
    """Return one workload as a Markdown table, the fastest engine first."""
    peak = result.get("peak_gflops")
    rows = sorted(
        workload["rows"], key=lambda r: statistics.median(r["seconds"]) if r["seconds"] else 1e9
    )
    gflop = f", {workload['gflop']:.1f} GFLOP" if workload["gflop"] else ""
    title = f"{workload['name']} ({workload['variant']}{gflop})"
    text = [heading(title, result["machine"], result["threads"]), ""]
    if workload["about"]:
        text += [workload["about"], ""]
    text += markdown([HEAD, *(cells(workload, row, peak) for row in rows)])
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
    tables = [table(workload, result) for workload in result["workloads"]]
    return "\n\n".join(filter(None, ["\n".join(about), ratios(result), *tables]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="written by run.py --json")
    print(render(json.loads(parser.parse_args().file.read_text())))


if __name__ == "__main__":
    main()
