"""The Ray engine: what a cluster must have, told before anything waits for it."""

from __future__ import annotations

import types
from typing import Any

import pytest
from sam_rlx import errors
from sam_rlx.apps.batch import on_ray


def cluster(*nodes: float) -> Any:
    """Return Ray with these CPUs on its machines, and one that has gone."""
    there = [{"Alive": True, "Resources": {"CPU": count}} for count in nodes]
    gone = [{"Alive": False, "Resources": {"CPU": 64.0}}, {"Alive": True, "Resources": {}}]
    return types.SimpleNamespace(nodes=lambda: there + gone)


@pytest.mark.parametrize(
    ("nodes", "threads", "cpus"), [((2.0,), 1, 2), ((16.0, 16.0), 4, 32), ((1.0, 1.0, 1.0), 1, 3)]
)
def test_a_cluster_with_enough_cpus(nodes: tuple[float, ...], threads: int, cpus: int) -> None:
    assert on_ray._enough_cpus(cluster(*nodes), threads) == cpus


@pytest.mark.parametrize(("nodes", "threads"), [((1.0,), 1), ((2.0,), 2), ((4.0, 4.0), 5), ((), 1)])
def test_too_few_cpus_are_told(nodes: tuple[float, ...], threads: int) -> None:
    words = rf"at least {threads + 1} CPUs, {threads} of them on one.*found {sum(nodes):.0f}"
    with pytest.raises(errors.StateError, match=words):
        on_ray._enough_cpus(cluster(*nodes), threads)
