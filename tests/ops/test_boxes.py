"""Arithmetic of boxes and scores."""

import numpy as np
import pytest
from support.ops import check, normal, op, rng


def sigmoid(x):
    return 1 / (1 + np.exp(-np.float64(x)))


def inverse_sigmoid(x):
    x = np.clip(np.float64(x), 0, 1)
    return np.log(np.maximum(x, 1e-3) / np.maximum(1 - x, 1e-3))


EDGES = np.array([0, 1, 5e-4, 1e-3, 0.002, 0.5, 0.999, 0.9995, -0.2, 1.7, -1e30, 1e30], np.float32)


def test_refine_boxes():
    random = rng(0)
    boxes = np.concatenate([random.uniform(0, 1, (30, 4)), EDGES.reshape(3, 4)]).astype(np.float32)
    delta = normal(random, 33, 4) * 2
    truth = sigmoid(inverse_sigmoid(boxes) + delta)
    # Float32's 1 - x near 1 is worth some 1e-4 of the side that the clamp bounds.
    check("refine_boxes", truth, boxes, delta, bound=1e-6)
    check("refine_boxes", sigmoid(inverse_sigmoid(boxes)), boxes, np.zeros_like(delta), bound=1e-6)


def test_the_ends_are_cut_at_a_thousandth():
    boxes = np.array([[0, 1, 1e-4, 0.9999]], np.float32)
    found = op("refine_boxes", boxes, np.zeros((1, 4)))
    np.testing.assert_allclose(found[0, :2], [1e-3 / 1.001, 1 / 1.001], rtol=1e-5)
    np.testing.assert_allclose(found[0, 2], 1e-3 / (1e-3 + 0.9999), rtol=1e-5)


@pytest.mark.parametrize("size", [(1.0, 1.0), (72.0, 40.0)])
def test_box_corners(size):
    boxes = normal(rng(2), 9, 4)
    center, extent = np.float64(boxes[:, :2]), np.float64(boxes[:, 2:])
    truth = np.concatenate([center - extent / 2, center + extent / 2], 1) * np.tile(size, 2)
    check("box_corners", truth, boxes, *size)


def distances(positions, low, high):
    delta = 8 * (positions[None, :, None] - np.stack([low, high], -1)[:, None])
    return np.sign(delta) * np.log2(np.abs(delta) + 1) / 3


@pytest.mark.parametrize("grid", [(1, 1), (5, 7), (72, 72)])
def test_box_distances(grid):
    height, width = grid
    boxes = np.float32(rng(*grid).uniform(-0.2, 1.2, (11, 4)))
    boxes[0] = [0.5, 0.5, 1, 1]  # the edges lie on positions
    cx, cy, w, h = np.float64(boxes).T
    rows = distances(np.arange(height) / height, cy - h / 2, cy + h / 2)
    cols = distances(np.arange(width) / width, cx - w / 2, cx + w / 2)
    check("box_distances", np.concatenate([rows, cols], 1), boxes, height, width)


def sines(x, frequencies):
    angle = np.float64(x)[..., None] * np.float64(frequencies)
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(*x.shape[:-1], -1)


def test_encode_coordinates():
    x = np.float32(rng(3).uniform(-1, 3, (19, 4)))
    frequencies = np.float32(2 * np.pi / 10000 ** (np.arange(8) / 8))
    truth = [sines(x[:, [c]], frequencies) for c in (1, 0)]
    truth = np.concatenate([*truth, x[:, [3, 2]]], 1)
    check("encode_coordinates", truth, x, frequencies, [1, 0], [3, 2])
    check("encode_coordinates", sines(x[:, [2]], frequencies), x, frequencies, [2], [])


@pytest.mark.parametrize("rows", [1, 2, 300])
def test_mean_rows(rows):
    x = normal(rng(rows), rows, 37) + 100
    check("mean_rows", np.float64(x).mean(0, keepdims=True), x, bound=1e-5)


def test_dot_rows():
    random = rng(5)
    x, vector = normal(random, 40, 64), normal(random, 1, 64)
    products = 0.7 * np.sum(np.float64(x) * vector, 1)
    limit = float(np.median(np.abs(products)))
    check("dot_rows", products, x, vector, 0.7, 1e9)
    check("dot_rows", np.clip(products, -limit, limit), x, vector, 0.7, limit)


@pytest.mark.parametrize("presence", [-50.0, -8.0, -0.3, 0.0, 8.0, 12.0, 200.0])
def test_presence_scores(presence):
    logits = np.concatenate([normal(rng(6), 30) * 4, [-12, 12, -200, 200]]).astype(np.float32)
    truth = sigmoid(logits) * sigmoid(presence)
    check("presence_scores", truth, logits, presence)
    joint = np.clip(inverse_sigmoid(truth), -10, 10)
    # 1 - p loses up to half a unit of 1 in float32, of which 1e-3 remain at the clamp.
    check("presence_scores", joint, logits, presence, joint=True, bound=2e-4)
    if presence == -8.0:
        np.testing.assert_allclose(joint, np.log(1e-3 / (1 - truth)), atol=1e-9)


def test_joint_logits_stay_within_the_clamps():
    found = op("presence_scores", np.float32([-200, 200, 200]), 200.0, joint=True)
    np.testing.assert_allclose(found[:2], np.log([1e-3, 1e3]), rtol=1e-6)


def test_wrong_shapes():
    with pytest.raises(ValueError, match=r"refine_boxes_: expected boxes \(n, 4\)"):
        op("refine_boxes", np.zeros((2, 3)), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="mean_rows: expected rows"):
        op("mean_rows", np.zeros((0, 3)))
    with pytest.raises(ValueError, match="dot_rows: expected a vector"):
        op("dot_rows", np.zeros((2, 3)), np.zeros((1, 4)), 1.0, 1.0)
