"""autodistill-segment-anything: everything mode, results as supervision's detections."""

from types import SimpleNamespace

import shared
import small

shared.stub("roboflow")  # uploads data sets
shared.stub("groundingdino.util.inference", Model=shared.unused)


def prepare():
    """Load SAM where the program looks for ViT-H."""
    small.sam("vit_h")
    shared.link("~/.cache/autodistill/segment_anything/sam_vit_h_4b8939.pth", small.SAM)
    from autodistill_segment_anything import sam_model

    generator = sam_model.load_SAM()
    # Its constructor takes the loader of another package, which gives a predictor for clicks.
    sam_model.load_SAM = lambda: generator
    return sam_model.SegmentAnything(SimpleNamespace())


def work(base):
    """Find everything on an image."""
    found = base.predict(shared.saved(shared.discs(), "discs.png"))
    return {"masks": shared.unordered(found.mask)}


shared.run(prepare, work)
