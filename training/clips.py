"""Short clips of moving, turning, bending objects that hide each other, leave and return."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from training import finish
from training.layout import Layout
from training.prompts import Targets
from training.scenes import SceneMaker, Scenes, grid

OBJECTS = 10


@dataclasses.dataclass
class Clips:
    """Clips and the objects seen in them.

    Attributes
    ----------
    pixels : Tensor
        (B, T, 3, S, S) in 0..255.
    owner, part : Tensor
        (B, T, S, S) numbers of the object and of the part seen at each pixel, 0 for none.
    """

    pixels: Tensor
    owner: Tensor
    part: Tensor

    def frame(self, t: int) -> Scenes:
        """Return frame `t` of all clips as scenes."""
        pixels = self.pixels[:, t]
        size = torch.full((len(pixels), 2), pixels.shape[-1], device=pixels.device)
        valid = torch.ones_like(pixels[:, :1], dtype=torch.bool)
        return Scenes(pixels, valid, self.owner[:, t], self.part[:, t], size)

    def masks(self, targets: Targets, step: int = 2) -> Tensor:
        """Where targets chosen in one frame are in all: (N, T, S / step, S / step) bool."""
        owner = self.owner[targets.scene, :, ::step, ::step]
        part = self.part[targets.scene, :, ::step, ::step]
        seen = torch.where(targets.is_part[:, None, None, None], part, owner)
        return seen == targets.number[:, None, None, None]

    def first_masks(self, targets: Targets) -> Tensor:
        """Where targets are in the first frame, pixel by pixel: (N, S, S) bool."""
        owner, part = self.owner[:, 0][targets.scene], self.part[:, 0][targets.scene]
        seen = torch.where(targets.is_part[:, None, None], part, owner)
        return seen == targets.number[:, None, None]


@dataclasses.dataclass(frozen=True)
class Liveliness:
    """How much happens in clips; the defaults are those of the held-out clips.

    Attributes
    ----------
    pace : tuple of float
        Lowest and highest number of units of time from frame to frame.
    hidden, leaving : float
        Shares of the objects that vanish for some frames, and that leave and return.
    """

    pace: tuple[float, float] = (1.0, 1.0)
    hidden: float = 0.06
    leaving: float = 0.2


LIVELY = Liveliness(pace=(0.7, 2.5), hidden=0.15, leaving=0.3)
"""For training: short clips that show as much as long ones, and more of what is difficult."""


@dataclasses.dataclass
class Motion:
    """How objects move over T frames, relative to the layout: shift (B, K, T, 2), turn, zoom."""

    shift: Tensor
    turn: Tensor
    zoom: Tensor

    def follow(self, root: Tensor) -> Motion:
        """Let each object move as the object `root` (B, K) does."""
        b = torch.arange(len(root), device=root.device)[:, None]
        return Motion(self.shift[b, root], self.turn[b, root], self.zoom[b, root])

    def matrix(self) -> Tensor:
        """Return turn and zoom as (B, K, T, 2, 2) matrices."""
        return turn_matrix(self.turn) * self.zoom[..., None, None]


def turn_matrix(angle: Tensor) -> Tensor:
    """Return rotation matrices (..., 2, 2)."""
    c, s = angle.cos(), angle.sin()
    return torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2)


class ClipMaker:
    """Make clips with the shapes, textures and layouts of a scene maker."""

    def __init__(self, scenes: SceneMaker, life: Liveliness | None = None) -> None:
        self.scenes = scenes
        self.draw = scenes.layouts
        self.life = life or Liveliness()

    @torch.no_grad()
    def make(self, clips: int, frames: int, side: int, stretched: bool = False) -> Clips:
        """Compose clips on squares of `side` pixels; `stretched` as for scenes."""
        layout = first_objects(self.draw.make(clips, side))
        if not stretched:
            layout = dataclasses.replace(layout, size=torch.full_like(layout.size, side))
        return self.film(layout, frames)

    def film(self, layout: Layout, frames: int, true_colours: bool = False) -> Clips:
        """Set a layout in motion; `true_colours` as `finish.finish` takes it."""
        clips, side = len(layout.size), layout.side
        time = torch.arange(frames, device=self.scenes.device, dtype=torch.float32).expand(
            clips, -1
        )
        if self.life.pace[1] > self.life.pace[0]:
            time = time * self.draw.span(*self.life.pace, clips, 1)
        moved = self._move(layout, time)
        x, y = self._camera(layout, time, side)
        image, owner, part = self.scenes.paint(moved, x, y)
        coins = torch.zeros_like(moved.coins) if true_colours else moved.coins
        image = finish.finish(image, coins, self.scenes.gen, frames, true_colours)

        def unflatten(m: Tensor) -> Tensor:
            return m.unflatten(0, (clips, frames))

        return Clips(unflatten(image), unflatten(owner), unflatten(part))

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.scenes.gen, device=self.scenes.device)

    def _swing(self, time: Tensor, *shape: int) -> Tensor:
        """A sine in time (B, ..., T) that starts at 0: (*shape, T) within about -2..2."""
        rate = self.draw.span(0.2, 0.9, *shape, 1)
        phase = self.draw.span(0, 2 * math.pi, *shape, 1)
        return (rate * time + phase).sin() - phase.sin()

    def _direction(self, *shape: int) -> Tensor:
        angle = self.draw.span(0, 2 * math.pi, *shape)
        return torch.stack([angle.cos(), angle.sin()], -1)

    def _motion(self, b: int, k: int, side: int, time: Tensor) -> Motion:
        draw, time = self.draw, time[:, None]
        moving = draw.chance(0.8, b, k, 1)
        speed = moving * draw.span(0, 0.03, b, k, 1)
        drift = self._direction(b, k)[:, :, None] * (speed * time)[..., None]
        wobble = moving * draw.span(0, 0.06, b, k, 1)
        swing = torch.stack([self._swing(time, b, k) for _ in range(2)], -1) * wobble[..., None]
        # There and back again, often beyond the border.
        period, reach = draw.span(12, 28, b, k, 1), draw.span(0.4, 0.9, b, k, 1)
        away = (
            draw.chance(self.life.leaving, b, k, 1) * reach * (math.pi * time / period).sin() ** 2
        )
        leave = self._direction(b, k)[:, :, None] * away[..., None]
        turn = moving * (self._normal(b, k, 1) * 0.06 * time)
        turn = turn + moving * draw.span(0, 0.3, b, k, 1) * self._swing(time, b, k)
        zoom = moving * draw.span(0, 0.2, b, k, 1) * self._swing(time, b, k)
        return Motion((drift + swing + leave) * side, turn, zoom.exp())

    def _move(self, layout: Layout, time: Tensor) -> Layout:
        """Lay the objects out for each frame: a layout of B * T scenes."""
        b, k = layout.shape.shape
        t = time.shape[1]
        number = torch.arange(k, device=time.device).expand(b, k)
        root = torch.where(layout.parent > 0, layout.parent - 1, number).long()
        motion = self._motion(b, k, layout.side, time).follow(root)
        pivot = layout.centre.gather(1, root[..., None].expand(-1, -1, 2))
        matrix = motion.matrix()
        arm = (layout.centre - pivot)[:, :, None, :, None]
        centre = pivot[:, :, None] + motion.shift + (matrix @ arm)[..., 0]
        back = turn_matrix(-motion.turn) / motion.zoom[..., None, None]
        inverse = layout.inverse[:, :, None] @ back
        radius = layout.radius[..., None] * motion.zoom
        fields = {
            f.name: spread(getattr(layout, f.name), t)
            for f in dataclasses.fields(layout)
            if isinstance(getattr(layout, f.name), Tensor)
        }

        def flat(m: Tensor) -> Tensor:
            return m.movedim(2, 1).flatten(0, 1)

        fields["centre"], fields["inverse"] = flat(centre), flat(inverse)
        fields["radius"] = flat(radius)
        fields["present"] = flat(layout.present[..., None] & self._shown(b, k, t))
        fields["bend"] = flat(self._bend(b, k, time))
        return dataclasses.replace(layout, **fields)

    def _shown(self, b: int, k: int, frames: int) -> Tensor:
        """Hide a few objects for some frames, never in the first: (B, K, T)."""
        draw = self.draw
        number = torch.arange(frames, device=self.scenes.device)
        start = draw.span(1, frames + 4, b, k, 1)
        end = start + draw.span(1, 6, b, k, 1)
        return ~(draw.chance(self.life.hidden, b, k, 1) & (number >= start) & (number < end))

    def _bend(self, b: int, k: int, time: Tensor) -> Tensor:
        """Amplitude, frequency and phase along both axes: (B, K, T, 2, 3)."""
        draw, t = self.draw, time.shape[1]
        amount = draw.chance(0.5, b, k, 1, 1) * draw.span(0, 0.14, b, k, 1, 2)
        rate = draw.span(2, 5, b, k, 1, 2)
        phase = draw.span(0, 2 * math.pi, b, k, 1, 2)
        phase = phase + time[:, None, :, None] * draw.span(-0.5, 0.5, b, k, 1, 2)
        return torch.stack([amount.expand(-1, -1, t, -1), rate.expand(-1, -1, t, -1), phase], -1)

    def _camera(self, layout: Layout, time: Tensor, side: int) -> tuple[Tensor, Tensor]:
        """Positions of the layout seen at each pixel of each frame: x and y of (B * T, S, S)."""
        b, draw = len(layout.size), self.draw
        held = draw.chance(0.6, b, 1)
        pan = self._direction(b)[:, None] * (held * draw.span(0, 0.015, b, 1) * time)[..., None]
        shake = torch.stack([self._swing(time, b) for _ in range(2)], -1)
        pan = (pan + (held * draw.span(0, 0.02, b, 1))[..., None] * shake) * side
        turn = held * self._normal(b, 1) * 0.008 * time
        zoom = (held * self._normal(b, 1) * 0.008 * time).exp()
        m = (turn_matrix(turn) * zoom[..., None, None])[..., None, None].flatten(0, 1)
        size = spread(layout.size.flip(1), time.shape[1])[..., None, None]
        pan = pan.flatten(0, 1)[..., None, None]
        x, y = grid(side, self.scenes.device)
        dx, dy = (x / side - 0.5) * size[:, 0], (y / side - 0.5) * size[:, 1]
        x = size[:, 0] / 2 + pan[:, 0] + m[:, 0, 0] * dx + m[:, 0, 1] * dy
        y = size[:, 1] / 2 + pan[:, 1] + m[:, 1, 0] * dx + m[:, 1, 1] * dy
        return x, y


def spread(x: Tensor, times: int) -> Tensor:
    """Repeat each row of x so many times."""
    return x[:, None].expand(-1, times, *x.shape[1:]).flatten(0, 1)


def first_objects(layout: Layout) -> Layout:
    """Keep only the first objects of each scene, to save time."""
    names = [f.name for f in dataclasses.fields(layout)]
    fields = {name: getattr(layout, name) for name in names[names.index("present") :]}
    kept = {name: v if v is None else v[:, :OBJECTS] for name, v in fields.items()}
    return dataclasses.replace(layout, **kept)
