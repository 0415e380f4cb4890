"""Programs that follow upstream's two notebooks step by step, with only the import changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx.compat.segment_anything import (
    SamAutomaticMaskGenerator,
    SamPredictor,
    build_sam_nano,
    sam_model_registry,
)
from sam_rlx.compat.segment_anything.modeling import Sam
from sam_rlx.compat.segment_anything.utils.transforms import ResizeLongestSide

INPUT_POINT = np.array([[300, 200]])
INPUT_LABEL = np.array([1])


@pytest.fixture(scope="module")
def sam(model: sam_rlx.Model) -> Sam:
    sam = Sam(model)
    sam.to(device="cpu")
    return sam


@pytest.fixture(scope="module")
def mask_predictor(sam: Sam, picture: np.ndarray) -> SamPredictor:
    predictor = SamPredictor(sam)
    predictor.set_image(picture)
    return predictor


@pytest.fixture(params=["numpy", "torch"])
def make_tensor(request: pytest.FixtureRequest) -> Any:
    """The notebooks make their prompts with torch.tensor; arrays serve as well."""
    if request.param == "numpy":
        return np.array
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    return torch.tensor


def show_mask(mask: Any) -> Any:
    """The notebooks' drawing helper needs a height and a width."""
    height, width = mask.shape[-2:]
    return mask.reshape(height, width, 1) * np.ones((1, 1, 4))


def test_registry_keys_load_the_packaged_model() -> None:
    assert sam_model_registry["nano"] is build_sam_nano
    sam = sam_model_registry["nano"](checkpoint="sam-nano")
    assert sam.mask_threshold == 0.0


def test_one_point_gives_three_masks(mask_predictor: SamPredictor) -> None:
    masks, scores, logits = mask_predictor.predict(
        point_coords=INPUT_POINT,
        point_labels=INPUT_LABEL,
        multimask_output=True,
    )
    side = mask_predictor.model.model.mask_side
    assert masks.shape == (3, 400, 600)
    assert logits.shape == (3, side, side)
    for mask, score in zip(masks, scores, strict=True):
        assert show_mask(mask).shape == (400, 600, 4)
        assert np.isfinite(score)


def test_more_points_refine_the_mask(mask_predictor: SamPredictor) -> None:
    _, scores, logits = mask_predictor.predict(INPUT_POINT, INPUT_LABEL, multimask_output=True)
    mask_input = logits[np.argmax(scores), :, :]
    masks, _, _ = mask_predictor.predict(
        point_coords=np.array([[300, 200], [350, 150]]),
        point_labels=np.array([1, 0]),
        mask_input=mask_input[None, :, :],
        multimask_output=False,
    )
    assert masks.shape == (1, 400, 600)


def test_a_box_and_a_box_with_a_point(mask_predictor: SamPredictor) -> None:
    input_box = np.array([150, 40, 420, 330])
    masks, _, _ = mask_predictor.predict(
        point_coords=None, point_labels=None, box=input_box[None, :], multimask_output=False
    )
    assert masks.shape == (1, 400, 600)
    masks, _, _ = mask_predictor.predict(
        point_coords=np.array([[300, 60]]),
        point_labels=np.array([0]),
        box=input_box,
        multimask_output=False,
    )
    assert masks[0].shape == (400, 600)


def test_many_boxes_in_one_call(
    mask_predictor: SamPredictor, picture: np.ndarray, make_tensor: Any
) -> None:
    input_boxes = make_tensor([[150, 40, 420, 330], [10, 10, 60, 90], [300, 200, 500, 390]])
    transformed_boxes = mask_predictor.transform.apply_boxes_torch(input_boxes, picture.shape[:2])
    masks, _, _ = mask_predictor.predict_torch(
        point_coords=None,
        point_labels=None,
        boxes=transformed_boxes,
        multimask_output=False,
    )
    assert masks.shape == (3, 1, 400, 600)
    for mask in masks:
        assert show_mask(mask.cpu().numpy()).shape == (400, 600, 4)


def test_batches_of_pictures_with_their_prompts(
    sam: Sam, pictures: dict[str, np.ndarray], make_tensor: Any
) -> None:
    resize_transform = ResizeLongestSide(sam.image_encoder.img_size)

    def prepare_image(image: np.ndarray) -> Any:
        image = resize_transform.apply_image(image)
        tensor = make_tensor(image)
        return tensor.permute(2, 0, 1) if hasattr(tensor, "permute") else tensor.transpose(2, 0, 1)

    first, second = pictures["wide 400x600"], pictures["tall 451x300"]
    first_boxes = make_tensor([[150, 40, 420, 330], [10, 10, 60, 90]])
    second_boxes = make_tensor([[50, 40, 220, 330], [10, 10, 60, 90], [5, 300, 290, 440]])
    batched_input = [
        {
            "image": prepare_image(image),
            "boxes": resize_transform.apply_boxes_torch(boxes, image.shape[:2]),
            "original_size": image.shape[:2],
        }
        for image, boxes in ((first, first_boxes), (second, second_boxes))
    ]
    batched_output = sam(batched_input, multimask_output=False)
    assert list(batched_output[0]) == ["masks", "iou_predictions", "low_res_logits"]
    assert batched_output[0]["masks"].shape == (2, 1, *first.shape[:2])
    assert batched_output[1]["masks"].shape == (3, 1, *second.shape[:2])
    for mask in batched_output[0]["masks"]:
        assert show_mask(mask.cpu().numpy()).shape == (400, 600, 4)


def test_all_masks_with_default_and_with_own_options(sam: Sam, picture: np.ndarray) -> None:
    mask_generator = SamAutomaticMaskGenerator(sam, points_per_side=4, pred_iou_thresh=0.0)
    masks = mask_generator.generate(picture)
    assert isinstance(masks, list)
    mask_generator_2 = SamAutomaticMaskGenerator(
        model=sam,
        points_per_side=4,
        pred_iou_thresh=0.0,
        stability_score_thresh=0.0,
        crop_n_layers=1,
        crop_n_points_downscale_factor=2,
        min_mask_region_area=100,
    )
    masks2 = mask_generator_2.generate(picture)
    assert masks2
    assert set(masks2[0]) == {
        "segmentation",
        "area",
        "bbox",
        "predicted_iou",
        "point_coords",
        "stability_score",
        "crop_box",
    }
    sorted_anns = sorted(masks2, key=(lambda x: x["area"]), reverse=True)
    canvas = np.ones((*sorted_anns[0]["segmentation"].shape, 4))
    for ann in sorted_anns:
        canvas[ann["segmentation"]] = (0.2, 0.4, 0.6, 0.35)
    assert canvas.shape == (400, 600, 4)
