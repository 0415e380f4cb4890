"""What a camera and a file format do to a scene: light, blur, noise, compression."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def finish(image: Tensor, grey_always: Tensor, gen: torch.Generator, group: int = 1) -> Tensor:
    """Turn composed colours in 0..1 into picture values in 0..255.

    Parameters
    ----------
    image : Tensor
        (B, 3, S, S).
    grey_always : Tensor
        (B,) bool: scenes that become grey pictures most of the time.
    gen : torch.Generator
        Source of chance.
    group : int
        So many pictures in a row come from one camera; only their noise differs.
    """
    b, device = len(image), image.device

    def rand(n: int, *shape: int) -> Tensor:
        drawn = torch.rand(n // group, *shape, generator=gen, device=device)
        return drawn.repeat_interleave(group, 0)

    def pick(p: float) -> Tensor:
        return (rand(b, 1, 1, 1) < p).float()

    image = image.clamp(0, 1.3) * _illumination(image, rand, pick)
    gamma = torch.exp((rand(b, 1, 1, 1) - 0.5) * 0.9)
    image = image.clamp(1e-4, 1) ** gamma
    flat = pick(0.2) * 0.6 * rand(b, 1, 1, 1)
    image = image * (1 - flat) + flat * rand(b, 1, 1, 1) * 0.7
    grey = torch.maximum(pick(0.15), grey_always.reshape(b, 1, 1, 1) * pick(0.85))
    image = image + grey * (image.mean(1, keepdim=True) - image)
    for sigma in (0.7, 1.4):
        image = image + pick(0.35) * rand(b, 1, 1, 1) * (_blur(image, sigma) - image)
    noise = torch.randn(image.shape, generator=gen, device=device)
    coarse = _blur(noise, 0.7) * 2
    noise = torch.where(pick(0.5) > 0, noise, coarse)
    noise = noise + grey * (noise.mean(1, keepdim=True) * 1.5 - noise)
    image = image + pick(0.6) * rand(b, 1, 1, 1) ** 2 * 0.09 * noise
    image = (image.clamp(0, 1) * 255).round()
    coded = _blocks(image, 4 + 50 * rand(b, 1, 1, 1) ** 2)
    return (image + pick(0.4) * (coded - image)).clamp(0, 255).round()


def _illumination(image: Tensor, rand, pick) -> Tensor:
    """A smooth gain over the picture."""
    b = len(image)
    coarse = 1 + (rand(b, 1, 3, 3) - 0.5) * pick(0.5) * 1.2 * rand(b, 1, 1, 1)
    return F.interpolate(coarse, image.shape[2:], mode="bicubic", align_corners=True)


def _blur(image: Tensor, sigma: float) -> Tensor:
    """Gaussian blur with reflected borders."""
    reach = math.ceil(2.5 * sigma)
    place = torch.arange(-reach, reach + 1, device=image.device, dtype=image.dtype)
    kernel = torch.exp(-((place / sigma) ** 2) / 2)
    kernel = (kernel / kernel.sum()).reshape(1, 1, -1, 1)
    b, c, h, w = image.shape
    flat = F.pad(image.reshape(b * c, 1, h, w), (reach,) * 4, mode="reflect")
    return F.conv2d(F.conv2d(flat, kernel), kernel.transpose(2, 3)).reshape(b, c, h, w)


def _blocks(image: Tensor, step: Tensor) -> Tensor:
    """Quantise 8 x 8 cosine coefficients, coarser for higher frequencies, as JPEG does."""
    h, w = image.shape[2:]
    image = F.pad(image, (0, -w % 8, 0, -h % 8), mode="replicate")
    n = torch.arange(8, device=image.device, dtype=image.dtype)
    basis = torch.cos(math.pi * (2 * n[None] + 1) * n[:, None] / 16) / 2
    basis[0] /= math.sqrt(2)
    tiles = image.unflatten(2, (-1, 8)).unflatten(4, (-1, 8)).transpose(3, 4)
    table = (step * (1 + 0.6 * (n[:, None] + n[None])))[:, :, None, None]
    coefficients = ((basis @ tiles @ basis.T) / table).round() * table
    tiles = basis.T @ coefficients @ basis
    return tiles.transpose(3, 4).flatten(4, 5).flatten(2, 3)[..., :h, :w]
