"""Files that appear complete or not at all."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from sam_rlx._internal.arrays.checks import as_path
from sam_rlx._internal.files.drafts import SUFFIXES, Draft

_MAX_LINKS = 40


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

    Each writer has a temporary file of its own beside the target, a `Draft`. The last rename wins.
    The bytes are on the disk before the rename. Mode bits are those that the umask leaves of 0666.
    A symbolic link stays, and what it points to is replaced.

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
        self._draft: Draft | None = None
        self._stream: BinaryIO | None = None
        self._target, renamed = _resolve(given)
        if renamed:
            with _naming(self._target):
                self._draft = Draft(self._target)
            self.file: BinaryIO = self._draft.file
        else:
            self._stream = _open_existing(self._target)
            import tempfile  # slow to load, seldom needed

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
        if self._draft is not None:
            self._draft.replace()
        elif self._stream is not None:
            import shutil  # slow to load, seldom needed

            self.file.seek(0)
            shutil.copyfileobj(self.file, self._stream)
            self._stream.flush()
            if stat.S_ISREG(os.fstat(self._stream.fileno()).st_mode):
                self._stream.truncate()

    def discard(self) -> None:
        """Remove what is not committed, and close the file."""
        if self._draft is not None:
            self._draft.remove()
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
            error.filename is not None and not str(error.filename).endswith(SUFFIXES)
        ):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error


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


def _open_existing(path: Path) -> BinaryIO:
    """Open a file that exists to write to it: it is not truncated."""
    made = os.O_CREAT | os.O_TRUNC
    return cast(BinaryIO, open(path, "wb", opener=lambda name, flags: os.open(name, flags & ~made)))
