"""Time and memory of opening a full SAM 3 in q4_0: sam3.cpp's `.ggml`, and the GGUF of its fork.

    python benchmarks/opening.py
    python benchmarks/opening.py --type Q8_0 --rounds 5

Needs PyTorch and sam3, for names and shapes. The files have random blocks, with scales that keep
numbers small, as the tests write both containers; 0.75 GB each as q4_0, in a folder that is
removed. Each is opened in new processes, one after the other. A row has the shortest time, the
memory that opening takes (without pages of the mapped file) and its peak (with those that were in
memory at once), both as parts of the file's size. The exit status is 1 if a file takes more than
3 s, or its memory more than 1.3 times the file. Times count on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sam3cpp_files as table
from workloads import sam3_network

MAX_SECONDS, MAX_MEMORY = 3.0, 1.3
BLOCKS = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34}  # bytes of 32 numbers; first the scale, in float16


def released_shapes() -> dict[str, tuple[int, ...]]:
    """Return Meta's names and shapes of a full SAM 3, from upstream's network without weights."""
    import torch
    from support import upstream_sam3

    def unchanged(*arguments: Any, **_: Any) -> Any:
        return arguments[0] if arguments else None

    for name in [name for name in dir(torch.nn.init) if name.endswith("_") and name[0] != "_"]:
        setattr(torch.nn.init, name, unchanged)
    network = upstream_sam3.image_model(sam3_network("sam3"), seed=None, clicks=True)
    state = network.state_dict()
    return {
        upstream_sam3.meta_name(n): tuple(t.shape)
        for n, t in state.items()
        if t.is_floating_point()
    }


def write(folder: Path, kind: str) -> list[Path]:
    """Write both files."""
    from support import sam3cpp_files as files

    generator, width = np.random.default_rng(0), BLOCKS[kind]

    def quantize(values: NDArray[np.float32]) -> NDArray[np.uint8]:
        blocks = generator.integers(0, 256, (values.size // 32, width), np.uint8)
        blocks[:, :2] = np.array([0.004], np.float16).view(np.uint8)
        if kind == "Q4_1":
            blocks[:, 2:4] = 0
        return blocks

    weights: dict[str, NDArray[np.float32]] = {}
    for name, shape in released_shapes().items():
        weights[name] = np.zeros(shape, np.float32)
        if len(shape) < 2:
            one = "norm" in name and name.endswith("weight")
            weights[name][:] = 0.1 * generator.standard_normal(shape) + one
    network = sam3_network("sam3")
    settings = files.sam3_settings(dataclasses.asdict(network))
    tensors = files.packed(files.sam3_weights(weights), kind, quantize)
    words = [f"w{i}" for i in range(network.vocab_size)]
    paths = [folder / f"sam3_{kind.lower()}.{suffix}" for suffix in ("ggml", "gguf")]
    tail = files.tokenizer_bytes(words, [("a", "b")])
    paths[0].write_bytes(files.ggml_bytes("sam3", settings, tensors, tail=tail))
    paths[1].write_bytes(files.fork_bytes("sam3", settings, tensors, words=words))
    return paths


def row(path: Path, rounds: int) -> bool:
    """Print the row of a file; tell whether it keeps to the bounds."""
    size, best = path.stat().st_size, {}
    for _ in range(rounds):
        found = table.opened(path, "", "sam3")
        if "error" in found:
            raise SystemExit(f"{path}: {found['error']}")
        if not best or found["seconds"] < best["seconds"]:
            best = found
    print(f"| {path.name} | {size / 1e6:.0f} MB {table.opening_text(best, size)}", flush=True)
    return bool(best["seconds"] <= MAX_SECONDS and best["bytes"] <= MAX_MEMORY * size)


def main() -> int:
    """Print the table; return 1 if a file takes too much."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--type", choices=BLOCKS, default="Q4_0")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the files stand meanwhile")
    options = parser.parse_args()
    columns = ["file", "size", "opened in", "memory", "model", "precision"]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        paths = write(Path(folder), options.type)
        print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}", flush=True)
        results = [row(path, options.rounds) for path in paths]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
