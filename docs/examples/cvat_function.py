"""Clicks and boxes in CVAT: an interaction function for ``cvat-cli function create-native``."""

import cvat_sdk.auto_annotation as cvataa
import sam_rlx
from cvat_sdk.masks import encode_mask

spec = cvataa.InteractionFunctionSpec(min_pos_points=0, min_neg_points=0, min_bounding_boxes=0)
_model = sam_rlx.load_model("sam-nano")


def preprocess_image(context, image):
    """Encode an image once for all clicks on it."""
    predictor = sam_rlx.ImagePredictor(_model)
    predictor.set_image(image)  # not convert("RGB"), which makes 16 bits white
    return predictor


def detect(context, pp_image, prompts):
    """Return the mask of points and a box."""
    points, box = [*prompts.pos_points, *prompts.neg_points], prompts.bounding_box
    labels = [1] * len(prompts.pos_points) + [0] * len(prompts.neg_points)
    found = pp_image.predict(
        point_coords=points or None,
        point_labels=labels or None,
        box=None if box is None else [*box[0], *box[1]],
        multimask_output=False,
    )
    mask = found.masks[0]
    return [cvataa.InteractionResultShape(type="mask", points=encode_mask(mask))] * bool(mask.any())
