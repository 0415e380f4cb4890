"""A click gives work to as many threads as it is enough for: never to all that are asked for."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from support.cases import quick

ASSETS = Path(sam_rlx.__file__).parent / "assets"
MODELS = ["sam-nano", "sam2-nano", "sam3-nano"]


@pytest.fixture(scope="module")
def image():
    return np.random.default_rng(0).integers(0, 256, (301, 403, 3), np.uint8)


def click(testing, model, image, threads, precision=None):
    """Parallel loops (asked, threads, work, ranges) of a click, and its logits."""
    path = str(ASSETS / f"{model}.gguf")
    return testing.click_loops(path, image, 200.0, 150.0, threads, precision=precision)


@pytest.mark.parametrize(
    ("model", "precision"),
    quick(itertools.product(MODELS, ("float32", "int8", "bfloat16")), 0, 4, 8),
)
def test_threads_follow_from_the_work(testing, image, model, precision):
    least = testing.min_thread_work
    first = None
    for asked in (2, 8, 16, 64):
        loops, logits = click(testing, model, image, asked, precision)
        works = [work for _, _, work, _ in loops]
        for given, threads, work, ranges in loops:
            assert given == asked
            assert threads == max(1, min(asked, work // least, ranges))
        if first is None:
            first = (works, logits)
            assert len(loops) > 20
            continue
        # The same loops with the same work, whatever is asked for; and the same bits.
        assert len(works) == len(first[0])
        np.testing.assert_array_equal(logits, first[1])


@pytest.mark.parametrize("model", quick(MODELS, 1))
def test_more_threads_than_a_click_has_work_for_change_nothing(testing, image, model):
    """The threads that 64 wake are those that the work is enough for."""
    few, _ = click(testing, model, image, 64)
    many, _ = click(testing, model, image, 1024)
    given = [threads for _, threads, _, _ in few]
    assert max(given) < 64
    assert [threads for _, threads, _, _ in many] == given
    # Most ops of a click are too small for all of 16 cores.
    assert np.median(given) <= 8
