"""Everything mode beside upstream's `SamAutomaticMaskGenerator`."""

import numpy as np
import pytest
import sam_rlx
from support import tiny
from support.cases import quick
from support.trained import trained

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity

SEED = 1
OPTIONS = {
    "all": {"box_nms_thresh": 1.0, "stability_score_thresh": 0.0},
    "suppressed": {"box_nms_thresh": 0.7, "stability_score_thresh": 0.0},
    "stable": {"stability_score_thresh": 0.6, "stability_score_offset": 0.2},
    "confident": {"pred_iou_thresh": 0.5, "stability_score_thresh": 0.0, "box_nms_thresh": 0.9},
    "crops": {
        "crop_n_layers": 1,
        "crop_n_points_downscale_factor": 2,
        "stability_score_thresh": 0.6,
        "stability_score_offset": 0.2,
    },
    "overlap": {
        "crop_n_layers": 1,
        "crop_overlap_ratio": 0.6,
        "crop_nms_thresh": 0.5,
        "stability_score_thresh": 0.5,
        "stability_score_offset": 0.2,
    },
    "small regions": {
        "stability_score_thresh": 0.6,
        "stability_score_offset": 0.2,
        "min_mask_region_area": 300,
    },
    "own grid": {
        "points_per_side": None,
        "point_grids": [np.array([[0.5, 0.5], [0.1, 0.9], [0.31, 0.27]])],
        "stability_score_thresh": 0.0,
        "box_nms_thresh": 1.0,
    },
    "odd batch": {"points_per_batch": 7, "stability_score_thresh": 0.0, "box_nms_thresh": 1.0},
}
DEFAULTS = {"points_per_side": 5, "pred_iou_thresh": 0.0}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("vivid") / "sam.safetensors"
    return sam_rlx.load_model(tiny.save_safetensors(path, tiny.vivid_weights(seed=SEED)))


@pytest.fixture(scope="module")
def reference():
    network = upstream.build_sam(tiny.TINY, seed=None)
    upstream.load_state_dict(network, tiny.vivid_weights(seed=SEED))
    return network


def order(record):
    return (*record["crop_box"], *record["point_coords"][0], record["predicted_iou"])


def overlap(a, b):
    union = np.sum(a | b)
    return np.sum(a & b) / union if union else 1.0


def compare(ours, theirs):
    assert len(ours) == len(theirs)
    for mine, other in zip(sorted(ours, key=order), sorted(theirs, key=order), strict=True):
        mask = mine["segmentation"]
        assert mine["point_coords"][0] == pytest.approx(other["point_coords"][0], abs=1e-9)
        assert list(mine["crop_box"]) == list(other["crop_box"])
        assert mine["predicted_iou"] == pytest.approx(other["predicted_iou"], abs=1e-4)
        assert mine["stability_score"] == pytest.approx(
            other["stability_score"], abs=2e-3, nan_ok=True
        )
        # A pixel whose logit is nearly 0 may fall either way.
        assert np.sum(mask != other["segmentation"]) <= 2 + 1e-3 * other["area"]
        assert mine["area"] == np.sum(mask)
        if mine["area"] == other["area"]:
            assert list(mine["bbox"]) == list(other["bbox"])


CASES = [*((name, "tall 451x300") for name in OPTIONS), *((n, "wide 400x600") for n in OPTIONS)]


@pytest.mark.parametrize(("name", "image"), quick(CASES, *range(len(OPTIONS)), len(OPTIONS) + 4))
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_generate(model, reference, images, name, image):
    options = {**DEFAULTS, **OPTIONS[name]}
    if "min_mask_region_area" in options:
        pytest.importorskip("cv2", reason="upstream's small regions need OpenCV")
    with upstream.stable_nms():
        theirs = upstream.sam.SamAutomaticMaskGenerator(reference, **options).generate(
            images[image]
        )
    assert theirs, "the reference finds nothing: the case proves nothing"
    compare(sam_rlx.MaskGenerator(model, **options).generate(images[image]), theirs)


def test_masks_of_the_reference_vary(reference, images):
    with upstream.stable_nms():
        generator = upstream.sam.SamAutomaticMaskGenerator(
            reference, **DEFAULTS, **OPTIONS["suppressed"]
        )
        records = generator.generate(images["wide 400x600"])
    assert len({tuple(record["bbox"]) for record in records}) > 5


@pytest.mark.parametrize("image", quick(["wide 400x600", "tall 451x300"], 0))
def test_trained_weights_give_the_same_records_in_the_same_order(images, image):
    options = {"points_per_side": 8, "pred_iou_thresh": 0.5, "stability_score_thresh": 0.75}
    with upstream.stable_nms():
        theirs = upstream.sam.SamAutomaticMaskGenerator(
            upstream.build_sam_nano(), **options
        ).generate(images[image])
    ours = sam_rlx.MaskGenerator(sam_rlx.load_model(trained("sam-nano")), **options).generate(
        images[image]
    )
    assert len(theirs) >= 3, "the reference finds too little: the case proves nothing"
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert list(mine["point_coords"][0]) == list(other["point_coords"][0])
        assert mine["predicted_iou"] == pytest.approx(other["predicted_iou"], abs=1e-3)
        assert mine["stability_score"] == pytest.approx(other["stability_score"], abs=1e-3)
        assert overlap(mine["segmentation"], other["segmentation"]) >= 0.999


@pytest.mark.parametrize("num_threads", [2, 3])
def test_thread_count_changes_nothing(model, images, num_threads):
    def run(threads):
        options = {**DEFAULTS, **OPTIONS["suppressed"]}
        generator = sam_rlx.MaskGenerator(model, **options, num_threads=threads)
        return generator.generate(images["odd 303x384"])

    for one, many in zip(run(1), run(num_threads), strict=True):
        assert np.array_equal(one["segmentation"], many["segmentation"])
        assert one["predicted_iou"] == many["predicted_iou"]
        assert one["bbox"] == many["bbox"]


def test_output_modes_hold_the_same_masks(model, images):
    image, options = images["tall 451x300"], {**DEFAULTS, **OPTIONS["suppressed"]}
    modes = ("binary_mask", "uncompressed_rle", "coco_rle")
    binary, plain, coco = (
        sam_rlx.MaskGenerator(model, **options, output_mode=mode).generate(image) for mode in modes
    )
    for mask, runs, text in zip(binary, plain, coco, strict=True):
        rle = runs["segmentation"]
        assert np.array_equal(upstream.sam.amg.rle_to_mask(rle), mask["segmentation"])
        assert sum(rle["counts"][1::2]) == mask["area"]
        assert isinstance(text["segmentation"]["counts"], str)
        assert text["segmentation"]["size"] == list(image.shape[:2])
