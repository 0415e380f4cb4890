"""Speed of the ops on the sizes of SAM's layers, against the measured peak of the machine.

    python benchmarks/bench_ops.py --threads 1 2 --isa avx512 avx2

Needs an editable install (`sam_rlx._testing`). NumPy and PyTorch run the same products, each in a
process of its own, when they are installed. A figure is the best of several runs; with one thread
it counts processor time, so that other work on the machine does not enter.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

import peak

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
ATTENTION = [(0, False), (0, True), (14, False), (14, True)]  # window, relative position
MEMORY = [(1, False), (2, False), (2, True), (7, False), (7, True)]  # maps, without keys


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
        best(bench.conv3x3_stride2(256, 16, 64, 10, **common), threads),
    )
    work = 2 * 4096 * 49 * 256
    yield (
        "depthwise 7x7 64x64 256",
        work,
        "FLOP",
        best(bench.depthwise_conv(64, 256, 7, 20, **common), threads),
    )
    for maps, factored in MEMORY:
        work = 2 * (256 + 64) * 4096 * 4096 * maps
        times = bench.place_attention(64, maps, factored, 3, **common)
        name = f"attention to {maps} maps of memory"
        # Counted as keys that are made; without them less work is done.
        yield f"{name}{', no keys' if factored else ''}", work, "FLOP", best(times, threads)


def ours(isa, threads):
    """Rows (name, operations or bytes, unit, seconds)."""
    from sam_rlx import _testing

    bench, common = _testing.bench, {"isa": isa, "num_threads": threads}
    yield (
        "peak",
        peak.flop(isa),
        "FLOP",
        best(bench.peak(200, isa=isa), 1),
    )
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
    for window, rel_pos in ATTENTION:
        work = 4 * 12 * 64 * 4096 * (window * window or 4096)
        times = bench.window_attention(
            64, 12, 64, window, rel_pos, repetitions=repetitions(work), **common
        )
        name = f"attention ViT-B {f'window {window}' if window else 'global'}"
        yield f"{name}{' rel-pos' if rel_pos else ''}", work, "FLOP", best(times, threads)
    work = 2 * 4096 * 9 * 256 * 256
    yield (
        "conv3x3 64x64 256->256",
        work,
        "FLOP",
        best(bench.conv3x3(64, 256, 256, 10, **common), threads),
    )
    work = 2 * 4096 * 768 * 768
    yield (
        "conv_patch 16 1024x1024 3->768",
        work,
        "FLOP",
        best(bench.conv_patch(1024, 16, 768, 10, **common), threads),
    )
    yield from memory_rows(bench, threads, common)
    size = 4096 * 768
    yield (
        "layer_norm 4096x768",
        8 * size,
        "B",
        best(bench.layer_norm(4096, 768, 50, **common), threads),
    )
    yield "gelu 4096x3072", 16 * size * 2, "B", best(bench.gelu(4 * size, 20, **common), threads)


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
        for maps in (1, 2, 7):
            q, k = torch.rand(1, 1, 4096, 256), torch.rand(1, 1, 4096 * maps, 256)
            work = 2 * (256 + 64) * 4096 * 4096 * maps  # of ours: here values are as wide as keys
            run = lambda q=q, k=k: functional.scaled_dot_product_attention(q, k, k)  # noqa: E731
            yield f"attention to {maps} maps of memory", work, "FLOP", clock(run, work, threads)
        x, w = torch.rand(1, 256, 64, 64), torch.rand(256, 1, 7, 7)
        work = 2 * 4096 * 49 * 256
        run = lambda x=x, w=w: functional.conv2d(x, w, padding=3, groups=256)  # noqa: E731
        yield "depthwise 7x7 64x64 256", work, "FLOP", clock(run, work, threads)
        x, w = torch.rand(1, 16, 256, 256), torch.rand(64, 16, 3, 3)
        work = 2 * 128 * 128 * 9 * 16 * 64
        run = lambda x=x, w=w: functional.conv2d(x, w, padding=1, stride=2)  # noqa: E731
        yield "conv3x3 stride 2 256x256 16->64", work, "FLOP", clock(run, work, threads)
        x, w = torch.rand(1, 256, 64, 64), torch.rand(256, 256, 3, 3)
        work = 2 * 4096 * 9 * 256 * 256
        run = lambda: functional.conv2d(x, w, padding=1)  # noqa: E731
        yield "conv3x3 64x64 256->256", work, "FLOP", clock(run, work, threads)


def engine(name, threads):
    if name == "numpy":
        return numpy_rows(threads)
    if name == "torch":
        return torch_rows(threads)
    return ours(name, threads)


def run_apart(name, threads):
    """Rows of an engine by name, measured in a process of its own."""
    limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(limits, str(threads))}
    command = [sys.executable, __file__, "--engine", name, "--threads", str(threads)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        reason = result.stderr.strip().splitlines()[-1:] or ["no message"]
        print(f"{name}: left out: {reason[0]}")
        return {}
    return {row[0]: row[1:] for row in json.loads(result.stdout)}


def figure(row, peak):
    if row is None:
        return f"{'-':>16}"
    work, unit, seconds = row
    rate = work / seconds * 1e-9
    if unit == "B":
        return f"{rate:>8.1f} GB/s   "
    return f"{rate:>9.1f} {100 * rate / peak:5.1f}%"


def report(isas, threads):
    rows = {isa: run_apart(isa, threads) for isa in isas}
    rivals = {name: run_apart(name, threads) for name in ("numpy", "torch")}
    peaks = {isa: table["peak"][0] / table["peak"][2] * 1e-9 for isa, table in rows.items()}
    peak = threads * max(peaks.values())
    print(f"\n{threads} thread{'s' if threads > 1 else ''}; GFLOP/s (% of peak) or GB/s")
    print(", ".join(f"{isa}: {value:.1f} GFLOP/s a core" for isa, value in peaks.items()))
    columns = {**rows, **rivals}
    print(f"{'':38}" + "".join(f"{name:>16}" for name in columns))
    for name in next(iter(rows.values())):
        if name != "peak":
            cells = [figure(table.get(name), peak) for table in columns.values()]
            print(f"{name:38}" + "".join(cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--isa", nargs="+", help="default: all that this processor runs")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        print(json.dumps(list(engine(options.engine, options.threads[0]))))
        return
    from sam_rlx import _testing

    for threads in options.threads:
        report(options.isa or _testing.available_isas(), threads)


if __name__ == "__main__":
    main()
