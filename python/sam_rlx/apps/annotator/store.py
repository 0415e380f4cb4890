"""The files of a project: a snapshot, and a log of what was done since.

The snapshot says which record it holds. Each line of the log is a CRC-32 and a record as JSON; it
is on the disk before the edit is acknowledged. A process that is killed leaves at most a part of a
line at the end, which nobody was told to be kept.
"""

import json
import os
import platform
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sam_rlx._internal.files.atomic import atomic_write
from sam_rlx.apps.annotator.history import History, More, Move, Record
from sam_rlx.apps.annotator.json_reader import read_json
from sam_rlx.apps.annotator.limits import MAX_KEPT_EDITS, MAX_LINE_BYTES, MAX_SNAPSHOT_BYTES
from sam_rlx.apps.annotator.records import (
    MaskTable,
    Reader,
    completed,
    history_to_json,
    migrated,
    record_to_json,
)
from sam_rlx.errors import InvalidArgumentError, StateError, UnsupportedError

FORMAT = "sam_rlx.project"
VERSION = 2
FOLDER_PROJECT = "sam_rlx.project.json"
FILE_SUFFIX = ".sam_rlx.json"

_LOG_BYTES = 4_000_000  # of a log from which a new snapshot is written
_DIGITS = 8  # of a CRC-32, in hexadecimal


class TakenOverError(StateError):
    """Another process writes the project now."""


def log_of(snapshot: Path) -> Path:
    """Return the path of the log of a snapshot."""
    return snapshot.with_suffix(".log")


@dataclass(frozen=True, eq=False)
class Loaded:
    """What the files of a project hold.

    Attributes
    ----------
    history : History
    generation : int
        Grows whenever another process takes the project over.
    log_bytes : int
        Of the lines that are whole.
    cut : int
        Bytes behind them: a line that was never finished, or is damaged, and all after it.
    version : int
        Of the files. Those of an earlier one are written anew before anything is added to them.
    """

    history: History
    generation: int = 0
    log_bytes: int = 0
    cut: int = 0
    version: int = VERSION


def load(snapshot: Path) -> Loaded:
    """Read a project; an empty one where there is none.

    Raises
    ------
    InvalidArgumentError
        A file is something else, or is damaged in a way that no interrupted write leaves.
    UnsupportedError
        A newer version of this library has written it.
    OSError
        A file cannot be read.
    """
    loaded = _load_snapshot(snapshot)
    try:
        with log_of(snapshot).open("rb") as file:
            return _replayed(log_of(snapshot), file, loaded)
    except FileNotFoundError:
        return loaded


def _load_snapshot(path: Path) -> Loaded:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_SNAPSHOT_BYTES:
                raise InvalidArgumentError(
                    f"{path}: expected at most {MAX_SNAPSHOT_BYTES} bytes, found more"
                )
            contents = file.read()
    except FileNotFoundError:
        return Loaded(History())
    document = _json(path.name, contents)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidArgumentError(f"{path}: expected a project of sam_rlx, found another file")
    version = document.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InvalidArgumentError(f"{path}: expected version 1 to {VERSION}, found another")
    if version > VERSION:
        raise UnsupportedError(
            f"{path}: expected version 1 to {VERSION}, found {version}: a newer sam_rlx has "
            "written it"
        )
    generation = document.get("generation")
    if not isinstance(generation, int) or isinstance(generation, bool):
        raise InvalidArgumentError(f"{path}: expected a generation, found none")
    history = Reader(path.name, migrated(document, version)).history()
    return Loaded(history, generation, version=version)


def _json(where: str, contents: bytes) -> Any:
    try:
        return read_json(contents.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{where}: expected JSON, found {error}") from None


def _replayed(path: Path, file: Any, loaded: Loaded) -> Loaded:
    history, whole, total = loaded.history, 0, os.fstat(file.fileno()).st_size
    number = 0
    while line := file.readline(MAX_LINE_BYTES):
        number += 1
        text = _checked(line)
        if text is None:
            break
        where = f"{path.name}: line {number}"
        record = Reader(where, migrated(_json(where, text), loaded.version)).record()
        if record.n > history.n:
            _follow(where, record, history)
        whole += len(line)
    return Loaded(history, loaded.generation, whole, total - whole, loaded.version)


def _checked(line: bytes) -> bytes | None:
    """Return the record of a line that is whole, else None."""
    checksum, space, text = line[:_DIGITS], line[_DIGITS : _DIGITS + 1], line[_DIGITS + 1 : -1]
    fits = line.endswith(b"\n") and space == b" " and checksum == b"%08x" % zlib.crc32(text)
    return text if fits else None


def _follow(where: str, record: Record, history: History) -> None:
    if record.n != history.n + 1:
        raise InvalidArgumentError(
            f"{where}: expected record {history.n + 1}, found record {record.n}"
        )
    if isinstance(record, (Move, More)) and history.edit(record.of) is None:
        raise InvalidArgumentError(f"{where}: expected an edit that is known, found {record.of}")
    if isinstance(record, Move) and (record.of in history.undone) == record.back:
        raise InvalidArgumentError(f"{where}: expected an edit to move, found {record.of}")
    history.add(completed(record, history))


def line_of(record: Record) -> bytes:
    """Return the line of a log."""
    table = MaskTable()
    said = record_to_json(record, table)
    if table.masks:
        said["masks"] = table.masks
    text = json.dumps(said, separators=(",", ":"), allow_nan=False).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


class Store:
    """Writes the files of one project. Safe for several threads.

    Nothing is written before the first record. An error of the disk clears nothing: what could not
    be written waits, and each later `write` begins with it.

    Parameters
    ----------
    snapshot : Path
        Where the project is.
    loaded : Loaded
        From `load`.

    Attributes
    ----------
    problem : str
        Why the last records are not on the disk; "" when they are.
    """

    def __init__(self, snapshot: Path, loaded: Loaded) -> None:
        self.path = snapshot
        self.problem = ""
        self._history = loaded.history
        self._generation = loaded.generation
        self._is_old = loaded.version < VERSION
        self._signature = _signature(snapshot)
        self._size = loaded.log_bytes  # of the log that is on the disk
        self._is_torn = loaded.cut > 0  # whether something may stand behind that
        self._log: Any = None
        self._waiting: list[bytes] = []
        self._queue = threading.Lock()
        self._writing = threading.Lock()

    @property
    def is_saved(self) -> bool:
        """Whether all records are on the disk."""
        return not self._waiting

    def put(self, record: Record) -> None:
        """Line a record up for the next `write`."""
        line = line_of(record)
        with self._queue:
            self._waiting.append(line)

    def write(self) -> bool:
        """Bring all that waits to the disk; one thread does so for all others that wait.

        Returns
        -------
        bool
            Whether it is there; `problem` says why it is not.

        Raises
        ------
        TakenOverError
            Another process has taken the project over.
        """
        with self._writing:
            with self._queue:
                lines = list(self._waiting)
            if not lines:
                return True
            try:
                self._check_generation()
                self._append(lines)
                if self._size > _LOG_BYTES and self._size > _length(self.path) / 2:
                    self._replace_snapshot()
            except OSError as error:
                self._is_torn = True
                self.problem = f"{error.strerror or error}"
                self._close_log()
                return False
            self.problem = ""
            return True

    def _append(self, lines: list[bytes]) -> None:
        if self._signature is None or self._is_old:
            self._replace_snapshot()
            with self._queue:
                del self._waiting[: len(lines)]
            return
        if self._log is None:
            self._log = log_of(self.path).open("ab", buffering=0)
        # What an interrupted write has left behind the lines that are whole.
        self._log.truncate(self._size)
        self._is_torn = False
        joined = b"".join(lines)
        written = 0
        while written < len(joined):
            written += self._log.write(joined[written:])
        os.fsync(self._log.fileno())
        with self._queue:
            del self._waiting[: len(lines)]
        self._size += len(joined)

    def _replace_snapshot(self) -> None:
        """Write the present state, and begin a new log."""
        self._history.keep_last(MAX_KEPT_EDITS)
        write_snapshot(self.path, self._history, self._generation)
        self._signature = _signature(self.path)
        if self._log is None:
            self._log = log_of(self.path).open("ab", buffering=0)
        self._log.truncate(0)
        self._size, self._is_old = 0, False

    def take_over(self) -> None:
        """Make this the only process that writes: others see the next generation."""
        with self._writing:
            self._generation += 1
            self._replace_snapshot()

    def _check_generation(self) -> None:
        """Raise `TakenOverError` if another process has replaced the snapshot."""
        grown = not self._is_torn and _length(log_of(self.path)) != self._size
        if _signature(self.path) == self._signature and not grown:
            return
        raise TakenOverError(f"{self.path}: expected to write it alone, found another process")

    def set_aside(self) -> Path:
        """Write the present state beside the project, under a name of its own."""
        path = aside_of(self.path)
        write_snapshot(path, self._history, self._generation)
        return path

    def close(self) -> None:
        """Close the files."""
        with self._writing:
            self._close_log()

    def _close_log(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            log.close()


def write_snapshot(path: Path, history: History, generation: int) -> None:
    """Write a snapshot, which appears complete or not at all, and is on the disk then."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "generation": generation,
        **history_to_json(history),
    }
    with atomic_write(path) as file:
        file.write(json.dumps(document, allow_nan=False).encode())
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Bring a rename to the disk, where folders can be opened."""
    if os.name == "nt":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def aside_of(path: Path, now: Callable[[], float] = time.time) -> Path:
    """Return a free name beside a project: with the host and the minute."""
    minute = datetime.fromtimestamp(now()).astimezone().strftime("%Y-%m-%d %H.%M")
    stem = f"{path.stem} ({platform.node() or 'host'} {minute}"
    for more in ("", *(f", {k}" for k in range(2, 1000))):
        found = path.with_name(f"{stem}{more}){path.suffix}")
        if not found.exists():
            return found
    raise StateError(f"{path}: expected a free name beside it, found none")


def _signature(path: Path) -> tuple[int, int, int] | None:
    """Return what tells a file from one that replaced it; None for no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _length(path: Path) -> int:
    """Return the bytes of a file, 0 if it is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
