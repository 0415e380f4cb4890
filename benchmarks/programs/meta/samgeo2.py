"""segment-geospatial: SamGeo2 with everything mode, prompts, and a clip."""

import numpy as np
import shared
import small


def prepare():
    """Load SAM 2 from the hub's folder, three times."""
    small.sam2()
    shared.in_hub("facebook/sam2-hiera-tiny", "sam2_hiera_tiny.pt", small.SAM2)
    import samgeo

    name = "sam2-hiera-tiny"
    every = samgeo.SamGeo2(name, points_per_side=10, pred_iou_thresh=0.6, use_m2m=True)
    prompted = samgeo.SamGeo2(name, automatic=False, max_hole_area=10)
    tracker = samgeo.SamGeo2(name, video=True)
    return every, prompted, tracker


def work(prepared):
    """Segment an image and a clip."""
    every, prompted, tracker = prepared
    path = shared.saved(shared.photo("coins"), "coins.png")
    every.generate(path)
    prompted.set_image(path)
    clicked, scores, _ = prompted.predict(
        np.array([[60, 100], [150, 40]]), np.array([1, 0]), return_results=True
    )
    boxed, *_ = prompted.predict(boxes=[[40, 80, 90, 130]], return_results=True)
    state = tracker.init_state(shared.frames("clip"))
    point, label = np.array([[50, 60]], np.float32), np.array([1], np.int32)
    tracker.add_new_points_or_box(state, 0, 1, points=point, labels=label)
    box = np.array([98, 55, 152, 109], np.float32)
    tracker.add_new_points_or_box(state, 0, 2, box=box)
    tracked = [np.asarray(found[2].cpu()) > 0 for found in tracker.propagate_in_video(state)]
    return {
        "everything": shared.unordered(record["segmentation"] for record in every.masks),
        "clicked": np.asarray(clicked) > 0,
        "scores": scores,
        "boxed": np.asarray(boxed) > 0,
        "tracked": np.array(tracked),
    }


shared.run(prepare, work)
