"""autodistill-grounded-sam-2: boxes of a detector, here a stub, become masks of SAM 2."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import shared
import small


class Florence2:
    """Stands for the detector: two boxes, whatever is asked for."""

    def __init__(self, ontology):
        self.ontology = ontology

    def predict(self, image):
        """Return detections."""
        import supervision

        height, width = image.shape[:2]
        part = np.array([width, height, width, height])
        boxes = np.array([[0.3, 0.2, 0.75, 0.8], [0.1, 0.1, 0.5, 0.6]]) * part
        return supervision.Detections(xyxy=boxes, class_id=np.array([0, 0]))


shared.stub("roboflow")  # uploads data sets
shared.stub("autodistill_florence_2", Florence2=Florence2)


def prepare():
    """Load SAM 2 where the program looks for B+. It clones and installs Meta's repository first."""
    small.sam2()
    cache = Path("~/.cache/autodistill/segment_anything_2").expanduser()
    shared.link(cache / "sam2_hiera_base_plus.pth", small.SAM2)
    (cache / "segment-anything-2").mkdir()
    plain, subprocess.run = subprocess.run, lambda *_, **__: SimpleNamespace(returncode=0)
    from autodistill_grounded_sam_2 import GroundedSAM2

    subprocess.run = plain
    return GroundedSAM2(SimpleNamespace())


def work(base):
    """Label an image."""
    found = base.predict(shared.saved(shared.photo(), "coffee.png"))
    return {"masks": found.mask}


shared.run(prepare, work)
