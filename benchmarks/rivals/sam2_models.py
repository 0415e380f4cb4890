"""Upstream's SAM 2 for the engines that start from PyTorch. Imports PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from support import upstream_sam2, upstream_video
from torch import nn

import resident
import tracks
from rivals import Task
from workloads import Workload


def load(workload: Workload, **kind: Any) -> Any:
    """Build upstream's network on the weights that all engines share, mapped from the file."""
    model = upstream_sam2.build_sam2(workload.config, **kind)
    weights = torch.load(workload.weights, mmap=True, weights_only=True)["model"]
    model.load_state_dict(weights, assign=True)
    return model.requires_grad_(False)


class Encoder(nn.Module):
    """What upstream's `SAM2ImagePredictor.set_image` computes: image to three maps of features."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        fine, middle, coarse = self.model.forward_image(image)["backbone_fpn"]
        return coarse + self.model.no_mem_embed.view(1, -1, 1, 1), fine, middle


def exportable_encoder(workload: Workload) -> Encoder:
    """Return the same with its position table resized once: it does not depend on the image."""
    model = load(workload)
    trunk, grid = model.image_encoder.trunk, workload.side // 4
    table = trunk._get_pos_embed((grid, grid)).contiguous()
    trunk._get_pos_embed = lambda _hw: table
    return Encoder(model).eval()


class MemoryAttention(nn.Module):
    """Upstream's memory attention with its memory joined beforehand, which upstream is not charged.

    Ours adds the positions of the maps itself, within its time.
    """

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        self.attention = load(workload).memory_attention
        self.pointers = 4 * tracks.POINTERS

    def forward(
        self, curr: torch.Tensor, curr_pos: torch.Tensor, memory: torch.Tensor, pos: torch.Tensor
    ) -> torch.Tensor:
        result: torch.Tensor = self.attention(
            curr=curr,
            curr_pos=curr_pos,
            memory=memory,
            memory_pos=pos,
            num_obj_ptr_tokens=self.pointers,
        )
        return result


def memory_inputs(workload: Workload) -> tuple[torch.Tensor, ...]:
    """Return (N, 1, C) tokens: curr, curr_pos, memory, memory_pos."""
    given = {k: torch.from_numpy(v) for k, v in tracks.memory_inputs(workload.config).items()}
    memory = torch.cat([given["features"].flatten(0, 1), given["pointers"]])
    maps_pos = (given["pos"] + given["tpos"][:, None]).flatten(0, 1)
    pos = torch.cat([maps_pos, given["pointer_pos"]])
    return given["curr"][:, None], given["curr_pos"][:, None], memory[:, None], pos[:, None]


class Images:
    """A clip as upstream's session takes it, resized when it is first asked for."""

    def __init__(self, clip: tracks.Clip, side: int) -> None:
        self._clip, self._side = clip, side
        self._known: dict[int, torch.Tensor] = {}

    def __len__(self) -> int:
        return len(self._clip)

    def __getitem__(self, index: int) -> torch.Tensor:
        frame = self._clip[index]
        if id(frame) not in self._known:
            resized = upstream_video.input_images(frame[None], self._side, torch.float32)
            self._known[id(frame)] = resized[0]
        return self._known[id(frame)]


def start_session(workload: Workload, model: Any, frames: int = tracks.FRAMES) -> Any:
    """Prompt the objects on frame 0, and encode their memories of it."""
    images = Images(tracks.Clip(workload.image_hw, frames), workload.side)
    for index in range(min(frames, 8)):  # upstream prepares all frames beforehand
        images[index]
    state = upstream_video.init_state(model, images, workload.image_hw)
    for obj_id in range(workload.objects):
        points, labels = tracks.click(workload, obj_id)
        model.add_new_points_or_box(state, 0, obj_id, points=points, labels=labels)
    with torch.inference_mode():
        model.propagate_in_video_preflight(state)
    return state


def load_tracker(workload: Workload) -> Any:
    """Upstream's predictor. Holes stay, as upstream's CPU path leaves them."""
    return load(workload, kind=upstream_video.video_predictor, fill_hole_area=0)


def tracking(workload: Workload) -> Task:
    """One steady frame after the other."""
    model = load_tracker(workload)
    state = start_session(workload, model)
    for index in range(workload.objects):
        _remember(state, index, tracks.past(workload.config, index))
    resident.forget_peak()  # of the past that was made up
    frames = model.propagate_in_video(state, start_frame_idx=tracks.FIRST)
    return Task(lambda: next(frames), lambda out: out[2].numpy())


def _remember(state: Any, index: int, past: tracks.Past) -> None:
    outputs = state["output_dict_per_obj"][index]
    pos_enc = outputs["cond_frame_outputs"][0]["maskmem_pos_enc"]
    for i in range(tracks.POINTERS):
        features = torch.from_numpy(past.maskmem_features[i]).permute(2, 0, 1)
        outputs["non_cond_frame_outputs"][i + 1] = {
            "maskmem_features": features[None].contiguous().to(torch.bfloat16),
            "maskmem_pos_enc": pos_enc,
            "pred_masks": torch.from_numpy(past.low_res_mask[i])[None, None],
            "obj_ptr": torch.from_numpy(past.obj_ptr[i])[None],
            "object_score_logits": torch.tensor([[past.object_score_logits[i]]]),
        }
        state["frames_tracked_per_obj"][index][i + 1] = {"reverse": False}
