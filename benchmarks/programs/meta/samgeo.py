"""segment-geospatial: SamGeo with everything mode and prompts, and its own predictor class."""

import numpy as np
import shared
import small


def prepare():
    """Load SAM for everything mode, for prompts, and for the subclass of Meta's predictor."""
    small.sam("vit_h", "vit_b")
    import samgeo
    from samgeo.samgeo import SamGeoPredictor

    weights = str(shared.WEIGHTS / small.SAM)
    options = {"points_per_side": 12, "pred_iou_thresh": 0.7}
    every = samgeo.SamGeo(checkpoint=weights, sam_kwargs=options)
    prompted = samgeo.SamGeo(model_type="vit_b", checkpoint=weights, automatic=False)
    return every, prompted, SamGeoPredictor(prompted.sam)


def work(prepared):
    """Segment an image with each."""
    every, prompted, predictor = prepared
    path = shared.saved(shared.photo("coins"), "coins.png")
    every.generate(path, output=str(shared.WORK / "every.tif"), unique=True)
    prompted.set_image(path)
    clicked, scores, _ = prompted.predict([[60, 100], [150, 40]], [1, 0], return_results=True)
    boxed, *_ = prompted.predict(boxes=[[40, 80, 90, 130]], return_results=True)
    predictor.set_image(shared.photo())
    own, *_ = predictor.predict(point_coords=np.array([[128, 85]]), point_labels=np.array([1]))
    return {
        "everything": shared.unordered(record["segmentation"] for record in every.masks),
        "clicked": clicked,
        "scores": scores,
        "boxed": boxed,
        "own": own,
    }


shared.run(prepare, work)
