"""Images as transformers' processors take them: of one kind, as lists, their channels last."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.pil import is_pil
from sam_rlx._internal.packages import optional
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentRuntimeError, ArgumentTypeError
from sam_rlx.compat.common.tensors import is_torch
from sam_rlx.compat.transformers.image_utils import load_image
from sam_rlx.errors import InvalidArgumentError

Image = NDArray[Any]

# Lengths of an axis of channels.
_CHANNELS = (1, 3, 4)
_WHITE = (255, 255, 255, 255)


def flat_images(images: Any, ndim: int = 3) -> list[Any]:
    """Return images as a flat list of PIL images, arrays and tensors; files are read.

    Parameters
    ----------
    images : image or nested list
        PIL images, arrays, tensors, file names, URLs or base64 text. An array with one axis more
        is a stack.
    ndim : int
        Axes of one array; 2 for label maps.

    Raises
    ------
    TypeError
        Something else. Ours, as all errors here.
    ValueError
        Lists that are not of images, or arrays with another number of axes.
    """
    found = _fetched(images)
    if isinstance(found, list):
        if all(isinstance(part, list) and all(map(is_image, part)) for part in found):
            return [image for part in found for image in part]
        if found and all(map(is_image, found)):
            axes = ndim if is_pil(found[0]) else found[0].ndim
            if axes == ndim:
                return found
            if axes == ndim + 1:
                return [image for part in found for image in part]
    elif is_pil(found) or found.ndim == ndim:
        return [found]
    elif found.ndim == ndim + 1:
        return list(found)
    raise InvalidArgumentError(
        f"images: expected one image, a list of images, or an array with {ndim} axes or a stack "
        f"with {ndim + 1}, found {_described(found)}"
    )


def _fetched(images: Any) -> Any:
    if isinstance(images, (list, tuple)):
        return [_fetched(image) for image in images]
    if isinstance(images, str):
        return load_image(images)
    if is_image(images):
        return images
    raise ArgumentTypeError(
        f"images: expected PIL images, arrays, tensors or names of files, found "
        f"{type(images).__name__}"
    )


def is_image(value: Any) -> bool:
    """Tell whether something is a PIL image, an array or a tensor."""
    return isinstance(value, np.ndarray) or is_torch(value) or is_pil(value)


def _described(images: Any) -> str:
    if isinstance(images, list):
        return f"a list of {[_described(image) for image in images[:3]]}"
    return f"shape {tuple(images.shape)}" if hasattr(images, "shape") else type(images).__name__


def channels_last(image: Any, *, rgb: bool | None, data_format: Any = None) -> Image:
    """Return an image (H, W, C) for one of any kind.

    Parameters
    ----------
    image : PIL image, array or tensor
        Arrays have 2 axes (grey), or 3 with the channels first or last.
    rgb : bool or None
        Make it RGB: one channel is repeated, transparency is laid over white.
    data_format : str, optional
        "channels_first" or "channels_last". Default: the axis of length 1, 3 or 4, the first
        where both are.
    """
    if is_pil(image):
        array = np.asarray(_pil_rgb(image) if rgb else image)
        return array if array.ndim == 3 else array[..., None]
    array = _as_array(image)
    if array.ndim == 2:
        array = array[..., None]
    elif _is_first(array, data_format):
        array = np.moveaxis(array, 0, -1)
    if not rgb:
        return array
    if array.shape[-1] < 3:
        array = np.broadcast_to(array[..., :1], (*array.shape[:-1], 3))
    return _over_white(array) if array.shape[-1] == 4 else array


def _pil_rgb(image: Any) -> Any:
    pillow = optional("images", "PIL.Image", "pillow")
    if "A" not in image.getbands() and image.info.get("transparency") is None:
        return image.convert("RGB")
    image = image.convert("RGBA")
    white = pillow.new("RGBA", image.size, _WHITE)
    return pillow.alpha_composite(white, image).convert("RGB")


def _as_array(image: Any) -> Image:
    """Return a tensor as an array; numbers of less than 32 bits that NumPy lacks are widened."""
    if not is_torch(image):
        return np.asarray(image)
    image = image.detach().cpu()
    array: Image = (image.float() if str(image.dtype) == "torch.bfloat16" else image).numpy()
    return array


def _is_first(array: Image, data_format: Any) -> bool:
    """Tell whether the channels are the first axis."""
    if array.ndim != 3:
        raise InvalidArgumentError(f"image: expected 2 or 3 axes, found shape {array.shape}")
    if data_format is not None:
        name = str(getattr(data_format, "value", data_format))
        if name not in ("channels_first", "channels_last"):
            raise InvalidArgumentError(
                "input_data_format: expected 'channels_first' or 'channels_last', found "
                f"{data_format!r}"
            )
        return name == "channels_first"
    if array.shape[0] in _CHANNELS:
        return True
    if array.shape[2] in _CHANNELS:
        return False
    raise InvalidArgumentError(
        f"image: expected 1, 3 or 4 channels on the first or last axis, found shape {array.shape}"
    )


def _over_white(array: Image) -> Image:
    """Lay RGBA over white in float32, as torchvision converts types: integers are cut off."""
    kind = array.dtype
    if kind.kind == "f":
        low, high = array.min(), array.max()
        if low < 0.0 or high > 1.0:
            raise InvalidArgumentError(
                f"image: expected floats of 0 to 1 beside transparency, found {low} to {high}"
            )
        unit = array.astype(np.float32)
    else:
        largest = np.iinfo(kind).max
        if kind.itemsize > 2:
            raise ArgumentRuntimeError(
                f"image: expected bytes, 16 bits or floats beside transparency, found {kind}"
            )
        unit = array.astype(np.float32) * np.float32(1.0 / largest)
    alpha = unit[..., 3:]
    blended = unit[..., :3] * alpha + (np.float32(1) - alpha)
    if kind.kind != "f":
        blended = blended * np.float32(largest + 1.0 - 1e-3)
    return blended.astype(kind)


__dir__ = public_names(__name__)
