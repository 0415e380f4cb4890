"""Where the servers of this user answer, with their tokens: for who finds a project held by one.

Each has a file in the state folder, which nobody else can read. A lock of a project, which lies
beside the images, says no token.
"""

import json
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from sam_rlx.apps.annotator.lock import Holder

_MAX_BYTES = 4096
_PROJECT = re.compile(r"/p/[0-9a-f]{16}")


def _file(state: Path, port: int | None) -> Path:
    return state / "servers" / f"{port}.json"


@contextmanager
def announced(state: Path, port: int, address: str) -> Iterator[None]:
    """Say in the state folder where this process answers, `address` with its token, for a while.

    Where that folder cannot be written nobody is told.
    """
    path = _file(state, port)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)  # of a server that was killed: it may be another one's
        said = json.dumps({"pid": os.getpid(), "address": address}).encode()
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(file, said)
        finally:
            os.close(file)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def address_of(state: Path, holder: Holder) -> str:
    """Return where a project is open, with the token of its server; "" if that is not known."""
    try:
        parts = urlsplit(holder.address)
        known = json.loads(_file(state, parts.port).read_bytes()[:_MAX_BYTES])
        is_same = known["pid"] == holder.pid and holder.host == platform.node()
        address = str(known["address"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    is_page = _PROJECT.fullmatch(parts.path) and re.match("https?://", address)
    return address + parts.path if is_same and is_page else ""
