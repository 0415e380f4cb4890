"""Files of sam3.cpp and its forks, made by their own converters: which load, with which masks.

    python benchmarks/sam3cpp_files.py --converters sam3.cpp/ --quantize sam3.cpp/build/bin/quantize
    python benchmarks/sam3cpp_files.py --converters fork/ --models sam2.1_t sam2_l sam3 --rounded

Needs PyTorch, sam2, sam3 and gguf. The converters are run as they are, on random
weights: `convert_sam2_to_ggml.py` and `convert_sam3_to_ggml.py`, which write `.ggml`, or GGUF where
`scripts/gguf_writer.py` stands beside them. A program that packs files is given by `--quantize`.

A row for each file: its size, the seconds and the memory of opening it (without pages of the mapped
file, and as a part of the size; the peak has the pages that were in memory at once), the version
that it tells, and the masks of clicks (of a whole SAM 3 also of a text) compared with Meta's file:
"equal bits", or the IoU. Files of F32 must have equal bits, those of F16 an IoU of 0.999; the exit
status is 1 otherwise. Random weights make masks of noise, so that the IoU of rounded numbers says
little. `--rounded` therefore adds a column: Meta's file is written again with the numbers of the
file, unpacked by the gguf package under the converter's own names, and the masks of both must have
equal bits; the IoU of F16 is then not asked for. `--numbers` computes no masks, which takes minutes
with SAM 3: it compares the bits of every number that is read with those that the gguf package
unpacks, and of F32 with Meta's file.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sam_rlx
from numpy.typing import NDArray

import resident
from workloads import sam3_network, sample_image

PACKED = ("q8_0", "q4_1", "q4_0")
SIZES = {"t": "tiny", "s": "small", "b+": "base_plus", "l": "large"}
MODELS = (
    *(f"sam2.1_{size}" for size in SIZES),
    "sam2_t",
    "sam2_l",
    "sam3",
    "sam3-visual",
)
TEXT = ((49406, 320, 2866, 49407),)  # ids of the vocabulary that every SAM 3 has
POINTS = ((300, 200), (500, 300), (900, 600))
MIN_F16_IOU = 0.999


def sam2_weights(model: str, path: Path) -> None:
    """Write random weights as Meta's file."""
    import torch
    from sam2.build_sam import build_sam2

    version, size = model.split("_")
    folder = "sam2.1" if version == "sam2.1" else "sam2"
    network = build_sam2(f"configs/{folder}/{version}_hiera_{size}.yaml", None, device="cpu")
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, value in network.named_parameters():
            noise = torch.randn(value.shape, generator=generator)
            if name.endswith("weight") and value.ndim == 1:
                value.copy_(1 + 0.1 * noise)
            elif value.ndim >= 2 and "embed" not in name and "token" not in name:
                value.copy_(noise / value[0].numel() ** 0.5)
            else:
                value.copy_(0.1 * noise)
    torch.save({"model": network.state_dict()}, path)


def sam3_weights(path: Path) -> None:
    """Write random weights as Meta's file."""
    import torch
    from support import upstream_sam3

    network = upstream_sam3.image_model(sam3_network("sam3"), clicks=True)
    weights = upstream_sam3.meta_weights(network)
    torch.save({name: torch.from_numpy(value) for name, value in weights.items()}, path)


def tokenizer(folder: Path) -> None:
    """Write a vocabulary of the right size where the converter looks for one."""
    words = {f"w{i}": i for i in range(sam3_network("sam3").vocab_size)}
    (folder / "vocab.json").write_text(json.dumps(words))
    (folder / "merges.txt").write_text("#version\na b\n")


def convert(options: argparse.Namespace, model: str, meta: Path, ftype: int, out: Path) -> None:
    """Run the converter of a family."""
    command = [sys.executable, str(converter(options, model)), "--model", str(meta)]
    command += ["--output", str(out), "--ftype", str(ftype)]
    command += ["--visual-only"] if model == "sam3-visual" else []
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def converter(options: argparse.Namespace, model: str) -> Path:
    """Return the converter of a model's family."""
    family = "sam3" if model.startswith("sam3") else "sam2"
    return Path(options.converters / f"convert_{family}_to_ggml.py")


def ggml_tensors(path: Path) -> Iterator[tuple[str, int, NDArray[np.uint8]]]:
    """Name, type and bytes of each tensor of a .ggml file."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
    from support import sam3cpp_files

    family = "sam3" if path.name.startswith("sam3") else "sam2"
    content: Any = np.memmap(path, np.uint8, "r")
    (count,) = struct.unpack_from("<i", content, 12)
    begin = 16 + 4 * sum(length for _, length in sam3cpp_files.layout(family, {}))
    for _ in range(count):
        rank, length, kind = struct.unpack_from("<iii", content, begin)
        shape = struct.unpack_from(f"<{rank}i", content, begin + 12)
        begin += 12 + 4 * rank
        name = bytes(content[begin : begin + length]).decode()
        begin += length
        begin += -begin % sam3cpp_files.ALIGNMENT
        block, width = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
        size = int(np.prod(shape)) // block * width
        yield name, kind, content[begin : begin + size]
        begin += size


def gguf_tensors(path: Path) -> Iterator[tuple[str, int, NDArray[np.uint8]]]:
    """Name, type and bytes of each tensor of a GGUF file."""
    from gguf import GGUFReader

    for tensor in GGUFReader(path).tensors:
        yield tensor.name, int(tensor.tensor_type), tensor.data.reshape(-1).view(np.uint8)


def unpacked(
    options: argparse.Namespace, model: str, weights: dict[str, Any], path: Path
) -> Iterator[tuple[str, NDArray[np.float32] | None]]:
    """Meta's name and the numbers of each tensor of a file, unpacked by the gguf package.

    The names are those that the converter itself makes; for F32 the values are None.
    """
    from gguf import GGMLQuantizationType, quants

    spec = importlib.util.spec_from_file_location("converter", converter(options, model))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = {module.rename_key(name): name for name in weights}
    for theirs, kind, data in ggml_tensors(path) if path.suffix == ".ggml" else gguf_tensors(path):
        plain = kind == GGMLQuantizationType.F32
        numbers = quants.dequantize(data.reshape(1, -1), GGMLQuantizationType(kind))
        yield names[theirs], None if plain else numbers


def round_weights(options: argparse.Namespace, model: str, meta: Path, path: Path) -> Path:
    """Write Meta's file with the numbers of a file of theirs."""
    import torch

    whole = torch.load(meta, mmap=True)
    weights = whole.get("model", whole)
    for name, numbers in unpacked(options, model, weights, path):
        if numbers is not None:
            weights[name] = torch.from_numpy(numbers.reshape(weights[name].shape).copy())
    out = meta.with_name("rounded.pt")
    torch.save(whole, out)
    return out


def numbers_differ(
    options: argparse.Namespace, model: str, meta: Path, path: Path
) -> tuple[int, int]:
    """How many tensors of a file are not read to the bit, and how many there are."""
    import torch

    whole = torch.load(meta, mmap=True)
    weights = whole.get("model", whole)
    checkpoint, count, wrong = sam_rlx._core.Checkpoint(str(path)), 0, 0
    checkpoint.to_meta_names()
    for name, numbers in unpacked(options, model, weights, path):
        found = checkpoint.encode(name, "F32").view(np.uint32)
        if numbers is None:  # of a table of positions the first row may be left out
            numbers = weights[name].float().numpy().reshape(-1)[-found.size :]
        count += 1
        wrong += not np.array_equal(found, numbers.reshape(-1).view(np.uint32))
    return wrong, count


def masks(model: sam_rlx.Model, text: bool) -> NDArray[np.float32]:
    """Logits of the masks of some clicks and, if asked for, of a text, one behind the other."""
    image = sample_image(800, 1200)
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(image)
    clicks = [predictor.predict(point_coords=[point], point_labels=[1]) for point in POINTS]
    found = [result.low_res_masks.reshape(-1) for result in clicks]
    if text:
        raw = sam_rlx.ConceptPredictor(model).predict(image, text=np.array(TEXT), raw=True).raw
        assert raw is not None
        found += [each.pred_masks.reshape(-1) for each in raw]
        found += [each.semantic_seg.reshape(-1) for each in raw]
    return np.concatenate(found)


def open_one(path: str, logits: str, text: bool) -> None:
    """Open a file in this process and print what that takes, as JSON."""
    resident.forget_peak()
    before, resting = resident.own() or 0, resident.peak()
    start, start_cpu = time.monotonic(), time.process_time()
    model = sam_rlx.load_model(path)
    seconds, cpu_seconds = time.monotonic() - start, time.process_time() - start_cpu
    found = {"seconds": seconds, "cpu_seconds": cpu_seconds, "precision": model.precision}
    found |= {"bytes": (resident.own() or 0) - before, "peak_bytes": resident.peak() - resting}
    found |= {"version": model.version, "variant": model.variant}
    if logits:
        np.save(logits, masks(model, text))
    print(json.dumps(found))


def opened(path: Path, logits: Path | str, model: str) -> dict[str, Any]:
    """Open a file in a process of its own; the error is under that key."""
    command = [sys.executable, __file__, "--open", str(path), str(logits)]
    command += ["--text"] if model == "sam3" else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    return dict(json.loads(done.stdout))


def compared(found: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """Return the IoU of all masks together, and infinity for equal bits."""
    if found.tobytes() == expected.tobytes():
        return float("inf")
    a, b = found > 0, expected > 0
    return float((a & b).sum() / max(1, (a | b).sum()))


def masks_text(iou: float) -> str:
    return "equal bits" if iou == float("inf") else f"IoU {iou:.4f}"


def opening_text(found: dict[str, Any], size: int) -> str:
    """Return the columns of what opening a file takes."""
    return (
        f"| {found['seconds']:.1f} s, {found['cpu_seconds']:.1f} s of processors "
        f"| {found['bytes'] / 1e6:.0f} MB, {found['bytes'] / size:.2f} of the file; "
        f"peak {found['peak_bytes'] / size:.2f} | {found['variant']} {found['version']} "
        f"| {found['precision']} |"
    )


def row(options: argparse.Namespace, model: str, meta: Path, path: Path, bound: float) -> bool:
    """Print the row of a file; tell whether it is as it must be."""
    logits = "" if options.numbers else meta.with_name("logits.npy")
    found, size = opened(path, logits, model), path.stat().st_size
    name = f"| {path.name} | {size / 1e6:.0f} MB "
    if "error" in found:
        print(f"{name}| {found['error']} |", flush=True)
        return False
    if options.numbers:
        wrong, count = numbers_differ(options, model, meta, path)
        text = f"{wrong} of {count} tensors differ"
        print(f"{name}{opening_text(found, size)} {text} |", flush=True)
        return wrong == 0
    masks = np.load(logits)
    iou, same = compared(masks, np.load(meta.with_name("meta.npy"))), float("inf")
    if options.rounded and found["precision"] + path.stem[-4:] != "float32_f32":
        rounded = round_weights(options, model, meta, path)
        reference = opened(rounded, logits, model)
        rounded.unlink()
        if "error" in reference:
            raise SystemExit(f"{rounded}: {reference['error']}")
        same = compared(masks, np.load(logits))
    print(
        f"{name}{opening_text(found, size)} {masks_text(iou)} |"
        + (f" {masks_text(same)} |" if options.rounded else ""),
        flush=True,
    )
    return same == float("inf") and (iou >= bound or (options.rounded and bound <= 1))


def check(options: argparse.Namespace, model: str, folder: Path) -> bool:
    """Print the rows of a model."""
    meta = folder / f"{model}.pt"
    if model.startswith("sam3"):
        sam3_weights(meta)
        tokenizer(folder)
    else:
        sam2_weights(model, meta)
    gc.collect()  # upstream's network refers to itself
    if not options.numbers:
        reference = opened(meta, folder / "meta.npy", model)
        if "error" in reference:
            raise SystemExit(f"{meta}: {reference['error']}")
    good = True
    suffix = ".gguf" if (options.converters / "scripts" / "gguf_writer.py").exists() else ".ggml"
    version, _, size = model.partition("_")
    stem = f"{version}_hiera_{SIZES[size]}" if size else model
    floats = [folder / f"{stem}_{kind}{suffix}" for kind in ("f32", "f16")]
    for ftype, (path, bound) in enumerate(zip(floats, (float("inf"), MIN_F16_IOU), strict=True)):
        convert(options, model, meta, ftype, path)
        good &= row(options, model, meta, path, bound)
    floats[1].unlink()
    for kind in PACKED if options.quantize else ():
        path = folder / f"{stem}_{kind}{suffix}"
        command = [str(options.quantize), str(floats[0]), str(path), kind]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        good &= row(options, model, meta, path, 0.0)
        path.unlink()
    for path in (floats[0], meta):
        path.unlink()
    return good


def main() -> int:
    """Print the table; return 1 if a file is not as it must be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--converters", type=Path, help="folder of the converters")
    parser.add_argument("--quantize", type=Path, help="their program that packs files")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, metavar="MODEL")
    parser.add_argument("--rounded", action="store_true", help="compare with the same numbers")
    parser.add_argument("--numbers", action="store_true", help="compare numbers, not masks")
    parser.add_argument("--folder", type=Path, help="for up to 10 GB, removed again")
    parser.add_argument("--open", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--text", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        path, logits = options.open
        open_one(path, logits, options.text)
        return 0
    if options.converters is None:
        parser.error("expected --converters")
    columns = ["file", "size", "opened in", "memory", "model", "precision", "masks"]
    columns[-1] = "numbers" if options.numbers else columns[-1]
    columns += ["masks beside the same numbers"] if options.rounded else []
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}", flush=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        results = [check(options, model, Path(folder)) for model in options.models]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
