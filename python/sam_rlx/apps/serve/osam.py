"""osam's JSON: ``POST /api/generate``.

In: ``model``, ``image`` (base64), ``prompt {points, point_labels, texts, score_threshold,
max_annotations}``; labels are 1, 0, and 2 and 3 for the corners of a box. Out: ``model`` and
``annotations [{bounding_box {xmin, ymin, xmax, ymax}, mask, score, text}]``; a mask is the base64
of a PNG file of its box, whose last row and column are inside.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.files.base64_text import from_base64
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.predict import prompts_of
from sam_rlx.apps.serve.engine import Engine
from sam_rlx.apps.serve.images import bounded, png_text
from sam_rlx.errors import InvalidArgumentError

_MAX_ANNOTATIONS = 1000
_SCORE = ("score_threshold", 0.0, 1.0)
_ANYTHING = "visual"  # the text that stands for none


def generate(engine: Engine, request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a request.

    As osam: without a prompt the point in the middle is meant, or the text "visual" of a model that
    finds texts; no texts beside points are none; a box beside a text is an example of it.
    """
    name = engine.name_of(request.get("model"))
    source = from_base64("image", request.get("image"))
    prompt = request.get("prompt")
    has_texts = engine.models[name].supports_text
    if prompt is None:
        prompt = {"texts": [_ANYTHING]} if has_texts else _middle(engine, name, source)
    if not isinstance(prompt, Mapping):
        raise InvalidArgumentError("prompt: expected an object, found another value")
    points, labels, box = _marks(engine, prompt)
    texts = fields.items(prompt, "texts", lambda entry, at: fields.text({at: entry}, at))
    if not (texts or points or box) and prompt.get("texts") is not None and has_texts:
        texts = [_ANYTHING]
    if texts:
        if points:
            raise InvalidArgumentError(
                "prompt: expected points, or texts with at most one box, found points beside texts"
            )
        annotations = _found(engine, name, source, prompt, texts, box)
    else:
        annotations = _clicked(engine, name, source, points, labels, box)
    return {"model": request["model"], "image_embedding": None, "annotations": annotations}


def _middle(engine: Engine, name: str, source: bytes) -> dict[str, Any]:
    height, width = engine.encode(name, source).hw
    return {"points": [[width / 2, height / 2]], "point_labels": [1]}


def _marks(
    engine: Engine, prompt: Mapping[str, Any]
) -> tuple[list[Any], list[int], tuple[float, float, float, float] | None]:
    """Return the points of a prompt, their labels, and the box of its corners."""
    most = engine.limits.points
    points = fields.items(prompt, "points", lambda entry, at: fields.numbers(entry, at, 2), most)
    labels = fields.items(
        prompt, "point_labels", lambda entry, at: fields.integer({at: entry}, at, 0, 3), most
    )
    if len(points) != len(labels):
        raise InvalidArgumentError(
            f"prompt: expected points and as many point_labels, found {len(points)} and "
            f"{len(labels)}"
        )
    corners = [
        point
        for kind in (2, 3)
        for point, label in zip(points, labels, strict=True)
        if label == kind
    ]
    if len(corners) not in (0, 2) or labels.count(2) != labels.count(3):
        raise InvalidArgumentError("point_labels: expected one 2 and one 3 for a box, found others")
    box = fields.box([*corners[0], *corners[1]]) if corners else None
    kept = [(p, label) for p, label in zip(points, labels, strict=True) if label < 2]
    return [p for p, _ in kept], [label for _, label in kept], box


def _clicked(
    engine: Engine, name: str, source: bytes, points: list[Any], labels: list[int], box: Any
) -> list[dict[str, Any]]:
    if not points and box is None:
        raise InvalidArgumentError("prompt: expected points, a box or texts, found none")
    found = engine.click(name, source, prompts_of(points, labels, box))
    best = found.best()
    return _annotations([found.masks[best.index]], [best.iou_prediction], [None])


def _found(
    engine: Engine,
    name: str,
    source: bytes,
    prompt: Mapping[str, Any],
    texts: list[str],
    box: Any,
) -> list[dict[str, Any]]:
    fields.at_most("texts", len(texts), engine.limits.texts)
    threshold = fields.number(_given(prompt, "score_threshold", 0.0), *_SCORE, 0.1)
    fields.number(_given(prompt, "iou_threshold", 0.0), "iou_threshold", 0.0, 1.0, 0.5)  # not used
    asked = _given(prompt, "max_annotations", _MAX_ANNOTATIONS)
    most = fields.integer(asked, "max_annotations", 1, _MAX_ANNOTATIONS, 100)
    found = engine.find(name, source, texts, threshold, box)
    order = np.argsort(-found.scores, kind="stable")[:most]
    names = found.names
    return _annotations(
        [found.masks[k] for k in order],
        [float(found.scores[k]) for k in order],
        [names[k] for k in order],
    )


def _given(prompt: Mapping[str, Any], name: str, of_null: float) -> dict[str, Any]:
    """Return a field of a prompt alone: null means `of_null`, and an absent one its default."""
    value = {name: prompt[name]} if name in prompt else {}
    return {name: of_null} if value == {name: None} else value


def _annotations(
    masks: list[NDArray[np.bool_]], scores: list[float], texts: list[str | None]
) -> list[dict[str, Any]]:
    annotations = []
    for mask, score, text in zip(masks, scores, texts, strict=True):
        if not mask.any():
            continue
        box = _core.mask_to_box(mask)
        annotations.append(
            {
                "bounding_box": {"xmin": box.x0, "ymin": box.y0, "xmax": box.x1, "ymax": box.y1},
                "mask": png_text(mask[box.y0 : box.y1 + 1, box.x0 : box.x1 + 1]),
                "score": bounded(score),
                "text": text,
            }
        )
    return annotations
