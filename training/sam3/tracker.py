"""SAM 3's tracker: SAM 2's heads under other names, on the detector's image encoder."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from training.model.layers import MlpBlock
from training.sam2 import Decoded, Features, Heads, Sam2Config
from training.sam2.memory import MaskDownSampler, MemoryAttention, MemoryEncoder
from training.sam3.config import Sam3Config
from training.sam3.model import Sam3
from training.sam3.vision import Vision


class FittingDownSampler(MaskDownSampler):
    """Masks of any size are first resized to the one that fits the map."""

    def __init__(self, config: Sam2Config) -> None:
        super().__init__(config)
        self.side = config.mask_downsampler_total_stride * config.grid

    def forward(self, x: Tensor) -> Tensor:
        """Encode (N, 1, S, S) masks as (N, C, g, g)."""
        if x.shape[-1] != self.side:
            x = F.interpolate(
                x.float(), (self.side, self.side), mode="bilinear", antialias=True
            ).to(x.dtype)
        return super().forward(x)


class MemoryTransformer(nn.Module):
    """Memory attention, as the encoder of a transformer that has no decoder."""

    def __init__(self, config: Sam2Config) -> None:
        super().__init__()
        self.encoder = MemoryAttention(config)


class Tracker(Heads):
    """Clicks, boxes, masks and memories.

    Images, prompts and masks are those of squares of `side` pixels, 16 for a position of the map;
    the trunk sees the images smaller.

    Parameters
    ----------
    config : Sam3Config
        All sizes.
    vision : Vision
        The image encoder, which is no part of the tracker's state.
    """

    def __init__(self, config: Sam3Config, vision: Vision) -> None:
        super().__init__(config.heads)
        heads = config.heads
        self.side = heads.mask_downsampler_total_stride * heads.grid
        self.see = vision.second
        self.transformer = MemoryTransformer(heads)
        self.maskmem_backbone = MemoryEncoder(heads)
        self.maskmem_backbone.mask_downsampler = FittingDownSampler(heads)
        # The decoder has SAM's names for the layers in its blocks.
        for layer in self.sam_mask_decoder.transformer.layers:
            layer.mlp = MlpBlock(heads.d_model, heads.decoder_mlp_dim, nn.ReLU)
        self.initialise()

    @property
    def memory_attention(self) -> MemoryAttention:
        """Memory attention under SAM 2's name."""
        return self.transformer.encoder

    @property
    def memory_encoder(self) -> MemoryEncoder:
        """The memory encoder under SAM 2's name."""
        return self.maskmem_backbone

    def normalise(self, pixels: Tensor) -> Tensor:
        """Shrink and normalize (B, 3, S, S) pixels in 0..255."""
        size = (self.config.image_size, self.config.image_size)
        if pixels.shape[2:] != size:
            pixels = F.interpolate(pixels, size, mode="bilinear", antialias=True)
        return pixels / 127.5 - 1

    def encode(self, pixels: Tensor) -> Features:
        """Encode normalized images (B, 3, s, s)."""
        return self.features(*self.see(pixels))

    def decode(
        self,
        source: Tensor,
        features: Features,
        coords: Tensor,
        labels: Tensor,
        mask: Tensor | None = None,
        slots: bool = False,
        given: Tensor | None = None,
    ) -> Decoded:
        """Answer prompts as SAM 2's heads do; coordinates in pixels of squares of `side`."""
        coords = coords * (self.config.image_size / self.side)
        return super().decode(source, features, coords, labels, mask, slots, given)


class Sam3Video(nn.Module):
    """Detector and tracker: `state_dict` has the names and shapes of the published checkpoint.

    Only the tracker and its part of the neck learn.
    """

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        self.config = config
        self.detector = Sam3(config)
        vision = self.detector.backbone.vision_backbone
        self.tracker = Tracker(config, vision)
        self.detector.requires_grad_(False)
        vision.sam2_convs.requires_grad_(True)


def on_detector(config: Sam3Config, detector: Sam3) -> Sam3Video:
    """Give a trained detector a tracker, whose part of the neck begins as the detector's."""
    model = Sam3Video(config)
    known = dict(detector.state_dict())
    name = "backbone.vision_backbone."
    own = model.detector.state_dict()
    for key in own:
        if key.startswith(f"{name}sam2_convs."):
            known[key] = known[key.replace("sam2_convs", "convs")]
    # What the sizes of `config` leave out is read by nothing.
    model.detector.load_state_dict({key: known[key] for key in own})
    return model
