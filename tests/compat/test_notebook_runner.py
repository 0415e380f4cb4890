"""The runner of upstream's notebooks: what it changes, and that it counts what fails."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

RUNNER = Path(__file__).resolve().parents[2] / "benchmarks" / "upstream_notebooks.py"
pytestmark = [pytest.mark.source_tree]
CELLS = [
    "!pip install something\n%matplotlib inline",
    "from sam2.build_sam import build_sam2\nimport sam3\nroot = f'{sam3_root}/assets'",
    "   \n",
    'sam2_checkpoint = "../checkpoints/sam2.1_hiera_large.pt"\ndevice = "cuda"',
    "assert build_sam2.__module__.startswith('sam_rlx.compat.sam2')\nassert device == 'cpu'\n"
    "assert sam3.__name__ == 'sam_rlx.compat.sam3' and sam2_checkpoint == 'sam2-nano'\n"
    "assert root == os.getcwd() + '/assets'",
    "1 / 0",
]


@pytest.fixture(scope="module")
def upstream_notebooks() -> Any:
    spec = importlib.util.spec_from_file_location("upstream_notebooks", RUNNER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_cells_run_with_other_imports_and_failures_are_counted(
    upstream_notebooks: Any, tmp_path: Path
) -> None:
    cells = [{"cell_type": "code", "source": [cell]} for cell in CELLS]
    cells.insert(1, {"cell_type": "markdown", "source": ["from sam2 import nothing"]})
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    ran, total, errors = upstream_notebooks.notebook(path, tmp_path, 8)
    assert (ran, total) == (4, 5)
    assert len(errors) == 1
    assert errors[0].startswith("cell 5")
    assert "ZeroDivisionError" in errors[0]


def test_calls_of_builders_get_a_packaged_model(upstream_notebooks: Any) -> None:
    changed = upstream_notebooks._changed("m = build_sam3_image_model(bpe_path=p)")
    assert changed == "m = build_sam3_image_model(checkpoint_path=MODEL, bpe_path=p)"
    assert upstream_notebooks._changed("from sam3 import build_sam3_image_model") == (
        "from sam_rlx.compat.sam3 import build_sam3_image_model"
    )
