"""Checkpoints of any kind become safetensors files and folders for transformers."""

import json
import os
import struct
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sam_rlx import _core
from sam_rlx._internal.files.atomic import atomic_write
from sam_rlx._internal.files.marks import SAFETENSORS_MARK
from sam_rlx._internal.printable import shown
from sam_rlx._internal.progress import Progress
from sam_rlx._internal.weights import number_formats
from sam_rlx._internal.weights.outcome import Outcome
from sam_rlx.errors import CheckpointError, InvalidArgumentError

NAMES = ("meta", "transformers")
DTYPES = ("F32", "F16", "BF16")
_TORCH_NAMES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
FOLDER_FILES = (
    "config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "model.safetensors",
)
# Metadata that other names leave true.
_KEPT = ("config", "variant", "preprocessor", "license")


def to_file(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    names: str | None = None,
    dtype: str | None = None,
    key: str | None = None,
    lora: str | None = None,
    num_threads: int = 0,
    progress: Progress | None = None,
) -> Outcome:
    """Write the tensors of a checkpoint as one safetensors file.

    What wraps the tensors in a PyTorch file (``"model"``, ``module.``) is taken off. Parameters
    and errors are those of `sam_rlx.convert`.
    """
    _check(names, dtype)
    checkpoint = open_source(source, key, lora)
    metadata = dict(checkpoint.metadata)
    if names is not None or "general.architecture" in metadata:
        # The rest is what a GGUF file says about itself.
        metadata = {name: metadata[name] for name in _KEPT if name in metadata}
    if names is not None:
        checkpoint.to_meta_names()
        if names == "transformers":
            settings, pixels = _folder_texts(checkpoint, dtype)
            checkpoint.to_folder_names(settings, pixels)
            metadata = {**checkpoint.metadata, "format": "pt"}
        else:
            checkpoint.complete()
    return write(checkpoint, output, metadata, dtype, num_threads, progress)


def to_folder(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    key: str | None = None,
    lora: str | None = None,
    num_threads: int = 0,
    progress: Progress | None = None,
) -> Outcome:
    """Write a folder that ``from_pretrained`` of the fitting class of transformers loads.

    ``config.json``, ``preprocessor_config.json``, for videos ``video_preprocessor_config.json``
    and, last, ``model.safetensors``. Parameters and errors are those of `sam_rlx.convert`.
    """
    _check("transformers", dtype)
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise InvalidArgumentError(f"output: expected a folder, found the file {folder}")
    checkpoint = open_source(source, key, lora)
    checkpoint.to_meta_names()
    settings, pixels = _folder_texts(checkpoint, dtype)
    checkpoint.to_folder_names(settings, pixels)
    config, images, videos, weights = FOLDER_FILES
    texts = {config: settings, images: pixels}
    if "video" in json.loads(settings)["model_type"]:
        texts[videos] = _video_text(pixels)
    for name, text in texts.items():
        with atomic_write(folder / name) as file:
            file.write(f"{text}\n".encode())
    path = folder / weights
    return write(checkpoint, path, {"format": "pt"}, dtype, num_threads, progress)


def open_source(
    source: str | os.PathLike[str], key: str | None, lora: str | None = None
) -> _core.Checkpoint:
    """Open a checkpoint; `CheckpointError` if it has no tensors, or others than were written."""
    checkpoint = _core.Checkpoint(os.fspath(source), key, lora)
    if not checkpoint.tensors:
        others = f", but {checkpoint.skipped[0]}" if checkpoint.skipped else ""
        raise CheckpointError(f"{os.fspath(source)}: expected tensors, found none{others}")
    checkpoint.verify()
    return checkpoint


def write(
    checkpoint: _core.Checkpoint,
    output: str | os.PathLike[str],
    metadata: Mapping[str, str],
    dtype: str | None,
    num_threads: int,
    progress: Progress | None,
) -> Outcome:
    """Write tensors under the names that they have now; packed ones are float32 without `dtype`."""
    items = number_formats.ITEM_BYTES
    tensors = [
        (name, found, _target(found, dtype), shape) for name, found, shape in checkpoint.tensors
    ]
    tensors.sort(key=lambda tensor: (-items[tensor[2]], tensor[0]))
    header: dict[str, object] = {"__metadata__": {**metadata, **SAFETENSORS_MARK}}
    end = 0
    for name, _, kept, shape in tensors:
        begin, end = end, end + items[kept] * number_formats.count(shape)
        header[name] = {"dtype": kept, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    meter = number_formats.Meter(end, progress)
    with atomic_write(output) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, found, kept, _ in tensors:
            same = found == kept
            data = checkpoint.raw(name) if same else checkpoint.encode(name, kept, num_threads)
            file.write(data.data)
            meter.add(data.nbytes)
    return Outcome(
        Path(output),
        end,
        dict(Counter(kept for _, _, kept, _ in tensors)),
        [],
        checkpoint.skipped,
        number_formats.stored_bytes(checkpoint.tensors),
        number_formats.changes((found, kept) for _, found, kept, _ in tensors),
    )


def _target(found: str, dtype: str | None) -> str:
    """Return the number format that a tensor gets."""
    if dtype is not None and number_formats.is_float(found):
        return dtype
    return "F32" if number_formats.is_packed(found) else found


def _check(names: str | None, dtype: str | None) -> None:
    for label, value, allowed in (("names", names, NAMES), ("dtype", dtype, DTYPES)):
        if value is not None and value not in allowed:
            raise InvalidArgumentError(
                f"{label}: expected one of {list(allowed)} or None, found {shown(value)}"
            )


def _folder_texts(checkpoint: _core.Checkpoint, dtype: str | None) -> tuple[str, str]:
    """Return config.json and preprocessor_config.json, for tensors with Meta's names."""
    settings = checkpoint.folder_config()
    name, processor, image_processor = _core.transformers_classes()[settings["model_type"]]
    # What `from_pretrained` makes of all of them: it has to hold each.
    kinds = {_target(found, dtype) for _, found, _ in checkpoint.tensors}
    widest = kinds.pop() if len(kinds) == 1 else "F32"
    torch_name = _TORCH_NAMES.get(widest, "float32")
    settings = {"architectures": [name], "dtype": torch_name, **settings}
    described = checkpoint.describe()
    side, scale = int(described["values"]["image_size"]), float(described["pixel_scale"])
    pixels: dict[str, Any] = {
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [_shortest(each, scale) for each in described["values"]["image_mean"]],
        "image_processor_type": image_processor,
        "image_std": [_shortest(each, scale) for each in described["values"]["image_std"]],
        "processor_class": processor,
        "resample": 2,
        "rescale_factor": 1 / 255,
        **_sides(side, longest=described["resize"].startswith("longest")),
    }
    return json.dumps(settings, indent=2), json.dumps(pixels, indent=2)


def _video_text(pixels: str) -> str:
    """Return video_preprocessor_config.json: the same for frames. SAM 3 has no class of its own."""
    values = json.loads(pixels)
    del values["image_processor_type"], values["mask_size"]
    return json.dumps({**values, "video_processor_type": "Sam2VideoVideoProcessor"}, indent=2)


def _sides(side: int, *, longest: bool) -> dict[str, Any]:
    """Return the sides of images and of masks in prompts: squares, or longest and padded."""
    quarter = side // 4
    if not longest:
        return {
            "mask_size": {"height": quarter, "width": quarter},
            "size": {"height": side, "width": side},
        }
    return {
        "do_pad": True,
        "mask_pad_size": {"height": quarter, "width": quarter},
        "mask_size": {"longest_edge": quarter},
        "pad_size": {"height": side, "width": side},
        "size": {"longest_edge": side},
    }


def _shortest(value: float, scale: float) -> float:
    """Return the number with the fewest decimals that is the same float32 times `scale`."""
    wanted = np.float32(value * scale)
    for decimals in range(1, 17):
        short = round(value, decimals)
        if np.float32(short * scale) == wanted:
            return short
    return value
