"""Images as people have them: pages, other ranges than 8 bits, tensors, open files, folders."""

from __future__ import annotations

import io as bytes_io
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image, ImageFile
from sam_rlx import io
from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx._internal.media.image_frames import FolderFrames
from sam_rlx.frames import open_frames

tifffile = pytest.importorskip("tifffile")
RAMP = np.linspace(0, 1, 40 * 50).reshape(40, 50)
PAGES = [np.full((20, 30, 3), 40 * t + 10, np.uint8) for t in range(4)]
for number, page in enumerate(PAGES):
    page[number : number + 6, 3:9] = (250, 20, 90)


def grey(values: Any) -> np.ndarray:
    return np.stack([np.rint(values).astype(np.uint8)] * 3, axis=2)


# ---------------------------------------------------------------- pages


def stack(folder: Path, form: str) -> Path:
    path = folder / f"pages.{form}"
    if form == "tif":
        tifffile.imwrite(path, np.stack(PAGES), photometric="rgb")
        return path
    options: dict[str, Any] = {"lossless": True} if form == "webp" else {}
    pages = [Image.fromarray(page) for page in PAGES]
    pages[0].save(path, save_all=True, append_images=pages[1:], duration=0, **options)
    return path


@pytest.mark.parametrize("form", ["tif", "webp", "png", "gif"])
def test_an_image_of_several_pages(form: str, tmp_path: Path) -> None:
    path = stack(tmp_path, form)
    with pytest.warns(sam_rlx.MediaWarning, match=f"pages.{form}: 4 pages, of which the first"):
        first = io.read_image(path)
    np.testing.assert_array_equal(first, PAGES[0])
    for number in (2, 0, 3):
        np.testing.assert_array_equal(io.read_image(path, page=number), PAGES[number])
    for wrong in (4, -1, 1.0):
        with pytest.raises(sam_rlx.InvalidArgumentError, match="page: expected 0 to 3, found"):
            io.read_image(path, page=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["tif", "webp", "png", "gif"])
def test_all_pages_are_frames_of_a_video(form: str, tmp_path: Path) -> None:
    path = stack(tmp_path, form)
    if form == "gif":
        pytest.importorskip("av")
    for given in (path, path.read_bytes(), bytes_io.BytesIO(path.read_bytes())):
        source = open_frames(given)
        assert source.count == 4
        for number in (3, 0, 2, 2, 1):
            np.testing.assert_array_equal(source.read(number), PAGES[number])
        with pytest.raises(sam_rlx.InvalidArgumentError, match="expected 0 to 3, found 4"):
            source.read(4)


def test_a_single_image_is_a_video_of_one_frame(tmp_path: Path) -> None:
    Image.fromarray(PAGES[1]).save(tmp_path / "a.png")
    source = open_frames(tmp_path / "a.png")
    assert source.count == 1
    np.testing.assert_array_equal(source.read(0), PAGES[1])


def test_reduced_copies_and_masks_in_a_tiff_file_are_no_pages(tmp_path: Path) -> None:
    path = tmp_path / "pyramid.tif"
    with tifffile.TiffWriter(path) as writer:
        writer.write(PAGES[0], photometric="rgb")
        writer.write(PAGES[0][::2, ::2], photometric="rgb", subfiletype=1)
        writer.write(PAGES[0][:, :, 0] > 9, subfiletype=4)
        writer.write(PAGES[1], photometric="rgb")
    assert open_frames(path).count == 2
    np.testing.assert_array_equal(io.read_image(path, page=1), PAGES[1])


def test_a_pil_image_with_pages(tmp_path: Path) -> None:
    path = stack(tmp_path, "tif")
    with Image.open(path) as image, pytest.warns(sam_rlx.MediaWarning, match="image: 4 pages"):
        as_rgb(image)
    with Image.open(path) as image, warnings.catch_warnings():
        warnings.simplefilter("error")
        image.seek(2)  # somebody has chosen
        np.testing.assert_array_equal(as_rgb(image), PAGES[2])


def test_arrays_of_frames() -> None:
    frames = np.stack([page[:, :, 0] for page in PAGES])
    source = open_frames(frames)
    assert source.count == 4
    np.testing.assert_array_equal(source.read(2), grey(frames[2]))
    assert open_frames(np.zeros((7, 5, 6, 1), np.uint8)).count == 7
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"for one image give image\[None\]"):
        open_frames(PAGES[0])


# ---------------------------------------------------------------- ranges


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ((RAMP * 4095).astype(np.uint16), 0, 4095),
        ((RAMP * 3000 - 1000).astype(np.int16), -1000, 2000),
        ((RAMP * 100_000).astype(np.int32), 0, 100_000),
        ((RAMP * 7 - 3).astype(np.float32), -3, 4),
    ],
    ids=["12 bits", "int16", "int32", "float32"],
)
def test_other_ranges_are_stretched_on_request(
    values: np.ndarray, low: float, high: float, tmp_path: Path
) -> None:
    path = tmp_path / "raster.tif"
    tifffile.imwrite(path, values)
    exact = values.astype(np.float64)
    np.testing.assert_array_equal(
        io.read_image(path, stretch=True), grey(255 * (exact - exact.min()) / np.ptp(exact))
    )
    span = (low + 0.25 * (high - low), low + 0.5 * (high - low))
    clipped = np.clip((exact - span[0]) / (span[1] - span[0]), 0, 1)
    np.testing.assert_array_equal(io.read_image(path, stretch=span), grey(255 * clipped))


def test_a_small_part_of_the_range_is_warned_of(tmp_path: Path) -> None:
    dark = (RAMP * 4095).astype(np.uint16)
    Image.fromarray(dark).save(tmp_path / "dark.png")
    said = r"uint16 values are read as 0 to 65535, .* 0 to 4095, are less than a tenth"
    for read in (lambda: io.read_image(tmp_path / "dark.png"), lambda: as_rgb(dark)):
        with pytest.warns(sam_rlx.MediaWarning, match=said):
            found = read()
        np.testing.assert_array_equal(found, grey(dark / 257))
    with pytest.warns(sam_rlx.MediaWarning, match=r"float values are read as 0 to 1, .* 0 to 0.05"):
        as_rgb(RAMP * 0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_rgb((RAMP * 6600).astype(np.uint16))  # a tenth is 6553.5
        as_rgb(np.full((4, 5), 300, np.uint16))  # an empty frame is no matter of its range
        as_rgb((RAMP * 20).astype(np.uint8))


@pytest.mark.parametrize("highest", [4095, 255])
def test_16_bits_a_colour_are_told_where_pillow_loses_them(tmp_path: Path, highest: int) -> None:
    """Of values up to 255 Pillow keeps nothing: the image would be black without a word."""
    path = tmp_path / "colour.tif"
    colour = np.stack([(RAMP * highest).astype(np.uint16)] * 3, axis=2)
    tifffile.imwrite(path, colour, photometric="rgb")
    with pytest.warns(sam_rlx.MediaWarning, match=r"16-bit colours are read as 0 to 65535"):
        io.read_image(path)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="tifffile"):
        io.read_image(path, stretch=True)


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"),
        (b"<!doctype html><title>Sign in", "a web page, not the file itself"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "pillow_heif.register_heif_opener"),
        (b"#?RADIANCE\n", "scale it to 0 to 1, and give the array"),
        (b"\x76\x2f\x31\x01\2\0\0\0", "scale it to 0 to 1, and give the array"),
        (b"PF\n4 4\n-1\n", "scale it to 0 to 1, and give the array"),
    ],
)
def test_what_helps_with_files_of_other_kinds(tmp_path: Path, start: bytes, said: str) -> None:
    path = tmp_path / "photo"
    path.write_bytes(start + bytes(64))
    with pytest.raises(sam_rlx.InvalidArgumentError, match=said):
        io.read_image(path)
    with pytest.raises(FileNotFoundError, match="download it first"):
        io.read_image("https://example.org/a.png")


def test_alphas_of_a_palette_are_dropped(tmp_path: Path) -> None:
    """Colours stay, also of what is transparent; Pillow's warning says nothing to a user."""
    colours = np.random.default_rng(0).integers(0, 256, (4, 3), np.uint8)
    indices = np.arange(20).reshape(4, 5).astype(np.uint8) % 4
    image = Image.fromarray(indices, "P")
    image.putpalette(colours.tobytes())
    image.save(tmp_path / "p.png", transparency=bytes([0, 7, 255, 128]))
    np.testing.assert_array_equal(io.read_image(tmp_path / "p.png"), colours[indices])


@pytest.mark.parametrize(
    ("image", "found"),
    [
        (np.array([[0, 1.0015]], np.float32), "0 to 1.0015"),
        (np.array([[-0.0015, 0.5]]), "-0.0015 to 0.5"),
        (np.array([[0.0, np.nan, 1.0]]), "1 of 3 values that are NaN or infinity beside 0 to 1"),
        (np.array([[np.inf, 0.5]]), "1 of 2 values that are NaN or infinity beside 0.5 to 0.5"),
        (np.full((2, 2), np.nan), "only NaN or infinity"),
        (np.array([[-7, 300]], np.int16), "dtype int16 with values -7 to 300"),
        (np.array([[0.0, 255.0]]), "0 to 255"),
    ],
)
def test_a_range_that_is_refused_is_named(image: np.ndarray, found: str) -> None:
    with pytest.raises(sam_rlx.InvalidArgumentError) as caught:
        as_rgb(image)
    assert f"found {found}" in str(caught.value)
    words = ("numpy.interp(image, (", "numpy.nan_to_num(image)")
    assert any(word in str(caught.value) for word in words), "a line for arrays, not for files"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rounding_beyond_the_range_is_taken(dtype: type) -> None:
    """As a resampling leaves it: the pixels are those of the clipped image."""
    image = np.linspace(0, 1, 600).reshape(20, 30).astype(dtype)
    beyond = image.copy()
    beyond[0, 0], beyond[-1, -1] = -9e-4, 1 + 9e-4
    np.testing.assert_array_equal(as_rgb(beyond), as_rgb(image))


def test_nan_is_black_when_values_are_stretched(tmp_path: Path) -> None:
    values = np.array([[np.nan, 2.0, 4.0, np.inf, -np.inf]], np.float32)
    tifffile.imwrite(tmp_path / "nan.tif", values)
    found = io.read_image(tmp_path / "nan.tif", stretch=True)[0, :, 0]
    assert found.tolist() == [0, 0, 255, 255, 0]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_each_channel_is_stretched_by_its_own_range(tmp_path: Path, dtype: Any) -> None:
    """As micro-sam does it, which truncates where this rounds; a flat channel is black."""
    values = np.random.default_rng(9).integers(20, 200, (31, 45, 3)).astype(dtype)
    values[:, :, 1] //= 3
    values[:, :, 2] = 7
    found = as_rgb(values, stretch="channels")
    shares = values.astype(np.float32) - values.min((0, 1))
    shares /= shares.max((0, 1)) + np.float32(1e-7)
    assert np.abs(found - 255 * shares).max() <= 0.501
    assert not found[:, :, 2].any()
    assert found[:, :, :2].max((0, 1)).tolist() == [255, 255]
    grey_only = as_rgb(values[:, :, 0], stretch=True)
    np.testing.assert_array_equal(found[:, :, 0], grey_only[:, :, 0])
    if dtype is np.uint8:
        Image.fromarray(values).save(tmp_path / "x.png")
        np.testing.assert_array_equal(io.read_image(tmp_path / "x.png", stretch="channels"), found)


@pytest.mark.parametrize("stretch", [(3, 3), (5, 1), (0, np.inf), "yes", 7, (1, 2, 3), None])
def test_a_stretch_that_is_none(stretch: Any, tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", (RAMP * 9).astype(np.uint8))
    with pytest.raises(sam_rlx.InvalidArgumentError, match="stretch: expected"):
        io.read_image(tmp_path / "a.tif", stretch=stretch)


def test_signed_bytes_are_not_taken_for_others(tmp_path: Path) -> None:
    path = tmp_path / "signed.tif"
    tifffile.imwrite(path, np.array([[-5, 0, 5]], np.int8))
    with pytest.raises(sam_rlx.InvalidArgumentError, match="int8 with values -5 to 5"):
        io.read_image(path)
    assert io.read_image(path, stretch=True)[0, :, 0].tolist() == [0, 128, 255]


def test_a_tiff_file_that_pillow_does_not_know(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "double.tif", RAMP)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="the package tifffile reads more"):
        io.read_image(tmp_path / "double.tif")


# ---------------------------------------------------------------- where images come from


def test_open_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(PAGES[1]).save(path)
    with path.open("rb") as file:
        np.testing.assert_array_equal(io.read_image(file), PAGES[1])
        assert not file.closed
    np.testing.assert_array_equal(io.read_image(bytes_io.BytesIO(path.read_bytes())), PAGES[1])
    for wrong in (bytes_io.BytesIO(b"no image"), bytes_io.StringIO("text")):
        with pytest.raises(sam_rlx.InvalidArgumentError, match="file: expected an image"):
            io.read_image(wrong)


@pytest.mark.parametrize("source", ["a.png", Path("a.png"), b"bytes", bytes_io.BytesIO()])
def test_a_file_where_an_image_is_expected(source: Any) -> None:
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"io\.read_image reads files"):
        as_rgb(source)


def test_the_limit_of_pillow_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.fromarray(PAGES[0]).save(tmp_path / "large.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(
        sam_rlx.InvalidArgumentError, match=r"large\.png: .*PIL\.Image\.MAX_IMAGE_PIXELS = None"
    ):
        io.read_image(tmp_path / "large.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    np.testing.assert_array_equal(io.read_image(tmp_path / "large.png"), PAGES[0])


def test_a_memory_error_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object, **__: object) -> None:
        raise MemoryError

    Image.fromarray(PAGES[0]).save(tmp_path / "a.jpg")
    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    for read in (io.read_image, io.read_mask, lambda path: open_frames(path).read(0)):
        with pytest.raises(MemoryError):
            read(tmp_path / "a.jpg")


@pytest.mark.parity
def test_tensors_of_pytorch(model: sam_rlx.Model) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(RAMP, dtype=torch.float32, requires_grad=True)
    np.testing.assert_array_equal(as_rgb(tensor), grey(np.float32(255) * tensor.detach().numpy()))
    rounded = torch.tensor(RAMP).to(torch.bfloat16)
    np.testing.assert_array_equal(as_rgb(rounded), grey(255 * rounded.float().numpy()))
    video = torch.zeros((5, 3, 8, 9), dtype=torch.uint8)
    assert open_frames(video).count == 5
    assert open_frames(video).read(4).shape == (8, 9, 3)
    predictor = sam_rlx.ImagePredictor(model, num_threads=1)
    predictor.set_image(tensor)
    points = torch.tensor([[20.0, 18.0]])
    right = predictor.predict(point_coords=points.numpy(), point_labels=[1])
    for given in (points.requires_grad_(), points.detach().to(torch.bfloat16)):
        found = predictor.predict(point_coords=given, point_labels=torch.tensor([1]))
        np.testing.assert_array_equal(found.masks, right.masks)


# ---------------------------------------------------------------- folders


def folder_of(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        Image.new("RGB", (6, 4), (number, 0, 0)).save(folder / name)
    return folder


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("0.jpg", "1.jpg", "0.png"), "2 .jpg and 1 .png"),
        (("0.png", "0_mask.png", "1.png", "1_mask.png"), "0.png and 0_mask.png"),
        (("f_0001.png", "f_0002.png", "mask_0001.png"), "f_0001.png and mask_0001.png"),
        (("1_left.png", "1_right.png"), "1_left.png and 1_right.png"),
        (("0.tif", "1.bmp"), "1 .tif and 1 .bmp"),
    ],
)
def test_frames_beside_other_images_are_refused(
    names: tuple[str, ...], found: str, tmp_path: Path
) -> None:
    with pytest.raises(sam_rlx.InvalidArgumentError) as caught:
        open_frames(folder_of(tmp_path, *names))
    text = str(caught.value)
    assert all(part in text for part in found.split(" and "))
    assert "a folder with the frames alone" in text


def test_hidden_files_and_others_are_no_frames(tmp_path: Path) -> None:
    folder_of(tmp_path, "10.jpg", "9.JPG", "8.jpeg")
    (tmp_path / "._9.jpg").write_bytes(b"Mac OS X")
    (tmp_path / ".hidden.jpg").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("no image")
    source = FolderFrames(tmp_path)
    assert source.count == 3
    assert [path.name for path in source._files] == ["8.jpeg", "9.JPG", "10.jpg"]


@pytest.mark.source_tree
def test_the_program_that_tries_all_formats_finds_nothing_wrong() -> None:
    program = Path(__file__).parents[2] / "benchmarks" / "images.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\n0 wrong\n")
    assert done.stdout.count("right") > 300


def test_a_file_that_is_open_as_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "image.bmp"
    path.write_text("BM")
    with path.open() as file, pytest.raises(sam_rlx.InvalidArgumentError, match="open as binary"):
        io.read_image(file)
