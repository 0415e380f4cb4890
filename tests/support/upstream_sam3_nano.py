"""Upstream's SAM 3 at the sizes and with the weights of sam3-nano."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from safetensors import safe_open

from support import tiny_sam3, upstream, upstream_sam3
from support.trained import trained

NANO = trained("sam3-nano")


def config() -> tiny_sam3.Sam3Config:
    """Sizes of the package's own checkpoint."""
    with safe_open(str(NANO), "np") as file:
        fields = json.loads(file.metadata()["config"])
    names = {field.name for field in dataclasses.fields(tiny_sam3.Sam3Config)}
    known: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in fields.items() if k in names
    }
    return tiny_sam3.Sam3Config(**known)


def upstream_name(name: str) -> str:
    """Return the name that the image model has for a tensor of Meta's checkpoint."""
    if name.startswith("tracker."):
        return f"inst_interactive_predictor.model.{name.removeprefix('tracker.')}"
    return name.removeprefix("detector.")


def image_model(kind: Any = None, **switches: Any) -> Any:
    """Build upstream's image model, or a class made from it, with clicks."""
    model = upstream_sam3.image_model(config(), seed=None, clicks=True, kind=kind, **switches)
    weights = {upstream_name(n): w for n, w in upstream.trained_weights("sam3-nano").items()}
    upstream.load_state_dict(model, weights)
    return model
