"""What goes on while nothing else waits: the next image."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from numpy.typing import NDArray
from PIL import Image
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.worker import Worker

HW = (200, 260)
WAIT = 120.0


def scene(at: int) -> NDArray[np.uint8]:
    """Return a red circle, elsewhere in each image."""
    y, x = np.mgrid[: HW[0], : HW[1]]
    made = np.full((*HW, 3), 140, np.uint8)
    made[(x - 80 - 40 * at) ** 2 + (y - 100) ** 2 < 45**2] = (205, 35, 35)
    return made


@pytest.fixture(scope="module")
def sam3() -> sam_rlx.Model:
    return sam_rlx.load_model("sam3-nano")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for at in range(3):
        Image.fromarray(scene(at)).save(tmp_path / f"{at}.png")
    (tmp_path / "1b.png").write_bytes(b"no image")
    return tmp_path


# ---------------------------------------------------------------- the next image


def test_the_next_image_is_taken_when_nobody_asks(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("sam_rlx.apps.annotator.image_session._QUIET", 0.01)
    model = sam_rlx.load_model("sam-nano")
    taken: list[tuple[str, bool]] = []
    came = threading.Condition()

    def ahead(image: NDArray[np.uint8], wanted: Any) -> bool:
        at = next(k for k in range(3) if np.array_equal(image, scene(k)))
        with came:
            taken.append((f"{at}.png", wanted()))
            came.notify_all()
        return len(taken) > 1  # the first time it gave way

    def waits_for(wanted: list[tuple[str, bool]]) -> None:
        with came:
            assert came.wait_for(lambda: len(taken) >= len(wanted), WAIT)
            assert taken == wanted

    session = ImageSession(model, folder, ahead=ahead)
    wanted = 2 * [("1.png", False)]
    waits_for(wanted)
    session.call("click", x=80, y=100)
    assert taken == wanted  # it is done with
    session.call("image", index=1)
    session.call("click", x=80, y=100)
    session.call("image", index=3)  # the last one
    assert taken == wanted  # the image behind the second one cannot be read
    session.call("image", index=0)
    waits_for([*wanted, ("1.png", False)])
    session.close()


def test_steps_wait_for_a_pause() -> None:
    worker = Worker("test")
    order: list[str] = []
    done = threading.Event()

    def steps() -> Iterator[None]:
        order.append("step")
        yield
        order.append("step")
        done.set()

    hold = threading.Event()
    held = worker.submit(lambda: hold.wait(WAIT))
    worker.start(steps(), 0.05)
    for at in range(3):
        worker.submit(lambda at=at: order.append(f"work {at}"))
    assert worker.is_wanted
    hold.set()
    assert held.result(WAIT)
    assert done.wait(WAIT)
    assert order == ["work 0", "work 1", "work 2", "step", "step"]
    assert not worker.is_wanted
    worker.close()
