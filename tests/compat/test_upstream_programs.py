"""The runner of programs of the package index: results, rows, and what ends in an error."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
META = BENCHMARKS / "programs" / "meta"
TABLE = tomllib.loads((META / "programs.toml").read_text(encoding="utf-8"))
pytestmark = [pytest.mark.source_tree]


@pytest.fixture(scope="module")
def runner() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("upstream_programs")
    mine = ("upstream_programs", "transformers_programs", "programs")
    for name in [n for n in sys.modules if n.startswith(mine)]:
        del sys.modules[name]


def written(path: Path, failed: dict[str, str] | None = None, **arrays: Any) -> Path:
    np.savez(path, seconds=2.0, loading=1.0, failed=json.dumps(failed or {}), **arrays)
    return path


def test_masks_are_compared_one_by_one(runner: Any, tmp_path: Path) -> None:
    masks = np.zeros((3, 20, 30), bool)
    masks[0, 5:15, 5:25] = masks[1, :10, :10] = True
    other = masks.copy()
    other[1, 0, 0] = False
    a = written(tmp_path / "a.npz", masks=masks, scores=np.array([0.5, 1.0]))
    compare = runner.comparison.compared
    assert compare(a, a) == (1, True)
    b = written(tmp_path / "b.npz", masks=other, scores=np.array([0.5, 1.0]))
    assert compare(a, b) == (99 / 100, True)  # one pixel
    other[1, 0, 1] = False
    b = written(tmp_path / "b.npz", masks=other, scores=np.array([0.5, 1.0]))
    assert compare(a, b) == (98 / 100, False)
    b = written(tmp_path / "b.npz", masks=masks[:2], scores=np.array([0.5, 1.0]))
    assert compare(a, b) == (0, False)
    b = written(tmp_path / "b.npz", masks=masks, scores=np.array([0.5, 1.01]))
    assert compare(a, b) == (0, False)
    with pytest.raises(ValueError, match="expected results"):
        compare(a, written(tmp_path / "b.npz", masks=masks))
    assert runner.comparison.masks_of(a) == (3, 2)


def test_each_driver_has_a_row_and_each_row_a_driver() -> None:
    drivers = {path.stem for path in META.glob("*.py")} - {"chunks", "shared", "small"}
    assert set(TABLE["programs"]) == drivers
    for program in TABLE["programs"].values():
        assert {"package", "version"} <= set(program)
        assert set(program.get("layers", [])) <= set(TABLE["layers"])
    pinned = [row for rows in TABLE["layers"].values() for row in rows]
    pinned += [row for program in TABLE["programs"].values() for row in program.get("requires", [])]
    assert all(row.count("==") == 1 for row in pinned)


@pytest.fixture
def options(runner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """A cache whose environments are this one, and a driver for each side."""
    monkeypatch.setattr(runner.environments, "make", lambda *_: Path(sys.executable))
    monkeypatch.setattr(runner, "META", tmp_path)
    return argparse.Namespace(
        cache=tmp_path,
        weights=tmp_path,
        repeat=1,
        clock="perf_counter",
        reuse=False,
        resume=False,
        wheel=None,
        verbose=False,
    )


DRIVER = """
import sys
import numpy as np
ours = "sam_rlx.compat.common.take_over" in sys.modules
masks = np.zeros((1, 9, 9), bool)
masks[0, 2:7, 3:6] = True
failed, more = "{}", {}
{change}
np.savez(sys.argv[1], seconds=1.0 if ours else 3.0, loading=0.0, failed=failed, masks=masks, **more)
"""
CHANGES = {
    "pass": ("yes", "", 1.0),
    "masks[0, 0, :2] = ours": ("no", "masks differ", 15 / 17),
    "masks[0, 0, 0] = ours": ("yes", "", 15 / 16),
    "masks[:] = True": ("no", "no mask that is neither empty nor full", 1.0),
    "if ours: failed = '{\"text\": \"E\"}'\nelse: more = {'text': masks}": ("part", "text: E", 1.0),
    "if ours: raise AttributeError('prompt_encoder')": (
        "no",
        "here: AttributeError: prompt_encoder",
        None,
    ),
    "if not ours: import nothing_of_this_name": (
        "no",
        "with Meta's packages: ModuleNotFoundError: No module named 'nothing_of_this_name'",
        None,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_outcomes(runner: Any, options: argparse.Namespace, tmp_path: Path, change: str) -> None:
    (tmp_path / "one.py").write_text(DRIVER.replace("{change}", change))
    found = runner.outcome("one", {"package": "one", "version": "1"}, {}, options)
    runs, note, iou = CHANGES[change]
    assert (found.runs, found.note, found.iou) == (runs, note, iou)
    if runs == "yes":
        assert found.row("one 1") == f"| one 1 | yes | {iou:.4f} | 1 | 3.00 | 1.00 | 3.0 |  |"


def test_a_run_goes_on_where_the_results_of_both_sides_are(
    runner: Any, options: argparse.Namespace, tmp_path: Path
) -> None:
    """Seconds of another clock are no results of this one."""
    program, driver = {"package": "one", "version": "1"}, tmp_path / "one.py"
    driver.write_text(DRIVER.replace("{change}", "pass"))
    first = runner.outcome("one", program, {}, options)
    driver.write_text("raise SystemExit(1)")
    options.resume = True
    assert runner.outcome("one", program, {}, options) == first
    options.clock = "process_time"
    assert runner.outcome("one", program, {}, options).runs == "no"
    options.clock, options.resume = "perf_counter", False
    assert runner.outcome("one", program, {}, options).runs == "no"
    options.resume = True  # results of before a failure are gone
    assert runner.outcome("one", program, {}, options).runs == "no"


def test_the_page_has_all_programs(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["upstream_programs.py", "cache", "--page", "--light"])
    with pytest.raises(SystemExit, match="2"):
        runner.main()


def test_what_cannot_be_installed_says_so_in_the_words_of_pip(
    runner: Any, options: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Path:
        raise runner.environments.InstallError("ERROR: No matching distribution found for one==1")

    monkeypatch.setattr(runner.environments, "make", refuse)
    found = runner.outcome("one", {"package": "one", "version": "1"}, {}, options)
    assert found.runs == "no"
    assert found.note.endswith("No matching distribution found for one==1")


@pytest.mark.parametrize("fails", [False, True])
def test_steps_that_transformers_cannot_run_are_told(
    runner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    module = importlib.import_module("transformers_programs")
    mask = np.zeros((1, 9, 9), bool)
    mask[0, 2:7, 3:6] = True

    def run(way: str, _job: Any, scratch: Path) -> Path:
        failed = {"sam.Sam.step": "ImportError: nms"} if fails and way == "transformers" else {}
        arrays = {} if failed else {"sam.Sam.step.0": mask}
        return written(scratch / f"{way}.npz", failed, **arrays)

    monkeypatch.setattr(module, "convert", lambda *_: None)
    monkeypatch.setattr(module, "run", run)
    line, is_good = module.row("sam", tmp_path, "perf_counter")
    assert is_good is not fails
    assert ("ImportError: nms" if fails else "| 1.0000 |") in line


def test_the_table_is_written_between_its_marks(runner: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    begin, end = runner.tables.marks(runner.MARK)
    page.write_text(f"before\n{begin}old\n{end}after\n")
    runner.tables.write(page, runner.MARK, runner.HEAD, ["| one 1 | yes |"])
    before, _, head, line, row, _, after = page.read_text().splitlines()
    assert (before, head, row, after) == ("before", runner.HEAD, "| one 1 | yes |", "after")
    assert line.count("---") == runner.HEAD.count("|") - 1
    assert begin in runner.PAGE.read_text(encoding="utf-8")


def test_unknown_names_are_refused(runner: Any) -> None:
    asked = argparse.Namespace(only=["nothing"], light=False)
    with pytest.raises(SystemExit, match="expected names of"):
        runner.chosen(TABLE, asked)
    light = runner.chosen(TABLE, argparse.Namespace(only=[], light=True))
    assert 5 < len(light) < len(TABLE["programs"])


def test_stubs_can_be_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        sys, "argv", ["driver", str(tmp_path / "out.npz"), str(tmp_path), "1", "perf_counter"]
    )
    monkeypatch.syspath_prepend(META)
    shared = importlib.import_module("shared")
    try:
        shared.stub("of_nobody.util.inference", Model=int)
        module: ModuleType = importlib.import_module("of_nobody.util.inference")
        assert module.Model is int
        assert importlib.util.find_spec("of_nobody") is not None
    finally:
        for name in [n for n in sys.modules if n == "shared" or n.startswith("of_nobody")]:
            del sys.modules[name]
