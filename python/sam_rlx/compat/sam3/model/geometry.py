"""Boxes of a state of `Sam3Processor`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentRuntimeError, expects
from sam_rlx.errors import InvalidArgumentError, UnsupportedError


@dataclass
class GeometricPrompt:
    """The boxes of a state: (cx, cy, w, h) as fractions of the sides, and their labels."""

    boxes: list[list[float]] = field(default_factory=list)
    labels: list[bool] = field(default_factory=list)

    @expects("boxes (N, 1, 4) and labels (N, 1)")
    def append_boxes(self, boxes: Any, labels: Any, mask: Any = None) -> None:
        """Add boxes (N, 1, 4), fractions of the sides, with labels (N, 1).

        `mask` is None: which boxes are padding is told by leaving them out.
        """
        if mask is not None:
            raise UnsupportedError("mask: expected None, found one; leave out what is padding")
        values, marks = np.asarray(boxes, np.float32), np.asarray(labels)
        if values.ndim != 3 or values.shape[1:] != (1, 4) or marks.shape != values.shape[:2]:
            raise ArgumentRuntimeError(
                "append_boxes: expected boxes (N, 1, 4) and labels (N, 1), found "
                f"{values.shape} and {marks.shape}"
            )
        if not np.isfinite(values).all():
            raise InvalidArgumentError("append_boxes: expected finite fractions, found others")
        self.boxes += values[:, 0].tolist()
        self.labels += marks[:, 0].astype(np.bool_).tolist()


__dir__ = public_names(__name__)
