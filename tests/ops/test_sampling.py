"""Reading a map between its cells: bins of boxes, and points."""

import math

import numpy as np
import pytest
from support.ops import check, f64, normal, op, rng, torch_bound


def bilinear(image, y, x):
    """One sample of `roi_align`: zero far outside, the border's value near it."""
    height, width, _ = image.shape
    if y < -1 or y > height or x < -1 or x > width:
        return np.zeros(image.shape[2])
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    low_y, low_x = int(y), int(x)
    high_y, high_x = min(low_y + 1, height - 1), min(low_x + 1, width - 1)
    dy, dx = y - low_y, x - low_x
    top = (1 - dx) * image[low_y, low_x] + dx * image[low_y, high_x]
    bottom = (1 - dx) * image[high_y, low_x] + dx * image[high_y, high_x]
    return (1 - dy) * top + dy * bottom


def roi_align(image, boxes, size):
    image, boxes = f64(image, boxes)
    out = np.zeros((len(boxes), size, size, image.shape[2]))
    for i, (x0, y0, x1, y1) in enumerate(boxes):
        bin_h, bin_w = max(y1 - y0, 1) / size, max(x1 - x0, 1) / size
        rows, cols = math.ceil(bin_h), math.ceil(bin_w)
        for py in range(size):
            for px in range(size):
                samples = [
                    bilinear(
                        image,
                        y0 + (py + (sy + 0.5) / rows) * bin_h,
                        x0 + (px + (sx + 0.5) / cols) * bin_w,
                    )
                    for sy in range(rows)
                    for sx in range(cols)
                ]
                out[i, py, px] = np.mean(samples, axis=0)
    return out


def sample_points(image, points):
    image, points = f64(image, points)
    height, width, _ = image.shape
    padded = np.zeros((height + 2, width + 2, image.shape[2]))
    padded[1:-1, 1:-1] = image
    out = np.zeros((len(points), image.shape[2]))
    for i, (px, py) in enumerate(points):
        x, y = px * width + 0.5, py * height + 0.5  # in the padded map
        left, top = math.floor(x), math.floor(y)
        for row, col in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
            if 0 <= row < height + 2 and 0 <= col < width + 2:
                out[i] += (1 - abs(y - row)) * (1 - abs(x - col)) * padded[row, col]
    return out


# x0, y0, x1, y1 on a map of 11 x 9 (W x H): inside, whole, larger, thin, far away, reversed.
BOXES = np.array(
    [
        [2.3, 1.1, 7.9, 6.4],
        [0, 0, 11, 9],
        [-3.5, -2.25, 14.5, 12.75],
        [4.2, 3.3, 4.3, 8.1],
        [5, 5, 5, 5],
        [9.7, 7.6, 30.2, 40.9],
        [-50, -60, -20, -30],
        [6, 5, 3, 2],
        [-1.4, 8.6, 0.2, 9.9],
        [-200.3, -100.1, 250.7, 300.9],
    ],
    np.float32,
)


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("shape", [(9, 11, 5), (1, 1, 3), (2, 20, 16)])
def test_roi_align(size, shape):
    image = normal(rng(size, *shape), *shape)
    check("roi_align", roi_align(image, BOXES, size), image, BOXES, size)


def test_boxes_without_end_take_no_time():
    """The number of samples grows with a box; those outside of the map are not visited.

    A bin has about 9e8 / 7 samples a side, one a cell. The map begins at 4 / 9 of the box and is in
    bin 3 of 7 (3.1). Samples from -1 to the border count: 6 or 7 of the rows, 7 or 8 of the
    columns.
    """
    image = np.ones((5, 6, 2), np.float32)
    box = np.array([[-4e8, -4e8, 5e8, 5e8]], np.float32)
    found = op("roi_align", image, box, 7)
    samples = 9e8 / 7
    inside = found[0, 3, 3].copy()
    assert np.all(inside > 6 * 7 / samples**2 * (1 - 1e-6))
    assert np.all(inside < 7 * 8 / samples**2 * (1 + 1e-6))
    found[0, 3, 3] = 0
    assert not found.any()


def test_roi_align_of_no_box():
    assert op("roi_align", np.ones((3, 3, 2)), np.zeros((0, 4)), 7).shape == (0, 7, 7, 2)


POINTS = np.array(
    [
        [0.31, 0.72],
        [0, 0],
        [1, 1],
        [0.5, 0.5],
        [-0.02, 0.4],
        [1.03, 0.98],
        [0.999, 0.001],
        [-5, 3],
        [0.25, 7e8],
    ],
    np.float32,
)


@pytest.mark.parametrize("shape", [(9, 11, 5), (1, 1, 3), (2, 20, 16)])
def test_sample_points(shape):
    image = normal(rng(*shape), *shape)
    check("sample_points", sample_points(image, POINTS), image, POINTS)


@pytest.mark.parametrize("value", [np.nan, np.inf, 2e9])
def test_senseless_coordinates(value):
    image = np.ones((3, 3, 2))
    with pytest.raises(ValueError, match="roi_align: expected coordinates of at most 1e9"):
        op("roi_align", image, np.array([[0, 0, 1, value]]), 7)
    with pytest.raises(ValueError, match="sample_points: expected coordinates of at most 1e9"):
        op("sample_points", image, np.array([[value, 0]]))
    with pytest.raises(ValueError, match=r"roi_align: expected coordinates \(n, 4\)"):
        op("roi_align", image, np.zeros((2, 3)), 7)


@pytest.mark.parity
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pytorch(seed):
    torch = pytest.importorskip("torch")
    upstream = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
    torchvision = upstream.sam3.geometry_encoders.torchvision
    random = rng(seed)
    image = normal(random, 13, 18, 6)
    planes = torch.from_numpy(image).permute(2, 0, 1)[None].contiguous()

    low = random.uniform(-6, 16, (12, 2))
    boxes = np.concatenate([low, low + random.uniform(0, 15, (12, 2))], 1).astype(np.float32)
    truth = roi_align(image, boxes, 7)
    rival = torchvision.ops.roi_align(planes, [torch.from_numpy(boxes)], 7).permute(0, 2, 3, 1)
    bound = torch_bound(truth, rival)
    assert bound < 1e-4 * np.max(np.abs(truth))
    check("roi_align", truth, image, boxes, 7, bound=bound)

    points = random.uniform(-0.3, 1.3, (20, 2)).astype(np.float32)
    truth = sample_points(image, points)
    positions = torch.from_numpy(points)[None, :, None] * 2 - 1
    rival = torch.nn.functional.grid_sample(planes, positions, align_corners=False)
    bound = torch_bound(truth, rival[0, :, :, 0].T)
    assert bound < 1e-4 * np.max(np.abs(truth))
    check("sample_points", truth, image, points, bound=bound)
