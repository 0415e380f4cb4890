"""Clicks on SAM 3's features: SAM 2's heads behind the second neck."""

from dataclasses import replace

import numpy as np
import pytest
from support import tiny_sam3

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity

TINY = tiny_sam3.TINY


class Clicks(torch.nn.Module):
    """The image encoder and the tracker of upstream's image model."""

    def __init__(self, config):
        super().__init__()
        self.vision_backbone = upstream_sam3.neck(config)
        self.tracker = upstream_sam3.tracker(config)
        self.config = config

    def forward(self, image, multimask_output, mask=None, point_coords=None, point_labels=None):
        """Run upstream's predictor on features that were made as Sam3Processor.set_image does."""
        upstream_sam3.refresh(self)
        with upstream.uncompiled():
            predictor = upstream_sam3.sam3.SAM3InteractiveImagePredictor(self.tracker)
        backbone = upstream_sam3.sam3.SAM3VLBackbone(self.vision_backbone, None, scalp=1)
        output = backbone.forward_image(upstream.channels_first(image))["sam2_backbone_out"]
        fpn = output["backbone_fpn"]
        fpn[0] = self.tracker.sam_mask_decoder.conv_s0(fpn[0])
        fpn[1] = self.tracker.sam_mask_decoder.conv_s1(fpn[1])
        embedding = fpn[2] + self.tracker.no_mem_embed.reshape(1, -1, 1, 1)
        predictor._features = {"image_embed": embedding, "high_res_feats": fpn[:2]}
        predictor._is_image_set = True
        predictor._orig_hw = [(30, 40)]
        points = None if point_coords is None else point_coords[None]
        labels = None if point_labels is None else point_labels[None]
        prompt = None if mask is None else mask[None, None]
        # The predictor keeps the logits to itself: it returns them clamped and filled.
        seen = {}
        handle = self.tracker.sam_mask_decoder.register_forward_hook(
            lambda _module, _args, out: seen.update(masks=out[0], iou=out[1])
        )
        try:
            predictor._predict(points, labels, None, prompt, multimask_output, return_logits=True)
        finally:
            handle.remove()
        return embedding[0].permute(1, 2, 0), seen["masks"][0], seen["iou"][0]


def clicks(count, labels=(0, 1), seed=0):
    rng = np.random.default_rng([seed, count])
    return {
        "point_coords": rng.uniform(0, TINY.img_size, (count, 2)).astype(np.float32),
        "point_labels": rng.choice(np.array(labels, np.int32), count),
    }


BOX = {
    "point_coords": np.array([[3.5, 10.25], [40.0, 50.0]], np.float32),
    "point_labels": np.array([2, 3], np.int32),
}
PROMPTS = {
    "one click": clicks(1),
    "three clicks": clicks(3),
    "box": BOX,
    "box and clicks": {name: np.concatenate([BOX[name], clicks(2)[name]]) for name in BOX},
    "mask": {"mask": (4 * TINY.grid, 4 * TINY.grid)},
    "click and mask": {**clicks(1), "mask": (4 * TINY.grid, 4 * TINY.grid)},
}


def check(parity, config, multimask, **prompt):
    ours = {
        **config.vision,
        "add_sam2_neck": True,
        "mem_dim": config.mem_dim,
        "memory_layers": config.memory_layers,
        "memory_feedforward": config.memory_feedforward,
        "fuser_layers": config.fuser_layers,
    }
    parity.check(
        "sam3.Clicks",
        Clicks(config),
        ours,
        image=(1, config.img_size, config.img_size, 3),
        multimask_output=multimask,
        **prompt,
    )


@pytest.mark.parametrize("multimask", [True, False])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_clicks(parity, prompt, multimask):
    check(parity, TINY, multimask, **PROMPTS[prompt])


def test_clicks_on_another_grid(parity):
    config = replace(TINY, img_size=98, d_model=32, mem_dim=8)
    check(parity, config, True, **clicks(2))
