"""Images and results on disk. Images need Pillow (extra ``image``)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.arrays.checks import as_items, as_path
from sam_rlx._internal.arrays.masks import as_bools
from sam_rlx._internal.files.results import write_arrays, write_document
from sam_rlx._internal.files.targets import check_folder
from sam_rlx._internal.formats import coco
from sam_rlx._internal.media.image_files import open_image as open_image
from sam_rlx._internal.media.image_files import pillow as pillow
from sam_rlx._internal.media.image_files import read_image as read_image
from sam_rlx._internal.media.image_writer import write_pixels
from sam_rlx._internal.media.mask_files import read_mask as read_mask
from sam_rlx._internal.media.windows import Windows as Windows
from sam_rlx._internal.media.windows import open_windows as open_windows
from sam_rlx._internal.public import public_names

__all__ = [
    "Windows",
    "coco_annotation",
    "coco_document",
    "open_windows",
    "read_image",
    "read_mask",
    "write_image",
    "write_json",
    "write_masks",
    "write_npz",
]


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
        The suffix is another one, or there is a file of another kind that this library has not
        written.
    MissingExtraError
        Pillow is not installed.
    """
    write_pixels(path, pixels)


def write_masks(
    directory: str | os.PathLike[str], masks: Iterable[NDArray[np.bool_]]
) -> list[Path]:
    """Write each mask as ``mask_000.png``, ``mask_001.png``, ... with values 0 and 255.

    Returns
    -------
    list of Path
        The files, in the order of `masks`.

    Raises
    ------
    InvalidArgumentError
        The folder is new and its name ends as files do, such as ``masks.png``.
    """
    paths = []
    folder = as_path(directory)
    check_folder(folder)
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
    categories: Sequence[str | Mapping[str, Any]] = ("object",),
) -> dict[str, Any]:
    """Put annotations of one image into a COCO document.

    Numbers that are given stay, and must fit each other.

    Parameters
    ----------
    image : mapping
        ``file_name``, ``height`` and ``width``; ``id`` if it is not 1.
    annotations : sequence of mappings
        From `coco_annotation` or `MaskRecord.to_coco`. Those without ``id``, ``image_id`` or
        ``category_id`` get the next free number, the image's, and the first category's.
    categories : sequence of str or mappings
        Names, which get the numbers 1, 2, ..., or COCO's dicts of ``id`` and ``name``.

    Returns
    -------
    dict
        ``images``, ``annotations`` (with ``id``, ``image_id``, ``category_id``, ``iscrowd``) and
        ``categories``; ``pycocotools`` reads it.

    Raises
    ------
    InvalidArgumentError
        An annotation is of another image or of a category that is not there, two have one number,
        or a type is wrong.
    """
    return coco.document(
        image, as_items("annotations", annotations), as_items("categories", categories)
    )


def write_json(path: str | os.PathLike[str], document: Any) -> None:
    """Write `document` as UTF-8 JSON. The file appears complete or not at all.

    Parameters
    ----------
    path : str or path
        Ends in ``.json``, or in nothing that says another kind of file.
    document : dict, list, str, number, bool or None
        What ``json`` can write.

    Raises
    ------
    InvalidArgumentError
        The document is something else, the suffix is one of another kind, or there is a file of
        another kind that this library has not written.
    """
    write_document(path, document)


def write_npz(path: str | os.PathLike[str], **arrays: Any) -> None:
    """Write named arrays as compressed NPZ. The file appears complete or not at all.

    Parameters
    ----------
    path : str or path
        Ends in ``.npz``, or in nothing that says another kind of file. No suffix is added.
    **arrays : array
        Numbers or text.

    Raises
    ------
    InvalidArgumentError
        A value is something else, the suffix is one of another kind, or there is a file of another
        kind that this library has not written.
    """
    write_arrays(path, arrays)


__dir__ = public_names(__name__)
