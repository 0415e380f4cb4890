"""Masks that are drawn in image files. Needs Pillow (extra ``image``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.pages import choose_page
from sam_rlx._internal.media.image_files import ImageFile, name_of, open_image, pillow
from sam_rlx.errors import InvalidArgumentError

_HALF = 128
# Values of a lossy black and white image lie near its ends: so near, and all but so many of them.
_NEAR_AN_END = 64
_NEAR_SHARE = 0.98
_SHOWN = 8  # labels that an error lists
_LOSSY = {"JPEG", "MPO", "JPEG2000", "AVIF"}
_WAYS_OUT = "label= chooses one, threshold= cuts a soft mask"


def read_mask(
    path: ImageFile,
    *,
    label: int | tuple[int, int, int] | None = None,
    threshold: float | None = None,
    page: int | None = None,
) -> NDArray[np.bool_]:
    """Read the mask of one object from an image file, upright.

    Labels are read as they are stored: 8, 16 and 32 bits, indices of a palette, colours. The
    background is 0 or black, and the object is all that has the one other label. In a cut-out the
    object is what the alpha channel shows, at least half opaque. In a lossy file (JPEG) black and
    white are told apart at half. Where this does not lead to one object, the file is refused.

    Parameters
    ----------
    path : str, path or binary file
        As for `read_image`.
    label : int or (red, green, blue), optional
        The object is what has this label, whatever else is there.
    threshold : float, optional
        The object is what is at least so bright, for masks with soft edges.
    page : int, optional
        As for `read_image`.

    Returns
    -------
    ndarray (H, W), bool
        All false if the whole image is background.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    InvalidArgumentError
        The file is no image, a damaged one, or does not show one object.
    MissingExtraError
        Pillow is not installed.
    """
    if label is not None and threshold is not None:
        raise InvalidArgumentError("label: expected it without threshold, found both")
    with _upright(path, page) as (image, is_lossy):
        if label is not None:
            return _of_label(image, label)
        if threshold is not None:
            return np.ascontiguousarray(_brightness(image) >= threshold)
        alpha = _alpha(image)
        if alpha is not None:
            return _cut_out(image, alpha)
        return _bright(image) if is_lossy else _drawn(image)


def read_labels(path: ImageFile) -> tuple[NDArray[Any], dict[Any, Any]]:
    """Read labels as `read_mask` does, for any number of objects.

    Returns
    -------
    labels : ndarray (H, W)
        0 for the background; numbers of any type, colours as one integer each. A cut-out or a lossy
        file of black and white has the label 1.
    info : dict
        What Pillow tells of the file besides.
    """
    with _upright(path, None) as (image, is_lossy):
        alpha = _alpha(image)
        if alpha is not None:
            return _cut_out(image, alpha).astype(np.uint8), image.info
        if is_lossy:
            return _bright(image).astype(np.uint8), image.info
        labels, found = _distinct(image)
        return np.where(labels == _background(image, found), 0, labels), image.info


@contextmanager
def _upright(path: ImageFile, page: int | None) -> Iterator[tuple[Any, bool]]:
    """Open an image file; a PIL image as it is to be seen, and whether the file is a lossy one."""
    with open_image(path) as opened:
        choose_page(opened, page, name_of(path))
        is_lossy = opened.format in _LOSSY or (
            opened.format == "WEBP" and not _is_lossless_webp(opened)
        )
        yield pillow("ImageOps").exif_transpose(opened), is_lossy


def _is_lossless_webp(image: Any) -> bool:
    position = image.fp.tell() if image.fp else 0
    if image.fp is None:
        return False
    image.fp.seek(0)
    head = image.fp.read(256)
    image.fp.seek(position)
    return b"VP8L" in head


def _labels(image: Any) -> NDArray[Any]:
    """Return stored values: (H, W), or colours packed in one number each."""
    if image.mode in ("1", "L", "P", "F") or image.mode.startswith("I"):
        return np.asarray(image)
    if image.mode in ("LA", "PA", "La"):
        return np.asarray(image)[:, :, 0]
    rgb = np.asarray(image.convert("RGB")).astype(np.int64)
    return (rgb[:, :, 0] << 16) | (rgb[:, :, 1] << 8) | rgb[:, :, 2]


def _is_colour(image: Any) -> bool:
    return image.mode not in ("1", "L", "P", "F", "LA", "PA", "La") and image.mode[0] != "I"


def _of_label(image: Any, label: Any) -> NDArray[np.bool_]:
    parts = tuple(label) if isinstance(label, (tuple, list)) else (label,)
    expected = 3 if _is_colour(image) else 1
    if len(parts) != expected or not all(isinstance(part, (int, np.integer)) for part in parts):
        kind = "(red, green, blue)" if expected == 3 else "an int"
        raise InvalidArgumentError(f"label: expected {kind} for this image, found {label!r}")
    value = int(parts[0])
    if expected == 3:
        value = (value << 16) | (int(parts[1]) << 8) | int(parts[2])
    return np.ascontiguousarray(_labels(image) == value)


def _brightness(image: Any) -> NDArray[Any]:
    if image.mode == "F" or image.mode.startswith("I"):
        return np.asarray(image)
    return np.asarray(image.convert("L"))


def _alpha(image: Any) -> NDArray[np.uint8] | None:
    """Return the alpha channel, if the image has one that is not opaque everywhere."""
    if not image.has_transparency_data:
        return None
    alpha: NDArray[np.uint8] = np.asarray(image.convert("RGBA"))[:, :, 3]
    return None if (alpha == 255).all() else alpha


def _cut_out(image: Any, alpha: NDArray[np.uint8]) -> NDArray[np.bool_]:
    shown = np.ascontiguousarray(alpha >= _HALF)
    if not shown.any():
        raise InvalidArgumentError("mask: expected a cut-out, found nothing opaque")
    rgb = np.asarray(image.convert("RGBA"))[:, :, :3].any(axis=2)
    labels = _labels(image)
    drawn_too = len(np.unique(labels)) == 2 and len(np.unique(rgb)) == 2
    if drawn_too and (rgb != shown).any():
        raise InvalidArgumentError(
            "mask: expected one object, found a drawing in black and another one in the alpha "
            f"channel: {_WAYS_OUT}"
        )
    return shown


def _bright(image: Any) -> NDArray[np.bool_]:
    """Read a lossy image of black and white."""
    values = _brightness(image)
    near = (values < _NEAR_AN_END) | (values > 255 - _NEAR_AN_END)
    if near.mean() < _NEAR_SHARE or values.max() <= 255 - _NEAR_AN_END:
        raise InvalidArgumentError(
            f"mask: expected black and white in a lossy file, found values {values.min()} to "
            f"{values.max()}: such files change labels; write masks as PNG, or give threshold="
        )
    return np.ascontiguousarray(values >= _HALF)


def _distinct(image: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the labels of an image, and each of them once."""
    labels = _labels(image)
    found = np.unique(labels)
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise InvalidArgumentError("mask: expected labels, found NaN or infinity")
    return labels, found


def _drawn(image: Any) -> NDArray[np.bool_]:
    labels, found = _distinct(image)
    background = _background(image, found)
    objects = found[found != background]
    if len(objects) > 1:
        raise InvalidArgumentError(
            f"mask: expected one object, found {len(objects)} labels: "
            f"{_listed(objects, _is_colour(image))}: {_WAYS_OUT}"
        )
    return np.ascontiguousarray(labels != background)


def _background(image: Any, found: NDArray[Any]) -> int:
    """Return the label of the background: 0; in a palette whose colours say otherwise, black."""
    if image.mode not in ("P", "PA"):
        return 0
    palette = np.asarray(image.getpalette("RGB") or [], np.uint8).reshape(-1, 3)
    black = [int(index) for index in found if index < len(palette) and not palette[index].any()]
    if not black or 0 in black:
        return 0
    if 0 in found:
        raise InvalidArgumentError(
            f"mask: expected a background, found a palette in which index 0 is not black and index "
            f"{black[0]} is: label= chooses the object"
        )
    return black[0]


def _listed(labels: NDArray[Any], is_colour: bool) -> str:
    shown = [label.item() for label in labels[:_SHOWN]]
    if is_colour:
        shown = [(label >> 16, label >> 8 & 255, label & 255) for label in shown]
    return ", ".join(map(str, shown)) + (", ..." if len(labels) > _SHOWN else "")
