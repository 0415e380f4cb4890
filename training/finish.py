"""What a camera and a file format do to a scene: light, blur, noise, compression."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from training.speed import compiled


class Chances(NamedTuple):
    """What is drawn for each image: shares (B, 1, 1, 1), or 0 and 1 for whether at all."""

    glow: Tensor
    glows: Tensor
    glow_size: Tensor
    gamma: Tensor
    veiled: Tensor
    veil: Tensor
    veil_grey: Tensor
    greyed: Tensor
    coin_greyed: Tensor
    blurred: tuple[Tensor, ...]
    blur: tuple[Tensor, ...]
    noise: Tensor
    fine: Tensor
    noisy: Tensor
    noise_size: Tensor
    quality: Tensor
    coded: Tensor


SIGMAS = (0.7, 1.4)


def finish(
    image: Tensor,
    grey_always: Tensor,
    gen: torch.Generator,
    group: int = 1,
    true_colours: bool = False,
) -> Tensor:
    """Turn composed colours in 0..1 into image values in 0..255.

    Parameters
    ----------
    image : Tensor
        (B, 3, S, S).
    grey_always : Tensor
        (B,) bool: scenes that become grey images most of the time.
    gen : torch.Generator
        Source of chance.
    group : int
        So many images in a row come from one camera; only their noise differs.
    true_colours : bool
        Colours can still be told: no grey images, and light of one colour and fewer strengths.
    """
    chances = _draw(image, gen, group)
    if true_colours:
        glow = 0.5 + 0.5 * (chances.glow.mean(1, keepdim=True) - 0.5) + 0.2 * (chances.glow - 0.5)
        none = torch.zeros_like(chances.greyed)
        chances = chances._replace(
            glow=glow, greyed=none, gamma=0.25 + 0.5 * chances.gamma, veil=0.5 * chances.veil
        )
    return develop(image, grey_always, chances)


def _draw(image: Tensor, gen: torch.Generator, group: int) -> Chances:
    b, device = len(image), image.device

    def rand(*shape: int) -> Tensor:
        shape = shape or (1, 1, 1)
        drawn = torch.rand(b // group, *shape, generator=gen, device=device)
        return drawn[:, None].expand(-1, group, *shape).flatten(0, 1)

    def pick(p: float) -> Tensor:
        return (rand() < p).float()

    start = rand(1, 3, 3), pick(0.5), rand(), rand(), pick(0.2), rand(), rand()
    grey = pick(0.15), pick(0.85)
    blur = [(pick(0.35), rand()) for _ in SIGMAS]
    noise = torch.randn(image.shape, generator=gen, device=device)
    rest = pick(0.5), pick(0.6), rand(), rand(), pick(0.4)
    return Chances(*start, *grey, *zip(*blur, strict=True), noise, *rest)


@compiled("scenes")
def develop(image: Tensor, grey_always: Tensor, c: Chances) -> Tensor:
    """Apply what was drawn to composed colours (B, 3, S, S)."""
    glow = 1 + (c.glow - 0.5) * c.glows * 1.2 * c.glow_size
    glow = F.interpolate(glow, image.shape[2:], mode="bicubic", align_corners=True)
    image = image.clamp(0, 1.3) * glow
    gamma = torch.exp((c.gamma - 0.5) * 0.9)
    image = image.clamp(1e-4, 1) ** gamma
    veil = c.veiled * 0.6 * c.veil
    image = image * (1 - veil) + veil * c.veil_grey * 0.7
    grey = torch.maximum(c.greyed, grey_always.reshape(-1, 1, 1, 1) * c.coin_greyed)
    image = image + grey * (image.mean(1, keepdim=True) - image)
    for sigma, blurred, blur in zip(SIGMAS, c.blurred, c.blur, strict=True):
        image = image + blurred * blur * (_blur(image, sigma) - image)
    noise = torch.where(c.fine > 0, c.noise, _blur(c.noise, 0.7) * 2)
    noise = noise + grey * (noise.mean(1, keepdim=True) * 1.5 - noise)
    image = image + c.noisy * c.noise_size**2 * 0.09 * noise
    image = (image.clamp(0, 1) * 255).round()
    coded = _blocks(image, 4 + 50 * c.quality**2)
    return (image + c.coded * (coded - image)).clamp(0, 255).round()


def _blur(image: Tensor, sigma: float) -> Tensor:
    """Gaussian blur with reflected borders."""
    reach = math.ceil(2.5 * sigma)
    position = torch.arange(-reach, reach + 1, device=image.device, dtype=image.dtype)
    kernel = torch.exp(-((position / sigma) ** 2) / 2)
    kernel = (kernel / kernel.sum()).reshape(1, 1, -1, 1)
    b, c, h, w = image.shape
    flat = F.pad(image.reshape(b * c, 1, h, w), (reach,) * 4, mode="reflect")
    return F.conv2d(F.conv2d(flat, kernel), kernel.transpose(2, 3)).reshape(b, c, h, w)


def _blocks(image: Tensor, step: Tensor) -> Tensor:
    """Quantize 8 x 8 cosine coefficients, coarser for higher frequencies, as JPEG does."""
    h, w = image.shape[2:]
    image = F.pad(image, (0, -w % 8, 0, -h % 8), mode="replicate")
    n = torch.arange(8, device=image.device, dtype=image.dtype)
    basis = torch.cos(math.pi * (2 * n[None] + 1) * n[:, None] / 16) / 2
    basis[0].div_(math.sqrt(2))
    tiles = image.unflatten(2, (-1, 8)).unflatten(4, (-1, 8)).transpose(3, 4)
    table = (step * (1 + 0.6 * (n[:, None] + n[None])))[:, :, None, None]
    # As products with one long matrix, not many small ones: each turns the last two axes.
    c = F.linear(F.linear(tiles.mT, basis).mT, basis)
    c = (c / table).round() * table
    tiles = F.linear(F.linear(c.mT, basis.T).mT, basis.T)
    return tiles.transpose(3, 4).flatten(4, 5).flatten(2, 3)[..., :h, :w]
