"""Masks that may not overlap are made in rows: the same bits as of logits held at once."""

import numpy as np
import pytest
import sam_rlx
from support.half_size import half_size

HW = (197, 250)  # more rows than a block has
BOXES = ([40, 50, 150, 150], [70, 60, 190, 160], [100, 20, 140, 190])


def frames():
    images = np.full((3, *HW, 3), 40, np.uint8)
    for index, image in enumerate(images):
        image[50:150, 40 + 5 * index : 150 + 5 * index] = (200, 60, 60)
        image[60:160, 100:190] = (60, 200, 90)
    return images


def tracked(model, logits, threads, **options):
    video = sam_rlx.VideoPredictor(half_size(model), frames(), num_threads=threads, **options)
    for name, box in enumerate(BOXES):
        video.add_prompt(0, name, box=box)
    given = np.zeros(HW, bool)
    given[90:120, 20:230] = True
    video.add_prompt(0, "given", mask=given)
    return list(video.propagate(return_logits=logits))


@pytest.mark.parametrize("model", ["sam2-nano", "sam3-nano"])
@pytest.mark.parametrize("apart", [False, True])
def test_masks_are_logits_above_0(model, apart):
    held = tracked(model, True, 1, non_overlap_masks=apart)
    found = tracked(model, False, 3, non_overlap_masks=apart)
    assert len(found) == len(held) == 3
    for one, other in zip(found, held, strict=True):
        assert one.masks.keys() == other.masks.keys()
        masks = np.array(list(one.masks.values()))
        assert np.array_equal(masks, np.array(list(other.logits.values())) > 0)
        assert not apart or masks.sum(axis=0).max() == 1
    assert found[0].masks[0].any()
    assert found[0].masks["given"].any()
