"""Record which masks and frames public trackers choose on the sequences of support.memory_rules.

    python make_memory_rules.py samurai PATH/samurai/sam2
    python make_memory_rules.py dam4sam PATH/DAM4SAM

PATH is a checkout (SAMURAI at 76ba195, DAM4SAM at 9c95450, with vot-toolkit 0.7.1). Their code runs
as it is on a CPU, with a network that is replaced: the mask decoder gives the masks of the
sequence, a memory says of which frame it is, and the memory attention notes what it is given.
Writes memory_rules_NAME.json beside this file: by sequence and prompt, a row for each frame after
the first with the number of the mask, whether the frame was added to those that condition others,
the maps (frame, row of the temporal encoding), and the pointers (frame, position), of SAMURAI in
one run of each sequence.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

RULE, CHECKOUT = sys.argv[1:]
HERE = Path(__file__).resolve().parent
sys.path[:0] = [CHECKOUT, str(HERE.parent)]

import torch  # noqa: E402
from support import memory_rules as sequences  # noqa: E402

torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign]
GRID, WIDTH, CHANNELS = sequences.SIDE // 16, 8, 32


class _Attention(torch.nn.Module):
    """Notes what it is given."""

    d_model = CHANNELS

    def forward(self, curr: Any, memory: Any, memory_pos: Any, num_obj_ptr_tokens: int, **_: Any):
        maps = memory.shape[0] - num_obj_ptr_tokens
        every = slice(0, maps, GRID * GRID)
        pointers = slice(maps, None, CHANNELS // WIDTH)
        self.maps = [
            (int(frame), int(row))
            for frame, row in zip(memory[every, 0, 0], memory_pos[every, 0, 0], strict=True)
        ]
        self.pointers = [int(frame) for frame in memory[pointers, 0, 0]]
        return curr[0] if isinstance(curr, list) else curr


class _Encoder(torch.nn.Module):
    """A memory whose numbers are that of its frame."""

    def __init__(self) -> None:
        super().__init__()
        self.out_proj = torch.nn.Conv2d(CHANNELS, WIDTH, 1)
        self.frame = 0

    def forward(self, pix_feat: Any, *_: Any, **__: Any) -> Any:
        shape = (pix_feat.shape[0], WIDTH, GRID, GRID)
        features = torch.full(shape, float(self.frame))
        return {"vision_features": features, "vision_pos_enc": [torch.zeros(shape)]}


def _predictor(weight: float) -> Any:
    from sam2.modeling import sam2_base
    from sam2.sam2_video_predictor import SAM2VideoPredictor

    rule: dict[str, Any] = {
        "samurai": {"samurai_mode": True, "kf_score_weight": weight},
        "dam4sam": {
            "memory_temporal_stride_for_eval": 5,
            "max_cond_frames_in_attn": 4,
            "add_all_frames_to_correct_as_cond": True,
        },
    }[RULE]
    image_encoder = torch.nn.Module()
    image_encoder.neck = SimpleNamespace(d_model=CHANNELS)  # type: ignore[assignment]
    predictor = SAM2VideoPredictor(
        image_encoder=image_encoder,
        memory_attention=_Attention(),
        memory_encoder=_Encoder(),
        image_size=sequences.SIDE,
        fill_hole_area=0,
        sigmoid_scale_for_mem_enc=20.0,
        sigmoid_bias_for_mem_enc=-10.0,
        binarize_mask_from_pts_for_mem_enc=True,
        use_mask_input_as_output_without_sam=True,
        directly_add_no_mem_embed=True,
        multimask_output_in_sam=True,
        multimask_min_pt_num=0,
        multimask_max_pt_num=3 if RULE == "dam4sam" else 1,
        multimask_output_for_tracking=True,
        use_multimask_token_for_obj_ptr=True,
        iou_prediction_use_sigmoid=True,
        use_obj_ptrs_in_encoder=True,
        proj_tpos_enc_in_obj_ptrs=True,
        use_signed_tpos_enc_to_obj_ptrs=True,
        only_obj_ptrs_in_the_past_for_eval=True,
        pred_obj_scores=True,
        pred_obj_scores_mlp=True,
        fixed_no_obj_ptr=True,
        use_mlp_for_obj_ptr_proj=True,
        **rule,
    ).eval()
    rows = torch.arange(predictor.num_maskmem, dtype=torch.float32)
    predictor.maskmem_tpos_enc.data[:] = rows[:, None, None, None]
    positions = sam2_base.get_1d_sine_pe

    def noted(pos_inds: Any, dim: int) -> Any:
        predictor.memory_attention.positions = pos_inds.tolist()
        return positions(pos_inds, dim)

    sam2_base.get_1d_sine_pe = noted
    predictor.images = lambda batch: (
        None,
        [torch.zeros(GRID * GRID, batch, CHANNELS)],
        [torch.zeros(GRID * GRID, batch, CHANNELS)],
        [(GRID, GRID)],
    )
    predictor._get_image_feature = lambda _, frame_idx, batch_size: (
        torch.zeros(1, 3, 1, 1),
        *predictor.images(batch_size),
    )
    step = predictor.track_step

    def track_step(frame_idx: int, **given: Any) -> Any:
        predictor.memory_encoder.frame = predictor.frame = frame_idx
        out = step(frame_idx=frame_idx, **given)
        out["obj_ptr"] = torch.full_like(out["obj_ptr"], float(frame_idx))
        return out

    predictor.track_step = track_step
    encode = predictor._run_memory_encoder

    def run_memory_encoder(inference_state: Any, frame_idx: int, *args: Any, **given: Any) -> Any:
        predictor.memory_encoder.frame = frame_idx
        return encode(inference_state, frame_idx, *args, **given)

    predictor._run_memory_encoder = run_memory_encoder
    return predictor


def _decode_by(predictor: Any, sequence: sequences.Sequence) -> None:
    """Let the mask decoder give the masks of a sequence."""

    def forward(multimask_output: bool, **_: Any) -> Any:
        t, count = predictor.frame, 3 if multimask_output else 1
        return (
            torch.from_numpy(sequence.masks[t][None, :count].copy()),
            torch.from_numpy(sequence.ious[t][None, :count].copy()),
            torch.zeros(1, count, CHANNELS),
            torch.full((1, 1), float(sequence.scores[t])),
        )

    predictor.sam_mask_decoder.forward = forward


def _row(predictor: Any, chosen: int, added: bool, pointers: bool = True) -> list[Any]:
    seen = predictor.memory_attention
    found = [
        (frame, round(where, 5)) for frame, where in zip(seen.pointers, seen.positions, strict=True)
    ]
    return [chosen, added, seen.maps, found if pointers else None]


def _samurai(name: str, weight: float, clicked: bool) -> list[Any]:
    import sam2.sam2_video_predictor as module

    sequence, predictor = sequences.sequence(name), _predictor(weight)
    _decode_by(predictor, sequence)
    frames = torch.zeros(len(sequence.ious), 3, 1, 1)
    module.load_video_frames = lambda **_: (frames, *sequences.HW)
    predictor.frame = 0
    state = predictor.init_state("")
    if clicked:
        predictor.add_new_points_or_box(state, 0, 1, points=[[5, 5]], labels=[1])
    else:
        mask = torch.nn.functional.interpolate(
            torch.from_numpy(sequence.masks[:1, :1]), sequences.HW, mode="bilinear"
        )
        predictor.add_new_mask(state, 0, 1, mask[0, 0] > 0)
    rows = []
    for t, *_ in predictor.propagate_in_video(state):
        if t == 0:
            continue
        found = state["output_dict"]["non_cond_frame_outputs"][t]["best_iou_score"]
        (chosen,) = np.flatnonzero(sequence.ious[t] == np.float32(found))
        rows.append(_row(predictor, int(chosen), False, weight == 0.25 and not clicked))
    return rows


def _dam4sam(name: str) -> list[Any]:
    # Frames are not looked at.
    resizing = SimpleNamespace(resize=lambda frame, size: torch.zeros(3, *size))
    sys.modules["torchvision"] = sys.modules["torchvision.transforms"] = ModuleType("torchvision")
    sys.modules["torchvision.transforms.functional"] = resizing  # type: ignore[assignment]
    sys.modules["torchvision.transforms"].functional = resizing  # type: ignore[attr-defined]
    from dam4sam_tracker import DAM4SAMTracker
    from PIL import Image

    sequence, predictor = sequences.sequence(name), _predictor(0)
    _decode_by(predictor, sequence)
    predictor.frame = 0
    move = torch.Tensor.to
    tracker = DAM4SAMTracker.__new__(DAM4SAMTracker)
    tracker.input_image_size, tracker.predictor = sequences.SIDE, predictor
    tracker.img_mean = tracker.img_std = torch.ones(3, 1, 1)
    start = tracker.init_state_tw

    def on_cpu() -> Any:
        torch.Tensor.to = lambda self, *_, **__: self  # type: ignore[method-assign,assignment]
        try:
            state = start()
        finally:
            torch.Tensor.to = move  # type: ignore[method-assign]
        state["device"] = state["storage_device"] = torch.device("cpu")
        return state

    tracker.init_state_tw = on_cpu
    image = Image.new("RGB", sequences.HW[::-1])
    mask = torch.nn.functional.interpolate(
        torch.from_numpy(sequence.masks[:1, :1]), sequences.HW, mode="bilinear"
    )
    tracker.initialize(image, (mask[0, 0] > 0).numpy())
    rows = []
    for t in range(1, len(sequence.ious)):
        tracker.track(image)
        rows.append(_row(predictor, int(sequence.ious[t].argmax()), tracker.last_added == t))
    return rows


def _line(row: list[Any]) -> str:
    return json.dumps(row, separators=(",", ":"))


def main() -> None:
    found = {}
    for name in sequences.NAMES:
        if RULE == "dam4sam":
            found[name] = _dam4sam(name)
            continue
        for weight in (0.25, 0.15):
            found[f"{name} {weight}"] = _samurai(name, weight, False)
        found[f"{name} 0.25 clicked"] = _samurai(name, 0.25, True)
    lines = []
    for name, rows in found.items():
        lines.append(json.dumps(name) + ": [\n" + ",\n".join(map(_line, rows)) + "\n]")
    (HERE / f"memory_rules_{RULE}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    for name, of_frames in found.items():
        print(name, "added", sum(row[1] for row in of_frames), "masks", {r[0] for r in of_frames})


main()
