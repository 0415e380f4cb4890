"""Inputs of SAM 2's memory and of videos, the same for all engines. Needs NumPy only.

A memory that is full takes 17 frames. Tracking them would take an hour with ten objects, so the
outputs of frames 1 to 16 are made up: how long a frame takes does not depend on their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workloads import MEMORIES, POINTERS, SEED, Workload, sample_image, tiny_sam2

# With 8 more objects are there on every frame.
PRESENCE = "sam_mask_decoder.pred_obj_score_head.layers.2.bias"
FIRST = POINTERS + 1  # frame that is tracked first: all before it is known
FRAMES = 1_000_000  # more than anyone tracks; they repeat
Floats = NDArray[np.float32]


class Clip(Sequence[NDArray[np.uint8]]):
    """Frames (H, W, 3) of an image that moves to and fro, `count` of them."""

    _DIFFERENT = 8

    def __init__(self, hw: tuple[int, int], count: int = FRAMES) -> None:
        still = sample_image(*hw)
        self._frames = [np.roll(still, 3 * t, axis=1) for t in range(self._DIFFERENT)]
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < self._count:
            raise IndexError(index)
        return self._frames[index % self._DIFFERENT]


def click(workload: Workload, obj_id: int) -> tuple[list[list[float]], list[int]]:
    """Return the prompt of an object on frame 0: points (1, 2) and labels (1,)."""
    y, x = np.random.default_rng([SEED, obj_id]).uniform(0.1, 0.9, 2) * workload.image_hw
    return [[float(x), float(y)]], [1]


class Past(NamedTuple):
    """What frames 1 to 16 left behind for one object."""

    maskmem_features: Floats  # (16, g, g, mem_dim), each a bfloat16: what upstream keeps
    obj_ptr: Floats  # (16, C)
    low_res_mask: Floats  # (16, 4g, 4g)
    object_score_logits: Floats  # (16,)


def past(config: tiny_sam2.ImageEncoderConfig, obj_id: int) -> Past:
    rng = np.random.default_rng([SEED, obj_id, 1])
    grid, width = config.image_size // 16, config.d_model

    def normal(*shape: int) -> Floats:
        return rng.standard_normal((POINTERS, *shape), dtype=np.float32)

    features = normal(grid, grid, width // 4)
    features.view(np.uint32)[...] &= np.uint32(0xFFFF0000)
    scores = np.full(POINTERS, 8, np.float32)
    return Past(features, normal(width), normal(4 * grid, 4 * grid), scores)


def memory_inputs(config: tiny_sam2.ImageEncoderConfig) -> dict[str, Floats]:
    """Return a steady frame's input of the memory attention, as our layer takes it."""
    width, mem_dim, positions = config.d_model, config.d_model // 4, (config.image_size // 16) ** 2
    shapes = {
        "curr": (positions, width),
        "curr_pos": (positions, width),
        "features": (MEMORIES, positions, mem_dim),
        "pos": (MEMORIES, positions, mem_dim),
        "tpos": (MEMORIES, mem_dim),
        "pointers": (4 * POINTERS, mem_dim),
        "pointer_pos": (4 * POINTERS, mem_dim),
    }
    rng = np.random.default_rng(SEED)
    return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def sam2_weights(config: tiny_sam2.ImageEncoderConfig, prefix: str = "") -> dict[str, Floats]:
    """Random weights of SAM 2, or those with a prefix. The objects are there on every frame."""
    shapes = {**tiny_sam2.image_encoder_shapes(config), **tiny_sam2.heads_shapes(config)}
    wanted = {name: shape for name, shape in shapes.items() if name.startswith(prefix)}
    weights = tiny_sam2.random_state_dict(wanted, SEED)
    if PRESENCE in weights:
        weights[PRESENCE] += 8
    return weights
