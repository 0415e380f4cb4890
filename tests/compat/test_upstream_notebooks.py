"""Programs that follow upstream's two notebooks step by step, with only the import changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
from support import nudged, tiny
from support.parity import NUDGES, Parity

INPUT_POINT = np.array([[300, 200]])
INPUT_LABEL = np.array([1])


@pytest.fixture(scope="module")
def sam(model: sam_rlx.Model) -> Sam:
    sam = Sam(model)
    sam.to(device="cpu")
    return sam


@pytest.fixture(scope="module")
def mask_predictor(sam: Sam, image: np.ndarray) -> SamPredictor:
    predictor = SamPredictor(sam)
    predictor.set_image(image)
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


# What the notebooks ask a predictor: each gives (masks, scores, low-resolution logits).


def one_point(predictor: Any, _tensor: Any, **options: Any) -> Any:
    return predictor.predict(
        point_coords=INPUT_POINT, point_labels=INPUT_LABEL, multimask_output=True, **options
    )


def more_points(predictor: Any, _tensor: Any, **options: Any) -> Any:
    _, scores, logits = predictor.predict(INPUT_POINT, INPUT_LABEL, multimask_output=True)
    mask_input = logits[np.argmax(scores), :, :]
    return predictor.predict(
        point_coords=np.array([[300, 200], [350, 150]]),
        point_labels=np.array([1, 0]),
        mask_input=mask_input[None, :, :],
        multimask_output=False,
        **options,
    )


def one_box(predictor: Any, _tensor: Any, **options: Any) -> Any:
    return predictor.predict(
        point_coords=None,
        point_labels=None,
        box=np.array([150, 40, 420, 330])[None, :],
        multimask_output=False,
        **options,
    )


def box_and_point(predictor: Any, _tensor: Any, **options: Any) -> Any:
    return predictor.predict(
        point_coords=np.array([[300, 60]]),
        point_labels=np.array([0]),
        box=np.array([150, 40, 420, 330]),
        multimask_output=False,
        **options,
    )


def many_boxes(predictor: Any, tensor: Any, **options: Any) -> Any:
    input_boxes = tensor([[150, 40, 420, 330], [10, 10, 60, 90], [300, 200, 500, 390]])
    transformed_boxes = predictor.transform.apply_boxes_torch(input_boxes, (400, 600))
    return predictor.predict_torch(
        point_coords=None,
        point_labels=None,
        boxes=transformed_boxes,
        multimask_output=False,
        **options,
    )


# With the leading axes of what they give.
CALLS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "one point": (one_point, (3,)),
    "more points": (more_points, (1,)),
    "one box": (one_box, (1,)),
    "a box and a point": (box_and_point, (1,)),
    "many boxes": (many_boxes, (3, 1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_predictions_can_be_drawn(
    mask_predictor: SamPredictor, make_tensor: Any, name: str
) -> None:
    call, leading = CALLS[name]
    masks, scores, logits = call(mask_predictor, make_tensor)
    side = mask_predictor.model.model.mask_side
    assert masks.shape == (*leading, 400, 600)
    assert scores.shape == leading
    assert logits.shape == (*leading, side, side)
    for mask in masks:
        mask = mask.cpu().numpy() if hasattr(mask, "cpu") else mask
        drawn = show_mask(mask[:1] if mask.ndim == 3 else mask)
        np.testing.assert_array_equal(drawn[:, :, 0] > 0, mask.reshape(400, 600))


@pytest.fixture(scope="module")
def upstream() -> Any:
    return pytest.importorskip("support.upstream", reason="needs the reference packages")


@pytest.fixture(scope="module")
def networks(upstream: Any) -> tuple[Any, Any]:
    """Upstream's network with the weights of `model`, in float32 and in float64."""
    single = upstream.build_sam(tiny.TINY, seed=0)
    return single, upstream.double(single)


@pytest.fixture(scope="module")
def judges(upstream: Any, networks: tuple[Any, Any], image: np.ndarray) -> tuple[Any, Any]:
    """Upstream's predictors that have the image: in float32 and in float64."""
    single, exact = (upstream.sam.SamPredictor(network) for network in networks)
    single.set_image(image)
    with upstream.float64():
        exact.set_image(image)
    return single, exact


@pytest.mark.parity
@pytest.mark.parametrize("name", CALLS)
def test_predictions_are_upstreams(
    mask_predictor: SamPredictor, upstream: Any, judges: tuple[Any, Any], name: str
) -> None:
    call, _ = CALLS[name]
    single, exact = judges
    rounded = nudged.results(
        single, upstream.torch, lambda x: call(x, upstream.torch.tensor, return_logits=True)
    )
    with upstream.float64():
        truth = call(exact, upstream.torch.tensor, return_logits=True)
    nudged.hold(call(mask_predictor, upstream.torch.tensor), truth, rounded)


def batch(
    sam: Any,
    transform: Any,
    images: dict[str, np.ndarray],
    tensor: Any,
    prepare: Callable[[Any], Any] = lambda image: image,
) -> list[Any]:
    """Two images with their boxes, as the notebook prepares them."""
    wide = tensor([[150, 40, 420, 330], [10, 10, 60, 90]])
    tall = tensor([[50, 40, 220, 330], [10, 10, 60, 90], [5, 300, 290, 440]])
    prepared = []
    for name, boxes in (("wide 400x600", wide), ("tall 451x300", tall)):
        size = images[name].shape[:2]
        image = tensor(prepare(transform.apply_image(images[name])))
        prepared.append(
            {
                "image": image.permute(2, 0, 1)
                if hasattr(image, "permute")
                else image.transpose(2, 0, 1),
                "boxes": transform.apply_boxes_torch(boxes, size),
                "original_size": size,
            }
        )
    return sam(prepared, multimask_output=False)


def test_batches_of_images_with_their_prompts(
    sam: Sam, images: dict[str, np.ndarray], make_tensor: Any
) -> None:
    output = batch(sam, ResizeLongestSide(sam.image_encoder.img_size), images, make_tensor)
    assert list(output[0]) == ["masks", "iou_predictions", "low_res_logits"]
    assert output[0]["masks"].shape == (2, 1, 400, 600)
    assert output[1]["masks"].shape == (3, 1, 451, 300)
    for mask in output[0]["masks"]:
        assert show_mask(mask.cpu().numpy()).shape == (400, 600, 4)


def _moved(image: np.ndarray, seed: int) -> np.ndarray:
    """Move grey levels by the last bit of the largest: the encoder's own error is larger."""
    signs = np.random.default_rng([seed, 80]).choice([-1, 1], image.shape)
    return image + signs.astype(np.float32) / 2**16


@pytest.mark.parity
def test_batches_are_upstreams(
    sam: Sam,
    images: dict[str, np.ndarray],
    upstream: Any,
    networks: tuple[Any, Any],
    parity: Parity,
) -> None:
    single, exact = networks
    transform = upstream.sam.ResizeLongestSide(tiny.TINY.img_size)
    make = upstream.torch.as_tensor
    rounded = [batch(single, transform, images, make)]
    for seed in range(NUDGES):
        rounded.append(batch(single, transform, images, make, partial(_moved, seed=seed)))
    with upstream.float64():
        truth = batch(exact, transform, images, make)
    found = batch(sam, ResizeLongestSide(sam.image_encoder.img_size), images, make)
    for ours, right, *near in zip(found, truth, *rounded, strict=True):
        for key in ("low_res_logits", "iou_predictions"):
            first, *more = (np.asarray(single[key]) for single in near)
            parity.close(np.asarray(ours[key]), np.asarray(right[key]), first, key, more)
        height, width = ours["masks"].shape[-2:]
        scale = tiny.TINY.img_size / max(height, width)
        input_size = (int(height * scale + 0.5), int(width * scale + 0.5))
        with upstream.float64():
            logits = exact.postprocess_masks(right["low_res_logits"], input_size, (height, width))
        parity.masks_agree(np.asarray(ours["masks"]), np.asarray(logits))


def test_all_masks_with_default_and_with_own_options(sam: Sam, image: np.ndarray) -> None:
    mask_generator = SamAutomaticMaskGenerator(sam, points_per_side=4, pred_iou_thresh=0.0)
    masks = mask_generator.generate(image)
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
    masks2 = mask_generator_2.generate(image)
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
    for ann in masks2:
        rows, columns = np.nonzero(ann["segmentation"])
        assert ann["area"] == len(rows)
        left, top = columns.min(), rows.min()
        assert ann["bbox"] == [left, top, columns.max() - left, rows.max() - top]
