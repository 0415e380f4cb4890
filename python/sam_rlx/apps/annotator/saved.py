"""Objects of images from files: those that `export` writes, and COCO of other programs."""

import io as streams
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.files import hints, saved_arrays
from sam_rlx._internal.media.mask_files import read_labels
from sam_rlx._internal.printable import shown
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.json_reader import read_json
from sam_rlx.apps.annotator.limits import MAX_LABELS
from sam_rlx.apps.annotator.session import UNCOLORED
from sam_rlx.apps.annotator.values import Color, Mask, Object, PackedMask, Text
from sam_rlx.errors import InvalidArgumentError

# A key of a label image's text, which has names, colours and scores by label.
LABELS_KEY = "sam_rlx objects"
_MAX_NAME = 200
_ARRAYS: saved_arrays.Schema = {
    "masks": saved_arrays.Field("b", 3),
    "names": saved_arrays.Field("U", 1),
    "scores": saved_arrays.Field("fiu", 1),
    "colors": saved_arrays.Field("iu", 2),
}

Size: TypeAlias = tuple[int, int]  # H, W


@dataclass(frozen=True, eq=False)
class SavedObject:
    """An object of a file; what the file does not say is None."""

    mask: PackedMask
    name: str | None = None
    color: Color | None = None
    score: float = 1.0
    text: str | None = None
    category: str | None = None


@dataclass(frozen=True)
class OpenImages:
    """The images that a file's objects may belong to.

    Attributes
    ----------
    names : sequence of str
        Their paths.
    current : int
        The one that is shown.
    size_of : callable
        Returns the size of one.
    keys : sequence of str
        Of their contents; "" for an image that is no file.
    """

    names: Sequence[str]
    current: int
    size_of: Callable[[int], Size]
    keys: Sequence[str] = ()

    def check(self, where: str, index: int, found: Size) -> None:
        """Refuse masks of another size than the image's."""
        height, width = self.size_of(index)
        if (height, width) != found:
            turned = ", as if the image were turned (EXIF)" if found == (width, height) else ""
            raise InvalidArgumentError(
                f"{where}: expected masks of {width} x {height} pixels for {self.names[index]}, "
                f"found {found[1]} x {found[0]}{turned}"
            )


def from_saved(one: SavedObject) -> Object:
    """Return an object of a file, without a number."""
    return Object(
        0,
        (one.name or "").strip()[:_MAX_NAME],
        one.color or UNCOLORED,
        prompts=() if one.text is None else (Text(1, 0, one.text),),
        masks={0: Mask(one.mask, one.score, "file")},
    )


def read_label_image(name: str, contents: bytes, images: OpenImages) -> list[SavedObject]:
    """Return the objects of the current image: what has one label other than 0 is one of them.

    Labels are what `io.read_mask` takes for them. Masks that lay over each other come back as they
    are seen: without what was hidden.
    """
    if contents.startswith(b"\x93NUMPY"):
        values, said = _label_array(name, contents), None
    else:
        values, info = read_labels(streams.BytesIO(contents))
        said = info.get(LABELS_KEY)
    images.check(name, images.current, (values.shape[0], values.shape[1]))
    labels = [label.item() for label in np.unique(values) if label != 0]
    if len(labels) > MAX_LABELS:
        raise InvalidArgumentError(
            f"{name}: expected at most {MAX_LABELS} labels, found {len(labels)}: "
            "is it a photograph?"
        )
    if labels and labels[0] < 0:
        raise InvalidArgumentError(f"{name}: expected labels from 0 on, found {labels[0]}")
    described = _described(name, said)
    return [_named(f"{name}: label {k}", values == k, described.get(str(k), {})) for k in labels]


def _label_array(name: str, contents: bytes) -> NDArray[Any]:
    """Return the labels of a file of `numpy.save`."""
    what = "a label image: integers (H, W)"
    field = saved_arrays.Field("biuf", 2)
    values = saved_arrays.read_array(streams.BytesIO(contents), name, what, field)
    if values.dtype.kind == "f" and not (np.isfinite(values) & (values == np.floor(values))).all():
        raise InvalidArgumentError(f"{name}: expected {what}, found fractions")
    return values


def _described(name: str, text: Any) -> dict[str, Any]:
    if not isinstance(text, str):
        return {}
    found = parsed(name, text)
    return found if isinstance(found, dict) else {}


def _named(where: str, mask: NDArray[np.bool_], said: Any) -> SavedObject:
    if not isinstance(said, dict):
        raise InvalidArgumentError(f"{where}: expected an object of JSON, found {shown(said)}")
    return SavedObject(PackedMask.of(mask), *described(where, said))


def described(where: str, said: dict[str, Any]) -> tuple[str | None, Color | None, float]:
    """Return name, colour and score, as far as a dict has them."""
    name, color, score = said.get("name"), said.get("color"), said.get("score")
    try:
        if name is not None and not isinstance(name, str):
            raise InvalidArgumentError(f"name: expected a text, found {shown(name)}")
        return (
            name,
            None if color is None else fields.color(said),
            1.0 if score is None else fields.number(said, "score", -1e6, 1e6),
        )
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{where}: {error}") from error


def read_arrays(name: str, contents: bytes, images: OpenImages) -> list[SavedObject]:
    """Return the objects of the current image from an NPZ archive with ``masks``."""
    what = "NumPy arrays masks, names, scores and colors"
    found = saved_arrays.read_masks(streams.BytesIO(contents), name, what, _ARRAYS)
    masks, names, scores, colors = (found[str(key)] for key in _ARRAYS)
    count = len(masks)
    if len(names) != count or len(scores) != count or colors.shape != (count, 3):
        raise InvalidArgumentError(
            f"{name}: expected masks bool (N, H, W), names (N,), scores (N,) and colors (N, 3), "
            f"found masks {masks.shape}, {names.shape}, {scores.shape} and {colors.shape}"
        )
    images.check(name, images.current, (masks.shape[1], masks.shape[2]))
    return [
        _named(
            f"{name}: object {at}",
            masks[at],
            {"name": str(names[at]), "score": float(scores[at]), "color": colors[at].tolist()},
        )
        for at in range(count)
    ]


def parsed(name: str, text: str | bytes) -> Any:
    """Return what JSON says."""
    try:
        return read_json(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        start = (text.encode() if isinstance(text, str) else text)[: hints.START]
        found = hints.odd_file(start) or error
        raise InvalidArgumentError(f"{name}: expected JSON, found {found}") from error
