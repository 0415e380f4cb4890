"""What happened to the items of a block: rows that are done, and attempts that are not.

Each attempt at a block appends lines of JSON to a file of its own. A line is written before an item
is begun, and its row after it, so that whatever ends the process leaves all rows but the last. An
item that was begun three times, and neither came to a row nor was stopped on purpose, has ended its
process each time.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# An item that was begun so often is not begun again.
MAX_ATTEMPTS = 3
_DIGITS = 7


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
        self._parts = out / "parts"
        self._journals = out / "journal"
        self._parts.mkdir(exist_ok=True)
        self._journals.mkdir(exist_ok=True)

    def part(self, block: int) -> Path:
        """Return the path of the rows of a block."""
        return self._parts / f"part-{block:0{_DIGITS}d}.parquet"

    def parts(self) -> list[Path]:
        """Return the rows of all blocks that are done, in order."""
        return sorted(self._parts.glob("part-*.parquet"))

    def pending(self) -> list[int]:
        """Return the blocks that are not done."""
        names = {path.name for path in self.parts()}
        return [block for block in range(self.count) if self.part(block).name not in names]

    def journals(self, block: int) -> list[Path]:
        """Return the journals of all attempts at a block, in order."""
        return sorted(self._journals.glob(f"{block:0{_DIGITS}d}-*.jsonl"))

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
        for path in sorted(self._journals.glob("*.jsonl")):
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
        done = {path.stem.rpartition("-")[2] for path in self.parts()}
        found = {path.stem.partition("-")[0] for path in self._journals.glob("*.jsonl")}
        return [int(name) for name in sorted(done & found)]

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


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the whole lines of a journal. A process may have ended within one."""
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry
