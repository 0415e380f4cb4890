"""Clips of objects that have names: the look that the detector of SAM 3 knows, in motion."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from training.clips import ClipMaker, Clips, Liveliness, first_objects
from training.scenes import Scenes
from training.texts import TextMaker


class NamedClips(ClipMaker):
    """Make clips and images with the objects of a text maker."""

    def __init__(self, named: TextMaker, life: Liveliness | None = None) -> None:
        super().__init__(named.scenes, life)
        self.named = named

    @torch.no_grad()
    def make(self, clips: int, frames: int, side: int, stretched: bool = True) -> Clips:
        """Compose clips on squares of `side` pixels, as `make_named` does."""
        return self.make_named(clips, frames, side, stretched)[0]

    @torch.no_grad()
    def make_named(
        self, clips: int, frames: int, side: int, stretched: bool = True
    ) -> tuple[Clips, Tensor]:
        """Compose clips; give the attributes (B, K, 4) of their objects as well.

        `stretched` images are stretched half as much as others, as the detector knows them.
        """
        layout, attributes = self.named.paint_plan(first_objects(self.draw.make(clips, side)))
        size = torch.full_like(layout.size, side).float()
        if stretched:
            size = 0.5 * size + 0.5 * layout.size
        layout = dataclasses.replace(layout, size=size)
        return self.film(layout, frames, true_colours=True), attributes

    def images(self, count: int, side: int) -> Scenes:
        """Compose images: clips of one frame."""
        return self.make(count, 1, side).frame(0)
