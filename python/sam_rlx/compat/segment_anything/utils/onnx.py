"""``SamOnnxModel`` is for ``torch.onnx.export``: there is nothing here that it could export."""

from __future__ import annotations

from typing import Any

from sam_rlx._internal.public import public_names
from sam_rlx.errors import UnsupportedError


class SamOnnxModel:
    """Raises `UnsupportedError` when it is made.

    Upstream's class is a PyTorch module without weights of its own, made to be exported to ONNX
    Runtime. Here `SamPredictor` or `sam_rlx.ImagePredictor` answers prompts at once.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError(
            "SamOnnxModel: expected SamPredictor, which runs the decoder without ONNX, found a "
            "module for torch.onnx.export, which needs PyTorch and upstream's segment_anything"
        )


__dir__ = public_names(__name__)
