"""The committed types of the extension are those of the extension."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
from sam_rlx import _core

pytestmark = pytest.mark.source_tree

STUB = Path(__file__).parents[2] / "python" / "sam_rlx" / "_core.pyi"


def _members(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    kinds = (ast.ClassDef, ast.FunctionDef)
    named: dict[str, ast.stmt] = {node.name: node for node in body if isinstance(node, kinds)}
    attributes = [node for node in body if isinstance(node, ast.AnnAssign)]
    return named | {
        node.target.id: node for node in attributes if isinstance(node.target, ast.Name)
    }


def _public(owner: object) -> set[str]:
    return {name for name in vars(owner) if not name.startswith("_")}


def test_the_stub_has_the_names_of_the_extension() -> None:
    members = _members(ast.parse(STUB.read_text()).body)
    assert members.keys() == _public(_core)
    for name, node in members.items():
        if isinstance(node, ast.ClassDef):
            found = {key for key in _members(node.body) if not key.startswith("_")}
            assert found == _public(getattr(_core, name)), name


@pytest.mark.slow  # mypy reads NumPy for half a minute
def test_stubtest_agrees(run_python: Callable[..., object], tmp_path: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("needs mypy")
    allowed = tmp_path / "allowed"
    # The metaclass of pybind11's classes, and the constructors of classes that have none.
    patterns = []
    for name, node in _members(ast.parse(STUB.read_text()).body).items():
        if isinstance(node, ast.ClassDef):
            patterns.append(rf"sam_rlx\._core\.{name}")
            if "__init__" not in _members(node.body):
                patterns.append(rf"sam_rlx\._core\.{name}\.__init__")
    allowed = tmp_path / "allowed"
    allowed.write_text("\n".join(patterns) + "\n")
    options = ("--ignore-disjoint-bases", "--ignore-unused-allowlist")
    found = run_python(
        *("-m", "mypy.stubtest", "sam_rlx._core", "--allowlist", str(allowed), *options)
    )
    assert found.returncode == 0, found.stdout + found.stderr
