"""Label Studio's backend: smart points and rectangles become brush regions.

``POST /setup`` brings the token with which images are fetched; ``POST /predict`` has tasks, the
labeling configuration, and in ``params.context.result`` what was drawn, in percent.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult

import numpy as np

from sam_rlx import _core
from sam_rlx._internal.files.base64_text import from_base64
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.predict import prompts_of
from sam_rlx.apps.serve import fetch, studio_marks
from sam_rlx.apps.serve.engine import Engine
from sam_rlx.apps.serve.images import bounded
from sam_rlx.apps.serve.label_studio_key import Key
from sam_rlx.errors import InvalidArgumentError


def check_address(address: str, option: str = "--label-studio") -> SplitResult:
    """Return the parts of a server's address; `InvalidArgumentError` for what is none."""
    parts = fetch.split(address)
    if parts is None or parts.query:
        raise InvalidArgumentError(f"{option}: expected http://HOST:PORT, found {address[:200]!r}")
    return parts


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
        self._key = Key(check_address(address), engine.limits.fetch_seconds)

    @property
    def version(self) -> str:
        """How the model is called there."""
        model = self._engine.models[self._engine.default]
        return f"sam_rlx {model.family} {model.variant} {model.precision}"

    def setup(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer ``POST /setup``."""
        self._key.given(request.get("access_token"))
        return {"model_version": self.version}

    def predict(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer ``POST /predict``."""
        most = self._engine.limits
        tasks = fields.items(request, "tasks", lambda entry, at: entry, most.tasks)
        params = request.get("params")
        context = params.get("context") if isinstance(params, Mapping) else None
        drawn = context.get("result") if isinstance(context, Mapping) else None
        if not drawn:  # it asks before anything was drawn
            empty = {"result": [], "score": 0.0, "model_version": self.version}
            return {"results": [empty for _ in tasks]}
        entries = fields.items({"result": drawn}, "result", lambda entry, at: entry, most.points)
        marks = studio_marks.read_marks(entries)
        region = studio_marks.brush_of(request.get("label_config"), marks)
        return {"results": [self._answer(task, marks, region) for task in tasks]}

    def _answer(
        self, task: Any, marks: studio_marks.Marks, region: studio_marks.BrushRegion
    ) -> dict[str, Any]:
        data = task.get("data") if isinstance(task, Mapping) else None
        if not isinstance(data, Mapping):
            raise InvalidArgumentError("tasks: expected objects with data, found others")
        source = self._image(data.get(region.value))
        width, height = marks.size
        prompts = prompts_of(marks.points, marks.labels, marks.box)
        found = self._engine.click(self._engine.default, source, prompts)
        best = found.best()
        mask = found.masks[best.index]
        if mask.shape != (height, width):
            raise InvalidArgumentError(
                f"result: expected marks on {mask.shape[1]} x {mask.shape[0]} pixels, found "
                f"{width} x {height}"
            )
        answer = {
            "from_name": region.from_name,
            "to_name": region.to_name,
            "original_width": width,
            "original_height": height,
            "image_rotation": 0,
            "type": "brushlabels",
            "score": bounded(best.iou_prediction),
            "value": {
                "format": "rle",
                "rle": np.frombuffer(_core.brush_code(mask), np.uint8).tolist(),
                "brushlabels": list(marks.names),
            },
        }
        return {
            "result": [answer],
            "score": bounded(best.iou_prediction),
            "model_version": self.version,
        }

    def _image(self, value: Any) -> bytes:
        """Return the file of an image that a task names."""
        if not isinstance(value, str) or not value:
            raise InvalidArgumentError("data: expected the address of an image, found none")
        if value.startswith("data:"):
            return from_base64("data", value)
        return self._key.fetch(value, self._engine.limits.body_bytes)
