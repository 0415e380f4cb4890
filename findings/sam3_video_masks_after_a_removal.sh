#!/usr/bin/env bash
# transformers 5.24.0, Sam3VideoModel: on the frame on which an object is removed (one that no detection
# confirms within the first frames), the objects behind it get the masks of those before them. The
# masks are made for all objects, then the session loses the object, and then the masks are paired with
# what is left of its list, without the removed one's mask being taken out. The next frame is right
# again.
#
# It meets whoever tracks texts with several objects: one frame of a track has its neighbour's mask,
# and the removed object's mask goes on under another name.
#
# The networks are replaced here by fixed masks, one row each; the rest is the model's own code.
#
# Seen 2026-11-29, objects 0, 1 and 2 with masks in the rows 0, 1 and 2, object 0 not confirmed:
#   frame before: object 0 row 0, object 1 row 1, object 2 row 2
#   frame of the removal: object 1 row 0, object 2 row 1
#   frame after: object 1 row 1, object 2 row 2
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip() { "$folder/venv/bin/python" -m pip install --quiet "$@"; }
pip torch==2.13.0
pip transformers==5.24.0 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import sys
from types import SimpleNamespace

import torch
import transformers
from transformers.models.sam3_video import modeling_sam3_video as module

SIZE = 6
rows = torch.full((3, SIZE, SIZE), -10.0)
for number in range(3):
    rows[number, number] = 10.0


class Model(module.Sam3VideoModel):
    """The model without its networks: what they give is fixed."""

    def __init__(self):
        torch.nn.Module.__init__(self)
        for name, value in SETTINGS.items():
            setattr(self, name, value)
        self.low_res_mask_size, self.fill_hole_area = SIZE, 0

    def get_vision_features_for_tracker(self, vision_embeds):
        return None, None

    def run_detection(self, inference_session, vision_embeds):
        return None

    def _merge_detections_from_prompts(self, detections, inference_session):
        masks = rows[1:] if inference_session.obj_ids else rows
        return {"mask": masks, "scores": torch.full((len(masks),), 0.9)}, dict.fromkeys(range(3), 0)

    def run_tracker_propagation(self, inference_session, frame_idx, reverse):
        ids = inference_session.obj_ids
        return rows[ids].clone(), torch.full((len(ids),), 5.0)

    def _tracker_add_new_objects(self, inference_session, new_obj_ids, **_):
        for number in new_obj_ids:
            inference_session.obj_id_to_idx(number)

    def _tracker_update_memories(self, **_):
        pass


SETTINGS = {
    name: value
    for name, value in transformers.Sam3VideoConfig().to_dict().items()
    if isinstance(value, (bool, int, float)) and not name.startswith("_")
}
model = Model()
model.__dict__["detector_model"] = SimpleNamespace(get_vision_features=lambda pixel_values: None)
session = module.Sam3VideoInferenceSession(
    torch.zeros(12, 3, SIZE, SIZE), dtype=torch.float32
)
session.add_prompt("thing")
shown = {}
for output in model.propagate_in_video_iterator(session):
    masks = output.obj_id_to_mask.items()
    shown[output.frame_idx] = {
        number: int((mask[0] > 0).any(1).nonzero()[0, 0]) for number, mask in masks
    }
removal = next(frame for frame, objects in shown.items() if 0 not in objects)
seen = [shown[removal - 1], shown[removal], shown[removal + 1]]
for name, objects in zip(("frame before", "frame of the removal", "frame after"), seen, strict=True):
    print(f"{name}: " + ", ".join(f"object {number} row {row}" for number, row in objects.items()))
sys.exit(0 if seen == [{0: 0, 1: 1, 2: 2}, {1: 0, 2: 1}, {1: 1, 2: 2}] else 1)
PYTHON
