"""Formulas in float64 for the tests of ops, and the comparison with an op."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

_testing = pytest.importorskip("sam_rlx._testing", reason="built without SAM_RLX_TESTING")

ISAS = _testing.available_isas()
# Those that multiply bfloat16 itself: there inputs are rounded like weights.
BFLOAT16_ISAS = [isa for isa in ISAS if isa in ("amx", "avx512_bf16", "neon_bf16")]
# Those that multiply integers of 16 bits faster than float32: there weights of 16 bits and their
# inputs are such integers, with a scale for each row.
INT16_ISAS = [isa for isa in ISAS if isa in ("avx2", "avx2_vnni", "avx512_vnni")]
# Others multiply float32 with weights that they widen.
WIDENED_ISAS = [isa for isa in ISAS if isa not in (*BFLOAT16_ISAS, *INT16_ISAS)]
# Of the largest result, for normal numbers: what rounding to such integers costs.
INT16_ERROR = 2.0**-11
THREADS = (1, 2, 3)
op = _testing.op


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def normal(random: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return random.standard_normal(shape).astype(np.float32)


def f64(*arrays: ArrayLike | None) -> list[Any]:
    return [None if a is None else np.asarray(a, np.float64) for a in arrays]


def to_bfloat16(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Float32 rounded to nearest even at 8 bits."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    odd = (bits >> np.uint64(16)) & np.uint64(1)
    bits = (bits + np.uint64(0x7FFF) + odd) & np.uint64(0xFFFF0000)
    return bits.astype(np.uint32).view(np.float32)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = 0.5 * x * (1 + _erf(x / math.sqrt(2)))
    return result


ACTIVATIONS = {"none": lambda x: x, "relu": lambda x: np.maximum(x, 0), "gelu": gelu}


def softmax(x: NDArray[np.float64]) -> NDArray[np.float64]:
    e = np.exp(x - x.max(-1, keepdims=True))
    result: NDArray[np.float64] = e / e.sum(-1, keepdims=True)
    return result


def check(
    name: str,
    truth: NDArray[np.float64],
    *args: Any,
    bound: float | None = None,
    isas: Sequence[str] = ISAS,
    **kwargs: Any,
) -> None:
    """Run an op with every ISA and thread count and hold it to `truth` (float64).

    `bound` is the largest allowed error; by default what float32 sums of this kind reach. The
    thread count must not change a bit.
    """
    largest = float(np.abs(truth).max(initial=0))
    bound = (5e-6 * largest if bound is None else bound) + 1e-6 * largest
    for isa in isas:
        results = [op(name, *args, isa=isa, num_threads=n, **kwargs) for n in THREADS]
        assert results[0].dtype == np.float32
        assert results[0].shape == truth.shape
        for result in results[1:]:
            np.testing.assert_array_equal(results[0], result)
        error = float(np.abs(results[0] - truth).max(initial=0))
        assert error <= bound, f"{name} {isa}: error {error:.3g}, allowed {bound:.3g}"


def check_bfloat16(
    name: str,
    formula: Callable[[Any, Any], NDArray[np.float64]],
    x: NDArray[np.float32],
    weight: NDArray[np.float32],
    *args: Any,
    **kwargs: Any,
) -> None:
    """Hold an op to `formula` of what it multiplies.

    These are rounded weights, and rounded inputs where the processor multiplies bfloat16; or the
    numbers themselves, nearly, where it multiplies integers.
    """
    for isas, inputs in ((WIDENED_ISAS, x), (BFLOAT16_ISAS, to_bfloat16(x))):
        truth = formula(inputs, to_bfloat16(weight))
        check(name, truth, x, weight, *args, isas=isas, format="bfloat16", **kwargs)
    truth = formula(x, weight)
    kwargs["bound"] = INT16_ERROR * float(np.abs(truth).max(initial=0))
    check(name, truth, x, weight, *args, isas=INT16_ISAS, format="bfloat16", **kwargs)


def torch_bound(truth: NDArray[np.float64], rival: Any) -> float:
    """4 times the error of a float32 result of PyTorch."""
    return 4 * float(np.abs(rival.detach().numpy() - truth).max(initial=0))
