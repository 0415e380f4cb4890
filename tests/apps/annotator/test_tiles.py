"""What is seen: tiles of the image and masks at a level, and messages of what has changed."""

from __future__ import annotations

import io
import threading
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.tiles import TILE, WHOLE, Pyramid, level_of, masks_in
from sam_rlx.apps.annotator.values import Mask, Object, PackedMask
from support.half_size import half_size
from support.mask_messages import mask_of

HW = (1100, 1301)


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    y, x = np.mgrid[: HW[0], : HW[1]]
    return np.stack([x // 6 % 256, y // 5 % 256, (x + y) // 9 % 256], axis=2).astype(np.uint8)


def test_levels_are_means(pixels: np.ndarray) -> None:
    pyramid = Pyramid(pixels)
    for level in (1, 3):
        size = 1 << level
        found = pyramid.level(level)
        height, width = (-(-side // size) for side in HW)
        assert found.shape == (height, width, 3)
        whole = pixels[: HW[0] // size * size, : HW[1] // size * size].astype(np.float64)
        cells = whole.reshape(HW[0] // size, size, HW[1] // size, size, 3).mean(axis=(1, 3))
        assert abs(found[: cells.shape[0], : cells.shape[1]] - cells).max() <= level
    assert pyramid.has(0, 2, 2)
    assert not pyramid.has(0, 3, 0)
    assert not pyramid.has(2, 1, 0)
    tile = np.asarray(Image.open(io.BytesIO(pyramid.tile(0, 2, 2))))
    assert tile.shape == (HW[0] - 2 * TILE, HW[1] - 2 * TILE, 3)
    assert abs(tile.astype(int) - pixels[2 * TILE :, 2 * TILE :]).mean() < 6


def test_single_pixels_keep_their_colour() -> None:
    """A drawing comes as it is; of a photograph a red pixel stays red, and the tile small."""
    drawn = np.full((*HW, 3), 128, np.uint8)
    drawn[3::7, 5::11] = (255, 0, 0)
    tile = Pyramid(drawn).tile(0, 1, 1)
    assert (np.asarray(Image.open(io.BytesIO(tile))) == drawn[TILE:, TILE : 2 * TILE][:TILE]).all()
    random = np.random.default_rng(0)
    y, x = np.mgrid[: HW[0], : HW[1]]
    smooth = 120 + 50 * np.sin(x / 40)[..., None] * np.cos(y / 30)[..., None] * [1, 0.6, 0.3]
    photo = np.clip(smooth + random.normal(0, 2, (*HW, 3)), 0, 255).astype(np.uint8)
    dots = [(TILE + 40 * k + k % 8, TILE + 37 * k) for k in range(1, 12)]
    for at in dots:
        photo[at] = (250, 20, 20)
    tile = Pyramid(photo).tile(0, 1, 1)
    found = np.asarray(Image.open(io.BytesIO(tile)).convert("RGB"), int)
    for row, column in dots:
        assert abs(found[row - TILE, column - TILE] - (250, 20, 20)).max() < 32
    other = io.BytesIO()
    part = photo[TILE : 2 * TILE, TILE : 2 * TILE]
    Image.fromarray(part).save(other, "JPEG", quality=90)  # half of the colour
    assert len(tile) < 3 * other.tell()


def test_form_of_a_tile_is_the_smaller_one() -> None:
    """Lines on a plain ground are PNG, a photograph JPEG, also around a plain middle."""
    photo = np.random.default_rng(1).integers(0, 256, (TILE, 3 * TILE, 3), np.uint8)
    photo[250:262] = 255
    photo[:, :TILE] = 255
    photo[::40, :TILE] = (0, 90, 0)
    pyramid = Pyramid(np.tile(photo, (3, 1, 1)))
    numbers = [(column, row) for row in range(3) for column in range(3)]
    tiles = pyramid.tiles(0, numbers)
    assert tiles == [pyramid.tile(0, *one) for one in numbers]
    forms = [Image.open(io.BytesIO(tile)).format for tile in tiles]
    assert forms == ["PNG", "JPEG", "JPEG"] * 3


@pytest.mark.parametrize("level", range(5))
@pytest.mark.parametrize(
    "box", [(0, 0, 1301, 1100), (333, 221, 700, 613), (1290, 1090, 1301, 1100)]
)
def test_masks_are_exact_or_keep_thin_parts(level: int, box: tuple[int, int, int, int]) -> None:
    random = np.random.default_rng(level)
    comb = np.zeros(HW, np.bool_)
    comb[100:900, 301:800:3] = True
    dots = random.uniform(size=HW) < 0.002
    objects = [
        Object(number, "a", (0, 0, 0), masks={0: Mask(PackedMask.of(mask), 1.0, "hand")})
        for number, mask in ((1, comb), (2, dots))
    ]
    heads, buffers = masks_in(objects, 0, level, box)
    size = 1 << level
    for one, mask in ((1, comb), (2, dots)):
        shown = np.zeros([-(-side // size) for side in HW], np.bool_)
        for head, buffer in zip(heads, buffers, strict=True):
            if head["object"] == one:
                shown |= mask_of(head, buffer)
        padded = np.pad(mask, [(0, -side % size) for side in HW])
        cells = padded.reshape(shown.shape[0], size, shown.shape[1], size).any(axis=(1, 3))
        columns = slice(box[0] // size, -(-box[2] // size))
        rows_seen = slice(box[1] // size, -(-box[3] // size))
        assert (shown[rows_seen, columns] == cells[rows_seen, columns]).all()


class View:
    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, Any], list[bytes]]] = []
        self.came = threading.Condition()

    def send(self, head: dict[str, Any], buffers: list[bytes], view: str | None) -> None:
        with self.came:
            self.messages.append((head, buffers))
            self.came.notify_all()

    def answer(self, kind: str, seq: int) -> tuple[dict[str, Any], list[bytes]]:
        def found() -> Any:
            for head, buffers in self.messages:
                if head["type"] == kind and (head.get("answer") or {}).get("seq") == seq:
                    return head, buffers
            return None

        with self.came:
            assert self.came.wait_for(found, 120)
            return found()  # type: ignore[no-any-return]


def test_a_view_asks_for_what_it_sees(pixels: np.ndarray) -> None:
    view = View()
    session = ImageSession(half_size("sam-nano"), pixels, send=view.send)
    mask = np.zeros(HW, np.bool_)
    mask[500:520, 600:640] = True
    session.call("start", mask=mask)
    asked = {"type": "tiles", "view": "a", "level": 0, "box": [590, 490, 650.5, 530.2]}
    session.receive({**asked, "seq": 1, "tiles": [[1, 0], [9, 9]]})
    head, buffers = view.answer("tiles", 1)
    assert head["tiles"] == [[1, 0]]
    assert [one["box"] for one in head["masks"]] == [[600, 500, 640, 520]]
    assert len(buffers) == 2
    session.receive({**asked, "seq": 2, "masks": False})
    assert view.answer("tiles", 2)[0]["masks"] == []
    session.receive({"type": "thumbnail", "view": "a", "seq": 3, "index": 0})
    small = Image.open(io.BytesIO(view.answer("thumbnail", 3)[1][0]))
    assert max(small.size) == 160
    session.close()


def test_a_large_image_is_sent_small() -> None:
    for longest, level in ((1, 0), (WHOLE, 0), (WHOLE + 1, 1), (2 * WHOLE, 1), (5472, 2)):
        assert level_of((1, longest)) == level_of((longest, 1)) == level
    view = View()
    image = np.zeros((300, WHOLE + 3, 3), np.uint8)
    session = ImageSession(half_size("sam-nano"), image, send=view.send)
    session.receive({"type": "ready", "view": "a", "seq": 1})
    head, buffers = view.answer("image", 1)
    assert (head["level"], head["width"], head["height"]) == (1, WHOLE + 3, 300)
    assert Image.open(io.BytesIO(buffers[0])).size == (WHOLE // 2 + 2, 150)
    session.close()


def test_a_click_beside_500_objects_is_a_small_message() -> None:
    import json

    view = View()
    image = np.zeros((600, 800, 3), np.uint8)
    session = ImageSession(half_size("sam-nano"), image, send=view.send)
    session.receive({"type": "ready", "view": "a", "seq": 1, "edits": True})
    view.answer("image", 1)
    for number in range(500):
        mask = np.zeros((600, 800), np.bool_)
        y, x = divmod(number, 25)
        mask[y * 20 : y * 20 + 9, x * 30 : x * 30 + 20] = True
        session.call("start", mask=mask)
    session.call("select", object=None)
    session.receive({"type": "click", "view": "a", "seq": 2, "x": 400.0, "y": 550.0})
    head, buffers = view.answer("edit", 2)
    assert [one["id"] for one in head["objects"]] == [501]
    assert head["gone"] == []
    assert len(json.dumps(head)) < 2000
    session.receive({"type": "delete", "view": "a", "seq": 3, "object": 7})
    head, buffers = view.answer("edit", 3)
    assert (head["objects"], head["gone"], buffers) == ([], [7], [])
    session.receive({"type": "ready", "view": "b", "seq": 1})
    session.receive({"type": "rename", "view": "a", "seq": 4, "object": 1, "name": "x"})
    assert len(view.answer("state", 4)[0]["objects"]) == 500
    session.close()
