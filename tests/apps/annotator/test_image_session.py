"""Sessions of images: what views and callers ask for is what the predictors give."""

from __future__ import annotations

import contextvars
import io as streams
import json
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import _core, io
from sam_rlx.apps.annotator.identity import key_of
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.predict import PREVIEW
from sam_rlx.apps.annotator.values import PackedMask
from sam_rlx.apps.annotator.worker import Worker
from sam_rlx.errors import InvalidArgumentError, StateError, UnsupportedError
from support.half_size import half_size
from support.mask_messages import mask_of

ASSETS = Path(sam_rlx.__file__).parent / "assets"
POINT, OTHER, BOX = (346, 185), (295, 190), [315, 153, 380, 214]


class View:
    """The other end of a session: keeps what it is sent."""

    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, Any], list[bytes], str | None]] = []
        self.came = threading.Condition()

    def send(self, head: dict[str, Any], buffers: list[bytes], view: str | None) -> None:
        with self.came:
            self.messages.append((json.loads(json.dumps(head)), buffers, view))
            self.came.notify_all()

    def wait(self, kind: str, seq: int | None = None) -> tuple[dict[str, Any], list[bytes]]:
        """Return the first message of a type, the answer to a number."""

        def found() -> Any:
            for head, buffers, _ in self.messages:
                answer = head.get("answer") or {}
                if head["type"] == kind and seq in (None, answer.get("seq")):
                    return head, buffers
            return None

        with self.came:
            assert self.came.wait_for(found, 120)
            return found()  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def image() -> Any:
    return io.read_image(ASSETS / "coins.jpg")


@pytest.fixture
def view() -> View:
    return View()


@pytest.fixture
def session(model: sam_rlx.Model, image: Any, view: View) -> Iterator[ImageSession]:
    made = ImageSession(model, image, send=view.send)
    yield made
    made.close()


@pytest.fixture(scope="module")
def predictor(model: sam_rlx.Model, image: Any) -> sam_rlx.ImagePredictor:
    made = sam_rlx.ImagePredictor(model)
    made.set_image(image)
    return made


def test_answers_are_sent_as_small_as_they_are_shown(model: sam_rlx.Model) -> None:
    """Of a large image: masks of objects have the grid of views, answers a coarser one."""
    random = np.random.default_rng(1)
    pixels = random.integers(60, 110, (1300, 1700, 3), np.uint8)
    y, x = np.ogrid[:1300, :1700]
    pixels[(y - 700) ** 2 + (x - 800) ** 2 < 500**2] += 90
    view = View()
    session = ImageSession(model, pixels, send=view.send)
    session.receive({"type": "ready", "view": "v", "seq": 1, "edits": True})
    session.call("click", x=800.0, y=700.0)
    (one,) = session.document.objects
    assert len(one.candidates) == 3
    head, buffers = view.wait("edit")
    sent = {
        mask["id"]: mask_of(mask, buffer)
        for mask, buffer in zip(head["masks"], buffers, strict=True)
    }
    assert (sent[head["objects"][0]["mask"]] == one.mask).all()
    assert len(head["answers"]) == 3
    for told, answer in zip(head["answers"], one.candidates, strict=True):
        wanted = answer.packed.coarse(told["step"])
        assert told["step"] > 1
        assert (sent[told["mask"]] == wanted.to_mask()).all()
        x0, y0, x1, y1 = wanted.box
        assert max(x1 - x0, y1 - y0) <= 161
    assert sum(map(len, buffers)) < 6000
    session.close()


@pytest.mark.parametrize("shape", [(1, 1), (7, 13), (64, 33)])
def test_packed_masks(shape: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    for density in (0.0, 0.02, 0.6, 1.0):
        mask = random.uniform(size=shape) < density
        packed = PackedMask.of(mask)
        assert (packed.to_mask() == mask).all()
        assert (mask_of(packed.head(1), packed.bits) == mask).all()
        np.testing.assert_array_equal(_core.rle_decode(packed.run_lengths(), shape), mask)
        room = [(0, -side % 3) for side in shape]
        cells = np.pad(mask, room).reshape(-(-shape[0] // 3), 3, -(-shape[1] // 3), 3)
        assert (packed.coarse(3).to_mask() == cells.any(axis=(1, 3))).all()
        part = packed.within((1, 2, 9, 11)).to_mask()
        wanted = np.zeros(shape, np.bool_)
        wanted[2:11, 1:9] = mask[2:11, 1:9]
        assert (part == wanted).all()


def test_clicks_and_boxes_are_the_predictors(
    session: ImageSession, predictor: sam_rlx.ImagePredictor
) -> None:
    session.call("click", x=POINT[0], y=POINT[1])
    wanted = predictor.predict(point_coords=[POINT], point_labels=[1])
    one = session.document.objects[0]
    assert (one.mask == wanted.masks[wanted.best().index]).all()
    assert one.score == wanted.best().iou_prediction
    for candidate in range(3):
        session.call("candidate", index=candidate)
        assert (session.document.objects[0].mask == wanted.masks[candidate]).all()
    session.call("click", x=OTHER[0], y=OTHER[1], label=0)
    wanted = predictor.predict(
        point_coords=[POINT, OTHER], point_labels=[1, 0], multimask_output=False
    )
    assert (session.document.objects[0].mask == wanted.masks[0]).all()
    session.call("commit")
    session.call("box", box=BOX)
    first = session.document.objects[0].mask
    wanted = predictor.predict(box=BOX, multimask_output=False)
    assert len(session.document.objects) == 2
    assert (session.document.objects[1].mask == wanted.masks[0] & ~first).all()
    session.call("undo")
    session.call("others_stay", on=False)
    session.call("box", box=BOX)
    assert (session.document.objects[1].mask == wanted.masks[0]).all()


def test_undo_redo_delete_commit_cancel_select(session: ImageSession) -> None:
    session.call("click", x=POINT[0], y=POINT[1])
    first = session.document.objects[0]
    session.call("click", x=OTHER[0], y=OTHER[1], label=0)
    second = session.document.objects[0]
    session.call("undo")
    assert session.document.objects == (first,)
    session.call("redo")
    assert session.document.objects == (second,)
    session.call("commit")
    assert session.current is None
    session.call("click", x=335, y=44)
    session.call("cancel")
    assert session.document.objects == (second,)
    session.call("select", object=1)
    session.call("delete")
    assert session.document.objects == ()
    session.call("undo")
    assert session.document.objects == (second,)
    session.call("rename", object=1, name="coin")
    session.call("recolor", object=1, color=[1, 2, 3])
    assert (session.document.objects[0].name, session.document.objects[0].color) == (
        "coin",
        (1, 2, 3),
    )


def test_start_from_a_mask_and_correct_it(
    session: ImageSession, predictor: sam_rlx.ImagePredictor
) -> None:
    mask = np.zeros(session.hw, np.bool_)
    mask[160:210, 320:372] = True
    session.call("start", mask=mask, name="given")
    assert (session.document.objects[0].mask == mask).all()
    session.call("click", x=POINT[0], y=POINT[1])
    from sam_rlx._internal.arrays.mask_logits import mask_logits

    wanted = predictor.predict(
        point_coords=[POINT],
        point_labels=[1],
        mask_input=mask_logits(mask, session.model),
        multimask_output=False,
    )
    assert (session.document.objects[0].mask == wanted.masks[0]).all()


def test_a_view_sees_what_there_is(session: ImageSession, view: View) -> None:
    session.receive({"type": "ready", "view": "a", "seq": 1})
    head, buffers = view.wait("image", 1)
    shown = np.asarray(Image.open(streams.BytesIO(buffers[0])))
    assert (shown == session.image).all()
    assert (head["width"], head["height"]) == (384, 303)
    session.receive({"type": "hover", "view": "a", "seq": 2, "x": POINT[0], "y": POINT[1]})
    session.receive({"type": "click", "view": "a", "seq": 3, "x": POINT[0], "y": POINT[1]})
    head, buffers = view.wait("state", 3)
    sent = mask_of(head["masks"][0], buffers[0])
    assert (sent == session.document.objects[0].mask).all()
    session.receive({"type": "ready", "view": "b", "seq": 1})
    state = [one for one in view.messages if one[2] == "b" and one[0]["type"] == "state"]
    assert (mask_of(state[0][0]["masks"][0], state[0][1][0]) == sent).all()


@pytest.mark.parametrize("begun", ["nothing", "box", "mask"])
def test_hover_is_what_a_click_gives(session: ImageSession, view: View, begun: str) -> None:
    if begun == "box":
        session.call("box", box=[60, 50, 130, 120])
    elif begun == "mask":
        mask = np.zeros((303, 384), np.bool_)
        mask[80:110, 30:90] = True
        session.call("start", mask=mask)
    before = session.document.objects
    session.receive({"type": "hover", "view": "a", "seq": 2, "x": POINT[0], "y": POINT[1]})
    head, buffers = view.wait("hover", 2)
    assert session.document.objects == before
    session.call("click", x=POINT[0], y=POINT[1])
    mask = session.document.objects[0].mask
    assert (mask_of(head["mask"], buffers[0]) == mask).all()


def test_hover_on_a_large_image_is_smaller_and_alike(model: sam_rlx.Model, view: View) -> None:
    image = np.asarray(Image.open(ASSETS / "coins.jpg").convert("RGB").resize((2304, 1818)))
    session = ImageSession(model, image, send=view.send)
    session.receive({"type": "hover", "view": "a", "seq": 1, "x": 6 * POINT[0], "y": 6 * POINT[1]})
    head, buffers = view.wait("hover", 1)
    assert max(head["mask"]["size"]) == PREVIEW
    session.call("click", x=6 * POINT[0], y=6 * POINT[1])
    hovered = mask_of(head["mask"], buffers[0])
    clicked = session.document.objects[0].mask
    rows = ((np.arange(hovered.shape[0]) + 0.5) * 1818 / hovered.shape[0]).astype(int)
    columns = ((np.arange(hovered.shape[1]) + 0.5) * 2304 / hovered.shape[1]).astype(int)
    sampled = clicked[np.ix_(rows, columns)]
    assert (hovered & sampled).sum() / (hovered | sampled).sum() > 0.98
    session.close()


@pytest.mark.parametrize(
    "message",
    [
        None,
        {},
        {"type": "click", "view": "a"},
        {"type": "click", "view": 5, "seq": 1},
        {"type": "launch", "view": "a", "seq": 1},
        {"type": "start", "view": "a", "seq": 1},
        {"type": "click", "view": "a", "seq": 1, "x": "1", "y": 2},
        {"type": "click", "view": "a", "seq": 1, "x": float("nan"), "y": 2},
        {"type": "click", "view": "a", "seq": 1, "x": 1, "y": 2, "label": 2},
        {"type": "hover", "view": "a", "seq": 1, "x": None, "y": 2},
        {"type": "box", "view": "a", "seq": 1, "box": [3, 3, 1, 9]},
        {"type": "box", "view": "a", "seq": 1, "box": "abcd"},
        {"type": "select", "view": "a", "seq": 1, "object": 4},
        {"type": "select", "view": "a", "seq": 1, "object": 0},
        {"type": "click", "view": "a", "seq": 1, "x": 1, "y": 2, "z": 3},
        {"type": "delete", "view": "a", "seq": 1},
        {"type": "candidate", "view": "a", "seq": 1, "index": 0},
        {"type": "text", "view": "a", "seq": 1, "text": "coin"},
        {"type": "image", "view": "a", "seq": 1, "index": 1},
        {"type": "export", "view": "a", "seq": 1, "format": "gif"},
        {"type": "pick", "view": "a", "seq": 1, "x": 1, "y": 1},
    ],
)
def test_bad_messages_are_answered_and_change_nothing(
    session: ImageSession, view: View, message: Any
) -> None:
    session.receive(message)
    head, _ = view.wait("error")
    assert "expected" in head["text"]
    assert session.document.objects == ()


def test_bad_calls_raise(session: ImageSession) -> None:
    with pytest.raises(InvalidArgumentError, match="x: expected"):
        session.call("click", x="a", y=1)
    with pytest.raises(UnsupportedError, match="text: expected a model of SAM 3"):
        session.call("text", text="coin")
    with pytest.raises(InvalidArgumentError, match="mask: expected shape"):
        session.call("start", mask=np.zeros((3, 3), np.bool_))


def test_everything_and_pick(session: ImageSession, view: View, model: sam_rlx.Model) -> None:
    options = {"points_per_side": 6, "pred_iou_thresh": 0.3, "stability_score_thresh": 0.3}
    session.call("everything", options=options)
    head, _ = view.wait("layer")
    records = sam_rlx.MaskGenerator(model, **options).generate(session.image)
    assert head["count"] == len(records)
    session.call("pick", x=POINT[0], y=POINT[1])
    picked = session.document.objects[0].mask
    assert any((record.mask() == picked).all() for record in records)
    assert picked[POINT[1], POINT[0]]


def test_texts_are_the_concept_predictors(view: View) -> None:
    model = half_size("sam3-nano")
    y, x = np.mgrid[:200, :260]
    image = np.full((200, 260, 3), 140, np.uint8)
    image[(x - 80) ** 2 + (y - 100) ** 2 < 45**2] = (205, 35, 35)
    image[(x - 200) ** 2 + (y - 60) ** 2 < 30**2] = (40, 70, 205)
    session = ImageSession(model, image, send=view.send)
    session.call("text", text="circle", threshold=0.3)
    wanted = sam_rlx.ConceptPredictor(model).predict(image, text="circle", threshold=0.3)
    assert len(wanted.masks)
    assert len(session.document.objects) == len(wanted.masks)
    for one, mask in zip(session.document.objects, wanted.masks, strict=True):
        assert (one.mask == mask).all()
    session.call("text", text="circle", threshold=0.3)
    assert len(session.document.objects) == len(wanted.masks)
    session.call("undo")
    session.call("undo")
    assert session.document.objects == ()
    session.close()


def test_a_folder_is_a_queue(model: sam_rlx.Model, tmp_path: Path) -> None:
    for name, size in (("a.png", (40, 30)), ("b.png", (50, 20))):
        Image.new("RGB", size, (200, 30, 30)).save(tmp_path / name)
    session = ImageSession(model, tmp_path)
    session.call("click", x=5, y=5)
    first = session.document.objects
    session.call("image", index=1)
    assert session.hw == (20, 50)
    assert session.document.objects == ()
    session.call("click", x=9, y=9)
    session.call("image", index=0)
    assert session.document.objects == first
    document = json.loads(session.call("export", format="coco").contents)
    assert [entry["file_name"] for entry in document["images"]] == ["a.png", "b.png"]
    assert [entry["image_id"] for entry in document["annotations"]] == [1, 2]
    session.close()
    with pytest.raises(FileNotFoundError, match="images"):
        ImageSession(model, tmp_path / "none")


def test_images_that_cannot_be_read_are_marked(
    model: sam_rlx.Model, view: View, tmp_path: Path
) -> None:
    """Also those that were never open: the mended file is an item with the key of its content."""
    for name in ("a", "b", "c"):
        Image.new("RGB", (40, 30), (200, 30, ord(name))).save(tmp_path / f"{name}.png")
    whole = {at: (tmp_path / f"{at}.png").read_bytes() for at in "ac"}
    for at in "ac":
        (tmp_path / f"{at}.png").write_bytes(whole[at][:60])
    session = ImageSession(model, tmp_path, send=view.send)
    rows = session.queue_rows()
    assert [rows[at]["state"] for at in range(3)] == ["unreadable", "begun", "new"]
    assert "truncated" in rows[0]["reason"]
    with pytest.raises(InvalidArgumentError, match=r"c\.png cannot be read"):
        session.call("image", index=2)
    told = [head for head, _, _ in view.messages if head["type"] == "project"][-1]["items"]
    assert [row["state"] for row in told] == ["unreadable", "begun", "unreadable"]
    for at in "ac":
        (tmp_path / f"{at}.png").write_bytes(whole[at])
    session.call("image", index=2)
    session.call("image", index=0)
    rows = session.queue_rows()
    assert [rows[at]["state"] for at in range(3)] == ["begun"] * 3
    assert rows[0]["reason"] == ""
    assert key_of(tmp_path / "a.png") == rows[0]["key"]
    session.close()


def test_classes_are_repeated(model: sam_rlx.Model, tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c.png"):
        Image.new("RGB", (40, 30), (200, 30, ord(name[0]))).save(tmp_path / name)
    session = ImageSession(model, tmp_path)
    with pytest.raises(InvalidArgumentError, match="an image with objects before, found none"):
        session.call("repeat_from")
    session.call("class_add", name="cell")
    session.call("set_class", class_number=2)
    session.call("click", x=5, y=5)
    session.call("commit")
    session.call("set_class", class_number=1)
    session.call("image", index=2)
    session.call("repeat_from")
    assert session.class_number == 2
    session.close()


def test_a_file_is_upright_and_an_image_as_its_pixels_are(
    model: sam_rlx.Model, tmp_path: Path
) -> None:
    """Masks are in the frame of `session.image`, which `io.read_image` gives too."""
    pixels = np.random.default_rng(1).integers(0, 255, (20, 31, 3), np.uint8)
    turned = Image.Exif()
    turned[0x0112] = 8
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=turned)
    with Image.open(tmp_path / "a.png") as opened:
        for given, seen in ((tmp_path / "a.png", np.rot90(pixels)), (opened, pixels)):
            session = ImageSession(model, given, num_threads=1)
            np.testing.assert_array_equal(session.image, seen)
            session.call("click", x=5, y=5)
            assert session.document.objects[0].mask.shape == seen.shape[:2]
            session.close()
    np.testing.assert_array_equal(io.read_image(tmp_path / "a.png"), np.rot90(pixels))


def test_exports_hold_the_masks(session: ImageSession) -> None:
    session.call("click", x=POINT[0], y=POINT[1])
    session.call("commit")
    session.call("box", box=[305, 14, 368, 76])
    masks = [one.mask for one in session.document.objects]
    document = json.loads(session.call("export", format="coco").contents)
    for entry, mask in zip(document["annotations"], masks, strict=True):
        assert entry["area"] == mask.sum()
    arrays = np.load(streams.BytesIO(session.call("export", format="npz").contents))
    assert (arrays["masks"] == masks).all()
    with zipfile.ZipFile(streams.BytesIO(session.call("export", format="png").contents)) as files:
        for name, mask in zip(files.namelist(), masks, strict=True):
            pixels = np.asarray(Image.open(streams.BytesIO(files.read(name))))
            assert (pixels == 255 * mask).all()
    labels = np.asarray(
        Image.open(streams.BytesIO(session.call("export", format="labels").contents))
    )
    assert ((labels == 2) == masks[1]).all()
    assert ((labels == 1) == (masks[0] & ~masks[1])).all()
    polygons = json.loads(session.call("export", format="polygons").contents)
    assert len(polygons["objects"]) == 2


def test_clicks_are_never_dropped_and_of_hovers_the_newest_wins() -> None:
    worker, gate, done = Worker("test"), threading.Event(), []
    worker.submit(gate.wait)
    for number in range(5):
        worker.preview("a", lambda number=number: done.append(("hover", number)))  # type: ignore[misc]
        worker.submit(lambda number=number: done.append(("click", number)))  # type: ignore[misc]
    gate.set()
    worker.submit(lambda: None).result(60)
    ended = threading.Event()
    worker.preview("b", ended.set)
    assert ended.wait(60)
    assert done == [*(("click", number) for number in range(5)), ("hover", 4)]
    worker.close()
    with pytest.raises(StateError, match="closed"):
        worker.submit(lambda: None)


def test_hovers_beside_a_cell_that_predicts(
    session: ImageSession, view: View, predictor: sam_rlx.ImagePredictor
) -> None:
    for number in range(200):
        message = {"type": "hover", "view": "a", "seq": number, "x": 20 + number, "y": 40}
        session.receive(message)
        if number % 20 == 0:
            predictor.predict(point_coords=[POINT], point_labels=[1])
    view.wait("hover", 199)
    assert not [head for head, _, _ in view.messages if head["type"] == "error"]


def test_work_runs_in_the_context_of_its_caller() -> None:
    """Hosts keep there whose page an answer is for: gestures, previews and steps, each its own."""
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")
    worker, seen = Worker("test"), []
    done = threading.Event()

    def steps() -> Iterator[None]:
        for _ in range(2):
            seen.append(("step", user.get()))
            yield
        done.set()

    def asked(name: str) -> None:
        user.set(name)
        worker.submit(lambda: seen.append(("work", user.get()))).result(10)
        worker.preview(name, lambda: seen.append(("preview", user.get())))
        worker.submit(lambda: user.set("changed")).result(10)
        worker.submit(lambda: seen.append(("work", user.get()))).result(10)

    for name in ("ann", "bob"):
        contextvars.copy_context().run(asked, name)
    contextvars.copy_context().run(lambda: (user.set("eve"), worker.start(steps())))
    assert done.wait(10)
    worker.close()
    assert sorted(seen) == sorted(
        [
            *(("work", name) for name in ("ann", "ann", "bob", "bob")),
            *(("preview", name) for name in ("ann", "bob")),
            *[("step", "eve")] * 2,
        ]
    )
    assert user.get() == "nobody"


def test_errors_are_told_in_the_context_of_the_gesture(
    model: sam_rlx.Model, image: np.ndarray
) -> None:
    """A host with many users refuses messages of which it does not know for whom they are."""
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")
    seen: list[tuple[str, str]] = []
    told = threading.Event()

    def send(head: dict[str, Any], buffers: list[bytes], view: str | None) -> None:
        seen.append((head["type"], user.get()))
        if head["type"] == "error":
            told.set()

    session = ImageSession(model, image, send=send)

    def refused() -> None:
        user.set("ann")
        session.receive({"type": "candidate", "view": "a", "seq": 1, "index": 2})

    contextvars.copy_context().run(refused)
    assert told.wait(10)
    session.close()
    assert [name for kind, name in seen if kind == "error"] == ["ann"]


def test_what_is_only_shown_waits_for_gestures() -> None:
    worker, order = Worker("test"), []
    begun, free = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        free.wait(60)

    worker.submit(first)
    assert begun.wait(60)
    worker.preview("a", lambda: order.append("hover"))
    worker.submit(lambda: order.append("tiles"), later=True)
    worker.submit(lambda: order.append("more tiles"), later=True)
    worker.submit(lambda: order.append("click"))
    worker.submit(lambda: order.append("another click"))
    assert len(worker) == 4
    free.set()
    ended = threading.Event()
    worker.preview("b", ended.set)
    assert ended.wait(60)
    assert order == ["click", "another click", "tiles", "more tiles", "hover"]
    waiting = worker.submit(lambda: free.wait(1), later=True)
    worker.close()
    assert waiting.cancelled() or waiting.result(60)
