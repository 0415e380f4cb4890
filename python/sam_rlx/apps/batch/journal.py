"""What happened to the items of a block: rows that are done, and attempts that are not.

Each attempt at a block appends lines of JSON to a file of its own. A line is written before an item
is begun, and its row after it, so that whatever ends the process leaves all rows but the last. Each
line ends in a checksum; one that is damaged is passed over. An item that was begun three times, and
neither came to a row nor was stopped on purpose, has ended its process each time.
"""

import json
import re
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sam_rlx.errors import StateError

# An item that was begun so often is not begun again.
MAX_ATTEMPTS = 3
_DIGITS = 7
_PART = re.compile(rf"part-(\d{{{_DIGITS},}})\.parquet")
_JOURNAL = re.compile(rf"(\d{{{_DIGITS},}})-(\d{{{_DIGITS},}})\.jsonl")


def parts_in(folder: Path) -> list[Path]:
    """Return the rows of all blocks that are done, in order."""
    found = [path for path in folder.iterdir() if _PART.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.stem.rpartition("-")[2]))


class Blocks:
    """Where the blocks of a job are.

    Parameters
    ----------
    out : Path
        Folder of the job.
    count : int
        Number of blocks.
    """

    def __init__(self, out: Path, count: int) -> None:
        self.count = count
        self._parts = _folder(out / "parts")
        self._journals = _folder(out / "journal")

    def part(self, block: int) -> Path:
        """Return the path of the rows of a block."""
        return self._parts / f"part-{block:0{_DIGITS}d}.parquet"

    def parts(self) -> list[Path]:
        """Return the rows of all blocks that are done, in order."""
        return parts_in(self._parts)

    def refuse_foreign(self) -> None:
        """Raise `StateError` for a file among the rows that is of no block."""
        own = {self.part(block).name for block in range(self.count)}
        for path in sorted(self._parts.iterdir()):
            is_own = path.name in own and path.is_file()
            if not is_own and not path.name.startswith("."):
                raise StateError(
                    f"{path}: expected rows of the {self.count} blocks of this batch, found a file "
                    "of something else: move it away"
                )

    def pending(self) -> list[int]:
        """Return the blocks that are not done."""
        names = {path.name for path in self.parts()}
        return [block for block in range(self.count) if self.part(block).name not in names]

    def journals(self, block: int) -> list[Path]:
        """Return the journals of all attempts at a block, in order."""
        return [path for number, path in self._attempts() if number == block]

    def _attempts(self) -> list[tuple[int, Path]]:
        """Return block and journal of each attempt, in order."""
        found = ((_JOURNAL.fullmatch(path.name), path) for path in self._journals.iterdir())
        numbers = [(int(m[1]), int(m[2]), path) for m, path in found if m and path.is_file()]
        return [(block, path) for block, _, path in sorted(numbers)]

    def journal(self, block: int) -> "Journal":
        """Begin an attempt at a block."""
        earlier = self.journals(block)
        number = int(earlier[-1].stem.rpartition("-")[2]) + 1 if earlier else 0
        while True:
            path = self._journals / f"{block:0{_DIGITS}d}-{number:0{_DIGITS}d}.jsonl"
            try:
                return Journal(path, earlier)
            except FileExistsError:
                number += 1

    def forgive(self) -> None:
        """Take back all attempts that have not ended: this process has stopped them itself."""
        for _, path in self._attempts():
            begun: set[int] = set()
            for entry in _entries(path):
                if "start" in entry:
                    begun.add(entry["start"])
                else:
                    begun -= {entry.get("stopped"), entry.get("row", {}).get("index")}
            with path.open("ab") as file:
                for index in sorted(begun):
                    file.write(_line({"stopped": index}))

    def leftovers(self) -> list[int]:
        """Return the blocks that have both rows and journals: the process ended in between."""
        done = set(self.parts())
        found = {block for block, _ in self._attempts()}
        return sorted(block for block in found if self.part(block) in done)

    def remove_journals(self, block: int) -> None:
        """Forget the attempts at a block that is done."""
        for path in self.journals(block):
            path.unlink(missing_ok=True)


class Journal:
    """One attempt at a block.

    Attributes
    ----------
    rows : dict
        Rows of earlier attempts, by index of the item.
    attempts : Counter
        How often each other item was begun and did not end.
    """

    def __init__(self, path: Path, earlier: list[Path]) -> None:
        self._file = path.open("xb", buffering=0)
        self._lock = threading.Lock()
        self._current: int | None = None
        self.rows: dict[int, dict[str, Any]] = {}
        self.attempts: Counter[int] = Counter()
        for old in earlier:
            self._read(old)

    def _read(self, path: Path) -> None:
        for entry in _entries(path):
            if "row" in entry:
                self.rows[entry["row"]["index"]] = entry["row"]
            elif "start" in entry:
                self.attempts[entry["start"]] += 1
            elif "stopped" in entry:
                self.attempts[entry["stopped"]] -= 1
            elif "kept" in entry:
                self.attempts[entry["kept"]] = 1

    def start(self, index: int) -> None:
        """Note that an item is begun."""
        with self._lock:
            self._current = index
            self._file.write(_line({"start": index}))

    def kept(self, index: int) -> None:
        """Note that an item has come further than before: earlier attempts do not count."""
        with self._lock:
            self._file.write(_line({"kept": index}))

    def done(self, row: dict[str, Any]) -> None:
        """Note the row of an item."""
        with self._lock:
            self._file.write(_line({"row": row}))
            self._current = None

    def stop(self) -> None:
        """Take back the item that is begun, from another thread before the process ends."""
        with self._lock:
            if self._current is not None:
                self._file.write(_line({"stopped": self._current}))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()
            self._current = None


def _folder(path: Path) -> Path:
    """Make a folder of the job."""
    if path.exists() and not path.is_dir():
        raise StateError(f"{path}: expected a folder of a batch, found a file")
    path.mkdir(exist_ok=True)
    return path


def _line(entry: dict[str, Any]) -> bytes:
    text = json.dumps(entry).encode()
    return b"%s %08x\n" % (text, zlib.crc32(text))


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what stands in a journal. A process may have ended within a line."""
    for line in path.read_bytes().split(b"\n"):
        text, _, checksum = line.rpartition(b" ")
        if text and checksum == b"%08x" % zlib.crc32(text):
            yield json.loads(text)
