"""Read images of every format and mode that Pillow and tifffile write, as image and as mask.

Prints a row for each: right, or the one error that says why not. The exit status is 1 if a result
is wrong without an error. Needs Pillow and tifffile:

    python benchmarks/images.py
"""

from __future__ import annotations

import io as bytes_io
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tifffile
from numpy.typing import NDArray
from PIL import Image
from sam_rlx import MediaWarning, SamRlxError, io

HW = (48, 64)
MODES = ("1", "L", "P", "LA", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB", "I;16", "I", "F")
LOSSY = {"JPEG", "JPEG2000", "WEBP", "AVIF", "MPO", "GIF", "BLP", "DDS", "PDF"}
NOT_READ = {"PDF", "PALM", "EPS"}  # Pillow writes them, and does not read them without other tools
RESIZED = {"ICO", "ICNS"}  # icons: Pillow writes the image at the sizes of icons
DTYPES = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 complex64"
MAX_LOSSY, MAX_LOST = 12.0, 0.03  # of the mean value; of the mask


@dataclass(frozen=True)
class Case:
    """A file, and what is right; None where no image or mask is meant by it."""

    name: str
    data: bytes
    image: NDArray[np.uint8] | None
    mask: NDArray[np.bool_] | None
    lossy: bool = False


def _ramp() -> NDArray[np.uint8]:
    y, x = np.mgrid[: HW[0], : HW[1]]
    return np.stack([4 * x, 5 * y, 2 * (x + y)], axis=2).astype(np.uint8)


def _disc() -> NDArray[np.bool_]:
    y, x = np.mgrid[: HW[0], : HW[1]]
    found: NDArray[np.bool_] = (x - 30) ** 2 + (y - 22) ** 2 < 196
    return found


def _rgb_of(image: Image.Image) -> NDArray[np.uint8]:
    """Return the 8-bit colours that a PIL image means."""
    values = np.asarray(image)
    if image.mode == "I;16":
        grey = np.rint(values / 257).astype(np.uint8)
    elif image.mode == "F":
        grey = np.rint(np.float32(255) * values).astype(np.uint8)
    elif image.mode == "I":
        grey = np.rint(values / 257).astype(np.uint8)
    else:
        return np.asarray(image.convert("RGB"))
    return np.stack([grey] * 3, axis=2)


def _image_of(mode: str) -> Image.Image:
    rgb = Image.fromarray(_ramp())
    if mode == "I;16":
        return Image.fromarray(_ramp()[:, :, 0].astype(np.uint16) * 257)
    if mode == "I":
        return Image.fromarray(_ramp()[:, :, 0].astype(np.int32) * 257)
    if mode == "F":
        return Image.fromarray(_ramp()[:, :, 0].astype(np.float32) / 255)
    if mode == "LAB":
        return Image.frombytes("LAB", HW[::-1], _ramp().tobytes())
    return rgb.convert("P").convert("PA") if mode == "PA" else rgb.convert(mode)


def _mask_of(mode: str, label: int) -> Image.Image | None:
    """Return a disc with a label on 0, in a mode; None where the mode cannot hold the label."""
    disc = _disc()
    if mode == "1":
        return Image.fromarray(disc) if label == 255 else None
    if mode == "P":
        found = Image.fromarray((disc * label).astype(np.uint8))
        found.putpalette([0, 0, 0, *([200, 40, 90] * 255)])
        return found
    if mode in ("I;16", "I", "F"):
        wide = {"I;16": np.uint16, "I": np.int32, "F": np.float32}[mode]
        return Image.fromarray(disc.astype(wide) * wide(label))
    if mode in ("RGBA", "LA"):  # a cut-out
        cut = Image.fromarray(_ramp()).convert(mode)
        cut.putalpha(Image.fromarray(disc.astype(np.uint8) * 255))
        return cut
    if mode in ("L", "RGB"):
        return Image.fromarray((disc * label).astype(np.uint8)).convert(mode)
    return None


def _pillow_cases() -> Iterator[Case]:
    Image.init()
    for form in sorted(set(Image.SAVE) - NOT_READ - RESIZED):
        for mode in MODES:
            lossy = form in LOSSY
            image = _image_of(mode)
            data = _saved(image, form)
            if data is not None:
                yield Case(f"{form} {mode}", data, _rgb_of(_kept(image, data)), None, lossy)
            for label in (255, 1, 7):
                drawn = _mask_of(mode, label)
                data = None if drawn is None else _saved(drawn, form)
                if data is not None:
                    yield Case(f"{form} {mode} label {label}", data, None, _disc(), lossy)
    for form in ("PNG", "TIFF", "WEBP", "GIF"):
        pages = [Image.fromarray(np.roll(_ramp(), 9 * t, axis=1)) for t in range(4)]
        first = np.asarray(pages[0])
        data = _saved(pages[0], form, save_all=True, append_images=pages[1:])
        if data is not None:
            yield Case(f"{form} of 4 pages", data, first, None, form in LOSSY)


def _kept(image: Image.Image, data: bytes) -> Image.Image:
    """Return what a file keeps of an image: a format without its mode gets another one."""
    try:
        with Image.open(bytes_io.BytesIO(data)) as written:
            return image if written.mode == image.mode else written.copy()
    except OSError:  # Pillow cannot read what it wrote
        return image


def _saved(image: Image.Image, form: str, **options: Any) -> bytes | None:
    buffer = bytes_io.BytesIO()
    try:
        image.save(buffer, form, **options)
    except Exception:  # Pillow has no such mode, or was built without the library
        return None
    return buffer.getvalue()


def _tiff_cases() -> Iterator[Case]:
    ramp, disc = _ramp(), _disc()
    for name in DTYPES.split():
        dtype = np.dtype(name)
        full = {"b": 1, "f": 1, "c": 1}.get(dtype.kind, 255 if dtype.itemsize == 1 else 65535)
        values = (ramp[:, :, 0] / 255 * full).astype(dtype)
        right = dtype.kind in "bf" or bool((values == np.trunc(ramp[:, :, 0] / 255 * full)).all())
        grey = ramp[:, :, 0] if dtype.kind != "b" else np.uint8(255) * values.astype(np.uint8)
        image = np.stack([grey] * 3, axis=2) if right else None
        yield Case(f"tifffile {name}", _tiff(values), image, None, True)
        for label in (1, 100):
            drawn = disc.astype(dtype) * dtype.type(label)
            yield Case(f"tifffile {name} label {label}", _tiff(drawn), None, disc)
    wide = ramp.astype(np.uint16) * 257
    for name, array, options in (
        ("rgb", ramp, {"photometric": "rgb"}),
        ("rgb planar", ramp.transpose(2, 0, 1), {"photometric": "rgb", "planarconfig": "separate"}),
        ("rgb uint16", wide, {"photometric": "rgb"}),
        ("rgb 12 of 16 bits", wide >> 4, {"photometric": "rgb"}),
        ("bigtiff", ramp, {"photometric": "rgb", "bigtiff": True}),
        ("big endian", ramp, {"photometric": "rgb", "byteorder": ">"}),
        ("tiled zlib", ramp, {"photometric": "rgb", "tile": (16, 16), "compression": "zlib"}),
        ("grey 12 of 16 bits", wide[:, :, 0] >> 4, {}),
        ("miniswhite", 255 - ramp[:, :, 0], {"photometric": "miniswhite"}),
    ):
        right_rgb = ramp if "rgb" in options.values() else np.stack([ramp[:, :, 0]] * 3, axis=2)
        dark = "12 of" in name
        data = _tiff(array, **options)
        yield Case(f"tifffile {name}", data, None if dark else right_rgb, None, True)
    yield Case("tifffile 5 channels", _tiff(np.zeros((5, *HW), np.uint8)), None, None)
    yield Case("tifffile NaN", _tiff(np.where(disc, np.nan, 0.5).astype(np.float32)), None, None)


def _tiff(array: NDArray[Any], **options: Any) -> bytes:
    buffer = bytes_io.BytesIO()
    options = {"photometric": "minisblack", **options}
    tifffile.imwrite(buffer, array, **options)
    return buffer.getvalue()


def _image_is_right(case: Case, found: NDArray[np.uint8]) -> bool:
    if case.image is None or found.shape != case.image.shape:
        return False
    off = np.abs(found.astype(int) - case.image)
    return bool(off.mean() < MAX_LOSSY if case.lossy else off.max() <= 1)


def _mask_is_right(case: Case, found: NDArray[np.bool_]) -> bool:
    assert case.mask is not None
    if found.shape != case.mask.shape:
        return False
    return bool((found != case.mask).mean() <= (MAX_LOST if case.lossy else 0))


def _judged(read: Callable[[], Any], is_right: Callable[[Any], bool]) -> tuple[bool, str]:
    """Read; tell whether it is right, or ends in one error or warning, and what to print."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = read()
        except SamRlxError as error:
            return True, f"error: {error}".replace("\n", " ")
        except Exception as error:
            return False, f"WRONG: {type(error).__name__}: {error}"
    told = [str(w.message) for w in caught if issubclass(w.category, MediaWarning)]
    text = f" warning: {told[0]}" if told else ""
    if is_right(found):
        return True, f"right{text}"
    return bool(told), (f"other values,{text}" if told else "WRONG without a word")


def judge(case: Case) -> list[tuple[bool, str]]:
    """Return the rows of a case."""
    rows = []
    if case.mask is None:
        read = lambda: io.read_image(bytes_io.BytesIO(case.data))  # noqa: E731
        is_right, text = _judged(read, lambda found: _image_is_right(case, found))
        rows.append((is_right, f"{case.name:30} image  {text}"))
    else:
        read = lambda: io.read_mask(bytes_io.BytesIO(case.data))  # noqa: E731
        is_right, text = _judged(read, lambda found: _mask_is_right(case, found))
        rows.append((is_right, f"{case.name:30} mask   {text}"))
    return rows


def main() -> int:
    """Print the table."""
    wrong = 0
    for cases in (_pillow_cases(), _tiff_cases()):
        for case in cases:
            for is_right, row in judge(case):
                wrong += not is_right
                print(row[:180])
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
