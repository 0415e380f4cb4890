"""segment-geospatial: LangSAM's SAM part, with boxes of a detector, here a stub."""

import shared
import small


def prepare():
    """Load SAM from PyTorch's folder of downloads; the detector gives two boxes."""
    import torch

    small.sam("vit_h")
    shared.stub("groundingdino.datasets.transforms")
    shared.stub("groundingdino.models", build_model=shared.unused)
    shared.stub("groundingdino.util.box_ops", box_cxcywh_to_xyxy=lambda boxes: boxes)
    boxes = torch.tensor([[0.3, 0.2, 0.75, 0.8], [0.1, 0.1, 0.5, 0.6]])
    found = boxes, torch.tensor([0.9, 0.8]), ["cup", "spoon"]
    shared.stub("groundingdino.util.inference", predict=lambda **_: found)
    shared.stub("groundingdino.util.slconfig", SLConfig=shared.unused)
    shared.stub("groundingdino.util.utils", clean_state_dict=shared.unused)
    folder = torch.hub.get_dir() + "/checkpoints/sam_vit_h_4b8939.pth"
    shared.link(folder, small.SAM)
    from samgeo import text_sam

    text_sam.load_model_hf = text_sam.transform_image = lambda *_, **__: None
    return text_sam.LangSAM()


def work(base):
    """Segment by a text."""
    path = shared.saved(shared.photo(), "coffee.png")
    base.predict(path, "cup", 0.3, 0.3, output=str(shared.WORK / "cup.tif"))
    return {"masks": base.masks.numpy() > 0, "overlay": base.prediction > 0}


shared.run(prepare, work)
