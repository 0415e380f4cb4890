"""A pool of square textures, made with PyTorch on any device."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import skimage.data
import torch
import torch.nn.functional as F
from torch import Tensor

SIDE = 256
TRAINING_PHOTOS = (
    "chelsea", "astronaut", "hubble_deep_field", "retina", "brick", "grass", "gravel", "moon",
    "immunohistochemistry",
)  # fmt: skip
HELD_OUT_PHOTOS = ("rocket", "coffee", "camera")


class TextureMaker:
    """Draw random textures with a generator of their own.

    Parameters
    ----------
    device : torch.device
        Where to draw.
    seed : int
        Pools of different seeds share no texture.
    photos : sequence of str
        Names of scikit-image images to cut pieces out of.
    """

    def __init__(self, device: torch.device, seed: int, photos: Sequence[str]) -> None:
        self.device = device
        self.gen = torch.Generator(device).manual_seed(seed)
        self.photos = [self._photo(name) for name in photos]
        y, x = torch.meshgrid(*[torch.linspace(-1, 1, SIDE, device=device)] * 2, indexing="ij")
        self.x, self.y = x[None], y[None]

    def pool(self, count: int) -> Tensor:
        """Return (count, 3, 256, 256) uint8 textures of all families."""
        shares = (
            (self.flat, 0.07), (self.gradient, 0.10), (self.noise, 0.27), (self.stripes, 0.10),
            (self.cells, 0.08), (self.dots, 0.04), (self.turbulence, 0.09), (self.cut, 0.25),
        )  # fmt: skip
        parts = []
        for make, share in shares:
            left = round(count * share)
            while left > 0:
                n = min(left, 64)
                parts.append(make(n).clamp(0, 1).mul(255).to(torch.uint8))
                left -= n
        return torch.cat(parts)

    def _photo(self, name: str) -> Tensor:
        pixels = np.asarray(getattr(skimage.data, name)())
        pixels = np.stack([pixels] * 3, -1) if pixels.ndim == 2 else pixels[..., :3]
        tensor = torch.from_numpy(np.ascontiguousarray(pixels)).to(self.device)
        return tensor.permute(2, 0, 1)[None].float() / 255

    def _rand(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self.gen, device=self.device)

    def _range(self, low: float, high: float, n: int) -> Tensor:
        return low + (high - low) * self._rand(n, 1, 1)

    def _colours(self, n: int, count: int) -> Tensor:
        """Return (n, count, 3) related colours: a base and steps away from it."""
        base = self._rand(n, 1, 3)
        step = torch.randn(n, count, 3, generator=self.gen, device=self.device)
        colours = base + step * (0.05 + 0.35 * self._rand(n, 1, 1))
        grey = colours.mean(-1, keepdim=True)
        return (grey + (colours - grey) * self._rand(n, 1, 1) * 0.9).clamp(0, 1)

    def _map(self, value: Tensor, count: int = 3) -> Tensor:
        """Colour a (n, S, S) field in 0..1 through a random ramp of `count` colours."""
        ramp = self._colours(len(value), count)
        position = value.clamp(0, 1) * (count - 1)
        out = torch.zeros(len(value), SIDE, SIDE, 3, device=self.device)
        for i in range(count):
            out += (1 - (position - i).abs()).clamp(min=0)[..., None] * ramp[:, None, None, i]
        return out.permute(0, 3, 1, 2)

    def _spectrum(self, n: int, low: float, high: float) -> Tensor:
        """Return 1/f^a noise in 0..1, some of it stretched along one direction."""
        frequency = torch.fft.fftfreq(SIDE, 1 / SIDE, device=self.device)
        turn = self._range(0, math.pi, n)
        fx, fy = frequency[None, None, :], frequency[None, :, None]
        u = turn.cos() * fx + turn.sin() * fy
        v = turn.cos() * fy - turn.sin() * fx
        stretch = 1 + (self._range(0, 1, n) < 0.3) * self._range(1, 6, n)
        radius = ((u * stretch) ** 2 + v**2).sqrt().clamp(min=1)
        white = torch.randn(n, SIDE, SIDE, generator=self.gen, device=self.device)
        field = torch.fft.ifft2(torch.fft.fft2(white) * radius ** -self._range(low, high, n)).real
        field = field - field.mean((1, 2), keepdim=True)
        return 0.5 + 0.22 * field / field.std((1, 2), keepdim=True)

    def flat(self, n: int) -> Tensor:
        """One colour with a little grain."""
        grain = self._spectrum(n, 0, 1.5)[:, None] - 0.5
        return self._colours(n, 1).reshape(n, 3, 1, 1) + grain * 0.15 * self._rand(n, 1, 1, 1)

    def gradient(self, n: int) -> Tensor:
        """A linear or radial ramp with grain."""
        turn = self._range(0, 2 * math.pi, n)
        line = 0.5 + 0.5 * (self.x * turn.cos() + self.y * turn.sin())
        away = (self.x - self._range(-1, 1, n)) ** 2 + (self.y - self._range(-1, 1, n)) ** 2
        value = torch.where(self._range(0, 1, n) < 0.6, line, away.sqrt() * 0.6)
        return self._map(value + 0.1 * (self._spectrum(n, 0.5, 2) - 0.5), 2)

    def noise(self, n: int) -> Tensor:
        """1/f noise through a colour ramp, the exponent from fine to cloudy."""
        return self._map(self._spectrum(n, 0.3, 2.4), int(2 + 3 * self._rand(1)))

    def stripes(self, n: int) -> Tensor:
        """Bands, plaids and checkers, bent by noise."""
        turn = self._range(0, math.pi, n)
        bend = (self._spectrum(n, 1.6, 2.4) - 0.5) * self._range(0, 1.5, n)
        u = self.x * turn.cos() + self.y * turn.sin() + bend
        v = self.y * turn.cos() - self.x * turn.sin() + bend
        rate = self._range(3, 40, n)
        first = (u * rate).sin()
        second = (v * rate * self._range(0.7, 1.4, n)).sin()
        value = torch.where(self._range(0, 1, n) < 0.45, first * second, first)
        sharp = self._range(1, 8, n)
        return self._map(0.5 + 0.5 * (value * sharp).tanh(), 2)

    def cells(self, n: int) -> Tensor:
        """Scales, cobbles and cracks: distances to scattered points."""
        out = torch.empty(n, SIDE, SIDE, device=self.device)
        for i in range(n):
            count = int(12 + 150 * self._rand(1))
            points = self._rand(count, 2) * 2 - 1
            dx = self.x[0, 0][:, None] - points[:, 0]
            dy = self.y[0, :, 0][:, None] - points[:, 1]
            square = dy[:, None] ** 2 + dx[None] ** 2
            near = square.topk(2, dim=-1, largest=False).values.sqrt() * math.sqrt(count)
            out[i] = near[..., 0] if i % 2 else (near[..., 1] - near[..., 0]) * 1.5
        return self._map(out, 3)

    def dots(self, n: int) -> Tensor:
        """A bent lattice of dots."""
        bend = (self._spectrum(n, 1.6, 2.4) - 0.5) * self._range(0, 0.6, n)
        rate = self._range(6, 40, n)
        value = ((self.x + bend) * rate).cos() + ((self.y + bend) * rate).cos()
        return self._map(0.5 + 0.5 * ((value - self._range(0, 1.4, n)) * 4).tanh(), 2)

    def turbulence(self, n: int) -> Tensor:
        """Marble, fur and wood: noise folded over and over."""
        first, second = self._spectrum(n, 1.2, 2.2), self._spectrum(n, 0.8, 1.8)
        value = 0.5 + 0.5 * (self._range(4, 22, n) * first + 3 * second).sin()
        return self._map(value, int(2 + 2 * self._rand(1)))

    def cut(self, n: int) -> Tensor:
        """Pieces of photographs, from a few dozen pixels to the whole image."""
        out = []
        for _ in range(n):
            photo = self.photos[int(self._rand(1) * len(self.photos))]
            height, width = photo.shape[2:]
            side = int(48 * (min(height, width, 640) / 48) ** float(self._rand(1)))
            top = int(self._rand(1) * (height - side + 1))
            left = int(self._rand(1) * (width - side + 1))
            piece = photo[..., top : top + side, left : left + side]
            piece = F.interpolate(piece, (SIDE, SIDE), mode="bilinear", antialias=True)
            piece = piece.flip(-1) if self._rand(1) < 0.5 else piece
            piece = piece[:, self._rand(3).argsort()] if self._rand(1) < 0.25 else piece
            out.append(piece)
        return torch.cat(out)
