"""The image predictor: shapes, batches, embeddings, states and threads."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from sam_rlx import CheckpointError, InvalidArgumentError, StateError
from support import saved_files

POINTS = [[300.0, 200.0], [80.0, 350.5]]
LABELS = [1, 0]
BOX = [150.0, 40.0, 420.0, 330.0]


def _same(left: sam_rlx.MaskPrediction, right: sam_rlx.MaskPrediction) -> None:
    for name in ("masks", "iou_predictions", "low_res_masks"):
        a, b = getattr(left, name), getattr(right, name)
        assert a.shape == b.shape, name
        assert a.dtype == b.dtype, name
        assert a.tobytes() == b.tobytes(), name


def test_shapes_and_types(predictor: sam_rlx.ImagePredictor) -> None:
    side = predictor.model.mask_side
    for multimask, count in ((True, 3), (False, 1)):
        found = predictor.predict(
            point_coords=POINTS, point_labels=LABELS, multimask_output=multimask
        )
        assert found.masks.shape == (count, 400, 600)
        assert found.masks.dtype == np.bool_
        assert found.iou_predictions.shape == (count,)
        assert found.iou_predictions.dtype == np.float32
        assert found.low_res_masks.shape == (count, side, side)
        assert found.low_res_masks.dtype == np.float32


def test_logits_are_the_masks_before_the_threshold(predictor: sam_rlx.ImagePredictor) -> None:
    masks = predictor.predict(box=BOX).masks
    logits = predictor.predict(box=BOX, return_logits=True).masks
    assert logits.dtype == np.float32
    np.testing.assert_array_equal(logits > predictor.model.mask_threshold, masks)


def test_best_is_the_highest_predicted_iou(predictor: sam_rlx.ImagePredictor) -> None:
    single = predictor.predict(point_coords=POINTS, point_labels=LABELS)
    index, value = single.best()
    assert index == int(np.argmax(single.iou_predictions))
    assert value == float(single.iou_predictions.max())
    batch = predictor.predict(box=[BOX, BOX])
    assert batch.best().index.tolist() == [np.argmax(row) for row in batch.iou_predictions]
    assert batch.best().iou_prediction.tolist() == batch.iou_predictions.max(axis=1).tolist()


def test_the_result_cannot_be_changed(predictor: sam_rlx.ImagePredictor) -> None:
    with pytest.raises(AttributeError):
        predictor.predict(box=BOX).masks = None  # type: ignore[misc]


@pytest.mark.parametrize("with_box", [False, True])
@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize("multimask", [False, True])
def test_a_batch_of_prompts_equals_the_loop(
    predictor: sam_rlx.ImagePredictor, with_box: bool, with_mask: bool, multimask: bool
) -> None:
    generator = np.random.default_rng(0)
    prompts: dict[str, np.ndarray] = {
        "point_coords": generator.uniform(0, 400, (5, 2, 2)),
        "point_labels": np.array([[1, 0], [1, 1], [0, 1], [1, -1], [-1, -1]]),
    }
    if with_box:
        prompts["box"] = np.sort(generator.uniform(0, 400, (5, 2, 2)), axis=1).reshape(5, 4)
    if with_mask:
        side = predictor.model.mask_side
        prompts["mask_input"] = generator.normal(0, 4, (5, side, side)).astype(np.float32)
    batch = predictor.predict(**prompts, multimask_output=multimask)
    assert batch.masks.shape[:2] == (5, 3 if multimask else 1)
    for index in range(5):
        single = predictor.predict(
            **{name: values[index] for name, values in prompts.items()},
            multimask_output=multimask,
        )
        _same(
            single,
            sam_rlx.MaskPrediction(
                batch.masks[index], batch.iou_predictions[index], batch.low_res_masks[index]
            ),
        )


def test_boxes_alone_and_an_empty_batch(predictor: sam_rlx.ImagePredictor) -> None:
    boxes = predictor.predict(box=[BOX, [0, 0, 50, 60]], multimask_output=False)
    assert boxes.masks.shape == (2, 1, 400, 600)
    empty = predictor.predict(box=np.zeros((0, 4)))
    assert empty.masks.shape == (0, 3, 400, 600)
    assert empty.best().index.shape == (0,)


def test_no_points_yet(predictor: sam_rlx.ImagePredictor) -> None:
    """Lists that are empty are no points, as before the first click, and no boxes."""
    alone = predictor.predict(box=BOX)
    for points, labels in (([], []), (np.zeros((0, 2)), np.zeros(0))):
        with_none = predictor.predict(point_coords=points, point_labels=labels, box=BOX)
        _same(with_none, alone)
    assert predictor.predict(box=[]).masks.shape == (0, 3, 400, 600)
    with pytest.raises(InvalidArgumentError, match="point_labels: expected shape"):
        predictor.predict(point_coords=[], point_labels=[1], box=BOX)


def test_a_mask_of_a_result_goes_in_again(predictor: sam_rlx.ImagePredictor) -> None:
    first = predictor.predict(point_coords=POINTS, point_labels=LABELS)
    best = first.best().index
    bare = predictor.predict(
        point_coords=POINTS, point_labels=LABELS, mask_input=first.low_res_masks[best]
    )
    upstream_style = predictor.predict(
        point_coords=POINTS, point_labels=LABELS, mask_input=first.low_res_masks[best][None]
    )
    assert bare.masks.shape == (3, 400, 600)
    _same(bare, upstream_style)
    assert bare.low_res_masks.tobytes() != first.low_res_masks.tobytes()


def test_many_prompts_on_one_image_equal_fresh_predictors(
    model: sam_rlx.Model, image: np.ndarray, predictor: sam_rlx.ImagePredictor
) -> None:
    predictor.predict(box=BOX)
    predictor.predict(point_coords=[[5, 5]], point_labels=[0])
    kept = predictor.predict(point_coords=POINTS, point_labels=LABELS)
    fresh = sam_rlx.ImagePredictor(model, num_threads=2)
    fresh.set_image(image)
    _same(kept, fresh.predict(point_coords=POINTS, point_labels=LABELS))


def test_a_batch_of_images_equals_the_loop(
    model: sam_rlx.Model, images: dict[str, np.ndarray]
) -> None:
    every = list(images.values())
    batch, loop = sam_rlx.ImagePredictor(model), sam_rlx.ImagePredictor(model)
    batch.set_images(every)
    assert batch.num_images == len(every)
    for index in reversed(range(len(every))):
        batch.select(index)
        loop.set_image(every[index])
        assert batch.orig_hw == loop.orig_hw == every[index].shape[:2]
        assert batch.input_hw == loop.input_hw
        _same(
            batch.predict(point_coords=[[1, 1]], point_labels=[1]),
            loop.predict(point_coords=[[1, 1]], point_labels=[1]),
        )


def test_a_batch_of_images_with_a_wrong_one_changes_nothing(
    predictor: sam_rlx.ImagePredictor, image: np.ndarray
) -> None:
    before = predictor.predict(box=BOX)
    with pytest.raises(InvalidArgumentError):
        predictor.set_images([image, image.astype(np.int64)])
    with pytest.raises(InvalidArgumentError):
        predictor.set_images([])
    with pytest.raises(InvalidArgumentError, match="sequence of images"):
        predictor.set_images(image)
    assert predictor.num_images == 0
    _same(before, predictor.predict(box=BOX))


def test_select_needs_a_batch_and_a_valid_index(
    predictor: sam_rlx.ImagePredictor, image: np.ndarray
) -> None:
    with pytest.raises(StateError, match="set_images"):
        predictor.select(0)
    predictor.set_images([image])
    for index in (1, -1, True, 0.0):
        with pytest.raises(InvalidArgumentError, match="index"):
            predictor.select(index)  # type: ignore[arg-type]
    predictor.set_image(image)
    with pytest.raises(StateError):
        predictor.select(0)


def test_an_embedding_moves_between_predictors_and_files(
    model: sam_rlx.Model, predictor: sam_rlx.ImagePredictor, tmp_path: Path
) -> None:
    expected = predictor.predict(point_coords=POINTS, point_labels=LABELS)
    embedding = predictor.image_embedding
    assert embedding.ndim == 4
    assert embedding.dtype == np.float32
    other = sam_rlx.ImagePredictor(model)
    other.set_image_embedding(embedding, (400, 600))
    _same(expected, other.predict(point_coords=POINTS, point_labels=LABELS))
    embedding[...] = 0  # a copy: the predictor keeps its own
    _same(expected, predictor.predict(point_coords=POINTS, point_labels=LABELS))
    path = tmp_path / "new" / "cup.embedding"
    predictor.save_embedding(path)
    assert [entry.name for entry in path.parent.iterdir()] == ["cup.embedding"]
    loaded = sam_rlx.ImagePredictor(model)
    loaded.load_embedding(path)
    assert loaded.orig_hw == (400, 600)
    _same(expected, loaded.predict(point_coords=POINTS, point_labels=LABELS))


def test_damaged_and_foreign_embedding_files_are_refused(
    predictor: sam_rlx.ImagePredictor, tmp_path: Path
) -> None:
    good = tmp_path / "good.safetensors"
    predictor.save_embedding(good)
    fields = saved_files.read(good)
    changes: dict[str, dict[str, object]] = {
        "format": {"format": "something else"},
        "family": {"family": "sam9"},
        "variant": {"variant": "vit_x"},
        "img_size": {"img_size": "7"},
        "embedding": {"image_embedding": fields["image_embedding"][:, :, :1]},
        "orig_hw": {"orig_hw": "[0, 5]"},
    }
    bad = tmp_path / "bad.safetensors"
    for name, change in changes.items():
        saved_files.write(bad, {**fields, **change})
        with pytest.raises(CheckpointError, match=r"bad.safetensors: expected"):
            predictor.load_embedding(bad)
        saved_files.write(bad, {key: fields[key] for key in fields if key not in change})
        with pytest.raises(CheckpointError, match=r"bad.safetensors: expected"):
            predictor.load_embedding(bad)
        assert predictor.orig_hw == (400, 600), name
    bad.write_bytes(good.read_bytes()[:2000])
    with pytest.raises(CheckpointError, match=r"bad.safetensors: .*expected"):
        predictor.load_embedding(bad)
    with pytest.raises(FileNotFoundError):
        predictor.load_embedding(tmp_path / "absent.safetensors")


def test_state_errors_before_an_image_and_after_reset(
    model: sam_rlx.Model, predictor: sam_rlx.ImagePredictor, tmp_path: Path
) -> None:
    empty = sam_rlx.ImagePredictor(model)
    predictor.reset_image()
    for case in (empty, predictor):
        assert case.orig_hw is None
        assert case.input_hw is None
        with pytest.raises(StateError, match="set_image"):
            case.predict(box=BOX)
        with pytest.raises(StateError, match="set_image"):
            _ = case.image_embedding
        with pytest.raises(StateError, match="set_image"):
            case.save_embedding(tmp_path / "x.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_one_predictor_serves_one_thread_at_a_time(model: sam_rlx.Model, image: np.ndarray) -> None:
    predictor = sam_rlx.ImagePredictor(model, num_threads=1)
    predictor.set_image(image)
    expected = predictor.predict(box=BOX)
    refused, wrong = [], []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        for _ in range(20):
            try:
                found = predictor.predict(box=BOX)
            except StateError as error:
                refused.append(str(error))
            else:
                if found.masks.tobytes() != expected.masks.tobytes():
                    wrong.append(found)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all("in use" in text for text in refused)
    _same(expected, predictor.predict(box=BOX))


def test_threads_share_a_model(model: sam_rlx.Model, image: np.ndarray) -> None:
    results: list[bytes] = []

    def work() -> None:
        predictor = sam_rlx.ImagePredictor(model, num_threads=1)
        predictor.set_image(image)
        results.append(predictor.predict(box=BOX).low_res_masks.tobytes())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert len(set(results)) == 1
