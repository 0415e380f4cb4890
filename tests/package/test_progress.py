"""Bars on a terminal: units, and a clock that goes on while nothing is reported."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import sam_rlx
from sam_rlx._internal import progress
from sam_rlx.apps import cli
from sam_rlx.apps.cli import demo
from support import HANG_SECONDS


class Terminal(io.StringIO):
    """A terminal that counts how often something is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = 0
        self.changed = threading.Condition()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self.changed:
            self.drawn += bool(text.strip())
            self.changed.notify_all()
        return super().write(text)

    def wait_for(self, count: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.drawn >= count, HANG_SECONDS)


@pytest.fixture
def attach(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Make a terminal of standard error, from within a test: pytest sets it between the phases."""

    def attach() -> Terminal:
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(progress, "_INTERVAL", 0.01)
        return terminal

    return attach


def test_a_clock_moves_while_the_work_says_nothing(attach: Callable[[], Terminal]) -> None:
    terminal = attach()
    with progress.terminal_clock("encoding"):
        assert terminal.wait_for(4)
    assert "encoding 00:0" in terminal.getvalue()


def test_a_bar_moves_before_the_first_report(attach: Callable[[], Terminal]) -> None:
    terminal = attach()
    with progress.terminal_bar("point", text="encoding") as report:
        assert report is not None
        assert terminal.wait_for(4)
        assert "encoding" in terminal.getvalue()
        report(16, 64)
        assert terminal.wait_for(terminal.drawn + 2)
    last = terminal.getvalue().split("\r")[-3]
    assert "16/64" in last
    assert " point/s" in last
    assert "encoding" not in last
    assert not any(thread.name.endswith("(draw)") for thread in threading.enumerate())


def test_no_terminal_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = io.StringIO()
    monkeypatch.setattr(sys, "stderr", quiet)
    with progress.terminal_bar("point") as report, progress.terminal_clock("encoding"):
        assert report is None
    assert quiet.getvalue() == ""


def test_everything_counts_points(attach: Callable[[], Terminal], model: sam_rlx.Model) -> None:
    terminal = attach()
    image = sam_rlx.io.read_image(demo.IMAGE)
    sam_rlx.MaskGenerator(model, points_per_side=4).generate(image, progress=True)
    text = terminal.getvalue()
    assert "encoding: 0 point [" in text
    assert "batch" not in text


def test_lines_and_bars_do_not_mix(
    attach: Callable[[], Terminal],
    monkeypatch: pytest.MonkeyPatch,
    tiny_checkpoint: Path,
    tmp_path: Path,
) -> None:
    """With standard output on the same terminal, each line stands alone."""
    terminal = attach()
    monkeypatch.setattr(sys, "stdout", terminal)
    words = [str(demo.IMAGE), str(demo.IMAGE.with_name("coffee.jpg"))]
    words += ["--box", "5,5,90,90", "--output", str(tmp_path), "--model", str(tiny_checkpoint)]
    assert cli.main(["segment", *words]) == 0
    lines = terminal.getvalue().replace("\r", "\n").splitlines()
    assert any(line.startswith("2 of 2 images done") for line in lines)
    assert sum(line.startswith(str(demo.IMAGE)) for line in lines) == 1
    assert any("image/s" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["info", "sam-nano"], "reading 00:0"),
        (["convert", "sam-nano", "{folder}/a.safetensors"], "reading"),
        (["quantize", "sam-nano", "{folder}/a.gguf", "--type", "Q4_0"], "quantizing"),
        (["demo", "--output", "{folder}/a.png"], "encoding 00:0"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_long_steps_of_commands_show_life_on_a_terminal_alone(
    attach: Callable[[], Terminal],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    shown: str,
) -> None:
    terminal = attach()
    command = [word.format(folder=tmp_path) for word in words]
    assert cli.main(command) == 0
    assert shown in terminal.getvalue()
    quiet = io.StringIO()
    monkeypatch.setattr(sys, "stderr", quiet)
    assert cli.main(command) == 0
    assert quiet.getvalue() == ""
