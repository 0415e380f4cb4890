"""Masks that are drawn in image files. Needs Pillow (extra ``image``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.pages import choose_page
from sam_rlx._internal.arrays.pil import upright
from sam_rlx._internal.arrays.stored import Storage, storage_of
from sam_rlx._internal.media.image_files import ImageFile, name_of, open_image
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
    with _opened(path, page) as file:
        return np.ascontiguousarray(upright(file.image, _mask(file, label, threshold)))


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
    with _opened(path, None) as file:
        return upright(file.image, _all_labels(file)), file.image.info


class _File(NamedTuple):
    """An image file whose page is chosen and loaded."""

    image: Any
    storage: Storage
    is_lossy: bool

    @property
    def is_colour(self) -> bool:
        mode = self.image.mode
        return mode not in ("1", "L", "P", "F", "LA", "PA", "La") and mode[0] != "I"

    def labels(self) -> NDArray[Any]:
        """Return stored values: (H, W), or colours packed in one number each."""
        mode = self.image.mode
        if mode in ("LA", "PA", "La"):
            return np.asarray(self.image)[:, :, 0]
        if not self.is_colour:
            return self.storage.values(self.image)
        rgb = np.asarray(self.image.convert("RGB")).astype(np.int64)
        return (rgb[:, :, 0] << 16) | (rgb[:, :, 1] << 8) | rgb[:, :, 2]


@contextmanager
def _opened(path: ImageFile, page: int | None) -> Iterator[_File]:
    """Open an image file of labels; refuse what Pillow does not read as it is stored."""
    with open_image(path) as image:
        choose_page(image, page, name_of(path))
        storage = storage_of(image)
        if storage.lost_bits:
            raise InvalidArgumentError(
                "mask: expected labels that Pillow reads as they are stored, found more bits than "
                "it keeps: read the file with another package (tifffile), and give the array"
            )
        is_lossy = image.format in _LOSSY or (
            image.format == "WEBP" and not _is_lossless_webp(image)
        )
        image.load()
        yield _File(image, storage, is_lossy)


def _mask(file: _File, label: Any, threshold: float | None) -> NDArray[np.bool_]:
    """Return the object of a file, not turned."""
    if label is not None:
        return _of_label(file, label)
    if threshold is not None:
        bright: NDArray[np.bool_] = _brightness(file) >= threshold
        return bright
    alpha = _alpha(file.image)
    if alpha is not None:
        return _cut_out(file, alpha)
    return _bright(file) if file.is_lossy else _drawn(file)


def _all_labels(file: _File) -> NDArray[Any]:
    """Return the labels of any number of objects, 0 for the background."""
    alpha = _alpha(file.image)
    if alpha is not None:
        return _cut_out(file, alpha).astype(np.uint8)
    if file.is_lossy:
        return _bright(file).astype(np.uint8)
    labels, found = _distinct(file)
    return np.where(np.isin(labels, _background(file, found)), 0, labels)


def _is_lossless_webp(image: Any) -> bool:
    position = image.fp.tell() if image.fp else 0
    if image.fp is None:
        return False
    image.fp.seek(0)
    head = image.fp.read(256)
    image.fp.seek(position)
    return b"VP8L" in head


def _of_label(file: _File, label: Any) -> NDArray[np.bool_]:
    parts = tuple(label) if isinstance(label, (tuple, list)) else (label,)
    expected = 3 if file.is_colour else 1
    if len(parts) != expected or not all(isinstance(part, (int, np.integer)) for part in parts):
        kind = "(red, green, blue)" if expected == 3 else "an int"
        raise InvalidArgumentError(f"label: expected {kind} for this image, found {label!r}")
    value = int(parts[0])
    if expected == 3:
        value = (value << 16) | (int(parts[1]) << 8) | int(parts[2])
    found: NDArray[np.bool_] = file.labels() == value
    return found


def _brightness(file: _File) -> NDArray[Any]:
    image = file.image
    if image.mode in ("1", "L"):
        turned = file.storage.is_turned and file.storage.values_count
        return np.asarray(image.convert("L")) ^ np.uint8(255 if turned else 0)
    if image.mode == "F" or image.mode.startswith("I"):
        return file.storage.values(image)
    return np.asarray(image.convert("L"))


def _alpha(image: Any) -> NDArray[np.uint8] | None:
    """Return the alpha channel, if the image has one that is not opaque everywhere.

    One value of grey or of a palette that is transparent says "no data": that is no channel.
    """
    if image.mode in ("1", "L", "P") or image.mode[0] == "I" or not image.has_transparency_data:
        return None
    alpha: NDArray[np.uint8] = np.asarray(image.convert("RGBA"))[:, :, 3]
    return None if (alpha == 255).all() else alpha


def _cut_out(file: _File, alpha: NDArray[np.uint8]) -> NDArray[np.bool_]:
    shown = np.ascontiguousarray(alpha >= _HALF)
    if not shown.any():
        raise InvalidArgumentError("mask: expected a cut-out, found nothing opaque")
    rgb = np.asarray(file.image.convert("RGBA"))[:, :, :3].any(axis=2)
    drawn_too = len(np.unique(file.labels())) == 2 and len(np.unique(rgb)) == 2
    if drawn_too and (rgb != shown).any():
        raise InvalidArgumentError(
            "mask: expected one object, found a drawing in black and another one in the alpha "
            f"channel: {_WAYS_OUT}"
        )
    return shown


def _bright(file: _File) -> NDArray[np.bool_]:
    """Read a lossy image of black and white."""
    values = _brightness(file)
    near = (values < _NEAR_AN_END) | (values > 255 - _NEAR_AN_END)
    if near.mean() < _NEAR_SHARE or values.max() <= 255 - _NEAR_AN_END:
        raise InvalidArgumentError(
            f"mask: expected black and white in a lossy file, found values {values.min()} to "
            f"{values.max()}: such files change labels; write masks as PNG, or give threshold="
        )
    return np.ascontiguousarray(values >= _HALF)


def _distinct(file: _File) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the labels of an image, and each of them once."""
    if file.storage.white_is_zero and not file.storage.values_count:
        raise InvalidArgumentError(
            "mask: expected labels, found a file in which 0 is white (photometric 0) of a writer "
            "that does not tell whether it means the values or the colours: label= chooses the "
            "object by its value in the file, threshold= by its brightness"
        )
    labels = file.labels()
    found = np.unique(labels)
    no_data = file.storage.no_data
    if no_data is not None and np.isnan(no_data):
        found = found[~np.isnan(found)]
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise InvalidArgumentError("mask: expected labels, found NaN or infinity")
    return labels, found


def _drawn(file: _File) -> NDArray[np.bool_]:
    labels, found = _distinct(file)
    background = _background(file, found)
    objects = found[~np.isin(found, background)]
    if len(objects) > 1:
        raise InvalidArgumentError(
            f"mask: expected one object, found {len(objects)} labels: "
            f"{_listed(objects, file.is_colour)}: {_WAYS_OUT}"
        )
    is_object: NDArray[np.bool_] = np.isin(labels, objects)
    return is_object


def _background(file: _File, found: NDArray[Any]) -> list[float]:
    """Return the labels of the background: 0, or black of a palette, and what is no data."""
    image, no_data = file.image, file.storage.no_data
    if image.mode not in ("P", "PA"):
        return [0] if no_data is None else [0, no_data]
    clear = _clear_indices(image)
    palette = np.asarray(image.getpalette("RGB") or [], np.uint8).reshape(-1, 3)
    black = [int(index) for index in found if index < len(palette) and not palette[index].any()]
    opaque = [index for index in black if index not in clear]
    if clear:
        seen = [int(index) for index in found if index not in clear and index != 0]
        if len(seen) != 1 and len(found) > 1:
            raise InvalidArgumentError(
                f"mask: expected one object, found {len(seen)} opaque labels of a palette beside "
                "a transparent one: label= chooses one, image.convert('RGBA') makes a cut-out"
            )
        return [0, *clear]
    if not opaque or 0 in opaque:
        return [0]
    if 0 in found:
        raise InvalidArgumentError(
            f"mask: expected a background, found a palette in which index 0 is not black and index "
            f"{opaque[0]} is: label= chooses the object"
        )
    return [opaque[0]]


def _clear_indices(image: Any) -> list[int]:
    """Return the indices of a palette that are transparent."""
    clear = image.info.get("transparency") if image.mode == "P" else None
    if isinstance(clear, bytes):
        return [index for index, alpha in enumerate(clear) if alpha < _HALF]
    return [clear] if isinstance(clear, int) else []


def _listed(labels: NDArray[Any], is_colour: bool) -> str:
    shown = [label.item() for label in labels[:_SHOWN]]
    if is_colour:
        shown = [(label >> 16, label >> 8 & 255, label & 255) for label in shown]
    return ", ".join(map(str, shown)) + (", ..." if len(labels) > _SHOWN else "")
