"""The page of the models lists those that there are, and its command measures them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sam_rlx import _core
from sam_rlx._internal.weights.sources import PACKAGED
from support import HANG_SECONDS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "which_model.md"
pytestmark = pytest.mark.source_tree


def test_the_page_has_every_released_file() -> None:
    """A row that changes is written anew by the command that the page names."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for row in _core.releases():
        rows = [line for line in lines if line.startswith(f"| `{row['variant']}` |")]
        line = next(line for line in rows if f"| `{row['file']}` |" in line)
        for word in (row["purpose"], row["license"], row["source"]):
            assert word in line
        assert f" {row['bytes'] / 1e6:,.0f} " in line
    assert all(any(f"`{name}`" in line for line in lines) for name in PACKAGED)


@pytest.mark.bench
def test_the_command_measures_and_writes(tmp_path: Path) -> None:
    page, kept = tmp_path / "page.md", tmp_path / "kept.json"
    marks = [f"<!-- {name} -->\nold\n<!-- end of {name} -->\n" for name in ("models", "costs")]
    page.write_text("\n".join(["# Title\n", *marks, "rest\n"]))
    words = ["--only", "sam3-nano", "--rounds", "1", "--kept", kept, "--page", page]
    command = [sys.executable, ROOT / "benchmarks" / "which_model.py", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    rows = json.loads(kept.read_text())["rows"]
    assert list(rows) == ["sam3-nano"]
    weights, costs, _, commit = rows["sam3-nano"]
    assert weights == "packaged"
    for image, click, frame, memory in costs.values():
        assert min(image, click, frame) > 0
        assert memory > 10_000_000
    text = page.read_text()
    if commit.endswith("-dirty"):
        assert done.returncode == 1
        assert "checkout without changes" in done.stderr
        assert "\nold\n" in text
        return
    assert done.returncode == 0, done.stderr
    assert text.startswith("# Title\n\n<!-- models -->\n\n| model | what for |")
    assert "| `sam3-nano` |" in text
    assert "old" not in text
    assert text.endswith("<!-- end of costs -->\n\nrest\n")
    assert page.with_suffix(".svg").read_text().count("<rect") == 1 + 4 + 4
