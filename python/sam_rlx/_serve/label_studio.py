"""Label Studio's backend: smart points and rectangles become brush regions.

``POST /setup`` brings the token with which images are fetched; ``POST /predict`` has tasks, the
labeling configuration, and in ``params.context.result`` what was drawn, in percent.
"""

import os
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree

import numpy as np

from sam_rlx import _core
from sam_rlx._interactive import fields
from sam_rlx._interactive.clicks import prompts_of
from sam_rlx._interactive.document import Box
from sam_rlx._serve.engine import Engine
from sam_rlx._serve.guard import MAX_BODY
from sam_rlx._serve.images import image_bytes
from sam_rlx.errors import InvalidArgumentError

_SECONDS = 30.0
_MAX_CONFIG = 1 << 20
_KEY = "LABEL_STUDIO_API_KEY"


class FetchError(InvalidArgumentError):
    """Label Studio did not give an image."""


def origin_of(address: str) -> tuple[str, str]:
    """Return scheme and host with port of an address; `InvalidArgumentError` without them."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise InvalidArgumentError(
            f"--label-studio: expected http://HOST:PORT, found {address[:200]!r}"
        )
    return parts.scheme, parts.netloc.lower()


class _SameOrigin(urllib.request.HTTPRedirectHandler):
    """Follows redirects within one server only: the token goes nowhere else."""

    def __init__(self, origin: tuple[str, str]) -> None:
        self._origin = origin

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        if origin_of(newurl) != self._origin:
            fp.close()
            raise FetchError(f"image: expected one of Label Studio, found a way to {newurl[:200]}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class Backend:
    """Answers one Label Studio server.

    Parameters
    ----------
    engine : Engine
    address : str
        Of the server: images are fetched from there only. Its API key is taken from the
        environment (LABEL_STUDIO_API_KEY), or from what ``/setup`` brings.
    """

    def __init__(self, engine: Engine, address: str) -> None:
        self._engine = engine
        self._address = address
        self._origin = origin_of(address)
        self._key = os.environ.get(_KEY)
        self._lock = threading.Lock()
        self._open = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), _SameOrigin(self._origin)
        ).open

    @property
    def version(self) -> str:
        """How the model is called there."""
        model = self._engine.models[self._engine.default]
        return f"sam_rlx {model.family} {model.variant} {model.precision}"

    def setup(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer ``POST /setup``."""
        key = request.get("access_token")
        if isinstance(key, str) and key.isprintable() and _KEY not in os.environ:
            with self._lock:
                self._key = key
        return {"model_version": self.version}

    def predict(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer ``POST /predict``."""
        tasks = fields.items(request, "tasks", lambda entry, at: entry)
        params = request.get("params")
        context = params.get("context") if isinstance(params, Mapping) else None
        drawn = context.get("result") if isinstance(context, Mapping) else None
        if not drawn:  # it asks before anything was drawn
            empty = {"result": [], "score": 0.0, "model_version": self.version}
            return {"results": [empty for _ in tasks]}
        tags = _tags(request.get("label_config"))
        return {"results": [self._answer(task, drawn, tags) for task in tasks]}

    def _answer(self, task: Any, drawn: Any, tags: dict[str, str]) -> dict[str, Any]:
        data = task.get("data") if isinstance(task, Mapping) else None
        if not isinstance(data, Mapping):
            raise InvalidArgumentError("tasks: expected objects with data, found others")
        marks = fields.items({"result": drawn}, "result", lambda entry, at: entry)
        source = self._image(data.get(tags["value"]))
        width, height = _size(marks[-1])
        points, labels, box = _prompts(marks, (width, height))
        found = self._engine.click(self._engine.default, source, prompts_of(points, labels, box))
        best = found.best()
        mask = found.masks[best.index]
        if mask.shape != (height, width):
            raise InvalidArgumentError(
                f"result: expected marks on {mask.shape[1]} x {mask.shape[0]} pixels, found "
                f"{width} x {height}"
            )
        region = {
            "from_name": tags["from_name"],
            "to_name": tags["to_name"],
            "original_width": width,
            "original_height": height,
            "image_rotation": 0,
            "type": "brushlabels",
            "score": best.iou_prediction,
            "value": {
                "format": "rle",
                "rle": np.frombuffer(_core.brush_code(mask), np.uint8).tolist(),
                "brushlabels": _labels_of(marks),
            },
        }
        return {
            "result": [region],
            "score": best.iou_prediction,
            "model_version": self.version,
        }

    def _image(self, value: Any) -> bytes:
        """Return the file of an image that a task names."""
        if not isinstance(value, str) or not value:
            raise InvalidArgumentError("data: expected the address of an image, found none")
        if value.startswith("data:"):
            return image_bytes("data", value)
        address = urljoin(self._address, value)
        parts = urlsplit(address)
        if (parts.scheme, parts.netloc.lower()) != self._origin:
            raise InvalidArgumentError(
                f"data: expected an image of {self._address}, found {value[:200]!r}"
            )
        request = urllib.request.Request(address)
        with self._lock:
            if self._key:
                request.add_header("Authorization", f"Token {self._key}")
        try:
            with self._open(request, timeout=_SECONDS) as answer:
                content: bytes = answer.read(MAX_BODY + 1)
        except OSError as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            raise FetchError(
                f"image: expected {value[:200]!r} of Label Studio, found {error}"
            ) from error
        if len(content) > MAX_BODY:
            raise FetchError(f"image: expected at most {MAX_BODY} bytes, found more")
        return content


def _tags(config: Any) -> dict[str, str]:
    """Return what a labeling configuration says of brush regions and their image."""
    if (
        not isinstance(config, str)
        or len(config) > _MAX_CONFIG
        or "<!" in config.replace("<!--", "")
    ):
        raise InvalidArgumentError("label_config: expected XML without a document type")
    try:
        root = ElementTree.fromstring(config)
    except ElementTree.ParseError as error:
        raise InvalidArgumentError(f"label_config: expected XML, found {error}") from error
    brush = root.find(".//BrushLabels")
    if brush is None:
        raise InvalidArgumentError("label_config: expected a tag BrushLabels, found none")
    images = {tag.get("name", ""): tag for tag in root.iter("Image")}
    to_name = brush.get("toName", "")
    value = images[to_name].get("value", "") if to_name in images else ""
    if not value.startswith("$"):
        raise InvalidArgumentError(
            f"label_config: expected an Image {to_name!r} with a value like $image, found none"
        )
    return {"from_name": brush.get("name", ""), "to_name": to_name, "value": value[1:]}


def _size(mark: Any) -> tuple[int, int]:
    if not isinstance(mark, Mapping):
        raise InvalidArgumentError("result: expected objects, found others")
    return (
        fields.integer(mark, "original_width", 1, 1 << 20),
        fields.integer(mark, "original_height", 1, 1 << 20),
    )


def _prompts(
    marks: list[Any], size: tuple[int, int]
) -> tuple[list[tuple[float, float]], list[int], Box | None]:
    """Return points, labels, and the last rectangle, in pixels."""
    points, labels, box = [], [], None
    for mark in marks:
        value = mark.get("value") if isinstance(mark, Mapping) else None
        if not isinstance(value, Mapping):
            raise InvalidArgumentError("result: expected objects with a value, found others")
        x, y = (
            fields.number(value, name, -100.0, 200.0) * side / 100
            for name, side in zip("xy", size, strict=True)
        )
        kind = str(mark.get("type"))
        if kind.startswith("keypoint"):
            points.append((x, y))
            positive = mark.get("is_positive")
            labels.append(1 if positive is None or positive else 0)
        elif kind.startswith("rectangle"):
            wide, high = (
                fields.number(value, name, 0.0, 200.0) * side / 100
                for name, side in zip(("width", "height"), size, strict=True)
            )
            box = fields.box([x, y, x + wide, y + high])
    if not points and box is None:
        raise InvalidArgumentError("result: expected a keypoint or a rectangle, found neither")
    return points, labels, box


def _labels_of(marks: list[Any]) -> list[str]:
    """Return the labels of the last mark, which the brush region gets."""
    last = marks[-1]
    found = last["value"].get(last.get("type")) if isinstance(last.get("type"), str) else None
    return [label for label in found or [] if isinstance(label, str)]
