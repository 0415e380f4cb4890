"""Programs that follow SAM 2's notebooks and tool step by step, with only the import changed."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sam_rlx.compat.sam2.automatic_mask_generator import SAM2AutomaticMaskGenerator
from sam_rlx.compat.sam2.build_sam import build_sam2, build_sam2_video_predictor
from sam_rlx.compat.sam2.sam2_image_predictor import SAM2ImagePredictor
from support import nudged, tiny_sam2

BOX = np.array([150, 40, 420, 330])
BOXES = np.array([[150, 40, 420, 330], [10, 10, 60, 90], [300, 200, 500, 390]])


@pytest.fixture(scope="module")
def weights() -> Any:
    return tiny_sam2.weights(tiny_sam2.TINY, 5)


@pytest.fixture(scope="module")
def path(weights: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sam2") / "tiny.safetensors"
    return tiny_sam2.save_safetensors(path, tiny_sam2.TINY, weights)


@pytest.fixture(scope="module")
def predictor(path: Path, image: np.ndarray) -> SAM2ImagePredictor:
    predictor = SAM2ImagePredictor(build_sam2(None, path, device="cpu"))
    predictor.set_image(Image.fromarray(image))
    return predictor


# ---------------------------------------------------------------- one image: each gives three parts


def one_point(predictor: Any, **options: Any) -> Any:
    masks, scores, logits = predictor.predict(
        point_coords=np.array([[300, 200]]),
        point_labels=np.array([1]),
        multimask_output=True,
        **options,
    )
    order = np.argsort(scores)[::-1]
    return masks[order], scores[order], logits[order]


def more_points(predictor: Any, **options: Any) -> Any:
    _, scores, logits = one_point(predictor)
    return predictor.predict(
        point_coords=np.array([[300, 200], [350, 150]]),
        point_labels=np.array([1, 0]),
        mask_input=logits[np.argmax(scores), :, :][None, :, :],
        multimask_output=False,
        **options,
    )


def one_box(predictor: Any, **options: Any) -> Any:
    return predictor.predict(
        point_coords=None, point_labels=None, box=BOX[None, :], multimask_output=False, **options
    )


def box_and_point(predictor: Any, **options: Any) -> Any:
    return predictor.predict(
        point_coords=np.array([[300, 60]]),
        point_labels=np.array([0]),
        box=BOX,
        multimask_output=False,
        **options,
    )


def many_boxes(predictor: Any, **options: Any) -> Any:
    return predictor.predict(
        point_coords=None, point_labels=None, box=BOXES, multimask_output=False, **options
    )


CALLS = {
    "one point": (one_point, (3,)),
    "more points": (more_points, (1,)),
    "one box": (one_box, (1,)),
    "a box and a point": (box_and_point, (1,)),
    "many boxes": (many_boxes, (3, 1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_predictions_can_be_drawn(predictor: SAM2ImagePredictor, name: str) -> None:
    call, leading = CALLS[name]
    masks, scores, logits = call(predictor)
    assert masks.shape == (*leading, 400, 600)
    assert scores.shape == leading
    assert logits.shape[: len(leading)] == leading
    for mask in masks:
        mask = mask.squeeze(0) if mask.ndim == 3 else mask
        drawn = mask.astype(np.uint8).reshape(400, 600, 1) * np.array([0.1, 0.5, 1.0, 0.6])
        np.testing.assert_array_equal(drawn[:, :, 3] > 0, mask > 0)


@pytest.fixture(scope="module")
def judges(weights: Any, image: np.ndarray) -> Any:
    """Upstream, and its predictors that have the image: in float32 and in float64."""
    upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
    upstream_sam2 = pytest.importorskip("support.upstream_sam2")
    network = upstream_sam2.build_sam2(tiny_sam2.TINY, weights)
    single, exact = (upstream_sam2.image_predictor(x) for x in (network, upstream.double(network)))
    single.set_image(Image.fromarray(image))
    with upstream.float64():
        exact.set_image(Image.fromarray(image))
    return upstream, single, exact


@pytest.mark.parity
@pytest.mark.parametrize("name", CALLS)
def test_predictions_are_upstreams(predictor: SAM2ImagePredictor, judges: Any, name: str) -> None:
    upstream, single, exact = judges
    call, _ = CALLS[name]
    rounded = nudged.results(single, upstream.torch, lambda x: call(x, return_logits=True))
    with upstream.float64():
        truth = call(exact, return_logits=True)
    nudged.hold(call(predictor, return_logits=True), truth, rounded)


def test_batches_of_images(path: Path, images: dict[str, np.ndarray]) -> None:
    predictor = SAM2ImagePredictor(build_sam2(None, path))
    batch = [images["wide 400x600"], images["tall 451x300"]]
    predictor.set_image_batch(batch)
    boxes = [BOXES, BOXES[:2]]
    masks_batch, scores_batch, _ = predictor.predict_batch(
        None, None, box_batch=boxes, multimask_output=False
    )
    assert [x.shape for x in masks_batch] == [(3, 1, 400, 600), (2, 1, 451, 300)]
    points = [np.array([[[500, 375]], [[65, 75]]]), np.array([[[40, 30]], [[63, 300]]])]
    labels = [np.array([[1], [1]]), np.array([[1], [1]])]
    masks_batch, scores_batch, _ = predictor.predict_batch(
        points, labels, box_batch=None, multimask_output=True
    )
    best = [
        masks[range(len(masks)), np.argmax(scores, axis=-1)]
        for masks, scores in zip(masks_batch, scores_batch, strict=True)
    ]
    assert [x.shape for x in best] == [(2, 400, 600), (2, 451, 300)]
    for image, coords, kinds, found in zip(batch, points, labels, best, strict=True):
        predictor.set_image(image)
        masks, scores, _ = predictor.predict(coords, kinds, multimask_output=True)
        np.testing.assert_array_equal(masks[range(len(masks)), np.argmax(scores, axis=-1)], found)


# ---------------------------------------------------------------- everything mode


def test_all_masks_with_default_and_with_own_options(path: Path, image: np.ndarray) -> None:
    sam2 = build_sam2(None, path, device="cpu", apply_postprocessing=False)
    few = {"points_per_side": 4, "pred_iou_thresh": 0.0}
    masks = SAM2AutomaticMaskGenerator(sam2, **few).generate(image)
    assert isinstance(masks, list)
    generator = SAM2AutomaticMaskGenerator(
        model=sam2,
        points_per_side=4,
        points_per_batch=128,
        pred_iou_thresh=0.0,
        stability_score_thresh=0.0,
        stability_score_offset=0.7,
        crop_n_layers=1,
        box_nms_thresh=0.7,
        crop_n_points_downscale_factor=2,
        min_mask_region_area=25.0,
        use_m2m=True,
    )
    masks2 = generator.generate(image)
    assert masks2
    sorted_anns = sorted(masks2, key=(lambda x: x["area"]), reverse=True)
    canvas = np.ones((*sorted_anns[0]["segmentation"].shape, 4))
    for ann in sorted_anns:
        canvas[ann["segmentation"]] = (0.2, 0.4, 0.6, 0.5)
    assert canvas.shape == (400, 600, 4)


# ---------------------------------------------------------------- video


@pytest.fixture(scope="module")
def folder(frames: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("frames")
    for index, frame in enumerate(frames[:5]):
        Image.fromarray(frame).save(path / f"{index:05d}.jpg", quality=95)
    return str(path)


def collect(predictor: Any, state: Any) -> dict[int, dict[int, np.ndarray]]:
    segments = {}
    for out_frame_idx, out_obj_ids, out_mask_logits in predictor.propagate_in_video(state):
        segments[out_frame_idx] = {
            out_obj_id: (out_mask_logits[i] > 0.0).cpu().numpy()
            for i, out_obj_id in enumerate(out_obj_ids)
        }
    return segments


def test_the_video_notebook(path: Path, folder: str, frames: np.ndarray) -> None:
    predictor = build_sam2_video_predictor(None, path, device="cpu")
    state = predictor.init_state(video_path=folder)
    predictor.reset_state(state)
    # A click, and a second one with it.
    for points, labels in (([[21, 35]], [1]), ([[21, 35], [25, 22]], [1, 1])):
        _, out_obj_ids, out_mask_logits = predictor.add_new_points_or_box(
            inference_state=state,
            frame_idx=0,
            obj_id=1,
            points=np.array(points, dtype=np.float32),
            labels=np.array(labels, np.int32),
        )
        mask = (out_mask_logits[0] > 0.0).cpu().numpy()
        assert mask.shape == (1, *frames.shape[1:3])
    segments = collect(predictor, state)
    assert sorted(segments) == list(range(5))
    # A correction on a later frame.
    predictor.add_new_points_or_box(
        inference_state=state,
        frame_idx=3,
        obj_id=1,
        points=np.array([[8, 41]], dtype=np.float32),
        labels=np.array([0], np.int32),
    )
    assert sorted(collect(predictor, state)) == list(range(5))
    # A box, and a click with it, on a new object.
    predictor.reset_state(state)
    box = np.array([30, 5, 50, 40], dtype=np.float32)
    predictor.add_new_points_or_box(inference_state=state, frame_idx=0, obj_id=4, box=box)
    _, out_obj_ids, _ = predictor.add_new_points_or_box(
        inference_state=state,
        frame_idx=0,
        obj_id=4,
        points=np.array([[46, 6]], dtype=np.float32),
        labels=np.array([1], np.int32),
        box=box,
    )
    assert out_obj_ids == [4]
    # Two objects.
    predictor.reset_state(state)
    for obj_id, points, labels in ((2, [[20, 30], [27, 17]], [1, 0]), (3, [[40, 15]], [1])):
        _, out_obj_ids, out_mask_logits = predictor.add_new_points_or_box(
            inference_state=state,
            frame_idx=0,
            obj_id=obj_id,
            points=np.array(points, dtype=np.float32),
            labels=np.array(labels, np.int32),
        )
    assert out_obj_ids == [2, 3]
    assert set(collect(predictor, state)[4]) == {2, 3}


def test_the_tool_for_data_sets(path: Path, folder: str, frames: np.ndarray) -> None:
    """Masks of the first frame go in as bool arrays; each object runs by itself, then they meet."""
    torch = pytest.importorskip("torch", reason="needs PyTorch, as the tool does")
    height, width = frames.shape[1:3]
    given = np.zeros((height, width), np.uint8)
    given[10:40, 5:40], given[45:60, 30:60] = 1, 2
    predictor = build_sam2_video_predictor(
        config_file=None,
        ckpt_path=path,
        device="cpu",
        apply_postprocessing=False,
        vos_optimized=True,
    )
    state = predictor.init_state(video_path=folder, async_loading_frames=False)
    assert (state["video_height"], state["video_width"]) == (height, width)
    scores_of: Any = defaultdict(dict)
    for obj_id in (1, 2):
        predictor.reset_state(state)
        predictor.add_new_mask(
            inference_state=state, frame_idx=0, obj_id=obj_id, mask=given == obj_id
        )
        for frame, _, logits in predictor.propagate_in_video(
            state, start_frame_idx=0, reverse=False
        ):
            scores_of[obj_id][frame] = logits.cpu().numpy()
    for frame in range(5):
        scores = torch.full(size=(2, 1, height, width), fill_value=-1024.0)
        for i, obj_id in enumerate((1, 2)):
            scores[i] = torch.from_numpy(scores_of[obj_id][frame])
        scores = predictor._apply_non_overlapping_constraints(scores)
        assert isinstance(scores, torch.Tensor)
        masks = {obj: (scores[i] > 0).cpu().numpy() for i, obj in enumerate((1, 2))}
        assert not (masks[1] & masks[2]).any()
    assert (masks[1].reshape(height, width).astype(np.uint8)).dtype == np.uint8


@pytest.mark.parity
def test_constraints_are_upstreams(path: Path) -> None:
    upstream_video = pytest.importorskip("support.upstream_video")
    import torch

    theirs = upstream_video.build(tiny_sam2.weights(tiny_sam2.TINY, 5))
    ours = build_sam2_video_predictor(None, path)
    logits = 9 * np.random.default_rng(3).standard_normal((3, 1, 7, 8), np.float32)
    for count in (1, 3):
        tensor = torch.from_numpy(logits[:count])
        expected = theirs._apply_non_overlapping_constraints(tensor).numpy()
        np.testing.assert_array_equal(
            ours._apply_non_overlapping_constraints(logits[:count]), expected
        )
