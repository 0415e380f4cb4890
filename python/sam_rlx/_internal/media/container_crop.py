"""The crop that a container asks players for: FFmpeg's command follows it, its libraries do not."""

import io
from collections.abc import Iterator
from typing import BinaryIO

_MAX_HEADER = 1 << 26  # bytes of a header; that of a day of video has 20 MB
_BOXES = (b"moov", b"trak", b"mdia", b"minf", b"stbl")
_SAMPLE_ENTRY = 86  # bytes of a description of video before its boxes
_SEGMENT, _TRACKS, _TRACK, _VIDEO = 0x18538067, 0x1654AE6B, 0xAE, 0xE0
_CROPS = {0x54CC: 0, 0x54DD: 1, 0x54BB: 2, 0x54AA: 3}

Crop = tuple[int, int, int, int]


def crop_of(file: BinaryIO, family: str, hw: tuple[int, int]) -> Crop | None:
    """Return how many pixels of a video the container hides: left, right, top, bottom.

    Parameters
    ----------
    file : binary file
        The file, at its start.
    family : str
        FFmpeg's name of the container; others than MP4 and Matroska hide nothing.
    hw : (int, int)
        Height and width of the frames as they are stored.
    """
    crop = None
    if family == "mov":
        crop = _of_boxes(file, hw)
    elif family == "matroska":
        crop = _of_elements(file)
    return crop if crop and any(crop) else None


def _of_boxes(file: BinaryIO, hw: tuple[int, int]) -> Crop | None:
    """Return the clean aperture of an MP4 file."""
    while len(head := file.read(8)) == 8:
        size, header = int.from_bytes(head[:4], "big"), 8
        if size == 1:
            size, header = int.from_bytes(file.read(8), "big"), 16
        if head[4:] == b"moov":
            return _aperture(
                file.read(min(size - header, _MAX_HEADER) if size else _MAX_HEADER), hw
            )
        if size < header:  # 0: up to the end
            return None
        file.seek(size - header, 1)
    return None


def _aperture(data: bytes, hw: tuple[int, int]) -> Crop | None:
    for kind, body in _boxes(data):
        if kind in _BOXES and (found := _aperture(body, hw)):
            return found
        if kind == b"stsd":
            for _, entry in _boxes(body[8:]):
                for inner, fields in _boxes(entry[_SAMPLE_ENTRY - 8 :]):
                    if inner == b"clap" and len(fields) >= 32:
                        return _of_clap(fields, hw)
    return None


def _boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size < 8:
            return
        yield data[at + 4 : at + 8], data[at + 8 : at + size]
        at += size


def _of_clap(fields: bytes, hw: tuple[int, int]) -> Crop | None:
    """Return the crop of the fractions width, height, and offsets of the middle."""
    numbers = [int.from_bytes(fields[at : at + 4], "big", signed=True) for at in range(0, 32, 4)]
    if not all(numbers[1::2]):
        return None
    width, height, right, down = (a / b for a, b in zip(numbers[::2], numbers[1::2], strict=True))
    left, top = (hw[1] - width) / 2 + right, (hw[0] - height) / 2 + down
    crop = tuple(round(value) for value in (left, hw[1] - left - width, top, hw[0] - top - height))
    return crop if min(crop) >= 0 else None  # type: ignore[return-value]


def _of_elements(file: BinaryIO) -> Crop | None:
    """Return the crop of the first track of a Matroska file that has one.

    Programs that change it later write the tracks anew behind the frames.
    """
    while (element := _element(file)) is not None:
        identity, size = element
        if identity == _SEGMENT:
            continue
        if identity == _TRACKS:
            return _of_tracks(file.read(min(size, _MAX_HEADER)))
        file.seek(size, 1)
    return None


def _of_tracks(data: bytes) -> Crop | None:
    for identity, body in _elements(data):
        if identity == _TRACK and (found := _of_tracks(body)):
            return found
        if identity == _VIDEO:
            crop = [0, 0, 0, 0]
            for inner, value in _elements(body):
                if inner in _CROPS:
                    crop[_CROPS[inner]] = int.from_bytes(value, "big")
            if any(crop):
                return tuple(crop)  # type: ignore[return-value]
    return None


def _element(file: BinaryIO) -> tuple[int, int] | None:
    """Read the identity and the size of an element."""
    numbers = []
    for keeps_mark in (True, False):
        first = file.read(1)
        if not first or not first[0]:
            return None
        length = 9 - first[0].bit_length()
        start = first[0] if keeps_mark else first[0] & ((1 << (8 - length)) - 1)
        numbers.append(int.from_bytes(bytes([start]) + file.read(length - 1), "big"))
    return numbers[0], numbers[1]


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    file = io.BytesIO(data)
    while (element := _element(file)) is not None:
        yield element[0], file.read(element[1])
