"""Ends work that nobody waits for: of clients that went, and all of it with the server.

A `Stop` belongs to a thread while a block runs. The core asks `poll` between its blocks, after
``_core.set_poll_hook(poll)``, and what waits for a turn asks too.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Optional

from sam_rlx.errors import SamRlxError

_OF_THREAD = threading.local()


class StoppedError(SamRlxError, RuntimeError):
    """Nobody waits for this any more."""


class Stop:
    """Whether work should end: it was set itself, or what it is a part of."""

    def __init__(self, whole: Optional["Stop"] = None) -> None:
        self._whole = whole
        self._set = threading.Event()

    def set(self) -> None:
        """End the work."""
        self._set.set()

    @property
    def is_set(self) -> bool:
        """Whether the work should end."""
        return self._set.is_set() or (self._whole is not None and self._whole.is_set)

    def check(self) -> None:
        """Raise `StoppedError` if the work should end."""
        if self.is_set:
            raise StoppedError("server: expected a client that waits, found an end")

    @contextmanager
    def ends_work(self) -> Iterator[None]:
        """Make the block end at the next `poll` once this is set."""
        before = getattr(_OF_THREAD, "stop", None)
        _OF_THREAD.stop = self
        try:
            yield
        finally:
            _OF_THREAD.stop = before


class GivingWay(Stop):
    """Ends work that goes on only while nothing else is wanted.

    Parameters
    ----------
    whole : Stop
        What it is a part of.
    wanted : callable
        Tells whether something else is.
    """

    def __init__(self, whole: Stop, wanted: Callable[[], bool]) -> None:
        super().__init__(whole)
        self._wanted = wanted

    @property
    def is_set(self) -> bool:
        """Whether the work should end."""
        return super().is_set or self._wanted()


def poll() -> None:
    """Raise `StoppedError` if the work of this thread should end."""
    stop: Stop | None = getattr(_OF_THREAD, "stop", None)
    if stop is not None:
        stop.check()
