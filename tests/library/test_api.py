"""Every public entry against the error table: the right class, and a text that helps."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx import errors, io, viz

BASES = {
    "InvalidArgumentError": ValueError,
    "CheckpointError": ValueError,
    "UnsupportedError": NotImplementedError,
    "StateError": RuntimeError,
    "InternalError": RuntimeError,
    "MissingExtraError": ImportError,
    "HubError": OSError,
}
FORM = re.compile(r".+: expected .+, found .+", re.DOTALL)


def test_every_error_has_the_common_and_a_builtin_base() -> None:
    found = {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type)
        and issubclass(value, Exception)
        and value not in (errors.SamRlxError, errors.TruncationWarning, errors.MediaWarning)
    }
    assert found.keys() == BASES.keys()
    for name, builtin in BASES.items():
        assert issubclass(found[name], errors.SamRlxError)
        assert issubclass(found[name], builtin)
        assert getattr(sam_rlx, name) is found[name]


def test_the_public_names() -> None:
    assert sorted(sam_rlx.__all__) == sam_rlx.__all__
    classes = {"ImagePredictor", "MaskGenerator", "MaskPrediction", "MaskRecord", "Model"}
    classes |= {"ConceptExamples", "ConceptPrediction", "ConceptPredictor", "RawDetections"}
    classes |= {"MaskRecords", "Objects", "VideoFrame", "VideoPredictor"}
    functions = {"build_info", "convert", "load_model"}
    others = {"MediaWarning", "SamRlxError", "Tokenizer", "TruncationWarning"}
    assert set(sam_rlx.__all__) == {*BASES, *classes, *functions, *others}
    for name in sam_rlx.__all__:
        assert getattr(sam_rlx, name).__doc__


def test_build_info_tells_the_truth() -> None:
    found = sam_rlx.build_info()
    assert found["device"] == "cpu"
    assert "generic" in found["available_isas"]
    assert set(found["available_isas"]) <= set(found["compiled_isas"])


def test_the_model_tells_the_truth(model: sam_rlx.Model, tiny_checkpoint: Path) -> None:
    assert (model.family, model.precision, model.device) == ("sam", "float32", "cpu")
    assert model.isa in sam_rlx.build_info()["available_isas"]
    assert model.img_size == 128
    assert model.mask_side == 32
    assert model.mask_threshold == 0.0
    assert model.num_parameters > 0
    assert model.source == str(tiny_checkpoint)
    assert model.report()["missing"] == []
    assert model.report()["unexpected"] == []
    model.report()["missing"].append("x")
    model.config.clear()
    assert model.report()["missing"] == []
    assert model.config
    assert "sam" in repr(model)


PREDICT: list[tuple[dict[str, Any], str]] = [
    ({}, "prompts: expected point_coords, box or mask_input"),
    ({"point_coords": [[1, 2]]}, "point_labels: expected an array beside point_coords"),
    ({"point_labels": [1]}, "point_coords: expected an array beside point_labels"),
    ({"point_coords": [1, 2], "point_labels": [1]}, "point_coords: expected shape"),
    ({"point_coords": [[1, 2, 3]], "point_labels": [1]}, "point_coords: expected shape"),
    ({"point_coords": np.zeros((0, 2)), "point_labels": []}, "point_coords: expected shape"),
    ({"point_coords": np.zeros((1, 1, 1, 2)), "point_labels": [1]}, "point_coords: expected shape"),
    ({"point_coords": [["a", "b"]], "point_labels": [1]}, "point_coords: expected numbers"),
    ({"point_coords": [[1, 2], [3]], "point_labels": [1]}, "point_coords: expected an array"),
    ({"point_coords": [[1j, 2]], "point_labels": [1]}, "point_coords: expected numbers"),
    ({"point_coords": [[np.nan, 2]], "point_labels": [1]}, "point_coords: expected finite"),
    ({"point_coords": [[1, np.inf]], "point_labels": [1]}, "point_coords: expected finite"),
    # Their encoding would be infinite in float32, and the masks NaN.
    ({"point_coords": [[1, -1e300]], "point_labels": [1]}, "point_coords: expected pixels from"),
    ({"box": [0, 0, 1, 1e38]}, "box: expected pixels from -1e.09 to 1e.09, found 1e.38"),
    ({"point_coords": [[1, 2]], "point_labels": [1, 0]}, "point_labels: expected shape"),
    ({"point_coords": [[1, 2]], "point_labels": 1}, "point_labels: expected shape"),
    ({"point_coords": [[1, 2]], "point_labels": [2]}, "point_labels: expected 1"),
    ({"point_coords": [[1, 2]], "point_labels": [-2]}, "point_labels: expected 1"),
    ({"point_coords": [[1, 2]], "point_labels": [0.5]}, "point_labels: expected 1"),
    ({"point_coords": [[1, 2]], "point_labels": [np.nan]}, "point_labels: expected 1"),
    ({"point_coords": [[1, 2]], "point_labels": ["1"]}, "point_labels: expected numbers"),
    ({"box": [1, 2, 3]}, "box: expected shape"),
    ({"box": np.zeros((1, 1, 4))}, "box: expected shape"),
    ({"box": [5, 2, 3, 9]}, "box: expected .x0, y0, x1, y1. with x0 <= x1"),
    ({"box": [[0, 0, 1, 1], [5, 9, 6, 2]]}, "box: expected .x0, y0, x1, y1. with x0 <= x1"),
    ({"box": [0, 0, np.nan, 4]}, "box: expected finite"),
    ({"mask_input": np.zeros((31, 32))}, "mask_input: expected logits"),
    ({"mask_input": np.zeros((1, 1, 32, 32))}, "mask_input: expected logits"),
    ({"mask_input": np.zeros((32, 32), bool)}, "mask_input: expected numbers"),
    ({"mask_input": np.full((32, 32), np.inf)}, "mask_input: expected finite"),
    (
        {"point_coords": np.zeros((2, 1, 2)), "point_labels": [[1], [1]], "box": np.ones((3, 4))},
        "prompts: expected the same number of sets",
    ),
    (
        {"point_coords": [[1, 2]], "point_labels": [1], "box": np.ones((2, 4))},
        "prompts: expected the same number of sets",
    ),
]


@pytest.mark.parametrize(("arguments", "text"), PREDICT)
def test_predict_refuses_wrong_prompts_and_stays_usable(
    predictor: sam_rlx.ImagePredictor, arguments: dict[str, Any], text: str
) -> None:
    before = predictor.predict(box=[10, 20, 300, 200])
    with pytest.raises(sam_rlx.InvalidArgumentError, match=text) as error:
        predictor.predict(**arguments)
    assert FORM.match(str(error.value))
    after = predictor.predict(box=[10, 20, 300, 200])
    assert before.low_res_masks.tobytes() == after.low_res_masks.tobytes()


Call = Callable[[sam_rlx.Model, sam_rlx.ImagePredictor, Path], Any]
IMAGE = np.zeros((4, 5, 3), np.uint8)
EMBEDDING = np.zeros((1, 64, 8, 8), np.float32)
TABLE: list[tuple[str, Call, type[Exception]]] = [
    ("load_model type", lambda m, p, d: sam_rlx.load_model(3), sam_rlx.InvalidArgumentError),  # type: ignore[arg-type]
    ("load_model absent", lambda m, p, d: sam_rlx.load_model(d / "no.pth"), FileNotFoundError),
    ("load_model no name", lambda m, p, d: sam_rlx.load_model(""), FileNotFoundError),
    ("load_model name", lambda m, p, d: sam_rlx.load_model("sam-giant"), FileNotFoundError),
    (
        "load_model hub argument for a file",
        lambda m, p, d: sam_rlx.load_model(m.source, revision="main"),
        sam_rlx.InvalidArgumentError,
    ),
    (
        "load_model damaged",
        lambda m, p, d: sam_rlx.load_model(_file(d / "x.safetensors", b"\x09" * 100)),
        sam_rlx.CheckpointError,
    ),
    (
        "load_model no checkpoint",
        lambda m, p, d: sam_rlx.load_model(_file(d / "x.pth", b"hello")),
        sam_rlx.CheckpointError,
    ),
    ("load_model empty directory", lambda m, p, d: sam_rlx.load_model(d), sam_rlx.CheckpointError),
    (
        "load_model variant",
        lambda m, p, d: sam_rlx.load_model(m.source, variant="vit_h"),
        sam_rlx.SamRlxError,
    ),
    (
        "load_model precision",
        lambda m, p, d: sam_rlx.load_model(m.source, precision="float12"),
        sam_rlx.UnsupportedError,
    ),
    (
        "load_model isa",
        lambda m, p, d: sam_rlx.load_model(m.source, isa="sse9"),
        sam_rlx.UnsupportedError,
    ),
    ("predictor model", lambda m, p, d: sam_rlx.ImagePredictor("x"), sam_rlx.InvalidArgumentError),  # type: ignore[arg-type]
    (
        "predictor threads",
        lambda m, p, d: sam_rlx.ImagePredictor(m, num_threads=0),
        sam_rlx.InvalidArgumentError,
    ),
    (
        "predictor threads type",
        lambda m, p, d: sam_rlx.ImagePredictor(m, num_threads=True),
        sam_rlx.InvalidArgumentError,
    ),
    ("set_image", lambda m, p, d: p.set_image("cup.png"), sam_rlx.InvalidArgumentError),
    ("set_images", lambda m, p, d: p.set_images([]), sam_rlx.InvalidArgumentError),
    ("select", lambda m, p, d: p.select(0), sam_rlx.StateError),
    (
        "embedding shape",
        lambda m, p, d: p.set_image_embedding(EMBEDDING[0], (5, 5)),
        sam_rlx.InvalidArgumentError,
    ),
    (
        "embedding dtype",
        lambda m, p, d: p.set_image_embedding(EMBEDDING.astype(np.float64), (5, 5)),
        sam_rlx.InvalidArgumentError,
    ),
    (
        "embedding values",
        lambda m, p, d: p.set_image_embedding(EMBEDDING * np.nan, (5, 5)),
        sam_rlx.InvalidArgumentError,
    ),
    (
        "embedding size",
        lambda m, p, d: p.set_image_embedding(EMBEDDING, (0, 5)),
        sam_rlx.InvalidArgumentError,
    ),
    (
        "embedding size type",
        lambda m, p, d: p.set_image_embedding(EMBEDDING, 5),  # type: ignore[arg-type]
        sam_rlx.InvalidArgumentError,
    ),
    ("generator model", lambda m, p, d: sam_rlx.MaskGenerator(3), sam_rlx.InvalidArgumentError),  # type: ignore[arg-type]
    (
        "generate",
        lambda m, p, d: sam_rlx.MaskGenerator(m).generate(None),
        sam_rlx.InvalidArgumentError,
    ),
    ("read_image", lambda m, p, d: io.read_image(d / "no.png"), FileNotFoundError),
    (
        "write_image",
        lambda m, p, d: io.write_image(d / "x.tiff", np.zeros((2, 2, 3), np.uint8)),
        sam_rlx.InvalidArgumentError,
    ),
    (
        "overlay shape",
        lambda m, p, d: viz.overlay(np.zeros((4, 5, 3), np.uint8), [np.zeros((5, 4), bool)]),
        sam_rlx.InvalidArgumentError,
    ),
    (
        "overlay labels",
        lambda m, p, d: viz.overlay(IMAGE, [], point_coords=[[1, 1]], point_labels=[2]),
        sam_rlx.InvalidArgumentError,
    ),
    (
        "overlay label count",
        lambda m, p, d: viz.overlay(IMAGE, [], point_coords=[[1, 1]], point_labels=[1, 0]),
        sam_rlx.InvalidArgumentError,
    ),
    (
        "overlay identities",
        lambda m, p, d: viz.overlay(np.zeros((4, 5, 3), np.uint8), [], identities=[1]),
        sam_rlx.InvalidArgumentError,
    ),
]


def _file(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(("name", "call", "error"), TABLE, ids=[row[0] for row in TABLE])
def test_errors(
    model: sam_rlx.Model,
    predictor: sam_rlx.ImagePredictor,
    tmp_path: Path,
    name: str,
    call: Call,
    error: type[Exception],
) -> None:
    with pytest.raises(error) as found:
        call(model, predictor, tmp_path)
    if isinstance(found.value, sam_rlx.SamRlxError):
        assert FORM.match(str(found.value)), str(found.value)
    assert predictor.orig_hw == (400, 600)
