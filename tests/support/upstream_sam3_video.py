"""Upstream's SAM 3 tracker following objects through a clip, at a small size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from support import tiny_sam3, upstream, upstream_sam3, upstream_video

_torch: Any = vars(upstream)["torch"]
Session = Callable[[Any, Any], list[Any]]


def network(
    config: tiny_sam3.Sam3Config = tiny_sam3.TINY, seed: int = 0, presence: float = 1.0
) -> Any:
    """Build the image model with clicks, whose tracker finds its objects mostly there."""
    model = upstream_sam3.image_model(config, seed, clicks=True)
    head = model.inst_interactive_predictor.model.sam_mask_decoder.pred_obj_score_head
    with _torch.no_grad():
        head.layers[-1].bias += presence
    return model


def tracker(model: Any, **switches: Any) -> Any:
    """Return a network's tracker behind its image encoder, as upstream's notebooks build it."""
    predictor = model.inst_interactive_predictor.model
    predictor.backbone = model.backbone
    for name, value in switches.items():
        if not hasattr(predictor, name):
            raise AttributeError(name)
        setattr(predictor, name, value)
    return predictor


def input_images(frames: NDArray[np.uint8], side: int, dtype: Any) -> Any:
    """Resize frames to bytes (T, 3, side, side) as on a CPU, and normalize them."""
    x = _torch.from_numpy(frames).permute(0, 3, 1, 2)
    x = _torch.nn.functional.interpolate(
        x, size=(side, side), mode="bilinear", align_corners=False, antialias=True
    )
    return (x.to(dtype) / 255 - 0.5) / 0.5


@contextmanager
def stand_ins() -> Iterator[None]:
    """Run upstream's video code without a GPU and without its kernels."""
    kernels = upstream_sam3.sam3.connected_components
    with ExitStack() as stack:
        stack.enter_context(upstream_sam3.on_cpu())
        stack.enter_context(
            mock.patch.object(kernels, "connected_components", upstream_video.components)
        )
        yield


def _play(predictor: Any, frames: NDArray[np.uint8], script: Session, dtype: Any) -> list[Any]:
    upstream_sam3.refresh(predictor)
    with stand_ins():
        height, width = frames.shape[1:3]
        state = predictor.init_state(video_height=height, video_width=width, num_frames=len(frames))
        state["images"] = input_images(frames, predictor.image_size, dtype)
        return script(predictor, state)


def run(predictor: Any, frames: NDArray[np.uint8], script: Session) -> list[Any]:
    """Run a script (predictor, state) -> results in float32, memories included."""
    with upstream_video.NoBFloat16():
        return _play(predictor, frames, script, _torch.float32)


def run64(predictor: Any, frames: NDArray[np.uint8], script: Session) -> list[Any]:
    """Run the same in float64."""
    double: Any = upstream.double(predictor)
    with upstream.float64():
        return _play(double, frames, script, _torch.float64)
