"""Forms in which programs call the click models of transformers: taken or refused as upstream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sam_rlx.compat.transformers as drop_in
from sam_rlx.errors import SamRlxError

transformers = pytest.importorskip("transformers", minversion="5")
torch = pytest.importorskip("torch")

from support import transformers_models as upstream  # noqa: E402

Form = Callable[[Any, str], dict[str, Any]]
# Upstream's outcomes: shapes of masks, or the exceptions that it raises. "refused": ours alone.
ONE, SINGLE, THREE, TWO = (1, 1, 3), (1, 1, 1), (1, 3, 3), (2, 1, 3)
POINT = [[[[40.0, 30.0]]]]
BOX = [[[1.0, 2.0, 30.0, 40.0]]]
POINTS = [[[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]]
TWO_OBJECTS = [[[[40.0, 30.0]], [[50.0, 60.0]]]]


def pixels(name: str, count: int = 1, side: int | None = None) -> Any:
    side = upstream.inputs(name)["pixel_values"].shape[-1] if side is None else side
    values = np.random.default_rng(2).standard_normal((count, 3, side, side))
    return torch.from_numpy(values.astype(np.float32))


def click(label: Any = 1, dtype: Any = None) -> Form:
    def form(_model: Any, name: str) -> dict[str, Any]:
        labels = torch.tensor([[[label]]], dtype=dtype)
        values = {"input_points": torch.tensor(POINT), "input_labels": labels}
        return {"pixel_values": pixels(name), **values}

    return form


def given(count: int = 1, side: int | None = None, **values: Any) -> Form:
    def form(_model: Any, name: str) -> dict[str, Any]:
        made = {
            key: torch.tensor(value) if isinstance(value, list) else value
            for key, value in values.items()
        }
        return {"pixel_values": pixels(name, count, side), **made}

    return form


def masked(side: int | None = None) -> Form:
    def form(_model: Any, name: str) -> dict[str, Any]:
        low = upstream.mask_side(name) if side is None else side
        values = np.random.default_rng(2).standard_normal((1, 1, low, low))
        return {
            "pixel_values": pixels(name),
            "input_points": torch.tensor(POINT),
            "input_masks": torch.from_numpy(values.astype(np.float32)),
        }

    return form


def embedded(both: bool = False) -> Form:
    def form(model: Any, name: str) -> dict[str, Any]:
        values = {"image_embeddings": model.get_image_embeddings(pixels(name))}
        more = {"pixel_values": pixels(name)} if both else {}
        return {**values, **more, "input_points": torch.tensor(POINT)}

    return form


FORMS: dict[str, tuple[Form, Any, Any]] = {
    # name: form, outcome with SAM, outcome with SAM 2
    "point": (given(input_points=POINT), ONE, ONE),
    "box": (given(input_boxes=BOX), ONE, ONE),
    "both": (given(input_points=POINT, input_boxes=BOX), ONE, ONE),
    "nothing": (given(), ONE, ONE),
    "mask": (masked(), ONE, ONE),
    "label 5": (click(5), ONE, IndexError),
    "label 3": (click(3), ONE, ONE),
    "label -1": (click(-1), ONE, ONE),
    "label -10": (click(-10), ONE, ONE),
    "label -3": (click(-3), ONE, ONE),
    "labels float32": (click(1.0), ONE, RuntimeError),
    "labels bool": (click(True), ONE, ONE),
    "labels int32": (click(1, torch.int32), ONE, ONE),
    "labels uint8": (click(1, torch.uint8), ONE, RuntimeError),
    "three points": (given(input_points=[[[[40.0, 30.0], [1, 2], [3, 4]]]]), ONE, ONE),
    "embeddings": (embedded(), ONE, ONE),
    "unknown keyword": (given(input_points=POINT, nonsense=1), ONE, ONE),
    "single mask": (given(input_points=POINT, multimask_output=False), SINGLE, SINGLE),
    "three objects by points": (given(input_points=POINTS), THREE, THREE),
    "three objects by boxes": (given(input_boxes=[BOX[0] * 3]), THREE, THREE),
    "tuple": (given(input_points=POINT, return_dict=False), tuple, tuple),
    "two images": (given(2, input_points=POINT * 2), TWO, TWO),
    "attentions": (given(input_points=POINT, output_attentions=True), "refused", "refused"),
    "hidden states": (given(input_points=POINT, output_hidden_states=True), "refused", "refused"),
    "points of three axes": (given(input_points=POINT[0]), ValueError, IndexError),
    "two objects, one box": (
        given(input_points=TWO_OBJECTS, input_boxes=BOX),
        ValueError,
        ValueError,
    ),
    "pixels and embeddings": (embedded(both=True), ValueError, ValueError),
    "neither": (
        lambda _model, _name: {"input_points": torch.tensor(POINT)},
        ValueError,
        ValueError,
    ),
    "side 64": (given(side=64, input_points=POINT), ValueError, RuntimeError),
    "two images, one prompt": (given(2, input_points=POINT), ValueError, RuntimeError),
    "mask of another side": (masked(128), RuntimeError, ONE),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Any:
    found = {}
    for name in ("SamModel", "Sam2Model"):
        path = upstream.save(name, tmp_path_factory.mktemp("forms") / name)
        found[name] = getattr(drop_in, name).from_pretrained(path)
    return found


def outcome(model: Any, values: dict[str, Any]) -> Any:
    """Return what a call gives: names, types and shapes of fields, or the type of the error."""
    try:
        with torch.no_grad():
            found = model(**values)
    except Exception as error:
        return type(error)
    if isinstance(found, tuple):
        return tuple
    return {name: (value.dtype, tuple(value.shape)) for name, value in shown(found)}


def shown(output: Any) -> Any:
    for name, value in output.items():
        parts = value if isinstance(value, (list, tuple)) else [value]
        yield from ((f"{name} {i}", part) for i, part in enumerate(parts))


@pytest.mark.parametrize("name", ["SamModel", "Sam2Model"])
@pytest.mark.parametrize("form", FORMS)
def test_forms_have_upstreams_outcome(name: str, form: str, models: Any):
    make, *expected = FORMS[form]
    stored = expected[name == "Sam2Model"]
    model = models[name]
    found = outcome(model, make(model, name))
    if stored == "refused":
        assert issubclass(found, NotImplementedError)
        assert issubclass(found, SamRlxError)
        return
    network = upstream.model(name)
    theirs = outcome(network, make(network, name))
    if isinstance(stored, type) and stored is not tuple:
        assert issubclass(theirs, stored)
        assert issubclass(found, stored)
        assert issubclass(found, SamRlxError)
        return
    assert found == theirs
    if stored is not tuple:
        low = upstream.mask_side(name)
        assert found["pred_masks 0"] == (torch.float32, (*stored, low, low))
        assert found["iou_scores 0"] == (torch.float32, stored)


def test_labels_without_a_meaning_are_positions_alone(models: Any):
    values = given(input_points=POINT)(None, "SamModel")
    masks = [
        np.asarray(models["SamModel"](**values, input_labels=torch.tensor([[[label]]])).pred_masks)
        for label in (5, 7, 0.5, 1)
    ]
    assert (masks[0] == masks[1]).all()
    assert (masks[0] == masks[2]).all()
    assert (masks[0] != masks[3]).any()
