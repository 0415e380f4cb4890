"""Damaged session, embedding and image files: each is read, or refused with an error of ours.

Example: ``python tests/nightly/damaged_files.py --count 2000 --seed 7``
"""

from __future__ import annotations

import argparse
import io as bytes_io
import json
import struct
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors.numpy
import sam_rlx
from PIL import Image
from sam_rlx import io

# What an array of a file is replaced by: wrong ranks, types, sizes and texts.
ODD = (
    np.zeros(0),
    np.zeros((2, 2, 2)),
    np.zeros((1,) * 7, np.float32),
    np.array([1e300]),
    np.array([np.nan], np.float32),
    np.array([-(2**62)]),
    np.array([2**38, 2**38]),
    np.array([2**63], np.uint64),
    np.array([True]),
    np.array(7),
    np.array("x"),
    np.array([b"x"]),
    np.array([1j]),
    np.array(["(" * 3000]),
    np.array(["[" * 3000]),
    np.array(["'a'+" * 40]),
    np.array(['["int","0x1"]'] * 3),
    np.array(['["float","0x1p99999"]']),
    np.array(["\ud800"]),
    np.zeros(2, [("a", "<i4")]),
    np.array(["2026-01-01"], "datetime64[D]"),
)
ODD_TEXTS = ("", "x", "0", "-1", "1" * 5000, "[" * 9999, "null", "[]", "{}", "[1e999, 5]")
ODD_TEXTS += ('["x"]', '["[]"]', '["\\"a\\"", "\\"a\\""]', '{"history": 1e300}', "[1, 99999999999]")
BYTES_NEAR_THE_END = 2000  # where the directory of a ZIP archive is

Read = Callable[[Path], object]


@dataclass(frozen=True)
class Kind:
    """Whole files of one kind, what reads them, and the error that a damaged one ends in."""

    name: str
    files: dict[str, bytes]
    read: Read
    error: type[Exception]


def session_kind(directory: Path) -> Kind:
    """Return a session with two objects, one of them with a memory."""
    model = sam_rlx.load_model("sam2-nano")
    image = np.zeros((60, 80, 3), np.uint8)
    image[20:40, 20:50] = 200
    session = sam_rlx.VideoPredictor(model, num_threads=1)
    session.push(image)
    session.add_prompt(0, "cup", box=[18, 18, 52, 42])
    session.push(image)
    session.add_prompt(1, ("plate", 2), point_coords=[[30, 30]], point_labels=[1])
    path = directory / "session.safetensors"
    session.save(path)
    return Kind(
        "session",
        {path.name: path.read_bytes()},
        lambda path: sam_rlx.VideoPredictor.load(path, model, num_threads=1),
        sam_rlx.CheckpointError,
    )


def embedding_kind(directory: Path) -> Kind:
    """Return an embedding."""
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model("sam2-nano"), num_threads=1)
    predictor.set_image(np.arange(60 * 80 * 3, dtype=np.uint16).astype(np.uint8).reshape(60, 80, 3))
    path = directory / "embedding.safetensors"
    predictor.save_embedding(path)
    return Kind(
        "embedding",
        {path.name: path.read_bytes()},
        predictor.load_embedding,
        sam_rlx.CheckpointError,
    )


def image_kind(rng: np.random.Generator) -> Kind:
    """Return a small image in every format and mode that Pillow writes here."""
    Image.init()
    files = {}
    pixels = Image.fromarray(rng.integers(0, 256, (40, 52, 3), dtype=np.uint8))
    for form in sorted(set(Image.SAVE) - {"PDF", "PALM"}):
        for mode in ("RGB", "P", "L", "1", "F"):
            buffer = bytes_io.BytesIO()
            try:
                pixels.convert(mode).save(buffer, form)
            except Exception:  # Pillow has no such mode, or was built without the library
                continue
            suffix = next((key for key, value in Image.EXTENSION.items() if value == form), ".bin")
            files[f"{form.lower()}-{mode}{suffix}"] = buffer.getvalue()
    return Kind("image", files, io.read_image, sam_rlx.InvalidArgumentError)


def damage_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Cut a file off, or change some of its bytes, most of them near its beginning or end."""
    changed = np.frombuffer(data, np.uint8).copy()
    if rng.random() < 0.25:
        return changed[: rng.integers(0, len(changed))].tobytes()
    for _ in range(rng.choice((1, 4, 16))):
        where = rng.choice(3)
        if where == 0:
            index = int(rng.integers(0, len(changed)))
        elif where == 1:
            index = min(len(changed) - 1, int(abs(rng.normal(0, 60))))
        else:
            index = int(rng.integers(max(0, len(changed) - BYTES_NEAR_THE_END), len(changed)))
        if rng.random() < 0.5:
            changed[index] ^= 1 << rng.integers(0, 8)
        else:
            changed[index] = rng.integers(0, 256)
    return changed.tobytes()


def damage_arrays(data: bytes, rng: np.random.Generator) -> bytes:
    """Replace, remove, cut, stretch or compress arrays of an NPZ file."""
    with np.load(bytes_io.BytesIO(data)) as archive:
        arrays = dict(archive)
    name = str(rng.choice(sorted(arrays)))
    how = rng.choice(6)
    if how < 2:
        arrays[name] = ODD[rng.integers(0, len(ODD))]
    elif how == 2:
        del arrays[name]
    elif how == 3:
        arrays[name] = np.resize(arrays[name], (2, *arrays[name].shape))
    elif how == 4:
        arrays[name] = arrays[name].ravel()[: arrays[name].size // 2]
    else:
        arrays[name] = np.zeros(1 << 22, np.float32)  # 16 MiB that compress to 16 KiB
    buffer = bytes_io.BytesIO()
    (np.savez_compressed if how == 5 else np.savez)(buffer, **arrays)
    return buffer.getvalue()


def damage_fields(data: bytes, rng: np.random.Generator) -> bytes:
    """Replace, remove, cut or stretch arrays and texts of a safetensors file without checksum."""
    (length,) = struct.unpack_from("<Q", data)
    texts = json.loads(data[8 : 8 + length])["__metadata__"]
    del texts["crc32"]
    arrays = safetensors.numpy.load(data)
    name = str(rng.choice(sorted([*arrays, *texts])))
    how = rng.choice(5)
    fields = texts if name in texts else arrays
    if how == 4:
        del fields[name]
    elif name in texts:
        texts[name] = (
            str(rng.choice(ODD_TEXTS)) if how < 3 else texts[name][: len(texts[name]) // 2]
        )
    elif how < 2:
        numbers = [value for value in ODD if value.dtype.kind in "biuf"]
        arrays[name] = numbers[rng.integers(0, len(numbers))]
    elif how == 2:
        arrays[name] = np.resize(arrays[name], (2, *arrays[name].shape))
    else:
        arrays[name] = np.ascontiguousarray(arrays[name].ravel()[: arrays[name].size // 2])
    return safetensors.numpy.save(arrays, texts)


STRUCTURE = {".npz": damage_arrays, ".safetensors": damage_fields}


def damaged(kind: Kind, rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of damaged files, without end."""
    names = sorted(kind.files)
    while True:
        name = names[rng.integers(0, len(names))]
        data = kind.files[name]
        by_structure = STRUCTURE.get(Path(name).suffix)
        damage = by_structure if by_structure and rng.random() < 0.5 else damage_bytes
        yield name, damage(data, rng)


def attempt(kind: Kind, path: Path) -> str:
    """Read a file: ``"read"``, ``"refused"``, or the name of an error that is not ours."""
    try:
        kind.read(path)
    except kind.error as error:
        return "refused" if path.name in str(error) else f"no name in: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "read"


def main(count: int = 2000, seed: int = 0) -> int:
    """Read `count` damaged files, print one line of counts, and return how many were wrong."""
    rng = np.random.default_rng(seed)
    found: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, of what it makes the best of
        directory = Path(folder)
        kinds = [session_kind(directory), embedding_kind(directory), image_kind(rng)]
        files = [damaged(kind, rng) for kind in kinds]
        for index in range(count):
            kind = kinds[index % len(kinds)]
            name, data = next(files[index % len(kinds)])
            path = directory / name
            path.write_bytes(data)
            result = attempt(kind, path)
            found[f"{kind.name} {result if result in ('read', 'refused') else 'wrong'}"] += 1
            if result not in ("read", "refused"):
                wrong[f"{name}: {result}"] += 1
    counts = ", ".join(f"{key} {value}" for key, value in sorted(found.items()))
    print(f"damaged_files: {count} files, seed {seed}: {counts}, wrong {wrong.total()}")
    for text, times in wrong.most_common(20):
        print(f"  {times} x {text[:200]}")
    return wrong.total()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    raise SystemExit(main(options.count, options.seed) > 0)
