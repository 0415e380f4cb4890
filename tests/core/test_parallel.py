"""Threads that begin on one core are moved apart."""

from __future__ import annotations

import os
import sys

import pytest
from support.ops import _testing

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked for the core"),
    pytest.mark.source_tree,
]


def _allowed() -> set[int]:
    return set(os.sched_getaffinity(0))


@pytest.mark.skipif(
    sys.platform == "linux" and len(os.sched_getaffinity(0)) < 2, reason="there is one core"
)
def test_a_thread_leaves_the_core_that_it_shares():
    before = _allowed()
    left = 0
    # A busy system moves the thread in between by itself, and back too: rarely on its own.
    for _ in range(1000):
        core = _testing.current_core()
        if _testing.leave_core(core, 2):
            left += _testing.current_core() != core
        assert _allowed() == before
        if left == 20:
            break
    assert left == 20


def test_a_thread_stays_where_there_is_no_core_for_it():
    before = _allowed()
    for core in (-1, 1 << 20, _testing.current_core()):
        assert not _testing.leave_core(core, 1 << 20)
    assert not _testing.leave_core(-1, 2)
    assert _allowed() == before


def test_a_thread_that_may_use_one_core_stays_there():
    before = _allowed()
    only = _testing.current_core()
    os.sched_setaffinity(0, {only})
    try:
        assert not _testing.leave_core(only, 1)
        assert _testing.current_core() == only
        assert _allowed() == {only}
    finally:
        os.sched_setaffinity(0, before)
