"""Changes of the structure of files, by a seed: trees, columns, arrays, headers and bytes."""

from __future__ import annotations

import io as streams
import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nightly.damaged_files import damage_arrays

Generator = np.random.Generator
EXTREMES = (0, 1, -1, 2**31 - 1, -(2**31), 0x7F7F7F7F, 1 << 20, 255, 65536)
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e300, 10**30, 2**53, 2**63, -(2**63), 10**4400),
    *("", "x", "0", "1e999", "../x", "/", "\\", "\ud800", "a\0b", "é", "x" * 3000, "1" * 5000),
    *([], {}, [[]], [None], [0, 0, 0, 0], [1e300] * 4, {"": {}}, {"counts": "x"}, [{}] * 3),
)


def change_bytes(data: bytes, rng: Generator) -> bytes:
    """Change numbers, cut, repeat, remove or overwrite a part, most often near the beginning."""
    out = bytearray(data)
    if not out:
        return b"x"
    size = len(out)
    for _ in range(int(rng.choice((1, 1, 2, 8)))):
        at = int(min(size - 1, abs(rng.normal(0, 600)))) if rng.random() < 0.6 else 0
        at = at or int(rng.integers(0, size))
        length = int(min(size - at, rng.choice((1, 4, 8, 64, 4096))))
        how = rng.integers(0, 7)
        if how == 0:
            out[at] ^= 1 << int(rng.integers(0, 8))
        elif how == 1:
            at -= at % 4
            out[at : at + 4] = struct.pack("<i", int(rng.choice(EXTREMES)))
        elif how == 2:
            out[at : at + length] = rng.bytes(length)
        elif how == 3:
            out[at:at] = out[at : at + length]
        elif how == 4:
            del out[at : at + length]
        elif how == 5:
            del out[at:]
        else:
            out[at : at + length] = bytes(length)
        size = max(1, len(out))
        out = out or bytearray(b"x")
    return bytes(out)


def change_tree(tree: Any, rng: Generator) -> Any:
    """Replace, remove, repeat or wrap one node of a document."""
    parents: list[tuple[Any, Any]] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in keys:
            parents.append((node, key))
            if isinstance(node[key], (dict, list)):
                stack.append(node[key])
    if not parents or rng.random() < 0.03:
        return ODD[rng.integers(0, len(ODD))]
    for _ in range(int(rng.choice((1, 1, 3)))):
        node, key = parents[rng.integers(0, len(parents))]
        if (isinstance(node, dict) and key not in node) or (
            isinstance(node, list) and key >= len(node)
        ):
            continue
        how = rng.integers(0, 8)
        if how < 4:
            node[key] = ODD[rng.integers(0, len(ODD))]
        elif how == 4:
            del node[key]
        elif how == 5:
            other, inner = parents[rng.integers(0, len(parents))]
            inside = inner in (other if isinstance(other, dict) else range(len(other)))
            node[key] = json.loads(json.dumps(other[inner])) if inside else None
        elif how == 6:
            node[key] = [node[key]] * int(rng.choice((1, 2, 50)))
        else:
            for _ in range(int(rng.choice((1, 40, 2000)))):
                node[key] = [node[key]]
    return tree


def dumped(tree: Any) -> bytes:
    sys.set_int_max_str_digits(0)
    sys.setrecursionlimit(20_000)
    try:
        return json.dumps(tree).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return b"[" * 5000


def change_json(data: bytes, rng: Generator) -> bytes:
    return dumped(change_tree(json.loads(data), rng))


def change_lines(data: bytes, rng: Generator) -> bytes:
    """Change a line of a journal, or remove, repeat or join lines."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return change_bytes(data, rng)
    at = int(rng.integers(0, len(lines)))
    how = rng.integers(0, 5)
    if how < 2:
        try:
            lines[at] = change_json(lines[at], rng) + b"\n"
        except ValueError:
            lines[at] = change_bytes(lines[at], rng)
    elif how == 2:
        lines.insert(at, lines[at])
    elif how == 3:
        del lines[at]
    else:
        lines[at] = lines[at].rstrip(b"\n")
    return b"".join(lines)


def change_yaml(data: bytes, rng: Generator) -> bytes:
    import yaml

    how = rng.integers(0, 6)
    if how < 4:
        tree = change_tree(yaml.safe_load(data), rng)
        try:
            return str(yaml.safe_dump(tree)).encode("utf-8", "surrogatepass")
        except (yaml.YAMLError, RecursionError, ValueError):
            return data
    extras = (
        b"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b, *b, *b]\nmodel: *c\n",
        b"model: &m\n  a: *m\n",
        b"model: !!python/object/apply:os.system [ls]\n",
        b"model: !!timestamp 2020-13-41\n",
        b"model: !!int 0x\n",
        b"model: !!float ''\n",
        b"model: {? [a, b] : c}\n",
        b"? {a: b}\n: model\n",
        b"model: '\\x00'\n",
        b"%YAML 9.9\n---\nmodel: 1\n",
        b"---\nmodel: {}\n---\nmodel: {}\n",
        b"model: ${a.b}\n",
        b"model:\n  image_size: ${model.image_size}\n",
        b"[" * 3000,
        b"\xff\xfe\x00",
    )
    extra = extras[rng.integers(0, len(extras))]
    return extra + data if how == 4 else data + extra


def change_safetensors(data: bytes, rng: Generator) -> bytes:
    (length,) = struct.unpack_from("<Q", data)
    header = change_json(data[8 : 8 + length], rng)
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


def change_ggml(data: bytes, rng: Generator) -> bytes:
    """Change one of the numbers of the header or of a tensor's description."""
    out = bytearray(data)
    offsets = range(0, 600, 4) if rng.random() < 0.6 else range(0, len(data) - 4, 4)
    for _ in range(int(rng.choice((1, 1, 2)))):
        at = offsets[int(rng.integers(0, len(offsets)))]
        (before,) = struct.unpack_from("<i", data, at)
        near = (before + 1, before - 1, before * 2 & 0x7FFFFFFF, before // 2)
        struct.pack_into("<i", out, at, int(rng.choice((*EXTREMES, *near))))
    return bytes(out)


def change_parquet(data: bytes, rng: Generator) -> bytes:
    """Replace, drop, rename or add a column, or take rows away."""
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(streams.BytesIO(data))
    at = int(rng.integers(0, table.num_columns))
    name, rows = table.column_names[at], table.num_rows
    columns: tuple[Any, ...] = (
        pa.nulls(rows),
        pa.array([1] * rows),
        pa.array([float("nan")] * rows),
        pa.array(["x"] * rows),
        pa.array([b"x"] * rows),
        pa.array([[1.0, 2.0, 3.0, 4.0]] * rows),
        pa.array([[[1e300, -1.0]]] * rows),
        pa.array([{"bytes": b"x", "path": "../x"}] * rows),
        pa.array([[None]] * rows, pa.list_(pa.float64())),
        pa.array([True] * rows),
        pa.array([2**62] * rows, pa.timestamp("ns")),
        pa.array([["a", None]] * rows),
        pa.array(["x"] * rows).dictionary_encode(),
    )
    how = rng.integers(0, 6)
    if how < 3:
        table = table.set_column(at, name, columns[rng.integers(0, len(columns))])
    elif how == 3 and table.num_columns > 1:
        table = table.remove_column(at)
    elif how == 4:
        names = ("", "boxes", "text", "x0", "labels", "image", "path", "é")
        renamed = [*table.column_names]
        renamed[at] = names[rng.integers(0, len(names))]
        table = table.rename_columns(renamed)
    else:
        table = table.slice(0, int(rng.integers(0, rows + 1)))
    out = streams.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()


BY_SUFFIX: dict[str, Callable[[bytes, Generator], bytes]] = {
    ".json": change_json,
    ".jsonl": change_lines,
    ".yaml": change_yaml,
    ".npz": damage_arrays,
    ".safetensors": change_safetensors,
    ".ggml": change_ggml,
    ".parquet": change_parquet,
}


def changed(files: dict[str, bytes], rng: Generator) -> dict[str, bytes]:
    """Return the files of an input with one of them changed, removed or exchanged."""
    result = dict(files)
    name = sorted(files)[rng.integers(0, len(files))]
    if len(files) > 1 and rng.random() < 0.15:
        other = sorted(files)[rng.integers(0, len(files))]
        result[name], result[other] = result[other], result[name]
        if rng.random() < 0.4:
            del result[name]
        return result
    change = BY_SUFFIX.get(Path(name).suffix)
    by_structure = change is not None and rng.random() < 0.65
    try:
        result[name] = (change if change and by_structure else change_bytes)(files[name], rng)
    except (ValueError, TypeError, KeyError, OverflowError):  # no way to write such a file
        result[name] = change_bytes(files[name], rng)
    return result
