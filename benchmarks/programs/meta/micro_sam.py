"""micro-sam: embeddings, inference for many prompts, and its own everything mode."""

import sys

import numpy as np
import shared
import small

sys.modules["mobile_sam"] = None  # it prefers that package, which may be installed for tests


def prepare():
    """Load a predictor from a file, by an empty network and its state dict."""
    small.sam("vit_b")
    from micro_sam import inference, util
    from micro_sam.models import build_sam

    # It tells models by their width, and that of the small one is no release's.
    build_sam._validate_model_type = lambda _state: "vit_b"
    weights = str(shared.WEIGHTS / small.SAM)
    predictor = util.get_sam_model("vit_b", device="cpu", checkpoint_path=weights)
    # It writes down the side of the releases' input.
    inference.ResizeLongestSide = lambda _side: predictor.transform
    return predictor


def work(predictor):
    """Segment an image by points, boxes and a grid."""
    from micro_sam import inference, instance_segmentation, util

    image = shared.photo("coins")
    embeddings = util.precompute_image_embeddings(predictor, image, ndim=2, verbose=False)
    util.set_precomputed(predictor, embeddings)
    points = np.array([[[60.0, 100.0]], [[150.0, 40.0]], [[200.0, 130.0]]])
    labels = np.ones((3, 1), int)
    clicked = inference.batched_inference(predictor, None, 2, points=points, point_labels=labels)
    boxes = np.array([[40.0, 80, 90, 130], [130, 20, 180, 70]])
    boxed = inference.batched_inference(predictor, None, 2, boxes=boxes)
    every = instance_segmentation.AutomaticMaskGenerator(predictor, points_per_side=8)
    every.initialize(image, image_embeddings=embeddings)
    found = every.generate(pred_iou_thresh=0.6, stability_score_thresh=0.8)
    return {
        "clicked": _planes(clicked),
        "boxed": _planes(boxed),
        "everything": _planes(found),
        "embedding": embeddings["features"],
    }


def _planes(found):
    """Return the masks of records, or of a segmentation by numbers."""
    if isinstance(found, np.ndarray):
        return np.array([found == number for number in np.unique(found)[1:]])
    return shared.unordered(record["segmentation"] for record in found)


shared.run(prepare, work)
