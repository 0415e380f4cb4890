"""Run-length codes, boxes, polygons and components of masks."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sam_rlx.errors import InvalidArgumentError

_core = pytest.importorskip("sam_rlx._core")

# pycocotools answers an older NumPy.
OLD_COCO = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
MASKS = hnp.arrays(bool, st.tuples(st.integers(1, 24), st.integers(1, 24)))


def noise(seed, height, width, density=0.5):
    return np.random.default_rng(seed).random((height, width)) < density


def shapes(height=80, width=120):
    """Masks with holes, islands, thin lines and touching corners."""
    y, x = np.mgrid[:height, :width]
    ring = np.hypot(x - 60, y - 40)
    return {
        "empty": np.zeros((height, width), bool),
        "full": np.ones((height, width), bool),
        "disc": ring < 30,
        "ring": (ring < 30) & (ring > 12),
        "target": ((ring < 36) & (ring > 25)) | (ring < 12),
        "checks": (x // 7 + y // 7) % 2 == 0,
        "comb": (x % 4 == 0) | (y < 2),
        "diagonal": x == y,
        "noise": noise(0, height, width),
        "sparse": noise(1, height, width, 0.05),
        "dense": noise(2, height, width, 0.95),
        "border": (x == 0) | (y == 0) | (x == width - 1) | (y == height - 1),
        "column": (x == 5),
        "row": (y == 5),
    }


def encode(mask):
    """Count runs in column-major order, beginning with zeros."""
    flat = np.concatenate([[False], mask.ravel(order="F")])
    positions = np.flatnonzero(np.diff(flat))
    return np.diff(np.concatenate([[0], positions, [flat.size - 1]])).tolist()


def fill(polygons, shape):
    """Fill polygons, each by itself, by the rule of pixel centres."""
    mask = np.zeros(shape, bool)
    for polygon in polygons:
        points = np.array(polygon).reshape(-1, 2)
        x, y = points.T
        crossings = np.zeros((shape[0], shape[1] + 1), int)
        for x0, x1, y0, y1 in zip(x, np.roll(x, -1), y, np.roll(y, -1), strict=True):
            assert x0 == x1 or y0 == y1
            low, high = int(min(y0, y1)), int(max(y0, y1))
            crossings[low:high, int(x0)] += 1
        mask |= np.cumsum(crossings, axis=1)[:, :-1] % 2 == 1
    return mask


@settings(max_examples=1000)
@given(mask=MASKS)
def test_codes_round_trip(mask):
    counts = _core.rle_encode(mask)
    assert counts.dtype == np.uint32
    assert counts.tolist() == encode(mask)
    assert np.array_equal(_core.rle_decode(counts, mask.shape), mask)
    text = _core.rle_to_string(counts)
    assert np.array_equal(_core.rle_from_string(text), counts)


def sides(box):
    return box.x0, box.y0, box.x1, box.y1


@settings(max_examples=400)
@given(mask=MASKS)
def test_boxes(mask):
    expected = (0, 0, 0, 0)
    if mask.any():
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        expected = (columns[0], rows[0], columns[-1], rows[-1])
    assert sides(_core.mask_to_box(mask)) == expected


def test_boxes_of_wide_masks():
    """What lies inside of the box is not looked at: ones far apart in rows of many words."""
    random = np.random.default_rng(0)
    for count in (0, 1, 2, 5, 40):
        for _ in range(20):
            mask = np.zeros((17, 300), bool)
            mask.ravel()[random.choice(mask.size, count, replace=False)] = True
            assert sides(_core.mask_to_box(mask)) == sides(
                _core.rle_to_box(_core.rle_encode(mask), mask.shape)
            )


@settings(max_examples=400)
@given(counts=st.lists(st.integers(0, 2**32 - 1), max_size=12))
def test_any_counts_survive_their_text(counts):
    text = _core.rle_to_string(np.array(counts, np.uint32))
    assert _core.rle_from_string(text).tolist() == counts


@settings(max_examples=400)
@given(text=st.binary(max_size=20))
def test_hostile_text_never_crashes(text):
    with contextlib.suppress(InvalidArgumentError):
        assert _core.rle_from_string(text).dtype == np.uint32


@OLD_COCO
@pytest.mark.parametrize("name", shapes())
def test_pycocotools_reads_and_writes_the_same(name):
    coco = pytest.importorskip("pycocotools.mask")
    mask = shapes()[name]
    counts = _core.rle_encode(mask)
    text = _core.rle_to_string(counts)
    assert coco.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"] == text
    code = {"size": list(mask.shape), "counts": text}
    assert np.array_equal(coco.decode(code), mask)
    assert coco.area(code) == counts[1::2].sum()


@pytest.mark.parity
@pytest.mark.parametrize("name", shapes())
def test_upstream_encodes_the_same(name):
    upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
    mask = shapes()[name]
    (expected,) = upstream.sam.amg.mask_to_rle_pytorch(upstream.tensor(mask[None]))
    assert _core.rle_encode(mask).tolist() == expected["counts"]
    box = upstream.sam.amg.batched_mask_to_box(upstream.tensor(mask))
    assert sides(_core.mask_to_box(mask)) == tuple(box.tolist())


def test_strided_and_empty_masks():
    mask = noise(3, 40, 60)
    for view in (mask[::2], mask[:, ::3], mask[::-1], mask.T):
        assert _core.rle_encode(view).tolist() == encode(view)
    assert _core.rle_encode(np.zeros((0, 5), bool)).tolist() == [0]
    assert _core.rle_decode(np.array([0], np.uint32), (0, 5)).shape == (0, 5)


@pytest.mark.parametrize(
    ("counts", "size"),
    [([5], (2, 3)), ([7], (2, 3)), ([], (2, 3)), ([6], (-2, -3)), ([1], (2**20, 2**20))],
)
def test_wrong_counts_are_refused(counts, size):
    with pytest.raises(ValueError, match=r"(rle counts|mask): expected"):
        _core.rle_decode(np.array(counts, np.uint32), size)


@pytest.mark.parametrize("name", shapes())
def test_components(testing, name):
    measure = pytest.importorskip("skimage.measure")
    mask = shapes()[name]
    labels, areas = testing.connected_components(mask)
    expected = measure.label(mask, connectivity=2)
    assert len(areas) == expected.max()
    assert np.array_equal(labels > 0, mask)
    pairs = np.unique(np.stack([labels[mask], expected[mask]], 1), axis=0)
    assert len(pairs) == len(areas)
    assert areas == np.bincount(labels[mask], minlength=len(areas) + 1)[1:].tolist()


@settings(max_examples=500)
@given(mask=MASKS)
def test_components_are_those_of_opencv(testing, mask):
    cv2 = pytest.importorskip("cv2")
    _, expected = cv2.connectedComponents(mask.astype(np.uint8), connectivity=8)
    assert np.array_equal(testing.connected_components(mask)[0], expected)


def check_removal(amg, mask, area, mode):
    expected, changed = amg.remove_small_regions(mask, area, mode)
    found = _core.remove_small_regions(mask, area, mode)
    assert found.is_changed == changed
    assert found.mask.dtype == bool
    assert np.array_equal(found.mask, expected)


@pytest.mark.parity
@settings(max_examples=400)
@given(mask=MASKS, area=st.integers(0, 60), mode=st.sampled_from(["holes", "islands"]))
def test_removal_equals_upstream(mask, area, mode):
    upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
    pytest.importorskip("cv2")
    check_removal(upstream.sam.amg, mask, area, mode)


@pytest.mark.parity
@pytest.mark.parametrize("mode", ["holes", "islands"])
def test_removal_of_shapes_equals_upstream(mode):
    upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
    pytest.importorskip("cv2")
    for mask in shapes().values():
        for area in (0, 1, 7.5, 50, 1000, 1e9):
            check_removal(upstream.sam.amg, mask, area, mode)


def test_removal_refuses_other_modes():
    with pytest.raises(ValueError, match=r"mode: expected .*, found gaps"):
        _core.remove_small_regions(np.zeros((3, 3), bool), 2, "gaps")


def without_holes(mask):
    ndimage = pytest.importorskip("scipy.ndimage")
    return ndimage.binary_fill_holes(mask)  # 4-connected background, as beside 8-connected ones


@settings(max_examples=400)
@given(mask=MASKS)
def test_polygons_round_trip(mask):
    polygons = _core.mask_to_polygons(mask)
    assert np.array_equal(fill(polygons, mask.shape), without_holes(mask))


@OLD_COCO
@pytest.mark.parametrize("name", shapes())
def test_polygons_of_shapes(testing, name):
    coco = pytest.importorskip("pycocotools.mask")
    mask = shapes()[name]
    polygons = _core.mask_to_polygons(mask)
    assert len(polygons) == len(testing.connected_components(mask)[1])
    filled = fill(polygons, mask.shape)
    assert np.array_equal(filled, without_holes(mask))
    long_enough = [polygon for polygon in polygons if len(polygon) > 4]
    if long_enough:
        parts = coco.decode(coco.frPyObjects(long_enough, *mask.shape))
        assert np.array_equal(parts.any(axis=2), filled)


def even_odd(polygon, shape):
    """Fill one polygon by the even-odd rule: pixels beyond an odd number of upright edges."""
    points = np.array(polygon, int).reshape(-1, 2)
    edges = np.zeros((shape[0], shape[1] + 1), int)
    for (x0, y0), (x1, y1) in zip(points, np.roll(points, -1, axis=0), strict=True):
        assert x0 == x1 or y0 == y1
        if x0 == x1:
            edges[min(y0, y1) : max(y0, y1), x0] += 1
    return np.cumsum(edges, axis=1)[:, :-1] % 2 == 1


@settings(max_examples=400)
@given(mask=MASKS)
def test_polygons_with_holes_round_trip(mask):
    polygons = _core.mask_to_polygons(mask, holes=True)
    assert len(polygons) == len(_core.mask_to_polygons(mask))
    filled = [even_odd(polygon, mask.shape) for polygon in polygons]
    assert np.array_equal(np.any([np.zeros_like(mask), *filled], axis=0), mask)
    assert sum(part.sum() for part in filled) == mask.sum()  # parts do not overlap


@OLD_COCO
@pytest.mark.parametrize("name", shapes())
def test_polygons_with_holes_are_cocos(name):
    coco = pytest.importorskip("pycocotools.mask")
    mask = shapes()[name]
    polygons = [x for x in _core.mask_to_polygons(mask, holes=True) if len(x) > 4]
    if polygons:
        parts = coco.decode(coco.frPyObjects(polygons, *mask.shape))
        assert np.array_equal(parts.any(axis=2), mask)


def test_polygons_of_nested_rings_and_touching_holes():
    y, x = np.mgrid[:41, :41]
    ring = np.maximum(abs(x - 20), abs(y - 20))
    nested = ring % 4 < 2
    dots = np.ones((9, 9), bool)
    dots[1::2, 1::2] = False
    dots[2, 2] = dots[4, 4] = False
    for mask in (nested, dots, ~nested):
        polygons = _core.mask_to_polygons(mask, holes=True)
        filled = np.any([even_odd(polygon, mask.shape) for polygon in polygons], axis=0)
        assert np.array_equal(filled, mask)


def test_a_hole_is_cut_open_by_a_line_there_and_back():
    mask = np.ones((5, 5), bool)
    mask[2, 2] = False
    assert _core.mask_to_polygons(mask, holes=True) == [
        [0, 0, 3, 0, 3, 2, 2, 2, 2, 3, 3, 3, 3, 2, 3, 0, 5, 0, 5, 5, 0, 5]
    ]


def test_polygon_of_a_rectangle():
    mask = np.zeros((10, 12), bool)
    mask[2:5, 3:9] = True
    assert _core.mask_to_polygons(mask) == [[3, 2, 9, 2, 9, 5, 3, 5]]


@OLD_COCO
@settings(max_examples=300)
@given(
    size=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    corners=st.lists(
        st.tuples(st.floats(-9, 40), st.floats(-9, 40))
        | st.tuples(st.integers(0, 30)).map(lambda x: (x[0] / 2, 7)),
        min_size=3,
        max_size=9,
    ),
)
def test_polygons_are_filled_as_coco_does(size, corners):
    coco = pytest.importorskip("pycocotools.mask")
    polygon = [float(value) for corner in corners for value in corner]
    other = [1.0, 1.0, 4.0, 1.0, 4.0, 6.0]
    limit = 2 * max(size)
    if max(map(abs, polygon)) > limit:
        with pytest.raises(InvalidArgumentError, match="near the image"):
            _core.polygons_to_mask([polygon], size)
        return
    found = _core.polygons_to_mask([polygon, other] if limit >= 6 else [polygon], size)
    codes = coco.frPyObjects([polygon, other] if limit >= 6 else [polygon], *size)
    assert np.array_equal(found, coco.decode(coco.merge(codes)).astype(bool))


@settings(max_examples=300)
@given(mask=MASKS)
def test_outlines_give_their_mask_back(mask):
    outlines = _core.mask_to_polygons(mask, holes=True)
    assert np.array_equal(_core.polygons_to_mask(outlines, mask.shape), mask)


@pytest.mark.parametrize(
    ("polygons", "size", "found"),
    [
        ([[1, 2, 3, 4]], (5, 5), "found 4 numbers"),
        ([[1, 2, 3, 4, 5, 6, 7]], (5, 5), "found 7 numbers"),
        ([[1, 2, 3, 4, np.nan, 6]], (5, 5), "near the image"),
        ([], (0, 5), "size"),
        ([], (5, -1), "size"),
    ],
)
def test_polygons_that_are_none(polygons, size, found):
    with pytest.raises(InvalidArgumentError, match=found):
        _core.polygons_to_mask(polygons, size)
    assert not _core.polygons_to_mask([], (3, 4)).any()
