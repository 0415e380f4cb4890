"""State dicts of SAM 3's networks: names of a file, or those of upstream's image model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.state_dicts import EmptyModel
from sam_rlx.errors import CheckpointError
from sam_rlx.model import Model

_IMAGE_SIZE = 1008  # of the release
# Names of sizes that are others in files.
_IN_FILES = {
    ".pixel_mean": "image_mean",
    ".pixel_std": "image_std",
    **{f"text.{name}": f"text_{name}" for name in ("width", "heads", "layers")},
}
_PARTS = ("detector.", "tracker.")
_CLICKS = "inst_interactive_predictor.model."


def empty_model() -> EmptyModel:
    """Return a network of SAM 3 that waits for weights, which tell its sizes."""
    return EmptyModel("sam3", None, _IMAGE_SIZE)


def names_of_file(state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a state dict by the names that files have: upstream's image model leaves parts out.

    Complex tables are left out: they are computed.
    """
    if not hasattr(state_dict, "items"):
        return state_dict
    state_dict = {
        name: x for name, x in state_dict.items() if "complex" not in str(getattr(x, "dtype", ""))
    }
    if any(name.startswith(_PARTS) for name in state_dict):
        return state_dict
    return {
        f"tracker.{name.removeprefix(_CLICKS)}"
        if name.startswith(_CLICKS)
        else f"detector.{name}": x
        for name, x in state_dict.items()
    }


def metadata_of(model: Any) -> dict[str, str]:
    """Return what tells the sizes of a model; none without weights: they are the release's."""
    if not isinstance(model, Model):
        return {}
    return {
        "family": "sam3",
        "variant": model.variant,
        "config": json.dumps(dict(_flat(model.config))),
    }


def _flat(config: Mapping[str, Any], part: str = "") -> Iterator[tuple[str, Any]]:
    """Yield sizes as a file has them, on one level; those of trackers are in their tensors."""
    for name, value in config.items():
        if not isinstance(value, Mapping):
            yield _IN_FILES.get(f"{part}.{name}", name), value
        elif name not in ("tracker", "multiplex"):
            yield from _flat(value, name)


def of_family(model: Model, path: str) -> Model:
    """Return a model of SAM 3; another one is a `CheckpointError`."""
    if model.family != "sam3":
        raise CheckpointError(f"{path}: expected tensors of sam3, found those of {model.family}")
    return model


__dir__ = public_names(__name__)
