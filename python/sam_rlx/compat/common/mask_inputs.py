"""Masks as prompts, one for each prompt set or one for all."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx.compat.common.errors import ArgumentRuntimeError
from sam_rlx.compat.common.tensor import to_array


def as_logits(mask_input: Any, side: int) -> NDArray[np.float32] | None:
    """Return mask prompts (M, 1, S, S) as (M, S, S); others are refused."""
    logits = to_array(mask_input, np.float32)
    if logits is None:
        return None
    if logits.ndim != 4 or logits.shape[1:] != (1, side, side):
        raise ArgumentRuntimeError(
            f"mask_input: expected logits (1, {side}, {side}) or (B, 1, {side}, {side}), found "
            f"{np.shape(mask_input)}"
        )
    return logits.reshape(-1, side, side)


def same_count(count: int, logits: NDArray[np.float32], *prompts: Any) -> tuple[Any, ...]:
    """Repeat one mask for `count` prompt sets, or one set for several masks."""
    if len(logits) == count:
        return (*prompts, logits)
    if len(logits) != 1 and count != 1:
        raise ArgumentRuntimeError(
            f"mask_input: expected one mask, or one for each of {count} prompt sets, found "
            f"{len(logits)}"
        )
    if count == 1:
        several = (None if x is None else np.repeat(x, len(logits), axis=0) for x in prompts)
        return (*several, logits)
    return (*prompts, np.repeat(logits, count, axis=0))
