"""One thread that does the work of a session."""

import contextvars
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

from sam_rlx.apps.annotator.limits import MAX_VIEWS
from sam_rlx.errors import StateError

_Result = TypeVar("_Result")
# Makes what the thread runs in.
During = Callable[[], AbstractContextManager[None]]

# Seconds without work after which the thread ends; the next work starts another one. Threads of
# OpenMP belong to the thread that started them, so it does not end after each piece of work.
_IDLE = 20.0


def _nothing() -> None:
    pass


class Worker:
    """Does work in the order in which it comes, in a thread of its own.

    What `submit` is given is never dropped; what is given as `later` lets the rest go first. Of
    what `preview` is given under one key the newest waits. `start` is given an iterator, which goes
    on by a step while nothing else waits. All work runs in a copy of its caller's `contextvars`:
    hosts keep there whose page it is for.

    Parameters
    ----------
    name : str
        Of the thread.
    during : callable, optional
        Returns a context manager, in which the thread works.
    """

    def __init__(self, name: str, during: During = nullcontext) -> None:
        self._name = name
        self._during = during
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._work: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._later: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._previews: dict[Hashable, Callable[[], None]] = {}
        self._steps: Iterator[None] | None = None
        self._steps_context = contextvars.Context()
        self._pause = 0.0  # seconds without other work before a step
        self._free_since = 0.0  # when other work ended last
        self._thread: threading.Thread | None = None
        self._closed = False
        self._then = _nothing

    def submit(self, work: Callable[[], Any], *, later: bool = False) -> "Future[Any]":
        """Do `work` after all that was submitted before; `StateError` after `close`.

        `later`: after all that is not given so, but before previews.
        """
        self._check_process()
        future: Future[Any] = Future()
        with self._changed:
            if self._closed:
                raise StateError(f"{self._name}: expected an open one, found a closed one")
            (self._later if later else self._work).append((_here(work), future))
            self._wake()
        return future

    def preview(self, key: Hashable, work: Callable[[], None]) -> None:
        """Do `work`, if no other work comes under the same key before its turn."""
        self._check_process()
        with self._changed:
            self._previews.pop(key, None)
            self._previews[key] = _here(work)
            if len(self._previews) > MAX_VIEWS:
                del self._previews[next(iter(self._previews))]
            self._wake()

    def drop(self, key: Hashable) -> None:
        """Forget what waits under a key."""
        with self._changed:
            self._previews.pop(key, None)

    def start(self, steps: Iterator[None], pause: float = 0.0) -> None:
        """Take the steps of an iterator while nothing else waits, instead of an earlier one.

        `pause`: only after so many seconds without other work.
        """
        self._check_process()
        with self._changed:
            self._steps, self._pause = steps, pause
            self._steps_context = contextvars.copy_context()
            self._wake()

    def end_steps(self) -> None:
        """Close the iterator whose steps are taken, if there is one; in the worker's own thread."""
        with self._changed:
            steps, self._steps = self._steps, None
        if isinstance(steps, Generator):
            steps.close()

    def __len__(self) -> int:
        return len(self._work) + len(self._later)

    @property
    def is_wanted(self) -> bool:
        """Whether work waits that goes before steps."""
        return bool(self._work or self._later or self._previews)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def _check_process(self) -> None:
        """Refuse the child of a fork: it has no thread, and perhaps a lock that nobody gives."""
        if os.getpid() != self._process:
            raise StateError(
                f"{self._name}: expected the process that made it, found a fork of that one"
            )

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller runs in the thread of this worker."""
        return threading.current_thread() is self._thread

    def close(self, then: Callable[[], None] = _nothing) -> None:
        """Forget what waits. The thread ends after its current work, and does `then` at last."""
        if os.getpid() != self._process:
            self._closed = True
            then()
            return
        with self._changed:
            if self._closed:
                return
            self._closed = True
            is_idle = self._thread is None
            self._then = then
            self._during = nullcontext
            for waiting in (self._work, self._later):
                while waiting:
                    waiting.popleft()[1].cancel()
            self._previews.clear()
            self._steps = None
            self._changed.notify_all()
        if is_idle:
            self._end()

    def _wake(self) -> None:
        if self._closed:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        with self._during():
            while (work := self._next()) is not None:
                work()
                if work != self._step:
                    self._free_since = time.monotonic()
                del work  # and with it what it was made for
        if self._closed:
            self._end()

    def _end(self) -> None:
        then, self._then = self._then, _nothing
        then()

    def _next(self) -> Callable[[], None] | None:
        """Wait for work; None when the thread ends."""
        with self._changed:
            while not (self.is_wanted or self._closed):
                if self._steps is None:
                    if not self._changed.wait(_IDLE):
                        break
                elif (rest := self._free_since + self._pause - time.monotonic()) > 0:
                    self._changed.wait(rest)
                else:
                    break
            if self._work:
                return _settling(*self._work.popleft())
            if self._later:
                return _settling(*self._later.popleft())
            if self._previews:
                return self._previews.pop(next(iter(self._previews)))
            if self._steps is not None:
                return self._step
            self._thread = None
            return None

    def _step(self) -> None:
        with self._changed:
            steps, context = self._steps, self._steps_context
        if steps is not None and context.run(next, steps, self) is self:
            with self._changed:
                if self._steps is steps:
                    self._steps, self._steps_context = None, contextvars.Context()


def _here(work: Callable[[], _Result]) -> Callable[[], _Result]:
    """Return work that runs in a copy of the calling thread's context."""
    return partial(contextvars.copy_context().run, work)


def _settling(work: Callable[[], Any], future: "Future[Any]") -> Callable[[], None]:
    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:  # it is the caller's, who waits for the future
            future.set_exception(error)
        else:
            future.set_result(result)

    return run
