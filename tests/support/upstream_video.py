"""Upstream's SAM 2 video predictor at a small size, and the clips that both sides are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support import tiny, tiny_sam2, upstream, upstream_sam2

_torch: Any = vars(upstream)["torch"]
_FunctionMode: Any = _torch.overrides.TorchFunctionMode
_MEAN = np.array([0.485, 0.456, 0.406])
_STD = np.array([0.229, 0.224, 0.225])


def clip(count: int, hw: tuple[int, int] = (72, 96), seed: int = 0) -> NDArray[np.uint8]:
    """Return frames (T, H, W, 3) of two bright shapes that move over a textured ground."""
    height, width = hw
    generator = np.random.default_rng([seed, 11])
    ground = generator.integers(0, 90, (height, width, 3))
    y, x = np.mgrid[:height, :width]
    frames = []
    for t in range(count):
        frame = ground + 8 * t
        disc = (x - 0.2 * width - 2.5 * t) ** 2 + (y - 0.4 * height) ** 2 < (0.16 * height) ** 2
        square = (abs(x - 0.75 * width + 2 * t) < 9) & (abs(y - 0.65 * height + t) < 11)
        frame[disc] = (230, 60 + 3 * t, 40)
        frame[square] = (40, 120, 240 - 2 * t)
        frames.append(np.clip(frame, 0, 255).astype(np.uint8))
    return np.stack(frames)


def components(mask: Any) -> tuple[Any, Any]:
    """Do what upstream's CUDA kernel does: labels of 8-connected places, and their areas."""
    from scipy import ndimage

    torch = _torch
    labels, areas = torch.zeros(mask.shape, dtype=torch.int32), torch.zeros(mask.shape)
    for i, plane in enumerate(mask[:, 0].numpy()):
        found, count = ndimage.label(plane, structure=np.ones((3, 3)))
        sizes = np.bincount(found.ravel(), minlength=count + 1)
        labels[i, 0] = torch.from_numpy(found)
        areas[i, 0] = torch.from_numpy(np.where(found > 0, sizes[found], 0))
    return labels, areas


def fill_holes(mask: Any, max_area: int) -> Any:
    """Do what upstream does on a GPU with holes of at most `max_area` places."""
    labels, areas = components(mask <= 0)
    return _torch.where((labels > 0) & (areas <= max_area), 0.1, mask)


def video_predictor(
    image_encoder: Any, memory_attention: Any, memory_encoder: Any, **rest: Any
) -> Any:
    """Make upstream's `SAM2VideoPredictor` with the arguments of `SAM2Base`."""
    return upstream.sam2.video_predictor.SAM2VideoPredictor(
        image_encoder=image_encoder,
        memory_attention=memory_attention,
        memory_encoder=memory_encoder,
        **rest,
    )


def build(
    weights: tiny.Weights, version: str = "2.1", fill_hole_area: int = 8, **switches: Any
) -> Any:
    """Build upstream's `SAM2VideoPredictor`, with the components of holes computed by SciPy."""
    upstream.sam2.video_predictor.fill_holes_in_mask_scores = fill_holes
    return upstream_sam2.build_sam2(
        tiny_sam2.TINY,
        weights,
        version,
        kind=video_predictor,
        fill_hole_area=fill_hole_area,
        **switches,
    )


def pictures(frames: NDArray[np.uint8], side: int, dtype: Any) -> Any:
    """Resize and normalise frames to (T, 3, side, side), as SAM 2 does with single pictures."""
    torch = _torch
    x = torch.from_numpy(frames).permute(0, 3, 1, 2).to(dtype) / 255
    x = torch.nn.functional.interpolate(
        x, size=(side, side), mode="bilinear", align_corners=False, antialias=True
    )
    mean, std = (torch.from_numpy(v).to(torch.float32).to(dtype) for v in (_MEAN, _STD))
    return (x - mean[:, None, None]) / std[:, None, None]


def init_state(predictor: Any, images: Any, hw: tuple[int, int]) -> Any:
    """Start upstream's session on frames that are tensors already."""
    module = upstream.sam2.video_predictor
    before = module.load_video_frames
    module.load_video_frames = lambda **_: (images, *hw)
    try:
        return predictor.init_state(video_path="")
    finally:
        module.load_video_frames = before


class NoBFloat16(_FunctionMode):  # type: ignore[misc]
    """Keep memories in float32 where upstream rounds them."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        torch = _torch
        fix = {id(torch.bfloat16): torch.float32}
        return func(
            *(fix.get(id(a), a) for a in args),
            **{k: fix.get(id(v), v) for k, v in (kwargs or {}).items()},
        )


@contextmanager
def _precise(predictor: Any) -> Iterator[Any]:
    """Give a float64 copy of a predictor, its tables made anew."""
    double: Any = upstream.double(predictor)
    for child in double.modules():
        if isinstance(child, upstream.sam2.PositionEmbeddingSine):
            child.cache = {}
    with upstream.float64():
        upstream_sam2.refresh_rope(double, double.image_size // 16)
        yield double


Session = Callable[[Any, Any], list[Any]]


def run(predictor: Any, frames: NDArray[np.uint8], script: Session) -> list[Any]:
    """Run a script (predictor, state) -> results in float32, memories included."""
    images = pictures(frames, predictor.image_size, _torch.float32)
    with NoBFloat16():
        return script(predictor, init_state(predictor, images, frames.shape[1:3]))


def run64(predictor: Any, frames: NDArray[np.uint8], script: Session) -> list[Any]:
    """Run the same in float64."""
    images = pictures(frames, predictor.image_size, _torch.float64)
    with _precise(predictor) as double:
        return script(double, init_state(double, images, frames.shape[1:3]))
