"""Parts of the network that programs call: the prompt encoder and the mask decoder of `Sam`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentAttributeError, ArgumentRuntimeError, expects
from sam_rlx.compat.common.tensor import to_array
from sam_rlx.compat.common.tensors import as_result

_NO_KIND = 9  # a label that tells nothing about a point


class _Part:
    def __init__(self, sam: Any) -> None:
        self._sam = sam

    def __getattr__(self, name: str) -> Any:
        raise ArgumentAttributeError(
            f"{name}: expected one of the names that docs/compat.md lists, found another of a part "
            "of the network"
        )


class PromptEncoder(_Part):
    """The prompt encoder of a `Sam`, which programs call.

    Attributes
    ----------
    embed_dim : int
        Channels C of embeddings.
    input_image_size, image_embedding_size, mask_input_size : (int, int)
        Sides of the network's input, of its map, and of masks as prompts.
    """

    @property
    def embed_dim(self) -> int:
        """Channels of embeddings."""
        return int(self._sam.model.config["prompt_encoder"]["embed_dim"])

    @property
    def input_image_size(self) -> tuple[int, int]:
        """Sides of the network's input in pixels."""
        return (self._sam.model.img_size,) * 2

    @property
    def image_embedding_size(self) -> tuple[int, int]:
        """Sides of the map of the image."""
        return (self._sam.model.mask_side // 4,) * 2

    @property
    def mask_input_size(self) -> tuple[int, int]:
        """Sides of masks as prompts."""
        return (self._sam.model.mask_side,) * 2

    def get_dense_pe(self) -> Any:
        """Return the encoding of the map's positions, (1, C, h, w)."""
        side, (height, width) = self._sam.model.img_size, self.image_embedding_size
        y, x = np.mgrid[:height, :width] + 0.5
        # Points of no kind at the centres of the positions: their position alone.
        centres = np.stack([x / width, y / height], axis=2).reshape(1, 1, -1, 2) * side - 0.5
        labels = np.full(centres.shape[:3], _NO_KIND, np.int32)
        core = _core.TensorPredictor(self._sam.model.core)
        tokens, _ = core.prompt_embeddings(centres, labels, None, None)
        assert tokens is not None
        encoding = tokens[0, 0, : height * width].T.reshape(1, -1, height, width)
        return as_result(np.ascontiguousarray(encoding))

    def __call__(self, points: Any, boxes: Any, masks: Any) -> tuple[Any, Any]:
        """Call `forward`."""
        return self.forward(points, boxes, masks)

    @expects("points (B, N, 2) with labels (B, N), boxes (B, 4) and masks (B, 1, h, w)")
    def forward(self, points: Any, boxes: Any, masks: Any) -> tuple[Any, Any]:
        """Encode prompts of B sets, in pixels of the network's input.

        Parameters
        ----------
        points : tuple of (B, N, 2) and (B, N), or None
            Coordinates and labels.
        boxes : (B, 4), or None
            Corners.
        masks : (B, 1, S, S), or None
            Logits.

        Returns
        -------
        tuple
            Sparse embeddings (B, K, C) and dense ones (B, C, h, w).
        """
        coords = marks = None
        if points is not None:
            coords, marks = _shifted(points[0])[:, None], to_array(points[1], np.int32)
            marks = np.asarray(marks)[:, None]
        corners = None if boxes is None else _shifted(boxes).reshape(-1, 1, 4)
        logits = None if masks is None else np.asarray(to_array(masks, np.float32))
        if logits is not None:
            if logits.ndim != 4 or logits.shape[1:] != (1, *self.mask_input_size):
                raise ArgumentRuntimeError(
                    f"masks: expected (B, 1, {', '.join(map(str, self.mask_input_size))}), found "
                    f"{logits.shape}"
                )
            logits = logits[:, 0]
        count = next((len(x) for x in (coords, corners, logits) if x is not None), 1)
        core = _core.TensorPredictor(self._sam.model.core)
        sparse = np.zeros((count, 0, self.embed_dim), np.float32)
        if coords is not None or corners is not None:
            found, _ = core.prompt_embeddings(coords, marks, corners, None)
            assert found is not None
            sparse = found[:, 0]
        _, dense = core.prompt_embeddings(None, None, None, logits)
        if logits is None:
            dense = np.broadcast_to(dense, (count, *dense.shape[1:]))
        return as_result(np.ascontiguousarray(sparse)), as_result(np.array(dense))


class MaskDecoder(_Part):
    """The mask decoder of a `Sam`, which programs call."""

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Call `forward`."""
        return self.forward(*args, **kwargs)

    @expects("embeddings of one image, and those of B prompt sets")
    def forward(
        self,
        image_embeddings: Any,
        image_pe: Any,
        sparse_prompt_embeddings: Any,
        dense_prompt_embeddings: Any,
        multimask_output: bool,
    ) -> tuple[Any, Any]:
        """Predict masks of embeddings.

        Parameters
        ----------
        image_embeddings, image_pe : (1, C, h, w)
            Of the image, and of its positions.
        sparse_prompt_embeddings : (B, K, C)
            Of points and boxes.
        dense_prompt_embeddings : (B, C, h, w) or (1, C, h, w)
            Of masks.
        multimask_output : bool
            Three masks of a set, or one.

        Returns
        -------
        tuple
            Logits (B, M, 4 h, 4 w), and predicted IoU (B, M).

        Raises
        ------
        RuntimeError
            Shapes do not fit together.
        """
        image, positions, sparse, dense = (
            np.asarray(to_array(x, np.float32))
            for x in (
                image_embeddings,
                image_pe,
                sparse_prompt_embeddings,
                dense_prompt_embeddings,
            )
        )
        if len(dense) == 1:
            dense = np.broadcast_to(dense, (len(sparse), *dense.shape[1:]))
        if image.shape != positions.shape or len(image) != 1 or dense.shape[1:] != image.shape[1:]:
            raise ArgumentRuntimeError(
                "mask_decoder: expected image_embeddings and image_pe (1, C, h, w) and "
                f"dense_prompt_embeddings (B, C, h, w), found {image.shape}, {positions.shape} and "
                f"{dense.shape}"
            )
        masks, scores = _core.decode_sam_embeddings(
            self._sam.model.core, image, positions, sparse, dense, bool(multimask_output)
        )
        return as_result(masks), as_result(scores)


def _shifted(coordinates: Any) -> NDArray[np.float64]:
    """Return coordinates to which the core adds half a pixel, as float32 would have it."""
    values = np.asarray(to_array(coordinates, np.float32))
    return np.asarray(values + np.float32(0.5), np.float64) - 0.5


__dir__ = public_names(__name__)
