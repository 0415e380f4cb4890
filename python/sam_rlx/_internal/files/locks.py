"""Locks on open files: a process that ends, in whatever way, gives up its own."""

import errno
import os
from typing import IO, Any

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows
    flock = None  # type: ignore[assignment]
try:
    from msvcrt import LK_NBLCK, locking  # type: ignore[attr-defined, unused-ignore]
except ImportError:
    locking = None

_HELD = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)


def lock(file: IO[Any]) -> bool | None:
    """Lock a file, open for writing, until it is closed; do not wait.

    Returns
    -------
    bool or None
        True: it is locked. False: it is locked elsewhere. None: the system, or the file system
        that the file is on, has no locks.
    """
    try:
        if flock is not None:
            flock(file.fileno(), LOCK_EX | LOCK_NB)
        elif locking is not None:  # of bytes, from the position of the file on
            os.lseek(file.fileno(), 0, os.SEEK_SET)
            locking(file.fileno(), LK_NBLCK, 1)
        else:
            return None
    except OSError as error:
        return False if error.errno in _HELD else None
    return True
