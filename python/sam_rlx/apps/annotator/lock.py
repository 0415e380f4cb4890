"""Who writes a project: one process, which holds a lock on an open file.

A process that ends, in whatever way, gives the lock up. The file says who holds it.
"""

import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from sam_rlx._internal.files.locks import lock

_MAX_BYTES = 4096
_MAX_SHOWN = 200


@dataclass(frozen=True)
class Holder:
    """A process that writes a project: its host, its number, and where it serves it."""

    host: str = ""
    pid: int = 0
    address: str = ""

    def __str__(self) -> str:
        who = f"process {self.pid} on {self.host}" if self.pid else "another process"
        server = self.address.partition("/p/")[0]
        return f"{who} ({server})" if server else who


def lock_of(snapshot: Path) -> Path:
    """Return the path of the lock of a project."""
    return snapshot.with_suffix(".lock")


class ProjectLock:
    """A lock on a project.

    Parameters
    ----------
    snapshot : Path
        Of the project.
    address : str
        Where this process serves it, if it does.
    """

    def __init__(self, snapshot: Path, address: str = "") -> None:
        self._path = lock_of(snapshot)
        self._address = address
        self._file: IO[Any] | None = None

    @property
    def is_held(self) -> bool:
        """Whether this process holds it."""
        return self._file is not None

    def acquire(self) -> Holder | None:
        """Take the lock; return who holds it instead, or None.

        A file system without locks gives it to all: the generation of the snapshot tells then.
        `OSError` where no file can be made.
        """
        while True:
            file = self._path.open("a+b", buffering=0)
            if lock(file) is False:
                file.close()
                return holder_of(self._path)
            if _is_at(file, self._path):
                break
            file.close()  # its last holder has removed it meanwhile
        said = json.dumps(asdict(Holder(platform.node(), os.getpid(), self._address)))
        # The first byte is the one that is locked; Windows lets nobody else read that.
        file.truncate(0)
        file.write(b"\n" + said.encode())
        self._file = file
        return None

    def release(self) -> None:
        """Give the lock up, and remove its file."""
        file, self._file = self._file, None
        if file is None:
            return
        if os.name == "nt":  # which removes no open file
            file.close()
            self._remove()
        else:
            self._remove()
            file.close()

    def _remove(self) -> None:
        try:
            self._path.unlink(missing_ok=True)
        except OSError:  # another process has it open, or the folder has become read-only
            return


def _is_at(file: IO[Any], path: Path) -> bool:
    """Tell whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def holder_of(path: Path) -> Holder:
    """Return who holds a lock, as far as its file says."""
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(1)
            said = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return Holder()
    if not isinstance(said, dict):
        return Holder()
    host, pid, address = said.get("host"), said.get("pid"), said.get("address")
    return Holder(
        host[:_MAX_SHOWN] if isinstance(host, str) else "",
        pid if isinstance(pid, int) and not isinstance(pid, bool) else 0,
        address[:_MAX_SHOWN] if isinstance(address, str) else "",
    )
