"""`sam_rlx.compat.sam2` beside upstream's classes: names, shapes, types and results."""

import numpy as np
import pytest
import sam_rlx
from sam_rlx.compat.sam2.automatic_mask_generator import SAM2AutomaticMaskGenerator
from sam_rlx.compat.sam2.build_sam import build_sam2
from sam_rlx.compat.sam2.sam2_image_predictor import SAM2ImagePredictor
from support import tiny_sam2

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam2 = pytest.importorskip("support.upstream_sam2")
upstream_video = pytest.importorskip("support.upstream_video")
pytestmark = pytest.mark.parity

SEED = 5
POINTS = np.array([[[50.0, 40.0], [20.0, 90.0]], [[200.0, 100.0], [3.0, 4.0]]])
LABELS = np.array([[1, 0], [1, 1]])
BOXES = np.array([[10.0, 20.0, 90.0, 80.0], [100.0, 50.0, 250.0, 260.0]])
CASES = {
    "point": {"point_coords": POINTS[0, :1], "point_labels": LABELS[0, :1]},
    "points of two sets": {"point_coords": POINTS, "point_labels": LABELS},
    "box": {"box": BOXES[0]},
    "boxes": {"box": BOXES, "multimask_output": False},
    "boxes and points": {"box": BOXES, "point_coords": POINTS, "point_labels": LABELS},
    "logits": {"box": BOXES[1], "return_logits": True},
    "relative": {
        "point_coords": np.array([[0.25, 0.75]]),
        "point_labels": np.array([1]),
        "normalize_coords": False,
    },
    "mask": {"mask_input": 4 * np.random.default_rng(1).standard_normal((1, 32, 32), np.float32)},
}


@pytest.fixture(scope="module")
def weights():
    return tiny_sam2.weights(tiny_sam2.TINY, SEED)


@pytest.fixture(scope="module")
def model(weights, tmp_path_factory):
    path = tmp_path_factory.mktemp("sam2") / "tiny.safetensors"
    tiny_sam2.save_safetensors(path, tiny_sam2.TINY, weights)
    return build_sam2(None, path)


@pytest.fixture(scope="module")
def network(weights):
    return upstream_sam2.build_sam2(tiny_sam2.TINY, weights)


def predicted(predictor, image, options):
    predictor.set_image(image)
    return predictor.predict(**options)


@pytest.mark.parametrize("case", CASES)
def test_predict(parity, model, network, images, case):
    mine, other = SAM2ImagePredictor(model), upstream_sam2.image_predictor(network)
    image, options = images["odd 303x384"], CASES[case]
    ours, theirs = (predicted(predictor, image, options) for predictor in (mine, other))
    logits = {**options, "return_logits": True}
    single = predicted(other, image, logits)
    with upstream.float64():
        double = upstream_sam2.image_predictor(upstream.double(network))
        exact = predicted(double, image, logits)
    for a, b in zip(ours, theirs, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
    parity.masks_agree(ours[0] > 0, exact[0])
    if "return_logits" in options:
        parity.close(ours[0], exact[0], single[0], "logits")
    parity.close(ours[1], exact[1], single[1], "iou_predictions")
    parity.close(ours[2], exact[2], single[2], "low_res_masks")
    assert mine.get_image_embedding().shape == tuple(other.get_image_embedding().shape)


@pytest.mark.parametrize("areas", [(6.0, 0.0), (0.0, 9.0), (3.5, 40.0)])
def test_small_regions(model, network, images, areas, monkeypatch):
    """Upstream's rule with components from SciPy: its own come from a CUDA kernel."""
    import sam2.utils.misc

    monkeypatch.setattr(sam2.utils.misc, "get_connected_components", upstream_video.components)
    names = dict(zip(("max_hole_area", "max_sprinkle_area"), areas, strict=True))
    options = {**CASES["boxes and points"], "return_logits": True}
    found = []
    for predictor in (
        SAM2ImagePredictor(model, **names),
        upstream_sam2.image_predictor(network, **names),
        SAM2ImagePredictor(model),
    ):
        predictor.set_image(images["odd 303x384"])
        found.append(predictor.predict(**options))
    # A logit next to the threshold may belong to another component after rounding.
    assert np.mean(np.abs(found[0][0] - found[1][0]) > 1e-4) < 1e-3
    np.testing.assert_array_equal(found[0][2], found[2][2])  # test_predict holds them
    assert np.mean(np.abs(found[0][0] - found[2][0]) > 1) > 1e-3


def test_batch_of_images(model, network, images):
    mine, other = SAM2ImagePredictor(model), upstream_sam2.image_predictor(network)
    batch = [images["odd 303x384"], images["wide 400x600"]]
    results = []
    for predictor in (mine, other):
        predictor.set_image_batch(batch)
        results.append(predictor.predict_batch(box_batch=[BOXES[0], BOXES[1]]))
    for ours, theirs in zip(*results, strict=True):
        assert isinstance(ours, list)
        for a, b in zip(ours, theirs, strict=True):
            assert a.shape == b.shape
            assert a.dtype == b.dtype


@pytest.mark.parametrize("more", [{}, {"min_mask_region_area": 25}, {"use_m2m": True}])
def test_automatic_masks(model, network, images, more, monkeypatch):
    import sam2.utils.misc

    monkeypatch.setattr(sam2.utils.misc, "get_connected_components", upstream_video.components)
    options = {"points_per_side": 3, "pred_iou_thresh": 0.0, "stability_score_thresh": 0.0, **more}
    with upstream.stable_nms():
        theirs = upstream_sam2.mask_generator(network, **options).generate(images["odd 303x384"])
    ours = SAM2AutomaticMaskGenerator(model, **options).generate(images["odd 303x384"])
    assert len(ours) == len(theirs) > 0
    assert set(ours[0]) == set(theirs[0])
    for key in ours[0]:
        assert type(ours[0][key]) is type(theirs[0][key]), key
    assert type(ours[0]["bbox"][0]) is type(theirs[0]["bbox"][0])


def test_errors(model, images):
    predictor = SAM2ImagePredictor(model)
    with pytest.raises(RuntimeError, match="expected an image from set_image"):
        predictor.predict(box=BOXES[0])
    with pytest.raises(AssertionError, match="from set_image_batch"):
        predictor.predict_batch()
    with pytest.raises(NotImplementedError):
        predictor.set_image("image.jpg")
    predictor.set_image(images["odd 303x384"])
    with pytest.raises(AssertionError, match="point_labels"):
        predictor.predict(point_coords=POINTS[0])
    with pytest.raises(sam_rlx.UnsupportedError, match="found 'cuda'"):
        build_sam2(None, "sam-nano", device="cuda")
    with pytest.raises(sam_rlx.UnsupportedError, match="expected family sam2, found sam"):
        build_sam2(None, "sam-nano")
    with pytest.raises(sam_rlx.CheckpointError, match=r"expected hiera_t of SAM 2\.1.*found tiny"):
        build_sam2("configs/sam2.1/sam2.1_hiera_t.yaml", model.model.source)
