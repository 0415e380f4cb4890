"""Resizes without antialias, as torch.nn.functional.interpolate(align_corners=False)."""

import numpy as np
import pytest
from support.parity import close, same_bits

SHAPES = [
    ((256, 256), (1024, 1024)),
    ((256, 256), (300, 77)),
    ((96, 128), (60, 80)),
    ((7, 9), (3, 31)),
    ((5, 5), (5, 8)),
    ((5, 8), (3, 8)),
    ((31, 1), (8, 1)),
    ((1, 1), (4, 6)),
    ((14, 14), (14, 14)),
    ((64, 64), (33, 17)),
]


def taps(in_size, out_size):
    """Lower position, upper position and weight of the upper one, in float64."""
    source = np.maximum((np.arange(out_size) + 0.5) * in_size / out_size - 0.5, 0.0)
    lower = np.minimum(source.astype(int), in_size - 1)
    return lower, np.minimum(lower + 1, in_size - 1), source - lower


def linear(x, axis, size):
    lower, upper, weight = taps(x.shape[axis], size)
    weight = np.expand_dims(weight, tuple(range(1, x.ndim - axis)))
    return np.take(x, lower, axis) * (1 - weight) + np.take(x, upper, axis) * weight


def cubic(x, axis, size):
    source = (np.arange(size) + 0.5) * x.shape[axis] / size - 0.5
    base = np.floor(source).astype(int)
    total = 0.0
    for k in range(-1, 3):
        d, a = np.abs(source - base - k), -0.75
        near = (a + 2) * d**3 - (a + 3) * d**2 + 1
        far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
        weight = np.expand_dims(np.where(d <= 1, near, far), tuple(range(1, x.ndim - axis)))
        total = total + weight * np.take(x, np.clip(base + k, 0, x.shape[axis] - 1), axis)
    return total


def draw(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def near_formula(found, exact, source):
    # float32 positions carry an error that grows with the size of the axis.
    bound = 4 * np.finfo(np.float32).eps * max(source.shape) * np.abs(source).max()
    assert np.abs(found - exact).max() <= bound


@pytest.mark.parametrize(("before", "after"), SHAPES)
@pytest.mark.parametrize("threads", [1, 3])
def test_formulas(testing, before, after, threads):
    planes = draw(0, 3, *before)
    exact = linear(linear(planes.astype(np.float64), 2, after[1]), 1, after[0])
    near_formula(testing.resize_bilinear(planes, after, threads), exact, planes)
    last = np.ascontiguousarray(np.moveaxis(planes, 0, 2))
    wide = last.astype(np.float64)
    found = testing.resize_bicubic_hwc(last, after, threads)
    near_formula(found, cubic(cubic(wide, 1, after[1]), 0, after[0]), planes)


@pytest.mark.parity
@pytest.mark.parametrize(("before", "after"), SHAPES)
def test_against_pytorch(testing, before, after):
    torch = pytest.importorskip("torch")

    def reference(x, mode):
        first = torch.from_numpy(x)[None]
        y = torch.nn.functional.interpolate(first, after, mode=mode, align_corners=False)
        return y[0].numpy()

    planes = draw(1, 5, *before)
    last = np.ascontiguousarray(np.moveaxis(planes, 0, 2))
    wide = planes.astype(np.float64)
    for mode in ("bilinear", "bicubic"):
        exact, single = reference(wide, mode), reference(planes, mode)
        if mode == "bilinear":
            found = testing.resize_bilinear(planes, after, 2)
        else:
            found = np.moveaxis(testing.resize_bicubic_hwc(last, after, 2), 2, 0)
        close(found, exact, single, mode)


@pytest.mark.parity
@pytest.mark.parametrize(("before", "after"), [(127, 27), (27, 127), (5, 9), (13, 13), (1, 3)])
def test_rows_against_pytorch(testing, before, after):
    torch = pytest.importorskip("torch")

    def reference(x):
        first = torch.from_numpy(x).T[None]
        y = torch.nn.functional.interpolate(first, after, mode="linear", align_corners=False)
        return y[0].T.numpy()

    table = draw(2, before, 64)
    exact = reference(table.astype(np.float64))
    close(testing.resize_linear_rows(table, [after]), exact, reference(table))
    near_formula(testing.resize_linear_rows(table, [after]), exact, table)


def test_threads_change_nothing(testing):
    planes = draw(3, 2, 61, 47)
    last = np.ascontiguousarray(np.moveaxis(planes, 0, 2))
    for name, x in (
        ("resize_bilinear", planes),
        ("resize_bicubic_hwc", last),
    ):
        resize = getattr(testing, name)
        same_bits(resize(x, (100, 93), 1), resize(x, (100, 93), 3), name)


def test_no_planes(testing):
    assert testing.resize_bilinear(np.zeros((0, 4, 4), np.float32), (8, 8)).shape == (0, 8, 8)


def test_empty_sides_are_refused(testing):
    with pytest.raises(ValueError, match="resize_bilinear: expected two non-empty maps"):
        testing.resize_bilinear(np.zeros((1, 0, 4), np.float32), (8, 8))
    with pytest.raises(ValueError, match="resize_bicubic_hwc"):
        testing.resize_bicubic_hwc(np.zeros((4, 4, 2), np.float32), (0, 8))


def triangle(x, axis, size):
    """Bilinear with antialias: weights fall off over as many positions as one result steps."""
    scale = x.shape[axis] / size
    support = max(scale, 1.0)
    center = scale * (np.arange(size) + 0.5)
    distance = np.abs(np.arange(x.shape[axis]) + 0.5 - center[:, None])
    weight = np.maximum(0, 1 - distance / support)
    weight /= weight.sum(1, keepdims=True)
    return np.moveaxis(np.tensordot(x, weight, (axis, 1)), -1, axis)


def antialias(planes, height, width):
    return triangle(triangle(planes, 2, width), 1, height)


@pytest.mark.parametrize(
    ("before", "after"), [*SHAPES, ((1024, 1024), (256, 256)), ((97, 50), (8, 6))]
)
def test_bilinear_antialias(parity, before, after):
    options = {"height": after[0], "width": after[1]}
    parity.check_op(
        "resize_bilinear_antialias", antialias, options=options, seeds=(0,), planes=(2, *before)
    )


@pytest.mark.parity
@pytest.mark.parametrize(("before", "after"), [((97, 50), (8, 6)), ((33, 64), (40, 16))])
def test_antialias_of_pytorch(testing, before, after):
    torch = pytest.importorskip("torch")
    planes = np.random.default_rng(0).standard_normal((1, *before), np.float32)
    resize = lambda x: torch.nn.functional.interpolate(  # noqa: E731
        x[None], size=after, mode="bilinear", antialias=True
    )[0].numpy()
    exact = resize(torch.from_numpy(planes).double())
    np.testing.assert_allclose(antialias(planes.astype(np.float64), *after), exact, atol=1e-12)
    found = testing.op("resize_bilinear_antialias", planes, *after)
    close(found, exact, resize(torch.from_numpy(planes)))
