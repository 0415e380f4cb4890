"""Every common form of an image gives the same pixels; anything else is refused."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import io
from sam_rlx._internal.arrays.images import as_rgb


def _forms(rgb: np.ndarray) -> dict[str, object]:
    alpha = np.full((*rgb.shape[:2], 1), 128, np.uint8)
    wide = np.zeros((*rgb.shape[:2], 6), np.uint8)
    wide[:, :, ::2] = rgb
    read_only = rgb.copy()
    read_only.flags.writeable = False
    return {
        "uint8": rgb,
        "float32": rgb.astype(np.float32) / np.float32(255),
        "float64": rgb / 255.0,
        "float16": (rgb / 255.0).astype(np.float16),
        "uint16": rgb.astype(np.uint16) * np.uint16(257),
        "big-endian uint16": (rgb.astype(np.uint16) * np.uint16(257)).astype(">u2"),
        "channels first": np.ascontiguousarray(rgb.transpose(2, 0, 1)),
        "channels first, strided": rgb.transpose(2, 0, 1),
        "RGBA": np.concatenate([rgb, alpha], axis=2),
        "RGBA float": np.concatenate([rgb, alpha], axis=2) / 255.0,
        "RGBA channels first": np.concatenate([rgb, alpha], axis=2).transpose(2, 0, 1),
        "Fortran order": np.asfortranarray(rgb),
        "gaps": wide[:, :, ::2],
        "reversed twice": rgb[::-1][::-1],
        "read-only": read_only,
        "PIL RGB": Image.fromarray(rgb),
        "PIL RGBA": Image.fromarray(np.concatenate([rgb, alpha], axis=2)),
    }


def test_every_form_of_a_colour_image_gives_the_same_pixels(image: np.ndarray) -> None:
    for name, form in _forms(image).items():
        pixels = as_rgb(form)
        assert pixels.dtype == np.uint8, name
        assert pixels.flags.c_contiguous, name
        np.testing.assert_array_equal(pixels, image, err_msg=name)


def test_every_form_gives_the_same_masks(model: sam_rlx.Model, image: np.ndarray) -> None:
    small = np.ascontiguousarray(image[:90, :120])
    predictor = sam_rlx.ImagePredictor(model)
    found = {}
    for name, form in _forms(small).items():
        predictor.set_image(form)
        prediction = predictor.predict(point_coords=[[60, 40]], point_labels=[1])
        found[name] = prediction.low_res_masks.tobytes() + prediction.masks.tobytes()
    assert len(set(found.values())) == 1


def test_every_form_of_a_grey_image_gives_the_same_pixels(image: np.ndarray) -> None:
    grey = np.ascontiguousarray(image[:, :, 1])
    expected = np.stack([grey] * 3, axis=2)
    forms = {
        "(H, W)": grey,
        "(H, W, 1)": grey[:, :, None],
        "(1, H, W)": grey[None],
        "uint16": grey.astype(np.uint16) * np.uint16(257),
        "float": grey / 255.0,
        "PIL L": Image.fromarray(grey),
        "PIL I;16": Image.fromarray(grey.astype(np.uint16) * np.uint16(257)),
        "PIL I": Image.fromarray(grey.astype(np.int32) * 257),
        "PIL F": Image.fromarray((grey / 255.0).astype(np.float32)),
        "PIL LA": Image.merge("LA", [Image.fromarray(grey), Image.fromarray(grey)]),
    }
    for name, form in forms.items():
        np.testing.assert_array_equal(as_rgb(form), expected, err_msg=name)


def test_an_array_of_another_library_is_taken(image: np.ndarray) -> None:
    class Foreign:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return image

    np.testing.assert_array_equal(as_rgb(Foreign()), image)


def test_channels_last_wins_when_both_orders_fit() -> None:
    pixels = np.arange(3 * 5 * 4, dtype=np.uint8).reshape(3, 5, 4)
    np.testing.assert_array_equal(as_rgb(pixels), pixels[:, :, :3])


@pytest.mark.parametrize(
    ("image", "found"),
    [
        (None, "NoneType"),
        ("cup.png", "str"),
        ([[1, 2], [3, 4]], "list"),
        (np.zeros((4, 5, 3), np.int64), "int64"),
        (np.zeros((4, 5, 3), np.bool_), "bool"),
        (np.zeros((4, 5, 3), np.complex64), "complex64"),
        (np.zeros((4, 5, 3), np.uint32), "uint32"),
        (np.zeros((5, 6, 2), np.uint8), "(5, 6, 2)"),
        (np.zeros((7,), np.uint8), "(7,)"),
        (np.zeros((1, 4, 5, 3), np.uint8), "(1, 4, 5, 3)"),
        (np.zeros((0, 5, 3), np.uint8), "(0, 5, 3)"),
        (np.full((4, 5, 3), 1.5), "1.5"),
        (np.full((4, 5, 3), -0.5), "-0.5"),
        (np.full((4, 5, 3), np.nan), "NaN"),
        (Image.fromarray(np.full((4, 5), 70000, np.int32)), "70000"),
    ],
)
def test_anything_else_is_refused(image: object, found: str) -> None:
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"image: expected .*found") as error:
        as_rgb(image)
    assert found in str(error.value)


def test_files_of_all_kinds_are_read_upright(image_files: dict[str, Path]) -> None:
    rgb = io.read_image(image_files["rgb"])
    assert rgb.shape == (300, 451, 3)
    assert io.read_image(image_files["rotated"]).shape == (451, 300, 3)
    grey = io.read_image(image_files["grey"])
    np.testing.assert_array_equal(io.read_image(image_files["sixteen_bit"]), grey)
    for name, path in image_files.items():
        pixels = io.read_image(path)
        assert pixels.dtype == np.uint8, name
        assert pixels.shape[2] == 3, name


def test_a_file_that_is_no_image_is_refused(tmp_path: Path, image_files: dict[str, Path]) -> None:
    text = tmp_path / "text.png"
    text.write_text("no image")
    short = tmp_path / "short.png"
    short.write_bytes(image_files["rgb"].read_bytes()[:3000])
    for path in (text, short):
        with pytest.raises(sam_rlx.InvalidArgumentError, match=r"expected an image"):
            io.read_image(path)
    with pytest.raises(FileNotFoundError):
        io.read_image(tmp_path / "absent.png")


def test_an_array_is_taken_while_another_thread_imports_pillow(
    image: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module is there then, without its classes."""
    monkeypatch.setitem(sys.modules, "PIL.Image", types.ModuleType("PIL.Image"))
    np.testing.assert_array_equal(as_rgb(image), image)
