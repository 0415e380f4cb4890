#!/usr/bin/env bash
# EdgeTAM (edgetam-dimos 1.0.1, and Meta's repository at 9cc44bf, where these lines are the same): a
# memory is made for one object at a time only. The perceiver takes its local latents with expand(B,
# -1, -1).view(-1, 1, C), and a view of an expanded tensor exists for B = 1 alone. The predictor of
# sessions makes one batch of all objects, so a session with two of them ends in a RuntimeError where
# it first remembers a frame.
#
# It meets whoever follows two objects with upstream's package. reshape in place of view is a way out,
# or a session for each object.
#
# Seen 2026-11-28:
#   1 object: (1, 10, 16)
#   2 objects: RuntimeError
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip() { "$folder/venv/bin/python" -m pip install --quiet "$@"; }
pip torch==2.13.0 torchvision==0.28.0
pip numpy==2.3.5 timm==1.0.31 hydra-core==1.3.2 tqdm pillow iopath
pip --no-deps edgetam-dimos==1.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import torch
from sam2.modeling.perceiver import PerceiverResampler
from sam2.modeling.position_encoding import PositionEmbeddingSine

perceiver = PerceiverResampler(
    dim=16,
    depth=1,
    dim_head=16,
    num_latents=6,
    num_latents_2d=4,
    pos_enc_at_key_value=True,
    position_encoding=PositionEmbeddingSine(num_pos_feats=16),
    use_self_attn=True,
).eval()


def run(objects):
    maps = torch.zeros(objects, 16, 8, 8)
    with torch.no_grad():
        try:
            return str(tuple(perceiver(maps, maps)[0].shape))
        except RuntimeError:
            return "RuntimeError"


found = [run(1), run(2)]
print(f"1 object: {found[0]}\n2 objects: {found[1]}")
sys.exit(found != ["(1, 10, 16)", "RuntimeError"])
PYTHON
