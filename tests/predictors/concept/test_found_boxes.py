"""What a predictor finds can be an example for it: what reaches out of the image is cut off."""

import numpy as np
import pytest
import sam_rlx

SIZE = (96, 128)


def scene():
    """A disc that the right edge cuts through, and a whole one."""
    y, x = np.mgrid[: SIZE[0], : SIZE[1]]
    image = np.full((*SIZE, 3), 90, np.uint8)
    image[(x - 118) ** 2 + (y - 30) ** 2 < 20**2] = (220, 60, 40)
    image[(x - 40) ** 2 + (y - 60) ** 2 < 22**2] = (40, 90, 230)
    return image


@pytest.fixture(scope="module")
def model():
    return sam_rlx.load_model("sam3-nano")


def test_found_boxes_are_examples(model):
    predictor = sam_rlx.ConceptPredictor(model)
    found = predictor.predict(scene(), text="circle", threshold=0.02)
    assert len(found.boxes)
    for box in found.boxes:
        predictor.predict(text="circle", boxes=[box])
    predictor.predict(text="circle", boxes=found.boxes)


@pytest.mark.parametrize(
    ("box", "inside"),
    [
        ([-0.3, 20, 60, 80], [0, 20, 60, 80]),
        ([90, -7, 300, 60], [90, 0, 128, 60]),
        ([-9, -9, 999, 999], [0, 0, 128, 96]),
    ],
)
def test_they_are_cut_off_at_the_edges(model, box, inside):
    predictor = sam_rlx.ConceptPredictor(model)
    predictor.set_image(scene())
    results = [predictor.predict(boxes=[x], threshold=0.01) for x in (box, inside)]
    assert results[0].scores.tobytes() == results[1].scores.tobytes()
    assert results[0].masks.tobytes() == results[1].masks.tobytes()
    for given in (box, inside):
        video = sam_rlx.VideoPredictor(model, [scene()] * 2)
        assert video.add_text("circle", boxes=[given]) is video


@pytest.mark.parametrize("box", [[130, 5, 150, 40], [-50, 5, 0, 40], [5, 96, 20, 120]])
def test_what_is_all_outside_is_refused(model, box):
    predictor = sam_rlx.ConceptPredictor(model)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="overlaps an image of 128 x 96"):
        predictor.predict(scene(), boxes=[box])
    video = sam_rlx.VideoPredictor(model, [scene()] * 2)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="overlaps a frame of 128 x 96"):
        video.add_text("circle", boxes=[box])
    assert video.obj_ids == []


@pytest.mark.parametrize("box", [[0.1, 0.2, 0.6, 0.9], [0, 0, 1, 1]])
def test_fractions_of_the_sides_are_told_from_pixels(model, box):
    predictor = sam_rlx.ConceptPredictor(model)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="multiply fractions with the sides"):
        predictor.predict(scene(), boxes=[[5, 6, 70, 80], box])
    video = sam_rlx.VideoPredictor(model, [scene()] * 2)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="multiply fractions with the sides"):
        video.add_text("circle", boxes=[box])
