"""Sine encodings of positions and times."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

TEMPERATURE = 10000.0


@functools.cache
def sine_positions(channels: int, side: int, device: torch.device) -> Tensor:
    """Encode the positions of a square map.

    Returns
    -------
    Tensor
        (1, side * side, channels): first half y, second half x, sine and cosine in turn.
    """
    half = channels // 2
    position = torch.arange(1, side + 1, dtype=torch.float32, device=device)
    position = position / (side + 1e-6) * 2 * math.pi
    number = torch.arange(half, device=device)
    rate = TEMPERATURE ** (2 * (number // 2) / half)
    angle = position[:, None] / rate
    line = torch.where(number % 2 == 0, angle.sin(), angle.cos())
    y = line[:, None].expand(-1, side, -1)
    x = line[None].expand(side, -1, -1)
    return torch.cat([y, x], -1).reshape(1, side * side, channels)


def sine_times(time: Tensor, channels: int) -> Tensor:
    """Encode (P,) times as (P, channels): all sines, then all cosines."""
    half = channels // 2
    number = torch.arange(half, device=time.device)
    angle = time[:, None] / TEMPERATURE ** (2 * (number // 2) / half)
    return torch.cat([angle.sin(), angle.cos()], -1)
