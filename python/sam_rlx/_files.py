"""Files that appear complete or not at all."""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from sam_rlx.errors import InvalidArgumentError

_SUFFIX = ".sam_rlx.tmp"
_MAX_LINKS = 40
_MAX_NAME = 200  # bytes of a name that a temporary name repeats; file systems take 255

# Folder that this process last looked through for what killed writers left, and the time of the
# folder's last change after the write that followed. A series of files in one folder is not
# looked through again and again.
_last_folder: tuple[str, int] | None = None


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when the block ends well.

    An error or Ctrl-C inside the block leaves `path` as it was. See `NewFile`.
    """
    new = NewFile(path)
    try:
        with new.naming():
            yield new.file
        new.commit()
    finally:
        new.discard()


class NewFile:
    """A file that replaces a target as a whole, with `commit`.

    Each writer has a temporary file of its own beside the target, under a random name. The last
    rename wins. The bytes are on the disk before the rename. Mode bits are those that the umask
    leaves of 0666. A symbolic link stays, and what it points to is replaced.

    A writer holds a lock (``flock``) on its temporary file. A file of that name without a lock
    belongs to a process that was killed: the next writer in the same folder removes it.

    What no rename can replace (a pipe, a device, ``/dev/stdout``, ``/proc/self/fd/1``) is opened at
    once and gets the bytes in `commit`, from an unnamed temporary file: `file` can always seek.

    Parameters
    ----------
    path : str or path
        The target. Missing parent directories are created.

    Attributes
    ----------
    file : binary file
        To write to. `commit` and `discard` close it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        given = as_path(path)
        given.parent.mkdir(parents=True, exist_ok=True)
        self._temporary: Path | None = None
        self._stream: BinaryIO | None = None
        self._target, renamed = _resolve(given)
        if renamed:
            _remove_stale(self._target)
            with _naming(self._target):
                self._temporary, self.file = _create(self._target)
        else:
            self._stream = _open_with(self._target, "wb", os.O_WRONLY)
            self.file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Give errors of the disk in the block the name of the target, not of a temporary file."""
        with _naming(self._target):
            yield

    def commit(self) -> None:
        """Move the file to its path. An error leaves the target as it was, but for a stream."""
        with _naming(self._target):
            self._commit()

    def _commit(self) -> None:
        global _last_folder
        self.file.flush()
        if self._stream is not None:
            self.file.seek(0)
            shutil.copyfileobj(self.file, self._stream)
            self._stream.flush()
            if stat.S_ISREG(os.fstat(self._stream.fileno()).st_mode):
                self._stream.truncate()
        elif self._temporary is not None:
            os.fsync(self.file.fileno())
            self._temporary.replace(self._target)
            self._temporary = None
            folder = self._target.parent
            _last_folder = (str(folder), folder.stat().st_mtime_ns)

    def discard(self) -> None:
        """Remove what is not committed, and close the file."""
        try:
            if self._temporary is not None:
                self._temporary.unlink(missing_ok=True)
                self._temporary = None
        finally:
            for file in (self.file, self._stream):
                # What a buffer still holds after an error belongs to a file that is gone.
                with suppress(OSError):
                    if file is not None:
                        file.close()


@contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Name `target` in errors of the disk that name no file, or a temporary one of a writer."""
    try:
        yield
    except OSError as error:
        if error.errno is None or (
            error.filename is not None and not str(error.filename).endswith(_SUFFIX)
        ):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error


def as_path(path: Any) -> Path:
    """Return a path that a user gives; `InvalidArgumentError` if it can be none."""
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidArgumentError(f"path: expected str or path, found {type(path).__name__}")
    name = os.fspath(path)
    if not isinstance(name, str) or "\0" in name or not name:
        raise InvalidArgumentError(f"path: expected the name of a file, found {name!r}")
    return Path(name)


def _resolve(path: Path) -> tuple[Path, bool]:
    """Follow symbolic links; also tell whether a rename can replace what they lead to."""
    for _ in range(_MAX_LINKS):
        folder = path.parent.resolve()
        path = folder / path.name
        if folder.is_relative_to("/proc") or folder.is_relative_to("/dev/fd"):
            return path, False
        if not path.is_symlink():
            break
        path = folder / path.readlink()
    try:
        mode = path.stat().st_mode  # raises for a loop of links
    except FileNotFoundError:
        return path, True
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return path, stat.S_ISREG(mode)


def _stem(target: Path) -> str:
    """Return how the names of temporary files of a target begin."""
    name = os.fsencode(target.name)
    short = len(name) <= _MAX_NAME
    return f".{target.name if short else hashlib.sha256(name).hexdigest()}."


def _create(target: Path) -> tuple[Path, BinaryIO]:
    """Create and lock a temporary file beside a target."""
    while True:
        path = target.with_name(f"{_stem(target)}{secrets.token_hex(8)}{_SUFFIX}")
        try:
            file = path.open("x+b")
        except FileExistsError:
            continue
        try:
            _lock(file, wait=True)
            # Another writer may have taken it for stale before it was locked.
            if os.fstat(file.fileno()).st_nlink:
                return path, file
        except BaseException:
            path.unlink(missing_ok=True)
            file.close()
            raise
        file.close()


def _lock(file: BinaryIO, *, wait: bool) -> bool:
    """Lock a file for this writer; tell whether it is locked now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # another writer has it, or the file system has no locks: nothing is stale then
        return False
    return True


def _remove_stale(target: Path) -> None:
    """Remove temporary files beside a target whose writers do not live any more.

    Those of other targets too: the rest of a series of files does not look again.
    """
    folder = target.parent
    if _last_folder == (str(folder), folder.stat().st_mtime_ns):
        return
    pattern = re.compile(r"\..+\.[0-9a-f]{16}" + re.escape(_SUFFIX))
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except PermissionError:  # a folder that may be written to, but not listed
        return
    for name in filter(pattern.fullmatch, names):
        with suppress(OSError), _open_with(folder / name, "r+b", os.O_RDWR) as file:
            if _lock(file, wait=False):
                (folder / name).unlink(missing_ok=True)


def _open_with(path: Path, mode: str, flags: int) -> BinaryIO:
    """Open a file that exists, with these flags alone: it is not truncated."""
    return cast(
        BinaryIO,
        open(path, mode, opener=lambda name, _: os.open(name, flags | os.O_CLOEXEC)),
    )
