"""Prompts that click models of a low-resolution side of 32 are compared on. Needs NumPy only."""

from __future__ import annotations

from typing import Any

import numpy as np

PROMPTS: dict[str, dict[str, Any]] = {
    "point": {"point_coords": np.array([[250.0, 130.0]]), "point_labels": np.array([1])},
    "points": {
        "point_coords": np.array([[250.5, 130.25], [40.0, 390.0], [7.0, 3.0]]),
        "point_labels": np.array([1, 0, 1]),
    },
    "box": {"box": np.array([30.0, 40.0, 250.0, 260.5])},
    "box and point": {
        "box": np.array([30.0, 40.0, 250.0, 260.5]),
        "point_coords": np.array([[100.0, 120.0]]),
        "point_labels": np.array([0]),
    },
    "mask": {"mask_input": 5 * np.random.default_rng(3).standard_normal((1, 32, 32), np.float32)},
    "mask and point": {
        "mask_input": 50 * np.random.default_rng(4).standard_normal((1, 32, 32), np.float32),
        "point_coords": np.array([[100.0, 120.0]]),
        "point_labels": np.array([1]),
    },
}
