#!/usr/bin/env bash
# transformers 5.24.0, SamHQModel: the mask decoder drops the map that its two-way transformer gives,
# and makes the masks of the map before it, with rows and columns swapped (modeling_sam_hq.py: the
# second result of self.transformer goes to iou_token_out, which the next line overwrites). Whatever
# the transformer gives as its map, the masks stay. With SamModel, and in SAM-HQ's own package, they
# are made of that map.
#
# It meets whoever runs a converted SAM-HQ with transformers: masks are not those of SAM-HQ. A hook on
# mask_decoder.transformer that writes the map into its argument image_embeddings, swapped, is a way
# out.
#
# Seen 2026-11-28, with another map behind the transformer:
#   SamModel: masks change
#   SamHQModel: masks stay
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip() { "$folder/venv/bin/python" -m pip install --quiet "$@"; }
pip torch==2.13.0 torchvision==0.28.0
pip numpy==2.3.5 transformers==5.24.0
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import torch
from transformers import SamConfig, SamHQConfig, SamHQModel, SamModel

vision = {
    "hidden_size": 32,
    "output_channels": 32,
    "num_pos_feats": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 64,
    "window_size": 2,
    "global_attn_indexes": [1],
}
prompts = {"hidden_size": 32, "image_size": 64}
decoder = {"hidden_size": 32, "mlp_dim": 32}
point = torch.tensor([[[[20.0, 30.0]]]])


def stay(kind, config, more):
    torch.manual_seed(0)
    parts = {"vision_config": vision, "prompt_encoder_config": prompts}
    model = kind(config(**parts, mask_decoder_config={**decoder, **more})).eval()
    image = {"pixel_values": torch.rand(1, 3, 64, 64), "input_points": point}
    with torch.no_grad():
        before = model(**image).pred_masks
        model.mask_decoder.transformer.register_forward_hook(lambda _m, _a, out: (out[0], -out[1]))
        return torch.equal(before, model(**image).pred_masks)


found = [stay(SamModel, SamConfig, {}), stay(SamHQModel, SamHQConfig, {"vit_dim": 32})]
for name, stays in zip(("SamModel", "SamHQModel"), found):
    print(f"{name}: masks {'stay' if stays else 'change'}")
sys.exit(found != [False, True])
PYTHON
