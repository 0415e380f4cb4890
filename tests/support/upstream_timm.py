"""timm's RepViT, the trunk of EdgeTAM, at any size."""

from __future__ import annotations

from typing import Any

import timm
import torch
from timm.layers import SqueezeExcite
from timm.models import repvit

from support.tiny_edgetam import EdgeTamConfig

__all__ = ["SqueezeExcite"]


def block(dim: int, mlp_ratio: int, use_se: bool) -> Any:
    return repvit.RepViTBlock(dim, mlp_ratio, 3, use_se, torch.nn.GELU, legacy=True).eval()


def downsample(dim: int, out_dim: int, mlp_ratio: int) -> Any:
    return repvit.RepVitDownsample(dim, mlp_ratio, out_dim, 3, torch.nn.GELU, legacy=True).eval()


def trunk(config: EdgeTamConfig) -> Any:
    """Build what EdgeTAM's ``TimmBackbone`` calls `body`, in evaluation."""
    return timm.create_model(
        "repvit_m1",
        pretrained=False,
        features_only=True,
        out_indices=tuple(range(len(config.depth))),
        embed_dim=config.embed_dim,
        depth=config.depth,
        mlp_ratio=config.mlp_ratio,
    ).eval()


class Body(torch.nn.Module):
    """The trunk with upstream's name in it."""

    def __init__(self, config: EdgeTamConfig) -> None:
        super().__init__()
        self.body = trunk(config)

    def forward(self, x: Any) -> Any:
        return self.body(x)


def fused(module: Any) -> Any:
    """Return a copy whose batch norms are a part of its convolutions."""
    import copy

    from timm.utils.model import reparameterize_model

    return reparameterize_model(copy.deepcopy(module)).eval()
