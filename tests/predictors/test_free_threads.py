"""Threads at one model and at one predictor; Python without a global lock keeps it off."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable

import numpy as np
import pytest
import sam_rlx
from sam_rlx.errors import StateError
from support.half_size import half_size

THREADS = 6
CALLS = 4


@pytest.fixture(scope="module")
def model() -> sam_rlx.Model:
    return half_size("sam2-nano")


@pytest.fixture(scope="module")
def images() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.integers(0, 256, (61 + i, 83, 3), np.uint8) for i in range(THREADS)]


def click(predictor: sam_rlx.ImagePredictor, image: np.ndarray) -> np.ndarray:
    predictor.set_image(image)
    return predictor.predict(point_coords=[[40, 30]], point_labels=[1]).low_res_masks


def together(work: Callable[[int], None]) -> None:
    """Call work(0), work(1) and so on in threads that begin at the same moment."""
    barrier = threading.Barrier(THREADS)
    failed: list[BaseException] = []

    def run(number: int) -> None:
        barrier.wait()
        try:
            for _ in range(CALLS):
                work(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def test_threads_share_a_model(model: sam_rlx.Model, images: list[np.ndarray]) -> None:
    """Each has a predictor of its own: the bits are those of one thread."""
    wanted = [click(sam_rlx.ImagePredictor(model, num_threads=1), image) for image in images]
    predictors = [sam_rlx.ImagePredictor(model, num_threads=2) for _ in images]

    def work(number: int) -> None:
        found = click(predictors[number], images[number])
        np.testing.assert_array_equal(found, wanted[number])

    together(work)


def test_threads_at_one_predictor(model: sam_rlx.Model, images: list[np.ndarray]) -> None:
    """A call beside another one is refused; one that is not has the bits of one thread."""
    predictor = sam_rlx.ImagePredictor(model, num_threads=1)
    wanted = click(predictor, images[0])

    def work(number: int) -> None:
        del number
        try:
            found = predictor.predict(point_coords=[[40, 30]], point_labels=[1]).low_res_masks
        except StateError:
            return
        np.testing.assert_array_equal(found, wanted)

    together(work)
    # Nothing stays in use.
    np.testing.assert_array_equal(click(predictor, images[0]), wanted)


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="has a global lock")
def test_the_import_keeps_the_lock_off() -> None:
    code = "import sys, sam_rlx; raise SystemExit(sys._is_gil_enabled())"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], env={}, check=False)
    assert done.returncode == 0
