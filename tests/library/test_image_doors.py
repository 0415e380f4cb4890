"""Images in files of other writers: pages, photometric, depth, no data, memory."""

from __future__ import annotations

import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import cv2
import imageio.v3 as imageio
import numpy as np
import pytest
import sam_rlx
import tifffile
from PIL import Image
from sam_rlx import InvalidArgumentError, MediaWarning, io
from sam_rlx._internal.arrays.images import as_rgb

Y, X = np.mgrid[:40, :60]
RAMP = (X + 60 * Y) / 2399
COLOR = np.stack([4 * X, 5 * Y, 2 * (X + Y)], axis=2).astype(np.uint8)
SMALL = COLOR[::4, ::4]


def grey(shares: np.ndarray) -> np.ndarray:
    return np.stack([np.rint(255 * shares).astype(np.uint8)] * 3, axis=2)


def near(found: np.ndarray, right: np.ndarray) -> bool:
    return found.shape == right.shape and np.abs(found.astype(int) - right).max() <= 1


def write_pages(path: Path, *pages: tuple[np.ndarray, dict[str, Any]]) -> None:
    with tifffile.TiffWriter(path) as file:
        for values, options in pages:
            file.write(values, photometric="rgb", metadata=None, **options)


REDUCED: dict[str, Any] = {"subfiletype": 1}
PAGES: dict[str, list[tuple[np.ndarray, dict[str, Any]]]] = {
    "copy first": [(SMALL, REDUCED), (COLOR, {})],
    "copies first": [(SMALL, REDUCED), (SMALL[::2], REDUCED), (COLOR, {})],
    "copy last": [(COLOR, {}), (SMALL, REDUCED)],
    "pyramid": [(COLOR, {"subifds": 1}), (SMALL, REDUCED)],
    "a copy alone": [(COLOR, REDUCED)],
}


@pytest.mark.parametrize("name", PAGES)
def test_reduced_copies_are_no_pages(name: str, tmp_path: Path) -> None:
    path = tmp_path / "scan.tif"
    write_pages(path, *PAGES[name])
    for page in (None, 0):
        np.testing.assert_array_equal(io.read_image(path, page=page), COLOR)
    with pytest.raises(InvalidArgumentError, match="page: expected 0 to 0, found 1"):
        io.read_image(path, page=1)
    assert sam_rlx.frames.open_frames(path).count == 1
    labels = [((part[..., 0] > 99) * np.uint8(9), options) for part, options in PAGES[name]]
    with tifffile.TiffWriter(path) as file:
        for values, options in labels:
            file.write(values, metadata=None, **options)
    np.testing.assert_array_equal(io.read_mask(path), COLOR[..., 0] > 99)


def test_a_reduced_copy_is_not_taken_for_the_image(
    predictor: sam_rlx.ImagePredictor, tmp_path: Path
) -> None:
    path = tmp_path / "camera.tif"
    write_pages(path, (SMALL, {"subfiletype": 1, "subifds": 1}), (COLOR, {}))
    for read in (io.read_image, io.read_mask, sam_rlx.frames.open_frames):
        with pytest.raises(InvalidArgumentError, match=r"a reduced copy of 15 x 10 .* rawpy"):
            read(path)
    write_pages(path, (SMALL, REDUCED), (COLOR, {}))
    with Image.open(path) as image:
        with pytest.raises(InvalidArgumentError, match=r"reduced copy of 15 x 10: image.seek\(1\)"):
            predictor.set_image(image)
        image.seek(1)
        np.testing.assert_array_equal(as_rgb(image), COLOR)


def test_words_say_which_page_is_read(tmp_path: Path) -> None:
    images = [Image.fromarray(np.roll(COLOR, 9 * k, axis=1)) for k in range(3)]
    path = tmp_path / "still.png"
    images[0].save(path, save_all=True, append_images=images[1:], default_image=True)
    with pytest.warns(MediaWarning, match="2 pages of an animation, beside its still image, which"):
        np.testing.assert_array_equal(io.read_image(path), COLOR)
    stack = np.stack([COLOR[..., 0], COLOR[..., 1], COLOR[..., 2], COLOR[..., 0]])
    text = "ImageJ=1.54f\nimages=4\nslices=4\n"
    tifffile.imwrite(path, stack[0], description=text, metadata=None, software=False)
    with pytest.warns(MediaWarning, match="4 planes in one page, of which the first is read"):
        io.read_image(path)
    with pytest.raises(InvalidArgumentError, match="0 to 0, of 4 planes, which tifffile reads"):
        io.read_image(path, page=2)
    tifffile.imwrite(path, stack, volumetric=True, tile=(4, 16, 16), photometric="minisblack")
    with pytest.warns(MediaWarning, match="4 planes in one page"):
        io.read_image(path)


def test_the_primary_image_of_heif_is_told(tmp_path: Path) -> None:
    heif = pytest.importorskip("pillow_heif")
    heif.register_heif_opener()
    file = heif.HeifFile()
    for k in range(3):
        file.add_from_pillow(Image.new("RGB", (64, 48), (70 * k, 0, 0)))
    path = tmp_path / "burst.heic"
    file.save(path, primary_index=1, quality=-1)
    with pytest.warns(MediaWarning, match=r"3 pages, of which page 1 \(the primary one\) is read"):
        assert abs(int(io.read_image(path)[0, 0, 0]) - 70) < 3
    with Image.open(path) as image, pytest.warns(MediaWarning, match="the primary one"):
        assert abs(int(as_rgb(image)[0, 0, 0]) - 70) < 3


class Mine(Image.Image):
    """A class of one's own, as those of Pillow's plugins."""


def test_subclasses_of_pillows_image_are_images() -> None:
    image = Mine()
    image.__dict__.update(Image.fromarray(COLOR).__dict__)
    np.testing.assert_array_equal(as_rgb(image), COLOR)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_white_is_0_at_every_depth(dtype: str, tmp_path: Path) -> None:
    """With `stretch` the range is that of the file, and the image is turned behind it."""
    path, most = tmp_path / "scan.tif", {"uint8": 255, "uint16": 65535, "float32": 1}[dtype]
    values = (RAMP * most).astype(dtype)
    tifffile.imwrite(path, values, photometric="miniswhite")
    assert near(io.read_image(path), grey(1 - RAMP))
    assert near(io.read_image(path, stretch=True), grey(1 - RAMP))
    half = np.clip(values.astype(float) / (most / 2), 0, 1)
    assert near(io.read_image(path, stretch=(0, most / 2)), 255 - grey(half))
    with Image.open(path) as image:
        assert near(as_rgb(image), grey(1 - RAMP))


@pytest.mark.parametrize("dtype", ["int16", "int32", "float32"])
@pytest.mark.parametrize("compression", [None, "zlib", "lzw"])
def test_big_endian_numbers_are_read_in_their_order(
    dtype: str, compression: str | None, tmp_path: Path
) -> None:
    """libtiff brings packed values in order, and Pillow swaps them once more."""
    if compression == "lzw":
        pytest.importorskip("imagecodecs", reason="tifffile writes LZW with imagecodecs")
    path = tmp_path / "raster.tif"
    values = (RAMP * 3000 - 500).astype(dtype)
    tifffile.imwrite(path, values, byteorder=">", compression=compression)
    np.testing.assert_array_equal(cv2.imread(str(path), cv2.IMREAD_UNCHANGED), values)
    assert near(io.read_image(path, stretch=(-500, 2500)), grey(RAMP))


@pytest.mark.parametrize("most", [1023, 4095, 65535])
def test_ranges_are_those_of_the_file(most: int, tmp_path: Path) -> None:
    """Pillow spreads PGM over 0 to 65535: `stretch` takes what is stored."""
    path = tmp_path / "deep.pgm"
    values = np.rint(RAMP * most).astype(">u2")
    path.write_bytes(b"P5\n60 40\n%d\n" % most + values.tobytes())
    assert near(io.read_image(path), grey(RAMP))
    half = np.clip(values / (most // 2), 0, 1)
    assert near(io.read_image(path, stretch=(0, most // 2)), grey(half))


def test_low_values_of_16_bit_colours_are_told_in_every_format(tmp_path: Path) -> None:
    values = COLOR.astype(np.uint16) * 16
    for suffix in ("ppm", "png", "tif"):
        path = tmp_path / f"low.{suffix}"
        assert cv2.imwrite(str(path), values)
        with pytest.warns(MediaWarning, match="16-bit colours are read as 0 to 65535"):
            io.read_image(path)
        with pytest.raises(InvalidArgumentError, match="tifffile"):
            io.read_image(path, stretch=True)
    planes = values[::-1].transpose(2, 0, 1).astype(">u2").tobytes()
    header = b"\x01\xda\0\x02\0\x03" + np.array([60, 40, 3], ">u2").tobytes() + bytes(500)
    path = tmp_path / "low.sgi"
    path.write_bytes(header + planes)
    with pytest.warns(MediaWarning, match="16-bit colours"):
        io.read_image(path)


def test_channels_that_pillow_drops_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.tif"
    for dtype in (np.uint8, np.uint16):
        for planar, values in (
            ("contig", COLOR[..., :2]),
            ("separate", COLOR[..., :2].transpose(2, 0, 1)),
        ):
            tifffile.imwrite(
                path, values.astype(dtype), photometric="minisblack", planarconfig=planar
            )
            with pytest.raises(InvalidArgumentError, match="tifffile"):
                io.read_image(path)


STARTS = {
    "SIMPLE  =                    T": "astropy.io.fits.getdata",
    "\x93NUMPY\x01\0": "numpy.load",
    "\0" * 128 + "DICM": "pydicom.dcmread",
    "\0" * 344 + "n+1\0": "a NIfTI volume: SimpleITK",
    "NRRD0005\n": "an NRRD volume: SimpleITK",
    "\x89HDF\r\n\x1a\n": "h5py",
    "%PDF-1.7": "PDF document",
    "\xff\x0a\0": "pillow_jxl",
}


@pytest.mark.parametrize("start", STARTS)
def test_files_that_other_packages_read_are_named(start: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(start.encode("latin-1") + bytes(4000))
    with pytest.raises(InvalidArgumentError, match=STARTS[start]):
        io.read_image(path)


def test_an_image_that_pillow_half_reads_is_refused(predictor: sam_rlx.ImagePredictor) -> None:
    image = Image.fromarray(COLOR)
    image.format = "FITS"
    with pytest.raises(InvalidArgumentError, match=r"found FITS .* astropy.io.fits.getdata"):
        predictor.set_image(image)


def test_no_data_of_gdal_takes_no_part_in_ranges(tmp_path: Path) -> None:
    path = tmp_path / "raster.tif"
    hole = (X < 20) & (Y < 9)
    for dtype, low, high, absent in (
        *(("uint16", 100, 4000, 65535), ("int16", -50, 900, -9999)),
        *(("float32", 2, 9, -9999.0), ("float32", 2, 9, float("nan"))),
    ):
        values = (low + RAMP * (high - low)).astype(dtype)
        known = values[~hole].astype(float)
        values[hole] = absent
        tifffile.imwrite(path, values, extratags=[(42113, "s", 0, str(absent), True)])
        shares = np.clip((values.astype(float) - known.min()) / (known.max() - known.min()), 0, 1)
        right = grey(np.where(hole, 0, np.nan_to_num(shares)))
        assert near(io.read_image(path, stretch=True), right)
    values = (100 + RAMP * 3900).astype(np.uint16)
    values[hole] = 65535
    tifffile.imwrite(path, values, extratags=[(42113, "s", 0, "65535", True)])
    with pytest.warns(MediaWarning, match="are less than a tenth"):
        io.read_image(path)


def test_a_hot_pixel_does_not_silence_the_warning() -> None:
    dark = (RAMP * 4000).astype(np.uint16)
    dark[7, 9] = 65535
    with pytest.warns(MediaWarning, match="nearly all of this image, . to [34]..., are less"):
        as_rgb(dark)
    part = np.zeros((60, 60), np.uint16)
    part[:10, :10] = 65535  # a small object is none
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_rgb(part)


def test_values_of_16_bits_and_floats_by_blocks_are_exact() -> None:
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    right = ((values.astype(np.int64) + 128) // 257).astype(np.uint8)
    for given in (values, values.astype(">u2"), values[:, ::-1][:, ::-1]):
        np.testing.assert_array_equal(as_rgb(given)[:, :, 0], right)
    shares = (np.arange(3 * 90_001) / (3 * 90_001 - 1)).reshape(3, -1).astype(np.float32)
    for given in (shares, shares.astype(np.float64), shares.T[::-1]):
        whole = np.rint(given.astype(np.float32) * np.float32(255)).astype(np.uint8)
        np.testing.assert_array_equal(as_rgb(given)[:, :, 0], whole)


def traced(call: Any) -> int:
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("dtype", ["float32", "uint16", "float64"])
def test_pixels_are_converted_by_blocks(dtype: str) -> None:
    values = np.zeros((1200, 1400, 3), dtype)
    values[::2] = np.iinfo(dtype).max if dtype == "uint16" else 1
    assert traced(lambda: as_rgb(values)) < 2 * values.size
    assert traced(lambda: as_rgb(values.transpose(2, 0, 1))) < 2 * values.size


def test_a_file_is_decoded_without_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow's own memory is not traced: its whole copies are counted by their calls."""
    path = tmp_path / "photo.jpg"
    imageio.imwrite(path, np.tile(COLOR, (10, 10, 1)))
    copied = []
    for method in ("copy", "convert", "transpose"):
        original = getattr(Image.Image, method)

        def spy(image: Any, *a: Any, original: Any = original, **k: Any) -> Any:
            copied.append(image.size)
            return original(image, *a, **k)

        monkeypatch.setattr(Image.Image, method, spy)
    found = io.read_image(path)
    assert (600, 400) not in copied
    with Image.open(path) as image:
        np.testing.assert_array_equal(found, np.asarray(image))
    assert traced(lambda: io.read_image(path)) < 1.5 * found.size


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["PNG", "TIFF", "JPEG"])
def test_every_orientation_is_that_of_pillow(orientation: int, form: str, tmp_path: Path) -> None:
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "turned"
    Image.fromarray(COLOR).save(path, form, exif=exif)
    with path.open("rb") as file, Image.open(file) as image:
        right = np.asarray(ImageOps.exif_transpose(image))
    found = io.read_image(path)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, right)
    mask = Image.fromarray((COLOR[..., 0] > 99) * np.uint8(255))
    if form != "JPEG":
        mask.save(path, form, exif=exif)
        with path.open("rb") as file, Image.open(file) as image:
            right = np.asarray(ImageOps.exif_transpose(image)) > 0
        np.testing.assert_array_equal(io.read_mask(path), right)
