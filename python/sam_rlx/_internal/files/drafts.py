"""Temporary files of writers, and those that killed writers left."""

import os
import re
import time
from contextlib import suppress
from pathlib import Path

from sam_rlx._internal.files.locks import lock

# Of a draft, and of the file beside it that is locked.
SUFFIXES = _DRAFT, _LOCK = ".sam_rlx.tmp", ".sam_rlx.lock"
_NAME = re.compile(r"(\..+\.[0-9a-f]{16})\.sam_rlx\.(?:tmp|lock)")
_MAX_NAME = 200  # bytes of a name that a temporary name repeats; file systems take 255
# Seconds between attempts to replace a file that another program, such as a scanner, has open.
_PAUSES = (0.01, 0.03, 0.1, 0.3, 0.6)

# Folder that this process last looked through for what killed writers left, and the time of the
# folder's last change after the write that followed. A series of files in one folder is not
# looked through again and again.
_last_folder: tuple[str, int] | None = None


class Draft:
    """A file beside a target, under a random name, that replaces it with `replace`.

    As long as the draft lives, a second file beside it is open and locked: a draft without such a
    lock belongs to a process that was killed, and the next one in the same folder removes it. The
    draft itself is closed before it is renamed or removed, as Windows asks for.

    Attributes
    ----------
    file : binary file
        To write to.
    """

    def __init__(self, target: Path) -> None:
        _remove_leftovers(target.parent)
        self._target = target
        while True:
            stem = f"{_stem(target)}{os.urandom(8).hex()}"
            self._mark = target.with_name(stem + _LOCK)
            try:
                self._held = self._mark.open("xb")
            except FileExistsError:
                continue
            # Another writer may have taken it for a leftover before it was locked.
            if lock(self._held) is not False and os.fstat(self._held.fileno()).st_nlink:
                break
            self._held.close()
        self._path: Path | None = target.with_name(stem + _DRAFT)
        try:
            self.file = self._path.open("x+b")
        except BaseException:
            self._release()
            raise

    def replace(self) -> None:
        """Put what was written, which is on the disk then, in the position of the target."""
        global _last_folder
        assert self._path is not None
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        for pause in _PAUSES:
            try:
                self._path.replace(self._target)
                break
            except PermissionError:
                time.sleep(pause)
        else:
            self._path.replace(self._target)
        self._path = None
        self._release()
        folder = self._target.parent
        _last_folder = (str(folder), folder.stat().st_mtime_ns)

    def remove(self) -> None:
        """Remove what has not replaced the target."""
        # What a buffer still holds after an error belongs to a file that goes. What another
        # program has open stays a leftover.
        with suppress(OSError):
            self.file.close()
        if self._path is not None:
            path, self._path = self._path, None
            try:
                with suppress(PermissionError):
                    path.unlink(missing_ok=True)
            finally:
                self._release()

    def _release(self) -> None:
        self._held.close()
        with suppress(PermissionError):
            self._mark.unlink(missing_ok=True)


def _stem(target: Path) -> str:
    """Return how the names of temporary files of a target begin."""
    name = os.fsencode(target.name)
    if len(name) <= _MAX_NAME:
        return f".{target.name}."
    import hashlib  # slow to load, seldom needed

    return f".{hashlib.sha256(name).hexdigest()}."


def _remove_leftovers(folder: Path) -> None:
    """Remove drafts in a folder whose writers do not live any more.

    Those of other targets too: the rest of a series of files does not look again.
    """
    if _last_folder == (str(folder), folder.stat().st_mtime_ns):
        return
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except PermissionError:  # a folder that may be written to, but not listed
        return
    for stem in {found[1] for found in map(_NAME.fullmatch, names) if found}:
        with suppress(OSError):
            _remove_leftover(folder / (stem + _DRAFT), folder / (stem + _LOCK))


def _remove_leftover(draft: Path, mark: Path) -> None:
    try:
        held = mark.open("r+b")
    except FileNotFoundError:  # a living writer has one
        draft.unlink(missing_ok=True)
        return
    with held:
        if not lock(held):  # its writer lives, or nobody can tell
            return
        draft.unlink(missing_ok=True)
        # While the lock is held: a writer that has made the file and waits for the lock finds it
        # gone then, and makes another. Windows removes no open file, one of a writer neither.
        with suppress(PermissionError):
            mark.unlink(missing_ok=True)
            return
    mark.unlink(missing_ok=True)
