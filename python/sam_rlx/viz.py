"""Images of results: masks coloured by identity, outlines, captions, points and boxes.

Captions need Pillow; all else needs NumPy only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx._internal.arrays.checks import MAX_NUMBERS, as_integer, as_items, as_number
from sam_rlx._internal.arrays.coordinates import as_coordinates
from sam_rlx._internal.arrays.foreign import as_array
from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx._internal.drawing import overlay as drawing
from sam_rlx._internal.printable import shown
from sam_rlx._internal.public import public_names
from sam_rlx._internal.results import instances_of
from sam_rlx._internal.synonyms import also
from sam_rlx.concept import ConceptPrediction
from sam_rlx.errors import InvalidArgumentError

__all__ = ["color", "overlay", "overlay_concepts", "overlay_records"]

_POINT_COLORS = {1: (57, 211, 83), 0: (240, 62, 62), -1: (150, 150, 150)}
_MAX_IDENTITY = 1 << 53
_MAX_PIXEL = 1e9
_BOX_COLORS = {1: (255, 214, 10), 0: (240, 62, 62)}


def color(identity: int) -> tuple[int, int, int]:
    """Return the RGB colour (0 to 255) of object number `identity`; the same one every time."""
    identity = as_integer("identity", identity, -_MAX_IDENTITY)
    if identity > _MAX_IDENTITY:
        raise InvalidArgumentError(f"identity: expected at most {_MAX_IDENTITY}, found more")
    return drawing.color(identity)


@also(box="boxes")
def overlay(
    image: Any,
    masks: Any,
    *,
    identities: Iterable[int] | None = None,
    point_coords: ArrayLike | None = None,
    point_labels: ArrayLike | None = None,
    boxes: ArrayLike | None = None,
    box_labels: ArrayLike | None = None,
    captions: Iterable[str] | None = None,
    opacity: float = 0.5,
) -> NDArray[np.uint8]:
    """Draw masks, and the prompts they came from, over an image.

    Parameters
    ----------
    image : ndarray or PIL image
        As for `ImagePredictor.set_image`.
    masks : result, bool array (H, W), (K, H, W) or (N, K, H, W), or an iterable of these
        Drawn in order: later ones lie on top. May be empty. Of a `MaskPrediction` the best mask of
        each prompt set; of an array all.
    identities : iterable of int, optional
        Number of each mask's object, which chooses its colour. Default: 0, 1, 2, ...
    point_coords, point_labels : array (N, 2), array (N,), optional
        Points (x, y) in pixels: green for label 1, red for 0, grey for -1.
    boxes : array (4,) or (B, 4), optional
        (x0, y0, x1, y1) in pixels.
    box_labels : array (B,), optional
        Yellow for label 1, the default, and red for 0.
    captions : iterable of str, optional
        One a mask, such as its name and score. Letters beyond Latin need a font of this machine
        that has them; without one they are written as code points. Needs Pillow.
    opacity : float
        Of the filling, 0 to 1. Outlines are opaque.

    Returns
    -------
    ndarray (H, W, 3), uint8
        A new image.

    Raises
    ------
    InvalidArgumentError
        A type or shape does not fit the image, a label is unknown, or a number is not finite.
    MissingExtraError
        There are captions, and Pillow is not installed.
    """
    pixels = as_rgb(image)
    height, width = pixels.shape[:2]
    layers = [one.counts for one in instances_of("masks", masks, (height, width))]
    opacity = as_number("opacity", opacity, 0.0, 1.0)
    numbers = list(range(len(layers))) if identities is None else as_items("identities", identities)
    if len(numbers) != len(layers):
        raise InvalidArgumentError(
            f"identities: expected {len(layers)} numbers, found {len(numbers)}"
        )
    colors = [color(identity) for identity in numbers]
    corners, kinds = _as_marks("box", boxes, box_labels, 4, _BOX_COLORS)
    points, labels = _as_marks("point", point_coords, point_labels, 2, _POINT_COLORS)
    words = None if captions is None else as_items("captions", captions)
    if words is not None and not all(isinstance(word, str) for word in words):
        raise InvalidArgumentError(
            f"captions: expected str, found {sorted({type(word).__name__ for word in words})}"
        )
    if words is not None and len(words) != len(layers):
        raise InvalidArgumentError(f"captions: expected {len(layers)}, found {len(words)}")
    marks = corners, kinds, points, labels
    return drawing.drawn(pixels, layers, colors, words, marks, opacity)


def overlay_records(
    image: Any, records: Iterable[Any], *, opacity: float = 0.5
) -> NDArray[np.uint8]:
    """Draw the records of everything mode, large masks below small ones.

    Parameters
    ----------
    image : ndarray or PIL image
        The image that `MaskGenerator.generate` was given.
    records : iterable of MaskRecord
        Colours follow their order.
    opacity : float
        Of the filling, 0 to 1.

    Returns
    -------
    ndarray (H, W, 3), uint8
        A new image.
    """
    pixels = as_rgb(image)
    hw = (pixels.shape[0], pixels.shape[1])
    found = as_items("records", records)
    for index, record in enumerate(found):
        if not (hasattr(record, "area") and hasattr(record, "counts")):
            raise InvalidArgumentError(
                f"records[{index}]: expected MaskRecord, found {type(record).__name__}"
            )
        if tuple(record.size) != hw:
            raise InvalidArgumentError(
                f"records[{index}]: expected a mask of shape {hw}, found {tuple(record.size)}"
            )
    opacity = as_number("opacity", opacity, 0.0, 1.0)
    numbered = sorted(enumerate(found), key=lambda pair: -pair[1].area)
    counts = [record.counts for _, record in numbered]
    colors = [color(number) for number, _ in numbered]
    return drawing.drawn(pixels, counts, colors, None, opacity=opacity)


@also(box="boxes")
def overlay_concepts(
    image: Any,
    found: ConceptPrediction,
    *,
    boxes: ArrayLike | None = None,
    box_labels: ArrayLike | None = None,
    point_coords: ArrayLike | None = None,
    point_labels: ArrayLike | None = None,
    opacity: float = 0.5,
) -> NDArray[np.uint8]:
    """Draw what `ConceptPredictor.predict` found, large masks below small ones, with captions.

    Parameters
    ----------
    image : ndarray or PIL image
        The image of the prediction.
    found : ConceptPrediction
        Each instance has a colour, and a caption: its text and its score.
    boxes, box_labels, point_coords, point_labels
        The examples of the call, which are drawn too.
    opacity : float
        Of the filling, 0 to 1.

    Returns
    -------
    ndarray (H, W, 3), uint8
        A new image.

    Raises
    ------
    MissingExtraError
        Pillow is not installed.
    """
    if not isinstance(found, ConceptPrediction):
        raise InvalidArgumentError(
            f"found: expected ConceptPrediction, found {type(found).__name__}"
        )
    areas = np.array([np.count_nonzero(mask > 0) for mask in found.masks])
    order = np.argsort(-areas, kind="stable").tolist()
    names = found.names
    return overlay(
        image,
        (found.masks[index] > 0 for index in order),
        identities=order,
        captions=[f"{names[i]} {found.scores[i]:.2f}" for i in order],
        boxes=boxes,
        box_labels=box_labels,
        point_coords=point_coords,
        point_labels=point_labels,
        opacity=opacity,
    )


_Marks: TypeAlias = tuple[NDArray[np.float64], list[tuple[int, int, int]]]


def _as_marks(
    name: str,
    values: ArrayLike | None,
    labels: ArrayLike | None,
    width: int,
    known: dict[int, tuple[int, int, int]],
) -> _Marks:
    """Return points (N, 2) or boxes (N, 4), and the colour of each."""
    if values is None:
        return np.zeros((0, width)), []
    pixels = _as_pixels("boxes" if name == "box" else "point_coords", values, width)
    kinds = _as_labels(f"{name}_labels", labels, len(pixels), known)
    return pixels, [known[kind] for kind in kinds]


def _as_pixels(name: str, values: ArrayLike, width: int) -> NDArray[np.float64]:
    """Return points (N, 2) or boxes (N, 4)."""
    array = as_coordinates(name, values, width)
    if array.ndim == 0 or array.shape[-1] != width:
        raise InvalidArgumentError(
            f"{name}: expected numbers of shape (N, {width}), found shape {array.shape} of "
            f"{array.dtype}"
        )
    numbers = array.astype(np.float64)
    if not (np.abs(numbers) < _MAX_PIXEL).all():
        raise InvalidArgumentError(f"{name}: expected finite pixels, found NaN or more")
    return numbers.reshape(-1, width)


def _as_labels(
    name: str, labels: ArrayLike | None, count: int, known: dict[int, tuple[int, int, int]]
) -> list[int]:
    """Return a label for each of `count` marks: 1 if there are none."""
    if labels is None:
        return [1] * count
    array = as_array(name, labels, MAX_NUMBERS)
    values: list[int] = array.ravel().tolist() if array.dtype.kind in "biuf" else []
    if len(values) != count or not set(values) <= set(known):
        raise InvalidArgumentError(
            f"{name}: expected {count} labels of {', '.join(map(str, known))}, found "
            f"{shown(values or labels)}"
        )
    return values


__dir__ = public_names(__name__)
