"""Print each image encoder beside the roofline of this machine, as a Markdown table.

    python benchmarks/roofline.py --threads 2

The arithmetic is what the library has to do: windows without their padding, folded convolutions, no
dropped level, and what the prompts of an image share, which is made with the image. Bytes are
what every layer reads and writes at least: its weights, inputs and results once, as float32. A time
below either roof is impossible, however the code is written.

The peak is the best tenth of a second before and after each image. On a shared machine it changes
by a fifth from one minute to the next, so "of the chains" is beside what the same multiply-adds
reach meanwhile, for a hundredth of a second at a time between the image's layers. The shares are
medians of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import arithmetic
import client
import peak
import run
from workloads import ENCODERS, Workload, all_workloads

COPIED = 1 << 27  # floats: more than any cache holds


class Work(NamedTuple):
    """Multiply-adds, and numbers read or written."""

    products: int
    numbers: int


def linear(rows: int, inner: int, columns: int) -> Work:
    """Work of a product of a matrix with a weight."""
    return Work(rows * inner * columns, rows * inner + inner * columns + rows * columns)


def attention(queries: int, tokens: int, keys: int, width: int, relative: int = 0) -> Work:
    """Work of queries that see so many of all tokens' keys, and `relative` rows of tables."""
    products = queries * (2 * keys + relative) * width
    return Work(products, 2 * (queries + tokens) * width)


def shared_by_clicks(tokens: int, width: int) -> Iterator[Work]:
    """Keys, values and queries of the map for the mask decoder's first layer."""
    for _ in range(3):
        yield linear(tokens, width, width // 2)


def vit(config: Any) -> Iterator[Work]:
    """SAM's image encoder."""
    width, grid = config.embed_dim, config.img_size // config.patch_size
    tokens = grid * grid
    yield linear(tokens, 3 * config.patch_size**2, width)
    for block in range(config.depth):
        side = grid if block in config.global_attn_indexes else config.window_size
        yield linear(tokens, width, 3 * width)
        yield attention(tokens, tokens, side * side, width, relative=2 * side)
        yield linear(tokens, width, width)
        yield linear(tokens, width, 4 * width)
        yield linear(tokens, 4 * width, width)
    yield linear(tokens, width, config.out_chans)
    yield linear(tokens, 9 * config.out_chans, config.out_chans)
    yield from shared_by_clicks(tokens, config.out_chans)


def hiera(config: Any) -> Iterator[Work]:
    """SAM 2's, with the maps that its decoder needs."""
    yield linear((config.image_size // 4) ** 2, 147, config.embed_dim)
    for block in arithmetic.blocks(config):
        dim, out, grid = block["dim"], block["dim_out"], block["grid"]
        tokens = grid * grid
        queries = tokens // 4 if block["q_pool"] else tokens
        yield linear(tokens, dim, 3 * out)
        yield attention(queries, tokens, (block["window_size"] or grid) ** 2, out)
        yield linear(queries, out, out)
        yield linear(queries, out, 4 * out)
        yield linear(queries, 4 * out, out)
        if block["q_pool"]:
            yield linear(tokens, dim, out)
    width = config.d_model
    for i, channels in enumerate(reversed(config.backbone_channel_list)):
        folded = (width // 8, width // 4, width, width)[i]
        yield linear((config.image_size // 4 >> i) ** 2, channels, folded)
    yield from shared_by_clicks((config.image_size // 16) ** 2, width)


def sam3(config: Any) -> Iterator[Work]:
    """SAM 3's trunk, and the levels of its neck that are read."""
    width, grid, d_model = config.embed_dim, config.grid, config.d_model
    tokens, hidden = grid * grid, int(config.embed_dim * config.mlp_ratio)
    yield linear(tokens, 3 * config.patch_size**2, width)
    for block in range(config.depth):
        side = grid if block in config.global_att_blocks else config.window_size
        yield linear(tokens, width, 3 * width)
        yield attention(tokens, tokens, side * side, width)
        yield linear(tokens, width, width)
        yield linear(tokens, width, hidden)
        yield linear(tokens, hidden, width)
    for factor in config.scale_factors[: -config.scalp]:
        inner, side, channels = width, grid, d_model
        while factor > 1:
            # Four maps of half the width; the last ones folded with the convolution behind them.
            channels = inner // 2 if factor > 2 else d_model
            yield linear(side * side, inner, 4 * channels)
            inner, side, factor = channels, 2 * side, factor / 2
        if inner == width:
            yield linear(side * side, width, d_model)
        yield linear(side * side, 9 * d_model, d_model)
        if side > grid:
            yield linear(side * side, 9 * d_model, d_model)  # of the pixel decoder, for all texts
    # The fusion encoder's first self attention, for all texts.
    yield linear(tokens, d_model, 4 * d_model)
    yield attention(tokens, tokens, tokens, d_model)


LAYERS = {"sam": vit, "sam2": hiera, "sam3": sam3}


def own(workload: Workload) -> Work:
    """All that the library has to do for an image."""
    layers = list(LAYERS[workload.family](workload.config))
    return Work(sum(layer.products for layer in layers), sum(layer.numbers for layer in layers))


def copied_bytes_per_second(threads: int) -> float:
    """Bytes read and written by the best of ten copies."""
    from sam_rlx import _testing

    times = _testing.bench.copy(COPIED, 10, num_threads=threads)
    return float(8 * COPIED / min(wall for wall, _ in times))


class Round(NamedTuple):
    """One image: seconds, the peak in GFLOP/s, and what the chains would have done, in GFLOP."""

    seconds: float
    peak: float
    chains: float


def measure(workload: Workload, threads: int, rounds: int) -> list[Round]:
    """Time images, with the peak of the machine before and after each."""
    measured = []
    with client.Worker("sam_rlx", workload, threads) as worker:
        worker.prepare()
        worker.run()
        time.sleep(client.SETTLE_S)
        before = peak.gflops(threads)
        for _ in range(rounds):
            seconds, chains = worker.run_beside_chains(threads)
            time.sleep(client.SETTLE_S)
            after = peak.gflops(threads)
            measured.append(Round(seconds, (before + after) / 2, chains))
            before = after
    return measured


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workloads", nargs="+", default=[*ENCODERS, "sam3-encoder"])
    parser.add_argument("--quick", action="store_true", help="tiny networks: does it all run?")
    options = parser.parse_args()
    table = all_workloads("tiny" if options.quick else "vit_b", options.quick)
    moved = copied_bytes_per_second(options.threads)
    print(f"{run.heading('Roof', options.threads)}\n\nCopies at {1e-9 * moved:.0f} GB/s.\n")
    columns = ("encoder", "upstream, GFLOP", "own, GFLOP", "GB", "peak, GFLOP/s", "roof, s")
    print(f"| {' | '.join(columns)} | memory, s | s | of the roof | of the chains |")
    print("| --- " * 10 + "|")
    for name in options.workloads:
        workload, work = table[name], own(table[name])
        if not workload.ours.exists() and not client.export([workload]):
            sys.exit("roofline.py: random weights need PyTorch and upstream's packages")
        try:
            rows = measure(workload, options.threads, options.rounds)
        except client.EngineFailedError as error:
            sys.exit(f"roofline.py: {name}: {error}")
        gflop = 2e-9 * work.products
        top = statistics.median(row.peak for row in rows)
        seconds = statistics.median(row.seconds for row in rows)
        share = statistics.median(gflop / row.peak / row.seconds for row in rows)
        meanwhile = statistics.median(gflop / row.chains for row in rows)
        print(
            f"| {name} {workload.variant} | {workload.gflop():.1f} | {gflop:.1f} | "
            f"{4e-9 * work.numbers:.2f} | {top:.0f} | {gflop / top:.2f} | "
            f"{4 * work.numbers / moved:.2f} | {seconds:.2f} | {100 * share:.0f} % | "
            f"{100 * meanwhile:.0f} % |",
            flush=True,
        )


if __name__ == "__main__":
    main()
