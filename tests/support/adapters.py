"""Adapters of few numbers (LoRA) as files, and the weights that they make."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support import checkpoint_files as files
from support import tiny

Floats = NDArray[np.float32]


def exact(rng: np.random.Generator, *shape: int) -> Floats:
    """Return multiples of 1/16 whose products of a few dozen terms float32 adds without rounding.

    Sums of them are the same in any order: a judge need not know how another program adds.
    """
    return rng.integers(-15, 16, shape).astype(np.float32) / np.float32(16)


def peft_name(module: str) -> str:
    """Return the name that PEFT saves a layer under."""
    return f"base_model.model.{module}"


def pair(
    rng: np.random.Generator, weight: Floats, rank: int, *, draw: Any = exact
) -> tuple[Floats, Floats]:
    """Return A and B for a weight (out, in, ...)."""
    a = draw(rng, rank, *weight.shape[1:]).astype(np.float32)
    b = draw(rng, weight.shape[0], rank, *(1,) * (weight.ndim - 2)).astype(np.float32)
    return a, b


def merged(weight: Floats, a: Floats, b: Floats, scale: float) -> Floats:
    """Return ``W + (B @ A) * scale`` in float32."""
    product = b.reshape(len(b), -1) @ a.reshape(len(a), -1)
    return weight + (product * np.float32(scale)).reshape(weight.shape)


def save(
    folder: Path,
    tensors: Mapping[str, Floats],
    config: Mapping[str, Any] | None = None,
    **more: Any,
) -> Path:
    """Write a folder of PEFT: settings that are not given are those of rank 4 and alpha 8."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, **(config or {}), **more}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    save_file(folder / "adapter_model.safetensors", tensors)
    return folder


def save_file(path: Path, tensors: Mapping[str, Floats]) -> Path:
    """Write tensors as safetensors."""
    stored = {name: files.stored(value) for name, value in tensors.items()}
    path.write_bytes(files.safetensors_bytes(*files.safetensors_parts(stored)))
    return path


def for_modules(
    weights: Mapping[str, Floats], modules: list[str], rank: int, scale: float, seed: int = 0
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return PEFT's tensors for some layers of a model, and the model's weights after a merge."""
    rng = np.random.default_rng(seed)
    tensors, result = {}, dict(weights)
    for module in modules:
        weight = weights[f"{module}.weight"]
        a, b = pair(rng, weight, rank)
        tensors[f"{peft_name(module)}.lora_A.weight"] = a
        tensors[f"{peft_name(module)}.lora_B.weight"] = b
        result[f"{module}.weight"] = merged(weight, a, b, scale)
    return tensors, result


def base(folder: Path, weights: Mapping[str, Floats]) -> Path:
    """Write a tiny SAM with Meta's names."""
    return tiny.save_safetensors(folder / "base.safetensors", weights)
