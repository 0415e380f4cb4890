"""The protocol of X-AnyLabeling's server: models, and shapes for marks or texts on an image.

In: ``{model, image, params {marks [{type: point | rectangle, data, label}], text_prompt,
conf_threshold}}``. Out: ``{success, data {shapes [{label, shape_type, points, score}]}}``, or
``{success: false, error {code, message}, data}``, as its server also with status 200. Its client
replaces all shapes of the image by those of an answer, unless the data says otherwise, and does not
look whether it is one of success: so errors have data that keeps them.
"""

from collections.abc import Mapping
from typing import Any

from sam_rlx import _core
from sam_rlx._internal.files.base64_text import from_base64
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.predict import prompts_of
from sam_rlx.apps.annotator.values import Box
from sam_rlx.apps.serve.engine import Engine
from sam_rlx.apps.serve.images import bounded
from sam_rlx.errors import InvalidArgumentError, SamRlxError

# What its client calls an object that has no name yet.
_UNNAMED = "AUTOLABEL_OBJECT"
_WIDGETS = (
    *("output_label", "output_select_combobox", "button_add_point", "button_remove_point"),
    *("button_add_rect", "button_clear", "button_finish_object"),
)
_THRESHOLD = 0.5
_VALUES = {"edit_conf": _THRESHOLD}  # without one its field begins with 0: all candidates
_TEXT_WIDGETS = ("edit_text", "button_send", "edit_conf")


def models(engine: Engine) -> dict[str, Any]:
    """Answer ``GET /v1/models``."""
    return {"success": True, "data": {name: _about(engine, name) for name in engine.models}}


def info(engine: Engine, name: str) -> dict[str, Any]:
    """Answer ``GET /v1/models/{name}/info``."""
    if name not in engine.models:
        return failed("MODEL_NOT_FOUND", f"Model {name[:100]!r} not loaded")
    return {"success": True, "data": {"model_id": name, **_about(engine, name)}}


def predict(engine: Engine, request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer ``POST /v1/predict``."""
    try:
        name = engine.name_of(request.get("model"))
    except InvalidArgumentError as error:
        return failed("MODEL_NOT_FOUND", str(error))
    try:
        source = from_base64("image", request.get("image"))
        engine.encode(name, source)
    except InvalidArgumentError as error:
        return failed("INVALID_IMAGE", str(error))
    except SamRlxError as error:  # others use what it needs
        return failed("INFERENCE_ERROR", str(error))
    params = request.get("params") or {}
    try:
        if not isinstance(params, Mapping):
            raise InvalidArgumentError("params: expected an object, found another value")
        if params.get("text_prompt"):
            shapes = _found(engine, name, source, params)
        else:
            shapes = _marked(engine, name, source, params)
    except SamRlxError as error:
        return failed("INFERENCE_ERROR", str(error))
    return {"success": True, "data": {"shapes": shapes, "description": "", "replace": False}}


def _about(engine: Engine, name: str) -> dict[str, Any]:
    model = engine.models[name]
    widgets = [*_WIDGETS, *(_TEXT_WIDGETS if model.supports_text else ())]
    return {
        "display_name": f"sam_rlx {model.family} {model.variant}",
        "widgets": [{"name": widget, "value": _VALUES.get(widget)} for widget in widgets],
        "params": {},
        "batch_processing_mode": "text_prompt" if model.supports_text else "default",
    }


def _marked(
    engine: Engine, name: str, source: bytes, params: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the shapes of points, and of each rectangle with them."""
    points, labels = [], []
    boxes: list[Box | None] = []
    for mark in fields.items(params, "marks", lambda entry, at: entry):
        if not isinstance(mark, Mapping) or mark.get("type") not in ("point", "rectangle"):
            raise InvalidArgumentError("marks: expected points and rectangles, found others")
        if mark["type"] == "point":
            points.append(fields.numbers(mark.get("data"), "data", 2))
            labels.append(fields.label(mark))
        else:
            boxes.append(fields.box(mark.get("data"), "data"))
    fields.at_most("marks", len(points), engine.limits.points)
    fields.at_most("marks", len(boxes), engine.limits.boxes)
    if not points and not boxes:
        return []
    shapes = []
    for box in boxes or [None]:
        found = engine.click(name, source, prompts_of(points, labels, box))
        best = found.best()
        shapes += _shapes(found.masks[best.index], _UNNAMED, best.iou_prediction)
    return shapes


def _found(
    engine: Engine, name: str, source: bytes, params: Mapping[str, Any]
) -> list[dict[str, Any]]:
    text = fields.text(params, "text_prompt")
    texts = [part.strip() for part in text.replace(".", ",").split(",") if part.strip()]
    if not texts:
        raise InvalidArgumentError("text_prompt: expected words, found none")
    fields.at_most("text_prompt", len(texts), engine.limits.texts)
    threshold = fields.number(params, "conf_threshold", 0.0, 1.0, _THRESHOLD)
    found = engine.find(name, source, texts, threshold)
    shapes = []
    for mask, label, score in zip(found.masks, found.names, found.scores, strict=True):
        shapes += _shapes(mask, label, float(score))
    return shapes


def _shapes(mask: Any, label: str, score: float) -> list[dict[str, Any]]:
    """Return the outline of each part of a mask, closed as its client draws them.

    Its client fills an outline whole: holes are cut open, as `MaskRecord.polygons` does.
    """
    shapes = []
    for outline in _core.mask_to_polygons(mask, True):
        points = [list(pair) for pair in zip(outline[::2], outline[1::2], strict=True)]
        shapes.append(
            {
                "label": label,
                "shape_type": "polygon",
                "points": [*points, points[0]],
                "score": bounded(score),
            }
        )
    return shapes


def failed(code: str, message: str) -> dict[str, Any]:
    """Return the answer to what went wrong; the shapes of the client's image stay."""
    data: dict[str, Any] = {"shapes": [], "description": message, "replace": False}
    return {"success": False, "error": {"code": code, "message": message}, "data": data}


# The answer to all of ``/v1/video/``.
NO_VIDEO = failed("NOT_IMPLEMENTED", "video: expected a request for an image, found one for a clip")
