"""autodistill-grounded-sam: boxes of a detector, here a stub, become masks."""

import numpy as np
import shared
import small


class Detector:
    """Stands for Grounding DINO: two boxes, whatever is asked for."""

    def __init__(self, **_):
        pass

    def predict_with_classes(self, image, **_):
        """Return detections."""
        import supervision

        height, width = image.shape[:2]
        part = np.array([width, height, width, height])
        boxes = np.array([[0.3, 0.2, 0.75, 0.8], [0.1, 0.1, 0.5, 0.6]]) * part
        return supervision.Detections(
            xyxy=boxes, confidence=np.array([0.9, 0.8]), class_id=np.array([0, 0])
        )


shared.stub("roboflow")  # uploads data sets
shared.stub("groundingdino.util.inference", Model=Detector)


def prepare():
    """Load SAM where the program looks for ViT-H."""
    small.sam("vit_h")
    shared.link("~/.cache/autodistill/segment_anything/sam_vit_h_4b8939.pth", small.SAM)
    from autodistill.detection import CaptionOntology
    from autodistill_grounded_sam import GroundedSAM

    return GroundedSAM(CaptionOntology({"a cup": "cup", "a spoon": "spoon"}))


def work(base):
    """Label an image."""
    found = base.predict(shared.saved(shared.photo(), "coffee.png"))
    return {"masks": found.mask.astype(bool), "boxes": found.xyxy}


shared.run(prepare, work)
