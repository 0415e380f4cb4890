"""Threads for the work of requests."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sam_rlx.apps.annotator.worker import Worker

_Result = TypeVar("_Result")


class Threads:
    """Threads that are used again: those of OpenMP belong to each of them.

    Unlike the threads of a pool of Python's they do not keep the process from ending.
    """

    def __init__(self) -> None:
        self._idle: list[Worker] = []

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Do work in a thread, and return what it returns."""
        worker = self._idle.pop() if self._idle else Worker("sam_rlx request")
        future = worker.submit(work)
        future.add_done_callback(lambda _: self._idle.append(worker))
        result: _Result = await asyncio.wrap_future(future)
        return result
