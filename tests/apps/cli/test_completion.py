"""Completion in shells: what a real bash, zsh and fish offer is what the parser knows."""

import os
import pty
import select
import shutil
import subprocess
import time

import pytest
from sam_rlx.apps.cli import build_parser, main
from sam_rlx.apps.cli.completion import script, table

BASH = shutil.which("bash")
needs_bash = pytest.mark.skipif(BASH is None, reason="needs bash")
COMMANDS = table(build_parser())


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "sam-rlx"
    path.write_text(script("bash", build_parser()))
    return path


def offered(file, lines):
    """Return what bash completes the last word of each line to; the words are as it splits them."""
    calls = "".join(
        f"COMP_WORDS=({' '.join(repr(word) for word in words)}) COMP_CWORD={len(words) - 1}; "
        '_sam_rlx; echo "${COMPREPLY[@]}"\n'
        for words in lines
    )
    text = f"set -u\nsource {file}\n{calls}"
    ran = subprocess.run([BASH, "--norc", "-c", text], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return [line.split() for line in ran.stdout.split("\n")[:-1]]


def test_the_table_is_the_parsers():
    names = [command.name for command in COMMANDS]
    assert names[0] == ""
    assert {"segment", "batch", "serve", "convert", "completion"} <= set(names)
    assert COMMANDS[0].words == tuple(names[1:])
    segment = COMMANDS[names.index("segment")]
    assert all(option.help for option in segment.options)
    precision = next(each for each in segment.options if "--precision" in each.names)
    assert precision.choices == ("float32", "bfloat16", "int8")
    assert precision.takes_value
    assert not next(each for each in segment.options if "--help" in each.names).takes_value


@needs_bash
def test_bash_offers_commands_and_options(file):
    lines, wanted = [], []
    for command in COMMANDS:
        begin = ["sam-rlx", *([command.name] if command.name else [])]
        names = [name for option in command.options for name in option.names]
        lines += [[*begin, "--"], [*begin, "-h"]]
        wanted += [[name for name in names if name.startswith("--")], ["-h"]]
        for option in command.options:
            if option.takes_value:
                lines += [[*begin, option.names[0], ""], [*begin, option.names[0], "=", ""]]
                wanted += 2 * [list(option.choices)]
    lines += [["sam-rlx", ""], ["sam-rlx", "se"], ["sam-rlx", "completion", "z"]]
    wanted += [list(COMMANDS[0].words), ["segment", "serve"], ["zsh"]]
    lines += [["sam-rlx", "batch", "--engine", "="], ["sam-rlx", "info", ""], ["sam-rlx", "x", "-"]]
    wanted += [["local", "ray"], [], []]
    assert offered(file, lines) == wanted


def typed(file, folder, keys):
    """Return what an interactive bash shows after keys, in a folder."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        environment = {"PATH": os.environ["PATH"], "TERM": "dumb", "PS1": "$ ", "HOME": str(folder)}
        os.execve(BASH, ["bash", "--norc", "--noprofile", "-i"], environment)
    shown, end = b"", time.monotonic() + 60
    os.write(terminal, f"source '{file}'; echo ready\n".encode())
    waits_for, then = b"\r\nready", keys.encode() + b"\t"
    try:
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.5)[0]:
                shown += os.read(terminal, 4096)
            elif waits_for in shown and then:
                shown = b""
                os.write(terminal, then)
                waits_for, then = b"", b""
            elif not then and shown:
                return shown.decode()
    finally:
        os.write(terminal, b"\x03\x04")
        os.close(terminal)
        os.waitpid(pid, 0)
    raise AssertionError(f"bash did not answer: {shown!r}")


def has_terminals() -> bool:
    """Whether there are pseudo-terminals: a root without devices has none."""
    try:
        ends = pty.openpty()
    except OSError:
        return False
    for end in ends:
        os.close(end)
    return True


@needs_bash
@pytest.mark.skipif(not has_terminals(), reason="needs pseudo-terminals")
def test_keys_in_a_terminal(file, tmp_path):
    """One command, an option, a choice, and the name of a file with a space in it."""
    (tmp_path / "my photo.jpg").touch()
    assert "sam-rlx everything " in typed(file, tmp_path, "sam-rlx every")
    assert "--precision bfloat16 " in typed(file, tmp_path, "sam-rlx segment --precision b")
    assert r"my\ photo.jpg" in typed(file, tmp_path, "sam-rlx segment my")
    assert r"--model my\ photo.jpg" in typed(file, tmp_path, "sam-rlx segment --model my")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_command_prints_what_the_shell_can_read(shell, tmp_path, capsys):
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert text == script(shell, build_parser())
    assert text.isascii()
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    path = tmp_path / "script"
    path.write_text(text)
    option = "--no-execute" if shell == "fish" else "-n"
    ran = subprocess.run([shell, option, path], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_offers_what_the_table_has(tmp_path):
    path = tmp_path / "script.fish"
    path.write_text(script("fish", build_parser()))
    lines = {"sam-rlx se": {"segment", "serve"}, "sam-rlx batch --engine ": {"local", "ray"}}
    for line, wanted in lines.items():
        command = f"source {path}; complete -C '{line}'"
        ran = subprocess.run(["fish", "-c", command], capture_output=True, text=True, timeout=60)
        assert {row.split("\t")[0] for row in ran.stdout.splitlines()} == wanted
