"""What goes on while nothing else waits: a text in all images, and the next image."""

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
from sam_rlx.errors import InvalidArgumentError, StateError
from support.half_size import half_size

from tests.apps.annotator.test_image_session import View

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
    return half_size("sam3-nano")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for at in range(3):
        Image.fromarray(scene(at)).save(tmp_path / f"{at}.png")
    (tmp_path / "1b.png").write_bytes(b"no image")
    return tmp_path


def objects(session: ImageSession) -> dict[str, list[Any]]:
    sources, document = session.sources, session.project.document
    return {
        sources.path(at): list(document(sources.known_key(at)).objects)
        for at in session.annotated_indices()
    }


def test_a_text_in_all_images_is_one_edit(sam3: sam_rlx.Model, folder: Path) -> None:
    view = View()
    session = ImageSession(sam3, folder, send=view.send)
    ask = {"type": "text", "view": "v", "text": "circle", "threshold": 0.3, "scope": "all"}
    session.receive({**ask, "seq": 1})
    session.receive({**ask, "seq": 2})
    session.receive({"type": "click", "view": "v", "seq": 3, "x": 20, "y": 20})
    assert "no search in all images" in view.wait("error", 2)[0]["text"]
    note = next_note(view)
    predictor = sam_rlx.ConceptPredictor(sam3)
    found = objects(session)
    assert sorted(found) == ["0.png", "1.png", "2.png"]
    total = 0
    for at in range(3):
        wanted = predictor.predict(scene(at), text="circle", threshold=0.3).masks
        assert len(wanted)
        total += len(wanted)
        named = [one for one in found[f"{at}.png"] if one.text == "circle"]
        np.testing.assert_array_equal([one.mask for one in named], wanted)
    assert note == f"Found {total} for 'circle' in 3 of 3 images. 1 cannot be read."
    assert session.selected is not None  # the current object stays current
    (known,) = (o for o in session.project.history.project.classes if o.name == "circle")
    assert known.number == found["2.png"][0].class_number
    session.call("undo")
    assert {name: [one.text for one in each] for name, each in objects(session).items()} == {
        "0.png": [None]
    }
    session.call("redo")
    assert objects(session) == found
    # Again: what was found before is replaced.
    session.receive({**ask, "seq": 4})
    wait_for_notes(view, 2)
    assert {name: len(each) for name, each in objects(session).items()} == {
        name: len(each) for name, each in found.items()
    }
    session.close()


def test_more_like_the_boxes_of_an_image_in_all_images(sam3: sam_rlx.Model, folder: Path) -> None:
    """Boxes of the current image are its own, and examples for the others."""
    view = View()
    session = ImageSession(sam3, folder, send=view.send)
    ask = {"type": "text", "view": "v", "text": "", "threshold": 0.05, "scope": "all"}
    predictor = sam_rlx.ConceptPredictor(sam3)
    box = predictor.predict(scene(0), text="circle", threshold=0.3).boxes[0].tolist()
    marked = {"boxes": [box], "box_labels": [1]}
    session.receive({**ask, **marked, "seq": 1})
    note = next_note(view)
    found = objects(session)
    examples = predictor.encode_examples(scene(0), [box])
    total = 0
    for at in range(3):
        wanted = predictor.predict(scene(at), examples=examples, threshold=0.05).masks
        total += len(wanted)
        named = [one.mask for one in found.get(f"{at}.png", []) if one.text == "example"]
        np.testing.assert_array_equal(np.array(named).reshape(wanted.shape), wanted)
    assert total > 1
    assert note.startswith(f"Found {total} for 'example' in ")
    session.close()


def next_note(view: View) -> str:
    return wait_for_notes(view, 1)[0]


def wait_for_notes(view: View, count: int) -> list[str]:
    def notes() -> list[str]:
        return [head["text"] for head, _, _ in view.messages if head.get("about") == "search"]

    with view.came:
        assert view.came.wait_for(lambda: len(notes()) >= count, WAIT)
        return notes()


def test_stop_keeps_what_was_found(sam3: sam_rlx.Model, folder: Path) -> None:
    view = View()

    def send(head: dict[str, Any], buffers: list[bytes], to: str | None) -> None:
        view.send(head, buffers, to)
        if head["type"] == "status" and "2 of 4" in head["text"]:
            assert head["stops"]
            session.receive({"type": "stop", "view": "v", "seq": 9})

    session = ImageSession(sam3, folder, send=send)
    ask = {"type": "text", "view": "v", "seq": 1, "text": "circle", "threshold": 0.3}
    session.receive({**ask, "scope": "all"})
    assert "in 1 of 1 images" in next_note(view)
    assert list(objects(session)) == ["0.png"]
    session.call("undo")
    assert objects(session) == {}
    session.close()


def test_a_search_is_for_something(sam3: sam_rlx.Model, folder: Path) -> None:
    session = ImageSession(sam3, folder)
    with pytest.raises(InvalidArgumentError, match="scope: expected a text or example boxes"):
        session.call("text", text="", scope="all")
    with pytest.raises(InvalidArgumentError, match="scope: expected image or all"):
        session.call("text", text="circle", scope="folder")
    session.close()


def test_a_caller_waits_for_the_search(sam3: sam_rlx.Model, folder: Path) -> None:
    pytest.importorskip("anywidget", reason="the widget")
    from sam_rlx.widget import SegmentWidget

    widget = SegmentWidget(sam3, folder, project=False)
    widget.text("circle", threshold=0.3, scope="all")
    assert len(objects(widget._session)) == 3
    widget.close()


def test_a_closed_session_ends_a_search(sam3: sam_rlx.Model, folder: Path) -> None:
    began = threading.Event()

    def send(head: dict[str, Any], buffers: list[bytes], to: str | None) -> None:
        if head["type"] == "status" and "1 of 4" in head["text"]:
            began.set()

    session = ImageSession(sam3, folder, send=send)
    session.receive({"type": "text", "view": "v", "seq": 1, "text": "circle", "scope": "all"})
    assert began.wait(WAIT)
    session.close()
    with pytest.raises(StateError):
        session.call("undo")
    assert objects(session) == {}


# ---------------------------------------------------------------- the next image


def test_the_next_image_is_taken_when_nobody_asks(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("sam_rlx.apps.annotator.image_session._QUIET", 0.01)
    model = half_size("sam-nano")
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
