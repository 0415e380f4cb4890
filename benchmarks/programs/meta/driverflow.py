"""driverflow: masks of boxes, then clicks on some of them."""

import threading
from types import SimpleNamespace

import numpy as np
import shared
import small


def prepare():
    """Load SAM 2 where the program has put its weights."""
    small.sam2()
    import driverflow
    from driverflow import setup

    setup.SAM2_WEIGHTS = str(shared.WEIGHTS / small.SAM2)
    pipeline = driverflow.Pipeline()
    pipeline._load_sam()
    return pipeline


def work(pipeline):
    """Segment boxes as a detector gives them, and refine."""
    from driverflow import Detections

    image = shared.photo()
    height, width = image.shape[:2]
    part = np.array([width, height, width, height])
    boxes = np.array([[0.3, 0.2, 0.75, 0.8], [0.1, 0.1, 0.5, 0.6], [0.5, 0.5, 0.9, 0.95]]) * part
    found = Detections(
        image_source=image,
        image_tensor=None,
        boxes_cxcywh_norm=None,
        boxes_xyxy=boxes,
        scores=np.ones(3),
        phrases=["cup"] * 3,
        image_width=width,
        image_height=height,
    )
    masks = pipeline.segment(found)
    done = threading.Event()
    done.set()
    clicks = SimpleNamespace(done_event=done, points=[[130, 85], [60, 40]], labels=[1, 0])
    refined = pipeline.apply_refinements(masks, clicks)
    return {"masks": masks.masks, "scores": masks.iou_scores, "refined": refined.masks}


shared.run(prepare, work)
