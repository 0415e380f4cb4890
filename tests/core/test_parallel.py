"""Threads that begin on one core are moved apart."""

from __future__ import annotations

import os
import sys

import pytest
from sam_rlx import _testing

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked for the core")


def _allowed() -> set[int]:
    return set(os.sched_getaffinity(0))


@pytest.mark.skipif(
    sys.platform == "linux" and len(os.sched_getaffinity(0)) < 2, reason="there is one core"
)
def test_a_thread_leaves_the_core_that_it_shares():
    before = _allowed()
    left = []
    for _ in range(20):  # the system may move the thread by itself in between
        core = _testing.current_core()
        if _testing.leave_core(core, 2):
            left.append(_testing.current_core() != core)
        assert _allowed() == before
    assert sum(left) > 10


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
