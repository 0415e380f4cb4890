"""The notebooks run from top to bottom, and are stored without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    cells = json.loads(path.read_text())["cells"]
    assert cells
    for index, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
            exec(compile("".join(cell["source"]), f"{path.name}[{index}]", "exec"), names)


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "01_image_prompts",
        "02_all_masks",
        "03_text_prompts",
        "04_video",
        "05_parity_and_speed",
    ]
