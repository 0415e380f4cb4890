"""What a notebook shows of results: images, short texts, bars."""

from __future__ import annotations

import importlib
import io
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import _core, viz
from sam_rlx._internal import progress
from sam_rlx.concept import ConceptPrediction
from sam_rlx.image import MaskPrediction
from sam_rlx.video import VideoFrame


def _disc(x: float, y: float = 40, hw: tuple[int, int] = (80, 120)) -> np.ndarray:
    rows, columns = np.ogrid[: hw[0], : hw[1]]
    return (columns - x) ** 2 + (rows - y) ** 2 < 15**2


def _prediction(*masks: np.ndarray) -> MaskPrediction:
    scores = np.linspace(0.9, 0.5, len(masks), dtype=np.float32)
    return MaskPrediction(np.stack(masks), scores, np.zeros((len(masks), 4, 4), np.float32))


def _pixels(result: Any) -> np.ndarray:
    data = result._repr_png_()
    assert data.startswith(b"\x89PNG")
    return np.asarray(Image.open(io.BytesIO(data)))


def _is_near(pixel: np.ndarray, identity: int) -> bool:
    """Whether a pixel is half the colour of an object, half the dark ground."""
    expected = (np.asarray(viz.color(identity)) + np.array([46, 46, 50])) / 2
    return bool(np.abs(pixel - expected).max() <= 1)


def test_a_prediction_shows_its_candidates_beside_each_other() -> None:
    result = _prediction(_disc(30), _disc(60), _disc(90))
    shown = _pixels(result)
    assert shown.shape == (80, 3 * 120 + 2 * 6, 3)
    assert [_is_near(shown[40, 126 * k + 30 + 30 * k], k) for k in range(3)] == [True] * 3
    assert repr(result) == "<MaskPrediction 3 masks of 80 x 120, predicted IoU 0.90 0.70 0.50>"


def test_a_batch_shows_the_best_of_each_set() -> None:
    masks = np.stack([_prediction(_disc(30), _disc(60)).masks] * 5)
    scores = np.tile(np.float32([0.25, 0.75]), (5, 1))
    result = MaskPrediction(masks, scores, np.zeros((5, 2, 4, 4), np.float32))
    shown = _pixels(result)
    assert shown.shape == (2 * 80 + 6, 3 * 120 + 2 * 6, 3)
    assert _is_near(shown[86 + 40, 126 + 60], 4)
    assert len(repr(result)) < 100
    assert repr(result).startswith("<MaskPrediction 5 x 2 masks of 80 x 120")


def test_large_results_are_small_images() -> None:
    logits = np.where(_disc(2000, 900, (1500, 2250)), 3.0, -3.0).astype(np.float32)
    shown = _pixels(_prediction(logits))
    assert max(shown.shape[:2]) <= 480
    assert len(_prediction(logits)._repr_png_() or b"") < 20_000


def test_records_concepts_and_frames_show_themselves() -> None:
    mask = _disc(60)
    fields = {
        "counts": _core.rle_encode(mask),
        "size": mask.shape,
        "area": int(mask.sum()),
        "bbox": [0, 0, 1, 1],
        "predicted_iou": 0.9,
        "point_coords": [[1.0, 1.0]],
        "stability_score": 0.9,
        "crop_box": [0, 0, 120, 80],
    }
    assert _is_near(_pixels(sam_rlx.MaskRecord(fields))[50, 60], 0)
    masks = np.stack([_disc(30), _disc(90)])
    found = ConceptPrediction(
        masks,
        np.zeros((2, 4), np.float32),
        np.float32([0.9, 0.8]),
        np.array([0, 1]),
        ("red cup", (1, 2)),
        np.zeros((2, 4, 4), np.float32),
    )
    assert _is_near(_pixels(found)[50, 90], 1)
    assert repr(found) == "<ConceptPrediction 2 masks of 80 x 120: 1 'red cup', 1 (1, 2)>"
    frame = VideoFrame(7, {"cat": masks[0], 2: masks[1]}, {"cat": 3.25, 2: -1.0})
    assert _is_near(_pixels(frame)[50, 90], 1)
    assert repr(frame) == "<VideoFrame 7, 2 masks, scores: 'cat' 3.25, 2 -1.00>"
    assert VideoFrame(0, {}, {})._repr_png_() is None


def test_without_pillow_the_text_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIL", "PIL.Image", "PIL.ImageDraw"):
        monkeypatch.setitem(sys.modules, name, None)
    assert _prediction(_disc(30))._repr_png_() is None


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process look like the kernel of a notebook."""
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))


def test_bars_of_a_notebook(monkeypatch: pytest.MonkeyPatch, model: sam_rlx.Model) -> None:
    """A widget with what is done, though standard error is no terminal."""
    pytest.importorskip("ipywidgets", reason="bars are widgets")
    module = importlib.import_module("tqdm.notebook")
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    monkeypatch.setattr(module, "display", lambda widget: None)
    bars: list[Any] = []

    class Bar(module.tqdm):  # type: ignore[misc, name-defined]
        def close(self) -> None:
            self.refresh()
            _, bar, _ = self.container.children
            bars.append((bar.value, bar.max, self.n, self.total))
            super().close()

    monkeypatch.setattr(module, "tqdm", Bar)
    image = np.zeros((40, 60, 3), np.uint8)
    sam_rlx.MaskGenerator(model, points_per_side=4).generate(image, progress=True)
    assert bars == [(16, 16, 16, 16)]


@pytest.mark.usefixtures("notebook")
def test_a_notebook_without_widgets_gets_text(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "ipywidgets" else find(name)
    )
    text = io.StringIO()
    monkeypatch.setattr(sys, "stderr", text)
    assert progress.in_notebook()
    with progress.reporter(True, "frame") as report:
        report(2, 4)
    assert "0 frame" in text.getvalue()


def test_scripts_have_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not progress.in_notebook()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.reporter(True, "frame") as report:
        assert report is None
