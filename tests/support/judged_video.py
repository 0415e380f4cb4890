"""The same calls to SAM 2's video predictor upstream, its float64 copy and ours.

Upstream and ours round memories to bfloat16, the copy rounds nothing: what upstream is wrong by
holds this rounding too, and ours may be four times as wrong (see `parity.close`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support import parity, upstream, upstream_video

NO_OBJECT = -1024.0  # every logit of an object that upstream has not found
Call = Callable[[Any, Any], Any]


class Judged:
    """Sessions of the three on one folder of JPEG files."""

    def __init__(self, single: Any, ours: Any, folder: str) -> None:
        self.single = single, single.init_state(folder)
        with upstream_video.precise(single) as double:
            self.exact = double, double.init_state(folder)
        self.ours = ours, ours.init_state(folder)

    @property
    def both(self) -> list[tuple[Any, Any]]:
        """Upstream's predictor and ours, each with its session."""
        return [self.single, self.ours]

    def call(self, call: Call) -> Any:
        """Make a call (predictor, state) and hold the result of ours, which is returned."""
        single = _arrays(call(*self.single))
        with upstream.float64():
            exact = _arrays(call(*self.exact))
        ours = _arrays(call(*self.ours))
        _hold(ours, exact, single, "result")
        return ours


def _arrays(result: Any) -> Any:
    """Turn tensors of nested results into arrays."""
    if result is None or isinstance(result, int | str):
        return result
    if hasattr(result, "detach"):
        return result.detach().numpy()
    if isinstance(result, np.ndarray):
        return result
    return [_arrays(part) for part in result]


def _hold(ours: Any, exact: Any, single: Any, name: str) -> None:
    if isinstance(single, list):
        assert len(ours) == len(exact) == len(single), name
        for index, parts in enumerate(zip(ours, exact, single, strict=True)):
            _hold(*parts, f"{name}, {index}")
    elif isinstance(single, np.ndarray):
        assert (ours.shape, ours.dtype) == (single.shape, single.dtype), name
        for index, (mine, right, rough) in enumerate(zip(ours, exact, single, strict=True)):
            if (right == NO_OBJECT).all():
                assert (mine == NO_OBJECT).all(), f"{name}, object {index}"
            else:
                parity.close(mine, right, rough, f"{name}, object {index}")
    else:
        assert ours == exact == single, name
