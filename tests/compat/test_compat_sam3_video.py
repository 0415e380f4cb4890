"""The video predictor of `sam_rlx.compat.sam3` beside upstream's: same requests, same answers."""

import inspect

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx.compat.sam3 import build_sam3_video_predictor
from sam_rlx.compat.sam3.model.sam3_video_inference import (
    Sam3VideoInferenceWithInstanceInteractivity,
)
from sam_rlx.compat.sam3.model.sam3_video_predictor import Sam3VideoPredictor
from support.cases import quick
from support.half_size import half_size

pytest.importorskip("support.upstream", reason="needs the reference packages")
concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
upstream_video = pytest.importorskip("support.upstream_video")
oracle = pytest.importorskip("support.upstream_sam3_masklets", reason="needs sam3")
pytestmark = pytest.mark.parity

SEED = 44


@pytest.fixture(scope="module")
def detector():
    return oracle.detector(SEED)


@pytest.fixture(scope="module")
def path(detector, tmp_path_factory):
    return concepts.save(tmp_path_factory.mktemp("sam3") / "tiny.safetensors", detector)


@pytest.fixture(scope="module")
def images():
    return [Image.fromarray(frame) for frame in upstream_video.clip(10, (72, 96))]


@pytest.fixture
def predictor(path):
    """Ours, with the options of the tests."""
    predictor = build_sam3_video_predictor(checkpoint_path=path)
    predictor.model = Sam3VideoInferenceWithInstanceInteractivity(
        predictor.model.model, **oracle.OPTIONS
    )
    yield predictor
    predictor.shutdown()


def agree(ours, theirs):
    assert ours.keys() == theirs.keys()
    assert ours["frame_index"] == theirs["frame_index"]
    found, expected = ours["outputs"], theirs["outputs"]
    assert found.keys() == expected.keys()
    assert found["out_obj_ids"].tolist() == expected["out_obj_ids"].tolist()
    assert (found["frame_stats"] is None) == (expected["frame_stats"] is None)
    if found["frame_stats"] is not None:
        stats = {key: int(value) for key, value in expected["frame_stats"].items()}
        assert found["frame_stats"] == stats
    for name in found:
        if name == "frame_stats":
            continue
        assert found[name].dtype == expected[name].dtype, name
        assert found[name].shape == expected[name].shape, name
    # Scores within 1e-3, masks with an IoU of 0.999: what is promised end to end.
    np.testing.assert_allclose(found["out_probs"], expected["out_probs"], rtol=0, atol=1e-3)
    masks = found["out_binary_masks"], expected["out_binary_masks"]
    for pair in zip(*masks, strict=True):
        assert upstream_video.iou(*pair) >= 0.999
    if np.array_equal(*masks):
        # Whole pixels divided by a side: one rounding each in float32.
        boxes = found["out_boxes_xywh"], expected["out_boxes_xywh"]
        np.testing.assert_allclose(*boxes, rtol=2**-23, atol=0)


def run(handler, requests):
    """Answer requests in one session."""
    answers = []
    for request in requests:
        request = {"session_id": "a", **request}
        if request["type"] == "propagate_in_video":
            answers += handler.handle_stream_request(request)
        else:
            answers.append(handler.handle_request(request))
    return answers


TRACK = {"type": "propagate_in_video"}
TEXT = {"type": "add_prompt", "frame_index": 0, "text": "person"}
CLICK = {
    "type": "add_prompt",
    "frame_index": 3,
    "points": [[0.4, 0.5], [0.8, 0.8]],
    "point_labels": [1, 0],
    "obj_id": 0,
}
REQUESTS = {
    "both directions": [{**TEXT, "frame_index": 4}, TRACK],
    "forward, then backward": [
        {**TEXT, "frame_index": 4},
        {**TRACK, "propagation_direction": "forward", "start_frame_index": 4},
        {**TRACK, "propagation_direction": "backward", "start_frame_index": 4},
    ],
    "a part": [TEXT, {**TRACK, "start_frame_index": 0, "max_frame_num_to_track": 3}],
    "refined": [TEXT, TRACK, CLICK, TRACK, TRACK],
    "another object": [TEXT, TRACK, {**CLICK, "obj_id": 7}, TRACK],
    "removed": [TEXT, TRACK, {"type": "remove_object", "obj_id": 0}, TRACK],
    "an example": [
        {
            "type": "add_prompt",
            "frame_index": 0,
            "bounding_boxes": [[0.05, 0.2, 0.35, 0.5]],
            "bounding_box_labels": [1],
        },
        TRACK,
    ],
    "reset": [TEXT, TRACK, {"type": "reset_session"}, TEXT],
}


@pytest.mark.parametrize("name", quick(REQUESTS, 0, 2, 3, 5, 6, 7))
def test_requests(detector, predictor, images, name):
    start = {"type": "start_session", "resource_path": images}
    requests = [start, *REQUESTS[name], {"type": "close_session"}]
    with oracle.request_handler(oracle.video_model(detector, **oracle.OPTIONS), images) as other:
        expected = run(other, requests)
    found = run(predictor, requests)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        if "outputs" in theirs:
            agree(ours, theirs)
        else:
            assert ours == theirs
    assert sum(len(answer["outputs"]["out_obj_ids"]) for answer in found if "outputs" in answer)


def test_the_next_propagation_follows_from_what_was_done(predictor, images):
    """Random histories, beside upstream's own functions, which need no model."""
    theirs = oracle.history_of_actions
    state = predictor.model.init_state(images)
    seen = set()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        predictor.model.reset_state(state)
        expected = {"action_history": [], "num_frames": len(images)}
        for _ in range(rng.integers(0, 6)):
            kind = str(rng.choice(["add", "refine", "remove", "propagate"]))
            frame, obj_ids = int(rng.integers(0, len(images))), [int(rng.integers(0, 4))]
            if kind == "propagate":
                kind, obj_ids = theirs.parse(expected)
                frame = frame if rng.random() < 0.8 else None
            theirs.add(expected, kind, frame, obj_ids)
            predictor.model.add_action_history(state, kind, frame, obj_ids)
        assert state["action_history"] == expected["action_history"], seed
        kind, obj_ids = predictor.model.parse_action_history_for_propagation(state)
        assert (kind, obj_ids) == theirs.parse(expected), seed
        seen.add(kind)
    assert len(seen) == 3


def test_frames_of_a_folder_and_an_image(predictor, images, tmp_path):
    for index, image in enumerate(images):
        image.save(tmp_path / f"{index}.jpg", quality=100, subsampling=0)
    folder = predictor.start_session(str(tmp_path))["session_id"]
    assert len(predictor.handle_request({**TEXT, "session_id": folder})["outputs"]) == 5
    single = predictor.start_session(str(tmp_path / "3.jpg"))["session_id"]
    answer = predictor.handle_request({**TEXT, "session_id": single})
    assert answer["outputs"]["out_binary_masks"].shape[1:] == (72, 96)
    answers = list(predictor.handle_stream_request({**TRACK, "session_id": single}))
    assert [answer["frame_index"] for answer in answers] == [0]


def test_errors(predictor, images):
    session = predictor.start_session(images, "mine")["session_id"]
    assert session == "mine"
    with pytest.raises(RuntimeError, match="type: expected"):
        predictor.handle_request({"type": "sing"})
    with pytest.raises(RuntimeError, match="expected a session that is open"):
        predictor.handle_request({**TEXT, "session_id": "other"})
    with pytest.raises(RuntimeError, match="type: expected"):
        next(predictor.handle_stream_request({"type": "sing"}))
    with pytest.raises(RuntimeError, match="expected a text or a box"):
        next(predictor.handle_stream_request({**TRACK, "session_id": session}))
    sideways = {**TRACK, "session_id": session, "propagation_direction": "up"}
    with pytest.raises(ValueError, match="direction"):
        next(predictor.handle_stream_request(sideways))
    with pytest.raises(AssertionError, match="expected a frame that was searched"):
        predictor.handle_request({**CLICK, "session_id": session})
    with pytest.raises(AssertionError, match="frame_idx: expected"):
        predictor.handle_request({**TEXT, "session_id": session, "frame_index": 99})
    boxes = {"bounding_boxes": 2 * [[0, 0, 0.5, 0.5]], "bounding_box_labels": [1, 1]}
    request = {"type": "add_prompt", "frame_index": 0, **boxes, "session_id": session}
    with pytest.raises(RuntimeError, match="one box"):
        predictor.handle_request(request)
    assert predictor.close_session("none") == {"is_success": True}


def test_what_is_not_offered(path):
    with pytest.raises(sam_rlx.UnsupportedError, match="gpus_to_use"):
        build_sam3_video_predictor(checkpoint_path=path, gpus_to_use=[0])
    with pytest.raises(sam_rlx.UnsupportedError, match="has_presence_token"):
        build_sam3_video_predictor(checkpoint_path=path, has_presence_token=False)
    with pytest.raises(sam_rlx.UnsupportedError, match="family sam3"):
        Sam3VideoInferenceWithInstanceInteractivity(half_size("sam2-nano"))
    model = half_size("sam3-nano")
    own = {"image_size": model.img_size, "image_mean": (0.5, 0.5, 0.5), "compile_model": False}
    assert Sam3VideoInferenceWithInstanceInteractivity(model, **own).image_size == model.img_size
    for other in ({"image_size": 1}, {"image_std": (0.2, 0.2, 0.2)}):
        with pytest.raises(sam_rlx.UnsupportedError, match="as the model has"):
            Sam3VideoInferenceWithInstanceInteractivity(model, **other)


def test_names_are_upstreams():
    theirs = upstream_sam3.sam3.Sam3VideoPredictor
    for name, method in inspect.getmembers(theirs, inspect.isfunction):
        if name.startswith("_"):
            continue
        ours = getattr(Sam3VideoPredictor, name)
        names = list(inspect.signature(ours).parameters)
        assert names == list(inspect.signature(method).parameters), name
