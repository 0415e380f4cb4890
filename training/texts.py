"""Scenes whose objects have names, and texts that name some of them, or none."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import torch
from torch import Tensor

from training import finish, shapes
from training.layout import MAX_OBJECTS, Layout
from training.scenes import SceneMaker, grid
from training.textures import TextureMaker

START, END, LENGTH = 49406, 49407, 32
VISUAL = 7195
ANY = -1
WORDS = {
    "a": 320, "red": 736, "orange": 4287, "yellow": 4481, "green": 1901, "blue": 1746,
    "purple": 5496, "pink": 3360, "brown": 2866, "black": 1449, "white": 1579, "gray": 7048,
    "plain": 10709, "striped": 22192, "spotted": 4533, "rough": 8511, "small": 2442, "large": 3638,
    "circle": 7117, "oval": 15039, "blob": 49312, "letter": 4861, "ring": 2540, "line": 1148,
    "creature": 14317, "object": 14115, "disc": 10712, "big": 1205, "little": 1274, "dotted": 47950,
    "grey": 5046, "shape": 6448, "animal": 4668, "curve": 15792, "stone": 2441, "thing": 946,
}  # fmt: skip
"""Words and their numbers in CLIP's vocabulary; each is one token."""
COLOURS = {
    "red": (0.85, 0.10, 0.10), "orange": (0.95, 0.50, 0.05), "yellow": (0.95, 0.88, 0.10),
    "green": (0.12, 0.65, 0.18), "blue": (0.12, 0.25, 0.85), "purple": (0.50, 0.12, 0.65),
    "pink": (0.98, 0.55, 0.72), "brown": (0.45, 0.26, 0.10), "black": (0.05, 0.05, 0.05),
    "white": (0.95, 0.95, 0.95), "gray": (0.50, 0.50, 0.50),
}  # fmt: skip
SURFACES = ("plain", "striped", "spotted", "rough")
SIZES = ("small", "large")
NOUNS = ("circle", "oval", "blob", "letter", "ring", "line", "creature")
FAMILIES = ("disc", "ellipse", "blob", "letter", "ring", "stroke", "creature")
SAME = {
    "circle": "disc", "large": "big", "small": "little", "spotted": "dotted", "gray": "grey",
    "object": "shape", "creature": "animal", "line": "curve", "blob": "stone",
}  # fmt: skip
"""Words that may stand for others."""
SMALL, LARGE = 0.09, 0.17
APART = 1.25
SEEN, SEEN_SHARE, SEEN_LARGE = 150, 0.3, 0.05
HARD_SHARE = 0.5


class Named(NamedTuple):
    """Images, texts about them, and what the texts mean.

    Attributes
    ----------
    pixels : Tensor
        (B, 3, S, S) in 0..255.
    owner : Tensor
        (B, S, S) number of the object seen at each pixel, 0 for none.
    ids : Tensor
        (B, P, L) tokens of P texts for each image.
    meant : Tensor
        (B, P, K) bool: objects 1..K that can be seen and that a text means.
    boxes, labels : Tensor
        (B, P, N, 4) centre and size in 0..1, and (B, P, N): an example of what is meant (1), one of
        what is not (0), or none (-1).
    """

    pixels: Tensor
    owner: Tensor
    ids: Tensor
    meant: Tensor
    boxes: Tensor
    labels: Tensor


def boxes_of(masks: Tensor) -> Tensor:
    """Centre and size in 0..1 of masks (B, K, s, s); an empty mask gives any box."""
    s = masks.shape[-1]
    number = torch.arange(s, device=masks.device)
    ends = []
    for axis in (2, 3):
        line = masks.any(axis)
        ends.append(torch.where(line, number, s).amin(2).clamp(max=s - 1))
        ends.append(torch.where(line, number + 1, 1).amax(2))
    x0, x1, y0, y1 = (e.float() / s for e in ends)
    return torch.stack([(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0], 2)


def tables(device: torch.device) -> tuple[Tensor, Tensor]:
    """Tokens of the values of the four attributes, and other words for them: (4, V + 1).

    The order is size, colour, surface, noun; the last column, which `ANY` finds, is for an
    attribute that is not named: no token, or "object" where the noun is missing.
    """
    words = (SIZES, tuple(COLOURS), SURFACES, NOUNS)
    width = max(len(w) for w in words) + 1
    rows = [list(w) + [""] * (width - len(w)) for w in words]
    rows[3][-1] = "object"
    first = [[WORDS.get(w, 0) for w in row] for row in rows]
    other = [[WORDS.get(SAME.get(w, w), 0) for w in row] for row in rows]
    return torch.tensor(first, device=device), torch.tensor(other, device=device)


class TextMaker:
    """Make scenes of coloured objects, and texts.

    Parameters
    ----------
    scenes : SceneMaker
        Its shapes must be of `FAMILIES` and its textures those of `surfaces`.
    kinds : Tensor
        (N,) family numbers of the shapes.
    each : int
        Textures of each surface.
    """

    def __init__(self, scenes: SceneMaker, kinds: Tensor, each: int) -> None:
        self.scenes, self.draw, self.each = scenes, scenes.layouts, each
        device = scenes.device
        numbers = [shapes.family_number(f) for f in FAMILIES]
        noun = torch.full((len(shapes.FAMILIES),), ANY)
        noun[numbers] = torch.arange(len(numbers))
        self.noun = noun[kinds.cpu()].to(device)
        self.colours = torch.tensor(list(COLOURS.values()), device=device)
        self.words, self.others = tables(device)
        self.alone = torch.tensor([START, VISUAL, END] + [0] * (LENGTH - 3), device=device)
        self.fill = torch.stack([(f > 0).float().mean() for f in scenes.fields])
        self.round = [(kinds == shapes.family_number(f)).to(device) for f in ("disc", "ellipse")]

    @torch.no_grad()
    def make(self, batch: int, side: int, texts: int, examples: bool = True) -> Named:
        """Compose scenes on squares of `side` pixels with so many texts each.

        With `examples` two fifths of the texts that mean something come with the box of an object
        that is meant, half of these without the text, and some with one of another object.
        """
        layout = self.draw.make(batch, side)
        layout, attributes = self.paint_plan(layout)
        # Networks see squares; half of the stretching keeps circles apart from ovals.
        aspect = 0.5 + 0.5 * layout.size / side
        x, y = grid(side, self.scenes.device)
        x, y = x * aspect[:, 1, None, None], y * aspect[:, 0, None, None]
        image, owner, _ = self.scenes.paint(layout, x, y)
        nothing = torch.zeros_like(layout.coins)
        pixels = finish.finish(image, nothing, self.scenes.gen, true_colours=True)
        seen = self._seen(layout, owner, aspect)
        wanted = self.texts(attributes, seen, texts)
        meant = meant_by(attributes, seen, wanted)
        ids, draw = self.tokens(wanted), self.draw
        shown = draw.chance(0.4 * examples, batch, texts) & meant.any(2)
        example = (draw.rand(*meant.shape) + meant).argmax(2)
        alike = attributes.gather(1, example[..., None].expand(-1, -1, 4)).clone()
        alike[..., 0].fill_(ANY)
        visual = (shown & draw.chance(0.5, batch, texts))[..., None]
        meant = meant_by(attributes, seen, torch.where(visual, alike, wanted))
        other = seen[:, None] & ~meant
        wrong = draw.chance(0.15 * examples, batch, texts) & other.any(2)
        against = (draw.rand(*meant.shape) + other).argmax(2)
        boxes = self._boxes(owner, torch.stack([example, against], 2))
        labels = torch.stack([torch.where(shown, 1, -1), torch.where(wrong, 0, -1)], 2)
        return Named(pixels, owner, torch.where(visual, self.alone, ids), meant, boxes, labels)

    def _seen(self, layout: Layout, owner: Tensor, aspect: Tensor) -> Tensor:
        """Objects (B, K) of which enough can be seen to tell what they are."""
        numbers = range(1, layout.count + 1)
        area = torch.stack([(owner == k).sum((1, 2)) for k in numbers], 1).float()
        # Shapes span 0.8 of their cells.
        whole = self.fill[layout.shape] * (2.5 * layout.radius) ** 2 / aspect.prod(1, keepdim=True)
        pixels = layout.side**2
        mostly = (area >= SEEN_SHARE * whole) | (area >= SEEN_LARGE * pixels)
        return mostly & (area >= SEEN * pixels / 336**2)

    def _boxes(self, owner: Tensor, number: Tensor) -> Tensor:
        """Roughly drawn boxes (B, P, N, 4) of objects (B, P, N)."""
        half = owner[:, ::2, ::2]
        masks = torch.stack([half == k + 1 for k in range(MAX_OBJECTS)], 1)
        boxes = boxes_of(masks)[:, None].expand(-1, number.shape[1], -1, -1)
        boxes = boxes.gather(2, number[..., None].expand(*number.shape, 4))
        centre, size = boxes.chunk(2, -1)
        shift = (self.draw.rand(*centre.shape) - 0.5) * 0.1 * size
        return torch.cat([centre + shift, size * self.draw.span(0.9, 1.1, *size.shape)], -1)

    def paint_plan(self, layout: Layout) -> tuple[Layout, Tensor]:
        """Give objects colours and surfaces: the layout, and attributes (B, K, 4)."""
        draw, (b, k) = self.draw, layout.shape.shape
        colour, surface = draw.pick(len(COLOURS), b, k), draw.pick(len(SURFACES), b, k)
        # Groups of things alike, so that texts mean several at a time.
        twin = draw.chance(0.4, b, k)
        other = (draw.rand(b, k) * torch.arange(1, k + 1, device=draw.device)).long()
        colour = torch.where(twin, colour.gather(1, other), colour)
        surface = torch.where(twin, surface.gather(1, other), surface)
        shape = torch.where(twin, layout.shape.gather(1, other), layout.shape)
        share = layout.radius / layout.side
        # Neither small nor large is a size of its own: those in between keep away from both.
        push = torch.where((share >= SMALL) & (share < SMALL * APART), APART, 1.0)
        push = torch.where((share <= LARGE) & (share > LARGE / APART), 1 / APART, push)
        size = torch.where(share < SMALL, 0, torch.where(share > LARGE, 1, 2))
        tint = self.colours[colour] + 0.12 * (draw.rand(b, k, 3) - 0.5)
        contrast = torch.where(surface == 0, 0.08, 0.4)
        fields = {
            "parent": torch.zeros_like(layout.parent),
            "shape": shape,
            "radius": layout.radius * push,
            "inverse": self._outlines(layout.inverse, shape) / push[..., None, None],
            "texture": surface * self.each + draw.pick(self.each, b, k),
            "contrast": contrast,
            "tint": (tint - contrast[..., None] * 0.5).clamp(-0.1, 1),
            "relief": layout.relief * 0.3,
            "rounding": layout.rounding * 0.5,
        }
        attributes = torch.stack([size, colour, surface, self.noun[shape]], -1)
        return dataclasses.replace(layout, **fields), attributes

    def _outlines(self, inverse: Tensor, shape: Tensor) -> Tensor:
        """Leave circles unstretched, and make ovals longer: matrices (B, K, 2, 2)."""
        along, across = inverse.norm(dim=-1).unbind(-1)
        stretch = (across / along).sqrt()
        longer = torch.exp(stretch.log().abs() + 0.2)
        disc, oval = (table[shape] for table in self.round)
        wanted = torch.where(disc, 1.0, torch.where(oval, longer, stretch))
        change = torch.stack([stretch / wanted, wanted / stretch], -1)
        return inverse * change[..., None]

    def texts(self, attributes: Tensor, seen: Tensor, count: int) -> Tensor:
        """Attributes that texts name, (B, P, 4); about half of the texts mean nothing."""
        draw, (b, k, _) = self.draw, attributes.shape
        n = b, count
        score = draw.rand(b, count, k) + seen[:, None]
        chosen = score.argmax(2)[..., None].expand(-1, -1, 4)
        about = attributes.gather(1, chosen)
        # Medium size has no word.
        about[..., 0].masked_fill_(about[..., 0] == 2, ANY)
        named = draw.rand(*n, 4) < self._shares
        about = torch.where(named, about, ANY)
        counts = self._counts
        elsewhere = (draw.rand(*n, 4) * counts).long()
        where = (draw.rand(*n, 1) * 3).long() + 1
        axis = torch.arange(4, device=about.device)
        hard = torch.where(axis == where, elsewhere, about)
        random = torch.where(named | (axis == where), elsewhere, ANY)
        kind = draw.rand(*n, 1)
        absent = torch.where(kind < 0.5 + 0.5 * HARD_SHARE, hard, random)
        return torch.where(kind < 0.4, about, absent)

    @property
    def _shares(self) -> Tensor:
        """How often size, colour, surface and noun are named."""
        axis = torch.arange(4, device=self.draw.device)
        return torch.where(axis == 0, 0.25, torch.where(axis == 2, 0.3, 0.7))

    @property
    def _counts(self) -> Tensor:
        """How many values size, colour, surface and noun have."""
        axis = torch.arange(4, device=self.draw.device)
        counts = torch.where(axis == 0, len(SIZES), len(COLOURS))
        counts = torch.where(axis == 2, len(SURFACES), counts)
        return torch.where(axis == 3, len(NOUNS), counts)

    def tokens(self, wanted: Tensor) -> Tensor:
        """Tokens (B, P, L) of texts, at times with an article or with other words."""
        draw, n = self.draw, wanted.shape[:2]
        axis = torch.arange(4, device=wanted.device)
        last = self.words.shape[1] - 1
        column = torch.where(wanted == ANY, last, wanted)
        words = torch.where(
            draw.chance(0.25, *n, 4), self.others[axis, column], self.words[axis, column]
        )
        article = torch.where(draw.chance(0.2, *n, 1), WORDS["a"], 0)
        ids = torch.cat([torch.full_like(article, START), article, words], 2)
        ids = torch.cat([ids, torch.full_like(article, END)], 2)
        # Close the gaps: what is there comes first, in its order.
        order = (ids == 0).to(torch.int8).argsort(dim=2, stable=True)
        ids = ids.gather(2, order)
        return torch.nn.functional.pad(ids, (0, LENGTH - ids.shape[2]))


def meant_by(attributes: Tensor, seen: Tensor, wanted: Tensor) -> Tensor:
    """Objects (B, P, K) that are seen and have all attributes (B, P, 4) that are named."""
    same = (wanted[:, :, None] == attributes[:, None]) | (wanted[:, :, None] == ANY)
    return same.all(3) & seen[:, None]


def surfaces(device: torch.device, seed: int, each: int) -> Tensor:
    """Grey textures of each surface in turn: (4 * each, 3, 256, 256) uint8."""
    maker = TextureMaker(device, seed, ())
    pools = []
    for make in (maker.flat, maker.stripes, maker.dots, maker.noise):
        grey = torch.cat([make(min(each - i, 64)).mean(1) for i in range(0, each, 64)])
        low, high = grey.amin((1, 2), keepdim=True), grey.amax((1, 2), keepdim=True)
        grey = (grey - low) / (high - low).clamp(min=1e-3)
        pools.append(grey.mul(255).to(torch.uint8)[:, None].expand(-1, 3, -1, -1))
    return torch.cat(pools)


def text_maker(device: torch.device, seed: int, count: int, each: int, workers: int) -> TextMaker:
    """Make pools of `count` shapes and a maker of scenes with texts on them."""
    fields, kinds = shapes.make_pool(count, seed, workers)
    named = torch.tensor([shapes.FAMILIES[k][0].__name__ in FAMILIES for k in kinds.tolist()])
    fields, kinds = torch.from_numpy(fields)[named], torch.from_numpy(kinds)[named]
    scenes = SceneMaker(fields.to(device), kinds, surfaces(device, seed, each), seed)
    return TextMaker(scenes, kinds, each)
