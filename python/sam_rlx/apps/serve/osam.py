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
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.clicks import prompts_of
from sam_rlx.apps.serve.engine import Engine
from sam_rlx.apps.serve.images import image_bytes, png_text
from sam_rlx.errors import InvalidArgumentError

_MAX_ANNOTATIONS = 1000


def generate(engine: Engine, request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a request."""
    name = engine.name_of(request.get("model"))
    source = image_bytes("image", request.get("image"))
    prompt = request.get("prompt")
    if not isinstance(prompt, Mapping):
        raise InvalidArgumentError("prompt: expected an object, found none")
    if prompt.get("texts") is not None:
        annotations = _found(engine, name, source, prompt)
    else:
        annotations = _clicked(engine, name, source, prompt)
    return {"model": request["model"], "image_embedding": None, "annotations": annotations}


def _clicked(
    engine: Engine, name: str, source: bytes, prompt: Mapping[str, Any]
) -> list[dict[str, Any]]:
    most = engine.limits.points
    points = fields.items(prompt, "points", lambda entry, at: fields.numbers(entry, at, 2), most)
    labels = fields.items(
        prompt, "point_labels", lambda entry, at: fields.integer({at: entry}, at, 0, 3), most
    )
    if len(points) != len(labels) or not points:
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
    clicked = prompts_of([p for p, _ in kept], [label for _, label in kept], box)
    found = engine.click(name, source, clicked)
    best = found.best()
    return _annotations([found.masks[best.index]], [best.iou_prediction], [None])


def _found(
    engine: Engine, name: str, source: bytes, prompt: Mapping[str, Any]
) -> list[dict[str, Any]]:
    texts = fields.items(prompt, "texts", lambda entry, at: fields.text({at: entry}, at))
    if not texts:
        raise InvalidArgumentError("texts: expected one or more, found none")
    fields.at_most("texts", len(texts), engine.limits.texts)
    threshold = fields.number(prompt, "score_threshold", 0.0, 1.0, 0.1)
    most = fields.integer(prompt, "max_annotations", 1, _MAX_ANNOTATIONS, 100)
    found = engine.find(name, source, texts, threshold)
    order = np.argsort(-found.scores, kind="stable")[:most]
    names = found.names
    return _annotations(
        [found.masks[k] for k in order],
        [float(found.scores[k]) for k in order],
        [names[k] for k in order],
    )


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
                "score": score,
                "text": text,
            }
        )
    return annotations
