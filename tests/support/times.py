"""Where the time of the tests goes: a table by folder and by file, for ``pytest --times``."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator, Iterable
from typing import Any

import pytest

ROWS = 40


def _cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    return sum(os.times()[:4])


class Times:
    """Notes CPU seconds in the report of each phase of a test, and sums them up at the end.

    Reports travel from the processes of pytest-xdist to the one that prints.
    """

    def __init__(self) -> None:
        self._before = _cpu_seconds()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Begin to count."""
        self._before = _cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        """Add the seconds since the phase before."""
        report = yield
        now = _cpu_seconds()
        report.cpu = now - self._before
        self._before = now
        return report

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the tables."""
        reports = [
            report
            for found in terminalreporter.stats.values()
            for report in found
            if hasattr(report, "cpu")
        ]
        terminalreporter.section("where the time goes")
        for line in table(reports):
            terminalreporter.line(line)


def table(reports: Iterable[Any]) -> list[str]:
    """Return the lines: seconds of CPU and of the clock, and tests, by folder and by file."""
    rows: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0, 0])
    for report in reports:
        file = report.nodeid.partition("::")[0]
        folder = "/".join(file.split("/")[:2])
        for key in (("", "all"), ("folder", folder), ("file", file)):
            row = rows[key]
            row[0] += report.cpu
            row[1] += report.duration
            row[2] += report.when == "call"
    lines = [f"{'CPU s':>8} {'clock s':>8} {'tests':>6}"]
    for kind in ("", "folder", "file"):
        found = sorted(
            ((row, name) for (of, name), row in rows.items() if of == kind), reverse=True
        )
        for (cpu, clock, count), name in found[:ROWS]:
            lines.append(f"{cpu:8.1f} {clock:8.1f} {count:6.0f}  {name}")
        lines.append("")
    return lines[:-1]
