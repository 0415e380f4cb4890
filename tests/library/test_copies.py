"""Copies and pickles of models, predictors and generators."""

from __future__ import annotations

import copy
import multiprocessing
import operator
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx

POINT = {"point_coords": [[300, 200]], "point_labels": [1]}
LOOSE = {"points_per_side": 3, "pred_iou_thresh": 0.0, "stability_score_thresh": 0.0}


def round_trip(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def test_a_copy_of_a_model_is_the_model(model: sam_rlx.Model) -> None:
    assert copy.copy(model) is copy.deepcopy(model) is model
    assert copy.deepcopy({"models": [model]})["models"][0] is model


def test_a_pickled_model_is_loaded_again(tiny_checkpoint: Path, image: np.ndarray) -> None:
    model = sam_rlx.load_model(tiny_checkpoint, precision="int8", image_size=112)
    again = round_trip(model)
    assert again is not model
    for name in ("family", "variant", "precision", "img_size", "isa", "config", "num_parameters"):
        assert getattr(again, name) == getattr(model, name), name
    results = []
    for each in (model, again):
        predictor = sam_rlx.ImagePredictor(each)
        predictor.set_image(image)
        results.append(predictor.predict(**POINT).low_res_masks)
    assert results[0].tobytes() == results[1].tobytes()
    assert len(pickle.dumps(model)) < 2000  # no weights


def test_the_instruction_set_that_was_asked_for_stays(tiny_checkpoint: Path) -> None:
    assert round_trip(sam_rlx.load_model(tiny_checkpoint, isa="generic")).isa == "generic"


def test_a_relative_path_may_be_read_elsewhere(
    tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tiny_checkpoint.parent)
    data = pickle.dumps(sam_rlx.load_model(tiny_checkpoint.name))
    monkeypatch.chdir(tmp_path)
    assert pickle.loads(data).family == "sam"


def test_packaged_models_go_by_their_name() -> None:
    """Another installation has them in another folder."""
    data = pickle.dumps(sam_rlx.load_model("sam-nano"))
    assert str(Path(sam_rlx.__file__).parent).encode() not in data
    assert pickle.loads(data).variant == "sam-nano"


def test_a_file_that_is_gone_or_another_one(tiny_checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    shutil.copy(tiny_checkpoint, path)
    data = pickle.dumps(sam_rlx.load_model(path))
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors"):
        pickle.loads(data)
    shutil.copy(sam_rlx.load_model("sam2-nano").source, path)
    with pytest.raises(sam_rlx.CheckpointError, match="expected the model that was pickled"):
        pickle.loads(data)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, round_trip])
def test_image_predictors(model: sam_rlx.Model, images: dict[str, np.ndarray], how: Any) -> None:
    predictor = sam_rlx.ImagePredictor(model, num_threads=1)
    with pytest.raises(sam_rlx.StateError):
        how(predictor).predict(**POINT)
    predictor.set_images([images["wide 400x600"], images["tall 451x300"]])
    predictor.select(1)
    again = how(predictor)
    assert again.orig_hw == (451, 300)
    assert again.num_images == 2
    again.select(0)
    assert predictor.orig_hw == (451, 300)  # the copy has a state of its own
    predictor.select(0)
    for name in ("masks", "iou_predictions", "low_res_masks"):
        left, right = (getattr(x.predict(**POINT), name) for x in (predictor, again))
        assert left.tobytes() == right.tobytes()


def test_concept_predictors(images: dict[str, np.ndarray]) -> None:
    predictor = sam_rlx.ConceptPredictor(sam_rlx.load_model("sam3-nano"))
    assert round_trip(predictor).orig_hw is None
    predictor.set_images([images["wide 400x600"], images["tall 451x300"]])
    expected = predictor.predict(text="circle", threshold=0.01)
    again = round_trip(predictor)
    found = again.predict(text="circle", threshold=0.01)
    assert found.masks.tobytes() == expected.masks.tobytes()
    assert found.scores.tobytes() == expected.scores.tobytes()
    again.select(1)
    assert (again.orig_hw, predictor.orig_hw) == ((451, 300), (400, 600))


def test_mask_generators(model: sam_rlx.Model, image: np.ndarray) -> None:
    generator = sam_rlx.MaskGenerator(model, **LOOSE, output_mode="coco_rle", crop_n_layers=1)
    expected = generator.generate(image)
    found = round_trip(generator).generate(image)
    assert [dict(x) for x in found] == [dict(x) for x in expected] != []


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_video_session_says_how_it_is_kept(sam2_model: sam_rlx.Model, how: Any) -> None:
    video = sam_rlx.VideoPredictor(sam2_model, np.zeros((2, 40, 50, 3), np.uint8))
    with pytest.raises(sam_rlx.UnsupportedError, match=r"expected save\(\) and load\(\)"):
        how(video)


def test_a_model_passes_through_spawn(model: sam_rlx.Model) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        # Not a function of this module, which the other process may not find.
        family = pool.apply_async(operator.attrgetter("family"), (model,))
        assert family.get(timeout=60) == "sam"
