"""Upstream's ``ResizeLongestSide``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import expects
from sam_rlx.compat.common.tensors import as_result


class ResizeLongestSide:
    """Resize images, points and boxes so that the longer side has `target_length` pixels."""

    def __init__(self, target_length: int) -> None:
        self.target_length = target_length

    @expects("an image (H, W, 3), uint8, and a positive target length")
    def apply_image(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Resize an image (H, W, 3), uint8, as PIL's bilinear filter does."""
        return _core.resize_longest_side(np.ascontiguousarray(image), self.target_length)

    @expects("points (..., 2) and the size (H, W) of the image")
    def apply_coords(self, coords: NDArray[Any], original_size: Any) -> NDArray[np.float64]:
        """Scale points (..., 2) from pixels of the original size (H, W); returns float64."""
        height, width = original_size
        new_height, new_width = self.get_preprocess_shape(height, width, self.target_length)
        scale = np.asarray([new_width / width, new_height / height])
        scaled: NDArray[np.float64] = np.asarray(coords, np.float64) * scale
        return scaled

    @expects("boxes (B, 4) and the size (H, W) of the image")
    def apply_boxes(self, boxes: NDArray[Any], original_size: Any) -> NDArray[np.float64]:
        """Scale boxes (B, 4) or (4,); returns float64 (B, 4)."""
        return self.apply_coords(np.reshape(boxes, (-1, 2, 2)), original_size).reshape(-1, 4)

    @expects("images (B, C, H, W), floats or bytes")
    def apply_image_torch(self, image: Any) -> Any:
        """Resize images (B, C, H, W), float32 or uint8, with antialias, as PyTorch does.

        As upstream, the size is that of an image with B rows and C columns, whatever H and W are.
        """
        array = np.asarray(image)
        size = self.get_preprocess_shape(array.shape[0], array.shape[1], self.target_length)
        if array.dtype == np.uint8:
            rows = np.ascontiguousarray(array.transpose(0, 2, 3, 1))
            resized = np.stack([_core.resize_image(each, size) for each in rows])
            return as_result(np.ascontiguousarray(resized.transpose(0, 3, 1, 2)))
        planes = np.ascontiguousarray(array, np.float32).reshape(-1, *array.shape[2:])
        return as_result(_core.resize_planes(planes, size).reshape(*array.shape[:2], *size))

    @expects("points (..., 2) and the size (H, W) of the image")
    def apply_coords_torch(self, coords: Any, original_size: Any) -> Any:
        """Scale points as `apply_coords` does, but in float32 as PyTorch; returns float32."""
        return as_result(self._scaled(coords, original_size))

    @expects("boxes (B, 4) and the size (H, W) of the image")
    def apply_boxes_torch(self, boxes: Any, original_size: Any) -> Any:
        """Scale boxes as `apply_coords_torch` scales points; returns float32 (B, 4)."""
        corners = np.reshape(np.asarray(boxes), (-1, 2, 2))
        return as_result(self._scaled(corners, original_size).reshape(-1, 4))

    def _scaled(self, coords: Any, original_size: Any) -> NDArray[np.float32]:
        height, width = original_size
        new_height, new_width = self.get_preprocess_shape(height, width, self.target_length)
        scale = np.asarray([new_width / width, new_height / height], np.float32)
        return np.asarray(coords, np.float32) * scale

    @staticmethod
    @expects("three positive numbers")
    def get_preprocess_shape(oldh: int, oldw: int, long_side_length: int) -> tuple[int, int]:
        """Return (H, W) after the resize, each rounded half up."""
        scale = long_side_length / max(oldh, oldw)
        return int(oldh * scale + 0.5), int(oldw * scale + 0.5)


__dir__ = public_names(__name__)
