"""segment-anything-utils: its loaders of a model and of a generator."""

import shared
import small


def prepare():
    """Load SAM from the folder of downloads."""
    small.sam("vit_b")
    shared.link(shared.WORK / "models" / "sam_vit_b_01ec64.pth", small.SAM)
    from segment_anything_utils import load_generator, load_model

    model = load_model("vit_b", download_root=str(shared.WORK / "models"))
    return load_generator(model, {"points_per_side": 12, "pred_iou_thresh": 0.6})


def work(generator):
    """Find everything on an image."""
    found = generator.generate(shared.photo("coins"))
    return {"masks": shared.unordered(record["segmentation"] for record in found)}


shared.run(prepare, work)
