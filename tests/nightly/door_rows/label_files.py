"""Label files: integers as they are stored, by the libraries that wrote them."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sam_rlx import io

from nightly.doors import Trial, door, library, outcome

HW = (48, 64)
Y, X = np.mgrid[: HW[0], : HW[1]]
FIRST = (X - 20) ** 2 + (Y - 22) ** 2 < 150
SECOND = (X - 50) ** 2 + (Y - 30) ** 2 < 90
DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32")
LARGEST = {"uint8": 255, "int8": 127, "uint16": 60000, "int16": 30000, "float32": 70000}


def labels(dtype: str, first: int, second: int) -> np.ndarray:
    """Return two objects with their labels on 0."""
    return np.where(FIRST, first, np.where(SECOND, second, 0)).astype(dtype)


def write_png(path: Path, values: np.ndarray, bits: int, clear: int | None = None) -> None:
    """Write a grey PNG file of few bits by the letter of its standard, without a library."""
    rows = b"".join(
        b"\0"
        + np.packbits(np.unpackbits(row.astype(np.uint8)[:, None], axis=1)[:, 8 - bits :]).tobytes()
        for row in values
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], bits, 0, 0, 0, 0)
    transparent = b"" if clear is None else chunk(b"tRNS", struct.pack(">H", clear))
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + transparent
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def _writers() -> dict[str, tuple[str, Callable[[Path, np.ndarray], Any]]]:
    """Return writers by name: a suffix, and how a file of labels is written."""
    found: dict[str, tuple[str, Callable[[Path, np.ndarray], Any]]] = {
        f"Pillow {suffix}{options.get('compression', '')}": (
            suffix,
            lambda p, a, o=options: _of_pillow(p, a, **o),
        )
        for suffix, options in (
            *(("png", {}), ("tif", {}), ("bmp", {}), ("pgm", {}), ("gif", {})),
            *(("tif", {"compression": "tiff_deflate"}), ("webp", {"lossless": True})),
        )
    }
    if (tifffile := library("tifffile")) is not None:
        for name, options in {
            "": {},
            " big-endian": {"byteorder": ">"},
            " zlib": {"compression": "zlib"},
            " tiles": {"tile": (16, 16)},
            " big-endian lzw": {"byteorder": ">", "compression": "lzw"},
            " white is 0": {"photometric": "miniswhite"},
            " nameless": {"software": False, "metadata": None},
        }.items():
            found[f"tifffile{name}"] = (
                "tif",
                lambda p, a, o=options: tifffile.imwrite(p, a, **o),
            )
        found["tifffile ImageJ"] = ("tif", lambda p, a: tifffile.imwrite(p, a, imagej=True))
    if (cv2 := library("cv2")) is not None:
        for suffix in ("png", "tif", "pgm", "jp2"):
            found[f"OpenCV {suffix}"] = (suffix, lambda p, a: _of_opencv(cv2, p, a))
    if (imageio := library("imageio.v3")) is not None:
        for suffix in ("png", "tif"):
            found[f"imageio {suffix}"] = (suffix, lambda p, a: _of_imageio(imageio, p, a))
    if (skimage := library("skimage.io")) is not None:
        found["scikit-image tif"] = (
            "tif",
            lambda p, a: skimage.imsave(p, a, check_contrast=False),
        )
    if (sitk := library("SimpleITK")) is not None:
        for suffix in ("png", "tif"):
            found[f"SimpleITK {suffix}"] = (
                suffix,
                lambda p, a: sitk.WriteImage(sitk.GetImageFromArray(a), str(p)),
            )
    if (rasterio := library("rasterio")) is not None:
        for driver, suffix in (("GTiff", "tif"), ("PNG", "png")):
            for no_data in (None, 0):
                found[f"GDAL {suffix}{'' if no_data is None else ' no data 0'}"] = (
                    suffix,
                    lambda p, a, d=driver, n=no_data: of_gdal(rasterio, p, a, d, nodata=n),
                )
    return found


def _of_pillow(path: Path, values: np.ndarray, **options: Any) -> None:
    Image.fromarray(values).save(path, **options)
    with Image.open(path) as image:
        read = np.asarray(image.convert("L") if image.mode == "RGB" else image)
    if not np.array_equal(read.astype(np.int64), values.astype(np.int64)):
        raise ValueError("Pillow does not keep these values")


def _of_opencv(cv2: Any, path: Path, values: np.ndarray) -> None:
    if not cv2.imwrite(str(path), values) or not np.array_equal(
        cv2.imread(str(path), cv2.IMREAD_UNCHANGED), values
    ):
        raise ValueError("OpenCV does not keep these values")


def _of_imageio(imageio: Any, path: Path, values: np.ndarray) -> None:
    imageio.imwrite(path, values)
    if not np.array_equal(imageio.imread(path).astype(np.int64), values.astype(np.int64)):
        raise ValueError("imageio does not keep these values")


def of_gdal(rasterio: Any, path: Path, values: np.ndarray, driver: str, **options: Any) -> None:
    """Write a file by GDAL, and check that GDAL reads the same values."""
    height, width = values.shape
    with rasterio.open(
        path, "w", driver, width, height, 1, dtype=values.dtype.name, **options
    ) as file:
        file.write(values, 1)
    with rasterio.open(path) as file:
        if not np.array_equal(file.read(1), values):
            raise ValueError("GDAL does not keep these values")


@door("label files")
def stored_integers(folder: Path) -> Iterator[Trial]:
    """All types of all writers: one label of two, and one alone."""
    for (name, (suffix, write)), dtype in itertools.product(_writers().items(), DTYPES):
        largest = LARGEST.get(dtype, 3_000_000_000 if dtype != "int32" else 2_000_000_000)
        for first, second in ((1, 3), (largest, 2)):
            path = folder / f"labels.{suffix}"
            try:
                write(path, labels(dtype, first, second))
            except Exception:  # the library does not write such labels
                continue
            yield (
                f"{name} {dtype} {first}",
                outcome(lambda p=path, f=first: io.read_mask(p, label=f), FIRST),
            )
        try:
            write(folder / f"one.{suffix}", labels(dtype, largest, 0))
        except Exception:
            continue
        yield (
            f"{name} {dtype}, one label",
            outcome(lambda s=suffix: io.read_mask(folder / f"one.{s}"), FIRST),
        )


@door("label files")
def few_bits(folder: Path) -> Iterator[Trial]:
    """Values of 1 to 12 bits, as PNG, GDAL, netpbm and JPEG 2000 pack them."""
    path = folder / "few"
    for bits in (1, 2, 4, 8):
        most = (1 << bits) - 1
        write_png(path, labels("uint8", most, 0), bits)
        yield f"PNG of {bits} bits, one label", outcome(lambda: io.read_mask(path), FIRST)
        if bits > 1:
            write_png(path, labels("uint8", most, 1), bits)
            yield f"PNG of {bits} bits", outcome(lambda m=most: io.read_mask(path, label=m), FIRST)
            write_png(path, labels("uint8", 3, 1), bits, clear=0)
            yield (
                f"PNG of {bits} bits, 0 clear",
                outcome(lambda: io.read_mask(path, label=3), FIRST),
            )
            yield f"PNG of {bits} bits, 0 clear, two", outcome(lambda: io.read_mask(path), None)
            write_png(path, labels("uint8", 2, 1), bits, clear=1)
            yield f"PNG of {bits} bits, 1 clear", outcome(lambda: io.read_mask(path), FIRST)
    if (rasterio := library("rasterio")) is not None:
        for bits in range(1, 17):
            dtype = "uint8" if bits <= 8 else "uint16"
            most = (1 << bits) - 1
            for photometric in ("minisblack", "miniswhite"):
                values = labels(dtype, most, min(1, most - 1))
                of_gdal(rasterio, path, values, "GTiff", nbits=bits, photometric=photometric)
                yield (
                    f"GDAL NBITS={bits} {photometric}",
                    outcome(lambda m=most: io.read_mask(path, label=m), FIRST),
                )
    # Not its files of one bit: it stores 1 for true, and 1 is black in a PBM file.
    if (netpbmfile := library("netpbmfile")) is not None:
        for most in (3, 7, 100, 254, 255, 256, 1023, 4095, 65535):
            values = labels("uint16" if most > 255 else "uint8", most, 0)
            netpbmfile.imwrite(folder / "few.pgm", values, maxval=most)
            call = lambda m=most: io.read_mask(folder / "few.pgm", label=m)  # noqa: E731
            yield f"netpbmfile maxval {most}", outcome(call, FIRST)
    if (imagecodecs := library("imagecodecs")) is not None:
        for bits in (4, 8, 9, 10, 12, 16):
            most = (1 << bits) - 1
            values = labels("uint16" if bits > 8 else "uint8", most, 1)
            path.write_bytes(
                imagecodecs.jpeg2k_encode(values, level=0, bitspersample=bits, reversible=True)
            )
            yield (
                f"JPEG 2000 of {bits} bits",
                outcome(lambda m=most: io.read_mask(path, label=m), FIRST),
            )


@door("label files")
def no_data(folder: Path) -> Iterator[Trial]:
    """What GDAL says of a pixel that is not known: it is no object."""
    if (rasterio := library("rasterio")) is None:
        return
    path = folder / "no_data"
    for driver, dtype in (
        ("GTiff", "uint8"),
        ("GTiff", "uint16"),
        ("GTiff", "int16"),
        ("PNG", "uint8"),
        ("PNG", "uint16"),
    ):
        for value in (0, 255, 200):
            name = f"GDAL {driver} {dtype} no data {value}"
            of_gdal(rasterio, path, labels(dtype, 1, value), driver, nodata=value)
            yield name, outcome(lambda: io.read_mask(path), FIRST)
            of_gdal(rasterio, path, labels(dtype, 1, 3), driver, nodata=value)
            yield f"{name}, two labels", outcome(lambda: io.read_mask(path, label=1), FIRST)
    values = np.where(FIRST, 1, np.where(SECOND, np.nan, 0)).astype(np.float32)
    with rasterio.open(path, "w", "GTiff", HW[1], HW[0], 1, dtype="float32", nodata=np.nan) as file:
        file.write(values, 1)
    yield "GDAL float32 no data NaN", outcome(lambda: io.read_mask(path), FIRST)


@door("label files")
def bools(folder: Path) -> Iterator[Trial]:
    """Masks of bool: 0 is white in some of these files."""
    for name, (suffix, write) in _writers().items():
        path = folder / f"bool.{suffix}"
        try:
            write(path, FIRST)
        except Exception:
            continue
        yield f"{name} bool", outcome(lambda p=path: io.read_mask(p), FIRST)
