"""Steps of everything mode on image processors, beside transformers' own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", exc_type=ImportError)

import torch
from PIL import Image
from sam_rlx.compat import transformers as ours
from sam_rlx.errors import SamRlxError
from support import upstream

upstream.prepare()
KINDS = ("SamImageProcessor", "Sam2ImageProcessor", "Sam3ImageProcessor")
PIXELS = np.random.default_rng(0).integers(0, 256, (75, 100, 3), np.uint8)


@pytest.fixture(params=KINDS)
def both(request):
    import transformers

    return getattr(ours, request.param)(), getattr(transformers, request.param)()


def same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize("size", [(75, 100), (101, 60), (64, 64), (4, 90), (40, 4)])
@pytest.mark.parametrize("options", [(128,), (1024, 1), (128, 2, 0.2, 7), (1008, 0, 0.3, 32)])
def test_crops_and_grids(both, size, options):
    height, width = size
    image = Image.fromarray(np.resize(PIXELS, (height, width, 3)))
    found, expected = (each.generate_crop_boxes(image, *options) for each in both)
    for index in (0, 1, 3):
        same(found[index], expected[index])
    assert len(found[2]) == len(expected[2])
    for mine, theirs in zip(found[2], expected[2], strict=True):
        same(mine, theirs)


@pytest.mark.parametrize("count", [1, 2, 3, 12, 24, 31, 45, 64, 100])
def test_grids_have_the_bits_of_linspace(both, count):
    image = PIXELS.transpose(2, 0, 1)
    found, expected = (each.generate_crop_boxes(image, 1024, 0, 0.3, count)[1] for each in both)
    same(found, expected)


@pytest.mark.parametrize(
    "options",
    [
        {"crop_n_layers": 1, "crop_n_points_downscale_factor": 2},
        {"points_per_crop": 0},
        {"points_per_crop": None},
        {"crop_n_layers": "1"},
    ],
)
def test_crops_that_are_refused(both, options):
    mine, theirs = both
    with pytest.raises(Exception) as expected:  # noqa: PT011
        theirs.generate_crop_boxes(PIXELS, 128, **options)
    with pytest.raises(expected.type) as found:
        mine.generate_crop_boxes(PIXELS, 128, **options)
    assert isinstance(found.value, SamRlxError)


def smooth(count: int, height: int, width: int, seed: int) -> torch.Tensor:
    """Return logits of blobs, some of which touch an edge."""
    draw = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    blobs = [
        12
        - np.hypot(y - draw.uniform(0, height), x - draw.uniform(0, width)) * draw.uniform(0.4, 3)
        for _ in range(count)
    ]
    blobs += [np.full((height, width), -5.0), np.full((height, width), 5.0)]
    return torch.tensor(np.stack(blobs), dtype=torch.float32)


CROPS = {
    "whole": ((75, 100), [0, 0, 100, 75]),
    "inner": ((150, 210), [60, 40, 160, 115]),
    "corner": ((150, 210), [0, 0, 100, 75]),
}


@pytest.mark.parametrize("crop", CROPS)
@pytest.mark.parametrize(
    "options",
    [(), (0.5, 0.8), (0.0, 0.0), (0.5, 0.5, 1.0, 2), (2.0, 0.9), (-1, -1, 20), (0.0, 0.999)],
)
def test_masks_that_are_kept(both, crop, options):
    size, box = CROPS[crop]
    logits = smooth(28, 75, 100, 3).reshape(10, 3, 75, 100)
    scores = torch.tensor(np.random.default_rng(4).uniform(0, 1, (10, 3)), dtype=torch.float32)
    corners = torch.tensor(box, dtype=torch.float32)
    found, expected = (each.filter_masks(logits, scores, size, corners, *options) for each in both)
    assert found[0] == expected[0]
    same(found[1], expected[1])
    same(found[2], expected[2])
    kept = [each.post_process_for_mask_generation(*expected, 0.3) for each in both]
    for mine, theirs in zip(kept[0][0], kept[1][0], strict=True):
        same(mine, theirs)
    same(kept[0][1], kept[1][1])
    assert kept[0][2] == kept[1][2]
    same(kept[0][3], kept[1][3])


def test_scores_of_other_masks(both):
    logits, scores = smooth(1, 20, 20, 0)[None], torch.ones(1, 2)
    for each in both:
        with pytest.raises(ValueError, match="iou_scores"):
            each.filter_masks(logits, scores, (20, 20), [0, 0, 20, 20])
