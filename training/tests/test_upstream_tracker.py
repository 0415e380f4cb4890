"""The training model of SAM 3's tracker, the published one and the package are one function."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from training import export
from training.engines_sam2 import TorchTracker
from training.sam2.positions import sine_positions
from training.sam3 import TRACKING, Sam3Config, Sam3Video
from training.tests.test_tracker import SIDE, SMALL

support = pytest.importorskip("support.upstream_sam3", reason="needs the reference packages")
tiny = pytest.importorskip("support.tiny_sam3")

CLICK = (45.0, 60.0)


def upstream_of(config: Sam3Config) -> Any:
    """Build the published tracker at the sizes of `config`."""
    sizes = {f.name for f in dataclasses.fields(tiny.Sam3Config)}
    fields = {k: v for k, v in dataclasses.asdict(config).items() if k in sizes}
    return support.tracker(tiny.Sam3Config(**fields))


def agreeing(own: Sam3Video, upstream: Any) -> None:
    """Load our tracker's weights into upstream's; only rotation tables are computed there."""
    missing, unexpected = upstream.load_state_dict(own.tracker.state_dict(), strict=False)
    assert not unexpected, unexpected
    assert all(name.endswith("freqs_cis") for name in missing), missing


def random_model(config: Sam3Config) -> Sam3Video:
    """Build a model with large random weights, whose objects are mostly there."""
    torch.manual_seed(0)
    own = Sam3Video(config).eval()
    for parameter in own.parameters():
        torch.nn.init.normal_(parameter, std=0.15)
    with torch.no_grad():
        own.tracker.sam_mask_decoder.pred_obj_score_head.layers[-1].bias += 1
    return own


def close(a: Tensor, b: Tensor) -> None:
    """Compare results of float32 that were computed in another order."""
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_nano_state_loads() -> None:
    """Names and shapes at the released sizes are upstream's."""
    agreeing(Sam3Video(TRACKING), upstream_of(TRACKING))


@torch.no_grad()
def test_neck_agrees() -> None:
    """The second set of maps agrees, and it alone learns."""
    own = random_model(SMALL)
    sizes = {f.name for f in dataclasses.fields(tiny.Sam3Config)}
    fields = {k: v for k, v in dataclasses.asdict(SMALL).items() if k in sizes}
    upstream = support.neck(tiny.Sam3Config(**fields))
    vision = own.detector.backbone.vision_backbone
    upstream.load_state_dict(vision.state_dict(), strict=False)
    support.refresh(upstream)
    pixels = torch.randn(1, 3, SMALL.img_size, SMALL.img_size)
    for a, b in zip(vision.second(pixels), upstream(pixels)[2], strict=True):
        close(a, b)
    trained = {n for n, p in vision.named_parameters() if p.requires_grad}
    assert trained == {n for n in vision.state_dict() if n.startswith("sam2_convs")}


@torch.no_grad()
@pytest.mark.parametrize("prompt", ["click", "mask"])
def test_tracking_agrees(prompt: str) -> None:
    """Tracks over ten frames agree: memories, pointers, masks at another size than memory's."""
    own, upstream = random_model(SMALL), upstream_of(SMALL)
    agreeing(own, upstream)
    support.refresh(upstream)
    point = {
        "point_coords": torch.tensor([[CLICK]]) * (SMALL.img_size / SIDE),
        "point_labels": torch.tensor([[1]]),
    }
    mask = torch.zeros(1, 1, SIDE, SIDE)
    mask[..., 40:90, 30:100] = 1
    tracker = TorchTracker(own.tracker, 10)
    memory: dict[str, dict[int, Any]] = {"cond_frame_outputs": {}, "non_cond_frame_outputs": {}}
    position = sine_positions(SMALL.d_model, SMALL.grid, torch.device("cpu")).transpose(0, 1)
    for t, pixels in enumerate(torch.randn(10, 1, 3, SMALL.img_size, SMALL.img_size)):
        features, first = own.tracker.encode(pixels), t == 0
        maps = [features.s0, features.s1, features.top]
        with support.on_cpu():
            wanted = upstream.track_step(
                t, first,
                [m.flatten(2).permute(2, 0, 1) for m in maps],
                [position] * 3,
                [m.shape[2:] for m in maps],
                None,
                point if first and prompt == "click" else None,
                mask if first and prompt == "mask" else None,
                memory, 10,
            )  # fmt: skip
        memory["cond_frame_outputs" if first else "non_cond_frame_outputs"][t] = wanted
        if not first:
            got = tracker.track(t, features)
        elif prompt == "click":
            got = tracker.start_points(t, features, torch.tensor([CLICK]), torch.tensor([1]))
        else:
            got = tracker.start_mask(t, features, mask)
        if prompt == "click" or not first:
            close(got.low, wanted["pred_masks"])
        close(tracker.memories[t].pointer, wanted["obj_ptr"])
        close(tracker.memories[t].spatial, wanted["maskmem_features"].float())


@torch.no_grad()
def test_the_package_reads_an_export(tmp_path: Path) -> None:
    """A click and the frame after it give the logits of the training model."""
    sam_rlx = pytest.importorskip("sam_rlx", reason="needs an install")
    path = tmp_path / "small.safetensors"
    export.save(random_model(SMALL).state_dict(), SMALL, path)
    own = export.load(path).tracker
    side = SMALL.img_size
    frames = np.random.default_rng(0).integers(0, 256, (2, side, side, 3), np.uint8)
    click = np.array(CLICK) * (side / SIDE)
    predictor = sam_rlx.VideoPredictor(sam_rlx.load_model(path), list(frames))
    predictor.add_prompt(0, 0, point_coords=click[None], point_labels=np.array([1]))
    tracker = TorchTracker(own, len(frames))
    for frame in predictor.propagate(return_logits=True):
        pixels = torch.from_numpy(frames[frame.frame_index]).permute(2, 0, 1)[None].float()
        features = own.encode(own.normalise(pixels))
        if frame.frame_index:
            got = tracker.track(1, features)
        else:
            got = tracker.start_points(0, features, torch.tensor([CLICK]), torch.tensor([1]))
        high = F.interpolate(got.low, (side, side), mode="bilinear")[0, 0]
        found = torch.from_numpy(frame.logits[0])
        assert float((found > 0).float().mean()) > 0.01
        torch.testing.assert_close(found, high, rtol=2e-2, atol=2e-2)
