"""The drop-in for segment_anything_hq: its names, and beside the original its masks."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx import _core
from sam_rlx.compat import segment_anything, segment_anything_hq
from sam_rlx.compat.segment_anything_hq.modeling import Sam
from support import tiny, tiny_sam_hq

POINTS = {"point_coords": np.array([[300, 200], [80, 350]]), "point_labels": np.array([1, 0])}
BOX = np.array([150, 40, 420, 330])
BOTH = pytest.mark.parametrize("hq_token_only", [False, True])
FLOATS = pytest.mark.parametrize("floats", [False, True])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    from safetensors.numpy import save_file

    path = tmp_path_factory.mktemp("sam_hq") / "x.safetensors"
    save_file(tiny_sam_hq.weights(seed=4), path)
    return path


@pytest.fixture(scope="module")
def sam(path):
    return Sam(sam_rlx.load_model(path))


@pytest.fixture(scope="module")
def sam_hq():
    pytest.importorskip("support.upstream", reason="needs PyTorch")
    return pytest.importorskip("support.upstream_sam_hq", reason="needs segment-anything-hq")


@pytest.fixture(scope="module")
def reference(sam_hq):
    return sam_hq.build(tiny.TINY, seed=4)


def resized(predictor: Any, image: np.ndarray, floats: bool) -> np.ndarray:
    """Return the image (3, h, w) as upstream resizes it, or values that no image has."""
    pixels = np.ascontiguousarray(predictor.transform.apply_image(image).transpose(2, 0, 1))
    return np.float32(0.9) * pixels + np.float32(0.3) if floats else pixels


def arguments(function: Any) -> dict[str, Any]:
    found = inspect.signature(function).parameters.items()
    return {name: parameter.default for name, parameter in found}


def test_the_registry_has_all_released_variants():
    rows = [row for row in _core.releases() if row["family"] == "sam"]
    names = {row["variant"] for row in rows if row["variant"].startswith("hq_")}
    registry = segment_anything_hq.sam_model_registry
    assert {f"hq_{name}" for name in registry} - {"hq_default"} == names
    assert registry["default"] is registry["vit_h"] is segment_anything_hq.build_sam
    for name, builder in registry.items():
        assert name == "default" or f"hq_{name}" in builder.__doc__
        with pytest.raises(sam_rlx.StateError, match="expected weights before the network is used"):
            segment_anything_hq.SamPredictor(builder()).set_image(np.zeros((8, 9, 3), np.uint8))


@pytest.mark.parity
def test_names_arguments_and_defaults_are_upstreams(sam_hq):
    theirs, ours = sam_hq.package, segment_anything_hq
    assert set(theirs.sam_model_registry) == set(ours.sam_model_registry)
    assert set(theirs.sam_model_registry_baseline) == set(ours.sam_model_registry_baseline)
    for name in ("build_sam", "build_sam_vit_b", "build_sam_vit_l", "build_sam_vit_h"):
        assert arguments(getattr(theirs, name)) == arguments(getattr(ours, name))
        assert getattr(theirs, name).__name__ == getattr(ours, name).__name__
    for kind in ("SamPredictor", "SamAutomaticMaskGenerator"):
        upstreams, mine = getattr(theirs, kind), getattr(ours, kind)
        for name in [*(n for n in vars(upstreams) if not n.startswith("_")), "__init__"]:
            if callable(getattr(upstreams, name)):
                expected = arguments(getattr(upstreams, name))
                assert arguments(getattr(mine, name)) == expected, f"{kind}.{name}"


def test_checkpoints_of_the_other_package_are_refused(path, tiny_checkpoint):
    with pytest.raises(sam_rlx.CheckpointError, match=r"variant vit_b: .*without the HQ token"):
        segment_anything.sam_model_registry["vit_b"](path)
    with pytest.raises(sam_rlx.CheckpointError, match=r"variant hq_vit_b: .*expected SAM-HQ's"):
        segment_anything_hq.sam_model_registry["vit_b"](tiny_checkpoint)
    predictor = segment_anything_hq.SamPredictor(Sam(sam_rlx.load_model(tiny_checkpoint)))
    predictor.set_image(np.zeros((9, 9, 3), np.uint8))
    with pytest.raises(sam_rlx.InvalidArgumentError, match="hq_token_only"):
        predictor.predict(box=np.array([1, 1, 5, 5]), hq_token_only=True)


@pytest.mark.parity
@BOTH
@pytest.mark.parametrize("multimask", [True, False])
@pytest.mark.parametrize("prompts", [POINTS, {"box": BOX}, {**POINTS, "box": BOX}, {}])
def test_predict(sam, sam_hq, reference, image, prompts, multimask, hq_token_only):
    ours, theirs = segment_anything_hq.SamPredictor(sam), sam_hq.SamPredictor(reference)
    options = {"multimask_output": multimask, "hq_token_only": hq_token_only}
    found = []
    for predictor in (ours, theirs):
        predictor.set_image(image)
        found.append(predictor.predict(**prompts, **options))
    for mine, other in zip(*found, strict=True):
        assert mine.shape == other.shape
        assert mine.dtype == other.dtype
    assert (found[0][0] == found[1][0]).mean() > 0.999
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-4)
    np.testing.assert_allclose(found[0][2], found[1][2], atol=2e-3)
    again = [
        predictor.predict(mask_input=found[1][2], **options)[2] for predictor in (ours, theirs)
    ]
    np.testing.assert_allclose(*again, atol=2e-3)


@pytest.mark.parity
@BOTH
@FLOATS
def test_forward(sam, sam_hq, reference, image, hq_token_only, floats):
    import torch

    ours, theirs = segment_anything_hq.SamPredictor(sam), sam_hq.SamPredictor(reference)
    boxes = ours.transform.apply_boxes(np.stack([BOX, BOX // 2]), image.shape[:2])
    record = {"original_size": image.shape[:2]}
    pixels = resized(theirs, image, floats)
    [mine] = sam([{**record, "image": pixels, "boxes": boxes}], True, hq_token_only)
    tensors = {"image": torch.as_tensor(pixels), "boxes": torch.as_tensor(boxes).float()}
    with torch.no_grad():
        [other] = reference([{**record, **tensors}], True, hq_token_only)
    assert mine["masks"].shape == other["masks"].shape == (2, 1, *image.shape[:2])
    assert (np.asarray(mine["masks"]) == other["masks"].numpy()).mean() > 0.999
    np.testing.assert_allclose(mine["low_res_logits"], other["low_res_logits"], atol=2e-3)


@pytest.mark.parity
@BOTH
@FLOATS
def test_set_torch_image(sam, sam_hq, reference, image, hq_token_only, floats):
    import torch

    predictors = segment_anything_hq.SamPredictor(sam), sam_hq.SamPredictor(reference)
    pixels = resized(predictors[1], image, floats)[None]
    found = []
    for predictor, given in zip(predictors, (pixels, torch.as_tensor(pixels)), strict=True):
        predictor.set_torch_image(given, image.shape[:2])
        found.append(predictor.predict(box=BOX, hq_token_only=hq_token_only))
        predictor.set_torch_image(given, None)
        assert predictor.get_image_embedding().shape[0] == 1  # which needs no size
    (masks, iou, low_res), expected = found
    assert (masks == expected[0]).mean() > 0.999
    np.testing.assert_allclose(iou, expected[1], atol=1e-4)
    np.testing.assert_allclose(low_res, expected[2], atol=2e-3)


@pytest.mark.parity
def test_image_encoder_gives_the_maps_of_its_global_blocks(sam, reference):
    import torch

    side = tiny.TINY.img_size
    pixels = np.random.default_rng(3).uniform(0, 1, (2, 3, side, side)).astype(np.float32)
    mine, maps = sam.image_encoder(torch.from_numpy(pixels))
    with torch.no_grad():
        other, inner = reference.image_encoder(torch.from_numpy(pixels))
    assert len(maps) == len(inner) > 0
    for left, right in zip((mine, *maps), (other, *inner), strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-4 * float(right.abs().max()))


@pytest.mark.parity
@pytest.mark.parametrize("multimask", [True, False])
def test_everything(sam, sam_hq, reference, image, multimask):
    from support import upstream

    options = {"points_per_side": 4, "pred_iou_thresh": 0.0, "stability_score_thresh": 0.0}
    mine = segment_anything_hq.SamAutomaticMaskGenerator(sam, **options)
    other = sam_hq.SamAutomaticMaskGenerator(reference, **options)
    with upstream.stable_nms():
        theirs = other.generate(image, multimask_output=multimask)
    ours = mine.generate(image, multimask_output=multimask)
    assert [r["point_coords"] for r in ours] == [r["point_coords"] for r in theirs]
    for a, b in zip(ours, theirs, strict=True):
        assert (a["segmentation"] == b["segmentation"]).mean() > 0.999


def test_features_are_kept_and_set(sam, image):
    """What programs keep of one image brings it back."""
    predictor = segment_anything_hq.SamPredictor(sam)
    predictor.set_image(image)
    truth = predictor.predict(box=BOX)[2]
    kept = predictor.features, predictor.interm_features
    assert kept[0].shape == (1, 64, 8, 8)
    assert [part.shape for part in kept[1]] == [(1, 8, 32, 32)]
    predictor.set_image(image[::-1])
    assert np.abs(predictor.predict(box=BOX)[2] - truth).max() > 0.1
    predictor.features, predictor.interm_features = kept
    np.testing.assert_array_equal(predictor.predict(box=BOX)[2], truth)
    for other in (copy.deepcopy(predictor), pickle.loads(pickle.dumps(predictor))):
        np.testing.assert_array_equal(other.predict(box=BOX)[2], truth)
