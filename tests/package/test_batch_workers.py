"""Worker processes of a batch: what they import, and what they say when they cannot go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sam_rlx.apps.batch import local, on_ray


def _run(*, cwd: Path) -> int:
    """Start a worker that gets no orders, and wait for its end."""
    return subprocess.run(local._command(), cwd=cwd, input=b"", timeout=300, check=False).returncode


def test_a_worker_imports_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of images may have files with the names of modules. Also through a link to it."""
    images, ran = tmp_path / "images", tmp_path / "ran"
    images.mkdir()
    for name in ("queue", "selectors", "numpy", "av"):
        (images / f"{name}.py").write_text(f"open({str(ran)!r}, 'w')\nraise SystemExit(9)\n")
    (tmp_path / "link").symlink_to(images)
    monkeypatch.chdir(images)
    for entry in (".", "", str(images), str(tmp_path / "link")):
        monkeypatch.setattr(sys, "path", [entry, *sys.path])
    assert _run(cwd=images) == 3
    assert not ran.exists()


def test_a_worker_imports_from_where_its_caller_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("käse", "first"):
        monkeypatch.syspath_prepend(name)
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "queue.py").write_text("raise SystemExit(9)\n")
    assert _run(cwd=Path.cwd()) == 9


def test_ray_puts_no_folder_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default it puts the current folder and that of the script before all others."""
    pytest.importorskip("ray", reason="needs ray")
    monkeypatch.chdir(tmp_path)
    config = on_ray._job_config()
    assert config._runtime_env_has_working_dir()
    assert list(reversed(config._py_driver_sys_path)) == local.search_path()
