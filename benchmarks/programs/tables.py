"""Tables of results between two marks of a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def row(cells: Sequence[str]) -> str:
    """Return a row of a table."""
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def marks(name: str) -> tuple[str, str]:
    """Return the lines before and behind the table of a name."""
    return f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"


def write(page: Path, name: str, head: str, rows: Sequence[str]) -> None:
    """Put a table between the marks of its name in a page."""
    begin, end = marks(name)
    before, rest = page.read_text(encoding="utf-8").split(begin)
    lines = [head, "|" + " --- |" * (head.count("|") - 1), *rows]
    after = rest.split(end)[1]
    page.write_text(before + begin + "\n".join(lines) + "\n" + end + after, encoding="utf-8")


def closing(rows: Sequence[str], lost: Sequence[str]) -> int:
    """Print how many rows are as expected, and the names of the others; return the exit status."""
    print(f"{len(rows) - len(lost)} of {len(rows)} as expected" + "".join(f", {n}" for n in lost))
    return 1 if lost else 0
