"""What layers computed, by path: ours as recorded, the reference's brought into our layout."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core

Arrays = dict[str, NDArray[Any]]

# Results that are tuples: the last part of our path, and its position in the tuple.
_PARTS = {
    "queries": 0,
    "keys": 1,
    "sparse_embeddings": 0,
    "dense_embeddings": 1,
    "low_res_masks": 0,
}


def record_ours(
    predictor: Any, call: Callable[[], Any], *, first: bool = False
) -> tuple[Arrays, Any]:
    """Run `call`, which uses a core predictor. Returns layers by path, in order, and its result.

    Of a layer that is run several times the last result counts, or the first one.
    """
    trace = _core.Trace()
    predictor.set_trace(trace)
    try:
        result = call()
    finally:
        predictor.set_trace(None)
    layers: Arrays = {}
    for path, value in trace.take():
        if not (first and path in layers):
            layers[path] = np.asarray(value)
    return layers, result


class Recorder:
    """Records outputs of the modules of a network that our paths name.

    Parameters
    ----------
    network : torch.nn.Module
        The reference.
    name_of : callable
        From our path to the network's.
    before : mapping
        From our path to a module whose input is recorded instead of an output: where we do two
        steps at once.
    """

    def __init__(
        self, network: Any, name_of: Callable[[str], str], before: Mapping[str, str]
    ) -> None:
        self._modules = dict(network.named_modules())
        self._name_of, self._before = name_of, before
        self._found: dict[str, Any] = {}

    def _target(self, path: str) -> tuple[str, tuple[int, ...]] | None:
        """Return the module of a path, and the position of the result in what it gives."""
        name = self._name_of(path)
        if name in self._modules:
            return name, ()
        parent, _, last = name.rpartition(".")
        if parent not in self._modules:
            return None
        if last in _PARTS:
            return parent, (_PARTS[last],)
        if last.isdecimal():  # a level of a neck, whose result is (levels, positions)
            return parent, (0, int(last))
        return None

    @contextmanager
    def recording(self, paths: Iterable[str], *, first: bool = False) -> Iterator[Arrays]:
        """Record while the block runs: arrays of the last or first call by path."""
        found: Arrays = {}
        handles = []

        def keep(path: str, where: tuple[int, ...], value: Any) -> None:
            if hasattr(value, "to_tuple"):  # the results of transformers' classes
                value = value.to_tuple()
            for index in where:
                if not isinstance(value, list | tuple) or index >= len(value):
                    return
                value = value[index]
            while isinstance(value, list | tuple) and value:
                value = value[0]
            if hasattr(value, "detach") and not (first and path in found):
                found[path] = value.detach().clone().numpy()

        for path in paths:
            if path in self._before:
                module = self._modules[self._before[path]]
                handles.append(
                    module.register_forward_pre_hook(
                        lambda _m, args, path=path: keep(path, (), args[0])
                    )
                )
            elif target := self._target(path):
                name, where = target
                handles.append(
                    self._modules[name].register_forward_hook(
                        lambda _m, _a, out, path=path, where=where: keep(path, where, out)
                    )
                )
        try:
            yield found
        finally:
            for handle in handles:
                handle.remove()


def squeezed(value: NDArray[Any]) -> NDArray[Any]:
    """Drop axes of one."""
    return value.reshape([size for size in value.shape if size != 1])


def in_our_layout(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[Any] | None:
    """Bring a reference's array to the shape of ours, or return None where none fits.

    Axes of one are dropped. Channels may stand first, tokens may be laid out as a map, and of
    tokens (N, C) we may have computed the first ones only. Where several orders have the shape,
    the nearest is meant: a wrong order differs everywhere.
    """
    target, value = squeezed(ours), squeezed(theirs)
    fitting = []
    for order in itertools.permutations(range(value.ndim)):
        moved = value.transpose(order)
        if moved.shape == target.shape:
            fitting.append(moved)
        elif moved.size == target.size and moved.shape[-1:] == target.shape[-1:]:
            fitting.append(moved.reshape(target.shape))
        elif (
            moved.ndim == target.ndim == 2
            and moved.shape[1] == target.shape[1]
            and moved.shape[0] > target.shape[0]
        ):
            fitting.append(moved[: target.shape[0]])
    if not fitting:
        return None
    return min(fitting, key=lambda found: float(np.abs(found - target).sum()))
