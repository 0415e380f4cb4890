"""How the core resizes images for processors: torchvision's bytes, and PyTorch's floats."""

from __future__ import annotations

import numpy as np
import pytest
from sam_rlx import _core
from sam_rlx.errors import InvalidArgumentError

FILTERS = ["bilinear", "bicubic"]


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def lookup(image, levels):
    return np.stack([levels[:, c][image[..., c]] for c in range(3)])


@pytest.mark.parity
@pytest.mark.parametrize("name", FILTERS)
def test_bytes_are_torchvisions(name):
    from support.upstream import torch
    from torchvision.transforms.v2 import InterpolationMode, functional

    random = np.random.default_rng(1)
    for seed in range(100):
        (height, width), after = random.integers(1, 120, 2), random.integers(1, 120, 2).tolist()
        image = noise(height, width, seed)
        expected = functional.resize(
            torch.from_numpy(image).permute(2, 0, 1), after, InterpolationMode(name)
        )
        found = _core.resize_image(image, tuple(after), name)
        assert np.array_equal(found, expected.permute(1, 2, 0).numpy()), (height, width, after)


@pytest.mark.parity
@pytest.mark.parametrize("name", FILTERS)
def test_floats_are_pytorchs(name):
    from support.upstream import torch

    random = np.random.default_rng(1)
    for _ in range(20):
        planes = random.standard_normal((2, *random.integers(1, 60, 2)), np.float32)
        # PyTorch gives one row over and over where the result has one column.
        after = tuple(random.integers(2, 60, 2).tolist())
        exact, single = (
            torch.nn.functional.interpolate(
                torch.from_numpy(planes.astype(kind))[None], after, mode=name, antialias=True
            )[0].numpy()
            for kind in (np.float64, np.float32)
        )
        found = _core.resize_planes(planes, after, name)
        limit = 4 * np.abs(single - exact).max() + 1e-6 * np.abs(exact).max()
        assert np.abs(found - exact).max() <= limit


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize(("before", "after"), [((31, 45), (20, 33)), ((8, 8), (8, 8))])
def test_planes_are_levels_of_bytes_in_a_frame(name, before, after):
    image = noise(*before)
    levels = np.random.default_rng(2).standard_normal((256, 3), np.float32)
    out = np.full((3, 40, 50), np.nan, np.float32)
    _core.image_to_planes(image, after, levels, out, name)
    expected = lookup(_core.resize_image(image, after, name, num_threads=1), levels)
    assert np.array_equal(out[:, : after[0], : after[1]], expected)
    assert not out[:, after[0] :].any()
    assert not out[:, :, after[1] :].any()


def test_threads_do_not_change_bytes():
    image = noise(300, 400)
    assert np.array_equal(
        _core.resize_image(image, (128, 90), num_threads=1),
        _core.resize_image(image, (128, 90), num_threads=3),
    )


def test_views_are_taken_as_they_are():
    image = noise(60, 80)
    turned = np.ascontiguousarray(image.transpose(2, 0, 1)).transpose(1, 2, 0)
    assert np.array_equal(_core.resize_image(turned, (20, 30)), _core.resize_image(image, (20, 30)))


def test_arguments_are_checked():
    image, levels = noise(8, 8), np.zeros((256, 3), np.float32)
    room = np.zeros((3, 4, 4), np.float32)
    for call in (
        lambda: _core.resize_image(image, (0, 4)),
        lambda: _core.resize_image(image, (4, 4), "nearest"),
        lambda: _core.resize_image(image[..., 0], (4, 4)),
        lambda: _core.resize_planes(np.zeros((2, 2), np.float32), (4, 4)),
        lambda: _core.image_to_planes(image, (5, 4), levels, room),
        lambda: _core.image_to_planes(image, (4, 4), levels[:4], room),
        lambda: _core.image_to_planes(image, (4, 4), levels, room[0]),
    ):
        with pytest.raises(InvalidArgumentError, match="expected"):
            call()
    with pytest.raises(TypeError):
        _core.image_to_planes(image, (4, 4), levels, room.astype(np.float64))
