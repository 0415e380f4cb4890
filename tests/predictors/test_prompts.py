"""One rule for prompts: what is right for images, texts and videos, and where an image ends."""

import numpy as np
import pytest
import sam_rlx
from sam_rlx import _core
from sam_rlx.errors import InvalidArgumentError

WIDTH, HEIGHT = 40, 30
IMAGE = np.full((HEIGHT, WIDTH, 3), 60, np.uint8)
IMAGE[5:20, 8:30] = 200


def predict_image(model, **prompts):
    predictor = sam_rlx.ImagePredictor(model, num_threads=1)
    predictor.set_image(IMAGE)
    predictor.predict(**prompts)


def predict_concept(model, box=None, **prompts):
    boxes = {} if box is None else {"boxes": [box]}
    sam_rlx.ConceptPredictor(model, num_threads=1).predict(IMAGE, **boxes, **prompts)


def predict_video(model, **prompts):
    sam_rlx.VideoPredictor(model, [IMAGE], num_threads=1).add_prompt(0, 1, **prompts)


@pytest.fixture(scope="module", params=[predict_image, predict_concept, predict_video])
def predict(request):
    model = sam_rlx.load_model("sam3-nano")
    return lambda **prompts: request.param(model, **prompts)


def click(x, y):
    return {"point_coords": [[x, y]], "point_labels": [1]}


@pytest.mark.parametrize("point", [(0, 0), (WIDTH, HEIGHT), (0, HEIGHT), (WIDTH, 7.5)])
def test_points_on_the_edges_are_on_the_image(predict, point):
    predict(**click(*point))


@pytest.mark.parametrize("point", [(-0.5, 3), (3, -0.5), (WIDTH + 0.5, 3), (3, HEIGHT + 0.5)])
def test_clicks_may_lie_outside_and_examples_may_not(point):
    model = sam_rlx.load_model("sam3-nano")
    predict_image(model, **click(*point))
    predict_video(model, **click(*point))
    words = f"point_coords: expected pixels of an image of {WIDTH} x {HEIGHT}, found "
    with pytest.raises(InvalidArgumentError, match=words):
        predict_concept(model, **click(*point))


@pytest.mark.parametrize("point", [(np.nan, 3), (3, np.inf)])
def test_points_are_finite(predict, point):
    with pytest.raises(InvalidArgumentError, match="point_coords: expected finite pixels"):
        predict(**click(*point))


@pytest.mark.parametrize("box", [(-9, -9, 20, 20), (20, 10, WIDTH + 50, HEIGHT + 50)])
def test_boxes_may_reach_out_of_the_image(predict, box):
    predict(box=box)


@pytest.mark.parametrize("box", [(20, 10, 10, 20), (5, 20, 9, 10)])
def test_turned_boxes_are_refused(predict, box):
    with pytest.raises(InvalidArgumentError, match=r"box(es)?: expected "):
        predict(box=box)


@pytest.mark.parametrize("box", [(-9, 2, -1, 20), (2, HEIGHT + 1, 20, HEIGHT + 9)])
def test_the_edge_of_an_image_is_one_rule(box):
    hw, points = (HEIGHT, WIDTH), np.array([[9.0, 9], [-1, -1]])
    with pytest.raises(InvalidArgumentError, match="--box: expected a part of an image of 40 x 30"):
        _core.check_boxes("--box", np.array([box], float), hw)
    _core.check_boxes("--box", np.array([box], float))
    _core.check_points("--point", points, np.array([1, -1], np.int32), hw)  # -1 is ignored
    with pytest.raises(InvalidArgumentError, match="--point: expected pixels of an image"):
        _core.check_points("--point", points, np.array([1, 0], np.int32), hw)


@pytest.mark.parametrize("labels", [[2], [0.5], [-2]])
def test_labels_of_clicks(labels):
    with pytest.raises(InvalidArgumentError, match="point_labels: expected 1 "):
        predict_image(sam_rlx.load_model("sam2-nano"), point_coords=[[3, 3]], point_labels=labels)


def test_mask_inputs_are_finite():
    side = (model := sam_rlx.load_model("sam2-nano")).mask_side
    logits = np.zeros((side, side), np.float32)
    logits[1, 1] = np.nan
    with pytest.raises(InvalidArgumentError, match="mask_input: expected finite logits"):
        predict_image(model, mask_input=logits)


def test_examples_are_cut_off_at_the_edges():
    boxes = np.array([[-9.0, 4, 12, HEIGHT + 9], [3, 3, 9, 9]])
    cut = _core.clip_boxes("boxes", boxes, (HEIGHT, WIDTH), "an image")
    assert cut.tolist() == [[0, 4, 12, HEIGHT], [3, 3, 9, 9]]
    for wrong, words in (
        ([0.1, 0.1, 0.9, 1.0], "multiply fractions with the sides"),
        ([WIDTH, 1, WIDTH + 9, 9], "overlaps an image of 40 x 30"),
        ([3, 3, 3, 9], "with x0 < x1 and y0 < y1"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            _core.clip_boxes("boxes", np.array([wrong]), (HEIGHT, WIDTH), "an image")
