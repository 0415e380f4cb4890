"""Masks in image files: labels are read as labels, or refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import io

Y, X = np.mgrid[:48, :64]
DISC = (X - 30) ** 2 + (Y - 22) ** 2 < 196
PHOTO = np.stack([4 * X, 5 * Y, 2 * (X + Y)], axis=2).astype(np.uint8)
SECOND = (X - 55) ** 2 + (Y - 8) ** 2 < 20


def palette(labels: np.ndarray, *colours: tuple[int, int, int]) -> Image.Image:
    image = Image.fromarray(labels.astype(np.uint8))
    image.putpalette([value for colour in colours for value in colour])
    return image


def cut_out(mode: str = "RGBA") -> Image.Image:
    image = Image.fromarray(PHOTO).convert(mode)
    image.putalpha(Image.fromarray(DISC.astype(np.uint8) * 255))
    return image


ONE_OBJECT: dict[str, tuple[str, Any]] = {
    "bits": ("png", Image.fromarray(DISC)),
    "white": ("png", DISC * np.uint8(255)),
    "label 1": ("png", DISC * np.uint8(1)),
    "label 1 of 16 bits": ("png", DISC * np.uint16(1)),
    "label 300": ("png", DISC * np.uint16(300)),
    "label 256": ("tif", DISC * np.uint16(256)),
    "label 70000": ("tif", DISC * np.int32(70_000)),
    "label 65536": ("tif", DISC * np.int32(65_536)),
    "float": ("tif", DISC * np.float32(0.25)),
    "colour": ("png", DISC[:, :, None] * np.array([0, 0, 9], np.uint8)),
    "palette": ("png", palette(DISC, (0, 0, 0), (200, 30, 30))),
    "palette, dark": ("png", palette(3 * DISC, (0, 0, 0), (9, 9, 9), (8, 8, 8), (1, 0, 0))),
    "palette, two blacks": ("png", palette(DISC, (0, 0, 0), (0, 0, 0))),
    "palette, white paper": ("png", palette(DISC, (255, 255, 255), (200, 30, 30))),
    "cut-out": ("png", cut_out()),
    "grey cut-out": ("png", cut_out("LA")),
    "cut-out, WebP": ("webp", cut_out()),
    "bitmap": ("bmp", DISC * np.uint8(255)),
}


def written(kind: str, image: Any, folder: Path, **options: Any) -> Path:
    path = folder / f"mask.{kind}"
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    image.save(path, **options)
    return path


@pytest.mark.parametrize("name", ONE_OBJECT)
def test_the_drawn_object_is_read(name: str, tmp_path: Path) -> None:
    kind, image = ONE_OBJECT[name]
    found = io.read_mask(written(kind, image, tmp_path))
    assert found.dtype == np.bool_
    np.testing.assert_array_equal(found, DISC)


@pytest.mark.parametrize("kind", ["jpg", "webp", "jp2"])
def test_black_and_white_in_a_lossy_file(kind: str, tmp_path: Path) -> None:
    options = {"irreversible": True} if kind == "jp2" else {"quality": 85}
    found = io.read_mask(written(kind, DISC * np.uint8(255), tmp_path, **options))
    edge = DISC ^ np.roll(DISC, 1, 0) | DISC ^ np.roll(DISC, 1, 1)
    edge |= np.roll(edge, -1, 0) | np.roll(edge, -1, 1)
    np.testing.assert_array_equal(found[~edge], DISC[~edge])


TWO = DISC * np.uint8(1)
TWO[SECOND] = 2
REFUSED: dict[str, tuple[str, Any, str]] = {
    "two labels": ("png", TWO, "found 2 labels: 1, 2"),
    "two labels of 16 bits": ("png", TWO.astype(np.uint16) * 300, "found 2 labels: 300, 600"),
    "soft edges": ("png", np.clip(X * 9, 0, 255).astype(np.uint8), "threshold= cuts a soft mask"),
    "a photograph": ("png", PHOTO, "labels: "),
    "labels in a lossy file": ("jpg", TWO, "such files change labels"),
    "one label in a lossy file": ("jpg", DISC * np.uint8(1), "such files change labels"),
    "a photograph in a lossy file": ("jpg", PHOTO, "such files change labels"),
    "two colours": ("png", np.stack([TWO, TWO, 0 * TWO], axis=2), r"\(1, 1, 0\), \(2, 2, 0\)"),
    "black is index 1": ("png", palette(DISC, (255, 0, 0), (0, 0, 0)), "index 0 is not black"),
    "nothing opaque": ("png", Image.new("RGBA", (9, 9), (9, 9, 9, 0)), "nothing opaque"),
    "not finite": ("tif", np.where(DISC, np.nan, 0).astype(np.float32), "NaN or infinity"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_one_object_is_refused(name: str, tmp_path: Path) -> None:
    kind, image, text = REFUSED[name]
    with pytest.raises(sam_rlx.InvalidArgumentError, match=text) as caught:
        io.read_mask(written(kind, image, tmp_path))
    assert f"mask.{kind}: mask: expected" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_drawing_and_a_cut_out_that_differ(tmp_path: Path) -> None:
    drawing = np.zeros((48, 64, 4), np.uint8)
    drawing[SECOND, :3] = 255
    drawing[DISC, 3] = 255
    with pytest.raises(sam_rlx.InvalidArgumentError, match="another one in the alpha channel"):
        io.read_mask(written("png", drawing, tmp_path))
    drawing[..., :3] = np.where(DISC, 255, 0)[:, :, None]
    np.testing.assert_array_equal(io.read_mask(written("png", drawing, tmp_path)), DISC)


def test_a_label_is_chosen(tmp_path: Path) -> None:
    path = written("png", TWO, tmp_path)
    np.testing.assert_array_equal(io.read_mask(path, label=2), SECOND)
    np.testing.assert_array_equal(io.read_mask(path, label=1), DISC & ~SECOND)
    assert not io.read_mask(path, label=7).any()
    coloured = written("png", np.stack([TWO * 9, TWO * 0, TWO], axis=2), tmp_path)
    np.testing.assert_array_equal(io.read_mask(coloured, label=(18, 0, 2)), SECOND)
    for wrong in (2, (1, 2), "red", 1.5):
        with pytest.raises(sam_rlx.InvalidArgumentError, match="label: expected"):
            io.read_mask(coloured, label=wrong)  # type: ignore[arg-type]
    with pytest.raises(sam_rlx.InvalidArgumentError, match="without threshold"):
        io.read_mask(path, label=1, threshold=1)


def test_a_soft_mask_is_cut(tmp_path: Path) -> None:
    soft = np.clip(X * 4, 0, 255).astype(np.uint8)
    path = written("png", soft, tmp_path)
    np.testing.assert_array_equal(io.read_mask(path, threshold=128), soft >= 128)


def test_masks_that_io_writes_are_read_again(tmp_path: Path) -> None:
    for path, mask in ((tmp_path / "a.png", DISC), (tmp_path / "b.png", DISC & ~DISC)):
        io.write_image(path, mask)
        np.testing.assert_array_equal(io.read_mask(path), mask)


def test_a_mask_is_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    path = written("png", DISC * np.uint8(255), tmp_path, exif=exif)
    np.testing.assert_array_equal(io.read_mask(path), np.rot90(DISC, -1))


def test_the_command_line_reads_labels(
    run_cli: Callable[..., tuple[int, str, str]],
    sam2_checkpoint: Path,
    clip: Path,
    frames: np.ndarray,
    tmp_path: Path,
) -> None:
    labels = np.zeros(frames.shape[1:3], np.uint16)
    labels[10:26, 10:27] = 1
    words = ["track", clip, "--model", sam2_checkpoint, "--max-frames", "1", "--json", "-"]
    outputs = []
    for number, image in enumerate((labels, labels.astype(np.uint8) * np.uint8(255))):
        height, width = (side + side % 2 for side in image.shape)
        image = np.pad(image, ((0, height - image.shape[0]), (0, width - image.shape[1])))
        path = tmp_path / f"{number}.png"
        Image.fromarray(image).save(path)
        code, out, err = run_cli(*words, "--mask", path)
        assert code == 0, err
        outputs.append(out)
    assert outputs[0] == outputs[1]
    Image.fromarray(np.pad(TWO, 9)).save(tmp_path / "two.png")
    code, _, err = run_cli(*words, "--mask", tmp_path / "two.png")
    assert code == 2
    assert "found 2 labels: 1, 2" in err
