"""Speed of ops and of kernels on the sizes of SAM's layers, against the measured peak.

    python benchmarks/bench_ops.py --threads 1 2 --isa avx512 avx2
    python benchmarks/bench_ops.py --kernels

Needs an editable install (`sam_rlx._testing`). NumPy and PyTorch run the same products, each in a
process of its own, when they are installed. A figure is the best of several runs; with one thread
it counts processor time, so that other work on the machine does not enter. GFLOP/s are compared
with the machine's float32 multiply-adds, GB/s with a plain copy. Every kernel of every instruction
set is measured alone, too, on one core and on blocks that stay in the cache.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time

import peak
import run

LINEAR = [  # m, k, n, what is fused
    (4096, 768, 2304, ""),
    (4096, 768, 3072, "gelu"),
    (4096, 3072, 768, "residual"),
    (4096, 768, 768, "residual"),
    (4096, 256, 128, ""),
    (4096, 56, 256, ""),
    (64, 256, 256, ""),
    (7, 256, 2048, ""),
    (7, 2048, 256, ""),
]
BLOCKS = ["Q8_0", "Q6_K", "Q5_K", "Q4_K", "Q4_0"]
ATTENTION = [(0, False), (0, True), (14, False), (14, True)]  # window, relative position
DISTANCES = [(128, 4, 7), (64, 5, 14), (64, 10, 7)]  # side of the map, heads, window
MEMORY = [(1, False), (2, False), (2, True), (7, False), (7, True)]  # maps, without keys


COPIED = 4096 * 768  # numbers that the copy of the ops moves, from and to memory
CACHED = 128 * 768  # and the copy of the kernels: the size of their blocks
KERNEL_REPETITIONS = 40


def best(times, threads):
    return min(cpu if threads == 1 else wall for wall, cpu in times)


def repetitions(work):
    """About one second of runs, at least 3."""
    return int(min(200, max(3, 1e11 / work)))


def memory_rows(bench, threads, common):
    work = 2 * 128 * 128 * 9 * 16 * 64
    yield (
        "conv3x3 stride 2 256x256 16->64",
        work,
        "FLOP",
        best(bench.conv2d(256, (16, 64), (3, 2, 1), 10, **common), threads),
    )
    work = 2 * 4096 * 49 * 256
    yield (
        "depthwise 7x7 64x64 256",
        work,
        "FLOP",
        best(bench.depthwise_conv(64, 256, 7, 20, **common), threads),
    )
    work = 2 * 128 * 128 * 9 * 128
    yield (
        "depthwise 3x3 stride 2 256x256 128",
        work,
        "FLOP",
        best(bench.depthwise_conv(256, 128, 3, 20, stride=2, **common), threads),
    )
    for maps, factored in MEMORY:
        work = 2 * (256 + 64) * 4096 * 4096 * maps
        times = bench.position_attention(64, maps, factored, 3, **common)
        name = f"attention to {maps} maps of memory"
        # Counted as keys that are made; without them less work is done.
        yield f"{name}{', no keys' if factored else ''}", work, "FLOP", best(times, threads)


def block_rows(bench, threads, common):
    """A layer of SAM 3's trunk, its weight as float32 and as GGUF's blocks."""
    m, k, n = 4096, 1024, 4096
    work = 2 * m * k * n
    common = {"repetitions": repetitions(work), **common}
    yield f"linear {m}x{k}x{n}", work, "FLOP", best(bench.linear(m, k, n, **common), threads)
    for name in BLOCKS:
        times = bench.linear_blocks(m, k, n, name, **common)
        yield f"linear {m}x{k}x{n} {name}", work, "FLOP", best(times, threads)


def moving_rows(bench, threads, common):
    """Ops that are bound by what they read and write."""
    size = 4096 * 768
    times = bench.layer_norm(4096, 768, 50, **common)
    yield "layer_norm 4096x768", 8 * size, "B", best(times, threads)
    times = bench.gelu(4 * size, 20, **common)
    yield "gelu 4096x3072", 16 * size * 2, "B", best(times, threads)
    times = bench.rotate(64, 256, 50, **common)
    yield "rotate 64x64 256", 8 * 4096 * 256, "B", best(times, threads)
    times = bench.max_pool(256, 96, 20, **common)
    yield "max_pool 2x2 256x256 96", 5 * 256 * 256 * 96, "B", best(times, threads)
    times = bench.squeeze_excite(256, 48, 20, **common)
    yield "squeeze and excite 256x256 48", 12 * 256 * 256 * 48, "B", best(times, threads)
    times = bench.weighted_conv(256, 64, 20, **common)
    yield "weighted conv3x3 256x256 64->1", 4 * 256 * 256 * 97, "B", best(times, threads)
    for side, out, antialias in ((256, 1024, False), (1500, 1008, True)):
        times = bench.resize(side, out, antialias, 10, **common)
        name = f"resize{' antialias' if antialias else ''} 3 x {side} -> {out}"
        yield name, 12 * (side * side + out * out), "B", best(times, threads)


def peak_rows(bench, isa, threads, copied):
    yield "peak", peak.flop(isa), "FLOP", best(bench.peak(200, isa=isa), 1)
    yield "copy", 8 * copied, "B", best(bench.copy(copied, 20, num_threads=threads), threads)


def kernels(isa):
    """Rows of the kernels alone, as those of `ours`."""
    from sam_rlx import _testing

    bench = _testing.bench
    yield from peak_rows(bench, isa, 1, CACHED)
    for name, size in bench.kernels():
        work, unit, times = bench.kernel(name, KERNEL_REPETITIONS, isa=isa)
        yield f"{name} {size}".strip(), work, unit, best(times, 1)


def ours(isa, threads):
    """Rows (name, operations or bytes, unit, seconds)."""
    from sam_rlx import _testing

    bench, common = _testing.bench, {"isa": isa, "num_threads": threads}
    yield from peak_rows(bench, isa, threads, COPIED)
    for m, k, n, fused in LINEAR:
        work = 2 * m * k * n
        options = {fused: True} if fused else {}
        times = bench.linear(m, k, n, repetitions=repetitions(work), **options, **common)
        yield f"linear {m}x{k}x{n} {fused}", work, "FLOP", best(times, threads)
        for weights in ("int8", "bfloat16"):
            times = bench.linear(
                m, k, n, format=weights, repetitions=repetitions(work), **options, **common
            )
            yield f"linear {m}x{k}x{n} {fused} {weights}", work, "FLOP", best(times, threads)
    yield from block_rows(bench, threads, common)
    for window, rel_pos in ATTENTION:
        work = 4 * 12 * 64 * 4096 * (window * window or 4096)
        times = bench.window_attention(
            64, 12, 64, window, rel_pos, repetitions=repetitions(work), **common
        )
        name = f"attention ViT-B {f'window {window}' if window else 'global'}"
        yield f"{name}{' rel-pos' if rel_pos else ''}", work, "FLOP", best(times, threads)
    for side, heads, window in DISTANCES:
        work = 4 * heads * 32 * side * side * window * window
        times = bench.window_attention(
            side, heads, 32, window, False, 10, distance_bias=True, **common
        )
        yield f"attention TinyViT {side}x{side} window {window}", work, "FLOP", best(times, threads)
    work = 2 * 4096 * 9 * 256 * 256
    yield (
        "conv3x3 64x64 256->256",
        work,
        "FLOP",
        best(bench.conv2d(64, (256, 256), (3, 1, 1), 10, **common), threads),
    )
    work = 2 * 4096 * 768 * 768
    yield (
        "conv_patch 16 1024x1024 3->768",
        work,
        "FLOP",
        best(bench.conv2d(1024, (3, 768), (16, 16, 0), 10, **common), threads),
    )
    yield from memory_rows(bench, threads, common)
    yield from moving_rows(bench, threads, common)


def clock(run, work, threads):
    now = time.thread_time if threads == 1 else time.perf_counter
    run()
    seconds = []
    for _ in range(repetitions(work)):
        start = now()
        run()
        seconds.append(now() - start)
    return min(seconds)


def numpy_rows(threads):
    import numpy as np

    random = np.random.default_rng(0)
    for m, k, n, fused in LINEAR:
        a, b = random.random((m, k), np.float32), random.random((k, n), np.float32)
        out, work = np.empty((m, n), np.float32), 2 * m * k * n
        seconds = clock(lambda a=a, b=b, out=out: np.matmul(a, b, out=out), work, threads)
        yield f"linear {m}x{k}x{n} {fused}", work, "FLOP", seconds


def torch_rows(threads):
    import torch

    torch.set_num_threads(threads)
    functional = torch.nn.functional
    with torch.inference_mode():
        for m, k, n, fused in LINEAR:
            x, w, b = torch.rand(m, k), torch.rand(n, k), torch.rand(n)
            other, work = torch.rand(m, n), 2 * m * k * n

            def run(x=x, w=w, b=b, fused=fused, other=other):
                y = functional.linear(x, w, b)
                if fused == "gelu":
                    functional.gelu(y)
                elif fused == "residual":
                    torch.add(y, other)

            yield f"linear {m}x{k}x{n} {fused}", work, "FLOP", clock(run, work, threads)
        q, k, v = (torch.rand(1, 12, 4096, 64) for _ in range(3))
        work = 4 * 12 * 64 * 4096 * 4096
        run = lambda: functional.scaled_dot_product_attention(q, k, v)  # noqa: E731
        yield "attention ViT-B global", work, "FLOP", clock(run, work, threads)
        for side, heads, window in DISTANCES:
            windows = (-(-side // window)) ** 2  # padded
            q, k, v = (torch.rand(windows, heads, window * window, 32) for _ in range(3))
            bias = torch.rand(1, heads, window * window, window * window)
            work = 4 * heads * 32 * side * side * window * window
            run = lambda q=q, k=k, v=v, bias=bias: functional.scaled_dot_product_attention(  # noqa: E731
                q, k, v, attn_mask=bias
            )
            yield (
                f"attention TinyViT {side}x{side} window {window}",
                work,
                "FLOP",
                clock(run, work, threads),
            )
        for maps in (1, 2, 7):
            q, k = torch.rand(1, 1, 4096, 256), torch.rand(1, 1, 4096 * maps, 256)
            work = 2 * (256 + 64) * 4096 * 4096 * maps  # of ours: here values are as wide as keys
            run = lambda q=q, k=k: functional.scaled_dot_product_attention(q, k, k)  # noqa: E731
            yield f"attention to {maps} maps of memory", work, "FLOP", clock(run, work, threads)
        x, w = torch.rand(1, 256, 64, 64), torch.rand(256, 1, 7, 7)
        work = 2 * 4096 * 49 * 256
        run = lambda x=x, w=w: functional.conv2d(x, w, padding=3, groups=256)  # noqa: E731
        yield "depthwise 7x7 64x64 256", work, "FLOP", clock(run, work, threads)
        x, w = torch.rand(1, 128, 256, 256), torch.rand(128, 1, 3, 3)
        work = 2 * 128 * 128 * 9 * 128
        run = lambda x=x, w=w: functional.conv2d(x, w, padding=1, stride=2, groups=128)  # noqa: E731
        yield "depthwise 3x3 stride 2 256x256 128", work, "FLOP", clock(run, work, threads)
        x = torch.rand(1, 48, 256, 256)
        run = lambda x=x: x * x.mean((2, 3), keepdim=True).sigmoid()  # noqa: E731
        work = 12 * 256 * 256 * 48
        yield "squeeze and excite 256x256 48", work, "B", clock(run, work, threads)
        x, w, beside = torch.rand(1, 64, 256, 256), torch.rand(32, 64, 3, 3), torch.rand(32, 65536)
        weights, work = torch.rand(1, 32), 4 * 256 * 256 * 97
        run = lambda: weights @ (functional.conv2d(x, w, padding=1).reshape(32, -1) + beside)  # noqa: E731
        yield "weighted conv3x3 256x256 64->1", work, "B", clock(run, work, threads)
        x, w = torch.rand(1, 16, 256, 256), torch.rand(64, 16, 3, 3)
        work = 2 * 128 * 128 * 9 * 16 * 64
        run = lambda x=x, w=w: functional.conv2d(x, w, padding=1, stride=2)  # noqa: E731
        yield "conv3x3 stride 2 256x256 16->64", work, "FLOP", clock(run, work, threads)
        x, w = torch.rand(1, 256, 64, 64), torch.rand(256, 256, 3, 3)
        work = 2 * 4096 * 9 * 256 * 256
        run = lambda: functional.conv2d(x, w, padding=1)  # noqa: E731
        yield "conv3x3 64x64 256->256", work, "FLOP", clock(run, work, threads)


def engine(name, threads, alone):
    if name == "numpy":
        return numpy_rows(threads)
    if name == "torch":
        return torch_rows(threads)
    return kernels(name) if alone else ours(name, threads)


def run_apart(name, threads, *options):
    """Rows of an engine by name, measured in a process of its own."""
    if name in ("numpy", "torch") and importlib.util.find_spec(name) is None:
        print(f"{name}: left out: it is not installed")
        return {}
    limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(limits, str(threads))}
    command = [sys.executable, __file__, "--engine", name, "--threads", str(threads), *options]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        reason = result.stderr.strip().splitlines()[-1:] or ["no message"]
        print(f"{name}: left out: {reason[0]}")
        return {}
    return {row[0]: row[1:] for row in json.loads(result.stdout)}


def rate(row):
    """Thousands of millions of operations or bytes a second."""
    work, _, seconds = row
    return 1e-9 * work / seconds


def figure(row, peaks):
    if row is None:
        return f"{'-':>16}"
    return f"{rate(row):>9.1f} {100 * rate(row) / peaks[row[1]]:5.0f}%"


def show(columns, peaks):
    """Print a table: a column for each engine, a row for each name that any of them has."""
    print(f"{'':44}" + "".join(f"{name:>16}" for name in columns))
    rows = {name: row for table in reversed(columns.values()) for name, row in table.items()}
    names = dict.fromkeys(name for table in columns.values() for name in table)
    for name in names:
        if name not in ("peak", "copy"):
            unit = "GB/s" if rows[name][1] == "B" else "GF/s"
            cells = [figure(table.get(name), peaks) for table in columns.values()]
            print(f"{name:38} {unit:5}" + "".join(cells))


def peaks_of(tables, cores):
    """What each unit is compared with: the best that any instruction set reached."""
    for isa, table in tables.items():
        print(f"{isa}: {rate(table['peak']):.1f} GFLOP/s a core")
    flop = cores * max(rate(table["peak"]) for table in tables.values())
    return {"FLOP": flop, "B": max(rate(table["copy"]) for table in tables.values())}


def report(isas, threads):
    """Print the table of the ops, or of the kernels alone if `threads` is 0."""
    options, count = ([], threads) if threads else (["--kernels"], 1)
    tables = {isa: run_apart(isa, count, *options) for isa in isas}
    tables = {isa: table for isa, table in tables.items() if table}
    if not tables:
        sys.exit("bench_ops.py: no instruction set could be measured")
    rivals = {name: run_apart(name, count) for name in ("numpy", "torch")} if threads else {}
    print(f"\n{run.heading('Ops' if threads else 'Kernels', count)}")
    print("\nGFLOP/s or GB/s, and how much of the peak or of a copy that is.")
    peaks = peaks_of(tables, count)
    print(f"peak {peaks['FLOP']:.1f} GFLOP/s, copy {peaks['B']:.1f} GB/s")
    show({**tables, **{name: table for name, table in rivals.items() if table}}, peaks)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--isa", nargs="+", help="default: all that this processor runs")
    parser.add_argument("--kernels", action="store_true", help="the kernels alone, not the ops")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        rows = engine(options.engine, options.threads[0], options.kernels)
        print(json.dumps(list(rows)))
        return
    if not all(map(importlib.util.find_spec, ("sam_rlx", "sam_rlx._testing"))):
        sys.exit("bench_ops.py: needs sam_rlx._testing: install with pip install -e")
    from sam_rlx import _testing

    available = _testing.available_isas()
    for isa in _testing.compiled_isas():
        if isa not in available:
            print(f"{isa}: skipped, this processor does not have it")
    for threads in [0] if options.kernels else [*options.threads, 0]:
        report(options.isa or available, threads)


if __name__ == "__main__":
    main()
