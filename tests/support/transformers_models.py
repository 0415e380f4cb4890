"""Tiny models of transformers' classes by its own rules: weights, inputs and what it computes.

Needs transformers 5.24.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support import hugging_face_models, tiny, upstream
from support.hugging_face_configs import config, family, side

CLASSES = ("SamModel", "SamHQModel", "Sam2Model", "EdgeTamModel", "Sam3TrackerModel")
PAD = -10
PREPARED = upstream  # makes torchvision importable
_COPY = "shared_image_embedding.positional_embedding"
_ENCODING = "prompt_encoder.shared_embedding.positional_embedding"


def _set_epsilons(sizes: Any, epsilon: float) -> None:
    if hasattr(sizes, "layer_norm_eps"):
        sizes.layer_norm_eps = epsilon
    for name, part in vars(sizes).items():
        if name.endswith("_config") and hasattr(part, "to_dict"):
            _set_epsilons(part, epsilon)


@functools.cache
def model(name: str, epsilon: float = 1e-6, seed: int = 0) -> Any:
    """Return a tiny model with random weights, in float32, as transformers makes it."""
    import torch
    import transformers

    if name.startswith("EdgeTam"):
        pytest.importorskip("timm", reason="transformers makes EdgeTAM's trunk with it")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    sizes = config(name, side(name))
    _set_epsilons(sizes, epsilon)
    network = getattr(transformers, name)(sizes).eval()
    weights = {k: v for k, v in network.state_dict().items() if v.is_floating_point()}
    drawn = tiny.random_state_dict({k: tuple(v.shape) for k, v in weights.items()}, seed)
    for key in drawn:
        if key.endswith(_ENCODING) and (twin := key.replace(_ENCODING, _COPY)) in drawn:
            drawn[twin] = drawn[key]
    # Batch norms count their steps, in whole numbers.
    rest = {key: value for key, value in network.state_dict().items() if key not in drawn}
    network.load_state_dict({**rest, **{k: torch.from_numpy(v) for k, v in drawn.items()}})
    return network


def save(name: str, folder: Path, epsilon: float = 1e-6) -> Path:
    """Write the folder of a tiny model."""
    return hugging_face_models.save(model(name, epsilon), folder)


@contextlib.contextmanager
def double(network: Any) -> Iterator[Any]:
    """Let a model compute in float64."""
    try:
        yield network.double()
    finally:
        network.float()


def mask_side(name: str) -> int:
    """Return the side of masks of a tiny model."""
    patch = 14 if family(name) == "Sam3" else 16
    return 4 * (side(name) // patch)


def inputs(name: str, seed: int = 3) -> dict[str, NDArray[Any]]:
    """Return pixels and ragged prompts of two images with two objects each."""
    generator, pixels, low = np.random.default_rng(seed), side(name), mask_side(name)
    points = generator.uniform(0, pixels, (2, 2, 3, 2)).astype(np.float32)
    labels = np.array([[[1, 0, PAD], [1, PAD, PAD]], [[1, -1, 0], [PAD, PAD, PAD]]], np.int64)
    points[labels == PAD] = PAD
    corners = np.sort(generator.uniform(0, pixels, (2, 2, 2, 2)), axis=2)
    return {
        "pixel_values": generator.standard_normal((2, 3, pixels, pixels)).astype(np.float32),
        "input_points": points,
        "input_labels": labels,
        "input_boxes": corners.reshape(2, 2, 4).astype(np.float32),
        "input_masks": 4 * generator.standard_normal((2, 1, low, low)).astype(np.float32),
    }


def tensors(values: Mapping[str, Any], dtype: str = "float32") -> dict[str, Any]:
    """Return arrays as tensors, numbers of floating point in another type."""
    import torch

    def tensor(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [tensor(each) for each in value]
        if not isinstance(value, np.ndarray):
            return value
        made = torch.from_numpy(value)
        return made.to(getattr(torch, dtype)) if made.is_floating_point() else made

    return {name: tensor(value) for name, value in values.items()}


def fields(output: Any) -> dict[str, NDArray[Any]]:
    """Return the fields of an output as arrays; lists of maps with their numbers."""
    found = {}
    for name, value in output.items():
        if isinstance(value, (list, tuple)):
            found.update({f"{name}.{i}": np.asarray(each) for i, each in enumerate(value)})
        else:
            found[name] = np.asarray(value)
    return found


def computed(network: Any, values: Mapping[str, Any], dtype: str = "float32") -> Any:
    """Return the fields of what transformers computes in a type."""
    import torch

    with torch.no_grad():
        if dtype == "float32":
            return fields(network(**tensors(values)))
        with double(network):
            return fields(network(**tensors(values, dtype)))
