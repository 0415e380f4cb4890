"""What the pages of a TIFF stack are: the axes that its writer has noted, and the frames."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from sam_rlx._internal.arrays.checks import as_integer
from sam_rlx.errors import InvalidArgumentError

_DESCRIPTION, _SAMPLES, _DEPTH, _PLANES_OF_METAMORPH, _ZEISS = 270, 277, 32997, 33629, 34412
_ARRAY = "tifffile.imread(file) reads them all: give one axis of that array as frames"


@dataclass(frozen=True)
class StackAxes:
    """Axes of a stack, and the page of each position.

    Attributes
    ----------
    sizes : dict of str to int
        By letters: T times, Z slices, C channels; others have no meaning here.
    pages : dict of tuple of int to int
        Number of the page, among those that are full images, by the position on each axis.
    """

    sizes: Mapping[str, int]
    pages: Mapping[tuple[int, ...], int]

    def __str__(self) -> str:
        return ", ".join(f"{letter} {size}" for letter, size in self.sizes.items() if size > 1)


def frame_pages(image: Any, count: int, channel: int | None) -> list[int]:
    """Return which of the pages of a TIFF file are its frames, in their order.

    Parameters
    ----------
    image : PIL image
        The file, at its first page.
    count : int
        Number of its pages that are full images.
    channel : int, optional
        Which one of several channels.

    Raises
    ------
    InvalidArgumentError
        There are several axes, or channels and no choice, or pages in other files.
    """
    depth = image.tag_v2.get(_DEPTH, 1)
    if isinstance(depth, int) and depth > 1:
        raise InvalidArgumentError(
            f"expected pages of one slice, found a volume of {depth} slices in one page: "
            "tifffile.imread(file) reads it as an array (Z, H, W)"
        )
    stack = _axes(image, count)
    channels = 1 if stack is None else stack.sizes.get("C", 1)
    if channel is not None:
        as_integer("channel", channel, 0, channels - 1)
    if stack is None:
        return list(range(count))
    several = [letter for letter, size in stack.sizes.items() if size > 1 and letter != "C"]
    if channels > 1 and channel is None:
        way_out = (
            "frames.open_frames(file, channel=0) takes one channel, sam-rlx track has --channel"
            if several
            else "if these are frames, give the array, tifffile.imread(file)"
        )
        raise InvalidArgumentError(
            f"expected one axis of frames, found the axes {stack}: {way_out}"
        )
    if len(several) > 1:
        raise InvalidArgumentError(f"expected one axis of frames, found the axes {stack}: {_ARRAY}")
    letters = list(stack.sizes)
    at = letters.index("C") if "C" in letters else None
    return [
        page
        for position, page in sorted(stack.pages.items())
        if at is None or position[at] == (channel or 0)
    ]


def _axes(image: Any, count: int) -> StackAxes | None:
    """Return the axes that a file tells; None: it tells none, its pages are the frames."""
    tags = image.tag_v2
    text = tags.get(_DESCRIPTION, "")
    text = text if isinstance(text, str) else ""
    planes = tags.get(_PLANES_OF_METAMORPH)
    if isinstance(planes, tuple) and len(planes) > count:
        raise _in_one_page(len(planes), count, "MetaMorph")
    if isinstance(info := tags.get(_ZEISS), bytes) and len(info) >= 28:
        depth, _, times = (int.from_bytes(info[at : at + 4], "little") for at in (16, 20, 24))
        return _regular({"T": times, "Z": depth}, count)
    if re.search(r"<(\w+:)?OME[\s>]", text[:2000]):
        return _of_ome(text, count)
    if text.startswith("ImageJ="):
        return _of_imagej(text, count)
    if text.startswith("{"):
        return _of_tifffile(text, image, count)
    return None


def _in_one_page(planes: int, count: int, writer: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"expected a page for each frame, found {planes} images in {count} pages, as {writer} "
        f"writes them: {_ARRAY}"
    )


def _regular(sizes: Mapping[str, int], count: int) -> StackAxes:
    """Return axes of which the last one runs fastest."""
    if math.prod(sizes.values()) != count:
        noted = ", ".join(f"{letter} {size}" for letter, size in sizes.items())
        raise InvalidArgumentError(
            f"expected as many pages as its description has, {noted}, found {count}: {_ARRAY}"
        )
    positions = product(*(range(size) for size in sizes.values()))
    return StackAxes(sizes, {position: page for page, position in enumerate(positions)})


def _of_imagej(text: str, count: int) -> StackAxes | None:
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    names = {"T": "frames", "Z": "slices", "C": "channels"}
    sizes = {letter: _integer(fields.get(name, "1")) for letter, name in names.items()}
    images = _integer(fields.get("images", "1"))
    if images > count:
        raise _in_one_page(images, count, "ImageJ")
    if math.prod(sizes.values()) == 1:
        return None  # a plain stack
    return _regular(sizes, count)


def _integer(text: str) -> int:
    return int(text) if re.fullmatch(r"\s*\d{1,9}\s*", text) else 1


def _of_tifffile(text: str, image: Any, count: int) -> StackAxes | None:
    """Return the axes of a file of tifffile: the shape of its array, some with names of axes."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    shape = found.get("shape") if isinstance(found, dict) else None
    if not isinstance(shape, list) or not all(isinstance(size, int) for size in shape):
        return None
    samples = image.tag_v2.get(_SAMPLES, 1)
    page = [image.height, image.width]
    tails = ([*page, samples], [samples, *page], page)
    tail = next((tail for tail in tails if shape[len(shape) - len(tail) :] == tail), None)
    if tail is None:
        return None
    leading = shape[: len(shape) - len(tail)]
    if math.prod(leading) > count:
        raise _in_one_page(math.prod(leading), count, "tifffile")
    if sum(size > 1 for size in leading) <= 1 and not _names(found, leading).count("C"):
        return None
    letters = _names(found, leading)
    if len(set(letters)) < len(leading):
        raise InvalidArgumentError(
            f"expected one axis of frames, found an array of shape {tuple(shape)}, of which the "
            f"file does not say more: {_ARRAY}"
        )
    return _regular(dict(zip(letters, leading, strict=True)), count)


def _names(found: dict[str, Any], leading: list[int]) -> str:
    axes = found.get("axes")
    return axes[: len(leading)].upper() if isinstance(axes, str) else ""


# ---------------------------------------------------------------- OME-XML


def _of_ome(text: str, count: int) -> StackAxes | None:
    from xml.etree import ElementTree  # slow to load, seldom needed

    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InvalidArgumentError("expected OME-XML without entities, found some")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InvalidArgumentError(f"expected OME-XML, found {error}: {_ARRAY}") from error
    companion = next(_named(root, "BinaryOnly"), None)
    if companion is not None:
        file = companion.get("MetadataFile", "another file")
        raise InvalidArgumentError(
            f"expected a file that tells its axes, found a part of what {file} describes: {_ARRAY}"
        )
    images = list(_named(root, "Image"))
    if len(images) > 1:
        raise InvalidArgumentError(
            f"expected one image, found {len(images)} in one OME-TIFF file: tifffile.imread(file, "
            "series=0) reads one of them: give the array"
        )
    pixels = next((pixels for image in images for pixels in _named(image, "Pixels")), None)
    return None if pixels is None else _of_pixels(root, pixels, count)


def _named(element: Any, name: str) -> Iterator[Any]:
    return (child for child in element if child.tag.rpartition("}")[2] == name)


def _of_pixels(root: Any, pixels: Any, count: int) -> StackAxes:
    sizes = {letter: _integer(pixels.get(f"Size{letter}", "1")) for letter in "TZC"}
    samples = next((_integer(c.get("SamplesPerPixel", "1")) for c in _named(pixels, "Channel")), 1)
    sizes["C"] //= max(1, min(samples, sizes["C"]))
    order = [letter for letter in pixels.get("DimensionOrder", "XYCZT")[2:] if letter in sizes]
    if sorted(order) != sorted(sizes):
        raise InvalidArgumentError(f"expected OME-XML with DimensionOrder, found none: {_ARRAY}")
    slowest_first = [range(sizes[letter]) for letter in reversed(order)]
    in_order = [
        tuple(dict(zip(reversed(order), position, strict=True))[letter] for letter in sizes)
        for position in product(*slowest_first)
    ]
    rank = {position: number for number, position in enumerate(in_order)}
    pages: dict[tuple[int, ...], int] = {}
    elsewhere = False
    for data in _named(pixels, "TiffData"):
        uuid = next(_named(data, "UUID"), None)
        if uuid is not None and root.get("UUID") and uuid.text != root.get("UUID"):
            elsewhere = True
            continue
        first = tuple(_integer(data.get(f"First{letter}", "0")) for letter in sizes)
        page = _integer(data.get("IFD", "0"))
        planes = _integer(data.get("PlaneCount", "1" if "IFD" in data.attrib else str(count)))
        start = rank.get(first, len(in_order))
        for offset, position in enumerate(in_order[start : start + planes]):
            pages.setdefault(position, page + offset)
    if not pages and not elsewhere:
        pages = {position: page for page, position in enumerate(in_order)}
    if len(pages) < len(in_order) or sorted(pages.values()) != list(range(count)):
        found = f"{len(in_order)} planes ({StackAxes(sizes, {})}) and {count} pages in this file"
        raise InvalidArgumentError(
            f"expected a page for each plane of the OME-XML, found {found}: {_ARRAY}"
        )
    return StackAxes(sizes, pages)
