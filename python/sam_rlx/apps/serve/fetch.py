"""Files of one HTTP server, within a limit of time for all of it."""

import contextlib
import http.client
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from sam_rlx.errors import InvalidArgumentError

_PORTS = {"http": 80, "https": 443}
_MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_PART = 1 << 16
# What browsers leave as it is in an address; all else they escape. A "%" is one of an escape.
_KEPT = "/:?[]@!$&'()*+,;=%-._~"


class FetchError(InvalidArgumentError):
    """A server did not give a file."""


def split(address: str) -> SplitResult | None:
    """Return the parts of an address as browsers write it; None of what is none."""
    # Browsers pass over line ends and tabs, and take a backslash for a slash.
    plain = re.sub(r"[\t\r\n]", "", address).strip().replace("\\", "/")
    try:
        parts = urlsplit(plain)
        if parts.hostname is None or parts.scheme not in _PORTS or "@" in parts.netloc:
            return None
        host = parts.hostname.encode("idna").decode()
        port = "" if parts.port is None else f":{parts.port}"
        return parts._replace(
            netloc=f"[{host}]{port}" if ":" in host else f"{host}{port}",
            path=quote(parts.path, safe=_KEPT),
            query=quote(parts.query, safe=_KEPT),
            fragment="",
        )
    except ValueError:
        return None


def _joined(base: SplitResult, value: str) -> SplitResult | None:
    try:
        return split(urljoin(base.geturl(), value.strip().replace("\\", "/")))
    except ValueError:
        return None


def origin_of(parts: SplitResult) -> tuple[str, str, int]:
    """Return scheme, host and port."""
    return parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme]


def fetch(
    base: SplitResult, value: str, headers: dict[str, str], most: int, seconds: float
) -> bytes:
    """Return a file of a server.

    Parameters
    ----------
    base : SplitResult
        Of the server, from `split`: nothing else is asked, redirects to other servers included.
    value : str
        The address of the file, which may begin with its path.
    headers : dict of str to str
        What is sent besides.
    most : int
        Bytes of the file.
    seconds : float
        For all of it.

    Raises
    ------
    FetchError
        The server has no such file, is too slow, or says to look elsewhere.
    """
    shown = repr(value[:200])
    with _deadline(seconds) as deadline:
        for _ in range(_MAX_REDIRECTS):
            parts = _joined(base, value)
            if parts is None or origin_of(parts) != origin_of(base):
                raise FetchError(f"image: expected one of {base.geturl()}, found {value[:200]!r}")
            try:
                found = _asked(parts, headers, most, deadline)
            except (OSError, http.client.HTTPException, ValueError) as error:
                words = f"nothing in {seconds:g} s" if deadline.is_over else str(error)
                raise FetchError(f"image: expected {shown}, found {words}") from error
            if isinstance(found, bytes):
                return found
            base, value = parts, found
    raise FetchError(f"image: expected {shown}, found more than {_MAX_REDIRECTS} redirects")


def _asked(
    parts: SplitResult, headers: dict[str, str], most: int, deadline: "_Deadline"
) -> bytes | str:
    """Return what a server gives, or the address that it says to ask instead."""
    scheme, host, port = origin_of(parts)
    kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
    connection = kind(host, port, timeout=deadline.seconds)
    with contextlib.closing(connection):
        connection.connect()
        deadline.watch(connection.sock)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        if answer.status in _REDIRECTS:
            # UTF-8, as browsers take it; the package reads headers as Latin-1.
            return (answer.getheader("Location") or "").encode("latin-1").decode("utf-8", "replace")
        if answer.status != 200:
            raise OSError(f"HTTP Error {answer.status}: {answer.reason}")
        content = bytearray()
        while part := answer.read1(_PART):
            content += part
            if len(content) > most:
                raise OSError(f"more than {most} bytes")
        if answer.length:  # what its header said is not there
            raise OSError("a part of it")
        if deadline.is_over:
            raise OSError("a part of it")
        return bytes(content)


class _Deadline:
    """Shuts the sockets that it watches when a time is over."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.is_over = False
        self._socket: Any = None
        self._lock = threading.Lock()

    def watch(self, found: socket.socket) -> None:
        with self._lock:
            self._socket = found
        if self.is_over:
            self.end()

    def end(self) -> None:
        self.is_over = True
        with self._lock, contextlib.suppress(OSError):  # it may be closed already
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)


@contextmanager
def _deadline(seconds: float) -> Iterator[_Deadline]:
    deadline = _Deadline(seconds)
    timer = threading.Timer(seconds, deadline.end)
    timer.daemon = True
    timer.start()
    try:
        yield deadline
    finally:
        timer.cancel()
