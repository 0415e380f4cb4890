"""An end that cleans up, when another process asks for one."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Terminated(KeyboardInterrupt):
    """A signal asks this process to end. Unwinds as Ctrl-C does."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def termination_unwinds() -> Iterator[None]:
    """Raise `Terminated` in the block at SIGTERM and SIGHUP, where those would end the process.

    A signal that is ignored or handled already stays so. Does nothing outside of the main thread,
    which alone may set handlers.
    """
    taken = []
    if threading.current_thread() is threading.main_thread():
        taken = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]

    def unwind(number: int, frame: FrameType | None) -> None:
        for each in taken:  # a second one must not interrupt the cleaning
            signal.signal(each, signal.SIG_IGN)
        raise Terminated(number)

    for number in taken:
        signal.signal(number, unwind)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
