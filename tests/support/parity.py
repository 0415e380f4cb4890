"""The rule that decides whether a layer of ours is upstream's: see `close`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support import cases

# A float32 result may be this many times as wrong as PyTorch's own float32 result is. The second
# term is for results that PyTorch happens to get exactly right.
FACTOR = 4.0
FLOOR = 1e-6
# How wrong float32 is on fewer numbers than these is a matter of luck, and of PyTorch's kernels for
# the processor at hand: so many more results are made of inputs that differ in their last bit.
FEW, NUDGES = 64, 4
THREADS = (1, 3)


def default_seeds() -> Sequence[int]:
    """Return the seeds of weights and inputs: one by default."""
    return (0, 1) if cases.full else (0,)


@dataclass(frozen=True)
class Difference:
    """How far a result is from the float64 reference, beside PyTorch's own distance."""

    name: str
    error: float
    reference_error: float
    scale: float
    cosine: float

    @property
    def bound(self) -> float:
        return FACTOR * self.reference_error + FLOOR * self.scale

    @property
    def ok(self) -> bool:
        return self.error <= self.bound

    def __str__(self) -> str:
        relative = self.error / self.scale if self.scale else self.error
        return (
            f"{self.name}: max |ours - float64| = {self.error:.3e}, allowed {self.bound:.3e}; "
            f"relative {relative:.3e}, float32 reference {self.reference_error:.3e}, "
            f"scale {self.scale:.3e}, cosine {self.cosine:.9f}"
        )


def _largest(x: NDArray[Any]) -> float:
    return float(np.max(np.abs(x))) if x.size else 0.0


def _cosine(a: NDArray[Any], b: NDArray[Any]) -> float:
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.vdot(a, b)) / norm if norm else 1.0


def difference(
    ours: Any, reference64: Any, reference32: Any, name: str, more32: Sequence[Any] = ()
) -> Difference:
    """Measure one tensor. Wrong shapes, types and non-finite values fail at once.

    The worst of `reference32` and `more32` tells how wrong float32 is.
    """
    found, exact = np.asarray(ours), np.asarray(reference64)
    singles = [np.asarray(single, np.float64) for single in (reference32, *more32)]
    assert exact.dtype == np.float64, f"{name}: the reference is {exact.dtype}, not float64"
    assert found.dtype == np.float32, f"{name}: expected float32, found {found.dtype}"
    assert found.shape == exact.shape, f"{name}: expected shape {exact.shape}, found {found.shape}"
    assert np.isfinite(exact).all(), f"{name}: the reference is not finite"
    assert np.isfinite(found).all(), f"{name}: {np.sum(~np.isfinite(found))} values not finite"
    wide = found.astype(np.float64)
    return Difference(
        name=name,
        error=_largest(wide - exact),
        reference_error=max(_largest(single - exact) for single in singles),
        scale=_largest(exact),
        cosine=_cosine(wide.ravel(), exact.ravel()),
    )


def close(
    ours: Any,
    reference64: Any,
    reference32: Any,
    name: str = "result",
    more32: Sequence[Any] = (),
) -> None:
    """Assert that ours is as good a float32 result as PyTorch's.

    The largest error against the float64 reference may be four times PyTorch's own in float32,
    plus 1e-6 of the largest value of the reference. `more32` are further results in float32.
    """
    found = difference(ours, reference64, reference32, name, more32)
    assert found.ok, str(found)


def same_bits(left: Any, right: Any, name: str) -> None:
    """Assert that two results, arrays or tuples of arrays, are equal bit for bit."""
    for i, (a, b) in enumerate(zip(_parts(left), _parts(right), strict=True)):
        where = f"{name}[{i}]"
        assert a.shape == b.shape, f"{where}: expected shape {a.shape}, found {b.shape}"
        assert a.dtype == b.dtype, f"{where}: expected {a.dtype}, found {b.dtype}"
        assert a.tobytes() == b.tobytes(), f"{where}: {int(np.sum(a != b))} of {a.size} differ"


def masks_agree(ours: Any, logits64: Any, name: str = "masks") -> None:
    """Assert that boolean masks are those of the reference's float64 logits.

    The intersection over union is at least 0.999 for each mask, and pixels differ only where the
    reference is within 1e-3 of its scale from the threshold 0.
    """
    found, logits = np.asarray(ours), np.asarray(logits64)
    assert found.dtype == np.bool_, f"{name}: expected bool, found {found.dtype}"
    assert found.shape == logits.shape, f"{name}: {found.shape} is not {logits.shape}"
    wrong = found != (logits > 0)
    scale = _largest(logits)
    assert not np.any(wrong & (np.abs(logits) > 1e-3 * scale)), f"{name}: a clear pixel differs"
    union = np.sum(found | (logits > 0), axis=(-2, -1))
    shared = np.sum(found & (logits > 0), axis=(-2, -1))
    worst = np.min(np.where(union > 0, shared / np.maximum(union, 1), 1.0), initial=1.0)
    assert worst >= 0.999, f"{name}: intersection over union is {worst:.5f}"


def _parts(value: Any) -> tuple[NDArray[Any], ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _inputs(generator: np.random.Generator, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Draw an array for each shape; anything that is no shape stays."""
    drawn: dict[str, Any] = {}
    for name, value in inputs.items():
        shape = isinstance(value, tuple) and all(isinstance(n, int) for n in value)
        drawn[name] = generator.standard_normal(value, dtype=np.float32) if shape else value
    return drawn


def _awkward(value: Any) -> Any:
    """Return the same numbers as a read-only array with gaps between its elements."""
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return value
    wide = np.zeros((*value.shape[:-1], 2 * value.shape[-1]), value.dtype)
    view = wide[..., ::2]
    view[...] = value
    view.flags.writeable = False
    return view


def _moved(value: Any, generator: np.random.Generator) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype != np.float32:
        return value
    towards = np.array([-np.inf, np.inf], np.float32)[generator.integers(0, 2, value.shape)]
    fixed = ~np.isfinite(value) | (value == np.rint(value))
    return np.where(fixed, value, np.nextafter(value, towards))


def last_bits(value: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """Move each float32 number by its last bit, but not whole ones: they may be flags."""
    moved: NDArray[np.float32] = _moved(value, np.random.default_rng([seed, 79]))
    return moved


def _nudged(inputs: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Do the same with all arrays of several inputs."""
    generator = np.random.default_rng([seed, 79])
    return {name: _moved(value, generator) for name, value in inputs.items()}


# Tables that differ from avx512's, avx2's or neon's in products of bytes and bfloat16 alone.
REDUCED_ISAS = {
    *("amx", "avx512_bf16", "avx512_vnni", "avx2_vnni"),
    *("neon_dotprod", "neon_i8mm", "neon_bf16"),
}


class Parity:
    """Holds our layers to upstream's. The fixture `parity` gives one."""

    def __init__(self, testing: Any) -> None:
        self.testing = testing
        isas = testing.available_isas()
        self.isas: Sequence[str] = [isa for isa in isas if isa not in REDUCED_ISAS]

    close = staticmethod(close)
    masks_agree = staticmethod(masks_agree)
    same_bits = staticmethod(same_bits)

    def check(
        self,
        name: str,
        module: Any,
        config: Mapping[str, Any],
        *,
        adapt: Callable[..., Any] | None = None,
        seeds: Iterable[int] | None = None,
        **inputs: Any,
    ) -> None:
        """Compare a layer with an upstream module under random weights.

        Parameters
        ----------
        name : str
            Name of our layer, such as ``"sam.Block"``.
        module : torch.nn.Module
            The reference. Its weights are overwritten.
        config : dict
            Sizes, under upstream's argument names, for ``_testing.layer``.
        adapt : callable, optional
            ``adapt(module, **tensors)`` calls the module on tensors made of the inputs and
            returns tensors in our layout. Default: ``module(**tensors)``.
        seeds : iterable of int
            One set of weights and inputs each.
        **inputs
            A shape, for which normal float32 values are drawn; or an array, or any other value
            that both sides take as it is.
        """
        from support import upstream

        for seed in default_seeds() if seeds is None else seeds:
            upstream.randomise(module, seed)
            drawn = _inputs(np.random.default_rng([seed, 77]), inputs)
            references32 = [upstream.run(module, drawn, adapt)]
            if any(np.size(part) < FEW for part in _parts(references32[0])):
                nudged = (_nudged(drawn, i) for i in range(NUDGES))
                references32 += [upstream.run(module, inputs, adapt) for inputs in nudged]
            reference64 = upstream.run64(upstream.double(module), drawn, adapt)
            weights = upstream.state_dict(module)

            @functools.lru_cache(maxsize=1)
            def layer(isa: str, weights: Any = weights) -> Any:
                return self.testing.layer(name, dict(config), weights, isa=isa)

            def forward(isa: str, threads: int, arrays: dict[str, Any], layer: Any = layer) -> Any:
                built = layer(isa)
                built.num_threads = threads
                return built.forward(**arrays)

            self._compare(f"{name} seed {seed}", forward, drawn, reference64, references32)

    def check_op(
        self,
        name: str,
        formula: Callable[..., Any],
        *,
        seeds: Iterable[int] | None = None,
        options: Mapping[str, Any] | None = None,
        **inputs: Any,
    ) -> None:
        """Compare an op without weights with its NumPy formula; PyTorch is not needed.

        `formula` takes the inputs as arrays, and is evaluated in float64 and in float32. `options`
        go to both sides unchanged, and to ours as ``_testing.op(name, ..., **options)``.
        """
        fixed = dict(options or {})
        for seed in default_seeds() if seeds is None else seeds:
            drawn = _inputs(np.random.default_rng([seed, 78]), inputs)
            wide = {k: self._widened(v) for k, v in drawn.items()}
            reference64 = formula(**wide, **fixed)
            references32 = [formula(**drawn, **fixed)]

            def forward(isa: str, threads: int, arrays: dict[str, Any]) -> Any:
                return self.testing.op(name, isa=isa, num_threads=threads, **arrays, **fixed)

            self._compare(f"{name} seed {seed}", forward, drawn, reference64, references32)

    @staticmethod
    def _widened(value: Any) -> Any:
        floating = isinstance(value, np.ndarray) and value.dtype == np.float32
        return value.astype(np.float64) if floating else value

    def _compare(
        self,
        label: str,
        forward: Callable[[str, int, dict[str, Any]], Any],
        inputs: dict[str, Any],
        reference64: Any,
        references32: Sequence[Any],
    ) -> None:
        exact = _parts(reference64)
        singles = list(zip(*map(_parts, references32), strict=True))
        for isa in self.isas:
            where = f"{label} isa {isa}"
            ours = forward(isa, 1, inputs)
            parts = _parts(ours)
            assert len(parts) == len(exact), f"{where}: {len(parts)} results, not {len(exact)}"
            for i, found in enumerate(parts):
                close(found, exact[i], singles[i][0], f"{where} result {i}", singles[i][1:])
            for threads in THREADS[1:]:
                same_bits(ours, forward(isa, threads, inputs), f"{where}, {threads} threads")
        awkward = {key: _awkward(value) for key, value in inputs.items()}
        same_bits(ours, forward(self.isas[-1], 1, awkward), f"{label}, strided input")

    def trace(
        self,
        ours: Mapping[str, Any],
        reference64: Mapping[str, Any],
        reference32: Mapping[str, Any],
        required: Iterable[str] = (),
    ) -> None:
        """Compare a whole model by path, and name the first layer that differs.

        `ours` holds arrays by path in the order of computation; the references hold arrays by the
        same paths. A path of ours that the reference does not have is an error, and so is one of
        `required` that ours does not have.
        """
        unknown = [path for path in ours if path not in reference64]
        assert not unknown, f"recorded under names that upstream does not have: {unknown}"
        absent = [path for path in required if path not in ours]
        assert not absent, f"not recorded: {absent}"
        found = [difference(ours[p], reference64[p], reference32[p], p) for p in ours]
        wrong = [entry for entry in found if not entry.ok]
        assert not wrong, (
            f"first of {len(wrong)} layers that differ, of {len(found)}:\n{wrong[0]}\n"
            + "\n".join(f"  {'ok ' if entry.ok else 'BAD'} {entry}" for entry in found)
        )
