"""``sam-rlx serve`` as a process: what it prints, how it ends."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from sam_rlx.apps import cli
from support import HANG_SECONDS

Serve = Callable[..., tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server on a free port; the process and the address of its page."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "sam_rlx", "serve", "--port", "0", "--threads", "1"]
        process = subprocess.Popen(
            [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.match(r"page: +(http://\S+)", line):
                return process, found[1]
        raise AssertionError(process.communicate(timeout=HANG_SECONDS)[1])

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=HANG_SECONDS)


def test_it_serves_until_ctrl_c(serve: Serve) -> None:
    process, address = serve()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", address)
    with urllib.request.urlopen(address, timeout=HANG_SECONDS) as answer:
        assert b"<html" in answer.read()
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(address.partition("?")[0], timeout=HANG_SECONDS)
    with refused.value:
        assert refused.value.code == 403
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, err
    assert out.endswith("ended\n")
    assert err == ""


def test_a_taken_port_is_an_error(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    _, address = serve()
    port = re.search(r":(\d+)/", address)
    assert port is not None
    assert cli.main(["serve", "--port", port[1]]) == 1
    assert "in use" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["a" * 70 + ".b", "\udcff", "256.1.1.1", "a\0b"])
def test_what_is_no_address_is_an_error(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", "--port", "0", "--host", host]) == 1
    assert capsys.readouterr().err.startswith("sam-rlx serve: ")


def test_missing_packages_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert cli.main(["serve"]) == 1
    assert 'pip install "sam_rlx[serve]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--port", "70000"], ["--token", "short"], ["--model", "sam-nano"] * 2]
)
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code: object = cli.main(["serve", "--port", "0", *words])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert "expected" in capsys.readouterr().err
