"""A file for what memory has no room for; it ends with the process."""

import tempfile
import threading
import weakref
from dataclasses import dataclass
from typing import Any


class Shelf:
    """Keeps bytes in a file without a name. Safe for several threads."""

    def __init__(self) -> None:
        self._file: Any = None
        self._end = 0
        self._lock = threading.Lock()

    def put(self, data: bytes) -> "Shelved":
        """Put bytes on the shelf; `OSError` where the disk has no room."""
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="sam_rlx-")  # noqa: SIM115  # it stays open
                weakref.finalize(self, self._file.close)
            self._file.seek(self._end)
            self._file.write(data)
            self._file.flush()
            shelved = Shelved(self, self._end, len(data))
            self._end += len(data)
        return shelved

    def read(self, start: int, count: int) -> bytes:
        """Return bytes that were put here."""
        with self._lock:
            self._file.seek(start)
            found: bytes = self._file.read(count)
        return found


@dataclass(frozen=True, eq=False)
class Shelved:
    """Bytes on a shelf: where they begin, and how many they are."""

    shelf: Shelf
    start: int
    count: int

    def read(self) -> bytes:
        """Return the bytes."""
        return self.shelf.read(self.start, self.count)
