"""Windows of large images: arrays on a disk, TIFF files and GeoTIFF files."""

import importlib.util
import itertools

import numpy as np
import pytest
from sam_rlx import io
from sam_rlx._internal.media.windows import ArrayWindows, RasterWindows, TiffWindows, as_windows
from sam_rlx.errors import InvalidArgumentError, MissingExtraError

HW = (300, 417)
# Windows at corners, across tiles of 64 x 80 and of one pixel.
WINDOWS = [(0, 300, 0, 417), (0, 1, 0, 1), (299, 300, 416, 417), (60, 131, 70, 250), (5, 9, 1, 400)]
NEEDS_TIFFFILE = "reads and writes TIFF files"
NEEDS_RASTERIO = "reads GeoTIFF files"
# A corner, and pixels of half a metre.
TRANSFORM = (0.5, 0.0, 500_000.0, 0.0, -0.5, 6_000_000.0)


def pixels(seed=0, channels=3, dtype=np.uint8):
    shape = HW if channels == 1 else (*HW, channels)
    return np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, shape, dtype)


def assert_windows(source, image):
    """Windows are those of the whole image, as `as_rgb` reads it."""
    whole = as_windows(np.ascontiguousarray(image)).read(0, HW[0], 0, HW[1])
    assert source.shape == HW
    for y0, y1, x0, x1 in WINDOWS:
        found = source.read(y0, y1, x0, x1)
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, whole[y0:y1, x0:x1])


def test_arrays_are_read_by_windows(tmp_path):
    image = pixels()
    assert_windows(as_windows(image), image)
    assert_windows(as_windows(np.moveaxis(image, 2, 0)), image)
    assert_windows(as_windows(image[..., 0]), image[..., 0])
    assert_windows(as_windows(image.astype(np.uint16) * 257), image)
    mapped = np.memmap(tmp_path / "image.raw", np.uint8, "w+", shape=image.shape)
    mapped[:] = image
    assert_windows(as_windows(mapped), image)
    assert_windows(
        as_windows(np.memmap(tmp_path / "image.raw", np.uint8, "c", shape=(*HW, 3))), image
    )
    np.save(tmp_path / "image.npy", image)
    with io.open_windows(tmp_path / "image.npy") as source:
        assert_windows(source, image)


@pytest.mark.parametrize("package", ["zarr", "dask.array"])
def test_arrays_of_blocks_are_read_by_windows(package):
    library = pytest.importorskip(package, reason="has arrays of blocks")
    image = pixels()
    array = (
        library.array(image, chunks=(64, 80, 3))
        if package == "zarr"
        else library.from_array(image, chunks=(64, 80, 3))
    )
    assert_windows(as_windows(array), image)


def test_a_window_beyond_the_image_is_refused():
    source = as_windows(pixels())
    for window in ((-1, 5, 0, 5), (0, 0, 0, 5), (0, 301, 0, 5), (0, 5, 10, 418), (9, 3, 0, 1)):
        with pytest.raises(InvalidArgumentError, match="within 300 x 417, found rows"):
            source.read(*window)


def test_windows_are_reduced_by_the_mean():
    image = pixels()
    reduced = as_windows(image).read_reduced(10, 95, 3, 80, 4)
    assert reduced.shape == (22, 20, 3)
    for row, column in itertools.product(range(22), range(20)):
        block = image[10:95, 3:80][4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
        assert abs(block.mean(axis=(0, 1)) - reduced[row, column]).max() <= 0.5 + 1e-9
    assert (as_windows(image).read_reduced(10, 95, 3, 80, 1) == image[10:95, 3:80]).all()


def test_stretch_is_the_same_for_all_windows():
    image = np.linspace(100, 4000, HW[0] * HW[1]).reshape(HW).astype(np.int32)
    source = io.open_windows(image, stretch=(100, 4000))
    parts = [source.read(0, 300, x, min(x + 100, 417)) for x in range(0, 417, 100)]
    whole = source.read(0, 300, 0, 417)
    assert (np.concatenate(parts, axis=1) == whole).all()
    assert (whole[0, 0, 0], whole[-1, -1, 0]) == (0, 255)
    with pytest.raises(InvalidArgumentError, match=r"stretch: expected \(low, high\)"):
        io.open_windows(image, stretch=(1, 2, 3))


def test_what_is_no_image_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="found shape"):
        as_windows(np.zeros((5, 4, 7, 3), np.uint8))
    with pytest.raises(InvalidArgumentError, match="image: expected"):
        as_windows("image.tif")
    with pytest.raises(InvalidArgumentError, match="bands: expected none for an array"):
        io.open_windows(pixels(), bands=(1,))
    with pytest.raises(FileNotFoundError):
        io.open_windows(tmp_path / "none.tif")
    (tmp_path / "page.html").write_text("<html></html>")
    with pytest.raises(InvalidArgumentError, match="expected an image"):
        io.open_windows(tmp_path / "page.html")


def test_other_files_are_read_whole(tmp_path):
    pytest.importorskip("PIL", reason="reads PNG")
    io.write_image(tmp_path / "image.png", pixels())
    with io.open_windows(tmp_path / "image.png") as source:
        assert isinstance(source, ArrayWindows)
        assert_windows(source, pixels())
    with pytest.raises(InvalidArgumentError, match="bands: expected none for a file other than"):
        io.open_windows(tmp_path / "image.png", bands=(1,))


LAYOUTS = {
    "contiguous": {"photometric": "rgb"},
    "tiles": {"photometric": "rgb", "tile": (64, 80), "compression": "zlib"},
    "predictor": {
        "photometric": "rgb", "tile": (64, 80), "compression": "zlib", "predictor": True,
    },
    "strips": {"photometric": "rgb", "rowsperstrip": 7, "compression": "zlib"},
    "big": {"photometric": "rgb", "bigtiff": True, "byteorder": ">", "tile": (64, 80)},
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiff_files_are_read_by_windows(layout, tmp_path):
    tifffile = pytest.importorskip("tifffile", reason=NEEDS_TIFFFILE)
    path, image = tmp_path / "image.tif", pixels()
    tifffile.imwrite(path, image, **LAYOUTS[layout])
    with TiffWindows(path, None) as source:
        assert (source.transform, source.crs) == (None, None)
        assert_windows(source, image)
    with TiffWindows(path, (3, 1, 2)) as source:
        assert_windows(source, image[..., [2, 0, 1]])
    with io.open_windows(path) as source:
        assert_windows(source, tifffile.imread(path))


@pytest.mark.parametrize("layout", [{}, {"tile": (64, 80)}, {"tile": (64, 80), "compression": 8}])
def test_tiff_planes_are_read_by_windows(layout, tmp_path):
    tifffile = pytest.importorskip("tifffile", reason=NEEDS_TIFFFILE)
    path, image = tmp_path / "image.tif", pixels(channels=4)
    planes = np.moveaxis(image, 2, 0)
    tifffile.imwrite(path, planes, photometric="rgb", planarconfig="separate", **layout)
    with TiffWindows(path, None) as source:
        assert_windows(source, image[..., :3])
    with TiffWindows(path, (4,)) as source:
        assert_windows(source, image[..., 3])


def test_deep_tiff_files_are_read_as_images_are(tmp_path):
    tifffile = pytest.importorskip("tifffile", reason=NEEDS_TIFFFILE)
    path, image = tmp_path / "image.tif", pixels(channels=1, dtype=np.uint16)
    for byteorder in "<>":
        tifffile.imwrite(path, image, byteorder=byteorder, tile=(64, 80))
        with TiffWindows(path, None) as source:
            assert_windows(source, image)
        tifffile.imwrite(path, image, byteorder=byteorder)
        with TiffWindows(path, None, (0, 65535)) as source:
            assert_windows(source, image)


def test_tiles_that_are_left_out_are_empty(tmp_path):
    """GDAL writes no tile without data (SPARSE_OK): its offset and size are 0."""
    tifffile = pytest.importorskip("tifffile", reason=NEEDS_TIFFFILE)
    path, image = tmp_path / "image.tif", pixels()
    tifffile.imwrite(path, image, photometric="rgb", tile=(64, 80), compression="zlib")
    with tifffile.TiffFile(path, mode="r+") as file:
        tags = file.pages[0].tags
        for name in ("TileOffsets", "TileByteCounts"):
            values = list(tags[name].value)
            values[7] = 0
            tags[name].overwrite(values)
    image[64:128, 80:160] = 0
    with TiffWindows(path, None) as source:
        assert_windows(source, image)


def test_tiff_files_that_look_like_others_are_refused(tmp_path):
    tifffile = pytest.importorskip("tifffile", reason=NEEDS_TIFFFILE)
    path = tmp_path / "image.tif"
    for values, match in (
        ({"photometric": "miniswhite"}, "found MINISWHITE"),
        ({"extratags": [(274, 3, 1, 6, True)]}, "found orientation 6"),
    ):
        tifffile.imwrite(path, pixels(channels=1), **values)
        with pytest.raises(InvalidArgumentError, match=match):
            TiffWindows(path, None)
    tifffile.imwrite(path, pixels(channels=6), photometric="minisblack", planarconfig="contig")
    with pytest.raises(InvalidArgumentError, match=r"expected 1, 3 or 4 bands, found 6: bands="):
        TiffWindows(path, None)
    with TiffWindows(path, (6, 3, 1)) as source:
        assert_windows(source, pixels(channels=6)[..., [5, 2, 0]])
    for bands, match in (((7, 1, 1), "from 1 to 6"), ((1, 2), "expected 1 or 3 of them")):
        with pytest.raises(InvalidArgumentError, match=match):
            TiffWindows(path, bands)


@pytest.mark.parametrize("length", [8, 100, 5000, 40_000])
def test_damaged_tiff_files_are_told(length, tmp_path):
    tifffile = pytest.importorskip("tifffile", reason=NEEDS_TIFFFILE)
    path = tmp_path / "image.tif"
    tifffile.imwrite(path, pixels(), photometric="rgb", tile=(64, 80), compression="zlib")
    path.write_bytes(path.read_bytes()[:length])
    with (
        pytest.raises(InvalidArgumentError, match=r"image\.tif: expected"),
        TiffWindows(path, None) as source,
    ):
        source.read(0, 300, 0, 417)


def _geotiff(path, image, raster_type=1):
    """Write a file with the tags of UTM zone 33 on the northern half of the Earth."""
    tifffile = pytest.importorskip("tifffile", reason=NEEDS_TIFFFILE)
    a, _, c, _, e, f = TRANSFORM
    half = 0.5 if raster_type == 2 else 0.0
    keys = (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, raster_type, 3072, 0, 1, 32633)
    tags = [
        (33550, "d", 3, (a, -e, 0.0), True),
        (33922, "d", 6, (0.0, 0.0, 0.0, c + half * a, f + half * e, 0.0), True),
        (34735, "H", len(keys), keys, True),
    ]
    tifffile.imwrite(path, image, photometric="rgb", tile=(64, 80), extratags=tags)


@pytest.mark.parametrize("raster_type", [1, 2])
def test_geotiff_files_tell_where_they_are(raster_type, tmp_path):
    path = tmp_path / "scene.tif"
    _geotiff(path, pixels(), raster_type)
    with TiffWindows(path, None) as source:
        assert source.transform == TRANSFORM
        assert source.crs == "EPSG:32633"
        assert repr(source) == "<TiffWindows 300 x 417, EPSG:32633>"
        assert_windows(source, pixels())


@pytest.mark.parametrize("raster_type", [1, 2])
def test_rasterio_reads_the_same(raster_type, tmp_path):
    rasterio = pytest.importorskip("rasterio", reason=NEEDS_RASTERIO)
    path = tmp_path / "scene.tif"
    _geotiff(path, pixels(), raster_type)
    with io.open_windows(path) as source, TiffWindows(path, None) as other:
        assert isinstance(source, RasterWindows)
        assert source.transform == other.transform == TRANSFORM
        assert source.crs == other.crs == "EPSG:32633"
        assert_windows(source, pixels())
        with rasterio.open(path) as file:
            window = rasterio.windows.Window(70, 60, 180, 71)
            expected = np.moveaxis(file.read(window=window), 0, 2)
        for each in (source, other):
            assert (each.read(60, 131, 70, 250) == expected).all()
    with io.open_windows(path, bands=(2,)) as source:
        assert_windows(source, pixels()[..., 1])


def test_what_rasterio_writes_is_read_by_both(tmp_path):
    rasterio = pytest.importorskip("rasterio", reason=NEEDS_RASTERIO)
    pytest.importorskip("tifffile", reason=NEEDS_TIFFFILE)
    path, image = tmp_path / "scene.tif", pixels(channels=4)
    for options in ({}, {"tiled": True, "blockxsize": 64, "blockysize": 64},
                    {"compress": "deflate", "interleave": "band"}):  # fmt: skip
        with rasterio.open(
            path, "w", driver="GTiff", height=HW[0], width=HW[1], count=4, dtype="uint8",
            crs="EPSG:32633", transform=rasterio.Affine(*TRANSFORM), **options,
        ) as file:  # fmt: skip
            file.write(np.moveaxis(image, 2, 0))
        for kind in (RasterWindows, TiffWindows):
            with kind(path, None) as source:
                assert source.transform == TRANSFORM
                assert source.crs == "EPSG:32633"
                assert_windows(source, image[..., :3])


def test_rasterio_refuses_palettes(tmp_path):
    rasterio = pytest.importorskip("rasterio", reason=NEEDS_RASTERIO)
    path = tmp_path / "map.tif"
    size = {"height": 8, "width": 9, "count": 1, "dtype": "uint8"}
    size["transform"] = rasterio.Affine(*TRANSFORM)
    with rasterio.open(path, "w", driver="GTiff", **size) as file:
        file.write_colormap(1, {0: (255, 0, 0, 255)})
    with pytest.raises(InvalidArgumentError, match="found a palette"):
        RasterWindows(path, None)


def test_without_a_reader_the_extra_is_named(tmp_path, monkeypatch):
    path = tmp_path / "image.tif"
    path.write_bytes(b"II*\0\x08\0\0\0\0\0\0\0\0\0")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"sam_rlx\[tiff\]"):
        io.open_windows(path)
