"""Upstream's predictors answer several threads at once: ours let them wait for each other."""

import os
import threading


class Turns:
    """A context for one thread at a time. It can be pickled and copied: a copy is free.

    A lock that another thread held at a fork is free in the child, where that thread is not: there
    the core tells that its object was in use.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()

    def __enter__(self) -> None:
        if self._process != os.getpid():
            self._lock, self._process = threading.Lock(), os.getpid()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> "tuple[type[Turns], tuple[()]]":
        return Turns, ()
