"""One thread that does the work of a session."""

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from typing import Any

# Seconds without work after which the thread ends; the next work starts another one. Threads of
# OpenMP belong to the thread that started them, so it does not end after each piece of work.
_IDLE = 20.0


class Worker:
    """Does work in the order in which it comes, in a thread of its own.

    What `submit` is given is never dropped. Of what `preview` is given under one key the newest
    waits. `start` is given an iterator, which goes on by a step while nothing else waits.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._work: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._previews: dict[Hashable, Callable[[], None]] = {}
        self._steps: Iterator[None] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, work: Callable[[], Any]) -> "Future[Any]":
        """Do `work` after all that was submitted before."""
        future: Future[Any] = Future()
        with self._changed:
            if self._closed:
                future.cancel()
                return future
            self._work.append((work, future))
            self._wake()
        return future

    def preview(self, key: Hashable, work: Callable[[], None]) -> None:
        """Do `work`, if no other work comes under the same key before its turn."""
        with self._changed:
            self._previews.pop(key, None)
            self._previews[key] = work
            self._wake()

    def drop(self, key: Hashable) -> None:
        """Forget what waits under a key."""
        with self._changed:
            self._previews.pop(key, None)

    def start(self, steps: Iterator[None]) -> None:
        """Take the steps of an iterator while nothing else waits, instead of an earlier one."""
        with self._changed:
            self._steps = steps
            self._wake()

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller runs in the thread of this worker."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Forget what waits. The thread ends after its current work."""
        with self._changed:
            self._closed = True
            while self._work:
                self._work.popleft()[1].cancel()
            self._previews.clear()
            self._steps = None
            self._changed.notify_all()

    def _wake(self) -> None:
        if self._closed:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            work()

    def _next(self) -> Callable[[], None] | None:
        """Wait for work; None when the thread ends."""
        with self._changed:
            while not (self._work or self._previews or self._steps is not None or self._closed):
                if not self._changed.wait(_IDLE):
                    break
            if self._work:
                return _settling(*self._work.popleft())
            if self._previews:
                return self._previews.pop(next(iter(self._previews)))
            if self._steps is not None:
                return self._step
            self._thread = None
            return None

    def _step(self) -> None:
        steps = self._steps
        if steps is not None and next(steps, self) is self:
            with self._changed:
                if self._steps is steps:
                    self._steps = None


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
