"""Pages of the documentation: their blocks, and the programs that these make."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
PAGES += sorted(
    path for folder in ("", "cookbook", "develop") for path in (ROOT / "docs" / folder).glob("*.md")
)
COOKBOOK = [page for page in PAGES if page.parent == ROOT / "docs" / "cookbook"]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A job: a name, and the program that does it.
JOB = re.compile(r"^<!-- job: (.+) -->\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    """Return the blocks of a language."""
    return [text for kind, text in BLOCK.findall(page.read_text()) if kind == language]


def commands(page: Path) -> list[str]:
    """Return the lines that run ``sam-rlx``."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("sam-rlx ")]


def program(page: Path) -> str:
    """Return the Python blocks of a page as one program, each line where it is on the page.

    A block whose first line says what it needs, beyond the package, is left out.
    """
    text = page.read_text()
    lines = [""] * len(text.splitlines())
    for match in BLOCK.finditer(text):
        assert match[1] != "py", "a block that is not run begins with '# needs'"
        if match[1] != "python" or match[2].startswith("# needs "):
            continue
        first = text.count("\n", 0, match.start(2))
        block = match[2].splitlines()
        lines[first : first + len(block)] = block
    return "\n".join(lines)


def jobs(page: Path) -> dict[str, str]:
    """Return the jobs of a page by their names."""
    return dict(JOB.findall(page.read_text()))
