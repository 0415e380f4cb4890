"""Weights that we write, read by the other tools of their format: all numbers are the same.

Example: ``python tests/nightly weights_read_back``. safetensors, PyTorch, gguf, MLX and the C
library of ggml (package libggml-python); what is not installed is said and left out.
"""

from __future__ import annotations

import ctypes
import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sam_rlx
from numpy.typing import NDArray
from sam_rlx import _core

MODELS = ("sam-nano", "sam2-nano", "sam3-nano")
SAFETENSORS = ("F32", "F16", "BF16")
GGUF = ("F32", "F16", "BF16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "MXFP4")
GGUF += ("Q6_K", "Q5_K", "Q4_K", "Q3_K", "Q2_K", "Q8_K")
# What MLX 0.32 reads as it is or as packed matrices of its own; it makes float16 of the others.
MLX_PACKED = {"Q8_0": 8, "Q4_0": 4, "Q4_1": 4}
MLX_GGUF = ("F32", "F16", *MLX_PACKED)
Reader = Callable[[Path], Iterator[tuple[str, NDArray[np.float32]]]]


def ours(path: Path) -> dict[str, NDArray[np.float32]]:
    """Return the numbers that we read."""
    checkpoint = _core.Checkpoint(str(path))
    return {
        name: np.frombuffer(checkpoint.encode(name, "F32").data, np.float32).reshape(shape)
        for name, _, shape in checkpoint.tensors
    }


# ---------------------------------------------------------------- safetensors


def by_safetensors(path: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Through PyTorch, which knows bfloat16."""
    from safetensors.torch import load_file

    for name, tensor in load_file(path).items():
        yield name, tensor.float().numpy()


def by_mlx(path: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Through MLX; packed matrices of GGUF are a weight, scales and biases there."""
    import mlx.core as mx

    arrays = mx.load(str(path))
    packed = {name.removesuffix(".scales") for name in arrays if name.endswith(".scales")}
    for name, array in arrays.items():
        base = name.rpartition(".")[0]
        if base not in packed or name.endswith(".bias"):
            yield name, np.array(array.astype(mx.float32))
        elif name.endswith(".weight"):
            scales = arrays[f"{base}.scales"]
            bits = array.shape[-1] // scales.shape[-1]  # 32 numbers in so many words of 32 bits
            whole = mx.dequantize(array, scales, arrays[f"{base}.biases"], 32, bits)
            yield name, np.array(whole.astype(mx.float32))


# ---------------------------------------------------------------- GGUF


def by_gguf(path: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Through the Python package of llama.cpp."""
    import gguf

    for tensor in gguf.GGUFReader(path).tensors:
        kind, data = tensor.tensor_type, np.asarray(tensor.data)
        yield tensor.name, gguf.dequantize(data, kind).astype(np.float32)


class _Params(ctypes.Structure):
    _fields_ = (("no_alloc", ctypes.c_bool), ("context", ctypes.POINTER(ctypes.c_void_p)))


class _Traits(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        *((field, ctypes.c_int64) for field in ("block", "interleave")),
        ("size", ctypes.c_size_t),
        ("quantized", ctypes.c_bool),
        (
            "to_float",
            ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64),
        ),
    )


class Ggml:
    """The C library of ggml."""

    def __init__(self) -> None:
        found = importlib.util.find_spec("libggml")
        assert found is not None
        folder = Path(next(iter(found.submodule_search_locations or ())))
        self.c: Any = ctypes.CDLL(str(next(folder.rglob("libggml-base.so"))))
        self.c.gguf_init_from_file.restype = ctypes.c_void_p
        self.c.gguf_init_from_file.argtypes = (ctypes.c_char_p, _Params)
        self.c.gguf_write_to_file.restype = ctypes.c_bool
        self.c.gguf_write_to_file.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_bool)
        self.c.gguf_init_empty.restype = ctypes.c_void_p
        self.c.gguf_set_kv.argtypes = self.c.gguf_add_tensor.argtypes = (ctypes.c_void_p,) * 2
        self.c.gguf_free.argtypes = self.c.ggml_free.argtypes = (ctypes.c_void_p,)
        self.c.ggml_get_type_traits.restype = ctypes.POINTER(_Traits)
        for name in ("ggml_get_first_tensor", "ggml_get_data", "ggml_get_name"):
            function = getattr(self.c, name)
            function.restype = ctypes.c_char_p if name.endswith("name") else ctypes.c_void_p
            function.argtypes = (ctypes.c_void_p,)
        self.c.ggml_get_next_tensor.restype = ctypes.c_void_p
        self.c.ggml_get_next_tensor.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        self.c.ggml_nelements.restype = ctypes.c_int64
        self.c.ggml_nelements.argtypes = (ctypes.c_void_p,)

    def open(self, path: Path) -> tuple[int, ctypes.c_void_p]:
        """Read a file whole; what describes it, and what owns its tensors."""
        context = ctypes.c_void_p()
        file = self.c.gguf_init_from_file(
            str(path).encode(), _Params(no_alloc=False, context=ctypes.pointer(context))
        )
        assert file, path
        return file, context

    def close(self, file: int, context: ctypes.c_void_p) -> None:
        """Free both."""
        self.c.gguf_free(file)
        self.c.ggml_free(context)

    def numbers(self, path: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Unpack every tensor as ggml does it."""
        file, context = self.open(path)
        tensor = self.c.ggml_get_first_tensor(context)
        while tensor:
            kind = ctypes.cast(tensor, ctypes.POINTER(ctypes.c_int32))[0]
            name, count = self.c.ggml_get_name(tensor), self.c.ggml_nelements(tensor)
            if name and name != b"GGUF tensor data binary blob":
                out = np.empty(count, np.float32)
                if kind == 0:
                    ctypes.memmove(out.ctypes.data, self.c.ggml_get_data(tensor), out.nbytes)
                else:
                    traits = self.c.ggml_get_type_traits(kind)[0]
                    traits.to_float(self.c.ggml_get_data(tensor), out.ctypes.data, count)
                yield name.decode(), out
            tensor = self.c.ggml_get_next_tensor(context, tensor)
        self.close(file, context)

    def copy(self, source: Path, output: Path) -> None:
        """Write the file as every C tool that splits or merges does it."""
        file, context = self.open(source)
        made = self.c.gguf_init_empty()
        self.c.gguf_set_kv(made, file)
        tensor = self.c.ggml_get_first_tensor(context)
        while tensor:
            if self.c.ggml_get_name(tensor) != b"GGUF tensor data binary blob":
                self.c.gguf_add_tensor(made, tensor)
            tensor = self.c.ggml_get_next_tensor(context, tensor)
        assert self.c.gguf_write_to_file(made, str(output).encode(), False)
        self.c.gguf_free(made)
        self.close(file, context)


# ---------------------------------------------------------------- comparing


def differing(path: Path, reader: Reader, exact: bool = True) -> list[str]:
    """Names of tensors that a reader lacks, or that have other numbers; `exact` by bits."""
    expected = {name: values.ravel() for name, values in ours(path).items()}
    problems, long_names = [], set(expected)
    for name, values in reader(path):
        full = _long_name(name, expected)
        long_names.discard(full)
        want, found = expected[full], values.ravel()
        # MLX keeps scales and minima of packed matrices as float16.
        bound = 0 if exact else 2e-3 * float(np.abs(want).max())
        if want.shape != found.shape or not np.allclose(want, found, rtol=0, atol=bound):
            problems.append(name)
    return problems + sorted(long_names)


def _long_name(name: str, known: dict[str, Any]) -> str:
    """GGUF files have short names, which opening restores."""
    if name in known:
        return name
    short = {_core.to_short_name(family, each): each for family in FAMILIES for each in known}
    return short[name]


FAMILIES = ("sam", "sam2", "sam3")


def _readers(suffix: str) -> dict[str, Reader]:
    installed = {
        "torch": {".safetensors": {"safetensors": by_safetensors}},
        "gguf": {".gguf": {"gguf": by_gguf}},
        "mlx": {".safetensors": {"MLX": by_mlx}, ".gguf": {"MLX": by_mlx}},
        "libggml": {".gguf": {"ggml": lambda path: Ggml().numbers(path)}},
    }
    result: dict[str, Reader] = {}
    for package, formats in installed.items():
        if importlib.util.find_spec(package) is None:
            print(f"{package}: not installed")
        else:
            result |= formats.get(suffix, {})
    return result


def main(amount: int = len(MODELS), seed: int = 0) -> int:
    """Check the first `amount` models in every format; return the number of problems."""
    del seed
    problems = files = 0
    readers = {suffix: _readers(suffix) for suffix in (".safetensors", ".gguf")}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for model in MODELS[:amount]:
            for suffix, dtypes in ((".safetensors", SAFETENSORS), (".gguf", GGUF)):
                for dtype in dtypes:
                    path = folder / f"x{suffix}"
                    sam_rlx.convert(model, path, dtype=dtype)
                    for name, reader in readers[suffix].items():
                        mlx_packed = name == "MLX" and suffix == ".gguf"
                        if mlx_packed and dtype not in MLX_GGUF:
                            continue
                        found = differing(path, reader, exact=not mlx_packed)
                        files += 1
                        problems += bool(found)
                        if found:
                            print(f"{model} {dtype}{suffix}, {name}: {len(found)}: {found[:3]}")
                    if suffix == ".gguf" and "ggml" in readers[suffix]:
                        Ggml().copy(path, folder / "copy.gguf")
                        hashes = {
                            sam_rlx.load_model(each).core.weights_hash
                            for each in (path, folder / "copy.gguf")
                        }
                        files += 1
                        problems += len(hashes) - 1
                        (folder / "copy.gguf").unlink()
                    path.unlink()
    print(f"weights_read_back: {files} readings of {amount} models, {problems} problems")
    return problems
