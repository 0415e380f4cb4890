#!/usr/bin/env bash
# transformers 5.24.0, Sam3VideoModel: on a frame on which a text finds a new object, all objects that
# are followed already are tracked a second time, and their memories are written again, of the raw
# masks. What the model had settled for them is lost: an object that lies nearly whole below another
# one is taken out of the memory of a frame, and here it is back in it. The tracker is called for the
# new object with memories on, and it runs for each object of the session.
#
# It meets whoever compares clips with another implementation: memories differ from the first frame on
# which something new appears, and such a frame takes longer.
#
# The networks are replaced here by fixed masks; the rest is the models' own code. Object 1 has four
# rows, three of them below object 0; object 2 appears on frame 2.
#
# Seen 2026-11-29:
#   frame 1: object 1 tracked 1 time, 0 rows in memory
#   frame 2: object 1 tracked 2 times, 4 rows in memory
#   frame 3: object 1 tracked 1 time, 0 rows in memory
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip() { "$folder/venv/bin/python" -m pip install --quiet "$@"; }
pip torch==2.13.0
pip transformers==5.24.0 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import collections
import sys
from types import SimpleNamespace

import torch
import transformers
from transformers.models.sam3_tracker_video import modeling_sam3_tracker_video as tracker_module
from transformers.models.sam3_video import modeling_sam3_video as module

SIZE = 8
masks = torch.full((3, SIZE, SIZE), -10.0)
masks[0, 0:5] = 10.0
masks[1, 2:6] = 5.0
masks[2, 7] = 10.0
runs = collections.Counter()


class Tracker(tracker_module.Sam3TrackerVideoModel):
    def __init__(self):
        torch.nn.Module.__init__(self)
        self.num_maskmem = 1

    def _run_single_frame_inference(self, inference_session, obj_idx, frame_idx, **_):
        runs[frame_idx, obj_idx] += 1
        mask = masks[obj_idx][None, None].clone()
        scores = torch.full((1, 1, 1), 5.0)
        return {"pred_masks": mask, "object_score_logits": scores, "high_res_masks": mask}

    def _batch_encode_memories(
        self,
        inference_session,
        frame_idx,
        objects_needing_memory_encoding,
        high_res_masks_for_memory,
        **_,
    ):
        for number, mask in zip(objects_needing_memory_encoding, high_res_masks_for_memory):
            for outputs in inference_session.output_dict_per_obj[number].values():
                if frame_idx in outputs:
                    outputs[frame_idx]["maskmem_features"] = mask


class Model(module.Sam3VideoModel):
    device = torch.device("cpu")

    def __init__(self):
        torch.nn.Module.__init__(self)
        for name, value in transformers.Sam3VideoConfig().to_dict().items():
            if isinstance(value, (bool, int, float)) and not name.startswith("_"):
                setattr(self, name, value)
        self.low_res_mask_size, self.fill_hole_area = SIZE, 0
        self.tracker_model = Tracker()

    def get_vision_features_for_tracker(self, vision_embeds):
        return None, None

    def run_detection(self, inference_session, vision_embeds):
        return None

    def _merge_detections_from_prompts(self, detections, inference_session):
        found = masks[: 2 if self.frame < 2 else 3]
        scores = torch.full((len(found),), 0.7)
        return {"mask": found.clone(), "scores": scores}, dict.fromkeys(range(3), 0)

    def run_memory_encoder(self, inference_session, frame_idx, high_res_masks, object_score_logits):
        return high_res_masks[None, :, 0], high_res_masks[None, :, 0]


model = Model()
model.__dict__["detector_model"] = SimpleNamespace(get_vision_features=lambda pixel_values: None)
session = module.Sam3VideoInferenceSession(torch.zeros(4, 3, SIZE, SIZE), dtype=torch.float32)
session.add_prompt("thing")
seen = []
for model.frame in range(4):
    model(inference_session=session, frame_idx=model.frame)
    if model.frame == 0:
        continue
    times = runs[model.frame, 1]
    kinds = session.output_dict_per_obj[1].values()
    memory = next(kind[model.frame]["maskmem_features"] for kind in kinds if model.frame in kind)
    rows = int((memory.reshape(-1, SIZE, SIZE)[0] > 0).any(1).sum())
    seen.append((times, rows))
    print(f"frame {model.frame}: object 1 tracked {times} time{'s' * (times > 1)}, {rows} rows in memory")
sys.exit(0 if seen == [(1, 0), (2, 4), (1, 0)] else 1)
PYTHON
