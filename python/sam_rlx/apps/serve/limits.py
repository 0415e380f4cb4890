"""What the clients of ``sam-rlx serve`` may use: all its limits, as `docs/serve.md` lists them.

Those of one session, of a page or of a notebook, are in `sam_rlx.apps.annotator.limits`.
"""

import threading
from dataclasses import dataclass

from sam_rlx.errors import SamRlxError

_MB = 1_000_000


class BusyError(SamRlxError, RuntimeError):
    """Others use what a request needs; it may be asked again later."""


@dataclass(frozen=True)
class Limits:
    """Limits of a server. A field in bytes, pixels or counts is the most that is taken.

    Attributes
    ----------
    header_seconds : float
        In which the headers of a request come, from the connection or their first byte on.
    strangers : int
        Connections that have shown no token; the oldest one goes first.
    clients : int
        Connections that have shown it.
    stall_seconds : float
        In which a client takes something of what it is sent.
    tabs : int
        Tabs of the page.
    body_bytes, body_seconds : int, float
        Of a request, and in which it comes.
    held_bytes : int
        What all requests and tabs hold at once: bodies, files of images, decoded images.
    json_values : int
        Values in the JSON of a request.
    document_values : int
        Values in a file of objects that a tab loads.
    head_bytes : int
        The head of a tab's message.
    unread_bytes : int
        Messages that a tab has not taken.
    images : int
        Files that a tab opens at once.
    pixels : int
        Of an image.
    queue, queue_seconds : int, float
        Images that wait for their turn, and for how long.
    points, boxes, texts, tasks : int
        Of a request.
    fetch_seconds : float
        For an image of Label Studio, as a whole.
    """

    header_seconds: float = 10.0
    strangers: int = 512
    clients: int = 256
    stall_seconds: float = 30.0
    tabs: int = 32
    body_bytes: int = 100 * _MB
    body_seconds: float = 60.0
    held_bytes: int = 2000 * _MB
    json_values: int = 200_000
    document_values: int = 4_000_000
    head_bytes: int = 500_000
    unread_bytes: int = 64 * _MB
    images: int = 1000
    pixels: int = 50 * _MB
    queue: int = 200
    queue_seconds: float = 120.0
    points: int = 1000
    boxes: int = 100
    texts: int = 20
    tasks: int = 100
    fetch_seconds: float = 30.0


LIMITS = Limits()


class Budget:
    """Bytes that all clients may hold at once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self.used = 0

    def take(self, count: int) -> None:
        """Take bytes; `BusyError` if others hold too many."""
        with self._lock:
            if self.used + count > self._limit:
                raise BusyError(
                    f"memory: expected at most {self._limit} bytes of all clients at once, found "
                    "more: try again later"
                )
            self.used += count

    def give(self, count: int) -> None:
        """Give bytes back."""
        with self._lock:
            self.used -= count


class Share:
    """What one client holds of a `Budget`, by kind."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}
        self._closed = False

    def hold(self, kind: str, count: int) -> None:
        """Hold so many bytes of a kind, instead of those before; `BusyError` as for `take`."""
        with self._lock:
            if self._closed:
                return
            more = count - self._held.get(kind, 0)
            if more > 0:
                self._budget.take(more)
            else:
                self._budget.give(-more)
            self._held[kind] = count

    def close(self) -> None:
        """Give all back, once and for all."""
        with self._lock:
            self._closed = True
            self._budget.give(sum(self._held.values()))
            self._held.clear()
