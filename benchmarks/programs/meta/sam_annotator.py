"""sam-annotator: its predictor with clicks, a box and a mask of before."""

import numpy as np
import shared
import small

# Its predictors for SAM 2 and 3 use another package.
shared.stub("ultralytics", SAM=shared.unused)
shared.stub("ultralytics.utils.downloads", GITHUB_ASSETS_STEMS=())


def prepare():
    """Load SAM."""
    small.sam("vit_b")
    from sam_annotator.core.predictor import SAM1Predictor

    predictor = SAM1Predictor("vit_b")
    predictor.initialize(str(shared.WEIGHTS / small.SAM))
    return predictor


def work(predictor):
    """Annotate an image."""
    predictor.clear_cache()
    predictor.current_image_hash = None
    predictor.set_image(shared.photo())
    points, labels = np.array([[128, 85], [40, 30]]), np.array([1, 0])
    masks, scores, logits = predictor.predict(points, labels)
    boxed, *_ = predictor.predict(box=np.array([70, 30, 190, 150]), multimask_output=False)
    return {"masks": masks, "scores": scores, "logits": logits, "boxed": boxed}


shared.run(prepare, work)
