"""What makes a step fast: compiled parts, and whole steps captured as CUDA graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

PARTS = ("encoder", "decoder", "memory", "losses", "scenes")
WARM_UP = 3

_on: set[str] = set()
_backend = "inductor"


def compiled(part: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function for each shape it meets, if its part was switched on."""
    assert part in PARTS

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        made: dict[str, Callable[..., Any]] = {}

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if part not in _on:
                return function(*args, **kwargs)
            if _backend not in made:
                made[_backend] = torch.compile(
                    function, fullgraph=True, dynamic=False, backend=_backend
                )
            return made[_backend](*args, **kwargs)

        return call

    return wrap


def switch_on(parts: set[str], backend: str = "inductor") -> None:
    """Choose the parts to compile from now on; the others run operation by operation."""
    global _backend
    unknown = parts - set(PARTS)
    if unknown:
        raise ValueError(f"parts to compile are {', '.join(PARTS)}, found {sorted(unknown)}")
    _backend = backend
    _on.clear()
    _on.update(parts)
    # Every shape of every phase is compiled on its own.
    torch._dynamo.config.recompile_limit = 256
    torch._dynamo.config.accumulated_recompile_limit = 4096


class Step:
    """A function without arguments that can be replayed as a CUDA graph.

    The graph works on the same memory each time: what the function reads must stay where it is,
    and what it returns is overwritten by the next call. Random numbers of the device's own
    generator are new in each replay.

    Parameters
    ----------
    body : callable
        It must not make the program wait for the device.
    capture : bool
        Capture at the first call; else call `body` each time.
    warm_up : int
        How often to call `body` before, to compile it and to let libraries choose; what it
        changes is changed so often.
    """

    def __init__(self, body: Callable[[], Any], capture: bool, warm_up: int = WARM_UP) -> None:
        self.body, self.capture, self.warm_up = body, capture, warm_up
        self.graph: torch.cuda.CUDAGraph | None = None
        self.out: Any = None

    def __call__(self) -> Any:
        """Run once; the first call also compiles, warms up and captures."""
        if not self.capture:
            return self.body()
        if self.graph is None:
            self._capture()
        self.graph.replay()
        return self.out

    def _capture(self) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(self.warm_up):
                self.body()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        # Threads of NCCL ask the device about their events meanwhile.
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.out = self.body()
