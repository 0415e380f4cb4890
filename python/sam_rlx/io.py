"""Images and results on disk. Images need Pillow (extra ``image``)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.checks import (
    as_flag,
    as_integer,
    as_items,
    as_number,
    as_path,
    as_texts,
    each_item,
)
from sam_rlx._internal.arrays.foreign import as_array
from sam_rlx._internal.arrays.masks import as_bools
from sam_rlx._internal.files.atomic import atomic_write
from sam_rlx._internal.files.results import write_arrays, write_document, write_text
from sam_rlx._internal.files.targets import check_folder
from sam_rlx._internal.formats import coco, yolo
from sam_rlx._internal.media.clip_frames import ClipFrames
from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx._internal.media.frames import open_frames
from sam_rlx._internal.media.image_files import open_image as open_image
from sam_rlx._internal.media.image_files import pillow as pillow
from sam_rlx._internal.media.image_files import read_image as read_image
from sam_rlx._internal.media.image_writer import write_pixels
from sam_rlx._internal.media.mask_files import read_mask as read_mask
from sam_rlx._internal.media.windows import Windows as Windows
from sam_rlx._internal.media.windows import open_windows as open_windows
from sam_rlx._internal.printable import shown
from sam_rlx._internal.public import public_names
from sam_rlx._internal.results import as_tolerance, instances_of, of_mask
from sam_rlx.errors import InvalidArgumentError

__all__ = [
    "Windows",
    "coco_annotation",
    "coco_document",
    "coco_joined",
    "open_windows",
    "read_image",
    "read_mask",
    "write_image",
    "write_json",
    "write_masks",
    "write_npz",
    "write_sequence",
    "write_video",
    "write_yolo",
]

_MAX_FRAMES = 1_000_000  # of a clip or a sequence


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


def write_masks(directory: str | os.PathLike[str], masks: Any) -> list[Path]:
    """Write each mask as ``mask_000.png``, ``mask_001.png``, ... with values 0 and 255.

    Parameters
    ----------
    directory : str or path
        Is made if there is none.
    masks : result, bool array (H, W), (K, H, W) or (N, K, H, W), or an iterable of these
        Of a `MaskPrediction` the best mask of each prompt set; of an array all.

    Returns
    -------
    list of Path
        The files, in the order of `masks`.

    Raises
    ------
    InvalidArgumentError
        The folder is new and its name ends as files do, such as ``masks.png``, or `masks` is
        something else.
    """
    paths = []
    folder = as_path(directory)
    check_folder(folder)
    for index, instance in enumerate(instances_of("masks", masks)):
        path = folder / f"mask_{index:03d}.png"
        write_image(path, instance.mask())
        paths.append(path)
    return paths


def write_sequence(
    directory: str | os.PathLike[str], frames: Iterable[Any], *, start: int = 0
) -> list[Path]:
    """Write frames as ``000000.png``, ``000001.png``, ..., which FFmpeg reads as ``%06d.png``.

    Parameters
    ----------
    directory : str or path
        Is made if there is none.
    frames : iterable of arrays
        Taken one at a time: mattes bool (H, W), images uint8 (H, W) or (H, W, 3), or cut-outs uint8
        (H, W, 4) with opacity. All have one shape.
    start : int
        Number of the first one (FFmpeg's ``-start_number``).

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    InvalidArgumentError
        A frame is something else, or of another shape than the first one.
    MissingExtraError
        Pillow is not installed.
    """
    folder = as_path(directory)
    check_folder(folder)
    number = as_integer("start", start, 0)
    paths: list[Path] = []
    shapes: set[tuple[int, ...]] = set()
    for index, frame in enumerate(each_item("frames", frames, _MAX_FRAMES)):
        pixels = as_array(f"frames[{index}]", frame)
        shapes.add(pixels.shape)
        if len(shapes) > 1:
            raise InvalidArgumentError(
                f"frames[{index}]: expected the shape of those before, found {sorted(shapes)}"
            )
        path = folder / f"{number + index:06d}.png"
        write_pixels(path, pixels, is_result=True)
        paths.append(path)
    return paths


def write_video(
    path: str | os.PathLike[str],
    frames: Iterable[Any],
    rate: float | None = None,
    *,
    source: str | os.PathLike[str] | None = None,
) -> int:
    """Write an MP4 file of frames, with the times, the pixels' form and the sound of its source.

    The file appears complete or not at all; Ctrl-C leaves one of the frames so far. Needs PyAV.

    Parameters
    ----------
    path : str or path
        Ends in ``.mp4``.
    frames : iterable of arrays
        Taken one at a time, so that a generator never holds the clip: uint8 (H, W, 3), as `plot`
        gives it, uint8 (H, W), or bool (H, W), which is written as 0 and 255. All have one size; a
        side of odd length gets one more row or column.
    rate : float, optional
        Frames per second. Default: the times of `source`.
    source : str or path, optional
        The video file that the frames come from, from its first one on: a frame is shown when that
        of the source is, and the sound is copied as far as there are frames. With `rate`, or where
        it tells no times, frames are shown by the rate.

    Returns
    -------
    int
        Number of frames.

    Raises
    ------
    InvalidArgumentError
        There is neither `rate` nor `source`, no frame or a frame of another shape, or the file
        must not be replaced.
    UnsupportedError
        MP4 files cannot hold the sound of the source.
    MissingExtraError
        PyAV is not installed.
    """
    clip = None if source is None else _as_clip(source)
    if clip is None and rate is None:
        raise InvalidArgumentError("write_video: expected rate or source, found None for both")
    per_second = clip.rate if clip is not None and rate is None else as_number("rate", rate, 1e-6)
    arguments: dict[str, Any] = {}
    if clip is not None:
        arguments = {"inputs": clip.files, "pixel_aspect": clip.pixel_aspect}
        arguments["sound"] = as_path(source)
    count, hw = 0, None
    with ClipWriter(path, per_second, **arguments) as writer:
        for frame in each_item("frames", frames, _MAX_FRAMES):
            pixels = _as_frame(count, frame)
            hw = hw or pixels.shape
            if pixels.shape != hw:
                raise InvalidArgumentError(
                    f"frames[{count}]: expected shape {hw} as the first one, found {pixels.shape}"
                )
            writer.add(pixels, _time(clip, rate, count))
            count += 1
        if not count:
            raise InvalidArgumentError("frames: expected at least one, found none")
    return count


def _as_clip(source: str | os.PathLike[str]) -> ClipFrames:
    clip = open_frames(as_path(source))
    if not isinstance(clip, ClipFrames):
        raise InvalidArgumentError(f"source: expected a clip, found {shown(source)}")
    return clip


def _time(clip: ClipFrames | None, rate: float | None, index: int) -> Fraction | None:
    """Return when a frame is shown; None: by the rate."""
    if clip is None or rate is not None:
        return None
    if clip.count is not None and index >= clip.count:
        raise InvalidArgumentError(
            f"frames: expected at most {clip.count}, those of the source, found more"
        )
    return clip.time(index)


def _as_frame(index: int, frame: Any) -> NDArray[np.uint8]:
    """Return a frame as uint8 (H, W, 3)."""
    pixels = as_array(f"frames[{index}]", frame)
    if pixels.dtype == np.bool_:
        pixels = pixels.view(np.uint8) * np.uint8(255)
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=2)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
        raise InvalidArgumentError(
            f"frames[{index}]: expected uint8 (H, W, 3) or (H, W), or bool (H, W), found shape "
            f"{pixels.shape} of {pixels.dtype}"
        )
    return pixels


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
    return {**coco.annotation(of_mask(as_bools("mask", mask))), **fields}


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


def coco_joined(documents: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one COCO document of several, such as those of images or of the frames of a clip.

    Images and annotations are numbered anew from 1, in their order. Categories are one where their
    names are equal, and numbered in the order in which they come.

    Parameters
    ----------
    documents : iterable of mappings
        From `coco_document` or `to_coco` of results.

    Raises
    ------
    InvalidArgumentError
        One is no such document.
    """
    given = as_items("documents", documents, _MAX_FRAMES)
    return coco.joined(coco.checked(index, one) for index, one in enumerate(given))


def write_yolo(
    folder: str | os.PathLike[str],
    results: Mapping[Any, Any],
    *,
    categories: Sequence[str] | None = None,
    box: bool = False,
    tolerance: float = 0.0,
) -> list[str]:
    """Write a folder that YOLO trains with: ``images/``, ``labels/`` and ``data.yaml``.

    Parameters
    ----------
    folder : str or path
        Is made if there is none.
    results : mapping of path to result
        The files of images, which are copied, and what was found on each. Their names without
        suffix differ.
    categories : sequence of str, optional
        Names in the order of YOLO's numbers 0, 1, ... Default: those of the objects, sorted.
    box, tolerance
        As for `to_yolo` of results.

    Returns
    -------
    list of str
        The categories.

    Raises
    ------
    InvalidArgumentError
        Two images have one name, an object's name is not among the categories, or something is no
        result.
    FileNotFoundError
        There is no such image.
    """
    target = as_path(folder)
    check_folder(target)
    if not isinstance(results, Mapping):
        raise InvalidArgumentError(f"results: expected a mapping, found {type(results).__name__}")
    found = {as_path(path): result for path, result in results.items()}
    _refuse_equal_names(found)
    instances = {path: instances_of(str(path), result) for path, result in found.items()}
    names = (
        sorted({one.name for some in instances.values() for one in some})
        if categories is None
        else as_texts("categories", categories)
    )
    limit, boxes = as_tolerance(tolerance), as_flag("box", box)
    for path, some in instances.items():
        text = yolo.lines(some, names, box=boxes, tolerance=limit)
        with path.open("rb") as image, atomic_write(target / "images" / path.name) as copy:
            shutil.copyfileobj(image, copy)
        write_text(target / "labels" / f"{path.stem}.txt", text, "text")
    write_text(target / "data.yaml", yolo.data_yaml(names), "YAML")
    return names


def _refuse_equal_names(paths: Iterable[Path]) -> None:
    seen: dict[str, Path] = {}
    for path in paths:
        if path.stem in seen:
            raise InvalidArgumentError(
                f"results: expected names that differ without their suffix, found {seen[path.stem]}"
                f" and {path}"
            )
        seen[path.stem] = path


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
