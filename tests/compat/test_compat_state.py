"""State of upstream's predictors: attributes that programs keep and set, threads, copies."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx.compat.common.turns import Turns
from sam_rlx.compat.sam2.automatic_mask_generator import SAM2AutomaticMaskGenerator
from sam_rlx.compat.sam2.build_sam import build_sam2, build_sam2_video_predictor
from sam_rlx.compat.sam2.sam2_image_predictor import SAM2ImagePredictor
from sam_rlx.compat.sam3 import build_sam3_image_model
from sam_rlx.compat.sam3.model.sam3_image_processor import Sam3Processor
from sam_rlx.compat.segment_anything import SamAutomaticMaskGenerator, SamPredictor
from sam_rlx.compat.segment_anything.modeling import Sam

POINT = {"point_coords": np.array([[300.0, 200.0]]), "point_labels": np.array([1])}
THREADS, CALLS = 4, 6


@pytest.fixture(scope="module")
def sam(model: sam_rlx.Model) -> Sam:
    return Sam(model)


@pytest.fixture(scope="module")
def sam2(sam2_checkpoint: Path) -> Any:
    return build_sam2(None, sam2_checkpoint)


@pytest.fixture(params=["sam", "sam2"])
def make(request: pytest.FixtureRequest, sam: Sam, sam2: Any) -> Any:
    """A function that makes a new predictor of one model."""
    kind, network = {"sam": (SamPredictor, sam), "sam2": (SAM2ImagePredictor, sam2)}[request.param]
    return lambda: kind(network)


def state_of(predictor: Any) -> dict[str, Any]:
    """The attributes that upstream's predictors have of an image."""
    names = (
        ("features", "original_size", "input_size", "is_image_set")
        if isinstance(predictor, SamPredictor)
        else ("_features", "_orig_hw", "_is_image_set")
    )
    return {name: getattr(predictor, name) for name in names}


def put(predictor: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        setattr(predictor, name, value)


def same(left: Any, right: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def test_a_kept_state_gives_the_same_masks(make: Any, images: dict[str, np.ndarray]) -> None:
    both = [images["wide 400x600"], images["tall 451x300"]]
    first = make()
    states, expected = [], []
    for image in both:
        first.set_image(image)
        states.append(state_of(first))
        expected.append(first.predict(**POINT))
    fresh = make()
    for index in (0, 1, 1, 0):
        put(fresh, states[index])
        assert same(fresh.predict(**POINT), expected[index])
    # The predictor that made them, too, in any order.
    put(first, states[0])
    assert same(first.predict(**POINT), expected[0])


def test_a_state_that_went_through_a_file(make: Any, image: np.ndarray, tmp_path: Path) -> None:
    predictor = make()
    predictor.set_image(image)
    expected, state = predictor.predict(**POINT), state_of(predictor)
    path = tmp_path / "state.pickle"
    path.write_bytes(pickle.dumps(state))
    other = make()
    put(other, pickle.loads(path.read_bytes()))
    assert same(other.predict(**POINT), expected)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_a_state_of_sam3_takes_prompts_of_its_own(duplicate: Any) -> None:
    processor = Sam3Processor(build_sam3_image_model(checkpoint_path="sam3-nano"))
    image = Image.fromarray(np.random.default_rng(3).integers(0, 256, (60, 80, 3), np.uint8))
    state = processor.set_text_prompt("red circle", processor.set_image(image))
    processor.set_confidence_threshold(0.0, state)
    kept = state["scores"].clone()
    other = duplicate(state)
    processor.set_text_prompt("blue square", other)
    again = processor.set_text_prompt("blue square", processor.set_image(image))
    for key in ("scores", "boxes", "masks_logits"):
        np.testing.assert_array_equal(other[key], again[key])
    np.testing.assert_array_equal(state["scores"], kept)


def test_features_that_change_in_place(make: Any, image: np.ndarray) -> None:
    predictor = make()
    predictor.set_image(image)
    before = predictor.predict(**POINT)
    features = predictor.get_image_embedding()
    kept = features.clone()
    features *= np.float32(0.5)
    changed = predictor.predict(**POINT)
    assert not same(changed, before)
    features[...] = kept
    assert same(predictor.predict(**POINT), before)


@pytest.mark.parametrize(
    "wrong", [None, 0, {"image_embed": 0}, {}, np.zeros((1, 3, 4, 4), np.float32), "features"]
)
def test_a_wrong_state_is_an_error_and_not_the_old_image(
    make: Any, image: np.ndarray, wrong: Any
) -> None:
    predictor = make()
    predictor.set_image(image)
    predictor.predict(**POINT)
    put(predictor, {"features" if isinstance(predictor, SamPredictor) else "_features": wrong})
    with pytest.raises(sam_rlx.SamRlxError):
        predictor.predict(**POINT)
    predictor.set_image(image)
    predictor.predict(**POINT)


def test_a_flag_that_is_taken_back(make: Any, image: np.ndarray) -> None:
    predictor = make()
    predictor.set_image(image)
    expected = predictor.predict(**POINT)
    flag = "is_image_set" if isinstance(predictor, SamPredictor) else "_is_image_set"
    setattr(predictor, flag, False)
    with pytest.raises(RuntimeError, match="expected an image"):
        predictor.predict(**POINT)
    setattr(predictor, flag, True)
    assert same(predictor.predict(**POINT), expected)


def test_another_size_of_the_image(sam: Sam, image: np.ndarray) -> None:
    """Masks have the size that the state says, as upstream."""
    predictor = SamPredictor(sam)
    predictor.set_image(image)
    predictor.original_size = (200, 300)
    half = predictor.predict(POINT["point_coords"] / 2, POINT["point_labels"])
    assert half[0].shape == (3, 200, 300)
    predictor.original_size = image.shape[:2]
    whole = predictor.predict(**POINT)
    np.testing.assert_array_equal(half[2], whole[2])


def test_a_threshold_that_is_set(sam: Sam, image: np.ndarray) -> None:
    own = Sam(sam.model)
    predictor = SamPredictor(own)
    predictor.set_image(image)
    logits = predictor.predict(**POINT, return_logits=True)[0]
    own.mask_threshold = float(np.median(logits))
    np.testing.assert_array_equal(predictor.predict(**POINT)[0], logits > own.mask_threshold)


def test_nan_leaves_nothing_behind(make: Any, image: np.ndarray) -> None:
    predictor = make()
    predictor.set_image(image)
    before = predictor.predict(**POINT)
    bad = np.array([[np.nan, 3.0]])
    for prompts in (
        {"point_coords": bad, "point_labels": np.ones(1)},
        {"box": np.array([1.0, np.inf, 5.0, 5.0])},
    ):
        with pytest.raises(sam_rlx.SamRlxError, match="finite"):
            predictor.predict(**prompts)
    assert same(predictor.predict(**POINT), before)


# ---------------------------------------------------------------- threads


def test_threads_that_only_predict_wait_for_each_other(make: Any, image: np.ndarray) -> None:
    predictor = make()
    predictor.set_image(image)
    expected = predictor.predict(**POINT)
    found: list[Any] = []

    def work() -> None:
        for _ in range(CALLS):
            try:
                found.append(same(predictor.predict(**POINT), expected))
            except Exception as error:
                found.append(error)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * (THREADS * CALLS)


def test_turns_are_free_in_a_copy() -> None:
    turns = Turns()
    with turns:
        other = copy.deepcopy(turns)
        with other:
            pass
        with pickle.loads(pickle.dumps(turns)):
            pass
    with turns:
        pass


# ---------------------------------------------------------------- copies


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_predictors_can_be_copied(make: Any, image: np.ndarray, how: Any) -> None:
    predictor = make()
    empty = how(predictor)
    with pytest.raises(RuntimeError, match="expected an image"):
        empty.predict(**POINT)
    predictor.set_image(image)
    expected = predictor.predict(**POINT)
    assert same(how(predictor).predict(**POINT), expected)


def test_generators_can_be_pickled(sam: Sam, sam2: Any, image: np.ndarray) -> None:
    options = {"points_per_side": 3, "pred_iou_thresh": 0.0, "stability_score_thresh": 0.0}
    for generator in (
        SamAutomaticMaskGenerator(sam, **options),
        SAM2AutomaticMaskGenerator(sam2, **options),
    ):
        expected = [x["area"] for x in generator.generate(image)]
        again = pickle.loads(pickle.dumps(generator))
        assert [x["area"] for x in again.generate(image)] == expected


def test_models_and_processors_can_be_pickled(sam: Sam, sam2: Any, sam2_checkpoint: Path) -> None:
    video = build_sam2_video_predictor(None, sam2_checkpoint, apply_postprocessing=False)
    sam3 = build_sam3_image_model(checkpoint_path="sam3-nano")
    processor = Sam3Processor(sam3, confidence_threshold=0.25)
    for thing in (sam, sam2, video, sam3, processor):
        assert type(pickle.loads(pickle.dumps(thing))) is type(thing)
    assert pickle.loads(pickle.dumps(processor)).confidence_threshold == 0.25
    assert pickle.loads(pickle.dumps(video)).model.config == video.model.config


@pytest.mark.slow
def test_a_predictor_passes_through_spawn(sam: Sam, image: np.ndarray) -> None:
    predictor = SamPredictor(sam)
    predictor.set_image(image)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        # Not a function of this module, which the other process may not find.
        found = pool.apply_async(predictor.predict, kwds=POINT).get(timeout=60)
    assert same(found, predictor.predict(**POINT))


@pytest.mark.parametrize(
    "prompt",
    [
        {"points": [[np.nan, 3.0]], "labels": [1]},
        {"points": [[5.0, 3.0], [1.0, -np.inf]], "labels": [1, 0]},
        {"box": [1.0, 2.0, np.nan, 9.0]},
    ],
    ids=["nan", "infinity", "box"],
)
def test_nan_leaves_no_object_in_a_video(
    sam2_checkpoint: Path, frames: np.ndarray, tmp_path: Path, prompt: dict[str, Any]
) -> None:
    for index, frame in enumerate(frames[:2]):
        Image.fromarray(frame).save(tmp_path / f"{index}.jpg")
    predictor = build_sam2_video_predictor(None, sam2_checkpoint)
    state = predictor.init_state(str(tmp_path))
    with pytest.raises(sam_rlx.SamRlxError, match="finite"):
        predictor.add_new_points_or_box(state, 0, "a", **prompt)
    assert state["obj_ids"] == []
    assert state["session"].obj_ids == []

    own = sam_rlx.VideoPredictor(sam_rlx.load_model(sam2_checkpoint), frames[:2])
    names = {"points": "point_coords", "labels": "point_labels", "box": "box"}
    with pytest.raises(sam_rlx.InvalidArgumentError, match="finite"):
        own.add_prompt(0, obj_id="a", **{names[key]: value for key, value in prompt.items()})
    assert own.obj_ids == []


@pytest.fixture
def folder(frames: np.ndarray, tmp_path: Path) -> str:
    for index, frame in enumerate(frames[:3]):
        Image.fromarray(frame).save(tmp_path / f"{index}.jpg", quality=95)
    return str(tmp_path)


def test_copies_of_a_video_state_go_on_by_themselves(sam2_checkpoint: Path, folder: str) -> None:
    """As upstream's, whose state is a dict of tensors."""
    predictor = build_sam2_video_predictor(None, sam2_checkpoint)

    def begun() -> Any:
        state = predictor.init_state(folder)
        predictor.add_new_points_or_box(state, 0, "a", points=[[20, 15]], labels=[1])
        return state

    def ended(state: Any, point: list[float]) -> list[Any]:
        predictor.add_new_points_or_box(state, 0, "b", points=[point], labels=[1])
        steps = predictor.propagate_in_video(state)
        return [(frame, list(ids), logits.numpy().tobytes()) for frame, ids, logits in steps]

    expected = [ended(begun(), point) for point in ([30, 20], [5, 9])]
    assert expected[0] != expected[1]
    state = begun()
    other = copy.deepcopy(state)
    assert ended(state, [30, 20]) == expected[0]
    assert other["obj_ids"] == ["a"]
    third = copy.deepcopy(other)
    assert ended(other, [5, 9]) == expected[1]
    assert ended(third, [30, 20]) == expected[0]
    again = copy.deepcopy(state)  # what was tracked is in the copy
    predictor.reset_state(state)
    shown = list(predictor.propagate_in_video(again))
    assert [logits.numpy().tobytes() for _, _, logits in shown] == [x[2] for x in expected[0]]
    with pytest.raises(sam_rlx.UnsupportedError, match="deepcopy"):
        pickle.dumps(state)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("frame_idx", lambda p, s: p.add_new_points_or_box(s, 1.0, 1, [[9, 9]], [1])),
        ("frame_idx", lambda p, s: p.add_new_mask(s, "0", 1, np.ones((4, 4), bool))),
        ("frame_idx", lambda p, s: p.clear_all_prompts_in_frame(s, None, 1)),
        ("obj_id", lambda p, s: p.add_new_points_or_box(s, 0, [1], [[9, 9]], [1])),
        ("start_frame_idx", lambda p, s: list(p.propagate_in_video(s, 0.5))),
        ("max_frame_num_to_track", lambda p, s: list(p.propagate_in_video(s, 0, 1.5))),
    ],
)
def test_numbers_of_a_video_are_checked(
    sam2_checkpoint: Path, folder: str, name: str, call: Any
) -> None:
    predictor = build_sam2_video_predictor(None, sam2_checkpoint)
    state = predictor.init_state(folder)
    predictor.add_new_points_or_box(state, np.int64(0), 7, [[9, 9]], [1])
    with pytest.raises(sam_rlx.InvalidArgumentError, match=f"{name}: expected"):
        call(predictor, state)
    assert state["obj_ids"] == [7]
