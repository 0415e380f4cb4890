"""MobileSAM, EdgeTAM and SAM-HQ by their own packages. Imports PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from support import tiny_edgetam, tiny_mobile_sam, upstream, upstream_video

import resident
import tracks
from rivals import Task
from rivals.sam2_models import Images
from workloads import SAM_HQ, Workload, sample_image


def _load(model: Any, workload: Workload) -> Any:
    found = torch.load(workload.weights, mmap=True, weights_only=True)
    weights = {name: value.numpy() for name, value in found.get("model", found).items()}
    upstream.load_state_dict(model, weights)
    # The last call: TinyViT makes the terms for pairs of positions of what was loaded.
    return model.requires_grad_(False).eval()


def mobile_sam(workload: Workload) -> Any:
    """Return MobileSAM's image encoder."""
    from support import upstream_mobile_sam

    model = upstream_mobile_sam.build_sam(tiny_mobile_sam.VIT_T, workload.config, seed=None)
    return _load(model, workload).image_encoder


def sam_hq(workload: Workload) -> Task:
    """SAM-HQ's predictor: an image, or a click on one that is set."""
    from support import upstream_sam_hq

    model = _load(upstream_sam_hq.build(workload.config, seed=None), workload)
    predictor = upstream_sam_hq.SamPredictor(model)
    side = workload.side
    image = sample_image(side, side)
    if workload.name == SAM_HQ:
        return Task(lambda: predictor.set_image(image), lambda _: predictor.features.numpy())
    predictor.set_image(image)
    point = {"point_coords": np.array([[side / 3, side / 2]]), "point_labels": np.array([1])}
    return Task(lambda: predictor.predict(**point), lambda found: found[2])


def edgetam(workload: Workload) -> Task:
    """One frame after the other, in a session that has tracked all frames before."""
    from support import upstream_edgetam

    with upstream_edgetam.sessions(legacy=True) as kind:
        model = upstream_edgetam.build(tiny_edgetam.EDGETAM, kind=kind, fill_hole_area=0)
        _load(model, workload)
        # Far fewer than the others' clip: it counts them beforehand.
        images = Images(tracks.Clip(workload.image_hw, 1000), workload.side)
        state = upstream_video.init_state(model, images, workload.image_hw)
        points, labels = tracks.click(workload, 0)
        model.add_new_points_or_box(state, 0, 0, points=points, labels=labels)
        frames = model.propagate_in_video(state)
        for _ in range(tracks.FIRST):
            next(frames)
    resident.forget_peak()  # as ours
    return Task(lambda: next(frames), lambda out: out[2].numpy())
