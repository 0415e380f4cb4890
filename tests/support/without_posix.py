"""Taken away from a process, and from those that it starts: what Windows lacks.

A copy of this file named ``sitecustomize.py`` on ``PYTHONPATH`` is run when Python starts.
"""

from __future__ import annotations

# Modules of other libraries that choose by sys.platform, which stays "linux", are imported first.
import asyncio  # noqa: F401
import os
import selectors
import signal
import socket
import stat
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog")
OF_OS = (
    *("fork", "forkpty", "register_at_fork", "setsid", "killpg", "getpgid", "getuid", "geteuid"),
    *("getgid", "mkfifo", "openpty", "O_CLOEXEC", "O_NONBLOCK", "O_DIRECTORY", "O_NOFOLLOW"),
    *("sched_getaffinity", "sysconf", "statvfs", "fchmod", "chown", "pread"),
)
OF_SIGNAL = ("SIGKILL", "SIGHUP", "SIGPIPE", "SIGUSR1", "SIGALRM", "SIGCHLD", "setitimer")


class _Absent:
    """Finds no module of `MODULES`."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _is_open(path: Any) -> bool:
    """Whether this process has a file open."""
    try:
        wanted = Path(path).stat()
    except OSError:
        return False
    for number in Path("/proc/self/fd").iterdir():
        try:
            found = number.stat()
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
            return True
    return False


def _refusing(call: Callable[..., None], names: int) -> Callable[..., None]:
    """Refuse files that are open, as Windows does."""

    def wrapped(*args: Any, **keywords: Any) -> None:
        for path in args[:names]:
            if _is_open(path):
                raise PermissionError(13, "the file is in use by another process", str(path))
        call(*args, **keywords)

    return wrapped


class _Sockets(selectors.SelectSelector):
    """Waits for sockets alone."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            raise OSError(10038, "an operation on something that is no socket")
        return super().register(fileobj, events, data)


def _msvcrt(flock: Callable[[int, int], None]) -> ModuleType:
    """Return a module with `locking`, by locks of this system."""
    module = ModuleType("msvcrt")

    def locking(number: int, mode: int, count: int) -> None:
        assert (mode, count) == (2, 1)
        assert os.lseek(number, 0, os.SEEK_CUR) == 0
        flock(number, 2 | 4)  # exclusive, without waiting

    vars(module).update(LK_NBLCK=2, locking=locking)
    return module


def apply() -> None:
    """Take everything away."""
    from fcntl import flock

    sys.modules["msvcrt"] = _msvcrt(flock)
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Absent())
    for module, names in ((os, OF_OS), (signal, OF_SIGNAL), (socket, ("SO_REUSEADDR", "AF_UNIX"))):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    os.replace = _refusing(os.replace, 2)
    os.rename = _refusing(os.rename, 2)
    os.unlink = os.remove = _refusing(os.unlink, 1)
    selectors.DefaultSelector = _Sockets  # type: ignore[misc,assignment]


if Path(__file__).stem == "sitecustomize":
    apply()
