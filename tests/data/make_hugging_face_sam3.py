"""Record what transformers' SAM 3 of a tiny size holds and computes.

Run as ``python make_hugging_face_sam3.py``; needs transformers 5. Weights follow from names and
shapes, see `tiny_sam3.hugging_face_weights`: the files hold names, shapes and results.
"""

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

IDS = [49406, 4481, 1228, 2840, 49407]  # "yellow school bus"
POINT = (40.0, 70.0)


def detect(model, pixels):
    """Run the detector on a text; a padded box makes the class token that Meta has always."""
    import torch

    with torch.no_grad():
        out = model.detector_model(
            pixel_values=pixels,
            input_ids=torch.tensor([IDS]),
            attention_mask=torch.ones(1, len(IDS), dtype=torch.long),
            input_boxes=torch.zeros(1, 1, 4),
            input_boxes_labels=torch.full((1, 1), -10),
        )
    masks = out.pred_masks[0, [0, 7, 3]]
    return {
        "logits": out.pred_logits[0],
        "boxes": out.pred_boxes[0],
        "presence": out.presence_logits[0],
        "masks": masks,
        "semantic": out.semantic_seg[0],
    }


def click(weights, config, pixels):
    """Run the model that takes clicks, which is loaded from the same tensors."""
    import torch
    from support import hugging_face_sam3
    from transformers import Sam3TrackerConfig, Sam3TrackerModel

    video = hugging_face_sam3.tracker_config(config)
    model = Sam3TrackerModel(
        Sam3TrackerConfig(
            vision_config=video.vision_config,
            prompt_encoder_config=video.prompt_encoder_config.to_dict(),
            mask_decoder_config=video.mask_decoder_config.to_dict(),
            image_size=config.img_size,
        )
    ).eval()
    begins = {
        "detector_model.vision_encoder.backbone.": "vision_encoder.backbone.",
        "tracker_neck.": "vision_encoder.neck.",
        "tracker_model.": "",
    }
    renamed = {
        to + name.removeprefix(begin): value
        for name, value in weights.items()
        for begin, to in begins.items()
        if name.startswith(begin)
    }
    missing, _ = model.load_state_dict(renamed, strict=False)
    assert not missing, missing
    with torch.no_grad():
        out = model(
            pixel_values=pixels,
            input_points=torch.tensor([[[POINT]]]),
            input_labels=torch.ones(1, 1, 1, dtype=torch.long),
        )
    return {"low_res": out.pred_masks[0, 0], "iou": out.iou_scores[0, 0]}


def main() -> None:
    from support import hugging_face_sam3, tiny_sam3, upstream

    upstream.prepare()
    import torch
    from transformers import Sam3VideoConfig, Sam3VideoModel

    # The width of memories is fixed in a part of transformers' attention to them.
    config = dataclasses.replace(tiny_sam3.TINY, mem_dim=64)
    detector = hugging_face_sam3.detector_config(config, projection_dim=32)
    model = Sam3VideoModel(
        Sam3VideoConfig(
            detector_config=detector, tracker_config=hugging_face_sam3.tracker_config(config)
        )
    ).eval()
    shapes = {name: list(value.shape) for name, value in model.state_dict().items()}
    text = ",\n".join(f" {json.dumps(name)}: {json.dumps(s)}" for name, s in shapes.items())
    (HERE / "hugging_face_sam3.json").write_text("{\n" + text + "\n}\n")

    random = tiny_sam3.hugging_face_weights(shapes)
    weights = {name: torch.from_numpy(value) for name, value in random.items()}
    model.load_state_dict(weights)
    pixels = torch.from_numpy(tiny_sam3.noise(config)).permute(2, 0, 1)[None] / 127.5 - 1
    found = {**detect(model, pixels), **click(weights, config, pixels)}
    arrays = {name: value.numpy() for name, value in found.items()}
    np.savez_compressed(HERE / "hugging_face_sam3.npz", **arrays)


if __name__ == "__main__":
    main()
