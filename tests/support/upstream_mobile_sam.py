"""MobileSAM's package, `mobilesam-mirror` on the package index: imports as `mobile_sam`."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from support import tiny, tiny_mobile_sam, upstream
from support.tiny_mobile_sam import TinyViTConfig

with warnings.catch_warnings():
    # It imports timm by old names, and registers networks that timm has too.
    warnings.simplefilter("ignore")
    from mobile_sam import SamAutomaticMaskGenerator, SamPredictor, sam_model_registry
    from mobile_sam.modeling import tiny_vit_sam

Conv2d_BN = tiny_vit_sam.Conv2d_BN
registry = sam_model_registry
__all__ = ["SamAutomaticMaskGenerator", "SamPredictor"]


def mb_conv(channels: int, expand_ratio: int) -> Any:
    return tiny_vit_sam.MBConv(channels, channels, expand_ratio, torch.nn.GELU, 0.0)


def patch_merging(dim: int, out_dim: int) -> Any:
    return tiny_vit_sam.PatchMerging((1, 1), dim, out_dim, torch.nn.GELU)


def block(dim: int, resolution: tuple[int, int], heads: int, window: int) -> Any:
    return tiny_vit_sam.TinyViTBlock(dim, resolution, heads, window_size=window)


class TinyViT(tiny_vit_sam.TinyViT):  # type: ignore[misc]
    """Upstream's trunk without its classifier, at any side: upstream has the last grid fixed."""

    def __init__(self, img_size: int, out_chans: int = 256, patch_kernel: int = 3, **sizes: Any):
        # Upstream divides the side by 4, whatever the first convolutions do.
        side = img_size if patch_kernel == 3 else 4 * img_size
        super().__init__(img_size=side, num_classes=0, drop_path_rate=0.0, **sizes)
        self.img_size = img_size
        del self.norm_head, self.head
        width = sizes["embed_dims"][-1]
        if patch_kernel == 1:
            first = sizes["embed_dims"][0]
            self.patch_embed.seq[0] = Conv2d_BN(3, first // 2, 1, 1, 0)
            self.patch_embed.seq[2] = Conv2d_BN(first // 2, first, 1, 1, 0)
        if out_chans != 256:
            self.neck = torch.nn.Sequential(
                torch.nn.Conv2d(width, out_chans, 1, bias=False),
                tiny_vit_sam.LayerNorm2d(out_chans),
                torch.nn.Conv2d(out_chans, out_chans, 3, padding=1, bias=False),
                tiny_vit_sam.LayerNorm2d(out_chans),
            )

    def forward(self, x: Any) -> Any:
        x = self.patch_embed(x)
        for layer in self.layers:
            x = layer(x)
        height, width = self.layers[-1].input_resolution
        return self.neck(upstream.channels_first(x.view(len(x), height, width, -1)))


def build_sam(config: TinyViTConfig, heads: tiny.SamConfig, seed: int | None = 0) -> Any:
    """Build `Sam` with MobileSAM's trunk, with random weights unless `seed` is None."""
    model = upstream.build_sam(heads, seed=None)
    model.image_encoder = TinyViT(
        heads.img_size, config.out_chans, config.patch_kernel, **config.sizes()
    )
    if config.patch_kernel == 1:  # LiteMedSAM takes pixels of 0 to 1
        model.pixel_mean = torch.zeros(3, 1, 1)
        model.pixel_std = torch.full((3, 1, 1), 255.0)
    if seed is not None:
        weights = tiny_mobile_sam.weights(config, heads, seed)
        upstream.load_state_dict(model, weights)
    return model.eval()
