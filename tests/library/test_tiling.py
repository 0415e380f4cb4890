"""Everything mode, texts, boxes and points in tiles of large images."""

import itertools
import pickle

import numpy as np
import pytest
import sam_rlx
from sam_rlx import _core
from sam_rlx._internal.tiling import Tile, Tiling, as_tiling, windows_of
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.image import RunLengthMasks
from support.half_size import half_size
from support.large_scene import LargeScene, found_once

CELL = 140
GRID = 6  # points along a tile's side


@pytest.fixture(scope="module")
def scene():
    return LargeScene(3, 3, CELL, seed=3)


@pytest.fixture(scope="module")
def whole(scene):
    return scene.read(0, scene.shape[0], 0, scene.shape[1])


@pytest.fixture(scope="module")
def model():
    return half_size("sam-nano")


@pytest.fixture(scope="module")
def generator():
    return sam_rlx.MaskGenerator(
        sam_rlx.load_model("sam-nano"),
        points_per_side=GRID,
        pred_iou_thresh=0.7,
        stability_score_thresh=0.8,
        objects_only=True,
    )


# Where tiles lie.


def test_tiles_cover_an_image_and_overlap():
    for hw in ((500, 700), (256, 256), (257, 100), (31, 1000), (1, 1)):
        for side, overlap in ((256, 32), (64, 0), (100, 50), (32, 16)):
            tiles = Tiling(side, overlap).tiles(hw)
            seen = np.zeros(hw, int)
            for tile in tiles:
                assert tile.hw == (min(side, hw[0]), min(side, hw[1]))
                seen[tile.y0 : tile.y1, tile.x0 : tile.x1] += 1
            assert seen.min() == 1
            assert len(set(tiles)) == len(tiles)
            for a, b in itertools.pairwise(tiles):
                assert a.y0 != b.y0 or a.x1 - b.x0 >= overlap


def test_arguments_are_checked():
    assert as_tiling(None, None) is None
    assert as_tiling(1024, None) == Tiling(1024, 128)
    for tile, overlap, match in (
        (31, None, "tile: expected an int from 32 to 32768, found 31"),
        (64.0, None, "tile: expected an int"),
        (64, 33, "overlap: expected an int from 0 to 32, found 33"),
        (64, -1, "overlap: expected an int from 0 to 32, found -1"),
        (None, 10, "tile: expected a side in pixels beside overlap, found None"),
    ):
        with pytest.raises(InvalidArgumentError, match=match):
            as_tiling(tile, overlap)


# Masks that are kept as run lengths.


def test_run_length_masks_look_like_an_array():
    masks = np.random.default_rng(0).random((2, 3, 7, 9)) < 0.4
    counts = [_core.rle_encode(mask) for mask in masks.reshape(-1, 7, 9)]
    coded = RunLengthMasks(counts, masks.shape)
    assert (coded.shape, coded.ndim, coded.dtype, len(coded)) == (masks.shape, 4, bool, 2)
    assert (np.asarray(coded) == masks).all()
    assert np.asarray(coded, np.float32).dtype == np.float32
    assert (coded.areas == masks.sum(axis=(2, 3))).all()
    assert (coded[1, 2] == masks[1, 2]).all()
    assert (np.asarray(coded[-1]) == masks[-1]).all()
    assert (np.asarray(coded[1:]) == masks[1:]).all()
    assert coded[:0].shape == (0, 3, 7, 9)
    assert [mask.tolist() for mask in coded[0]] == masks[0].tolist()
    assert (coded[0, 1, 2:4] == masks[0, 1, 2:4]).all()
    assert repr(coded) == "<RunLengthMasks 2 x 3 x 7 x 9>"
    with pytest.raises(IndexError):
        coded[2]
    with pytest.raises(ValueError, match="copy"):
        np.asarray(coded, copy=False)
    with pytest.raises(InvalidArgumentError, match="expected 6 masks"):
        RunLengthMasks(counts[:5], masks.shape)


# Everything mode.


def test_one_tile_gives_what_the_image_gives(model, whole):
    generator = sam_rlx.MaskGenerator(
        model, points_per_side=4, pred_iou_thresh=0.7, stability_score_thresh=0.8
    )
    image = whole[:300, :400]
    expected, found = generator.generate(image), generator.generate(image, tile=400)
    assert len(found) == len(expected) > 3
    for a, b in zip(found, expected, strict=True):
        assert {key: a[key] for key in a if key != "segmentation"} == {
            key: b[key] for key in b if key != "segmentation"
        }
        assert (a.mask() == b.mask()).all()


def test_each_object_of_a_scene_is_found_once(scene, generator):
    """From its windows, in 2 x 2 tiles: those on seams as exactly as others."""
    calls = []
    tiling = Tiling(300, 150)
    found = generator.generate(
        scene, tile=300, overlap=150, progress=lambda *counts: calls.append(counts)
    )
    best, count = found_once(scene, [record.counts for record in found])
    tiles = tiling.tiles(scene.shape)
    on_seam = np.array([scene.is_on_seam(index, tiles) for index in range(len(scene))])
    assert on_seam.any()
    assert (count == 1).all()
    assert best[on_seam].min() >= 0.95
    assert best[~on_seam].min(initial=1.0) >= 0.95
    assert len(found) == len(scene)
    points = len(tiles) * GRID * GRID
    assert calls[-1] == (points, points)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    for record in found:
        mask = record.mask()
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        assert record.size == scene.shape
        assert record.area == mask.sum()
        assert record.bbox == [columns[0], rows[0], np.ptp(columns), np.ptp(rows)]
        (x, y), (left, top, width, height) = record.point_coords[0], record.crop_box
        assert left <= x < left + width
        assert top <= y < top + height


def test_large_objects_are_put_together(model):
    """A bar through all tiles of a row has one mask."""
    image = np.full((120, 500, 3), 40, np.uint8)
    image[50:75, 20:480] = (230, 200, 60)
    generator = sam_rlx.MaskGenerator(
        model, points_per_side=5, pred_iou_thresh=0.7, stability_score_thresh=0.8,
        objects_only=True,
    )  # fmt: skip
    found = generator.generate(image, tile=200, overlap=50)
    truth = image[..., 0] > 100
    ious = [(record.mask() & truth).sum() / (record.mask() | truth).sum() for record in found]
    assert sum(iou > 0.9 for iou in ious) == 1
    assert found[int(np.argmax(ious))].crop_box == [0, 0, 500, 120]


def test_work_in_tiles_can_be_stopped(scene, generator):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generator.generate(scene, tile=300, progress=stop)
    assert generator.generate(np.zeros((64, 64, 3), np.uint8)) is not None


def test_a_generator_keeps_its_option_in_a_copy(generator, whole):
    copy = pickle.loads(pickle.dumps(generator))
    image = whole[:CELL, : 2 * CELL]
    assert len(copy.generate(image)) == len(generator.generate(image)) == 2


def test_tiles_need_pixels(model, generator, whole):
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(whole[:64, :64])
    with pytest.raises(InvalidArgumentError, match="expected an image for crops and tiles"):
        generator.generate(embedding=predictor.image_embedding, orig_hw=(64, 64), tile=64)


# Boxes and points.


def prompts_of(**arrays):
    from sam_rlx._internal.arrays.prompts import as_prompts

    return as_prompts(arrays.get("points"), arrays.get("labels"), arrays.get("box"), None, 64)


def test_prompts_go_to_the_tile_that_has_most_room_around_them():
    tiling, hw = Tiling(100, 40), (300, 400)
    boxes = [[5, 5, 30, 25], [65, 65, 95, 95], [340, 240, 399, 299], [10, 10, 290, 120]]
    found = windows_of(prompts_of(box=boxes), hw, tiling)
    by_set = {index: window for window, sets in found.items() for index in sets}
    assert by_set[0].tile == Tile(0, 100, 0, 100)
    assert by_set[1].tile == Tile(60, 160, 60, 160) or by_set[1].tile.hw == (100, 100)
    assert by_set[2].tile == Tile(200, 300, 300, 400)
    own = by_set[3]
    assert own.factor == 4
    assert own.tile == Tile(0, 300, 0, 400)
    for window in found:
        assert max(window.tile.hw) / window.factor <= 100
    points = windows_of(prompts_of(points=[[[70, 70]]], labels=[[1]]), hw, tiling)
    (window,) = points
    room = min(70 - window.tile.y0, window.tile.y1 - 70, 70 - window.tile.x0, window.tile.x1 - 70)
    assert room >= 20 or window.tile.y0 == 0


def test_boxes_and_points_of_a_scene(model):
    """A batch over all tiles: masks as exact as those of tiles alone, in the order of prompts."""
    scene = LargeScene(2, 3, CELL, seed=3)
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(np.zeros((40, 50, 3), np.uint8))
    before = predictor.image_embedding
    order = np.random.default_rng(1).permutation(len(scene))
    boxes = [scene.box(index) for index in order]
    boxes = np.array([(x0, y0, x1, y1) for y0, y1, x0, x1 in boxes], float)
    points = scene.center[order][:, None, ::-1]
    calls = []
    for prompts in (
        {"box": boxes},
        {"point_coords": points, "point_labels": np.ones((len(order), 1)), "box": boxes},
    ):
        found = predictor.predict(
            **prompts, multimask_output=False, image=scene, tile=300, overlap=100,
            progress=lambda *counts: calls.append(counts),
        )  # fmt: skip
        assert found.masks.shape == (len(order), 1, *scene.shape)
        assert found.iou_predictions.shape == (len(order), 1)
        assert found.low_res_masks.shape == (0, model.mask_side, model.mask_side)
        ious = [scene.ious(i, [c])[0] for i, c in zip(order, found.masks.counts, strict=True)]
        assert min(ious) >= 0.9
        assert calls[-1] == (len(order), len(order))
    assert (predictor.image_embedding == before).all()
    assert predictor.orig_hw == (40, 50)


def test_a_box_larger_than_a_tile_has_a_window_of_its_own(model):
    image = np.full((700, 900, 3), 40, np.uint8)
    image[200:500, 150:800] = (230, 200, 60)
    predictor = sam_rlx.ImagePredictor(model)
    found = predictor.predict(
        box=[150, 200, 800, 500], multimask_output=False, image=image, tile=256
    )
    truth = image[..., 0] > 100
    mask = found.masks[0]
    assert found.masks.shape == (1, 700, 900)
    assert (mask & truth).sum() / (mask | truth).sum() > 0.93
    assert repr(found).startswith("<MaskPrediction 1 masks of 700 x 900")


def test_no_boxes_give_no_masks(model, whole):
    found = sam_rlx.ImagePredictor(model).predict(box=np.empty((0, 4)), image=whole, tile=256)
    assert found.masks.shape == (0, 3, *whole.shape[:2])
    assert found.iou_predictions.shape == (0, 3)


def test_prompts_of_tiles_are_checked(model, whole):
    predictor = sam_rlx.ImagePredictor(model)
    box, side = [5, 5, 60, 60], model.mask_side
    for arguments, match in (
        ({"box": box, "image": whole}, "expected image and tile together"),
        ({"box": box, "tile": 64}, "expected image and tile together"),
        ({"box": box, "image": whole, "tile": 64, "return_logits": True}, "return_logits"),
        ({"mask_input": np.zeros((side, side)), "image": whole, "tile": 64}, "mask_input"),
        ({"box": [5, 5, 60, 60], "image": whole, "tile": 8}, "tile: expected an int from 32"),
        ({"box": [900, 5, 990, 60], "image": whole, "tile": 64}, "box"),
        ({"point_coords": [[900, 5]], "point_labels": [1], "image": whole, "tile": 64}, "point"),
    ):
        with pytest.raises(InvalidArgumentError, match=match):
            predictor.predict(**arguments)


# Texts.


def test_texts_are_found_over_tiles():
    model = sam_rlx.load_model("sam3-nano")
    rng = np.random.default_rng(0)
    image = rng.integers(40, 56, (512, 760, 3)).astype(np.uint8)
    y, x = np.mgrid[:512, :760]
    circles = [(100, 110, 50), (128, 380, 45), (380, 250, 55), (400, 620, 60)]
    for cy, cx, radius in circles:
        image[np.hypot(y - cy, x - cx) < radius] = (230, 40, 40)
    predictor = sam_rlx.ConceptPredictor(model)
    predictor.set_image(image[:64, :64])
    calls = []
    found = predictor.predict(
        image, text=["red circle", "green square"], tile=384, overlap=128,
        progress=lambda *counts: calls.append(counts),
    )  # fmt: skip
    assert predictor.orig_hw == (64, 64)
    assert isinstance(found.masks, RunLengthMasks)
    assert found.masks.shape == (len(found.scores), 512, 760)
    assert found.low_res_masks.shape[0] == 0
    assert (np.diff(found.labels) >= 0).all()
    red = [index for index, name in enumerate(found.names) if name == "red circle"]
    for cy, cx, radius in circles:
        truth = np.hypot(y - cy, x - cx) < radius
        ious = [(found.masks[i] & truth).sum() / (found.masks[i] | truth).sum() for i in red]
        assert sum(iou > 0.8 for iou in ious) == 1
        x0, y0, x1, y1 = found.boxes[red[int(np.argmax(ious))]]
        assert max(abs(x0 - cx + radius), abs(x1 - cx - radius)) < 12
        assert max(abs(y0 - cy + radius), abs(y1 - cy - radius)) < 12
    assert calls[-1][0] == calls[-1][1] == 2 * len(Tiling(384, 128).tiles((512, 760)))


def test_one_tile_of_texts_gives_what_the_image_gives():
    model = sam_rlx.load_model("sam3-nano")
    image = LargeScene(2, 2, CELL, seed=1).read(0, 2 * CELL, 0, 2 * CELL)
    predictor = sam_rlx.ConceptPredictor(model)
    expected = predictor.predict(image, text=["circle", "square"], threshold=0.3)
    found = predictor.predict(image, text=["circle", "square"], threshold=0.3, tile=512)
    assert (np.asarray(found.masks) == expected.masks).all()
    for name in ("boxes", "scores", "labels"):
        assert (getattr(found, name) == getattr(expected, name)).all()


def test_tiles_take_texts_alone(whole):
    predictor = sam_rlx.ConceptPredictor(sam_rlx.load_model("sam3-nano"))
    for arguments in (
        {"boxes": [[5, 5, 60, 60]]},
        {"return_logits": True},
        {"raw": True},
        {"image": None},
    ):
        with pytest.raises(InvalidArgumentError, match="tile: expected an image and texts"):
            predictor.predict(**{"image": whole, "text": "circle", "tile": 64, **arguments})
