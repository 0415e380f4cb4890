"""ghost-remover: an object on the first frame is tracked through a clip."""

import numpy as np
import shared
import small


def prepare():
    """Load SAM 2's two predictors."""
    small.sam2()
    shared.link(shared.WORK / "checkpoints" / "sam2.1_hiera_tiny.pt", small.SAM2)
    from core.tracker_sam3 import SAMTracker

    tracker = SAMTracker(model_size="tiny", device="cpu")
    tracker.load_model()
    return tracker


def work(tracker):
    """Segment by a box and by points, and track."""
    clip = shared.frames("clip")
    boxed = tracker.segment_first_frame(shared.discs(), box=(98, 55, 152, 109))
    clicked = tracker.segment_first_frame(shared.discs(), points=[(50, 60)])
    masks = tracker.propagate_masks(clip, clicked)
    wider = [tracker.dilate_mask(mask) for mask in masks]
    return {"first": np.array([boxed, clicked]), "masks": np.array(masks), "wider": np.array(wider)}


shared.run(prepare, work)
