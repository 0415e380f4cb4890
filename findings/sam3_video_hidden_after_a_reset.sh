#!/usr/bin/env bash
# transformers 5.24.0, Sam3VideoInferenceSession: reset_state forgets the objects and not the list of
# those that were removed in the first frames (hotstart_removed_obj_ids), and numbers begin anew, from 1
# where a new session begins from 0. An object of the second run that gets the number of one that was
# removed in the first run is followed by the model, and never shown by the processor.
#
# It meets whoever resets a session to run the clip again, with another text say: one object fewer, each
# number one higher. A new session is a way out, or clearing that set.
#
# The networks are replaced here by fixed masks of three objects; the rest is the code of model and
# processor. In the first run no detection confirms object 1, in the second all are confirmed.
#
# Seen 2026-11-29, last frame:
#   new session: model 0 2, shown 0 2
#   after reset_state: model 1 2 3, shown 2 3
#   after reset_state, set cleared: model 1 2 3, shown 1 2 3
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
from transformers.models.sam3_video.processing_sam3_video import Sam3VideoProcessor

SIZE, FRAMES = 6, 12
rows = torch.full((3, SIZE, SIZE), -10.0)
for number in range(3):
    rows[number, number] = 10.0


class Model(module.Sam3VideoModel):
    """The model without its networks: what they give is fixed."""

    def __init__(self):
        torch.nn.Module.__init__(self)
        for name, value in transformers.Sam3VideoConfig().to_dict().items():
            if isinstance(value, (bool, int, float)) and not name.startswith("_"):
                setattr(self, name, value)
        self.low_res_mask_size, self.fill_hole_area = SIZE, 0

    def get_vision_features_for_tracker(self, vision_embeds):
        return None, None

    def run_detection(self, inference_session, vision_embeds):
        return None

    def _merge_detections_from_prompts(self, detections, inference_session):
        masks = rows[self.confirmed] if inference_session.obj_ids else rows
        return {"mask": masks, "scores": torch.full((len(masks),), 0.9)}, dict.fromkeys(range(3), 0)

    def run_tracker_propagation(self, inference_session, frame_idx, reverse):
        found = [number - self.first for number in inference_session.obj_ids]
        return rows[found].clone(), torch.full((len(found),), 5.0)

    def _tracker_add_new_objects(self, inference_session, new_obj_ids, **_):
        self.first = min(new_obj_ids)
        for number in new_obj_ids:
            inference_session.obj_id_to_idx(number)

    def _tracker_update_memories(self, **_):
        pass


# Boxes, which need torchvision, are not looked at.
processing = sys.modules[Sam3VideoProcessor.__module__]
processing.masks_to_boxes = lambda masks: torch.zeros(len(masks), 4)
processor = Sam3VideoProcessor.__new__(Sam3VideoProcessor)
model = Model()
model.__dict__["detector_model"] = SimpleNamespace(get_vision_features=lambda pixel_values: None)
video = torch.zeros(FRAMES, 3, SIZE, SIZE)
session = module.Sam3VideoInferenceSession(
    video, video_height=SIZE, video_width=SIZE, dtype=torch.float32
)


def run(name, confirmed):
    model.confirmed = confirmed
    session.add_prompt("thing")
    last = list(model.propagate_in_video_iterator(session))[-1]
    shown = processor.postprocess_outputs(session, last)["object_ids"].tolist()
    lists = [" ".join(str(number) for number in numbers) for numbers in (last.object_ids, shown)]
    print(f"{name}: model {lists[0]}, shown {lists[1]}")
    return lists


seen = [run("new session", [0, 2])]
session.reset_state()
seen.append(run("after reset_state", [0, 1, 2]))
session.reset_state()
session.hotstart_removed_obj_ids.clear()
seen.append(run("after reset_state, set cleared", [0, 1, 2]))
sys.exit(0 if seen == [["0 2", "0 2"], ["1 2 3", "2 3"], ["1 2 3", "1 2 3"]] else 1)
PYTHON
