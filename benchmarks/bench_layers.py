"""Time our layers at the sizes of a released network: where does the encoder's time go?

Needs an editable install, which has `sam_rlx._testing`. Rows are medians; the copies at the NumPy
border are part of them. `--rival` adds PyTorch's time for SAM 2's image encoder, and for the blocks
of SAM 3's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import hiera
import run
import vitdet
from arithmetic import decoder_gflop
from workloads import SEED, network, tiny


@dataclass(frozen=True)
class Row:
    """One layer: how often an image or a prompt needs it, and what it is called with."""

    stage: str
    layer: str
    prefix: str  # of its weights in a checkpoint
    config: dict[str, Any]
    inputs: dict[str, Any]
    count: int
    gflop: float  # of one call
    part: str = ""  # what the layer puts before its weights' names


def encoder_rows(config: tiny.SamConfig) -> list[Row]:
    width, grid = config.embed_dim, config.img_size // config.patch_size
    sizes = {
        "img_size": config.img_size,
        "patch_size": config.patch_size,
        "embed_dim": width,
        "num_heads": config.num_heads,
        "mlp_ratio": 4.0,
        "out_chans": config.out_chans,
    }
    tokens, patch = grid * grid, 3 * config.patch_size**2
    rows = [
        Row(
            "patch embedding",
            "sam.PatchEmbed",
            "image_encoder.patch_embed.",
            sizes,
            {"x": (1, config.img_size, config.img_size, 3)},
            1,
            2e-9 * tokens * patch * width,
        )
    ]
    blocks = range(config.depth)
    whole = [i for i in blocks if i in config.global_attn_indexes]
    windows = [i for i in blocks if i not in config.global_attn_indexes]
    for stage, indexes, side in (
        ("window blocks", windows, config.window_size),
        ("global blocks", whole, 0),
    ):
        if indexes:
            rows.append(_block_row(config, stage, indexes, side))
    out = config.out_chans
    neck = 2e-9 * tokens * (width * out + 9 * out * out)
    shape = {"x": (1, grid, grid, width)}
    rows.append(Row("neck", "sam.Neck", "image_encoder.neck.", sizes, shape, 1, neck))
    return rows


def _block_row(config: tiny.SamConfig, stage: str, indexes: list[int], window: int) -> Row:
    width, grid = config.embed_dim, config.img_size // config.patch_size
    side = window or grid
    tokens, seen = grid * grid, tokens_seen(grid, side)
    gflop = seen * 4 * width * width + 2 * seen * side * side * width
    gflop += 2 * seen * side * width + tokens * 8 * width * width
    sizes = {"dim": width, "num_heads": config.num_heads, "mlp_ratio": 4.0}
    return Row(
        stage,
        "sam.Block",
        f"image_encoder.blocks.{indexes[0]}.",
        {**sizes, "window_size": window, "input_size": grid},
        {"x": (1, grid, grid, width)},
        len(indexes),
        2e-9 * gflop,
    )


def tokens_seen(grid: int, side: int) -> int:
    """Tokens of all windows, padding included."""
    return (-(-grid // side) * side) ** 2


def decoder_rows(config: tiny.SamConfig) -> list[Row]:
    width, grid = config.out_chans, config.img_size // config.patch_size
    sizes = {
        "depth": 2,
        "embedding_dim": width,
        "num_heads": 8,
        "mlp_dim": config.mlp_dim,
        "attention_downsample_rate": 2,
        "iou_head_hidden_dim": config.iou_head_hidden_dim,
    }
    maps, tokens = (1, grid, grid, width), 7
    transformer = {"image_embedding": maps, "image_pe": maps, "point_embedding": (1, tokens, width)}
    decoder = {
        "image_embeddings": maps,
        "image_pe": maps,
        "sparse_prompt_embeddings": (1, tokens - 5, width),
        "dense_prompt_embeddings": maps,
        "multimask_output": True,
    }
    positions = grid * grid
    upscaling = positions * width * width + positions * width * width // 2 + 2 * positions * width
    whole = decoder_gflop(config)
    return [
        Row(
            "two-way transformer",
            "sam.TwoWayTransformer",
            "mask_decoder.transformer.",
            sizes,
            transformer,
            1,
            whole - 2e-9 * upscaling,
        ),
        Row("mask decoder", "sam.MaskDecoder", "mask_decoder.", sizes, decoder, 1, whole),
    ]


def prepared(row: Row, weights: tiny.Weights, isa: str | None, threads: int) -> Callable[[], Any]:
    """Build the layer and return a call of it on random inputs."""
    from sam_rlx import _testing

    rng = np.random.default_rng(SEED)
    inputs = {
        name: rng.standard_normal(value, dtype=np.float32) if isinstance(value, tuple) else value
        for name, value in row.inputs.items()
    }
    stored = [name for name in weights if name.startswith(row.prefix)]
    own = {row.part + name.removeprefix(row.prefix): weights[name] for name in stored}
    layer = _testing.layer(row.layer, row.config, own, isa=isa, num_threads=threads)
    return lambda: layer.forward(**inputs)


def measure(call: Callable[[], Any], rounds: int) -> list[float]:
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def rows_of(variant: str) -> tuple[list[Row], tiny.Weights]:
    """Rows of a variant, and the weights of the network they belong to."""
    if variant in hiera.VARIANTS:
        return hiera.rows(hiera.VARIANTS[variant], Row), hiera.weights(variant)
    if variant in vitdet.VARIANTS:
        return vitdet.rows(vitdet.VARIANTS[variant], Row), vitdet.weights(variant)
    config = network(variant)
    return encoder_rows(config) + decoder_rows(config), tiny.sam_weights(config, SEED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    variants = ["tiny", *tiny.VARIANTS, *hiera.VARIANTS, *vitdet.VARIANTS]
    parser.add_argument("--variant", default="vit_b", choices=variants)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--isa", default=None)
    parser.add_argument("--rival", action="store_true", help="SAM 2 and 3: also time PyTorch")
    options = parser.parse_args()
    rows, weights = rows_of(options.variant)
    print(run.heading(f"Layers of {options.variant}", options.threads) + "\n")
    print("| stage | calls | ms, median | [min, max] | GFLOP/s | ms in all |")
    print("| --- | --- | --- | --- | --- | --- |")

    def show(row: Row, call: Callable[[], Any]) -> None:
        times = [1e3 * t for t in measure(call, options.rounds)]
        median = statistics.median(times)
        print(
            f"| {row.stage} | {row.count} | {median:.2f} | [{min(times):.2f}, {max(times):.2f}] "
            f"| {1e3 * row.gflop / median:.0f} | {row.count * median:.1f} |",
            flush=True,
        )

    for row in rows:
        show(row, prepared(row, weights, options.isa, options.threads))
    if options.rival and options.variant in hiera.VARIANTS:
        named = replace(rows[-1], stage="image encoder, PyTorch")
        show(named, hiera.rival(options.variant, options.threads))
    if options.rival and options.variant in vitdet.VARIANTS:
        for row, call in zip(rows, vitdet.rivals(options.variant, options.threads), strict=False):
            show(replace(row, stage=f"{row.stage}, PyTorch"), call)


if __name__ == "__main__":
    main()
