"""Words of the command line: no word, unknown ones, one name for one option."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sam_rlx.apps import cli
from sam_rlx.apps.cli import demo

Run = Callable[..., tuple[int, str, str]]


def test_alone_it_prints_the_help(run_cli: Run) -> None:
    code, told, errors = run_cli()
    assert (code, errors) == (0, "")
    assert told == run_cli("--help")[1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["qantize", "a", "b"], "a command, found 'qantize': did you mean quantize?"),
        (["mask"], "a command, found 'mask'"),
        (["track", "a.mp4", "--boks", "1,2,3,4"], "found --boks: did you mean --box?"),
        (["everything", "a.png", "--points_per_side=4"], "did you mean --points-per-side?"),
        (["batch", "a", "--outptu", "b"], "found --outptu: did you mean --output?"),
        (["info", "--zzz"], "found --zzz\n"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_unknown_words_name_the_nearest(run_cli: Run, words: list[str], expected: str) -> None:
    code, told, errors = run_cli(*words)
    assert (code, told) == (2, "")
    assert expected in errors


def test_values_and_images_may_look_like_options(run_cli: Run, tmp_path: Path) -> None:
    code, _, errors = run_cli("segment", "absent.png", "--text", "--a text", "--output", tmp_path)
    assert (code, "option" in errors) == (1, False)
    code, _, errors = run_cli("info", "--", "--absent")
    assert (code, "--absent" in errors) == (1, True)


def test_an_unknown_model_names_the_nearest(run_cli: Run, tmp_path: Path) -> None:
    words = ["segment", demo.IMAGE, "--point", "3,4", "--output", tmp_path / "a.png"]
    code, _, errors = run_cli(*words, "--model", "sam2_nano")
    assert code == 1
    assert "'sam2_nano': did you mean sam2-nano?" in errors


def test_every_command_with_results_has_output_and_out() -> None:
    _, commands = cli._parsers()
    for name in ("segment", "everything", "track", "batch", "convert", "quantize", "demo"):
        assert {"--output", "--out"} <= set(commands[name]._option_string_actions), name


@pytest.mark.parametrize(
    "words",
    [
        ["sam-nano", "{out}", "--type", "Q4_0"],
        ["sam-nano", "--type", "Q4_0", "{out}"],
        ["--type", "Q4_0", "--output", "{out}", "sam-nano"],
        ["sam-nano", "--out", "{out}", "--type", "Q4_0"],
    ],
    ids=" ".join,
)
def test_the_output_of_quantize(run_cli: Run, tmp_path: Path, words: list[str]) -> None:
    out = tmp_path / "packed.gguf"
    code, told, errors = run_cli("quantize", *[word.format(out=out) for word in words])
    assert code == 0, errors
    assert told.startswith(f"wrote {out}")


@pytest.mark.parametrize("words", [[], ["a.gguf", "--output", "b.gguf"]], ids=["none", "both"])
def test_one_output_is_needed(run_cli: Run, words: list[str]) -> None:
    code, _, errors = run_cli("quantize", "sam-nano", "--type", "Q4_0", *words)
    assert code == 2
    assert "expected OUT or --output, found" in errors
