"""Rows of SAM 3's image encoder for bench_layers.py: its blocks and its necks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from workloads import SEED, tiny, tiny_sam3

VARIANTS = {"sam3": tiny_sam3.RELEASED, "sam3-tiny": tiny_sam3.TINY}
# What the mask decoder makes of the two finer maps of the second neck.
_PROJECTIONS = (8, 4)


def _blocks(config: tiny_sam3.Sam3Config) -> tuple[int, int]:
    """Return a block with windows and a global one."""
    windows = next(i for i in range(config.depth) if i not in config.global_att_blocks)
    return windows, config.global_att_blocks[0]


def block_gflop(config: tiny_sam3.Sam3Config, side: int) -> float:
    """Arithmetic of a block with windows of `side`; the grid is a multiple of it."""
    tokens, width = config.grid**2, config.embed_dim
    total = tokens * width * (4 * width + 2 * int(width * config.mlp_ratio))
    return 2e-9 * (total + 2 * tokens * side * side * width)


def neck_gflop(config: tiny_sam3.Sam3Config) -> float:
    """Arithmetic of the kept levels of one set, as upstream does it."""
    total, width, out = 0.0, config.embed_dim, config.d_model
    for factor in config.scale_factors[: -config.scalp]:
        side, channels = config.grid, width
        while side < factor * config.grid:
            total += side * side * channels * 4 * (channels // 2)
            side, channels = 2 * side, channels // 2
        total += side * side * out * (channels + 9 * out)
    return 2e-9 * total


def rows(config: tiny_sam3.Sam3Config, make: Callable[..., Any]) -> list[Any]:
    """Rows that `make` builds: both kinds of block, and both necks."""
    grid, width = config.grid, config.embed_dim
    shape = {"x": (1, grid, grid, width)}
    kinds = zip(_blocks(config), (config.window_size, grid), strict=True)
    found = []
    for index, side in kinds:
        whole = index in config.global_att_blocks
        stage = "global blocks" if whole else f"blocks with windows of {side}"
        count = len(config.global_att_blocks)
        found.append(
            make(
                stage,
                "sam3.Block",
                f"trunk.blocks.{index}.",
                {**config.vision, "global": whole},
                shape,
                count if whole else config.depth - count,
                block_gflop(config, side),
            )
        )
    kept = {
        "embed_dim": width,
        "d_model": config.d_model,
        "scale_factors": list(config.scale_factors[: -config.scalp]),
    }
    clicks = {**kept, "projections": [config.d_model // n for n in _PROJECTIONS]}
    gflop = neck_gflop(config)
    name = "sam3.NeckBranches"
    found.append(make("neck", name, "detector.", kept, shape, 1, gflop))
    found.append(make("neck of clicks and videos", name, "tracker.", clicks, shape, 1, gflop))
    return found


def weights(variant: str) -> tiny.Weights:
    config = VARIANTS[variant]
    shapes = tiny_sam3.trunk_shapes(config, blocks=_blocks(config))
    kept = len(config.scale_factors) - config.scalp
    for prefix in ("detector.", "tracker."):
        for key, shape in tiny_sam3.branch_shapes(config).items():
            if int(key.split(".")[1]) < kept:
                shapes[prefix + key] = shape
    for i, n in enumerate(_PROJECTIONS):
        width = config.d_model // n
        shapes[f"tracker.projections.{i}.weight"] = (width, config.d_model, 1, 1)
        shapes[f"tracker.projections.{i}.bias"] = (width,)
    return tiny.random_state_dict(shapes, SEED)


def rivals(variant: str, threads: int) -> Iterator[Callable[[], Any]]:
    """Yield a call of PyTorch for each row of a block, on input of the same shape."""
    from functools import partial

    import torch
    from support import upstream_sam3

    torch.set_num_threads(threads)
    config = VARIANTS[variant]
    for index in _blocks(config):
        whole = index in config.global_att_blocks
        block = upstream_sam3.sam3.vitdet.Block(
            config.embed_dim,
            config.num_heads,
            config.mlp_ratio,
            norm_layer=partial(torch.nn.LayerNorm, eps=1e-5),
            window_size=0 if whole else config.window_size,
            input_size=(config.grid, config.grid),
            use_rope=True,
            rope_pt_size=(config.window_size, config.window_size),
            rope_interp=True,
        ).eval()
        x = torch.randn(1, config.grid, config.grid, config.embed_dim)

        def call(block: Any = block, x: Any = x) -> Any:
            with torch.inference_mode():
                return block(x)

        yield call
