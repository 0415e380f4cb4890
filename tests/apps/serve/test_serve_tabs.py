"""A socket of a page: one session for each tab."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import sam_rlx
from PIL import Image
from sam_rlx.apps.serve.engine import Engine
from sam_rlx.apps.serve.tabs import packed, unpacked
from starlette.testclient import TestClient
from support.half_size import half_size
from support.interactive import SESSION, client_of, predictor_of
from support.jupyter import wait_for
from support.mask_messages import mask_of


class Tab:
    """The other end of a page's socket."""

    def __init__(self, socket: Any, model: str = "sam-nano") -> None:
        self.socket = socket
        assert self.next("welcome")[0]["models"] == [model]

    def send(self, head: dict[str, Any], *buffers: bytes) -> None:
        self.socket.send_bytes(packed(head, buffers))

    def next(self, kind: str) -> tuple[dict[str, Any], list[memoryview]]:
        """Return the next message of a type."""
        while True:
            head, buffers = unpacked(self.socket.receive_bytes())
            assert head["type"] == kind or head["type"] != "error", head
            if head["type"] == kind:
                return head, buffers

    def open(self, *files: bytes) -> None:
        self.send({"type": "open", "names": [f"{k}.png" for k in range(len(files))]}, *files)
        self.next("opened")
        self.send({"type": "ready", "view": "v", "seq": 1})

    def click(self, x: float, y: float, seq: int) -> np.ndarray:
        """Click, and return the mask of the current object."""
        self.send({"type": "click", "view": "v", "seq": seq, "x": x, "y": y, "label": 1})
        while (state := self.next("state"))[0]["answer"] != {"view": "v", "seq": seq}:
            pass
        head, buffers = state
        at = [one["id"] for one in head["masks"]].index(head["objects"][-1]["mask"])
        return mask_of(head["masks"][at], buffers[at])


def test_two_tabs_do_not_mix(
    client: TestClient, png: bytes, image: np.ndarray, model: sam_rlx.Model, engine: Engine
) -> None:
    flipped = np.ascontiguousarray(image[:, ::-1])
    file = io.BytesIO()
    Image.fromarray(flipped).save(file, "PNG")
    with (
        client,
        client.websocket_connect(SESSION) as a,
        client.websocket_connect(SESSION) as b,
    ):
        first, second = Tab(a), Tab(b)
        first.open(png)
        second.open(file.getvalue())
        shown, _ = first.next("image")
        assert (shown["width"], shown["height"], shown["name"]) == (203, 151, "0.png")
        for tab, pixels, point in ((first, image, (60, 60)), (second, flipped, (142, 60))):
            found = predictor_of(model, pixels).predict(point_coords=[point], point_labels=[1])
            mask = tab.click(*point, seq=2)
            np.testing.assert_array_equal(mask, found.masks[found.best().index])
        third = client.websocket_connect(SESSION)
        with third as c:
            again = Tab(c)
            again.open(png)
            again.click(60, 60, seq=2)
    assert engine.num_encoded == 2


def test_a_tab_that_goes_while_it_waits_leaves_the_queue(
    client: TestClient, png: bytes, engine: Engine
) -> None:
    with client:
        with engine.queue.turn(), client.websocket_connect(SESSION) as socket:  # another one's turn
            Tab(socket).open(png)
            wait_for(lambda: len(engine.queue) == 2, "an image that waits")
        with client.websocket_connect(SESSION) as socket:
            tab = Tab(socket)
            tab.open(png)
            assert tab.click(60, 60, seq=2).any()
        wait_for(lambda: len(engine.queue) == 0, "an empty queue")
    assert engine.num_encoded == 1


def test_tabs_are_told_of_wrong_messages(client: TestClient, png: bytes) -> None:
    with client, client.websocket_connect(SESSION) as socket:
        tab = Tab(socket)
        for message in (
            b"",
            b"\xff\xff\xff\xff",
            b"\x02\0\0\0[]",
            packed({"type": "click"}, []),
            packed({"type": "open", "names": []}, []),
            packed({"type": "open", "names": ["a"]}, [b"no image"]),
            packed({"type": "open", "names": ["/etc/passwd"]}, []),
            packed({"type": "open", "names": ["a"], "model": "b"}, [png]),
        ):
            socket.send_bytes(message)
            head, _ = unpacked(socket.receive_bytes())
            assert head["type"] == "error", message
        tab.open(png)
        assert tab.click(60, 60, seq=2).any()


def test_files_of_other_programs_are_seen_as_their_users_see_them(
    client: TestClient, image: np.ndarray, model: sam_rlx.Model
) -> None:
    """Upright, without alpha, 16 bits over all their range; masks are in the frame that is seen."""
    grey = image[:, :, 0].astype(np.uint16)
    turned = Image.Exif()
    turned[0x0112] = 6  # what is stored is turned to the left
    stored = Image.fromarray(np.ascontiguousarray(np.rot90(image)))
    alpha = np.dstack([image, np.full(image.shape[:2], 7, np.uint8)])
    bright = (grey - grey.min()) * 255.0 / np.ptp(grey)
    files = {
        "turned.png": (stored, image, {"exif": turned}, ""),
        "alpha.png": (Image.fromarray(alpha), image, {}, ""),
        "deep.tif": (Image.fromarray(grey * 257), np.dstack([grey] * 3), {}, ""),
        "narrow.tif": (Image.fromarray(grey), np.dstack([np.rint(bright)] * 3), {}, "stretched"),
    }
    for name, (file, seen, options, noted) in files.items():
        data = io.BytesIO()
        file.save(data, "TIFF" if name.endswith("tif") else "PNG", **options)
        with client.websocket_connect(SESSION) as socket:
            tab = Tab(socket)
            tab.send({"type": "open", "names": [name]}, data.getvalue())
            first, _ = unpacked(socket.receive_bytes())
            while first["type"] == "status":
                first, _ = unpacked(socket.receive_bytes())
            assert (noted in first["text"] and name in first["text"]) if noted else True, first
            assert first["type"] == ("note" if noted else "opened")
            tab.send({"type": "ready", "view": "v", "seq": 1})
            head, (sent,) = tab.next("image")
            assert (head["width"], head["height"]) == (203, 151)
            pixels = np.asarray(Image.open(io.BytesIO(sent)))
            assert np.abs(pixels.astype(int) - seen).max() <= 1
            found = predictor_of(model, pixels).predict(point_coords=[(60, 60)], point_labels=[1])
            np.testing.assert_array_equal(tab.click(60, 60, 2), found.masks[found.best().index])


def test_messages_come_back_as_they_were() -> None:
    head, buffers = unpacked(packed({"type": "a", "x": 1}, [b"", b"abc", memoryview(b"de")]))
    assert head == {"type": "a", "x": 1}
    assert [bytes(buffer) for buffer in buffers] == [b"", b"abc", b"de"]


def test_texts_of_tabs_wait_for_their_turn(png: bytes, image: np.ndarray) -> None:
    """One image is encoded at a time, and once for the texts of all tabs."""
    sam3 = half_size("sam3-nano")
    engine = Engine({"sam3-nano": sam3}, num_threads=1)
    client = client_of(engine)
    found = sam_rlx.ConceptPredictor(sam3).predict(image, text="circle", threshold=0.3)
    assert len(found.scores)
    with client, client.websocket_connect(SESSION) as a, client.websocket_connect(SESSION) as b:
        tabs = [Tab(socket, "sam3-nano") for socket in (a, b)]
        for tab in tabs:
            tab.open(png)
            tab.click(60, 60, seq=2)
        assert engine.num_encoded == 1
        ask = {"type": "text", "view": "v", "seq": 3, "text": "circle", "threshold": 0.3}
        with engine.queue.turn():  # of another one
            tabs[0].send(ask)
            while tabs[0].next("status")[0]["text"] != "1 before this image":
                pass
            assert engine.num_encoded == 1
        tabs[1].send(ask)
        for tab in tabs:
            while (state := tab.next("state"))[0]["answer"] != {"view": "v", "seq": 3}:
                pass
            named = [one for one in state[0]["objects"] if one["text"] == "circle"]
            assert [one["score"] for one in named] == [float(score) for score in found.scores]
    assert engine.num_encoded == 2


def test_the_next_image_is_encoded_while_nobody_asks(
    client: TestClient,
    engine: Engine,
    png: bytes,
    image: np.ndarray,
    model: sam_rlx.Model,
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr("sam_rlx.apps.annotator.image_session._QUIET", 0.01)
    files = [png]
    for shift in (20, 40):
        file = io.BytesIO()
        Image.fromarray(np.roll(image, shift, axis=1)).save(file, "PNG")
        files.append(file.getvalue())
    with client, client.websocket_connect(SESSION) as socket:
        tab = Tab(socket)
        tab.open(*files)
        wait_for(lambda: engine.num_encoded == 2, "the second image")
        tab.send({"type": "image", "view": "v", "seq": 2, "index": 1})
        wait_for(lambda: engine.num_encoded == 3, "the third image")  # the second was there
        pixels = np.roll(image, 20, axis=1)
        found = predictor_of(model, pixels).predict(point_coords=[(80, 60)], point_labels=[1])
        np.testing.assert_array_equal(tab.click(80, 60, 3), found.masks[found.best().index])
    assert engine.num_encoded == 3
