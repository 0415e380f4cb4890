"""Pixels of a network's input as transformers' image processors compute them, bit for bit.

Bytes are resized as torchvision resizes them on CPUs with AVX2 or better; other numbers in float32.
Upstream: transformers 5.24, `image_processing_backends.TorchvisionBackend`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import check_device
from sam_rlx.compat.common.errors import ArgumentIndexError, ArgumentKeyError, ArgumentRuntimeError
from sam_rlx.compat.transformers.images import Image, channels_last, flat_images
from sam_rlx.compat.transformers.sizes import Hw, SizeDict
from sam_rlx.errors import InvalidArgumentError, UnsupportedError

NEAREST, BILINEAR, BICUBIC = 0, 2, 3
_FILTERS = {BILINEAR: "bilinear", BICUBIC: "bicubic"}
_NUMBERED = range(6)  # of Pillow's filters
_NAMED = {"nearest-exact": NEAREST, "bilinear": BILINEAR, "bicubic": BICUBIC}

# The size of an image by `size`: Sam's, or the one of the others.
HwOf = Callable[[Hw, SizeDict], Hw]


class Pixels(NamedTuple):
    """What becomes of images.

    Attributes
    ----------
    planes : array (B, 3, H, W) or list of array (C, H, W)
        An array where all are float32 of one size.
    original_sizes, resized_sizes : list of (height, width)
        Before and after the resize.
    """

    planes: NDArray[np.float32] | list[NDArray[Any]]
    original_sizes: list[Hw]
    resized_sizes: list[Hw]


class Backend(NamedTuple):
    """What computes pixels.

    Attributes
    ----------
    channels_last : callable
        As `images.channels_last`.
    resized : callable
        Of an image (H, W, C), a size and a filter: the image in that size.
    values : callable
        Of planes (C, H, W) and settings: the planes rescaled and normalized.
    filters : tuple of int
        Filters by Pillow's numbers.
    """

    channels_last: Callable[..., Image]
    resized: Callable[[Image, Hw, int], Image]
    values: Callable[[NDArray[Any], Mapping[str, Any]], NDArray[Any]]
    filters: tuple[int, ...]


def image_pixels(
    images: Any, settings: Mapping[str, Any], hw_of: HwOf, backend: Backend | None = None
) -> Pixels:
    """Return the pixels of images by the settings of a processor.

    Parameters
    ----------
    images : image or nested list
        As `flat_images` takes them.
    settings : dict
        By transformers' names: `do_resize`, `size`, `image_mean` and others.
    hw_of : callable
        Of a size (height, width) and `size`: the size after the resize.
    backend : Backend, optional
        What computes. Default: as torchvision.
    """
    backend = backend or TORCHVISION
    check_device(settings.get("device"))
    rgb, data_format = settings["do_convert_rgb"], settings["input_data_format"]
    arrays = [
        backend.channels_last(image, rgb=rgb, data_format=data_format)
        for image in flat_images(images)
    ]
    return _pixels(arrays, settings, hw_of, backend)


def label_maps(
    maps: Any, settings: Mapping[str, Any], hw_of: HwOf, backend: Backend | None = None
) -> list[NDArray[np.int64]]:
    """Return segmentation maps at the size of masks, each (h, w), or (3, h, w) for an RGB image."""
    backend = backend or TORCHVISION
    arrays = [
        channels_last(each, rgb=False, data_format="channels_first")
        for each in flat_images(maps, ndim=2)
    ]
    of_masks = {
        **settings,
        "do_normalize": False,
        "do_rescale": False,
        "resample": NEAREST,
        "size": settings["mask_size"],
        "pad_size": settings.get("mask_pad_size"),
    }
    planes = _pixels(arrays, of_masks, hw_of, backend).planes
    return [(each[0] if len(each) == 1 else each).astype(np.int64, copy=False) for each in planes]


def _pixels(
    arrays: list[Image], settings: Mapping[str, Any], hw_of: HwOf, backend: Backend
) -> Pixels:
    if not arrays:
        raise ArgumentIndexError("images: expected at least one image, found none")
    before = [array.shape[:2] for array in arrays]
    size = settings["size"]
    after = [hw_of(hw, size) for hw in before] if settings["do_resize"] else before
    resample = _filter(settings["resample"], backend) if settings["do_resize"] else BILINEAR
    if settings["do_center_crop"]:
        resized = [
            array if array.shape[:2] == hw else backend.resized(array, hw, resample)
            for array, hw in zip(arrays, after, strict=True)
        ]
        arrays = [_center_crop(array, settings["crop_size"], backend) for array in resized]
        frames = [array.shape[:2] for array in arrays]
    else:
        frames = after
    targets = _frame(frames, settings)
    planes = _Planes(settings, resample, backend)
    count = len(arrays) if len(set(targets)) == 1 and planes.is_float(arrays) else 0
    room = np.empty((count, 3, *targets[0]), np.float32)
    found = [
        planes.of(array, hw, target, room[i] if count else None)
        for i, (array, hw, target) in enumerate(zip(arrays, frames, targets, strict=True))
    ]
    return Pixels(room if count else found, before, after)


def _filter(resample: Any, backend: Backend) -> int:
    """Return the number of one of Pillow's filters that is here."""
    name = getattr(resample, "value", resample)
    number = _NAMED.get(name, name) if isinstance(name, str) else name
    if number not in _NUMBERED and not isinstance(number, str):
        raise ArgumentKeyError(f"resample: expected one of Pillow's filters, found {resample!r}")
    if number not in backend.filters:
        raise UnsupportedError(
            f"resample: expected one of {backend.filters} (0 nearest, 2 bilinear, 3 bicubic), "
            f"found {resample!r}"
        )
    return int(number)


def _frame(frames: Sequence[Hw], settings: Mapping[str, Any]) -> Sequence[Hw]:
    """Return the sizes of images after the pad."""
    if not settings["do_pad"]:
        return frames
    size = settings["pad_size"]
    if size is None:
        target = (max(hw[0] for hw in frames), max(hw[1] for hw in frames))
    elif size.height and size.width:
        target = (size.height, size.width)
    else:
        raise InvalidArgumentError(f"pad_size: expected 'height' and 'width', found {dict(size)}")
    for hw in frames:
        if hw[0] > target[0] or hw[1] > target[1]:
            raise InvalidArgumentError(
                f"pad_size: expected at least the size of the image, {hw}, found {target}"
            )
    return [target] * len(frames)


class _Planes:
    """Makes planes (C, H, W) of images: resized, normalized, and padded with 0."""

    def __init__(self, settings: Mapping[str, Any], resample: int, backend: Backend) -> None:
        self.settings, self.resample, self.backend = settings, resample, backend
        self.is_fast = backend is TORCHVISION and resample in _FILTERS

    def is_float(self, arrays: list[Image]) -> bool:
        """Tell whether all become float32 (3, H, W)."""
        made = self.settings["do_normalize"] or self.settings["do_rescale"]
        return made and all(array.shape[2] == 3 and array.dtype == np.uint8 for array in arrays)

    def of(self, image: Image, hw: Hw, frame: Hw, out: NDArray[Any] | None) -> NDArray[Any]:
        """Return an image in a frame; float32 of RGB bytes go to `out`, if it is given."""
        if out is not None and self.is_fast:
            _core.image_to_planes(image, hw, self.levels, out, _FILTERS[self.resample])
            return out
        if image.shape[:2] != hw:
            image = self.backend.resized(image, hw, self.resample)
        planes = self.backend.values(np.moveaxis(image, -1, 0), self.settings)
        result = np.zeros((len(planes), *frame), planes.dtype) if out is None else out
        result[:, : hw[0], : hw[1]] = planes
        result[:, hw[0] :] = 0
        result[:, :, hw[1] :] = 0
        return result

    @cached_property
    def levels(self) -> NDArray[np.float32]:
        """Return the value of each byte, (256, 3)."""
        bytes_ = np.broadcast_to(np.arange(256, dtype=np.uint8)[:, None], (3, 256, 1))
        planes = self.backend.values(bytes_, self.settings)
        return np.ascontiguousarray(planes[:, :, 0].T)


def _values(planes: NDArray[Any], settings: Mapping[str, Any]) -> NDArray[Any]:
    """Return planes (C, H, W) rescaled and normalized, both at once."""
    factor = settings["rescale_factor"]
    if not settings["do_normalize"]:
        return _rescaled(planes, factor) if settings["do_rescale"] else planes
    mean, std = (np.asarray(settings[name], np.float32) for name in ("image_mean", "image_std"))
    if settings["do_rescale"]:
        inverse = np.float32(1.0 / factor)
        mean, std = mean * inverse, std * inverse
    elif not np.all(std):
        raise InvalidArgumentError(f"image_std: expected other numbers than 0, found {std}")
    if mean.size not in (1, len(planes)) or std.size not in (1, len(planes)):
        raise ArgumentRuntimeError(
            f"image_mean: expected one number, or one for each of {len(planes)} channels, found "
            f"{mean} and {std}"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        centered = planes.astype(np.float32) - mean.reshape(-1, 1, 1)
        np.divide(centered, std.reshape(-1, 1, 1), out=centered)
    return centered


def _rescaled(planes: NDArray[Any], factor: float) -> NDArray[Any]:
    kind = planes.dtype if planes.dtype.kind == "f" else np.dtype(np.float32)
    result: NDArray[Any] = planes.astype(kind) * kind.type(factor)
    return result


def _resized(image: Image, hw: Hw, resample: int) -> Image:
    """Return an image (H, W, C) in another size, of the same type."""
    if resample == NEAREST:
        rows, columns = (_nearest(old, new) for old, new in zip(image.shape[:2], hw, strict=True))
        return image[rows[:, None], columns]
    channels = image.shape[2]
    name = _FILTERS[resample]
    if image.dtype == np.uint8:
        threes = -(-channels // 3) * 3
        source = np.resize(np.moveaxis(image, -1, 0), (threes, *image.shape[:2]))
        parts = [
            _core.resize_image(np.moveaxis(source[i : i + 3], 0, -1), hw, name)
            for i in range(0, threes, 3)
        ]
        return np.concatenate(parts, axis=2)[..., :channels]
    planes = np.ascontiguousarray(np.moveaxis(image, -1, 0), np.float32)
    found = np.moveaxis(_core.resize_planes(planes, hw, name), 0, -1)
    kind = image.dtype
    # torchvision rounds for these types of integers alone.
    whole = kind.kind == "i" or kind == np.uint8
    return (np.rint(found) if whole else found).astype(kind)


def _nearest(old: int, new: int) -> NDArray[np.intp]:
    """Return the source of each position: PyTorch's rule "nearest-exact", in its precision."""
    scale = np.float64(np.float32(old) / np.float32(new))
    positions = ((np.arange(new) + 0.5) * scale).astype(np.float32)
    return np.minimum(np.floor(positions).astype(np.intp), old - 1)


def _center_crop(image: Image, size: SizeDict | None, backend: Backend) -> Image:
    """Return the middle of an image (H, W, C), with 0 around it where it is smaller."""
    if size is None or size.height is None or size.width is None:
        raise InvalidArgumentError(f"crop_size: expected 'height' and 'width', found {size}")
    wanted = (size.height, size.width)
    more = [max(new - old, 0) for new, old in zip(wanted, image.shape[:2], strict=True)]
    less, rest = [n // 2 for n in more], [(n + 1) // 2 for n in more]
    before, after = (less, rest) if backend is TORCHVISION else (rest, less)
    image = np.pad(image, [*zip(before, after, strict=True), (0, 0)])
    top, left = (int((old - new) / 2.0) for old, new in zip(image.shape[:2], wanted, strict=True))
    return image[top : top + wanted[0], left : left + wanted[1]]


TORCHVISION = Backend(channels_last, _resized, _values, (NEAREST, BILINEAR, BICUBIC))

__dir__ = public_names(__name__)
