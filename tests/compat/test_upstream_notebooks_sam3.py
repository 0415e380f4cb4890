"""Programs that follow SAM 3's notebooks step by step, with only the import changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx.compat.common.video_frames import Frame, UpstreamFrames
from sam_rlx.compat.sam3 import build_sam3_image_model
from sam_rlx.compat.sam3.model.box_ops import box_xywh_to_cxcywh
from sam_rlx.compat.sam3.model.sam3_image_processor import Sam3Processor
from sam_rlx.compat.sam3.model_builder import build_sam3_video_model, build_sam3_video_predictor
from sam_rlx.compat.sam3.visualization_utils import (
    draw_box_on_image,
    load_frame,
    normalize_bbox,
    prepare_masks_for_visualization,
)

NANO = "sam3-nano"
BOX = np.array([150, 40, 420, 330])
BOXES = np.array([[150, 40, 420, 330], [10, 10, 60, 90], [300, 200, 500, 390]])


@pytest.fixture(scope="module")
def pil_image(image: np.ndarray) -> Image.Image:
    return Image.fromarray(image)


# ---------------------------------------------------------------- images by text and boxes


def drawn(pil_image: Image.Image, state: dict[str, Any]) -> int:
    """Do what the notebooks' drawing does with results; returns their number."""
    count = len(state["scores"])
    for i in range(count):
        mask = state["masks"][i].squeeze(0).cpu()
        assert mask.shape == (pil_image.height, pil_image.width)
        assert f"{state['scores'][i].item():.2f}"
        assert len(state["boxes"][i].cpu().tolist()) == 4
    return count


def test_the_image_notebook(pil_image: Image.Image) -> None:
    model = build_sam3_image_model(bpe_path="any", checkpoint_path=NANO)
    width, height = pil_image.size
    processor = Sam3Processor(model, confidence_threshold=0.05)
    state = processor.set_image(pil_image)
    processor.reset_all_prompts(state)
    state = processor.set_text_prompt(state=state, prompt="circle")
    drawn(pil_image, state)

    box_xywh = np.array([150.0, 40.0, 270.0, 290.0]).reshape(-1, 4)
    box = normalize_bbox(box_xywh_to_cxcywh(box_xywh), width, height).flatten().tolist()
    np.testing.assert_allclose(box, [285 / 600, 185 / 400, 270 / 600, 290 / 400], rtol=1e-6)
    processor.reset_all_prompts(state)
    state = processor.add_geometric_prompt(state=state, box=box, label=True)
    one = drawn(pil_image, state)
    assert draw_box_on_image(pil_image, box_xywh.flatten().tolist()).size == pil_image.size

    boxes_xywh = [[150.0, 40.0, 270.0, 290.0], [10.0, 10.0, 50.0, 80.0]]
    boxes = normalize_bbox(box_xywh_to_cxcywh(np.array(boxes_xywh)), width, height).tolist()
    processor.reset_all_prompts(state)
    for box, label in zip(boxes, [True, False], strict=True):
        state = processor.add_geometric_prompt(state=state, box=box, label=label)
    drawn(pil_image, state)
    assert len(state["geometric_prompt"].boxes) == 2
    assert one >= 0


def test_nan_leaves_no_prompt_behind(pil_image: Image.Image) -> None:
    processor = Sam3Processor(build_sam3_image_model(checkpoint_path=NANO))
    state = processor.set_image(pil_image)
    state = processor.set_text_prompt("circle", state)
    before = {key: state[key].numpy().tobytes() for key in ("masks", "boxes", "scores")}
    with pytest.raises(sam_rlx.InvalidArgumentError, match="finite"):
        processor.add_geometric_prompt([0.5, np.nan, 0.1, 0.1], True, state)
    with pytest.raises(sam_rlx.SamRlxError):
        processor.set_text_prompt(3, state)  # type: ignore[arg-type]
    assert state["geometric_prompt"].boxes == []
    assert {key: state[key].numpy().tobytes() for key in before} == before
    again = processor.set_confidence_threshold(0.5, state)
    assert {key: again[key].numpy().tobytes() for key in before} == before


# ---------------------------------------------------------------- SAM 1's task


def test_the_click_notebook(pil_image: Image.Image, images: dict[str, np.ndarray]) -> None:
    model = build_sam3_image_model(checkpoint_path=NANO, enable_inst_interactivity=True)
    processor = Sam3Processor(model)
    state = processor.set_image(pil_image)
    masks, scores, logits = model.predict_inst(
        state,
        point_coords=np.array([[300, 200]]),
        point_labels=np.array([1]),
        multimask_output=True,
    )
    order = np.argsort(scores)[::-1]
    masks, scores, logits = masks[order], scores[order], logits[order]
    assert masks.shape == (3, 400, 600)
    mask_input = logits[np.argmax(scores), :, :]
    for labels in ([1, 1], [1, 0]):
        masks, scores, _ = model.predict_inst(
            state,
            point_coords=np.array([[300, 200], [350, 150]]),
            point_labels=np.array(labels),
            mask_input=mask_input[None, :, :],
            multimask_output=False,
        )
        assert masks.shape == (1, 400, 600)
    for prompts in (
        {"point_coords": None, "point_labels": None, "box": BOX[None, :]},
        {"point_coords": np.array([[300, 60]]), "point_labels": np.array([0]), "box": BOX},
    ):
        masks, scores, _ = model.predict_inst(state, **prompts, multimask_output=False)
        assert masks.shape == (1, 400, 600)
    masks, scores, _ = model.predict_inst(
        state, point_coords=None, point_labels=None, box=BOXES, multimask_output=False
    )
    assert masks.shape == (3, 1, 400, 600)

    batch = [pil_image, Image.fromarray(images["tall 451x300"])]
    state = processor.set_image_batch(batch)
    masks_batch, scores_batch, _ = model.predict_inst_batch(
        state, None, None, box_batch=[BOXES, BOXES], multimask_output=False
    )
    assert [x.shape for x in masks_batch] == [(3, 1, 400, 600), (3, 1, 451, 300)]
    np.testing.assert_array_equal(masks_batch[0], masks)
    points = [np.array([[[500, 375]], [[65, 75]]]), np.array([[[40, 30]], [[63, 300]]])]
    labels_batch = [np.array([[1], [1]])] * 2
    masks_batch, scores_batch, _ = model.predict_inst_batch(
        state, points, labels_batch, box_batch=None, multimask_output=True
    )
    best = [
        masks[range(len(masks)), np.argmax(scores, axis=-1)]
        for masks, scores in zip(masks_batch, scores_batch, strict=True)
    ]
    assert [x.shape for x in best] == [(2, 400, 600), (2, 451, 300)]


# ---------------------------------------------------------------- SAM 2's task on video


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[np.ndarray]]:
    """A folder of frames with a disc and a square that move."""
    folder, frames = tmp_path_factory.mktemp("frames"), []
    y, x = np.mgrid[:120, :160]
    for index in range(5):
        frame = np.full((120, 160, 3), 90, np.uint8)
        frame[(x - 45 - 3 * index) ** 2 + (y - 60) ** 2 < 22**2] = (220, 60, 40)
        frame[(abs(x - 120) < 18) & (abs(y - 40) < 16)] = (40, 90, 230)
        frames.append(frame)
        Image.fromarray(frame).save(folder / f"{index}.jpg", quality=95)
    return str(folder), frames


def tensors(points: Any, labels: Any) -> dict[str, Any]:
    """The notebooks give tensors of fractions; arrays serve as well."""
    relative = [[x / 160, y / 120] for x, y in points]
    try:
        import torch
    except ImportError:
        return {"points": np.array(relative, np.float32), "labels": np.array(labels, np.int32)}
    return {
        "points": torch.tensor(relative, dtype=torch.float32),
        "labels": torch.tensor(labels, dtype=torch.int32),
    }


def follow(predictor: Any, state: Any, most: int = 240) -> dict[int, dict[int, np.ndarray]]:
    segments = {}
    for (
        frame_idx,
        obj_ids,
        low_res_masks,
        video_res_masks,
        obj_scores,
    ) in predictor.propagate_in_video(
        state,
        start_frame_idx=0,
        max_frame_num_to_track=most,
        reverse=False,
        propagate_preflight=True,
    ):
        assert low_res_masks.shape[:2] == (len(obj_ids), 1)
        assert obj_scores.shape == (len(obj_ids), 1)
        segments[frame_idx] = {
            obj_id: (video_res_masks[i] > 0.0).cpu().numpy() for i, obj_id in enumerate(obj_ids)
        }
    return segments


def test_the_tracker_notebook(moving: tuple[str, list[np.ndarray]]) -> None:
    folder, _ = moving
    sam3_model = build_sam3_video_model(checkpoint_path=NANO)
    predictor = sam3_model.tracker
    predictor.backbone = sam3_model.detector.backbone
    state = predictor.init_state(video_path=folder)
    predictor.clear_all_points_in_video(state)
    for points, labels in (([[45, 60]], [1]), ([[45, 60], [50, 66]], [1, 1])):
        _, out_obj_ids, low_res_masks, masks = predictor.add_new_points(
            inference_state=state,
            frame_idx=0,
            obj_id=1,
            **tensors(points, labels),
            clear_old_points=False,
        )
        assert low_res_masks is None
        assert (masks[0] > 0.0).cpu().numpy().shape == (1, 120, 160)
    segments = follow(predictor, state)
    assert sorted(segments) == list(range(5))
    # No new object once tracking has started, but a correction of the one that is there.
    with pytest.raises(RuntimeError, match="once tracking has started, found 9"):
        predictor.add_new_points(state, 0, 9, **tensors([[120, 40]], [1]))
    predictor.add_new_points(state, 3, 1, **tensors([[8, 100]], [0]), clear_old_points=False)
    assert sorted(follow(predictor, state, 300)) == list(range(5))

    predictor.clear_all_points_in_video(state)
    box = np.array([[20 / 160, 30 / 120, 70 / 160, 90 / 120]], np.float32)
    predictor.add_new_points_or_box(inference_state=state, frame_idx=0, obj_id=4, box=box)
    predictor.add_new_points_or_box(
        inference_state=state, frame_idx=0, obj_id=4, **tensors([[45, 60]], [1]), box=box
    )
    disc = follow(predictor, state)[0][4][0]
    assert disc[60, 45]

    predictor.clear_all_points_in_video(state)
    with pytest.raises(RuntimeError, match="expected an object with prompts"):
        follow(predictor, state)
    predictor.clear_all_points_in_video(state)  # as upstream, tracking counts as started
    for obj_id, points, labels in ((2, [[45, 60], [120, 40]], [1, 0]), (3, [[120, 40]], [1])):
        _, out_obj_ids, _, masks = predictor.add_new_points_or_box(
            inference_state=state, frame_idx=0, obj_id=obj_id, **tensors(points, labels)
        )
    assert out_obj_ids == [2, 3]
    assert masks.shape == (2, 1, 120, 160)
    assert set(follow(predictor, state)[4]) == {2, 3}
    obj_ids, _ = predictor.remove_object(state, 2)
    assert obj_ids == [3]


def test_nan_leaves_no_object_behind(moving: tuple[str, list[np.ndarray]]) -> None:
    predictor = build_sam3_video_model(checkpoint_path=NANO).tracker
    state = predictor.init_state(video_path=moving[0])
    with pytest.raises(sam_rlx.SamRlxError, match="finite"):
        predictor.add_new_points(state, 0, 1, [[np.nan, 0.5]], [1])
    assert state["obj_ids"] == []
    assert state["session"].obj_ids == []


class Frames(UpstreamFrames):
    """Frames of a video in memory."""

    def __init__(self, frames: np.ndarray) -> None:
        self._frames, self.count = frames, len(frames)
        self.height, self.width = frames.shape[1:3]

    def read(self, index: int, side: int | None = None) -> Frame:
        """Return a frame as it is."""
        return self._frames[index], (self.height, self.width)


@pytest.mark.parity
def test_the_tracker_is_upstreams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls with fractions, pixels of the input, boxes and masks, beside upstream's results."""
    oracle = pytest.importorskip("support.upstream_sam3_video", reason="needs sam3")
    from sam_rlx.compat.sam3.model import sam3_tracking_predictor
    from support import tiny_sam3, upstream_sam3, upstream_video

    network = oracle.network()
    path = tiny_sam3.save_safetensors(
        tmp_path / "tiny.safetensors", tiny_sam3.TINY, upstream_sam3.meta_weights(network)
    )
    ours = sam3_tracking_predictor.Sam3TrackerPredictor(sam_rlx.load_model(path))
    theirs = oracle.tracker(network, use_memory_selection=True, fill_hole_area=0)
    # Both get frames of the input's size: loaders, which resize, have tests of their own.
    frames = upstream_video.clip(4, (theirs.image_size, theirs.image_size))
    monkeypatch.setattr(sam3_tracking_predictor, "open_video", lambda path, side: Frames(frames))
    side = theirs.image_size

    def session(predictor: Any, state: Any) -> list[Any]:
        found = [
            predictor.add_new_points(state, 0, 1, [[0.2, 0.4]], [1]),
            predictor.add_new_points_or_box(
                state, 0, 1, [[0.3 * side, 0.4 * side]], [1], False, rel_coordinates=False
            ),
            predictor.add_new_points_or_box(
                state, 0, "b", box=np.array([0.6, 0.4, 0.9, 0.9], np.float32)
            ),
        ]
        found += predictor.propagate_in_video(
            state, None, None, False, tqdm_disable=True, propagate_preflight=True
        )
        found.append(predictor.clear_all_points_in_frame(state, 0, "b"))
        found += predictor.propagate_in_video(
            state, 2, 1, True, tqdm_disable=True, propagate_preflight=True
        )
        return found

    expected = oracle.run(theirs, frames, session)
    found = session(ours, ours.init_state(video_path="frames"))
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
        assert left[:2] == right[:2]
        assert (left[2] is None) == (right[2] is None)
        for mine, other in zip(left[2:], right[2:], strict=True):
            if mine is None:
                continue
            values = other.float().numpy()
            assert mine.shape == values.shape
            assert mine.numpy().dtype == values.dtype
            scale = np.abs(values[values > -1024]).max(initial=1.0)
            np.testing.assert_allclose(mine, values, rtol=0, atol=2e-3 * scale)


# ---------------------------------------------------------------- text on video


def test_the_video_notebook(moving: tuple[str, list[np.ndarray]]) -> None:
    folder, frames = moving
    predictor = build_sam3_video_predictor(checkpoint_path=NANO, gpus_to_use=range(0))

    def request(kind: str, **fields: Any) -> Any:
        return predictor.handle_request({"type": kind, "session_id": session_id, **fields})

    def propagate() -> dict[int, Any]:
        stream = predictor.handle_stream_request(
            {"type": "propagate_in_video", "session_id": session_id}
        )
        return {answer["frame_index"]: answer["outputs"] for answer in stream}

    start = {"type": "start_session", "resource_path": folder}
    session_id = predictor.handle_request(start)["session_id"]
    request("reset_session")
    out = request("add_prompt", frame_index=0, text="circle")["outputs"]
    masks = prepare_masks_for_visualization({0: out})[0]
    obj_id = next(obj_id for obj_id, mask in masks.items() if mask[60, 45])
    outputs = prepare_masks_for_visualization(propagate())
    assert sorted(outputs) == list(range(5))
    assert obj_id in outputs[0]
    request("remove_object", obj_id=obj_id)
    assert not any(obj_id in x for x in prepare_masks_for_visualization(propagate()).values())
    assert load_frame(frames[0]).shape == (120, 160, 3)
    for points, labels in (([[45, 60]], [1]), ([[45, 60], [50, 66], [120, 40]], [1, 1, 0])):
        given = tensors(points, labels)
        out = request(
            "add_prompt",
            frame_index=0,
            points=given["points"],
            point_labels=given["labels"],
            obj_id=obj_id,
        )["outputs"]
        assert obj_id in out["out_obj_ids"].tolist()
        assert obj_id in propagate()[4]["out_obj_ids"].tolist()
    request("close_session")
    predictor.shutdown()
    with pytest.raises(sam_rlx.UnsupportedError, match="gpus_to_use"):
        build_sam3_video_predictor(checkpoint_path=NANO, gpus_to_use=[0])


def test_the_interactive_notebook(pil_image: Image.Image) -> None:
    """Its widget draws boxes one by one, and changes the threshold between them."""
    processor = Sam3Processor(build_sam3_image_model(checkpoint_path=NANO))
    state = processor.set_image(pil_image)
    state = processor.set_text_prompt("circle", state)
    for box, label in (([0.3, 0.4, 0.2, 0.3], True), ([0.7, 0.6, 0.2, 0.2], False)):
        state = processor.add_geometric_prompt(box, label, state)
        state = processor.set_confidence_threshold(0.1, state)
        drawn(pil_image, state)
    processor.reset_all_prompts(state)
    assert "scores" not in state
    assert processor.set_confidence_threshold(0.5, state) is state
