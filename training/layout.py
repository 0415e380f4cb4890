"""Where the objects of a scene lie and how each of them looks."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from training.shapes import family_number

MAX_OBJECTS = 16


@dataclasses.dataclass
class Layout:
    """Parameters of a batch of scenes; fields of objects have shape (B, K, ...).

    `objects()` gives such a record for each object, with shapes (B, ...). `bend` holds the
    amplitude, frequency and phase of a bending of each object's outline along both axes.
    """

    side: int
    size: Tensor
    coins: Tensor
    back_texture: Tensor
    back_zoom: Tensor
    back_shift: Tensor
    back_dim: Tensor
    back_tint: Tensor
    present: Tensor
    parent: Tensor
    shape: Tensor
    centre: Tensor
    inverse: Tensor
    radius: Tensor
    soft: Tensor
    texture: Tensor
    texture_zoom: Tensor
    texture_shift: Tensor
    contrast: Tensor
    tint: Tensor
    relief: Tensor
    rounding: Tensor
    depth: Tensor
    sun: Tensor
    slant: Tensor
    rim: Tensor
    rim_width: Tensor
    shadow: Tensor
    shadow_shift: Tensor
    shadow_soft: Tensor
    bend: Tensor | None = None

    @property
    def count(self) -> int:
        """Objects per scene, absent ones included."""
        return self.shape.shape[1]

    def objects(self) -> list[Layout]:
        """Return the parameters of each object of every scene, each tensor in one piece."""
        names = [f.name for f in dataclasses.fields(self)]
        own = {name: getattr(self, name) for name in names[names.index("present") :]}
        apart = {
            name: [None] * self.count if v is None else v.transpose(0, 1).contiguous().unbind(0)
            for name, v in own.items()
        }
        each = ({name: v[k] for name, v in apart.items()} for k in range(self.count))
        return [dataclasses.replace(self, **fields) for fields in each]


class LayoutMaker:
    """Draw layouts of four kinds: mixed objects, coins, crowds of one thing, large regions."""

    def __init__(self, kinds: Tensor, textures: int, gen: torch.Generator) -> None:
        self.gen = gen
        self.device = gen.device
        self.textures = textures
        self.shapes = len(kinds)
        self.discs = (kinds == family_number("disc")).nonzero()[:, 0].to(self.device)

    def rand(self, *shape: int) -> Tensor:
        """Uniform numbers in 0..1."""
        return torch.rand(*shape, generator=self.gen, device=self.device)

    def span(self, low: float, high: float, *shape: int) -> Tensor:
        """Uniform numbers in low..high."""
        return low + (high - low) * self.rand(*shape)

    def chance(self, p: float, *shape: int) -> Tensor:
        """True with probability `p`."""
        return self.rand(*shape) < p

    def pick(self, count: int, *shape: int) -> Tensor:
        """Random indices below `count`."""
        return torch.randint(count, shape, generator=self.gen, device=self.device)

    def make(self, b: int, side: int) -> Layout:
        """Draw the layouts of `b` scenes on squares of `side` pixels."""
        k = MAX_OBJECTS
        style = self.rand(b)
        coins, crowd = style < 0.12, (style >= 0.12) & (style < 0.22)
        regions = (style >= 0.22) & (style < 0.34)
        size = self._size(b, side)
        radius = self._radii(b, k, side, coins | crowd, regions)
        centre = self._centres(b, k, size, coins)
        shape = self.pick(self.shapes, b, k)
        shape = torch.where(crowd[:, None], shape[:, :1], shape)
        disc = self.discs[self.pick(len(self.discs), b, k)]
        shape = torch.where(coins[:, None], disc, shape)
        count = torch.where(coins | crowd, self.span(8, k + 1, b), self.span(3, 13, b))
        present = torch.arange(k, device=self.device) < count[:, None]
        parent, centre, radius = self._parts(centre, radius, present, coins | crowd)
        looks = self._looks(b, k, side, coins, crowd)
        return Layout(
            side=side,
            size=size,
            coins=coins,
            present=present,
            parent=parent,
            shape=shape,
            centre=centre,
            inverse=self._inverse(b, k, radius, coins),
            radius=radius,
            **self._back(b, coins),
            **looks,
        )

    def _size(self, b: int, side: int) -> Tensor:
        """Height and width: squares and all aspects down to 1:2, the longer side full."""
        short = torch.where(self.chance(0.35, b), 1.0, self.span(0.5, 1, b)) * side
        full = torch.full_like(short, side)
        wide = self.chance(0.6, b)[:, None]
        size = torch.where(wide, torch.stack([short, full], 1), torch.stack([full, short], 1))
        return size.round()

    def _radii(self, b: int, k: int, side: int, alike: Tensor, regions: Tensor) -> Tensor:
        """Half-sizes in pixels, larger objects first so that they do not hide the others."""
        radius = 0.035 * (0.5 / 0.035) ** self.rand(b, k)
        same = self.span(0.05, 0.13, b, 1) * self.span(0.85, 1.15, b, k)
        radius = torch.where(alike[:, None], same, radius)
        large = torch.arange(k, device=self.device) < 3
        radius = torch.where(regions[:, None] & large, self.span(0.5, 1.3, b, k), radius)
        order = (radius * self.span(0.6, 1.4, b, k)).argsort(1, descending=True)
        return radius.gather(1, order) * side

    def _centres(self, b: int, k: int, size: Tensor, coins: Tensor) -> Tensor:
        """Positions (x, y) in pixels; coins lie on a shaken lattice."""
        width_height = size.flip(1)[:, None]
        free = self.span(-0.03, 1.03, b, k, 2)
        cols = torch.where(size[:, 1] > size[:, 0], 5, 4)[:, None]
        number = torch.arange(k, device=self.device)[None]
        rows = (k / cols).ceil()
        lattice = torch.stack([(number % cols + 0.5) / cols, (number // cols + 0.5) / rows], -1)
        lattice = lattice + self.span(-0.03, 0.03, b, k, 2)
        return torch.where(coins[:, None, None], lattice, free) * width_height

    def _parts(
        self, centre: Tensor, radius: Tensor, present: Tensor, plain: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Turn some objects into parts lying on an earlier object."""
        b, k = radius.shape
        number = torch.arange(k, device=self.device).expand(b, k)
        is_part = self.chance(0.4, b, k) & (number > 0) & ~plain[:, None]
        root = (self.rand(b, k) ** 2 * number).long()
        root_is_part = is_part.gather(1, root)
        is_part = is_part & ~root_is_part & present
        parent = torch.where(is_part, root + 1, 0)
        root_radius = radius.gather(1, root)
        root_centre = centre.gather(1, root[..., None].expand(-1, -1, 2))
        shift = self.span(-0.45, 0.45, b, k, 2) * root_radius[..., None]
        centre = torch.where(is_part[..., None], root_centre + shift, centre)
        radius = torch.where(is_part, root_radius * self.span(0.15, 0.6, b, k), radius)
        return parent, centre, radius

    def _inverse(self, b: int, k: int, radius: Tensor, coins: Tensor) -> Tensor:
        """Matrices from pixel offsets to the shape's cell: turn, stretch, scale."""
        turn = self.span(0, 2 * math.pi, b, k)
        upright = self.chance(0.3, b, k)
        turn = torch.where(upright, self.span(-0.2, 0.2, b, k), turn)
        stretch = torch.exp(0.3 * torch.randn(b, k, generator=self.gen, device=self.device))
        stretch = torch.where(coins[:, None], 1.0, stretch)
        # The cell's shapes span 0.8 of it.
        scale = 0.8 / radius
        c, s = turn.cos() * scale, turn.sin() * scale
        first = torch.stack([c, s], -1) / stretch[..., None]
        second = torch.stack([-s, c], -1) * stretch[..., None]
        return torch.stack([first, second], -2)

    def _back(self, b: int, coins: Tensor) -> dict[str, Tensor]:
        """Background: any texture, and a dim dull one under coins."""
        dim = torch.where(coins, self.span(0.05, 0.3, b), self.span(0.3, 1, b))[:, None]
        tint = self.rand(b, 3) * (1 - dim) * 0.8
        dull = self.span(0.05, 0.35, b, 1).expand(b, 3)
        return {
            "back_texture": self.pick(self.textures, b),
            "back_zoom": self.span(0.6, 2.0, b),
            "back_shift": self.span(-0.5, 0.5, b, 2),
            "back_dim": dim,
            "back_tint": torch.where(coins[:, None], dull, tint),
        }

    def _looks(self, b: int, k: int, side: int, coins: Tensor, crowd: Tensor) -> dict[str, Tensor]:
        """Surfaces: texture, contrast, light, rim and shadow."""
        alike = (coins | crowd)[:, None]
        texture = self.pick(self.textures, b, k)
        texture = torch.where(alike & self.chance(0.8, b, 1), texture[:, :1], texture)
        contrast = self.span(0.25, 1, b, k)
        tint = self.rand(b, k, 3) * (1 - contrast[..., None])
        metal = self.span(0.15, 0.5, b, k)
        grey = self.span(0.2, 0.6, b, 1) + self.span(-0.08, 0.08, b, k)
        contrast = torch.where(coins[:, None], metal, contrast)
        tint = torch.where(coins[:, None, None], grey[..., None].expand(b, k, 3), tint)
        sun = self.span(0, 2 * math.pi, b, 1) + self.span(-0.2, 0.2, b, k)
        sun = torch.stack([sun.cos(), sun.sin()], -1)
        shaded = self.chance(0.5, b, k) | coins[:, None]
        carved = self.chance(0.15, b, k) | (coins[:, None] & self.chance(0.8, b, k))
        edged = self.chance(0.2, b, k) | (coins[:, None] & self.chance(0.5, b, k))
        dark = self.chance(0.35, b, 1) | coins[:, None]
        shift = -sun * self.span(0, 0.04, b, k, 1) * side
        return {
            "soft": self.span(0.8, 2.2, b, k),
            "texture": texture,
            "texture_zoom": 0.15 * (1.2 / 0.15) ** self.rand(b, k),
            "texture_shift": self.span(-0.6, 0.6, b, k, 2),
            "contrast": contrast,
            "tint": tint,
            "relief": carved * self.span(1, 8, b, k),
            "rounding": shaded * self.span(0.1, 0.9, b, k),
            "depth": self.span(0.08, 0.8, b, k),
            "sun": sun,
            "slant": self.chance(0.4, b, k) * self.span(0, 0.5, b, k),
            "rim": edged * self.span(-0.35, 0.35, b, k),
            "rim_width": self.span(0.8, 3, b, k),
            "shadow": dark * self.span(0, 0.7, b, k),
            "shadow_shift": shift,
            "shadow_soft": self.span(0.02, 0.15, b, k),
        }
