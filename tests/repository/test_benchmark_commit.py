"""The benchmarks name the commit where there is one, and need no git."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.source_tree

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def run_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("run")


def test_without_git(
    run_module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(run_module, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_module.commit() == "unknown"
    assert run_module.machine()["commit"] == "unknown"


def test_outside_of_a_checkout(
    run_module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(*_: object, **__: object) -> None:
        raise AssertionError("git would look in the folders above")

    monkeypatch.setattr(run_module, "ROOT", tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    assert run_module.commit() == "unknown"


def test_the_commit_is_what_git_says(
    run_module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(run_module, "ROOT", tmp_path)
    git = tmp_path / "git"
    git.write_text(f"#!{sys.executable}\nprint('v1-2-gabc')\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_module.commit() == "v1-2-gabc"
