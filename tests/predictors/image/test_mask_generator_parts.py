"""Everything mode without a model: its helpers, and its order of operations with made-up masks."""

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sam_rlx.errors import InvalidArgumentError

_core = pytest.importorskip("sam_rlx._core")

SIDE, LOW = 128, 32
OBJECTS = np.array(  # x, y, radius
    [(70, 60, 25), (160, 70, 40), (60, 160, 30), (170, 150, 12), (215, 165, 20), (120, 110, 70)]
)


def sample_image(height=180, width=240):
    """An image whose pixels tell where they are, so that a crop knows its position."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x, y, x + y], axis=-1).astype(np.uint8)


def chance(*values):
    """A number in 0 to 1 that depends on the values alone."""
    digest = hashlib.sha256(repr(values).encode()).digest()
    return int.from_bytes(digest[:4], "little") / 2**32


class FakePredictor:
    """Three nested discs for each point, around the object that is next to it."""

    masks_per_point = 3
    mask_threshold = 0.0

    def __init__(self, holes=False, quality=(0.6, 1.0)):
        self.holes, self.quality = holes, quality
        self.calls = []

    def set_image(self, image):
        self.hw = image.shape[:2]
        self.offset = image[0, 0, :2].astype(float)
        scale = SIDE / max(self.hw)
        self.input_hw = tuple(int(side * scale + 0.5) for side in self.hw)
        self.geometry = (LOW, LOW, SIDE, *self.input_hw, *self.hw)

    def logits(self, point):
        centre = np.array(point) + self.offset
        x, y, radius = OBJECTS[np.argmin(np.hypot(*(OBJECTS[:, :2] - centre).T))]
        grid = (np.mgrid[:LOW, :LOW] + 0.5) * (SIDE / LOW)
        ys = grid[0] * (self.hw[0] / self.input_hw[0]) + self.offset[1]
        xs = grid[1] * (self.hw[1] / self.input_hw[1]) + self.offset[0]
        distance = np.hypot(xs - x, ys - y)
        masks = []
        for k, factor in enumerate((0.5, 1.0, 1.3)):
            size = radius * factor * (0.9 + 0.2 * chance(*centre, k))
            steepness = 0.05 + 2 * chance(*centre, k, "steep")
            mask = steepness * (size - distance)
            if self.holes:
                specks = np.random.default_rng(int(size * 1000)).random((LOW, LOW)) < 0.03
                mask = np.where(specks & (distance < 1.2 * size), -mask, mask)
            masks.append(mask)
        return np.array(masks, np.float32)

    def predict(self, points, iou_threshold):
        self.calls.append(len(points))
        low_res = np.stack([self.logits(point) for point in points])
        low, high = self.quality
        iou = [
            [low + (high - low) * chance(*(point + self.offset), k) for k in range(3)]
            for point in points
        ]
        return low_res, np.array(iou, np.float32)


def upstream_records(upstream, image, fake, point_grids=None, **options):
    torch, amg = upstream.torch, upstream.sam
    encoder = SimpleNamespace(img_size=SIDE)
    generator = amg.SamAutomaticMaskGenerator(
        SimpleNamespace(image_encoder=encoder, device="cpu"),
        point_grids=point_grids,
        output_mode="uncompressed_rle",
        **options,
    )

    def predict_torch(points, _labels, **_flags):
        low_res, iou = fake.predict(points[:, 0].numpy(), None)
        masks = amg.Sam.postprocess_masks(
            SimpleNamespace(image_encoder=encoder),
            torch.from_numpy(low_res),
            fake.input_hw,
            fake.hw,
        )
        return masks, torch.from_numpy(iou), None

    generator.predictor = SimpleNamespace(
        set_image=fake.set_image,
        reset_image=lambda: None,
        transform=SimpleNamespace(apply_coords=lambda points, _size: points),
        predict_torch=predict_torch,
        device="cpu",
        model=SimpleNamespace(mask_threshold=fake.mask_threshold),
    )
    with upstream.stable_nms():
        return generator.generate(image)


def same_records(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert list(ours["size"]) == theirs["segmentation"]["size"]
        assert ours["counts"].tolist() == theirs["segmentation"]["counts"]
        for key in ("area", "bbox", "predicted_iou", "stability_score", "crop_box"):
            assert ours[key] == theirs[key], key
        assert ours["point_coords"] == theirs["point_coords"]


CASES = {
    "defaults": {},
    "small batches": {"points_per_batch": 3},
    "no filters": {"pred_iou_thresh": 0.0, "stability_score_thresh": 0.0, "box_nms_thresh": 1.0},
    "iou only": {"stability_score_thresh": 0.0, "pred_iou_thresh": 0.8},
    "stability only": {"pred_iou_thresh": 0.0, "stability_score_thresh": 0.8},
    "offset": {"stability_score_offset": 0.25, "pred_iou_thresh": 0.5},
    "strict nms": {"box_nms_thresh": 0.3, "pred_iou_thresh": 0.5, "stability_score_thresh": 0.5},
    "one layer": {"crop_n_layers": 1, "pred_iou_thresh": 0.5, "stability_score_thresh": 0.5},
    "two layers": {
        "crop_n_layers": 2,
        "crop_n_points_downscale_factor": 2,
        "crop_nms_thresh": 0.5,
        "pred_iou_thresh": 0.7,
    },
    "wide overlap": {"crop_n_layers": 1, "crop_overlap_ratio": 0.6, "pred_iou_thresh": 0.7},
}


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("holes", [False, True])
def test_records_equal_upstream(testing, name, holes):
    upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
    options = {"points_per_side": 8, **CASES[name]}
    image = sample_image()
    if holes:
        pytest.importorskip("cv2")
        options["min_mask_region_area"] = 60
    expected = upstream_records(upstream, image, FakePredictor(holes), **options)
    for threads in (1, 3):
        found = testing.generate_masks(image, FakePredictor(holes), options, num_threads=threads)
        same_records(found, expected)
    assert len(expected) > 2


@pytest.mark.parity
def test_own_grids_equal_upstream(testing):
    upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
    grids = [np.random.default_rng(seed).random((5 + seed, 2)) for seed in range(2)]
    options = {"points_per_side": None, "crop_n_layers": 1, "pred_iou_thresh": 0.3}
    image = sample_image(150, 199)
    expected = upstream_records(upstream, image, FakePredictor(), grids, **options)
    found = testing.generate_masks(image, FakePredictor(), options, grids)
    same_records(found, expected)
    assert expected


def test_nothing_found_is_an_empty_list(testing):
    options = {"points_per_side": 2, "crop_n_layers": 1, "pred_iou_thresh": 2.0}
    assert testing.generate_masks(sample_image(), FakePredictor(), options) == []


def test_progress_counts_all_points(testing):
    seen = []
    fake = FakePredictor()
    options = {"points_per_side": 4, "points_per_batch": 5, "crop_n_layers": 1}
    testing.generate_masks(
        sample_image(), fake, options, progress=lambda done, total: seen.append((done, total))
    )
    assert max(fake.calls) <= 5
    assert [done for done, _ in seen] == np.cumsum(fake.calls).tolist()
    assert {total for _, total in seen} == {5 * 16}


def test_progress_may_stop(testing):
    def stop(_done, _total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        testing.generate_masks(
            sample_image(), FakePredictor(), {"points_per_side": 2}, progress=stop
        )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"points_per_side": None}, "points_per_side: expected exactly one of"),
        ({"points_per_side": 0}, "points_per_side: expected at least 1, found 0"),
        ({"points_per_batch": 0}, "points_per_batch: expected at least 1, found 0"),
        ({"crop_n_layers": -1}, "crop_n_layers: expected 0 to 8, found -1"),
        ({"crop_n_layers": 60}, "crop_n_layers: expected 0 to 8, found 60"),
        ({"crop_overlap_ratio": float("nan")}, "crop_overlap_ratio: expected 0 to 1"),
        ({"crop_n_points_downscale_factor": 0}, "crop_n_points_downscale_factor: expected"),
        ({"crop_n_layers": 2, "crop_n_points_downscale_factor": 9}, "points per side: expected"),
        ({"pred_iou_thresh": float("nan")}, "pred_iou_thresh: expected at least 0, found nan"),
        ({"colour": 1}, "everything mode: expected an argument of"),
    ],
)
def test_wrong_arguments_are_refused(testing, options, text):
    with pytest.raises(InvalidArgumentError, match=text):
        testing.generate_masks(sample_image(), FakePredictor(), options)


def test_too_few_grids_are_refused(testing):
    options = {"points_per_side": None, "crop_n_layers": 1}
    with pytest.raises(InvalidArgumentError, match="point_grids: expected a grid for each of 2"):
        testing.generate_masks(sample_image(), FakePredictor(), options, [np.zeros((1, 2))])


def test_crops_without_pixels_are_refused(testing):
    with pytest.raises(InvalidArgumentError, match="expected crops of at least one pixel"):
        testing.generate_masks(sample_image(3, 3), FakePredictor(), {"crop_n_layers": 3})


@pytest.mark.parity
@settings(max_examples=500)
@given(
    hw=st.tuples(st.integers(1, 3000), st.integers(1, 3000)),
    layers=st.integers(0, 4),
    ratio=st.floats(0, 1),
)
def test_crop_boxes_equal_upstream(hw, layers, ratio):
    upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
    expected = upstream.sam.amg.generate_crop_boxes(hw, layers, ratio)
    crops = _core.generate_crop_boxes(hw, layers, ratio)
    assert [[crop.x0, crop.y0, crop.x1, crop.y1] for crop in crops] == expected[0]
    assert [crop.layer for crop in crops] == expected[1]


@pytest.mark.parity
def test_point_grids_equal_upstream():
    upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
    for n in [*range(1, 40), 64, 100]:
        expected = upstream.sam.amg.build_point_grid(n)
        assert np.array_equal(_core.build_point_grid(n), expected)


@pytest.mark.parity
def test_boxes_near_edges_equal_upstream():
    upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
    boxes = np.random.default_rng(0).integers(0, 120, (2000, 4))
    crop, image = [30, 40, 150, 160], [0, 0, 160, 170]
    near = upstream.sam.amg.is_box_near_crop_edge
    for atol in (0.0, 5.0, 20.0):
        expected = near(upstream.tensor(boxes), crop, image, atol).numpy()
        assert np.array_equal(_core.is_box_near_crop_edge(boxes, crop, image, atol), expected)


@settings(max_examples=300)
@given(
    count=st.integers(0, 40),
    seed=st.integers(0, 10**6),
    threshold=st.sampled_from([0.0, 0.25, 0.5, 0.7, 1.0]),
)
def test_suppression(count, seed, threshold):
    random = np.random.default_rng(seed)
    corners = random.integers(0, 12, (count, 2, 2))
    boxes = np.sort(corners, axis=1).reshape(-1, 4).astype(np.float32)
    scores = random.integers(0, 5, count).astype(np.float32)
    order = np.argsort(-scores, kind="stable").tolist()
    expected = []
    while order:
        best = order.pop(0)
        expected.append(best)
        order = [other for other in order if not overlap(boxes[best], boxes[other]) > threshold]
    assert _core.box_nms(boxes, scores, threshold).tolist() == expected


def overlap(a, b):
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    area = sides.prod()
    with np.errstate(invalid="ignore"):
        return float(area / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - area))


def test_suppression_refuses_other_shapes():
    with pytest.raises(InvalidArgumentError, match=r"boxes: expected shape \(N, 4\)"):
        _core.box_nms(np.zeros((3, 5)), np.zeros(3), 0.5)
    with pytest.raises(InvalidArgumentError, match=r"scores: expected shape \(3\)"):
        _core.box_nms(np.zeros((3, 4)), np.zeros(2), 0.5)
