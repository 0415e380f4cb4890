"""Images that are read by windows: arrays on a disk, TIFF and GeoTIFF files of any size."""

from __future__ import annotations

import importlib.util
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.axes import in_order
from sam_rlx._internal.arrays.checks import as_integer, as_items, as_path
from sam_rlx._internal.arrays.foreign import as_array, has
from sam_rlx._internal.arrays.images import as_hw, as_rgb
from sam_rlx._internal.arrays.pil import is_pil
from sam_rlx._internal.arrays.pixels import OF_FILES
from sam_rlx._internal.media.array_frames import give_back
from sam_rlx._internal.media.image_files import read_image
from sam_rlx._internal.packages import missing, optional
from sam_rlx._internal.printable import shown
from sam_rlx.errors import InvalidArgumentError

# The six numbers of an affine transform: x' = a x + b y + c, y' = d x + e y + f.
Transform = tuple[float, float, float, float, float, float]
Stretch = tuple[float, float] | None

_CHANNELS = (1, 3, 4)
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_NUMPY = b"\x93NUMPY"
_USER_DEFINED = 32767  # of a GeoTIFF key


class Windows(Protocol):
    """An image of which only windows are read, so that it may be larger than memory.

    Made by `sam_rlx.io.open_windows`.

    Attributes
    ----------
    shape : (int, int)
        Height and width in pixels.
    transform : tuple of 6 floats, or None
        Where pixels lie on a map: the corner of pixel (x, y) is at ``a x + b y + c``,
        ``d x + e y + f``.
    crs : str or None
        The reference system of the map, such as ``"EPSG:32633"``.
    """

    shape: tuple[int, int]
    transform: Transform | None
    crs: str | None

    def read(self, y0: int, y1: int, x0: int, x1: int) -> NDArray[np.uint8]:
        """Return the pixels of rows y0 to y1 and columns x0 to x1 as RGB (h, w, 3)."""

    def close(self) -> None:
        """Close the file, if there is one."""

    def __enter__(self) -> Windows:
        """Return itself; the end of the block closes it."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""


class WindowReader(Windows):
    """What all kinds of `Windows` have in common: checks, and the way of values to RGB."""

    def __init__(
        self,
        hw: Sequence[int],
        stretch: Stretch = None,
        transform: Transform | None = None,
        crs: str | None = None,
    ) -> None:
        self.shape = as_hw("image", tuple(int(side) for side in hw))
        self.transform = transform
        self.crs = crs
        self._stretch: Any = False if stretch is None else stretch

    def __repr__(self) -> str:
        height, width = self.shape
        crs = "" if self.crs is None else f", {self.crs}"
        return f"<{type(self).__name__} {height} x {width}{crs}>"

    def __enter__(self) -> WindowReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if there is one."""

    def read(self, y0: int, y1: int, x0: int, x1: int) -> NDArray[np.uint8]:
        """Return the pixels of rows y0 to y1 and columns x0 to x1, ends not included.

        Returns
        -------
        ndarray (y1 - y0, x1 - x0, 3), uint8
            RGB.

        Raises
        ------
        InvalidArgumentError
            The window is empty or not within the image, or its values are out of range.
        """
        height, width = self.shape
        if not (0 <= y0 < y1 <= height and 0 <= x0 < x1 <= width):
            raise InvalidArgumentError(
                f"window: expected rows and columns within {height} x {width}, found rows {y0} to "
                f"{y1}, columns {x0} to {x1}"
            )
        return as_rgb(self._pixels(y0, y1, x0, x1), stretch=self._stretch, way_out=OF_FILES)

    def read_reduced(self, y0: int, y1: int, x0: int, x1: int, factor: int) -> NDArray[np.uint8]:
        """Return a window reduced in both directions: the mean of factor x factor pixels each.

        Pixels at the lower and right edge are the mean of those that there are. A strip of the
        window is held at a time.
        """
        if factor == 1:
            return self.read(y0, y1, x0, x1)
        columns = np.arange(0, x1 - x0, factor)
        counts = np.diff(columns, append=x1 - x0)
        reduced = np.empty((math.ceil((y1 - y0) / factor), len(columns), 3), np.uint8)
        for row, top in enumerate(range(y0, y1, factor)):
            strip = self.read(top, min(top + factor, y1), x0, x1)
            sums = np.add.reduceat(strip.sum(axis=0, dtype=np.float64), columns, axis=0)
            reduced[row] = np.rint(sums / (counts[:, None] * len(strip)))
        return reduced

    def _pixels(self, y0: int, y1: int, x0: int, x1: int) -> NDArray[Any]:
        """Return a window as (h, w) or (h, w, C), in the values of the source."""
        raise NotImplementedError


class ArrayWindows(WindowReader):
    """Windows of an array: NumPy, mapped files, zarr, h5py, dask, xarray.

    Parameters
    ----------
    array : array
        (H, W), (H, W, 1|3|4) or (1|3|4, H, W); has ``shape`` and gives ``[rows, columns]``.
    stretch : (low, high), optional
        As for `sam_rlx.io.read_image`.
    """

    def __init__(self, array: Any, stretch: Stretch = None) -> None:
        self._array = in_order("image", array)
        shape = tuple(self._array.shape)
        last = len(shape) == 3 and shape[2] in _CHANNELS
        self._channels_first = len(shape) == 3 and not last and shape[0] in _CHANNELS
        if not (len(shape) == 2 or last or self._channels_first):
            raise InvalidArgumentError(
                f"image: expected an array (H, W), (H, W, 1|3|4) or (1|3|4, H, W), found shape "
                f"{shape}"
            )
        super().__init__(shape[1:] if self._channels_first else shape[:2], stretch)

    def _pixels(self, y0: int, y1: int, x0: int, x1: int) -> NDArray[Any]:
        rows, columns = slice(y0, y1), slice(x0, x1)
        if self._channels_first:
            return np.moveaxis(as_array("image", self._array[:, rows, columns]), 0, 2)
        pixels = as_array("image", self._array[rows, columns])
        if isinstance(self._array, np.memmap):
            pixels = pixels.copy()
            mapped: Any = self._array[rows]
            give_back(mapped)
        return pixels


class TiffWindows(WindowReader):
    """Windows of the first image of a TIFF file, by tifffile: the tiles or strips they touch."""

    def __init__(self, path: Path, bands: Sequence[int] | None, stretch: Stretch = None) -> None:
        tifffile = optional("io", "tifffile", "tifffile")
        self._path = path
        with _reader_errors(path):
            self._file = tifffile.TiffFile(path)
        try:
            with _reader_errors(path):
                page = self._file.pages[0]
            _check_tiff(path, page)
            axes = page.axes.replace("S", "")
            if axes != "YX":
                raise InvalidArgumentError(
                    f"{path}: expected an image of rows and columns, found axes {page.axes}"
                )
            self._page = page
            self._planes_first = page.axes.startswith("S")
            count = page.shape[page.axes.index("S")] if "S" in page.axes else 1
            self._bands = _as_bands(path, bands, count)
            hw = page.shape[1:] if self._planes_first else page.shape[:2]
            super().__init__(hw, stretch, *_geo_tags(page))
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _pixels(self, y0: int, y1: int, x0: int, x1: int) -> NDArray[Any]:
        with _reader_errors(self._path):
            pixels = self._stored(y0, y1, x0, x1)
        if self._planes_first:
            pixels = np.moveaxis(pixels, 0, 2)
        return pixels.reshape(y1 - y0, x1 - x0, -1)[:, :, self._bands]

    def _stored(self, y0: int, y1: int, x0: int, x1: int) -> NDArray[Any]:
        """Return the window with the axes of the page."""
        page = self._page
        if page.is_contiguous:
            whole = np.memmap(
                self._file.filehandle.path,
                page.dtype.newbyteorder(self._file.byteorder),
                "r",
                page.dataoffsets[0],
                page.shape,
            )
            window = whole[..., y0:y1, x0:x1] if self._planes_first else whole[y0:y1, x0:x1]
            return np.array(window, page.dtype)  # the map goes, and its pages with it
        return self._decoded(y0, y1, x0, x1)

    def _decoded(self, y0: int, y1: int, x0: int, x1: int) -> NDArray[Any]:
        """Return the window of the tiles or strips that touch it."""
        page = self._page
        first = 1 if self._planes_first else 0
        shape = list(page.shape)
        shape[first : first + 2] = y1 - y0, x1 - x0
        pixels = np.empty(shape, page.dtype)
        height, width = page.chunks[:2]
        planes = range(page.chunked[0]) if self._planes_first else (None,)
        for plane in planes:
            target = pixels if plane is None else pixels[plane]
            for row in range(y0 // height, math.ceil(y1 / height)):
                for column in range(x0 // width, math.ceil(x1 / width)):
                    at = (row, column, 0) if plane is None else (plane, row, column)
                    chunked = page.chunked
                    part = self._segment(int(np.ravel_multi_index(at[: len(chunked)], chunked)))
                    top, left = row * height, column * width
                    part = part[max(y0 - top, 0) : y1 - top, max(x0 - left, 0) : x1 - left]
                    top, left = max(top - y0, 0), max(left - x0, 0)
                    to = target[top : top + part.shape[0], left : left + part.shape[1]]
                    to[:] = part.reshape(to.shape)
        return pixels

    def _segment(self, index: int) -> NDArray[Any]:
        """Return a tile or strip (h, w, C), without what reaches out of the image."""
        page, file = self._page, self._file.filehandle
        file.seek(page.dataoffsets[index])
        data = file.read(page.databytecounts[index]) or None  # GDAL leaves empty ones out
        segment, _, (_, height, width, channels) = page.decode(
            data, index, jpegtables=page.jpegtables
        )
        if segment is None:
            return np.full((height, width, channels), page.nodata, page.dtype)
        pixels: NDArray[Any] = segment[0, :height, :width]
        return pixels


class RasterWindows(WindowReader):
    """Windows of a TIFF or GeoTIFF file, by rasterio."""

    def __init__(self, path: Path, bands: Sequence[int] | None, stretch: Stretch = None) -> None:
        rasterio = optional("io", "rasterio", "rasterio")
        self._window = optional("io", "rasterio.windows", "rasterio").Window
        self._path = path
        with _reader_errors(path), warnings.catch_warnings():
            # An image without a transform is one too.
            warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
            self._file = rasterio.open(path, driver="GTiff")
        try:
            file = self._file
            palette = any(each.name == "palette" for each in file.colorinterp)
            if palette or file.tags(ns="IMAGE_STRUCTURE").get("MINISWHITE") == "YES":
                found = "a palette" if palette else "one in which 0 is white"
                raise InvalidArgumentError(f"{path}: expected grey or RGB values, found {found}")
            self._bands = [band + 1 for band in _as_bands(path, bands, file.count)]
            transform = None if file.transform.is_identity else tuple(file.transform)[:6]
            crs = None if file.crs is None else file.crs.to_string()
            super().__init__(file.shape, stretch, transform, crs)
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _pixels(self, y0: int, y1: int, x0: int, x1: int) -> NDArray[Any]:
        window = self._window(x0, y0, x1 - x0, y1 - y0)
        with _reader_errors(self._path):
            return np.moveaxis(self._file.read(self._bands, window=window), 0, 2)


def open_windows(
    source: str | os.PathLike[str] | Any,
    *,
    bands: Sequence[int] | None = None,
    stretch: tuple[float, float] | None = None,
) -> Windows:
    """Open an image of which only windows are read, so that it may be larger than memory.

    `MaskGenerator.generate`, `ConceptPredictor.predict` and `ImagePredictor.predict` take what it
    returns beside `tile`.

    Parameters
    ----------
    source : str, path, array or PIL image
        A TIFF or GeoTIFF file, by rasterio (extra ``geo``) or else tifffile (extra ``tiff``); a
        ``.npy`` file; an array that gives ``[rows, columns]``: NumPy, mapped files, zarr, h5py,
        dask, xarray. Other files and PIL images are read whole.
    bands : sequence of 1 or 3 int, optional
        Which bands of a TIFF file are grey, or red, green and blue, counted from 1. Default: all
        of one or three, the first three of four.
    stretch : (low, high), optional
        Which values become 0 and 255, as for `io.read_image`. The same for all windows.

    Returns
    -------
    Windows
        With ``shape``, ``transform``, ``crs`` and ``read(y0, y1, x0, x1)``; closed by a ``with``
        block.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    InvalidArgumentError
        It is no image, or one with other bands, a palette or another orientation.
    MissingExtraError
        Nothing that reads windows of TIFF files is installed.
    """
    pair = None if stretch is None else _as_pair(stretch)
    if not isinstance(source, (str, os.PathLike)):
        if bands is not None:
            raise InvalidArgumentError("bands: expected none for an array, found some")
        return as_windows(source, pair)
    path = as_path(source)
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(_TIFF):
        return _open_tiff(path, bands, pair)
    if bands is not None:
        raise InvalidArgumentError(f"bands: expected none for a file other than TIFF, found {path}")
    if start.startswith(_NUMPY):
        return ArrayWindows(np.load(path, mmap_mode="r"), pair)
    return ArrayWindows(read_image(path, stretch=pair or False))


def as_windows(image: Any, stretch: Stretch = None) -> WindowReader:
    """Return the windows of an image as callers pass it; what are windows already, as they are.

    Raises `InvalidArgumentError` for what is no image.
    """
    if isinstance(image, WindowReader):
        return image
    by_parts = isinstance(getattr(image, "shape", None), tuple) and has(image, "__getitem__")
    if is_pil(image) or not by_parts:
        return ArrayWindows(as_rgb(image, stretch=stretch or False))
    return ArrayWindows(image, stretch)


def _open_tiff(path: Path, bands: Sequence[int] | None, stretch: Stretch) -> WindowReader:
    if importlib.util.find_spec("rasterio") is not None:
        return RasterWindows(path, bands, stretch)
    if importlib.util.find_spec("tifffile") is not None:
        return TiffWindows(path, bands, stretch)
    raise missing("io", "tifffile", f"neither it nor rasterio, to read windows of {path}")


@contextmanager
def _reader_errors(path: Path) -> Iterator[None]:
    """Tell what other libraries raise on damaged files, which is anything, with the file's name."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        words = str(error) or type(error).__name__
        raise InvalidArgumentError(f"{path}: expected a TIFF image, found {words}") from error


def _as_pair(stretch: Any) -> tuple[float, float]:
    values = as_items("stretch", stretch)
    if len(values) != 2:
        raise InvalidArgumentError(f"stretch: expected (low, high), found {shown(stretch)}")
    return values[0], values[1]


def _as_bands(path: Path, bands: Sequence[int] | None, count: int) -> list[int]:
    """Return which of `count` bands are read, from 0."""
    if bands is None:
        if count not in _CHANNELS:
            raise InvalidArgumentError(
                f"{path}: expected 1, 3 or 4 bands, found {count}: bands=(3, 2, 1) chooses"
            )
        return list(range(min(count, 3)))
    given = as_items("bands", bands)
    numbers = [as_integer(f"bands[{i}]", band, 1, count) for i, band in enumerate(given)]
    if len(numbers) not in (1, 3):
        raise InvalidArgumentError(f"bands: expected 1 or 3 of them, found {len(numbers)}")
    return [number - 1 for number in numbers]


def _check_tiff(path: Path, page: Any) -> None:
    """Refuse pixels that are not what they look like."""
    photometric = page.photometric.name
    if photometric not in ("MINISBLACK", "RGB", "YCBCR"):
        raise InvalidArgumentError(f"{path}: expected grey or RGB values, found {photometric}")
    orientation = page.tags.get("Orientation")
    if orientation is not None and int(orientation.value) != 1:
        raise InvalidArgumentError(
            f"{path}: expected rows from the top, found orientation {int(orientation.value)}"
        )


def _geo_tags(page: Any) -> tuple[Transform | None, str | None]:
    """Return transform and reference system of the tags of a GeoTIFF page."""
    tags = page.geotiff_tags or {}
    scale, tie = tags.get("ModelPixelScale"), tags.get("ModelTiepoint")
    matrix = tags.get("ModelTransformation")
    transform: Transform | None = None
    if matrix is not None:
        (a, b, _, c), (d, e, _, f) = np.reshape(matrix, (4, 4))[:2].tolist()
        transform = (a, b, c, d, e, f)
    elif scale is not None and tie is not None and len(tie) == 6:
        a, e = float(scale[0]), -float(scale[1])
        transform = (a, 0.0, tie[3] - tie[0] * a, 0.0, e, tie[4] - tie[1] * e)
    if transform is not None and int(tags.get("GTRasterTypeGeoKey", 1)) == 2:  # of pixels' centres
        a, b, c, d, e, f = transform
        transform = (a, b, c - (a + b) / 2, d, e, f - (d + e) / 2)
    code = int(tags.get("ProjectedCSTypeGeoKey", tags.get("GeographicTypeGeoKey", _USER_DEFINED)))
    return transform, None if code == _USER_DEFINED else f"EPSG:{code}"


__all__ = ["ArrayWindows", "WindowReader", "Windows", "as_windows", "open_windows"]
