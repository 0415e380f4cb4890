"""EfficientSAM3's trunks at any size: timm's RepViT and TinyViT behind upstream's names."""

from __future__ import annotations

import re
from typing import Any

import torch
from timm.models import repvit, tiny_vit

from support.tiny import Weights

# From timm's names to those of THU-MIG/RepViT and wkcn/TinyViT, which upstream has copies of.
_BLOCK = (
    (r"\.token_mixer\.(?=\D)", ".token_mixer.0."),
    (r"\.se\.", ".token_mixer.1."),
    (r"\.spatial_downsample\.", ".token_mixer.0."),
    (r"\.channel_downsample\.", ".token_mixer.2."),
    (r"\.(ffn|channel_mixer)\.conv1\.", ".channel_mixer.m.0."),
    (r"\.(ffn|channel_mixer)\.conv2\.", ".channel_mixer.m.2."),
)
_TINY_VIT = (
    (r"^patch_embed\.conv1\.", "patch_embed.seq.0."),
    (r"^patch_embed\.conv2\.", "patch_embed.seq.2."),
    (r"^stages\.", "layers."),
    (r"\.conv\.weight$", ".c.weight"),
)


def _replaced(name: str, rows: tuple[tuple[str, str], ...]) -> str:
    for pattern, replacement in rows:
        name = re.sub(pattern, replacement, name)
    return name


def _rep_vit_name(name: str, depth: tuple[int, ...]) -> str:
    if name.startswith("stem."):
        return re.sub(r"^stem\.conv([12])", lambda m: f"features.0.{2 * int(m[1]) - 2}", name)
    found = re.match(r"stages\.(\d+)\.(blocks\.\d+|downsample)\.(pre_block\.)?(.*)", name)
    assert found, name
    stage, part, inner = int(found[1]), found[2], found[4]
    first = 1 + sum(depth[:stage]) + 2 * max(stage - 1, 0)  # of what comes before the blocks
    if part == "downsample":
        index = first if found[3] else first + 1
    else:
        index = first + (2 if stage else 0) + int(part.split(".")[1])
    return f"features.{index}" + _replaced(f".{inner}", _BLOCK)


def _tiny_vit_name(name: str) -> str:
    name = _replaced(name, _TINY_VIT)
    # timm halves the map before a stage, upstream behind the layer before it.
    return re.sub(
        r"^layers\.(\d+)\.downsample", lambda m: f"layers.{int(m[1]) - 1}.downsample", name
    )


class Student(torch.nn.Module):
    """What upstream calls `ListWrapper` of `ImageStudentEncoder`: a trunk for SAM 3's neck.

    Parameters
    ----------
    sizes : dict
        As `_testing.layer` takes them: `img_size`, `patch_size`, `embed_dim`, and `rep_vit` or
        `tiny_vit`.
    """

    def __init__(self, sizes: dict[str, Any]) -> None:
        super().__init__()
        self.grid = sizes["img_size"] // sizes["patch_size"]
        self.depth: tuple[int, ...] | None = None
        if "rep_vit" in sizes:
            given = {key: value for key, value in sizes["rep_vit"].items() if key != "image_size"}
            self.depth = tuple(given["depth"])
            self.network = repvit.RepVit(num_classes=0, distillation=False, **given)
            width = given["embed_dim"][-1]
        else:
            self.network = tiny_vit.TinyVit(num_classes=0, **sizes["tiny_vit"])
            width = sizes["tiny_vit"]["embed_dims"][-1]
        # What timm has behind the map.
        self.network.head = torch.nn.Identity()
        dim = sizes["embed_dim"]
        self.head = torch.nn.Sequential(
            torch.nn.Conv2d(width, dim, 1, bias=False),
            torch.nn.BatchNorm2d(dim),
            torch.nn.GELU(),
            torch.nn.Conv2d(dim, dim, 3, padding=1),
        )
        self.channel_list = [dim]
        self.eval()

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Images (B, 3, S, S) -> one map (B, embed_dim, grid, grid)."""
        for module in self.network.modules():
            if isinstance(module, tiny_vit.Attention):
                module.attention_bias_cache.clear()  # of another precision
        x = self.head(self.network.forward_features(x))
        if x.shape[-1] != self.grid:
            sides = (self.grid, self.grid)
            x = torch.nn.functional.interpolate(x, sides, mode="bilinear", align_corners=False)
        return [x]

    def renamed(self, weights: Weights, prefix: str = "") -> Weights:
        """Return weights with upstream's names of this trunk, which is at a prefix."""
        found = {}
        for name, value in weights.items():
            network, head = f"{prefix}network.", f"{prefix}head."
            new = name
            if name.startswith(network):
                inner = name.removeprefix(network)
                inner = _rep_vit_name(inner, self.depth) if self.depth else _tiny_vit_name(inner)
                new = f"{prefix}model.backbone.model.{inner}"
            elif name.startswith(head):
                new = f"{prefix}model.{name.removeprefix(prefix)}"
            found[new] = value
        return found
