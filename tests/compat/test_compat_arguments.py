"""What upstream's predictors take is taken with their results; what they refuse is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx.compat.sam2.build_sam import build_sam2, build_sam2_video_predictor
from sam_rlx.compat.sam2.sam2_image_predictor import SAM2ImagePredictor
from sam_rlx.compat.sam2.sam2_video_predictor import SAM2VideoPredictor, SAM2VideoPredictorVOS
from sam_rlx.compat.segment_anything import SamAutomaticMaskGenerator, SamPredictor
from sam_rlx.compat.segment_anything.modeling import Sam
from support import nudged, tiny, tiny_sam2

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam2 = pytest.importorskip("support.upstream_sam2")
pytestmark = pytest.mark.parity

SEED = 5
SIDE = 32  # of mask prompts, for both tiny networks
POINTS, LABELS = np.array([[300.0, 200.0], [80.0, 350.0]]), np.array([1, 0])
BOX = np.array([150.0, 40.0, 420.0, 330.0])
SETS = np.array([[[50.0, 40.0]], [[200.0, 100.0]]])
LOGITS = 4 * np.random.default_rng(1).standard_normal((2, 1, SIDE, SIDE), np.float32)
MANY = 500 * np.random.default_rng(2).random((100, 2))
LOOSE = {"points_per_side": 4, "pred_iou_thresh": 0.0, "stability_score_thresh": 0.0}
NO_POINTS = {"point_coords": np.zeros((0, 2)), "point_labels": np.zeros(0)}

# Of `predict` of both families.
TAKEN: dict[str, dict[str, Any]] = {
    "no points beside a box": {**NO_POINTS, "box": BOX},
    "no points beside a mask": {**NO_POINTS, "mask_input": LOGITS[0]},
    "no points alone": NO_POINTS,
    "corners as points": {"point_coords": BOX.reshape(2, 2), "point_labels": np.array([2, 3])},
    "a label of nothing": {"point_coords": POINTS, "point_labels": np.array([1, 9])},
    "a padding point": {"point_coords": POINTS, "point_labels": np.array([1, -1])},
    "labels as floats": {"point_coords": POINTS, "point_labels": np.array([1.0, 0.0])},
    "labels without points": {"point_labels": LABELS, "box": BOX},
    "corners of a box in rows": {"box": BOX.reshape(2, 2)},
    "exchanged corners": {"box": BOX[::-1].copy()},
    "a point far outside": {"point_coords": np.array([[-70, 990]]), "point_labels": np.ones(1)},
    "a mask alone": {"mask_input": LOGITS[0]},
    "forty points": {"point_coords": MANY[:40], "point_labels": np.ones(40, np.int32)},
    "a hundred points": {"point_coords": MANY, "point_labels": np.arange(100) % 2},
}
REFUSED: dict[str, dict[str, Any]] = {
    "no box of none": {"box": np.zeros((0, 4))},
    "five numbers": {"box": np.arange(5.0)},
    "a mask of twice the size": {"mask_input": np.zeros((1, 2 * SIDE, 2 * SIDE), np.float32)},
    "a mask of as many numbers": {"mask_input": np.zeros((1, 2 * SIDE, SIDE // 2), np.float32)},
    "a mask without its axis": {"mask_input": LOGITS[0, 0]},
    "masks for channels": {"mask_input": np.zeros((3, SIDE, SIDE), np.float32)},
    "points of three numbers": {"point_coords": np.ones((2, 3)), "point_labels": LABELS},
    "labels for other points": {"point_coords": POINTS, "point_labels": np.ones(3, np.int32)},
    "points without labels": {"point_coords": POINTS},
}


@pytest.fixture(scope="module")
def sam(model: sam_rlx.Model) -> Sam:
    return Sam(model)


@pytest.fixture(scope="module")
def predictor(sam: Sam, image: np.ndarray) -> SamPredictor:
    predictor = SamPredictor(sam)
    predictor.set_image(image)
    return predictor


@pytest.fixture(scope="module")
def references(image: np.ndarray) -> tuple[Any, Any]:
    """Upstream's predictor with the same image, in float32 and in float64."""
    network = upstream.build_sam(tiny.TINY, seed=0)
    single, exact = (upstream.sam.SamPredictor(x) for x in (network, upstream.double(network)))
    single.set_image(image)
    with upstream.float64():
        exact.set_image(image)
    return single, exact


Call = Callable[[Any], Any]


def hold(ours: Any, references: tuple[Any, Any], call: Call) -> None:
    single, exact = references
    rounded = nudged.results(single, upstream.torch, call)
    with upstream.float64():
        truth = call(exact)
    nudged.hold(call(ours), truth, rounded)


def refuse(ours: Any, references: tuple[Any, Any], call: Call) -> None:
    """Both raise, ours an error of the library, and ours answers as before."""
    before = ours.predict(box=BOX)
    with pytest.raises(Exception) as raised:  # noqa: PT011  (any: upstream checks little)
        call(references[0])
    with pytest.raises(sam_rlx.SamRlxError) as found:
        call(ours)
    if isinstance(raised.value, (AssertionError, IndexError, TypeError)):
        assert isinstance(found.value, (type(raised.value), ValueError))
    for left, right in zip(ours.predict(box=BOX), before, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("name", TAKEN)
def test_sam_takes(predictor: SamPredictor, references: tuple[Any, Any], name: str) -> None:
    hold(predictor, references, lambda x: x.predict(**TAKEN[name], return_logits=True))


@pytest.mark.parametrize("name", [*REFUSED, "two boxes"])
def test_sam_refuses(predictor: SamPredictor, references: tuple[Any, Any], name: str) -> None:
    prompts = {**REFUSED, "two boxes": {"box": np.stack([BOX, BOX / 2])}}[name]
    refuse(predictor, references, lambda x: x.predict(**prompts))


def torch_call(**prompts: Any) -> Call:
    """Call `predict_torch` with tensors in the frame of the network's input."""

    def call(predictor: Any) -> Any:
        tensors = {k: upstream.torch.from_numpy(np.asarray(v)) for k, v in prompts.items()}
        for name in ("point_coords", "boxes", "mask_input"):
            if name in tensors:
                tensors[name] = tensors[name].to(upstream.torch.get_default_dtype())
        arguments = {"point_coords": None, "point_labels": None, **tensors}
        with upstream.torch.no_grad():
            return predictor.predict_torch(**arguments, return_logits=True)

    return call


BOXES = np.array([[10.0, 20.0, 90.0, 80.0], [30.0, 5.0, 100.0, 60.0]])
TORCH_TAKEN = {
    "one mask for two boxes": {"boxes": BOXES, "mask_input": LOGITS[:1]},
    "a mask for each box": {"boxes": BOXES, "mask_input": LOGITS},
    "a box for two masks": {"boxes": BOXES[:1], "mask_input": LOGITS},
    "boxes with an axis": {"boxes": BOXES[:, None]},
    "no points of two sets": {
        "point_coords": np.zeros((2, 0, 2)),
        "point_labels": np.zeros((2, 0), np.int32),
        "boxes": BOXES,
    },
}
TORCH_REFUSED = {
    "one box without batch": {"boxes": BOXES[0]},
    "two boxes in one set": {"boxes": BOXES[None]},
    "three masks for two boxes": {"boxes": BOXES, "mask_input": np.zeros((3, 1, SIDE, SIDE), "f")},
    "two boxes for one point": {
        "point_coords": POINTS[None] / 5,
        "point_labels": LABELS[None],
        "boxes": BOXES,
    },
}


@pytest.mark.parametrize("name", TORCH_TAKEN)
def test_sam_takes_tensors(predictor: SamPredictor, references: tuple[Any, Any], name: str) -> None:
    hold(predictor, references, torch_call(**TORCH_TAKEN[name]))


@pytest.mark.parametrize("name", TORCH_REFUSED)
def test_sam_refuses_tensors(
    predictor: SamPredictor, references: tuple[Any, Any], name: str
) -> None:
    refuse(predictor, references, torch_call(**TORCH_REFUSED[name]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sam_takes_floats(sam: Sam, image: np.ndarray, dtype: Any) -> None:
    """Cut off to grey levels, not rounded, as torchvision does it for upstream."""
    floats = (image / 255.0).astype(dtype)
    ours, theirs = SamPredictor(sam), upstream.sam.SamPredictor(upstream.build_sam(tiny.TINY, 0))
    levels = theirs.transform.apply_image(floats)
    theirs.set_image(floats)
    ours.set_image(floats)
    expected = SamPredictor(sam)
    expected.set_torch_image(levels.transpose(2, 0, 1)[None], image.shape[:2])
    assert ours.features.numpy().tobytes() == expected.features.numpy().tobytes()
    for left, right in zip(ours.predict(box=BOX), expected.predict(box=BOX), strict=True):
        np.testing.assert_array_equal(left, right)
    found = SamAutomaticMaskGenerator(sam, **LOOSE).generate(floats)
    whole = np.floor(floats * dtype(255)).astype(np.uint8)
    right = SamAutomaticMaskGenerator(sam, **LOOSE).generate(whole)
    assert [x["area"] for x in found] == [x["area"] for x in right]


@pytest.mark.parametrize("value", [1.5, -0.5, np.nan, 255.0])
def test_sam_refuses_floats_that_upstream_wraps_around(
    predictor: SamPredictor, image: np.ndarray, value: float
) -> None:
    floats = image / 255.0
    floats[3, 5] = value
    before = predictor.predict(box=BOX)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="floats in 0 to 1"):
        predictor.set_image(floats)
    for left, right in zip(predictor.predict(box=BOX), before, strict=True):
        np.testing.assert_array_equal(left, right)


IMAGES = {
    "integers": lambda x: x.astype(np.int64),
    "bools": lambda x: x > 90,
    "gray": lambda x: x[:, :, 0],
    "alpha": lambda x: np.concatenate([x, x[:, :, :1]], axis=2),
    "a list": lambda x: x[:4, :4].tolist(),
}


@pytest.mark.parametrize("kind", IMAGES)
def test_sam_refuses_images(
    predictor: SamPredictor, references: tuple[Any, Any], image: np.ndarray, kind: str
) -> None:
    refuse(predictor, references, lambda x: x.set_image(IMAGES[kind](image)))


# ---------------------------------------------------------------- SAM 2


@pytest.fixture(scope="module")
def weights() -> Any:
    return tiny_sam2.weights(tiny_sam2.TINY, SEED)


@pytest.fixture(scope="module")
def path(weights: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sam2") / "tiny.safetensors"
    tiny_sam2.save_safetensors(path, tiny_sam2.TINY, weights)
    return path


@pytest.fixture(scope="module")
def predictor2(path: Path, images: dict[str, np.ndarray]) -> SAM2ImagePredictor:
    predictor = SAM2ImagePredictor(build_sam2(None, path))
    predictor.set_image(images["odd 303x384"])
    return predictor


def references_of(network: Any, image: np.ndarray) -> tuple[Any, Any]:
    single, exact = (upstream_sam2.image_predictor(x) for x in (network, upstream.double(network)))
    single.set_image(image)
    with upstream.float64():
        exact.set_image(image)
    return single, exact


@pytest.fixture(scope="module")
def references2(weights: Any, images: dict[str, np.ndarray]) -> tuple[Any, Any]:
    network = upstream_sam2.build_sam2(tiny_sam2.TINY, weights)
    return references_of(network, images["odd 303x384"])


TAKEN2 = {
    **TAKEN,
    "two boxes and one mask": {"box": np.stack([BOX, BOX / 2]), "mask_input": LOGITS[0]},
    "two boxes and two masks": {"box": np.stack([BOX, BOX / 2]), "mask_input": LOGITS},
    "corners of two boxes": {"box": np.stack([BOX, BOX / 2]).reshape(2, 2, 2)},
    "a box in a list": {"box": BOX.tolist()},
    "two sets without points": {
        "point_coords": np.zeros((2, 0, 2)),
        "point_labels": np.zeros((2, 0)),
        "box": np.stack([BOX, BOX / 2]),
    },
}
REFUSED2 = {
    **REFUSED,
    "two masks alone": {"mask_input": LOGITS},
    "a box for two sets": {"point_coords": SETS, "point_labels": np.ones((2, 1)), "box": BOX},
    "three masks for two boxes": {
        "box": np.stack([BOX, BOX / 2]),
        "mask_input": np.zeros((3, 1, SIDE, SIDE), np.float32),
    },
}


@pytest.mark.parametrize("name", TAKEN2)
def test_sam2_takes(
    predictor2: SAM2ImagePredictor, references2: tuple[Any, Any], name: str
) -> None:
    hold(predictor2, references2, lambda x: x.predict(**TAKEN2[name], return_logits=True))


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "a PIL image": Image.fromarray,
    "columns first in memory": np.asfortranarray,
}
WRONG_FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "alpha": lambda x: np.concatenate([x, x[:, :, :1]], axis=2),
    "gray": lambda x: x[:, :, 0],
    "one channel": lambda x: x[:, :, :1],
    "a gray PIL image": lambda x: Image.fromarray(x[:, :, 0]),
    "a PIL image with alpha": lambda x: Image.fromarray(x).convert("RGBA"),
    "channels first": lambda x: x.transpose(2, 0, 1),
    "doubles": lambda x: x.astype(np.float64) + 0.5,
    "bools": lambda x: x > 90,
    "a list": lambda x: x[:4, :4].tolist(),
}


@pytest.mark.parametrize("form", FORMS)
def test_sam2_takes_images(
    path: Path, weights: Any, images: dict[str, np.ndarray], form: str
) -> None:
    image = FORMS[form](images["odd 303x384"])
    predictor = SAM2ImagePredictor(build_sam2(None, path))
    predictor.set_image(image)
    references = references_of(upstream_sam2.build_sam2(tiny_sam2.TINY, weights), image)
    hold(predictor, references, lambda x: x.predict(box=BOX, return_logits=True))


@pytest.mark.parametrize("form", WRONG_FORMS)
def test_sam2_refuses_images(
    path: Path, weights: Any, images: dict[str, np.ndarray], form: str
) -> None:
    network = upstream_sam2.build_sam2(tiny_sam2.TINY, weights)
    image = WRONG_FORMS[form](images["odd 303x384"])
    with pytest.raises(Exception):  # noqa: B017, PT011
        upstream_sam2.image_predictor(network).set_image(image)
    with pytest.raises((sam_rlx.SamRlxError, NotImplementedError)):
        SAM2ImagePredictor(build_sam2(None, path)).set_image(image)


@pytest.mark.parametrize("name", REFUSED2)
def test_sam2_refuses(
    predictor2: SAM2ImagePredictor, references2: tuple[Any, Any], name: str
) -> None:
    refuse(predictor2, references2, lambda x: x.predict(**REFUSED2[name]))


def test_without_postprocessing(path: Path, weights: Any, images: dict[str, np.ndarray]) -> None:
    """A single mask stays, however unstable, as upstream's without the switch."""
    network = upstream_sam2.build_sam2(
        tiny_sam2.TINY,
        weights,
        sam_mask_decoder_extra_args={"dynamic_multimask_via_stability": False},
    )
    references = references_of(network, images["odd 303x384"])
    plain, usual = (
        SAM2ImagePredictor(build_sam2(None, path, apply_postprocessing=apply))
        for apply in (False, True)
    )
    prompts = {"point_coords": SETS, "point_labels": np.ones((2, 1)), "multimask_output": False}
    for predictor in (plain, usual):
        predictor.set_image(images["odd 303x384"])
    hold(plain, references, lambda x: x.predict(**prompts, return_logits=True))
    different = plain.predict(**prompts)[1] != usual.predict(**prompts)[1]
    assert different.any()


def switch(predictor: SAM2VideoPredictor, name: str) -> Any:
    """Find a switch of the model's config, whatever part it belongs to."""
    parts: list[dict[str, Any]] = [predictor.model.config]
    for part in parts:
        if name in part:
            return part[name]
        parts += [x for x in part.values() if isinstance(x, dict)]
    raise KeyError(name)


def test_videos_without_postprocessing(path: Path) -> None:
    usual = build_sam2_video_predictor(None, path)
    plain = build_sam2_video_predictor(None, path, apply_postprocessing=False)
    assert (usual.fill_hole_area, plain.fill_hole_area) == (8, 0)
    decoders = [switch(x, "dynamic_multimask_via_stability") for x in (usual, plain)]
    assert decoders == [True, False]
    assert not switch(plain, "binarize_mask_from_pts_for_mem_enc")
    assert type(plain) is SAM2VideoPredictor
    vos = build_sam2_video_predictor(None, path, vos_optimized=True)
    assert isinstance(vos, SAM2VideoPredictorVOS)


# ---------------------------------------------------------------- everything mode

NUMBERS: dict[str, dict[str, Any]] = {
    "a fractional factor": {"crop_n_layers": 1, "crop_n_points_downscale_factor": 1.3},
    "a factor below 1": {"crop_n_layers": 1, "crop_n_points_downscale_factor": 0.7},
    "a factor that nobody needs": {"crop_n_points_downscale_factor": 0},
    "a fractional area": {"min_mask_region_area": 20.5},
    "a negative area": {"min_mask_region_area": -3},
    "fractional points": {"points_per_side": 3.9},
    "no box is a duplicate": {"box_nms_thresh": 1.5},
    "every box is a duplicate": {"box_nms_thresh": -0.5},
    "nothing is stable": {"stability_score_thresh": 1.1},
    "a negative offset": {"stability_score_offset": -1.0, "stability_score_thresh": 1.2},
    "negative thresholds": {"pred_iou_thresh": -1, "stability_score_thresh": -2},
    "nothing is good": {"pred_iou_thresh": np.inf},
    "NumPy's numbers": {"points_per_side": np.int64(3), "pred_iou_thresh": np.float32(0.1)},
    "crops that do not overlap": {"crop_n_layers": 1, "crop_overlap_ratio": -0.1},
    "points outside": {
        "points_per_side": None,
        "point_grids": [np.array([[0.5, 0.5], [1.2, -0.1]])],
    },
}


@pytest.mark.parametrize("name", NUMBERS)
def test_everything_mode_takes_any_numbers(
    sam: Sam, references: tuple[Any, Any], image: np.ndarray, name: str
) -> None:
    options = {**LOOSE, **NUMBERS[name]}
    with upstream.stable_nms():
        expected = upstream.sam.SamAutomaticMaskGenerator(references[0].model, **options).generate(
            image
        )
    found = SamAutomaticMaskGenerator(sam, **options).generate(image)
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
        assert left["point_coords"] == right["point_coords"]
        assert left["crop_box"] == right["crop_box"]
        assert np.mean(left["segmentation"] != right["segmentation"]) < 1e-3


@pytest.mark.parametrize(
    "options",
    [
        {"points_per_side": 0},
        {"points_per_side": 0.5},
        {"points_per_side": -4},
        {"points_per_side": "4"},
        {"points_per_batch": 0},
        {"points_per_batch": 2.5},
        {"crop_n_layers": 1.0},
        {"crop_n_layers": -1},
        {"crop_n_layers": 1, "crop_n_points_downscale_factor": 0},
        {"crop_n_layers": 1, "crop_n_points_downscale_factor": 9},
        {"pred_iou_thresh": "0.5"},
        {"points_per_side": None, "point_grids": [np.zeros((2, 3))]},
    ],
    ids=repr,
)
def test_everything_mode_refuses(
    sam: Sam, references: tuple[Any, Any], image: np.ndarray, options: dict[str, Any]
) -> None:
    options = {**LOOSE, **options}
    with pytest.raises(Exception):  # noqa: B017, PT011
        upstream.sam.SamAutomaticMaskGenerator(references[0].model, **options).generate(image)
    with pytest.raises(sam_rlx.SamRlxError):
        SamAutomaticMaskGenerator(sam, **options).generate(image)


def test_arguments_are_attributes(sam: Sam, image: np.ndarray) -> None:
    """Programs change them on a generator that they keep."""
    loose = {**LOOSE, "box_nms_thresh": 1.0}
    generator = SamAutomaticMaskGenerator(sam, **loose)
    many = generator.generate(image)
    generator.stability_score_thresh = float(np.median([x["stability_score"] for x in many]))
    few = generator.generate(image)
    assert 0 < len(few) < len(many)
    expected = SamAutomaticMaskGenerator(
        sam, **{**loose, "stability_score_thresh": generator.stability_score_thresh}
    ).generate(image)
    assert [x["area"] for x in few] == [x["area"] for x in expected]
    generator.output_mode = "uncompressed_rle"
    assert set(generator.generate(image)[0]["segmentation"]) == {"size", "counts"}
