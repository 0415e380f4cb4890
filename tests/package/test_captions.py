"""Captions of any script: a font of the machine, or escaped code points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import ImageFont
from sam_rlx import viz
from sam_rlx._internal.drawing import fonts


def test_ascii_needs_no_font_of_the_machine() -> None:
    assert fonts.fitted("a cat 0.93", 20, ()).text == "a cat 0.93"
    assert fonts.fitted("Münze é", 20, ()).text == "Munze e"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("狗 0.90", "\\u72d7 0.90"),
        ("собака", "\\u0441\\u043e\\u0431\\u0430\\u043a\\u0430"),
        ("Straße", "Stra\\xdfe"),
        ("🐕", "\\U0001f415"),
        ("a\nb\x1b", "a\\nb\\x1b"),
    ],
)
def test_without_a_font_letters_are_code_points(words: str, text: str) -> None:
    assert fonts.fitted(words, 20, ()).text == text
    assert "?" not in text


def test_a_font_is_chosen_by_the_letters_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has = {
        Path("some.ttf"): "\u0441\u043e\u0431",
        Path("more.ttf"): "собака",
        Path("other.ttf"): "狗",
    }
    monkeypatch.setattr(fonts, "_shown", lambda path, letters: letters & set(has[path]))
    monkeypatch.setattr(fonts, "_load", lambda path, size: path)
    monkeypatch.setattr(fonts, "_own", lambda size: "own")

    def runs(words: str) -> list[tuple[str, object]]:
        return [(run.text, run.font) for run in fonts.fitted(words, 20, has).runs]

    more, other = Path("more.ttf"), Path("other.ttf")
    assert runs("собака 1") == [("собака", more), (" 1", "own")]
    assert runs("собака 狗 a") == [("собака", more), (" ", "own"), ("狗", other), (" a", "own")]
    assert runs("a собака собака") == [("a ", "own"), ("собака собака", more)]
    assert runs("狗猫") == [("狗", other), ("\\u732b", "own")]
    assert runs("猫") == [("\\u732b", "own")]


def test_captions_mix_fonts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of a caption is drawn with its own font, on one line."""
    path = tmp_path / "own.ttf"
    path.write_bytes(ImageFont.load_default(20).font_bytes)
    monkeypatch.setattr(fonts, "installed", lambda: (path,))
    image, mask = np.full((80, 300, 3), 90, np.uint8), np.zeros((80, 300), bool)
    mask[40:60, 100:140] = True
    plain = viz.overlay(image, [mask])

    def plate(words: str) -> np.ndarray:
        changed = (viz.overlay(image, [mask], captions=[words]) != plain).any(axis=2)
        return np.argwhere(changed)

    # The ellipsis comes from the file, the letters around it from Pillow's own font.
    whole, letters = plate("ab…cd"), plate("abcd")
    assert np.ptp(whole[:, 1]) > np.ptp(letters[:, 1])
    assert np.ptp(whole[:, 1]) < np.ptp(plate("ab\u72d7cd")[:, 1])
    np.testing.assert_array_equal(np.ptp(whole[:, 0]), np.ptp(letters[:, 0]))


def test_letters_that_a_font_has_are_found(tmp_path: Path) -> None:
    """Pillow's own font as a file: it has ASCII and an ellipsis, and no Cyrillic."""
    path = tmp_path / "own.ttf"
    font = ImageFont.load_default(20)
    path.write_bytes(font.font_bytes)
    assert fonts._shown(path, frozenset("a…ж狗")) == frozenset("a…")
    damaged = tmp_path / "damaged.ttf"
    damaged.write_bytes(b"no font")
    assert fonts._shown(damaged, frozenset("ж")) == frozenset()


def test_captions_of_other_scripts_are_no_question_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fonts, "installed", tuple)
    image, mask = np.full((80, 300, 3), 90, np.uint8), np.zeros((80, 300), bool)
    mask[40:60, 100:140] = True
    dog = viz.overlay(image, [mask], captions=["狗"])
    assert (dog != viz.overlay(image, [mask], captions=["?"])).any()
    assert (dog != viz.overlay(image, [mask], captions=["猫"])).any()
