"""``sam_rlx.compat.sam2`` for videos beside upstream's own class: calls, results, defects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx.compat.sam2.build_sam import build_sam2_video_predictor
from sam_rlx.compat.sam2.sam2_video_predictor import SAM2VideoPredictor
from support import tiny_sam2

pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_video = pytest.importorskip("support.upstream_video")
judged_video = pytest.importorskip("support.judged_video")
pytestmark = pytest.mark.parity

COUNT, HW = 6, (72, 96)
CLICK = {"points": np.array([[20, 28]], np.float32), "labels": np.array([1], np.int32)}
MASK = np.zeros(HW, np.bool_)
MASK[36:60, 58:84] = True


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    weights = tiny_sam2.weights(tiny_sam2.TINY, 0)
    weights["sam_mask_decoder.pred_obj_score_head.layers.2.bias"] += np.float32(1.0)
    return weights


@pytest.fixture(scope="module")
def checkpoint(weights: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compat") / "tiny.safetensors"
    return tiny_sam2.save_safetensors(path, tiny_sam2.TINY, weights)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("frames")
    for t, frame in enumerate(upstream_video.clip(COUNT, HW)):
        Image.fromarray(frame).save(path / f"{t + 7}.jpg", quality=95)  # 10.jpg after 9.jpg
    return str(path)


Both = list[tuple[Any, Any]]


@pytest.fixture
def judged(weights: Any, checkpoint: Path, folder: str) -> Any:
    ours = build_sam2_video_predictor(None, checkpoint)
    return judged_video.Judged(upstream_video.build(weights), ours, folder)


@pytest.fixture
def both(judged: Any) -> Both:
    """Upstream's predictor and ours, each with a session on the same folder."""
    return judged.both  # type: ignore[no-any-return]


def call(judged: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method of all and hold ours to upstream's."""

    def method(predictor: Any, state: Any) -> Any:
        result = getattr(predictor, name)(state, *args, **kwargs)
        return list(result) if name == "propagate_in_video" else result

    return judged.call(method)


def test_the_state(both: Both) -> None:
    keys = {"num_frames", "video_height", "video_width", "obj_ids", "offload_video_to_cpu"}
    (_, right), (_, ours) = both
    assert {k: ours[k] for k in keys} == {k: right[k] for k in keys}
    assert len(ours["images"]) == COUNT


def test_a_session(judged: Any, both: Both) -> None:
    call(judged, "add_new_points_or_box", 0, 1, **CLICK)
    call(judged, "add_new_mask", 0, "b", MASK)
    call(judged, "add_new_points", 0, 1, [[60, 8]], [0], clear_old_points=False)
    tracked = call(judged, "propagate_in_video")
    assert [frame for frame, _, _ in tracked] == list(range(COUNT))
    call(judged, "propagate_in_video", 4, 2, True)
    call(judged, "propagate_in_video", 1, 2)
    call(judged, "clear_all_prompts_in_frame", 0, "b")
    call(judged, "add_new_points_or_box", 0, "b", box=[50, 30, 90, 66])
    call(judged, "propagate_in_video")
    call(judged, "remove_object", 1)
    call(judged, "propagate_in_video")
    (_, right), (_, ours) = both
    for name in ("obj_ids", "obj_id_to_idx", "obj_idx_to_id"):
        assert ours[name] == right[name]
    call(judged, "reset_state")
    assert both[1][1]["obj_ids"] == []


def test_a_correction_is_lost(judged: Any) -> None:
    call(judged, "add_new_points_or_box", 0, 1, **CLICK)
    call(judged, "propagate_in_video")
    call(judged, "add_new_points_or_box", 3, 1, points=[[30, 30]], labels=[1])
    call(judged, "propagate_in_video")


def test_normalised_coordinates(judged: Any) -> None:
    call(judged, "add_new_points_or_box", 0, 1, points=[[0.2, 0.4]], labels=[1], normalize_coords=0)


def test_backwards_from_the_first_frame(judged: Any) -> None:
    call(judged, "add_new_points_or_box", 0, 1, **CLICK)
    assert call(judged, "propagate_in_video", reverse=True) == []


def test_clearing_an_unknown_object_makes_it(judged: Any, both: Both) -> None:
    call(judged, "add_new_points_or_box", 0, 1, **CLICK)
    call(judged, "clear_all_prompts_in_frame", 0, "new")
    for predictor, state in both:
        assert state["obj_ids"] == [1, "new"]
        with pytest.raises(RuntimeError, match=r"object (id )?new"):
            list(predictor.propagate_in_video(state))


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "error"),
    [
        ("propagate_in_video_preflight", (), {}, RuntimeError),
        ("add_new_points_or_box", (0, 1), {}, ValueError),
        ("add_new_points_or_box", (0, 1), {"points": [[1, 2]]}, ValueError),
        (
            "add_new_points_or_box",
            (0, 1),
            {"box": [1, 2, 3, 4], "clear_old_points": False},
            ValueError,
        ),
        ("remove_object", (1,), {"strict": True}, RuntimeError),
    ],
)
def test_errors(both: Both, name: str, args: Any, kwargs: Any, error: Any) -> None:
    for predictor, state in both:
        with pytest.raises(error) as caught:
            getattr(predictor, name)(state, *args, **kwargs)
        if isinstance(predictor, SAM2VideoPredictor):
            assert "expected" in str(caught.value)


def test_a_clip(checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    with ClipWriter(path, 10) as writer:
        for frame in upstream_video.clip(COUNT, HW):
            writer.add(frame)
    predictor = SAM2VideoPredictor(sam_rlx.load_model(checkpoint))
    for source in (str(path), path.read_bytes()):
        state = predictor.init_state(source)
        assert (state["num_frames"], state["video_height"], state["video_width"]) == (COUNT, *HW)
        assert state["images"][3].shape == (128, 128, 3)
        predictor.add_new_points_or_box(state, 0, 1, **CLICK)
        assert len(list(predictor.propagate_in_video(state))) == COUNT
    with pytest.raises(NotImplementedError, match="MP4"):
        predictor.init_state("clip.avi")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RuntimeError, match="expected JPEG files"):
        predictor.init_state(str(tmp_path / "empty"))
