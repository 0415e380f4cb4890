"""The whole detector: images and texts to boxes, scores and masks."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.model.layers import LayerNorm, Mlp
from training.sam2.positions import sine_positions
from training.sam3.config import Sam3Config
from training.sam3.text import TextEncoder
from training.sam3.transformer import (
    Attention,
    Decoder,
    EncoderLayer,
    FusionEncoder,
    sine_boxes,
)  # fmt: skip
from training.sam3.vision import Vision

MAX_SCORE = 12.0
ROI = 7
SAMPLES = 3


class Found(NamedTuple):
    """Answers to B texts, after each layer of the decoder or after the last.

    Attributes
    ----------
    scores : list of Tensor
        (B, Q) logits, for each layer.
    boxes : list of Tensor
        (B, Q, 4) centre and size in 0..1, for each layer.
    presence : list of Tensor
        (B, 1) logits that anything is there, for each layer.
    states : Tensor
        (B, Q, D) embeddings of masks after the last layer.
    pixels : Tensor
        (B, D, 4g, 4g) map that they are multiplied with.
    semantic : Tensor
        (B, 1, 4g, 4g) logits of everything that the text means.
    """

    scores: list[Tensor]
    boxes: list[Tensor]
    presence: list[Tensor]
    states: Tensor
    pixels: Tensor
    semantic: Tensor

    def masks(self) -> Tensor:
        """Logits (B, Q, 4g, 4g) of the masks of all queries."""
        return (self.states @ self.pixels.flatten(2)).unflatten(2, self.pixels.shape[2:])


class Backbone(nn.Module):
    """Both encoders."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        self.vision_backbone = Vision(config)
        self.language_backbone = TextEncoder(config)


def pooled(x: Tensor, boxes: Tensor) -> Tensor:
    """Cut boxes (B, N, 4) out of maps (B, C, s, s): (B, N, C, 7, 7), mean of `SAMPLES` squared."""
    side, count = x.shape[-1], ROI * SAMPLES
    centre, size = (boxes.float() * side).chunk(2, -1)
    # A box of less than a position is widened.
    low, size = centre - size / 2, size.clamp(min=1)
    step = (torch.arange(count, device=x.device) + 0.5) / count
    positions = (low[..., None, :] + size[..., None, :] * step[:, None]) * 2 / (side - 1) - 1
    u, v = positions.unbind(-1)
    shape = *u.shape[:2], count, count
    grid = torch.stack([u[:, :, None].expand(shape), v[..., None].expand(shape)], -1)
    out = F.grid_sample(x.float(), grid.flatten(1, 2), padding_mode="border", align_corners=True)
    out = out.unflatten(3, (ROI, SAMPLES)).unflatten(2, (-1, ROI, SAMPLES))
    return out.mean((4, 6)).transpose(1, 2).to(x.dtype)


class GeometryEncoder(nn.Module):
    """Tokens of example boxes, and one more; points are not trained."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        dim = config.d_model
        self.label_embed = nn.Embedding(2, dim)
        self.cls_embed = nn.Embedding(1, dim)
        self.points_direct_project = nn.Linear(2, dim)
        self.points_pool_project = nn.Linear(dim, dim)
        self.points_pos_enc_project = nn.Linear(dim, dim)
        self.boxes_direct_project = nn.Linear(4, dim)
        self.boxes_pool_project = nn.Conv2d(dim, dim, ROI)
        self.boxes_pos_enc_project = nn.Linear(dim + 2, dim)
        self.final_proj = nn.Linear(dim, dim)
        self.norm = LayerNorm(dim)
        self.img_pre_norm = LayerNorm(dim)
        self.encode = nn.ModuleList(EncoderLayer(config) for _ in range(config.geometry_layers))
        self.encode_norm = LayerNorm(dim)

    def _boxes(self, image: Tensor, boxes: Tensor, labels: Tensor) -> Tensor:
        side, dim = round(image.shape[1] ** 0.5), image.shape[2]
        levels = self.img_pre_norm(image).transpose(1, 2).unflatten(2, (side, side))
        cut = self.boxes_pool_project(pooled(levels, boxes).flatten(0, 1)).reshape(
            *labels.shape, dim
        )
        position = torch.cat(
            [sine_boxes(boxes, dim)[..., :dim], boxes[..., 3:], boxes[..., 2:3]], -1
        )
        x = self.boxes_direct_project(boxes) + cut.reshape(*labels.shape, dim)
        x = x + self.boxes_pos_enc_project(position)
        return x + self.label_embed(labels.clamp(min=0))

    def forward(
        self, image: Tensor, position: Tensor, boxes: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Encode examples on (B, hw, C) maps.

        Parameters
        ----------
        image, position : Tensor
            (B, hw, C) and (1, hw, C).
        boxes : Tensor
            (B, N, 4) centre and size in 0..1.
        labels : Tensor
            (B, N): 1 what is meant, 0 what is not, -1 no box.

        Returns
        -------
        tuple of Tensor
            Tokens (B, N + 1, C), and which of them count.
        """
        x = self.cls_embed.weight.expand(len(image), 1, -1)
        x = torch.cat([self._boxes(image, boxes, labels).to(x.dtype), x], 1)
        keep = F.pad(labels >= 0, (0, 1), value=True)
        x = self.norm(self.final_proj(x))
        none = torch.zeros((), device=image.device)
        for layer in self.encode:
            x = layer(x, none, image, position.to(image.dtype), None, keep)
        return self.encode_norm(x), keep


class PromptMlp(Mlp):
    """Two layers, added to what they are given, then a norm."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__(dim, hidden, dim, 2)
        self.out_norm = LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layers to the last axis."""
        return self.out_norm(x + super().forward(x))


class Scoring(nn.Module):
    """Products of queries with the mean of the prompt."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        dim = config.d_model
        self.prompt_mlp = PromptMlp(dim, config.dim_feedforward)
        self.prompt_proj = nn.Linear(dim, dim)
        self.hs_proj = nn.Linear(dim, dim)

    def forward(self, states: list[Tensor], prompt: Tensor, keep: Tensor) -> list[Tensor]:
        """Scores (B, Q) of the queries of each layer."""
        tokens, there = self.prompt_mlp(prompt).float(), keep[..., None].float()
        mean = (tokens * there).sum(1) / there.sum(1).clamp(min=1)
        goal = self.prompt_proj(mean)[:, None]
        scale = goal.shape[-1] ** -0.5
        return [
            ((self.hs_proj(s).float() * goal.float()).sum(-1) * scale).clamp(-MAX_SCORE, MAX_SCORE)
            for s in states
        ]


class PixelDecoder(nn.Module):
    """Add coarse maps to finer ones."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        dim, stages = config.d_model, config.upsampling_stages
        self.conv_layers = nn.ModuleList(nn.Conv2d(dim, dim, 3, 1, 1) for _ in range(stages))
        self.norms = nn.ModuleList(nn.GroupNorm(8, dim) for _ in range(stages))

    def forward(self, levels: list[Tensor]) -> Tensor:
        """Join maps, finest first."""
        x = levels[-1]
        layers = zip(self.conv_layers, self.norms, strict=True)
        for finer, (conv, norm) in zip(reversed(levels[:-1]), layers, strict=False):
            x = finer + F.interpolate(x, finer.shape[-2:], mode="nearest")
            x = F.relu(norm(conv(x)))
        return x


class MaskPredictor(nn.Module):
    """Embeddings of masks."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.mask_embed = Mlp(dim, dim, dim, 3)


class SegmentationHead(nn.Module):
    """Masks of queries, and one of all that the text means."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        dim = config.d_model
        self.pixel_decoder = PixelDecoder(config)
        self.mask_predictor = MaskPredictor(dim)
        self.cross_attend_prompt = Attention(dim, config.nheads)
        self.cross_attn_norm = LayerNorm(dim)
        self.semantic_seg_head = nn.Conv2d(dim, 1, 1)
        self.instance_seg_head = nn.Conv2d(dim, dim, 1)

    def forward(
        self, image: Tensor, levels: list[Tensor], prompt: Tensor, keep: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the map for the masks and the semantic logits, from fused (B, hw, C) maps."""
        y = self.cross_attn_norm(image)
        image = image + self.cross_attend_prompt(y, prompt, prompt, keep[:, None, None])
        side = round(image.shape[1] ** 0.5)
        coarse = image.transpose(1, 2).unflatten(2, (side, side))
        x = self.pixel_decoder([*levels[:-1], coarse])
        return self.instance_seg_head(x), self.semantic_seg_head(x)


class Detector(nn.Module):
    """Fusion encoder and decoder."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        self.encoder = FusionEncoder(config)
        self.decoder = Decoder(config)


class Sam3(nn.Module):
    """SAM 3's detector: `state_dict` has the names and shapes of the published checkpoints."""

    def __init__(self, config: Sam3Config) -> None:
        super().__init__()
        self.config = config
        self.backbone = Backbone(config)
        self.geometry_encoder = GeometryEncoder(config)
        self.transformer = Detector(config)
        self.segmentation_head = SegmentationHead(config)
        self.dot_prod_scoring = Scoring(config)
        self.apply(_initialise)
        text = self.backbone.language_backbone.encoder
        for table in (text.positional_embedding, self.backbone.vision_backbone.trunk.pos_embed):
            nn.init.trunc_normal_(table, std=0.02)
        nn.init.uniform_(self.transformer.decoder.reference_points.weight, -2, 2)
        nn.init.zeros_(self.transformer.decoder.bbox_embed.layers[-1].weight)

    def forward(
        self, pixels: Tensor, ids: Tensor, boxes: Tensor | None = None, labels: Tensor | None = None
    ) -> Found:
        """Find what texts mean.

        Parameters
        ----------
        pixels : Tensor
            (P, 3, S, S) in -1..1.
        ids : Tensor
            (B, L) tokens; B / P texts in a row for each image.
        boxes, labels : Tensor, optional
            Examples (B, N, 4) and (B, N), as `GeometryEncoder` takes them.
        """
        if boxes is None or labels is None:
            boxes = pixels.new_zeros(len(ids), 0, 4)
            labels = ids.new_zeros(len(ids), 0)
        levels = self.backbone.vision_backbone(pixels)
        levels = [spread(m, len(ids) // len(pixels)) for m in levels]
        text, keep = self.backbone.language_backbone(ids), ids != 0
        top = levels[-1]
        image = top.flatten(2).transpose(1, 2)
        position = sine_positions(top.shape[1], top.shape[2], top.device).to(image.dtype)
        shape, there = self.geometry_encoder(image, position, boxes, labels)
        prompt, keep = torch.cat([text, shape.to(text.dtype)], 1), torch.cat([keep, there], 1)
        fused = self.transformer.encoder(image, position, prompt, keep)
        states, boxes, presence = self.transformer.decoder(fused, position, prompt, keep)
        scores = self.dot_prod_scoring(states, prompt, keep)
        maps, semantic = self.segmentation_head(fused, levels, prompt, keep)
        embed = self.segmentation_head.mask_predictor.mask_embed(states[-1])
        return Found(scores, boxes, presence, embed, maps, semantic)


def spread(x: Tensor, times: int) -> Tensor:
    """Repeat each map for so many texts."""
    return x[:, None].expand(-1, times, -1, -1, -1).flatten(0, 1)


def _initialise(module: nn.Module) -> None:
    """Truncated normal for linear layers and tables, PyTorch's choice for the rest."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=min(0.5 * module.in_features**-0.5, 0.3))
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.1)
