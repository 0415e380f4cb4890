"""Images and results on disk. Images need Pillow (extra ``image``)."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._arrays import as_bools, as_items
from sam_rlx._image_files import open_image as open_image
from sam_rlx._image_files import pillow as pillow
from sam_rlx._image_files import read_image as read_image
from sam_rlx._internal.files.atomic import as_path, atomic_write
from sam_rlx._mask_files import read_mask as read_mask
from sam_rlx._own_files import EXIF_SOFTWARE, PNG_MARK, mark_npz
from sam_rlx._pixels import as_array
from sam_rlx.errors import InvalidArgumentError

__all__ = [
    "coco_annotation",
    "coco_document",
    "read_image",
    "read_mask",
    "write_image",
    "write_json",
    "write_masks",
    "write_npz",
]

_WRITABLE = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}


def write_image(
    path: str | os.PathLike[str], pixels: NDArray[np.uint8] | NDArray[np.bool_]
) -> None:
    """Write an image or a mask; the suffix chooses PNG, JPEG or WebP.

    Parameters
    ----------
    path : str or path
        Ends in ``.png``, ``.jpg``, ``.jpeg`` or ``.webp``. Appears complete or not at all.
    pixels : uint8 (H, W, 3) or (H, W), or bool (H, W)
        A mask is written as 0 and 255.

    Raises
    ------
    InvalidArgumentError
        The suffix is another one.
    MissingExtraError
        Pillow is not installed.
    """
    images = pillow("Image")
    name = as_path(path)
    form = _WRITABLE.get(name.suffix.lower())
    if form is None:
        raise InvalidArgumentError(
            f"{name}: expected a suffix of {list(_WRITABLE)}, found {name.suffix!r}"
        )
    if not isinstance(pixels, np.ndarray):
        raise InvalidArgumentError(f"pixels: expected an array, found {type(pixels).__name__}")
    pixels = as_array("pixels", pixels)
    if pixels.dtype == np.bool_:
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    options: dict[str, Any]
    if form == "PNG":
        options = {"pnginfo": pillow("PngImagePlugin").PngInfo()}
        options["pnginfo"].add_text(*PNG_MARK)
    else:
        options = {"quality": 92, "exif": images.Exif()}
        options["exif"][EXIF_SOFTWARE] = PNG_MARK[1]
    with atomic_write(name) as file:
        try:
            images.fromarray(np.ascontiguousarray(pixels)).save(file, format=form, **options)
        except (TypeError, ValueError, KeyError, OverflowError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the disk
                raise
            raise InvalidArgumentError(
                f"pixels: expected uint8 or bool (H, W) or (H, W, 3) that {form} can hold, found "
                f"shape {pixels.shape} of {pixels.dtype}: {error}"
            ) from error


def write_masks(
    directory: str | os.PathLike[str], masks: Iterable[NDArray[np.bool_]]
) -> list[Path]:
    """Write each mask as ``mask_000.png``, ``mask_001.png``, ... with values 0 and 255.

    Returns
    -------
    list of Path
        The files, in the order of `masks`.
    """
    paths = []
    folder = as_path(directory)
    for index, mask in enumerate(as_items("masks", masks)):
        path = folder / f"mask_{index:03d}.png"
        write_image(path, mask)
        paths.append(path)
    return paths


def coco_annotation(mask: NDArray[np.bool_], **fields: Any) -> dict[str, Any]:
    """Describe one mask as COCO does, ready for ``json``.

    Parameters
    ----------
    mask : bool (H, W)
        The mask.
    **fields
        Further entries, such as ``predicted_iou``.

    Returns
    -------
    dict
        ``segmentation`` (compressed RLE), ``area`` in pixels, ``bbox`` [x, y, w, h] with w and h
        counted in pixels, and `fields`.
    """
    mask = as_bools("mask", mask)
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    bbox = [0, 0, 0, 0]
    if len(rows):
        width, height = columns[-1] - columns[0] + 1, rows[-1] - rows[0] + 1
        bbox = [int(columns[0]), int(rows[0]), int(width), int(height)]
    counts = _core.rle_to_string(_core.rle_encode(mask))
    return {
        "segmentation": {"size": list(mask.shape), "counts": counts.decode("ascii")},
        "area": int(mask.sum()),
        "bbox": bbox,
        **fields,
    }


def coco_document(
    image: Mapping[str, Any],
    annotations: Sequence[Mapping[str, Any]],
    categories: Sequence[str] = ("object",),
) -> dict[str, Any]:
    """Put annotations of one image into a COCO document.

    Parameters
    ----------
    image : mapping
        ``file_name``, ``height`` and ``width``.
    annotations : sequence of mappings
        From `coco_annotation` or `MaskRecord.to_coco`.
    categories : sequence of str
        Names of the categories 1, 2, ...; annotations without a ``category_id`` have the first.

    Returns
    -------
    dict
        ``images``, ``annotations`` (with ``id``, ``image_id``, ``category_id``, ``iscrowd``) and
        ``categories``; ``pycocotools`` reads it.
    """
    listed = as_items("annotations", annotations)
    for where, found in (("image", image), *(("annotations", entry) for entry in listed)):
        if not isinstance(found, Mapping):
            raise InvalidArgumentError(f"{where}: expected a mapping, found {type(found).__name__}")
    numbered = [
        {"id": index + 1, "image_id": 1, "category_id": 1, "iscrowd": 0, **annotation}
        for index, annotation in enumerate(listed)
    ]
    named = as_items("categories", categories)
    names = [{"id": index + 1, "name": name} for index, name in enumerate(named)]
    return {"images": [{"id": 1, **image}], "annotations": numbered, "categories": names}


def write_json(path: str | os.PathLike[str], document: Any) -> None:
    """Write `document` as UTF-8 JSON. The file appears complete or not at all."""
    try:
        text = json.dumps(document, indent=1)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"document: expected what JSON can hold, found {error}"
        ) from error
    with atomic_write(path) as file:
        file.write((text + "\n").encode("utf-8"))


def write_npz(path: str | os.PathLike[str], **arrays: Any) -> None:
    """Write named arrays as compressed NPZ. The file appears complete or not at all."""
    for name, array in arrays.items():
        dtype = as_array(name, array).dtype
        if dtype.hasobject:  # NumPy would pickle it
            raise InvalidArgumentError(f"{name}: expected numbers or text, found {dtype}")
    with atomic_write(path) as file:
        np.savez_compressed(file, **arrays)
        mark_npz(file)
