"""Encoded images: kept by content within a bound, made one at a time."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import sam_rlx
from sam_rlx.apps.serve.engine import BusyError, Cache, Encoded, Engine, Queue
from sam_rlx.apps.serve.stopping import GivingWay, Stop, StoppedError, poll
from support import HANG_SECONDS
from support.interactive import predictor_of


def test_cache_has_a_bound() -> None:
    cache = Cache(100)

    def entry(key: bytes, size: int) -> Encoded:
        return Encoded(key, (1, 1), (np.zeros(size // 4, np.float32),))

    for key in (b"a", b"b"):
        cache.put(entry(key, 40))
    assert cache.get(b"a") is not None
    cache.put(entry(b"c", 40))
    assert [cache.get(key) is not None for key in (b"a", b"b", b"c")] == [True, False, True]
    cache.put(entry(b"d", 104))
    assert cache.get(b"d") is None
    assert cache.nbytes == 80


def test_turns_come_in_order_and_say_how_many_are_before() -> None:
    queue, order, told = Queue(), [], []
    first_has_it, go_on = threading.Event(), threading.Event()

    def first() -> None:
        with queue.turn():
            first_has_it.set()
            assert go_on.wait(HANG_SECONDS)
            order.append(0)

    def later(number: int, asked: threading.Event) -> None:
        def waiting(before: int) -> None:
            told.append((number, before))
            asked.set()

        with queue.turn(waiting):
            order.append(number)

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert first_has_it.wait(HANG_SECONDS)
    for number in (1, 2):
        asked = threading.Event()
        threads.append(threading.Thread(target=later, args=(number, asked)))
        threads[-1].start()
        assert asked.wait(HANG_SECONDS)
    assert len(queue) == 3
    go_on.set()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert order == [0, 1, 2]
    assert told[:2] == [(1, 1), (2, 2)]
    assert len(queue) == 0


def test_who_waits_too_long_is_told() -> None:
    queue = Queue(seconds=0.01)
    with queue.turn(), pytest.raises(BusyError, match="1 images before"), queue.turn():
        pass
    assert len(queue) == 0


def test_of_too_many_the_last_is_refused() -> None:
    queue = Queue(most=0)
    with queue.turn(), pytest.raises(BusyError, match="at most 0 images"), queue.turn():
        pass
    assert len(queue) == 0


def test_who_goes_leaves_the_queue() -> None:
    queue, stop = Queue(), Stop()

    def waiting(_: int) -> None:
        stop.set()

    with queue.turn(), stop.ends_work(), pytest.raises(StoppedError), queue.turn(waiting):
        pass
    assert len(queue) == 0
    with queue.turn():  # it was this thread's for the block only
        pass


def test_a_stop_ends_its_parts() -> None:
    whole = Stop()
    part = Stop(whole)
    with part.ends_work():
        with Stop().ends_work():
            whole.set()
            poll()
        with pytest.raises(StoppedError):
            poll()
    poll()
    assert part.is_set


def test_an_image_is_encoded_once(
    engine: Engine, png: bytes, image: np.ndarray, model: sam_rlx.Model
) -> None:
    prompts = {"point_coords": [[60, 60]], "point_labels": [1]}
    expected = predictor_of(model, image).predict(**prompts)
    for source in (png, png, bytes(png)):
        found = engine.click("sam-nano", source, prompts)
        np.testing.assert_array_equal(found.masks, expected.masks)
    assert engine.num_encoded == 1
    flipped = np.ascontiguousarray(image[::-1])
    found = engine.click("sam-nano", flipped, prompts)
    np.testing.assert_array_equal(
        found.masks, predictor_of(model, flipped).predict(**prompts).masks
    )
    np.testing.assert_array_equal(engine.click("sam-nano", png, prompts).masks, expected.masks)
    assert engine.num_encoded == 2


def test_work_that_gives_way_ends_when_something_is_wanted() -> None:
    wanted, whole = [False], Stop()
    with GivingWay(whole, lambda: wanted[0]).ends_work():
        poll()
        wanted[0] = True
        with pytest.raises(StoppedError):
            poll()
        wanted[0] = False
        poll()
        whole.set()
        with pytest.raises(StoppedError):
            poll()
    poll()
