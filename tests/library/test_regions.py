"""Holes are filled and islands removed by one option, as everything mode and upstream do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sam_rlx
from support.trained import trained

ndimage = pytest.importorskip("scipy.ndimage", reason="SciPy finds regions")


def _judged(mask: np.ndarray, area: int) -> np.ndarray:
    """What upstream's rule makes of a mask, with SciPy's components."""
    for value in (False, True):
        labels, count = ndimage.label(mask == value, structure=np.ones((3, 3)))
        sizes = np.bincount(labels.ravel(), minlength=count + 1)[1:]
        small = sizes < area
        if value and small.all() and count:
            small[sizes.argmax()] = False
        mask = np.where(np.append(False, small)[labels], not value, mask)
    return mask


def check(plain: Any, cleaned: Any, area: int) -> int:
    """Compare masks; return how many differ from what they were."""
    changed = 0
    for before, after in zip(plain, cleaned, strict=True):
        np.testing.assert_array_equal(after, _judged(before, area))
        changed += bool((before != after).any())
    return changed


def test_clicks(predictor: sam_rlx.ImagePredictor) -> None:
    box = [[100, 80, 300, 250], [320, 60, 560, 380]]
    plain = predictor.predict(box=box)
    cleaned = predictor.predict(box=box, min_mask_region_area=150)
    assert check(plain.masks.reshape(-1, 400, 600), cleaned.masks.reshape(-1, 400, 600), 150)
    np.testing.assert_array_equal(plain.low_res_masks, cleaned.low_res_masks)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="min_mask_region_area: expected 0 with"):
        predictor.predict(box=box[0], min_mask_region_area=9, return_logits=True)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="min_mask_region_area: expected an int"):
        predictor.predict(box=box[0], min_mask_region_area=-1)


def test_texts(images: dict[str, np.ndarray]) -> None:
    predictor = sam_rlx.ConceptPredictor(sam_rlx.load_model(trained("sam3-nano")))
    predictor.set_image(images["odd 303x384"])
    arguments: dict[str, Any] = {"text": "circle", "threshold": 0.05}
    plain = predictor.predict(**arguments)
    cleaned = predictor.predict(**arguments, min_mask_region_area=500)
    assert len(plain.masks)
    check(plain.masks, cleaned.masks, 500)


def test_frames(sam2_model: sam_rlx.Model, frames: np.ndarray) -> None:
    found = []
    for area in (0, 40):
        video = sam_rlx.VideoPredictor(sam2_model, frames, min_mask_region_area=area)
        video.add_prompt(0, "a", point_coords=[[20, 18]], point_labels=[1])
        video.add_prompt(0, "b", point_coords=[[8, 6]], point_labels=[1])
        found.append([mask for frame in video.propagate() for mask in frame.masks.values()])
    assert check(*found, 40)
