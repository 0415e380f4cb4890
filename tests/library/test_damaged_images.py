"""Images, folders and clips that cannot be decoded, and names that a terminal could obey."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from nightly import damaged_files
from PIL import Image, ImageFile
from sam_rlx import io
from sam_rlx._internal.media.frames import ClipFrames, FolderFrames
from sam_rlx._internal.printable import printable, shown
from sam_rlx.compat.common import video_frames
from support.checkpoint_files import safetensors_bytes

IMAGES = damaged_files.image_kind(np.random.default_rng(0))
FORMATS = sorted({name.partition("-")[0] for name in IMAGES.files})


@pytest.mark.filterwarnings("ignore")  # Pillow's
@pytest.mark.parametrize("form", FORMATS)
def test_damaged_images_of_every_format(form: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(len(form))
    for name in (name for name in sorted(IMAGES.files) if name.partition("-")[0] == form):
        for _ in range(10):
            (tmp_path / name).write_bytes(damaged_files.damage_bytes(IMAGES.files[name], rng))
            assert damaged_files.attempt(IMAGES, tmp_path / name) in ("read", "refused")


def test_the_formats_that_pillow_always_has_are_among_them() -> None:
    assert {"blp", "bmp", "dds", "gif", "icns", "jpeg", "png", "ppm", "tga", "tiff"} <= set(FORMATS)


@pytest.mark.parametrize(
    "error",
    [NotImplementedError, RuntimeError, IndexError, KeyError, AssertionError, SystemError, OSError],
)
def test_whatever_a_decoder_raises(
    error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object, **__: object) -> None:
        raise error("the decoder's words")

    Image.fromarray(np.zeros((4, 5, 3), np.uint8)).save(tmp_path / "1.jpg")
    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    readers: list[Callable[[], object]] = [
        lambda: io.read_image(tmp_path / "1.jpg"),
        lambda: FolderFrames(tmp_path).read(0),
        lambda: video_frames.jpeg_folder(tmp_path, 8)[0],
        lambda: video_frames.open_resource(tmp_path / "1.jpg", 8),
    ]
    for read in readers:
        with pytest.raises(
            sam_rlx.InvalidArgumentError, match=r"1\.jpg: expected .*the decoder's words"
        ):
            read()


@pytest.mark.filterwarnings("ignore::sam_rlx.MediaWarning")
def test_damaged_clips(clip: Path, tmp_path: Path) -> None:
    data = clip.read_bytes()
    rng = np.random.default_rng(0)
    path = tmp_path / "damaged.mp4"
    refused = []
    for _ in range(60):
        path.write_bytes(damaged_files.damage_bytes(data, rng))
        try:
            source = ClipFrames(path)
            for index in range(min(3, source.count or 0)):
                source.read(index)
            video_frames.Clip(path, 16).read(0)
        except sam_rlx.InvalidArgumentError as error:
            refused.append(str(error))
    assert 0 < len(refused) < 60
    assert all(text.startswith(f"{path}: expected") for text in refused)


@pytest.mark.parametrize("error", [NotImplementedError, RuntimeError, AttributeError])
def test_whatever_a_video_decoder_raises(
    clip: Path, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ClipFrames(clip)

    def convert(self: ClipFrames, frame: object) -> None:
        raise error("the decoder's words")

    monkeypatch.setattr(ClipFrames, "convert", convert)
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"clip.mp4: .*the decoder's words"):
        source.read(2)
    monkeypatch.undo()
    assert source.read(2).shape[2] == 3  # the source is as good as new


# ---------------------------------------------------------------- names

NAMES = ["2", "10", "a", "a4", "a11", "x²", "x³", "①", "٣", "½", "1²"]


def test_frames_with_digits_that_are_no_numbers(tmp_path: Path) -> None:
    for name in NAMES:
        Image.fromarray(np.zeros((4, 5, 3), np.uint8)).save(tmp_path / f"{name}.png")
    files = [path.stem for path in FolderFrames(tmp_path)._files]
    assert sorted(files) == sorted(NAMES)
    numbers = ["2", "٣", "10"]  # an Arabic three is a number
    assert [name for name in files if name in numbers] == numbers
    assert files.index("a4") < files.index("a11")


def test_jpeg_files_of_upstream_are_named_by_numbers(tmp_path: Path) -> None:
    for name in ("1", "²"):
        Image.fromarray(np.zeros((4, 5, 3), np.uint8)).save(tmp_path / f"{name}.jpg")
    with pytest.raises(sam_rlx.InvalidArgumentError, match="named by numbers, found"):
        video_frames.jpeg_folder(tmp_path, 8)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RuntimeError, match="expected JPEG files") as caught:
        video_frames.jpeg_folder(tmp_path / "empty", 8)
    assert isinstance(caught.value, sam_rlx.InvalidArgumentError)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b.c ä 狗", "a b.c ä 狗"),
        ("\x1b[31m", r"\x1b[31m"),
        ("a\nb\t\r\0", r"a\nb\t\r\x00"),
        ("\x9b2J", r"\x9b2J"),
        ("\u202etxt", r"\u202etxt"),
        ("\udcff", r"\udcff"),
        ("", ""),
    ],
)
def test_printable(text: str, expected: str) -> None:
    assert printable(text) == expected
    assert printable("\n" + text, keep="\n") == "\n" + printable(text, keep="\n")
    assert str(sam_rlx.CheckpointError(text)) == printable(text, keep="\n")


def test_values_without_a_text() -> None:
    assert shown("a\x1b") == r"'a\x1b'"
    assert shown(10**5000) == "a value of int without a text"


def test_file_names_are_printed_escaped(
    run_cli: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    name = tmp_path / "\x1b[2Ja.png"
    io.write_image(name, np.zeros((40, 50, 3), np.uint8))
    code, out, err = run_cli("segment", name, "--point", "5,5", "--output", tmp_path / "\x1b.png")
    assert (code, err) == (0, "")
    assert r"\x1b[2Ja.png" in out
    assert r"wrote " in out
    name.write_bytes(b"no image")
    code, out2, err = run_cli("segment", name, "--point", "5,5", "--dry")
    assert code == 1
    assert r"\x1b[2Ja.png: expected an image" in err
    assert "\x1b" not in out + out2 + err


def test_tensor_names_are_printed_escaped(
    run_cli: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    path = tmp_path / "a.safetensors"
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    path.write_bytes(safetensors_bytes({"\x1b[2Jevil\n": entry}, bytes(8)))
    for words, expected in ((("info", path), 0), (("convert", path, tmp_path / "b.gguf"), 1)):
        code, out, err = run_cli(*words)
        assert code == expected
        assert "evil" in out + err
        assert "\x1b" not in out + err
