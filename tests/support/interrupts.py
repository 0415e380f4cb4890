"""Ctrl-C at a chosen moment: the core asks for signals at its polls, and a hook counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sam_rlx import _core

from support import cases


class Polls:
    """Polls so far; raises KeyboardInterrupt at the one with number `stop_at`, from 1."""

    def __init__(self, stop_at: int | None) -> None:
        self.count = 0
        self._stop_at = stop_at

    def __call__(self) -> None:
        self.count += 1
        if self.count == self._stop_at:
            raise KeyboardInterrupt


@contextmanager
def polls(stop_at: int | None = None) -> Iterator[Polls]:
    """Count the polls of the block, and interrupt it at one of them."""
    hook = Polls(stop_at)
    _core.set_poll_hook(hook)
    try:
        yield hook
    finally:
        _core.set_poll_hook(None)


def is_interrupted(call: Callable[[], Any], stop_at: int) -> bool:
    """Run `call`, interrupted at poll `stop_at`; whether there was such a poll."""
    with polls(stop_at):
        try:
            call()
        except KeyboardInterrupt:
            return True
    return False


def chosen_polls(count: int) -> list[int]:
    """Return polls of a call that has `count` of them: the ends and the middle, or every sixth.

    Each poll costs a call. The nightly job ``video_operations`` draws others.
    """
    if not cases.full:
        return sorted({stop_at for stop_at in (1, count // 2, count) if stop_at > 0})
    ends = {stop_at for stop_at in (1, 2, count - 1, count) if stop_at > 0}
    return sorted(ends | {*range(1, count, 6)})


def interrupts(call: Callable[[], Any], restore: Callable[[], Any]) -> Iterator[int]:
    """Run `call` to count its polls, `restore` what was before, and interrupt it at chosen polls.

    Yields the number of the poll after each interrupt. In the end `restore` is called again.
    """
    with polls() as seen:
        call()
    restore()
    assert seen.count > 0
    for stop_at in chosen_polls(seen.count):
        if not is_interrupted(call, stop_at):  # what stopped calls have prepared is not done again
            break
        yield stop_at
    restore()
