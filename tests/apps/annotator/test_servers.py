"""Where a server of this user has a project open: known to this user alone, and never guessed."""

from __future__ import annotations

import os
import platform
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from sam_rlx.apps.annotator.lock import Holder
from sam_rlx.apps.annotator.servers import address_of, announced

PAGE = "http://127.0.0.1:8765/p/0123456789abcdef"
HOLDER = Holder(platform.node(), os.getpid(), PAGE)
BASE = "http://127.0.0.1:8765/0123456789abcdef-token"


def test_the_address_of_a_project(tmp_path: Path) -> None:
    assert address_of(tmp_path, HOLDER) == ""
    with announced(tmp_path, 8765, BASE):
        (file,) = (tmp_path / "servers").iterdir()
        if os.name != "nt":
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert address_of(tmp_path, HOLDER) == f"{BASE}/p/0123456789abcdef"
        assert "/p/" not in str(HOLDER)
        for other in (
            replace(HOLDER, pid=HOLDER.pid + 1),
            replace(HOLDER, host="elsewhere"),
            *(replace(HOLDER, address=address) for address in ODD),
        ):
            assert address_of(tmp_path, other) == "", other
        # The token goes to the server that said it, whatever a lock says.
        elsewhere = replace(HOLDER, address=PAGE.replace("127.0.0.1", "example.org"))
        assert address_of(tmp_path, elsewhere) == f"{BASE}/p/0123456789abcdef"
    assert address_of(tmp_path, HOLDER) == ""
    assert list((tmp_path / "servers").iterdir()) == []


ODD = (
    "",
    "http://127.0.0.1:8765",
    "http://127.0.0.1:8765/p/0123456789abcdef/..",
    "http://127.0.0.1:8765/p/../../0123456789abcdef",
    "http://127.0.0.1:8766/p/0123456789abcdef",
    "http://127.0.0.1:99999999/p/0123456789abcdef",
    "http://[/p/0123456789abcdef",
    "javascript:alert(1)",
)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"[]",
        b"null",
        b'{"pid": 1}',
        b"[" * 9999,
        b"\xff",
        b'{"pid": PID, "address": "ftp://a"}',
    ],
)
def test_a_file_that_says_something_else(tmp_path: Path, said: bytes) -> None:
    (tmp_path / "servers").mkdir()
    file = tmp_path / "servers" / "8765.json"
    file.write_bytes(said.replace(b"PID", str(os.getpid()).encode()))
    assert address_of(tmp_path, HOLDER) == ""
    with announced(tmp_path, 8765, BASE):  # that of a server that was killed
        assert address_of(tmp_path, HOLDER) != ""


def test_where_nothing_can_be_written_nobody_is_told(tmp_path: Path) -> None:
    (tmp_path / "servers").write_text("a file")
    with announced(tmp_path, 8765, BASE):
        assert address_of(tmp_path, HOLDER) == ""
