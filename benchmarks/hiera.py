"""Rows of SAM 2's image encoder for bench_layers.py: its stages, its neck and the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from arithmetic import block_gflop, blocks, hiera_gflop, neck_gflop
from workloads import SEED, tiny_sam2

VARIANTS = tiny_sam2.VARIANTS


def rows(config: tiny_sam2.ImageEncoderConfig, make: Callable[..., Any]) -> list[Any]:
    """Rows that `make` builds: one for each kind of block, the patches, the neck, the whole."""
    side, grid = config.image_size, config.image_size // 4
    image = {"x": (1, side, side, 3)}
    trunk = "image_encoder.trunk."
    sizes = {"in_chans": 3, "embed_dim": config.embed_dim}
    patches = 2e-9 * grid * grid * 147 * config.embed_dim
    found = [
        make("patch embedding", "sam2.PatchEmbed", f"{trunk}patch_embed.", sizes, image, 1, patches)
    ]
    kinds: dict[str, list[int]] = {}
    listed = blocks(config)
    for i, block in enumerate(listed):
        kinds.setdefault(repr(block), []).append(i)
    for indexes in kinds.values():
        block = dict(listed[indexes[0]])
        gflop, grid = block_gflop(block), block.pop("grid")
        window = f"windows of {block['window_size']}" if block["window_size"] else "global"
        stage = f"{grid}x{grid}x{block['dim']}, {window}" + (", pooling" * block["q_pool"])
        shape, name = {"x": (1, grid, grid, block["dim"])}, f"{trunk}blocks.{indexes[0]}."
        found.append(make(stage, "sam2.MultiScaleBlock", name, block, shape, len(indexes), gflop))
    grids = [config.image_size // 4 >> i for i in range(len(config.stages))]
    widths = list(reversed(config.backbone_channel_list))
    maps = {f"x{i}": (1, g, g, c) for i, (g, c) in enumerate(zip(grids, widths, strict=True))}
    neck = neck_gflop(config)
    name = "image_encoder.neck."
    found.append(make("neck", "sam2.FpnNeck", name, config.neck, maps, 1, neck, "neck."))
    whole = hiera_gflop(config)
    encoder = ("image encoder", "sam2.ImageEncoder", "image_encoder.", config.layer, image, 1)
    found.append(make(*encoder, whole))
    return found


def weights(variant: str) -> tiny_sam2.Weights:
    return tiny_sam2.image_encoder_weights(VARIANTS[variant], SEED)


def rival(variant: str, threads: int) -> Callable[[], Any]:
    """Return a call of upstream's encoder under PyTorch on the same weights and input."""
    import numpy as np
    import torch
    from support import upstream

    torch.set_num_threads(threads)
    config = VARIANTS[variant]
    module = upstream.build_sam2_image_encoder(config)
    stored = {k.removeprefix("image_encoder."): v for k, v in weights(variant).items()}
    upstream.load_state_dict(module, stored)
    shape = (1, 3, config.image_size, config.image_size)
    image = torch.from_numpy(np.random.default_rng(SEED).standard_normal(shape, dtype=np.float32))

    def call() -> Any:
        with torch.inference_mode():
            return module(image)

    return call
