"""The drop-in for segment_anything beside the original: same names, shapes, errors and masks."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx.compat import segment_anything as ours
from sam_rlx.compat.segment_anything.modeling import Sam
from sam_rlx.compat.segment_anything.utils import amg
from sam_rlx.compat.segment_anything.utils.transforms import ResizeLongestSide
from support import parity

POINTS = np.array([[300, 200], [80, 350]])
LABELS = np.array([1, 0])
BOX = np.array([150, 40, 420, 330])
LOOSE = {"points_per_side": 4, "pred_iou_thresh": 0.0, "stability_score_thresh": 0.0}


@pytest.fixture(scope="module")
def sam(model: sam_rlx.Model) -> Sam:
    return Sam(model)


@pytest.fixture
def predictor(sam: Sam, image: np.ndarray) -> ours.SamPredictor:
    predictor = ours.SamPredictor(sam)
    predictor.set_image(image)
    return predictor


@pytest.fixture(scope="module")
def upstream() -> Any:
    return pytest.importorskip("support.upstream", reason="needs PyTorch")


@pytest.fixture(scope="module")
def reference(upstream: Any) -> Any:
    from support import tiny

    return upstream.build_sam(tiny.TINY, seed=0)


def _arguments(function: Any) -> dict[str, Any]:
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
    }


@pytest.mark.parity
def test_names_arguments_and_defaults_are_upstreams(upstream: Any) -> None:
    import segment_anything

    theirs = set(segment_anything.sam_model_registry)
    assert theirs | {"nano", "vit_t"} == set(ours.sam_model_registry)  # vit_t: MobileSAM's
    for name in ("build_sam_vit_b", "build_sam_vit_l", "build_sam_vit_h", "build_sam"):
        assert _arguments(getattr(segment_anything, name)) == _arguments(getattr(ours, name))
    kinds = ("SamPredictor", "SamAutomaticMaskGenerator")
    pairs = [(getattr(segment_anything, kind), getattr(ours, kind)) for kind in kinds]
    pairs.append((segment_anything.utils.transforms.ResizeLongestSide, ResizeLongestSide))
    for theirs, mine in pairs:
        kind = theirs.__name__
        for name in [*(n for n in vars(theirs) if not n.startswith("_")), "__init__"]:
            assert hasattr(mine, name), f"{kind}.{name}"
            if callable(getattr(theirs, name)):
                expected = _arguments(getattr(theirs, name))
                assert _arguments(getattr(mine, name)) == expected, f"{kind}.{name}"


@pytest.mark.parity
@pytest.mark.parametrize("multimask", [True, False])
@pytest.mark.parametrize(
    "prompts",
    [
        {"point_coords": POINTS, "point_labels": LABELS},
        {"box": BOX},
        {"point_coords": POINTS, "point_labels": LABELS, "box": BOX},
        {},
    ],
    ids=["points", "box", "both", "none"],
)
def test_predict_equals_upstream(
    parity: Any,
    upstream: Any,
    reference: Any,
    predictor: ours.SamPredictor,
    image: np.ndarray,
    prompts: dict[str, Any],
    multimask: bool,
) -> None:
    theirs = upstream.sam.SamPredictor(reference)
    theirs.set_image(image)
    with upstream.float64():
        double = upstream.sam.SamPredictor(upstream.double(reference))
        double.set_image(image)
    assert theirs.original_size == predictor.original_size
    assert theirs.input_size == predictor.input_size
    expected = theirs.predict(**prompts, multimask_output=multimask)
    found = predictor.predict(**prompts, multimask_output=multimask)
    again = {"mask_input": expected[2][:1], "multimask_output": multimask}
    for options, left, right in (
        ({"multimask_output": multimask}, found, expected),
        (again, predictor.predict(**prompts, **again), theirs.predict(**prompts, **again)),
    ):
        for mine, other in zip(left, right, strict=True):
            assert type(mine) is np.ndarray
            assert mine.shape == other.shape
            assert mine.dtype == other.dtype
        with upstream.float64():
            exact = double.predict(**prompts, **options, return_logits=True)
        parity.masks_agree(left[0], exact[0])
        parity.close(left[1], exact[1], right[1], "iou_predictions")
        parity.close(left[2], exact[2], right[2], "low_res_masks")


@pytest.mark.parity
def test_bgr_images_equal_upstream(
    parity: Any, upstream: Any, reference: Any, sam: Sam, image: np.ndarray
) -> None:
    theirs, mine = upstream.sam.SamPredictor(reference), ours.SamPredictor(sam)
    theirs.set_image(image[:, :, ::-1], "BGR")
    with upstream.float64():
        double = upstream.sam.SamPredictor(upstream.double(reference))
        double.set_image(image[:, :, ::-1], "BGR")
    mine.set_image(image[:, :, ::-1], image_format="BGR")
    expected = theirs.get_image_embedding().numpy()
    found = mine.get_image_embedding().cpu().numpy()
    parity.close(found, double.get_image_embedding().numpy(), expected, "image_embedding")


@pytest.mark.parity
def test_predict_torch_and_the_batched_model_equal_upstream(
    parity: Any,
    upstream: Any,
    reference: Any,
    sam: Sam,
    predictor: ours.SamPredictor,
    image: np.ndarray,
) -> None:
    import torch

    network = upstream.double(reference)

    boxes = torch.tensor([[150, 40, 420, 330], [10, 20, 200, 210]])
    theirs = upstream.sam.SamPredictor(reference)
    theirs.set_image(image)
    moved = theirs.transform.apply_boxes_torch(boxes, image.shape[:2])
    mine = predictor.transform.apply_boxes_torch(boxes, image.shape[:2])
    np.testing.assert_array_equal(mine, moved.numpy())
    with torch.no_grad():
        expected = theirs.predict_torch(None, None, boxes=moved, multimask_output=False)
    with upstream.float64(), torch.no_grad():
        double = upstream.sam.SamPredictor(network)
        double.set_image(image)
        exact = double.predict_torch(None, None, boxes=moved, multimask_output=False)
    found = predictor.predict_torch(None, None, boxes=mine, multimask_output=False)
    _agree(parity, found, expected, exact)

    resized = theirs.transform.apply_image(image)
    np.testing.assert_array_equal(predictor.transform.apply_image(image), resized)
    record = {
        "image": torch.as_tensor(resized).permute(2, 0, 1).contiguous(),
        "original_size": image.shape[:2],
        "boxes": moved,
    }
    batch = [record, {**record, "image": record["image"].flip(2)}]
    with torch.no_grad():
        expected_batch = reference(batch, multimask_output=True)
    with upstream.float64(), torch.no_grad():
        exact_batch = network(batch, multimask_output=True)
    found_batch = sam(batch, multimask_output=True)
    for left, right, wide in zip(found_batch, expected_batch, exact_batch, strict=True):
        assert left.keys() == right.keys()
        _agree(parity, *([part[key] for key in right] for part in (left, right, wide)))
    with upstream.float64():
        exact_input = network.preprocess(record["image"])
    _agree(
        parity,
        [sam.preprocess(record["image"])],
        [reference.preprocess(record["image"])],
        [exact_input],
    )
    sizes = ((resized.shape[0], resized.shape[1]), image.shape[:2])
    low_res = right["low_res_logits"]
    with upstream.float64():
        exact_masks = network.postprocess_masks(low_res.double(), *sizes)
    _agree(
        parity,
        [sam.postprocess_masks(low_res, *sizes)],
        [reference.postprocess_masks(low_res, *sizes)],
        [exact_masks],
    )


def _agree(parity: Any, found: Any, expected: Any, exact: Any) -> None:
    for mine, tensor, wide in zip(found, expected, exact, strict=True):
        other = tensor.numpy()
        assert mine.shape == other.shape
        assert mine.dtype == tensor.dtype
        if other.dtype == np.bool_:
            shared, union = mine & wide, mine | wide
            assert np.count_nonzero(shared) >= 0.999 * np.count_nonzero(union)
        else:
            parity.close(np.asarray(mine), wide.numpy(), other)


@pytest.mark.parity
@pytest.mark.parametrize("layers", [0, 1])
def test_everything_mode_equals_upstream(
    upstream: Any, reference: Any, sam: Sam, image: np.ndarray, layers: int
) -> None:
    options = {**LOOSE, "crop_n_layers": layers, "box_nms_thresh": 0.9, "crop_nms_thresh": 0.9}
    with upstream.stable_nms():
        expected = upstream.sam.SamAutomaticMaskGenerator(reference, **options).generate(image)
    found = ours.SamAutomaticMaskGenerator(sam, **options).generate(image)
    assert found
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
        assert type(left) is dict
        assert list(left) == list(right)
        assert left["point_coords"] == right["point_coords"]
        assert left["crop_box"] == right["crop_box"]
        # Scores within 1e-3, masks with an IoU of 0.999: what is promised end to end.
        for name in ("predicted_iou", "stability_score"):
            assert abs(left[name] - right[name]) <= 1e-3, name
        mine, other = left["segmentation"], right["segmentation"]
        assert np.count_nonzero(mine & other) >= 0.999 * np.count_nonzero(mine | other)
        assert left["area"] == np.count_nonzero(mine)


def test_output_modes(sam: Sam, image: np.ndarray) -> None:
    found = {
        mode: ours.SamAutomaticMaskGenerator(sam, **LOOSE, output_mode=mode).generate(image)
        for mode in ("binary_mask", "uncompressed_rle", "coco_rle")
    }
    for binary, plain, coco in zip(*found.values(), strict=True):
        np.testing.assert_array_equal(
            amg.rle_to_mask(plain["segmentation"]), binary["segmentation"]
        )
        assert amg.coco_encode_rle(plain["segmentation"]) == coco["segmentation"]
        assert amg.area_from_rle(plain["segmentation"]) == binary["area"]


def test_errors_are_upstreams(sam: Sam, image: np.ndarray, tiny_checkpoint: Path) -> None:
    predictor = ours.SamPredictor(sam)
    assert not predictor.is_image_set
    assert predictor.features is None
    with pytest.raises(RuntimeError, match="expected an image from set_image"):
        predictor.predict(point_coords=POINTS, point_labels=LABELS)
    with pytest.raises(RuntimeError, match="get_image_embedding: expected an image"):
        predictor.get_image_embedding()
    with pytest.raises(AssertionError, match="image_format: expected"):
        predictor.set_image(image, image_format="HSV")
    with pytest.raises(AssertionError, match="the longer side 128"):
        predictor.set_torch_image(np.zeros((1, 3, 64, 64)), (64, 64))
    predictor.set_image(image)
    with pytest.raises(AssertionError, match="point_labels: expected"):
        predictor.predict(point_coords=POINTS)
    predictor.reset_image()
    assert not predictor.is_image_set
    with pytest.raises(AssertionError, match="expected points_per_side or point_grids"):
        ours.SamAutomaticMaskGenerator(sam, points_per_side=None)
    with pytest.raises(AssertionError, match="output_mode: expected"):
        ours.SamAutomaticMaskGenerator(sam, output_mode="png")
    with pytest.raises(sam_rlx.StateError, match="expected weights before the network is used"):
        ours.SamPredictor(ours.sam_model_registry["vit_b"]()).set_image(image)
    with pytest.raises(sam_rlx.SamRlxError):
        ours.sam_model_registry["vit_b"](checkpoint=tiny_checkpoint)
    with pytest.raises(sam_rlx.UnsupportedError, match="found 'cuda'"):
        sam.to(device="cuda")
    assert sam.to(device="cpu").eval() is sam
    assert predictor.device == sam.device == "cpu"


def test_set_torch_image_equals_set_image(predictor: ours.SamPredictor, image: np.ndarray) -> None:
    expected = predictor.predict(box=BOX)
    resized = predictor.transform.apply_image(image).transpose(2, 0, 1)[None]
    predictor.reset_image()
    predictor.set_torch_image(resized.astype(np.float32), image.shape[:2])
    for left, right in zip(predictor.predict(box=BOX), expected, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parity
def test_images_are_resized_as_upstream_does_with_pytorch(upstream: Any) -> None:
    """The size follows from B and C, which upstream takes for rows and columns."""
    import torch
    from segment_anything.utils import transforms

    rng = np.random.default_rng(1)
    for shape in ((1, 3, 37, 52), (2, 3, 9, 5)):
        values = torch.from_numpy(rng.uniform(0, 255, shape))
        theirs, mine = transforms.ResizeLongestSide(33), ResizeLongestSide(33)
        found = mine.apply_image_torch(values.float())
        expected = theirs.apply_image_torch(values.float())
        assert found.shape == expected.shape
        parity.close(found.numpy(), theirs.apply_image_torch(values).numpy(), expected.numpy())
        levels = values.to(torch.uint8)
        assert torch.equal(mine.apply_image_torch(levels), theirs.apply_image_torch(levels))


def test_small_regions_are_removed() -> None:
    mask = np.zeros((40, 60), bool)
    mask[5:30, 5:40] = True
    dirty = mask.copy()
    dirty[10, 10] = False
    dirty[38, 58] = True
    data = amg.MaskData(
        rles=amg.mask_to_rle_pytorch(np.stack([dirty, mask])),
        boxes=amg.batched_mask_to_box(np.stack([dirty, mask])),
    )
    found = ours.SamAutomaticMaskGenerator.postprocess_small_regions(data, 5, 0.7)
    assert len(found["rles"]) == 1
    np.testing.assert_array_equal(amg.rle_to_mask(found["rles"][0]), mask)
    assert found["boxes"].tolist() == [[5, 5, 39, 29]]


@pytest.mark.parity
def test_helpers_equal_upstream(upstream: Any) -> None:
    import torch

    theirs = upstream.sam.amg
    generator = np.random.default_rng(3)
    logits = generator.normal(0, 3, (4, 30, 50)).astype(np.float32)
    logits[3] = -9
    masks = logits > 0
    tensor = torch.as_tensor
    assert amg.mask_to_rle_pytorch(masks) == theirs.mask_to_rle_pytorch(tensor(masks))
    np.testing.assert_array_equal(
        amg.batched_mask_to_box(masks), theirs.batched_mask_to_box(tensor(masks)).numpy()
    )
    np.testing.assert_array_equal(
        amg.calculate_stability_score(logits, 0.0, 1.0),
        theirs.calculate_stability_score(tensor(logits), 0.0, 1.0).numpy(),
    )
    for size, layers, ratio in (((400, 600), 2, 512 / 1500), ((33, 7), 1, 0.2), ((5, 5), 0, 0.5)):
        assert amg.generate_crop_boxes(size, layers, ratio) == theirs.generate_crop_boxes(
            size, layers, ratio
        )
    for mine, other in zip(
        amg.build_all_layer_point_grids(8, 2, 2),
        theirs.build_all_layer_point_grids(8, 2, 2),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, other)
    boxes = generator.integers(0, 200, (50, 4))
    crop, whole = [100, 50, 300, 250], [0, 0, 300, 400]
    np.testing.assert_array_equal(
        amg.is_box_near_crop_edge(boxes, crop, whole),
        theirs.is_box_near_crop_edge(tensor(boxes), crop, whole).numpy(),
    )
    np.testing.assert_array_equal(
        amg.box_xyxy_to_xywh(boxes), theirs.box_xyxy_to_xywh(tensor(boxes)).numpy()
    )
    np.testing.assert_array_equal(
        amg.uncrop_points(boxes[:, :2], crop), theirs.uncrop_points(tensor(boxes[:, :2]), crop)
    )
    np.testing.assert_array_equal(
        amg.uncrop_masks(np.ones((2, 200, 200), bool), crop, 400, 300),
        theirs.uncrop_masks(torch.ones(2, 200, 200, dtype=torch.bool), crop, 400, 300).numpy(),
    )
    assert [part.tolist() for (part,) in amg.batch_iterator(20, boxes)] == [
        part.tolist() for (part,) in theirs.batch_iterator(20, boxes)
    ]


@pytest.mark.parity
def test_mask_data_is_joined_as_upstream_does(upstream: Any) -> None:
    import torch

    boxes = np.arange(20).reshape(5, 4)
    first = {"boxes": boxes[:2], "rles": [{"size": [2, 3], "counts": [1, 5]}]}
    second = {"boxes": boxes[2:], "rles": [{"size": [2, 3], "counts": [6]}], "scores": boxes[0]}
    ours, theirs = amg.MaskData(**first), upstream.sam.amg.MaskData(**first)
    theirs["boxes"] = torch.as_tensor(first["boxes"])
    ours.cat(amg.MaskData(**second))
    theirs.cat(upstream.sam.amg.MaskData(**second | {"boxes": torch.as_tensor(second["boxes"])}))
    assert {key: list(map(str, value)) for key, value in ours.items()} == {
        key: list(map(str, np.asarray(value) if key != "rles" else value))
        for key, value in theirs.items()
    }


@pytest.mark.parity
@pytest.mark.parametrize("size", [(400, 600), (600, 400), (1411, 1411), (7, 5), (100, 2)])
def test_resize_equals_upstream(upstream: Any, size: tuple[int, int]) -> None:
    import torch

    mine, theirs = ResizeLongestSide(128), upstream.sam.ResizeLongestSide(128)
    generator = np.random.default_rng(1)
    image = generator.integers(0, 256, (*size, 3), dtype=np.uint8)
    coords = generator.uniform(0, 300, (3, 5, 2))
    boxes = generator.uniform(0, 300, (6, 4))
    assert mine.get_preprocess_shape(*size, 128) == theirs.get_preprocess_shape(*size, 128)
    np.testing.assert_array_equal(mine.apply_image(image), theirs.apply_image(image))
    np.testing.assert_array_equal(
        mine.apply_coords(coords, size), theirs.apply_coords(coords, size)
    )
    np.testing.assert_array_equal(mine.apply_boxes(boxes, size), theirs.apply_boxes(boxes, size))
    for name, values in (("apply_coords_torch", coords), ("apply_boxes_torch", boxes)):
        expected = getattr(theirs, name)(torch.as_tensor(values), size).numpy()
        np.testing.assert_array_equal(getattr(mine, name)(values, size), expected)
