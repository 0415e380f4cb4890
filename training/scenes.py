"""Compose scenes from the pools of shapes and textures, whole batches at a time."""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor

from training import finish
from training.layout import Layout, LayoutMaker
from training.speed import compiled


@dataclasses.dataclass
class Scenes:
    """Images and the objects seen in them.

    Attributes
    ----------
    pixels : Tensor
        (B, 3, S, S) in 0..255; 0 outside the image.
    valid : Tensor
        (B, 1, S, S) bool: inside the image (top-left part of the square).
    owner : Tensor
        (B, S, S) number of the object seen at each pixel, 0 for the background, -1 outside.
    part : Tensor
        (B, S, S) number of the part seen at each pixel, 0 for none.
    size : Tensor
        (B, 2) height and width of the image.
    """

    pixels: Tensor
    valid: Tensor
    owner: Tensor
    part: Tensor
    size: Tensor


class SceneMaker:
    """Make scenes.

    Parameters
    ----------
    fields, kinds : Tensor
        The pool of shapes: distance fields (N, 128, 128) and family numbers (N,).
    textures : Tensor
        (M, 3, 256, 256) uint8.
    seed : int
        Seed of the layouts.
    """

    def __init__(self, fields: Tensor, kinds: Tensor, textures: Tensor, seed: int) -> None:
        self.device = textures.device
        self.fields = fields
        self.textures = textures
        self.gen = generator(self.device, seed)
        self.layouts = LayoutMaker(kinds, len(textures), self.gen)

    @torch.no_grad()
    def make(self, batch: int, side: int, stretched: bool = False) -> Scenes:
        """Compose `batch` scenes on squares of `side` pixels.

        Parameters
        ----------
        batch, side : int
            How many, and how large.
        stretched : bool
            Stretch the images to fill the square, as SAM 2 does, instead of leaving a margin.
        """
        layout = self.layouts.make(batch, side)
        x, y = grid(side, self.device)
        if stretched:
            x = x * (layout.size[:, 1] / side)[:, None, None]
            y = y * (layout.size[:, 0] / side)[:, None, None]
        image, owner, part = self.paint(layout, x, y)
        size = torch.full_like(layout.size, side) if stretched else layout.size
        height, width = size[:, 0, None, None], size[:, 1, None, None]
        x, y = grid(side, self.device)
        valid = ((x < width) & (y < height))[:, None]
        pixels = finish.finish(image, layout.coins, self.gen) * valid
        owner = torch.where(valid[:, 0], owner, -1)
        return Scenes(pixels, valid, owner, part, size)

    def paint(self, layout: Layout, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Paint all objects as seen at the positions (x, y) of (B or 1, S, S) pixels.

        Returns
        -------
        tuple of Tensor
            Colours (B, 3, S, S) in 0..1, and the numbers of the object and of the part seen.
        """
        image = self._background(layout, x, y)
        owner = torch.zeros(image[:, 0].shape, dtype=torch.int16, device=self.device)
        part = torch.zeros_like(owner)
        numbers = torch.arange(1, layout.count + 1, dtype=torch.int16, device=self.device)
        # A number to each object: one that lay in a longer tensor might not be aligned.
        numbers = numbers[:, None].expand(-1, 8).contiguous()
        for o, number in zip(layout.objects(), numbers, strict=True):
            image, owner, part = self._paint(o, number[:1], x, y, image, owner, part)
        return image, owner, part

    def _background(self, layout: Layout, x: Tensor, y: Tensor) -> Tensor:
        u, v = x / layout.side - 0.5, y / layout.side - 0.5
        zoom = layout.back_zoom[:, None, None, None]
        grid = torch.stack([u, v], -1) * zoom + layout.back_shift[:, None, None]
        texture = self._sample(layout.back_texture, grid)
        low = layout.back_dim[:, :, None, None]
        return texture * low + layout.back_tint[:, :, None, None]

    def _sample(self, index: Tensor, grid: Tensor) -> Tensor:
        texture = self.textures[index].float() / 255
        return F.grid_sample(texture, grid, padding_mode="reflection", align_corners=False)

    @compiled("scenes")
    def _paint(
        self,
        o: Layout,
        number: Tensor,
        x: Tensor,
        y: Tensor,
        image: Tensor,
        owner: Tensor,
        part: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Paint one object of every scene over what is there."""
        field = self.fields[o.shape].float()[:, None]
        local = _to_local(o, o.centre, x, y)
        depth = F.grid_sample(field, local, padding_mode="border", align_corners=False)[:, 0]
        stencil = (owner == o.parent[:, None, None]) | (o.parent == 0)[:, None, None]
        stencil = stencil & o.present[:, None, None]
        reach = depth * o.radius[:, None, None]
        alpha = (reach / o.soft[:, None, None] + 0.5).clamp(0, 1) * stencil

        image = image * (1 - self._shadow(o, field, x, y) * stencil)[:, None]
        colour = self._surface(o, local, depth, reach)
        image = image + alpha[:, None] * (colour - image)

        seen = (depth > 0) & stencil
        is_part = (o.parent > 0)[:, None, None]
        owner = torch.where(seen & ~is_part, number, owner)
        part = torch.where(seen, torch.where(is_part, number, 0).to(part.dtype), part)
        return image, owner, part

    def _shadow(self, o: Layout, field: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Darkness of the soft shadow around the object."""
        local = _to_local(o, o.centre + o.shadow_shift, x, y)
        depth = F.grid_sample(field, local, padding_mode="border", align_corners=False)[:, 0]
        return o.shadow[:, None, None] * torch.sigmoid(depth / o.shadow_soft[:, None, None])

    def _surface(self, o: Layout, local: Tensor, depth: Tensor, reach: Tensor) -> Tensor:
        """Colour of the object: texture, relief, rounding light, gradient and rim."""
        grid = local * o.texture_zoom[:, None, None, None] + o.texture_shift[:, None, None]
        texture = self._sample(o.texture, grid)
        low = o.contrast[:, None, None, None]
        colour = texture * low + o.tint[:, :, None, None]

        grey = texture.mean(1)
        relief = grey - grey.roll((1, 1), (1, 2))
        light = 1 + o.relief[:, None, None] * relief

        inner = (depth / o.depth[:, None, None]).clamp(0, 1)
        height = (1 - (1 - inner) ** 2).clamp(min=1e-4).sqrt()
        slope_y = height.roll(1, 1) - height.roll(-1, 1)
        slope_x = height.roll(1, 2) - height.roll(-1, 2)
        scale = (o.radius * o.depth * 0.7)[:, None, None]
        sun = o.sun[:, :, None, None]
        facing = (slope_x * sun[:, 0] + slope_y * sun[:, 1]) * scale
        light = light + o.rounding[:, None, None] * facing.clamp(-1, 1)
        across = local[..., 0] * sun[:, 0] + local[..., 1] * sun[:, 1]
        light = light + o.slant[:, None, None] * across
        rim = torch.exp(-(((reach - 1) / o.rim_width[:, None, None]) ** 2))
        colour = colour * light.clamp(0.1, 2.5)[:, None]
        return colour + (o.rim[:, None, None] * rim)[:, None]


def generator(device: torch.device, seed: int) -> torch.Generator:
    """A seeded generator; on a GPU its own, the one that captured graphs know."""
    if device.type == "cuda":
        return torch.cuda.default_generators[device.index].manual_seed(seed)
    return torch.Generator(device).manual_seed(seed)


def grid(side: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the pixel centres of a square: x and y of shape (1, side, side)."""
    line = torch.arange(side, device=device) + 0.5
    y, x = torch.meshgrid(line, line, indexing="ij")
    return x[None], y[None]


def _to_local(o: Layout, centre: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Map pixel positions to a shape's own -1..1 cell: (B, S, S, 2)."""
    dx, dy = x - centre[:, 0, None, None], y - centre[:, 1, None, None]
    m = o.inverse[:, :, :, None, None]
    u, v = m[:, 0, 0] * dx + m[:, 0, 1] * dy, m[:, 1, 0] * dx + m[:, 1, 1] * dy
    if o.bend is not None:
        b = o.bend[:, :, :, None, None]
        bent = u + b[:, 0, 0] * torch.sin(b[:, 0, 1] * v + b[:, 0, 2])
        v = v + b[:, 1, 0] * torch.sin(b[:, 1, 1] * u + b[:, 1, 2])
        u = bent
    return torch.stack([u, v], -1)
