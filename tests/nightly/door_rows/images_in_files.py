"""Images in files: pages, photometric, depth, no data, channels."""

from __future__ import annotations

import io as streams
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sam_rlx import io

from nightly.doors import Trial, door, library, outcome

HW = (48, 64)
Y, X = np.mgrid[: HW[0], : HW[1]]
RAMP = (X + HW[1] * Y) / (HW[0] * HW[1] - 1)
GREY = np.rint(255 * RAMP).astype(np.uint8)
COLOR = np.stack([4 * X, 5 * Y, 2 * (X + Y)], axis=2).astype(np.uint8)


def rgb(grey: np.ndarray) -> np.ndarray:
    """Return grey values, 0 to 255 with fractions, as an image."""
    return np.stack([np.rint(grey).astype(np.uint8)] * 3, axis=2)


@door("images in files")
def depths(folder: Path) -> Iterator[Trial]:
    """Grey and colour of every depth, 0 black and 0 white, in whole range and with `stretch`."""
    if (tifffile := library("tifffile")) is None:
        return
    path = folder / "image.tif"
    for dtype, most in (("uint8", 255), ("uint16", 65535), ("float32", 1), ("float16", 1)):
        values = (RAMP * most).astype(dtype)
        shown = rgb(values.astype(np.float64) / most * 255)
        for photometric in ("minisblack", "miniswhite"):
            right = shown if photometric == "minisblack" else 255 - shown
            for order in "<>":
                for compression in (None, "zlib", "lzw"):
                    try:
                        tifffile.imwrite(
                            path,
                            values,
                            photometric=photometric,
                            byteorder=order,
                            compression=compression,
                        )
                    except Exception:
                        continue
                    name = f"tifffile {dtype} {photometric} {order} {compression or 'plain'}"
                    yield name, outcome(lambda: io.read_image(path), right, 1)
                    yield (
                        f"{name} stretch=True",
                        outcome(lambda: io.read_image(path, stretch=True), right, 1),
                    )
    for dtype, low, high in (
        *(("int8", -100, 100), ("int16", -1000, 3000), ("int32", -70000, 70000)),
        *(("uint32", 0, 4_000_000_000), ("float32", -5, 9), ("uint16", 0, 4095)),
    ):
        values = (low + RAMP * (high - low)).astype(dtype)
        right = rgb((values.astype(np.float64) - low) / (high - low) * 255)
        tifffile.imwrite(path, values)
        call = lambda r=(low, high): io.read_image(path, stretch=r)  # noqa: E731
        yield f"tifffile {dtype} stretch=({low}, {high})", outcome(call, right, 1)
        yield f"tifffile {dtype} as it is", outcome(lambda: io.read_image(path), None)


@door("images in files")
def twelve_bits(folder: Path) -> Iterator[Trial]:
    """Values of 9 to 16 bits where Pillow moves them: whole range, and `stretch` as stored."""
    path = folder / "image"
    for bits in (10, 12, 14, 16):
        most = (1 << bits) - 1
        values = np.rint(RAMP * most).astype(np.uint16)
        half = np.clip(values / (most // 2) * 255, 0, 255)
        for name, write in _deep_writers(bits):
            try:
                write(path, values)
            except Exception:
                continue
            yield f"{name} {bits} bits", outcome(lambda: io.read_image(path), rgb(RAMP * 255), 1)
            call = lambda m=most // 2: io.read_image(path, stretch=(0, m))  # noqa: E731
            yield f"{name} {bits} bits stretch", outcome(call, rgb(half), 1)


def _deep_writers(bits: int) -> Iterator[tuple[str, Any]]:
    if (netpbmfile := library("netpbmfile")) is not None:
        yield (
            "netpbmfile",
            lambda p, a: netpbmfile.imwrite(p, a, maxval=(1 << bits) - 1, magicnumber="P5"),
        )
    if (imagecodecs := library("imagecodecs")) is not None:
        yield (
            "imagecodecs jp2",
            lambda p, a: p.write_bytes(
                imagecodecs.jpeg2k_encode(a, level=0, bitspersample=bits, reversible=True)
            ),
        )


@door("images in files")
def low_colors(folder: Path) -> Iterator[Trial]:
    """16-bit colours with low values, of which Pillow keeps the upper 8 bits: told."""
    values = (COLOR.astype(np.uint16) * 16)[:, :, ::-1]
    for suffix in ("png", "tif", "ppm", "jp2"):
        if (cv2 := library("cv2")) is None:
            return
        path = folder / f"image.{suffix}"
        cv2.imwrite(str(path), values)
        yield f"OpenCV {suffix} 12 in 16 bits", outcome(lambda p=path: io.read_image(p), None)
    header = b"\x01\xda\0\x02\0\x03" + np.array([HW[1], HW[0], 3], ">u2").tobytes()
    planes = values[::-1, :, ::-1].transpose(2, 0, 1).astype(">u2").tobytes()
    (folder / "image.sgi").write_bytes(header + bytes(500) + planes)
    yield "SGI 12 in 16 bits", outcome(lambda: io.read_image(folder / "image.sgi"), None)


@door("images in files")
def pages(folder: Path) -> Iterator[Trial]:
    """Which page is the image, where there are reduced copies and other pages."""
    path = folder / "image.tif"
    small = COLOR[::4, ::4]
    if (tifffile := library("tifffile")) is not None:
        for name, parts in {
            "thumbnail first": [(small, {"subfiletype": 1}), (COLOR, {})],
            "thumbnail last": [(COLOR, {}), (small, {"subfiletype": 1})],
            "two thumbnails first": [(small, {"subfiletype": 1})] * 2 + [(COLOR, {})],
        }.items():
            with tifffile.TiffWriter(path) as file:
                for values, options in parts:
                    file.write(values, photometric="rgb", metadata=None, **options)
            yield f"tifffile {name}", outcome(lambda: io.read_image(path), COLOR)
            yield f"tifffile {name}, page=0", outcome(lambda: io.read_image(path, page=0), COLOR)
        with tifffile.TiffWriter(path) as file:
            file.write(small, photometric="rgb", subfiletype=1, subifds=1, metadata=None)
            file.write(COLOR, photometric="rgb", metadata=None)
        yield "tifffile image in a SubIFD", outcome(lambda: io.read_image(path), None)
        with tifffile.TiffWriter(path) as file:
            file.write(COLOR, photometric="rgb", subifds=1, metadata=None)
            file.write(small, photometric="rgb", subfiletype=1, metadata=None)
        yield "tifffile pyramid", outcome(lambda: io.read_image(path), COLOR)
        stack = np.stack([GREY, GREY[::-1], GREY[:, ::-1]])
        for name, options in {
            "ImageJ stack": {"imagej": True},
            "OME stack": {"ome": True},
            "shaped stack": {},
            "one page of 3 planes": {
                "volumetric": True,
                "tile": (3, 48, 64),
                "photometric": "minisblack",
            },
        }.items():
            tifffile.imwrite(path, stack, **{"photometric": "minisblack", **options})
            yield f"tifffile {name}", outcome(lambda: io.read_image(path), None)
    images = [Image.fromarray(np.roll(COLOR, 9 * k, axis=1)) for k in range(3)]
    for suffix in ("gif", "webp", "png", "tif"):
        path = folder / f"pages.{suffix}"
        images[0].save(path, save_all=True, append_images=images[1:])
        yield f"Pillow {suffix} of 3 pages", outcome(lambda p=path: io.read_image(p), None)
        if suffix in ("png", "tif"):
            right = np.asarray(images[2])
            call = lambda p=path: io.read_image(p, page=2)  # noqa: E731
            yield f"Pillow {suffix} of 3 pages, page=2", outcome(call, right)
    images[0].save(
        folder / "still.png", save_all=True, append_images=images[1:], default_image=True
    )
    yield (
        "Pillow APNG with a still image",
        outcome(lambda: io.read_image(folder / "still.png"), None),
    )
    if (heif := library("pillow_heif")) is not None:
        heif.register_heif_opener()
        file = heif.HeifFile()
        for image in images:
            file.add_from_pillow(image)
        file.save(folder / "images.heic", primary_index=1, quality=-1)
        yield (
            "pillow-heif, primary image 1",
            outcome(lambda: io.read_image(folder / "images.heic"), None),
        )


@door("images in files")
def half_read(folder: Path) -> Iterator[Trial]:
    """Files that Pillow reads a part of, or not at all: refused with what reads them."""
    path = folder / "image.tif"
    if (tifffile := library("tifffile")) is not None:
        for channels in (2, 5):
            values = np.stack([GREY] * channels, axis=2)
            for planar in ("contig", "separate"):
                data = values if planar == "contig" else values.transpose(2, 0, 1)
                for dtype in ("uint8", "uint16"):
                    tifffile.imwrite(
                        path, data.astype(dtype), photometric="minisblack", planarconfig=planar
                    )
                    yield (
                        f"tifffile {channels} channels {planar} {dtype}",
                        outcome(lambda: io.read_image(path), None),
                    )
    if (fits := library("astropy.io.fits")) is not None:
        for dtype in ("uint8", "int16", "uint16", "float32"):
            fits.PrimaryHDU((RAMP * 200).astype(dtype)).writeto(folder / "a.fits", overwrite=True)
            yield f"astropy FITS {dtype}", outcome(lambda: io.read_image(folder / "a.fits"), None)
    np.save(folder / "a.npy", GREY)
    yield "NumPy npy", outcome(lambda: io.read_image(folder / "a.npy"), None)
    if (sitk := library("SimpleITK")) is not None:
        for suffix in ("nrrd", "mha", "nii", "dcm"):
            sitk.WriteImage(sitk.GetImageFromArray(GREY), str(folder / f"a.{suffix}"))
            yield (
                f"SimpleITK {suffix}",
                outcome(lambda s=suffix: io.read_image(folder / f"a.{s}"), None),
            )


@door("images in files")
def no_data(folder: Path) -> Iterator[Trial]:
    """GDAL's no-data value takes no part in ranges."""
    if (rasterio := library("rasterio")) is None:
        return
    path = folder / "image.tif"
    for dtype, low, high, absent in (
        *(("uint16", 100, 4000, 65535), ("uint16", 100, 4000, 0), ("int16", -50, 900, -9999)),
        *(("float32", 2, 9, -9999.0), ("float32", 2, 9, float("nan")), ("uint8", 20, 90, 255)),
    ):
        values = (low + RAMP * (high - low)).astype(dtype)
        values[:9, :30] = absent
        with rasterio.open(path, "w", "GTiff", HW[1], HW[0], 1, dtype=dtype, nodata=absent) as file:
            file.write(values, 1)
        yield (
            f"GDAL {dtype} no data {absent}",
            outcome(lambda: io.read_image(path, stretch=True), _stretched(values, absent), 1),
        )
        yield (
            f"GDAL {dtype} no data {absent} as it is",
            outcome(lambda: io.read_image(path), None if dtype != "uint8" else rgb(values)),
        )


def _stretched(values: np.ndarray, absent: float) -> np.ndarray:
    gone = np.isnan(values) if absent != absent else values == absent
    known = values[~gone].astype(float)
    shares = (values.astype(float) - known.min()) / (known.max() - known.min())
    return rgb(255 * np.where(gone, 0, np.clip(shares, 0, 1)))


@door("images in files")
def plain_files(folder: Path) -> Iterator[Trial]:
    """Colours of OpenCV, imageio, scikit-image and Pillow, with every orientation of EXIF."""
    if (cv2 := library("cv2")) is not None:
        for suffix in ("png", "tif", "bmp", "ppm", "webp", "jp2"):
            path = folder / f"image.{suffix}"
            options = [cv2.IMWRITE_WEBP_QUALITY, 101] if suffix == "webp" else []
            cv2.imwrite(str(path), COLOR[:, :, ::-1], options)
            right = cv2.imread(str(path))[:, :, ::-1]
            yield f"OpenCV {suffix}", outcome(lambda p=path: io.read_image(p), right)
    if (imageio := library("imageio.v3")) is not None:
        for suffix in ("png", "tif", "bmp"):
            imageio.imwrite(folder / f"image.{suffix}", COLOR)
            call = lambda s=suffix: io.read_image(folder / f"image.{s}")  # noqa: E731
            yield f"imageio {suffix}", outcome(call, COLOR)
    from PIL import ImageOps

    for orientation in range(1, 9):
        for suffix in ("png", "jpg", "webp", "tif"):
            exif = Image.Exif()
            exif[0x0112] = orientation
            buffer = streams.BytesIO()
            form = {"jpg": "JPEG", "tif": "TIFF"}.get(suffix, suffix)
            Image.fromarray(COLOR).save(buffer, form, exif=exif)
            with Image.open(buffer) as image:
                right = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
            yield (
                f"Pillow {suffix} turned {orientation}",
                outcome(lambda b=buffer: io.read_image(b), right),
            )
