"""Frames that were decoded a moment ago, under a limit of bytes."""

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")

# What steps back keep of the frames that they decode on their way: 92 of 720p, 41 of 1080p.
KEPT_BYTES = 128 << 20


class Recent(Generic[T]):
    """The frames that were added last: one, or as many as the limit allows.

    Attributes
    ----------
    limit : int
        In bytes. The newest frame stays, however large it is.
    """

    def __init__(self) -> None:
        self.limit = 0
        self._frames: OrderedDict[int, tuple[T, int]] = OrderedDict()
        self._bytes = 0

    def get(self, number: int) -> T | None:
        """Return a frame, if it is here."""
        found = self._frames.get(number)
        return None if found is None else found[0]

    def add(self, number: int, frame: T, size: int) -> None:
        """Keep a frame of so many bytes; older ones go."""
        self._drop(number)
        self._frames[number] = (frame, size)
        self._bytes += size
        while self._bytes > self.limit and len(self._frames) > 1:
            self._drop(next(iter(self._frames)))

    def _drop(self, number: int) -> None:
        _, size = self._frames.pop(number, (None, 0))
        self._bytes -= size

    def clear(self) -> None:
        """Let all go; the limit stays."""
        self._frames.clear()
        self._bytes = 0
