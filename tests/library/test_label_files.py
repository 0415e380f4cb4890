"""Label files of other writers: integers as they are stored, or refused."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import imageio.v3 as imageio
import numpy as np
import pytest
import tifffile
from PIL import Image
from sam_rlx import InvalidArgumentError, io
from sam_rlx._internal.media.mask_files import read_labels

Y, X = np.mgrid[:24, :32]
FIRST = (X < 9) & (Y > 4)
SECOND = (X > 20) & (Y < 11)


def labels(dtype: str, first: int, second: int) -> np.ndarray:
    return np.where(FIRST, first, np.where(SECOND, second, 0)).astype(dtype)


def write_png(path: Path, values: np.ndarray, bits: int, clear: int | None = None) -> None:
    """Write grey values of few bits by the letter of the standard."""
    unpacked = np.unpackbits(values.astype(np.uint8)[:, :, None], axis=2)[:, :, 8 - bits :]
    rows = np.packbits(unpacked.reshape(len(values), -1), axis=1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        sums = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + sums

    header = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], bits, 0, 0, 0, 0)
    transparent = b"" if clear is None else chunk(b"tRNS", struct.pack(">H", clear))
    lines = b"".join(b"\0" + row.tobytes() for row in rows)
    parts = (chunk(b"IHDR", header), transparent, chunk(b"IDAT", zlib.compress(lines)))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IEND", b""))


def write_tiff(path: Path, values: np.ndarray, bits: int, photometric: int, **texts: str) -> None:
    """Write packed values as one strip, with a no-data value and a writer's name if given."""
    unpacked = np.unpackbits(values.astype(np.uint8)[:, :, None], axis=2)[:, :, 8 - bits :]
    data = np.packbits(unpacked.reshape(len(values), -1), axis=1).tobytes()
    height, width = values.shape
    entries = {256: width, 257: height, 258: bits, 259: 1, 262: photometric, 277: 1, 278: height}
    words = {305: texts.get("software"), 42113: texts.get("no_data")}
    count = len(entries) + 2 + sum(word is not None for word in words.values())
    at = 8 + 2 + 12 * count + 4
    rows = [struct.pack("<HHII", tag, 3, 1, value) for tag, value in entries.items()]
    tail = b""
    for tag, word in words.items():
        if word is not None:
            text = word.encode() + b"\0"
            held = text.ljust(4, b"\0") if len(text) <= 4 else struct.pack("<I", at + len(tail))
            rows.append(struct.pack("<HHI", tag, 2, len(text)) + held)
            tail += b"" if len(text) <= 4 else text + b"\0" * (len(text) % 2)
    rows.append(struct.pack("<HHII", 273, 4, 1, at + len(tail)))
    rows.append(struct.pack("<HHII", 279, 4, 1, len(data)))
    rows.sort(key=lambda row: struct.unpack("<H", row[:2]))
    directory = struct.pack("<H", count) + b"".join(rows) + struct.pack("<I", 0)
    path.write_bytes(struct.pack("<2sHI", b"II", 42, 8) + directory + tail + data)


WRITERS: dict[str, tuple[str, Callable[[Path, np.ndarray], Any]]] = {
    "tifffile": ("tif", tifffile.imwrite),
    "tifffile, big-endian": ("tif", lambda p, a: tifffile.imwrite(p, a, byteorder=">")),
    "tifffile, big-endian, packed": (
        "tif",
        lambda p, a: tifffile.imwrite(p, a, byteorder=">", compression="zlib"),
    ),
    "tifffile, 0 is white": ("tif", lambda p, a: tifffile.imwrite(p, a, photometric="miniswhite")),
    "OpenCV, PNG": ("png", lambda p, a: cv2.imwrite(str(p), a)),
    "OpenCV, TIFF": ("tif", lambda p, a: cv2.imwrite(str(p), a)),
    "imageio, PNG": ("png", imageio.imwrite),
    "imageio, TIFF": ("tif", imageio.imwrite),
}
WIDE = {"uint8": 255, "int8": 127, "uint16": 60_000, "int16": 30_000, "uint32": 3_000_000_000}
WIDE |= {"int32": 2_000_000_000, "float32": 70_000}
# What Pillow does not read, and what a writer does not keep.
UNREAD = {
    *(("tifffile, 0 is white", dtype) for dtype in ("int8", "int16", "int32", "uint32")),
    *(("tifffile, big-endian", "uint32"), ("tifffile, big-endian, packed", "uint32")),
}
KEEPS = {
    "OpenCV, PNG": ("uint8", "uint16"),
    "OpenCV, TIFF": ("uint8", "uint16", "int16", "int32", "float32"),
    "imageio, PNG": ("uint8", "uint16"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_integers_are_those_of_the_file(writer: str, tmp_path: Path) -> None:
    suffix, write = WRITERS[writer]
    path = tmp_path / f"labels.{suffix}"
    for dtype in KEEPS.get(writer, tuple(WIDE)):
        for first, second in ((1, 3), (WIDE[dtype], 2)):
            write(path, labels(dtype, first, second))
            if (writer, dtype) in UNREAD:
                with pytest.raises(InvalidArgumentError, match="the package tifffile"):
                    io.read_mask(path, label=first)
                continue
            found = io.read_mask(path, label=first)
            np.testing.assert_array_equal(found, FIRST, err_msg=f"{dtype} {first}")
            listed = ".*, ".join(map(str, sorted((first, second))))
            with pytest.raises(InvalidArgumentError, match=f"found 2 labels: {listed}"):
                io.read_mask(path)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_few_bits(bits: int, tmp_path: Path) -> None:
    path, most = tmp_path / "few", (1 << bits) - 1
    write_png(path, labels("uint8", most, 0), bits)
    np.testing.assert_array_equal(io.read_mask(path), FIRST)
    for photometric in (0, 1):
        write_tiff(path, labels("uint8", most, 0), bits, photometric)
        np.testing.assert_array_equal(io.read_mask(path, label=most), FIRST)
        with tifffile.TiffFile(path) as file:
            assert file.pages[0].bitspersample == bits
    for most in (3, 100, 300, 4095):
        dtype = ">u2" if most > 255 else "u1"
        header = b"P5\n32 24\n%d\n" % most
        path.write_bytes(header + labels(dtype, most, 1).astype(dtype).tobytes())
        np.testing.assert_array_equal(io.read_mask(path, label=most), FIRST)


def test_a_value_without_data_is_no_object_and_no_cut_out(tmp_path: Path) -> None:
    """GDAL writes tRNS in PNG, and a text in TIFF."""
    path = tmp_path / "labels"
    for clear in (0, 200):
        write_png(path, labels("uint8", 1, clear), 8, clear)
        np.testing.assert_array_equal(io.read_mask(path), FIRST)
        write_tiff(path, labels("uint8", 1, clear), 8, 1, no_data=str(clear))
        np.testing.assert_array_equal(io.read_mask(path), FIRST)
    write_png(path, labels("uint8", 1, 3), 8, 0)
    np.testing.assert_array_equal(io.read_mask(path, label=3), SECOND)
    with pytest.raises(InvalidArgumentError, match="found 2 labels: 1, 3"):
        io.read_mask(path)
    tags = [(42113, "s", 0, "nan", True)]
    values = np.where(FIRST, 1, np.where(SECOND, np.nan, 0)).astype(np.float32)
    tifffile.imwrite(path, values, extratags=tags)
    np.testing.assert_array_equal(io.read_mask(path), FIRST)


@pytest.mark.parametrize("clear", [0, 2])
def test_a_transparent_index_of_a_palette_is_background(clear: int, tmp_path: Path) -> None:
    path = tmp_path / "palette.png"
    for second in (clear, 3):
        image = Image.fromarray(labels("uint8", 1, second))
        image.putpalette([0, 0, 0, 200, 30, 30, 9, 9, 9, 1, 200, 1])
        image.save(path, transparency=clear)
        np.testing.assert_array_equal(io.read_mask(path, label=1), FIRST)
        if second == clear:
            np.testing.assert_array_equal(io.read_mask(path), FIRST)
        else:
            with pytest.raises(InvalidArgumentError, match="2 opaque labels of a palette"):
                io.read_mask(path)
            found, _ = read_labels(path)
            np.testing.assert_array_equal(found, np.where(FIRST, 1, np.where(SECOND, 3, 0)))


def test_where_0_is_white_the_writer_decides(tmp_path: Path) -> None:
    path = tmp_path / "mask.tif"
    tifffile.imwrite(path, FIRST)
    with tifffile.TiffFile(path) as file:
        assert file.pages[0].photometric == 0
    np.testing.assert_array_equal(io.read_mask(path), FIRST)
    np.testing.assert_array_equal(io.read_mask(path, threshold=1), FIRST)
    imageio.imwrite(path, FIRST)
    np.testing.assert_array_equal(io.read_mask(path), FIRST)
    text = "ImageJ=1.54f\nimages=1\n"
    white = FIRST * np.uint8(255)
    tifffile.imwrite(
        path, white, photometric="miniswhite", description=text, metadata=None, software=False
    )
    np.testing.assert_array_equal(io.read_mask(path), FIRST)
    for bits, top in ((1, 1), (8, 255), (8, 1)):
        write_tiff(path, FIRST * np.uint8(top), bits, 0)
        with pytest.raises(InvalidArgumentError, match=r"0 is white .*label= .*threshold="):
            io.read_mask(path)
        np.testing.assert_array_equal(io.read_mask(path, label=top), FIRST)
        np.testing.assert_array_equal(io.read_mask(path, threshold=255), ~FIRST)
        write_tiff(path, FIRST * np.uint8(top), bits, 0, software="tifffile.py")
        np.testing.assert_array_equal(io.read_mask(path), FIRST)


@pytest.mark.parametrize("bits", [9, 12])
def test_labels_that_pillow_cuts_off_are_refused_or_whole(bits: int, tmp_path: Path) -> None:
    """JPEG 2000 of 9 bits is 8 bits for Pillow."""
    imagecodecs = pytest.importorskip("imagecodecs")
    path, most = tmp_path / "labels.jp2", (1 << bits) - 1
    values = labels("uint16", most, 1)
    path.write_bytes(
        imagecodecs.jpeg2k_encode(values, level=0, bitspersample=bits, reversible=True)
    )
    if bits == 9:
        with pytest.raises(InvalidArgumentError, match="more bits than it keeps"):
            io.read_mask(path, label=most)
    else:
        np.testing.assert_array_equal(io.read_mask(path, label=most), FIRST)
