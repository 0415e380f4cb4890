"""Files of weights: what other libraries write, with the masks of the numbers that they read."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import pickle
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import sam_rlx
from support import tiny

from nightly.doors import Trial, door, library, outcome

# A matrix of the image encoder, and one of the decoder: what becomes of them shows in the masks.
MATRIX = "image_encoder.blocks.1.attn.qkv.weight"
IMAGE = np.random.default_rng(7).integers(0, 256, (64, 96, 3), np.uint8)
State = dict[str, np.ndarray]


@cache
def numbers() -> State:
    """Return the numbers of a small model, by Meta's names."""
    return dict(tiny.sam_weights())


def logits(path: Path, **options: Any) -> np.ndarray:
    """Load a model, and return what a click gives."""
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(path, **options), num_threads=1)
    predictor.set_image(IMAGE)
    return predictor.predict(point_coords=[[40.0, 30.0]], point_labels=[1]).low_res_masks


def of_numbers(folder: Path, changed: State) -> np.ndarray:
    """Return the logits of plain float32 numbers."""
    from safetensors.numpy import save_file

    path = folder / "plain.safetensors"
    state = {**numbers(), **changed}
    save_file(
        {name: np.ascontiguousarray(value, np.float32) for name, value in state.items()}, path
    )
    return logits(path)


# ---------------------------------------------------------------- PyTorch


def _state(torch: Any) -> dict[str, Any]:
    return {name: torch.from_numpy(np.array(value)) for name, value in numbers().items()}


def _noted(tensor: Any) -> Any:
    tensor.note = "epoch 3"
    return tensor


# What torch makes of one matrix; torch.load(weights_only=True) reads all of them.
FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "as it is": lambda torch, x: x,
    "transposed view": lambda torch, x: x.T.contiguous().T,
    "slice of a larger tensor": lambda torch, x: torch.cat([x, x + 1])[: len(x)],
    "rows with steps": lambda torch, x: torch.stack([x, x + 1], 1).flatten(0, 1)[::2],
    "columns with steps": lambda torch, x: torch.stack([x, x + 1], 2).flatten(1, 2)[:, ::2],
    "one row expanded": lambda torch, x: x[:1].expand_as(x),
    "one number expanded": lambda torch, x: x.mean().expand_as(x),
    "flipped": lambda torch, x: x.flip(0).flip(0),
    "Parameter": lambda torch, x: torch.nn.Parameter(x.clone()),
    "Buffer": lambda torch, x: torch.nn.Buffer(x.clone()),
    "Parameter with an attribute": lambda torch, x: _noted(torch.nn.Parameter(x.clone())),
    "with gradients": lambda torch, x: x.clone().requires_grad_(),
    "with an attribute": lambda torch, x: _noted(x.clone()),
    "negated view": lambda torch, x: torch._neg_view(-x),
    "imaginary part of a conjugate": lambda torch, x: torch.complex(x * 0, -x).conj().imag,
    "real part of a conjugate": lambda torch, x: torch.complex(x, x).conj().real,
    "float16": lambda torch, x: x.half(),
    "bfloat16": lambda torch, x: x.bfloat16(),
    "float64": lambda torch, x: x.double(),
    "float64 view": lambda torch, x: x.double().T.contiguous().T,
    "float8_e4m3fn": lambda torch, x: x.to(torch.float8_e4m3fn),
    "float8_e5m2": lambda torch, x: x.to(torch.float8_e5m2),
    "float8_e4m3fnuz": lambda torch, x: x.to(torch.float8_e4m3fnuz),
    "float8_e5m2fnuz": lambda torch, x: x.to(torch.float8_e5m2fnuz),
    "tensor of bytes seen as float32": lambda torch, x: (
        x.contiguous().view(torch.uint8).view(torch.float32)
    ),
    "int8": lambda torch, x: (x * 100).to(torch.int8),
    "int32": lambda torch, x: (x * 100).to(torch.int32),
    "uint16": lambda torch, x: (x.abs() * 100).to(torch.uint16),
    "bool": lambda torch, x: x > 0,
    "complex64": lambda torch, x: torch.complex(x, x),
    "sparse COO": lambda torch, x: x.to_sparse(),
    "sparse CSR": lambda torch, x: x.to_sparse_csr(),
    "on the meta device": lambda torch, x: x.to("meta"),
    "quantized": lambda torch, x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
    "quantized by rows": lambda torch, x: torch.quantize_per_channel(
        x, torch.full((len(x),), 0.1), torch.zeros(len(x)), 0, torch.qint8
    ),
    "nested": lambda torch, x: torch.nested.nested_tensor([x, x[:1]]),
    "another shape": lambda torch, x: x.T.contiguous(),
    "no tensor": lambda torch, x: x.tolist(),
    "NumPy array": lambda torch, x: x.numpy(),
}
PICKLES: dict[str, dict[str, Any]] = {
    "zip": {},
    "older pickle": {"_use_new_zipfile_serialization": False},
    "protocol 4": {"pickle_protocol": 4},
    "protocol 5": {"pickle_protocol": 5},
    "older pickle, protocol 4": {"pickle_protocol": 4, "_use_new_zipfile_serialization": False},
}
# What is no weight; torch reads it, and a network has no use for it.
NO_WEIGHTS = (
    *("int8", "int32", "uint16", "bool", "complex64", "sparse COO", "sparse CSR", "nested"),
    *("on the meta device", "quantized", "quantized by rows", "another shape", "no tensor"),
)


@door("weights")
def tensors_of_torch(folder: Path) -> Iterator[Trial]:
    """Every form of a tensor in every form of a file."""
    if (torch := library("torch")) is None:
        return
    path, state = folder / "x.pth", _state(torch)
    for (name, make), (kind, options) in (
        (form, pickle_) for form in FORMS.items() for pickle_ in PICKLES.items()
    ):
        right = None
        try:
            made = make(torch, state[MATRIX].clone())
            torch.save({**state, MATRIX: made}, path, **options)
            back = torch.load(path, weights_only=name != "NumPy array")[MATRIX]
            if name not in NO_WEIGHTS:
                back = torch.as_tensor(back).detach().float().resolve_neg().numpy()
                right = of_numbers(folder, {MATRIX: back})
        except Exception:  # this kind of file has no such tensors
            continue
        yield f"torch {name}, {kind}", outcome(lambda: logits(path), right)


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "model": lambda s: {"model": s},
    "state_dict": lambda s: {"epoch": 3, "state_dict": s},
    "module.": lambda s: {f"module.{name}": value for name, value in s.items()},
    "state_dict, model.": lambda s: {
        "state_dict": {f"model.{name}": value for name, value in s.items()},
        "pytorch-lightning_version": "2.5",
        "hyper_parameters": {"lr": 1e-4},
    },
    "_orig_mod.": lambda s: {f"_orig_mod.{name}": value for name, value in s.items()},
    "module._orig_mod.": lambda s: {f"module._orig_mod.{n}": v for n, v in s.items()},
    "ema": lambda s: {"ema": {"module": s}, "updates": 10},
    "with an optimizer": lambda s: {
        "model": s,
        "optimizer": {"state": {0: {"exp_avg": next(iter(s.values()))}}, "param_groups": [{}]},
    },
    "list": lambda s: [s],
    "pairs": lambda s: list(s.items()),
    "other tensors beside": lambda s: {**s, "head.weight": next(iter(s.values()))},
    "one is missing": lambda s: {name: value for name, value in s.items() if name != MATRIX},
    "two models": lambda s: {"model": s, "ema": {name: value * 0 for name, value in s.items()}},
    "a name more": lambda s: {**s, f"{MATRIX}_scale": next(iter(s.values())).mean()},
}
CANNOT = ("pairs", "one is missing", "two models", "a name more")


@door("weights")
def files_of_torch(folder: Path) -> Iterator[Trial]:
    """What wraps the weights; whole modules, scripts and programs; damage and missing numbers."""
    if (torch := library("torch")) is None:
        return
    path, state = folder / "x.pth", _state(torch)
    plain = of_numbers(folder, {})
    for name, wrap in WRAPPERS.items():
        torch.save(wrap(state), path)
        right = None if name in CANNOT else plain
        yield f"torch, wrapped: {name}", outcome(lambda: logits(path), right)
    module = torch.nn.Module()
    for name, value in state.items():
        _put(torch, module, name, value)
    torch.save(module.state_dict(), path)
    yield "torch, state_dict() of a module", outcome(lambda: logits(path), plain)
    torch.save(module, path)
    yield "torch, a whole module", outcome(lambda: logits(path), plain)
    torch.save(torch.nn.ParameterDict({n.replace(".", "_"): v for n, v in state.items()}), path)
    yield "torch, ParameterDict of other names", outcome(lambda: logits(path), None)
    settings: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("no CRC-32", lambda: torch.serialization.set_crc32_options(False)),
        ("mmap", lambda: torch.serialization.set_default_mmap_options(2)),
    )
    for name, choose in settings:
        choose()
        torch.save(state, path)
        torch.serialization.set_crc32_options(True)
        yield f"torch, {name}", outcome(lambda: logits(path), plain)
    with torch.serialization.skip_data():
        torch.save(state, path)
    yield "torch, skip_data", outcome(lambda: logits(path), None)
    torch.save(state, path)
    content = path.read_bytes()
    at = content.index(state[MATRIX].numpy().tobytes()[:64])
    path.write_bytes(content[: at + 64] + bytes(256) + content[at + 320 :])
    yield "torch, a hole of zeros", outcome(lambda: logits(path), None)
    path.write_bytes(content[:-3000])
    yield "torch, cut off", outcome(lambda: logits(path), None)

    class Small(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x * 2

    torch.jit.save(torch.jit.trace(Small(), torch.ones(2)), path)
    yield "torch.jit", outcome(lambda: logits(path), None)
    torch.export.save(torch.export.export(Small(), (torch.ones(2),)), folder / "x.pt2")
    yield "torch.export", outcome(lambda: logits(folder / "x.pt2"), None)
    from torch.distributed.checkpoint import FileSystemWriter
    from torch.distributed.checkpoint import save as save_parts

    save_parts(state, storage_writer=FileSystemWriter(folder / "dcp"), no_dist=True)
    yield "torch.distributed.checkpoint", outcome(lambda: logits(folder / "dcp"), None)


def _put(torch: Any, module: Any, name: str, value: Any) -> None:
    """Put a tensor into a tree of modules."""
    *folders, last = name.split(".")
    for folder in folders:
        if not hasattr(module, folder):
            module.add_module(folder, torch.nn.Module())
        module = getattr(module, folder)
    module.register_parameter(last, torch.nn.Parameter(value))


# ---------------------------------------------------------------- safetensors


@door("weights")
def files_of_safetensors(folder: Path) -> Iterator[Trial]:
    """Every number format that safetensors writes, its metadata, shards, and damage."""
    path = folder / "x.safetensors"
    if (writer := library("safetensors.torch")) is not None:
        torch = library("torch")
        state = _state(torch)
        for name, make in FORMS.items():
            try:
                made = make(torch, state[MATRIX].clone())
                writer.save_file({**state, MATRIX: made}, path)
                back = writer.load_file(path)[MATRIX]
                right = None
                if name not in NO_WEIGHTS:
                    right = of_numbers(folder, {MATRIX: back.float().numpy()})
            except Exception:
                continue
            yield f"safetensors of torch, {name}", outcome(lambda: logits(path), right)
    numpy = library("safetensors.numpy")
    if numpy is None:
        return
    plain = of_numbers(folder, {})
    types = library("ml_dtypes")
    for dtype in ("float32", "float16", "float64", "bfloat16", "float8_e4m3fn", "int16", "bool"):
        kind = getattr(types, dtype, None) if types is not None else None
        try:
            made = numbers()[MATRIX].astype(kind or dtype)
            numpy.save_file({**numbers(), MATRIX: made}, path)
            right = None
            if dtype not in ("int16", "bool"):
                right = of_numbers(folder, {MATRIX: made.astype(np.float32)})
        except Exception:
            continue
        yield f"safetensors of NumPy, {dtype}", outcome(lambda: logits(path), right)
    for name, metadata, right in (
        ("format", {"format": "pt"}, plain),
        ("words of a training", {"ss_training_comment": "x" * 5000}, plain),
        ("a licence in other letters", {"author": "Å 日本"}, plain),
        ("signed by cryptotensors", {"__crypto_keys__": "{}", "__signature__": "x"}, plain),
        ("encrypted by it", {"__encryption__": json.dumps({MATRIX: {"ivs": ["A"]}})}, None),
        ("quantization", {"quantization_config": '{"quant_method": "fp8"}'}, None),
        ("byte order", {"byteorder": "big"}, None),
    ):
        numpy.save_file(numbers(), path, metadata=metadata)
        yield f"safetensors, metadata: {name}", outcome(lambda: logits(path), right)
    numpy.save_file(numbers(), path)
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    for name, changed, right in (
        ("metadata of null", {**header, "__metadata__": None}, plain),
        ("sorted names", dict(sorted(header.items())), plain),
        ("spaces behind the header", header, plain),
        ("a tensor out of the file", {**header, "x": _entry(10**9)}, None),
        ("overlapping tensors", {**header, "x": _entry(0)}, None),
    ):
        text = json.dumps(changed).encode() + b" " * (8 if "spaces" in name else 0)
        path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
        yield f"safetensors, {name}", outcome(lambda: logits(path), right)
    path.write_bytes(content[:-100])
    yield "safetensors, cut off", outcome(lambda: logits(path), None)
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    yield "a pointer of Git LFS", outcome(lambda: logits(path), None)
    if (hub := library("huggingface_hub")) is not None and library("torch") is not None:
        target = folder / "shards"
        target.mkdir()
        hub.save_torch_state_dict(_state(library("torch")), target, max_shard_size="40KB")
        assert len(list(target.iterdir())) > 3
        yield "huggingface_hub, shards", outcome(lambda: logits(target), plain)
        next(iter(sorted(target.glob("*.safetensors")))).unlink()
        yield "huggingface_hub, a shard is missing", outcome(lambda: logits(target), None)


def _entry(start: int) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [start, start + 8]}


# ---------------------------------------------------------------- GGUF and ggml


@door("weights")
def files_of_gguf(folder: Path) -> Iterator[Trial]:
    """Every type that gguf-py packs, in a file that it writes from ours; older files of ggml."""
    if (gguf := library("gguf")) is None:
        return
    source, path = folder / "source.gguf", folder / "x.gguf"
    sam_rlx.convert(tiny.save_safetensors(folder / "tiny.safetensors", numbers()), source)
    reader = gguf.GGUFReader(source)
    packed = next(t.name for t in reader.tensors if tuple(t.shape[::-1]) == numbers()[MATRIX].shape)
    names = {_short(name, reader): name for name in numbers()}
    for kind in gguf.GGMLQuantizationType:
        changed: dict[str, np.ndarray] = {}

        def of_type(tensor: Any, kind: Any = kind, changed: Any = changed) -> tuple[Any, Any]:
            values = np.asarray(tensor.data)
            if values.ndim != 2 or values.shape[1] % 32 or "block" not in tensor.name:
                return values, None
            made = gguf.quantize(np.array(values, np.float32), kind)
            changed[names[tensor.name]] = gguf.dequantize(made, kind)
            return made, kind

        try:
            _write_gguf(gguf, reader, path, of_type)
        except Exception:  # gguf-py unpacks it only, or packs rows of 256
            continue
        if not changed:
            continue
        right = of_numbers(folder, changed)
        call = lambda: logits(path, precision="float32")  # noqa: E731
        yield f"gguf-py {kind.name}, unpacked", outcome(call, right)
        yield f"gguf-py {kind.name}, as it is", outcome(lambda: logits(path), right)
    plain = of_numbers(folder, {})
    for name, options, right in (
        ("big-endian", {"endianess": gguf.GGUFEndian.BIG}, plain),
        ("alignment of 64", {"alignment": 64}, plain),
        ("of another architecture", {"family": "llama"}, None),
        ("without settings", {"settings": False}, plain),
    ):
        try:
            _write_gguf(gguf, reader, path, lambda t: (np.asarray(t.data), None), **options)
        except Exception:
            continue
        yield f"gguf-py, {name}", outcome(lambda: logits(path), right)
    for kind in ("int8", "int32", "float64"):
        _write_gguf(
            gguf,
            reader,
            path,
            lambda t, k=kind: (
                np.asarray(t.data).astype(k if t.name == packed else t.data.dtype),
                None,
            ),
        )
        right = of_numbers(folder, {}) if kind == "float64" else None
        yield f"gguf-py, a matrix of {kind}", outcome(lambda: logits(path), right)
    content = source.read_bytes()
    for name, data in (
        ("cut off", content[:-5000]),
        ("version 1", content[:4] + struct.pack("<I", 1) + content[8:]),
        ("version 9", content[:4] + struct.pack("<I", 9) + content[8:]),
        ("ggml of whisper.cpp", struct.pack("<I", 0x67676D6C) + content[4:]),
        ("ggjt", struct.pack("<II", 0x67676A74, 3) + content[8:]),
        ("ggla, an adapter", struct.pack("<II", 0x67676C61, 1) + content[8:]),
    ):
        path.write_bytes(data)
        yield f"GGUF, {name}", outcome(lambda: logits(path), None)
    if library("libggml") is not None:
        from nightly.weights_read_back import Ggml

        Ggml().copy(source, path)
        yield "ggml's C library, a copy", outcome(lambda: logits(path), plain)


def _short(name: str, reader: Any) -> str:
    from sam_rlx import _core

    known = {tensor.name for tensor in reader.tensors}
    return name if name in known else _core.to_short_name("sam", name)


def _write_gguf(
    gguf: Any,
    reader: Any,
    path: Path,
    make: Callable[[Any], tuple[Any, Any]],
    *,
    family: str = "",
    endianess: Any = None,
    alignment: int = 0,
    settings: bool = True,
) -> None:
    """Copy a file by gguf-py, tensors as `make` returns them."""
    fields = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    own = str(fields["general.architecture"].contents())
    more = {} if endianess is None else {"endianess": endianess}
    writer = gguf.GGUFWriter(path, family or own, **more)
    if alignment:
        writer.add_custom_alignment(alignment)
    for name, field in fields.items():
        if settings and name not in ("general.architecture", "general.alignment"):
            inner = field.types[1] if len(field.types) > 1 else None
            writer.add_key_value(name, field.contents(), field.types[0], inner)
    for tensor in reader.tensors:
        data, kind = make(tensor)
        if endianess is not None and endianess == gguf.GGUFEndian.BIG:
            data = data.astype(data.dtype.newbyteorder(">"))
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---------------------------------------------------------------- containers of others


@door("weights")
def containers(folder: Path) -> Iterator[Trial]:
    """The same numbers in files of other programs: refused by name, in every one."""
    from safetensors.numpy import save_file

    state = numbers()
    plain = folder / "plain.safetensors"
    save_file(state, plain)
    small = dict(list(state.items())[:4])
    makers: dict[str, tuple[str, Callable[[Path], Any]]] = {
        "NumPy npz": ("npz", lambda p: np.savez(p, **state)),
        "NumPy npz, compressed": ("npz", lambda p: np.savez_compressed(p, **state)),
        "NumPy npy": ("npy", lambda p: np.save(p, state[MATRIX])),
        "NumPy npy of objects": ("npy", lambda p: np.save(p, np.array(small, object))),
        "pickle of arrays": ("pkl", lambda p: p.write_bytes(pickle.dumps(state))),
        "pickle, protocol 2": ("pkl", lambda p: p.write_bytes(pickle.dumps(small, 2))),
        "zip": ("zip", lambda p: _zip(p, plain)),
        "zip, deflated": ("zip", lambda p: _zip(p, plain, zipfile.ZIP_DEFLATED)),
        "tar": ("tar", lambda p: _tar(p, plain, "w")),
        "tar.gz": ("tar.gz", lambda p: _tar(p, plain, "w:gz")),
        "gzip": ("gz", lambda p: p.write_bytes(gzip.compress(plain.read_bytes()))),
        "xz": ("xz", lambda p: p.write_bytes(lzma.compress(plain.read_bytes()))),
        "part 001": ("safetensors.001", lambda p: p.write_bytes(plain.read_bytes()[:50_000])),
        "a page of the web": ("pth", lambda p: p.write_text("<!DOCTYPE html><html>")),
        "an empty file": ("pth", lambda p: p.write_bytes(b"")),
        "zeros": ("pth", lambda p: p.write_bytes(bytes(4096))),
        "noise": ("pth", lambda p: p.write_bytes(np.random.default_rng(3).bytes(4096))),
        "JSON": ("json", lambda p: p.write_text(json.dumps({"a": [1.0]}))),
        "SQLite": ("db", lambda p: p.write_bytes(b"SQLite format 3\0" + bytes(1000))),
    }
    writers: tuple[tuple[str, str, Callable[[Any, Path], Any]], ...] = (
        ("h5py", "h5", lambda m, p: _h5(m, p, small)),
        ("joblib", "joblib", lambda m, p: m.dump(small, p)),
        ("cloudpickle", "pkl", lambda m, p: p.write_bytes(m.dumps(small))),
        ("msgpack", "msgpack", lambda m, p: p.write_bytes(m.dumps({"a": b"1234"}))),
        (
            "flax.serialization",
            "msgpack",
            lambda m, p: p.write_bytes(m.msgpack_serialize({"params": small})),
        ),
        ("safetensors.flax", "safetensors", lambda m, p: m.save_file(small, p)),
        ("onnx.helper", "onnx", lambda m, p: _onnx(p)),
        ("mlx.core", "npz", lambda m, p: m.savez(str(p), **_mlx(m, small))),
        ("scipy.io", "mat", lambda m, p: m.savemat(p, {"w": state[MATRIX]})),
        ("pyarrow.feather", "feather", lambda m, p: _feather(m, p)),
        ("pyarrow.parquet", "parquet", lambda m, p: _parquet(m, p)),
        ("zarr", "zarr", lambda m, p: m.save(str(p), state[MATRIX])),
        ("paddle", "pdparams", lambda m, p: m.save({"w": m.to_tensor(state[MATRIX])}, str(p))),
        ("tensorflow", "tf", lambda m, p: m.saved_model.save(m.Module(), str(p))),
        ("keras", "keras", lambda m, p: m.Sequential([m.layers.Dense(2)]).save(p)),
        ("xgboost", "ubj", lambda m, p: p.write_bytes(bytes(m.Booster().save_raw()))),
        ("tifffile", "tif", lambda m, p: m.imwrite(p, state[MATRIX])),
        ("py7zr", "7z", lambda m, p: _seven(m, p, plain)),
        ("zstandard", "zst", lambda m, p: p.write_bytes(m.compress(plain.read_bytes()))),
    )
    for name, suffix, write in writers:
        if (module := library(name)) is not None:
            makers[name] = (suffix, lambda p, w=write, m=module: w(m, p))
    for name, (suffix, make) in makers.items():
        for called in (f"x.{suffix}", "model.pth", "weights"):
            path = folder / called
            _clear(path)
            try:
                make(folder / f"x.{suffix}")
                if called != f"x.{suffix}":
                    (folder / f"x.{suffix}").rename(path)
            except Exception:
                continue
            yield f"{name}, called {called}", outcome(lambda p=path: logits(p), None)
            _clear(path)
    if (mlx := library("mlx.core")) is not None:
        arrays = {name: mlx.array(value) for name, value in state.items()}
        mlx.save_safetensors(str(folder / "mlx.safetensors"), arrays)
        right = of_numbers(folder, {})
        call = lambda: logits(folder / "mlx.safetensors")  # noqa: E731
        yield "MLX safetensors", outcome(call, right)
        half = {name: value.astype(mlx.bfloat16) for name, value in arrays.items()}
        mlx.save_safetensors(str(folder / "mlx.safetensors"), half, {"format": "mlx"})
        kept = {name: np.array(value.astype(mlx.float32)) for name, value in half.items()}
        yield "MLX safetensors, bfloat16", outcome(call, of_numbers(folder, kept))


def _clear(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _zip(path: Path, inner: Path, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.write(inner, "model.safetensors")


def _tar(path: Path, inner: Path, mode: Any) -> None:
    with tarfile.open(path, mode) as archive:
        archive.add(inner, "model.safetensors")


def _h5(h5py: Any, path: Path, state: State) -> None:
    with h5py.File(path, "w") as file:
        for name, value in state.items():
            file[name] = value


def _mlx(mlx: Any, state: State) -> dict[str, Any]:
    return {name: mlx.array(value) for name, value in state.items()}


def _onnx(path: Path) -> None:
    import onnx

    helper = onnx.helper
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value], [])
    onnx.save(helper.make_model(graph), os.fspath(path))


def _feather(feather: Any, path: Path) -> None:
    import pyarrow as pa

    feather.write_feather(pa.table({"w": [1.0]}), path)


def _parquet(parquet: Any, path: Path) -> None:
    import pyarrow as pa

    parquet.write_table(pa.table({"w": [1.0]}), path)


def _seven(py7zr: Any, path: Path, inner: Path) -> None:
    with py7zr.SevenZipFile(path, "w") as archive:
        archive.write(inner, "model.safetensors")


@door("weights")
def folders(folder: Path) -> Iterator[Trial]:
    """Folders that transformers, PyTorch and people write: as their numbers are, or refused."""
    from safetensors.numpy import save_file

    plain = of_numbers(folder, {})
    target = folder / "one"
    target.mkdir()
    save_file(numbers(), target / "weights.safetensors")
    yield "a folder with one file", outcome(lambda: logits(target), plain)
    save_file({**numbers(), MATRIX: numbers()[MATRIX] * 0}, target / "older.safetensors")
    yield "a folder with two files", outcome(lambda: logits(target), None)
    torch, transformers = library("torch"), library("transformers.models.sam")
    if (
        torch is None
        or transformers is None
        or library("transformers.models.sam.modeling_sam") is None
    ):
        return
    config = transformers.SamConfig(
        vision_config={
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 64,
            "patch_size": 8,
            "output_channels": 32,
            "mlp_dim": 64,
            "window_size": 3,
            "global_attn_indexes": [1],
            "num_pos_feats": 16,
        },
        prompt_encoder_config={
            "hidden_size": 32,
            "image_size": 64,
            "patch_size": 8,
            "mask_input_channels": 8,
        },
        mask_decoder_config={
            "hidden_size": 32,
            "mlp_dim": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "iou_head_hidden_dim": 32,
        },
    )
    torch.manual_seed(4)
    model = transformers.SamModel(config).eval()
    for name, options in (
        ("whole", {}),
        ("in shards", {"max_shard_size": "60KB"}),
        ("of a variant", {"variant": "fp16"}),
    ):
        target = folder / f"transformers {name}"
        model.save_pretrained(target, **options)
        right = _by_transformers(torch, model)
        call = lambda t=target: _low(t)  # noqa: E731
        yield f"transformers, {name}", outcome(call, right, 2e-3)
    model.half().save_pretrained(folder / "half")
    call = lambda: _low(folder / "half")  # noqa: E731
    yield "transformers, float16", outcome(call, _by_transformers(torch, model.float()), 2e-3)
    model.vision_encoder.save_pretrained(folder / "encoder")
    yield "transformers, an encoder alone", outcome(lambda: _low(folder / "encoder"), None)


SQUARE = np.random.default_rng(9).integers(0, 256, (64, 64, 3), np.uint8)


def _low(path: Path) -> np.ndarray:
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(path), num_threads=1)
    predictor.set_image(SQUARE)
    return predictor.predict(point_coords=[[40.0, 30.0]], point_labels=[1]).low_res_masks


def _by_transformers(torch: Any, model: Any) -> np.ndarray:
    """Return what transformers gives for the same click."""
    mean, std = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
    pixels = (SQUARE.astype(np.float32) - mean) / np.array(std, np.float32)
    with torch.no_grad():
        found = model(
            pixel_values=torch.from_numpy(pixels.transpose(2, 0, 1)[None].astype(np.float32)),
            input_points=torch.tensor([[[[40.0, 30.0]]]]),
            input_labels=torch.tensor([[[1]]]),
        )
    return found.pred_masks[0, 0].numpy()
