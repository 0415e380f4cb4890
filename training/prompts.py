"""Choose targets in scenes and imitate a person who prompts for them."""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor

from training.layout import MAX_OBJECTS
from training.scenes import Scenes
from training.speed import compiled

MIN_AREA = 70
BACKGROUND_WEIGHT = 0.12
PADDING_LABEL = -1


@dataclasses.dataclass
class Targets:
    """Objects to find.

    Attributes
    ----------
    scene : Tensor
        (N,) number of the scene of each target.
    mask : Tensor
        (N, S/2, S/2) bool, at the resolution of the predicted logits.
    is_part : Tensor
        (N,) whether the target is a part of a larger object.
    number : Tensor
        (N,) its number in `Scenes.part` or `Scenes.owner`.
    """

    scene: Tensor
    mask: Tensor
    is_part: Tensor
    number: Tensor


def choose_targets(
    scenes: Scenes, per_scene: int, gen: torch.Generator, background: float = BACKGROUND_WEIGHT
) -> Targets:
    """Draw `per_scene` targets of each scene: whole objects, parts, rarely the background."""
    owner, part = scenes.owner[:, ::2, ::2], scenes.part[:, ::2, ::2]
    b, top = len(owner), MAX_OBJECTS + 1
    inside = owner >= 0
    whole, pieces = areas(owner, top), areas(part.where(inside, -1), top)
    pieces[:, 0].zero_()
    area = torch.cat([whole, pieces], 1)
    total = inside.sum((1, 2))[:, None]
    weight = ((area * 4 >= MIN_AREA) & (area < 0.85 * total)).float()
    weight[:, 0].mul_(background).add_(1e-6)
    # As `multinomial` draws on a CPU; on other devices it may make the program wait.
    sums = (weight.cumsum(1) / weight.sum(1, keepdim=True))[:, None]
    drawn = torch.rand(b, per_scene, 1, generator=gen, device=owner.device, dtype=torch.float64)
    choice = (sums < drawn).sum(2).clamp(max=2 * top - 1).flatten()
    scene = torch.arange(b, device=owner.device)[:, None].expand(b, per_scene).flatten()
    is_part = choice >= top
    number = choice % top
    wanted = number[:, None, None]
    mask = torch.where(is_part[:, None, None], part[scene] == wanted, owner[scene] == wanted)
    return Targets(scene, mask & inside[scene], is_part, number)


@compiled("losses")
def areas(numbers: Tensor, top: int) -> Tensor:
    """Count the cells of each number 0..top - 1 in (B, h, w) maps: (B, top)."""
    return torch.stack([(numbers == i).sum((1, 2)) for i in range(top)], 1)


def other_reading(scenes: Scenes, targets: Targets, position: Tensor) -> Tensor:
    """Return what else a click could mean: the whole for a part, the part for a whole.

    Parameters
    ----------
    scenes, targets : Scenes, Targets
        Where the clicks are.
    position : Tensor
        (N, 2) clicks (x, y) in cells of the target masks.

    Returns
    -------
    Tensor
        (N, S/2, S/2) bool; equal to the target where there is no other reading.
    """
    owner = scenes.owner[:, ::2, ::2][targets.scene]
    part = scenes.part[:, ::2, ::2][targets.scene]
    n = torch.arange(len(position), device=position.device)
    here_owner = owner[n, position[:, 1], position[:, 0]][:, None, None]
    here_part = part[n, position[:, 1], position[:, 0]][:, None, None]
    other = torch.where(targets.is_part[:, None, None], owner == here_owner, part == here_part)
    usable = targets.is_part[:, None, None] | (here_part > 0)
    return torch.where(usable & (other.sum((1, 2), keepdim=True) > 15), other, targets.mask)


def pick_position(mask: Tensor, central: Tensor, gen: torch.Generator, levels: int = 10) -> Tensor:
    """Pick one cell of each mask.

    Parameters
    ----------
    mask : Tensor
        (N, h, w) bool; an empty mask gives an arbitrary cell.
    central : Tensor
        (N,) bool: far from the border instead of anywhere.
    gen : torch.Generator
        Source of chance.
    levels : int
        How many erosions tell the centre from the border.

    Returns
    -------
    Tensor
        (N, 2) cells (x, y).
    """
    n, _, w = mask.shape
    score = torch.rand(mask.shape, generator=gen, device=mask.device)
    score = (score + central[:, None, None] * depth(mask, levels)) * mask + mask
    best = score.flatten(1).argmax(1)
    return torch.stack([best % w, best // w], 1).reshape(n, 2)


@compiled("losses")
def depth(mask: Tensor, levels: int) -> Tensor:
    """How many erosions, up to `levels`, each cell of (N, h, w) masks outlives, about."""
    left = (F.avg_pool2d(mask[:, None].float(), 2) > 0.9).float()
    out = left
    for _ in range(levels - 1):
        left = -F.max_pool2d(-left, 3, 1, 1)
        out = out + left
    return F.interpolate(out, scale_factor=2)[:, 0]


def to_pixels(position: Tensor, gen: torch.Generator) -> Tensor:
    """Turn cells of the masks into image coordinates (x, y), anywhere in the cell."""
    shake = torch.rand(position.shape, generator=gen, device=position.device)
    return (position + shake) * 2 - 0.5


def boxes(mask: Tensor, gen: torch.Generator) -> Tensor:
    """Return jittered boxes (N, 2, 2) of masks, as two corners (x, y) in pixels."""
    h, w = mask.shape[1:]
    cols, rows = mask.any(1), mask.any(2)

    def ends(line: Tensor, size: int) -> tuple[Tensor, Tensor]:
        number = torch.arange(size, device=line.device)
        low = torch.where(line, number, size).amin(1)
        return low, torch.where(line, number, -1).amax(1) + 1

    x0, x1 = ends(cols, w)
    y0, y1 = ends(rows, h)
    box = torch.stack([x0, y0, x1, y1], 1).float() * 2
    side = (box[:, 2:] - box[:, :2]).clamp(min=1).repeat(1, 2)
    noise = torch.randn(box.shape, generator=gen, device=box.device).clamp(-2, 2)
    amount = torch.rand(len(box), 1, generator=gen, device=box.device) ** 2 * 0.12
    jitter = (noise * amount * side).clamp(-20, 20)
    return (box + jitter).clamp(0, 2 * w - 1).reshape(-1, 2, 2)


def first_prompts(
    targets: Targets, gen: torch.Generator, box_share: float = 0.45
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw a click or a box for each target.

    Returns
    -------
    tuple of Tensor
        Coordinates (N, 2, 2), labels (N, 2), whether it is a click (N,), the clicked cells (N, 2).
    """
    mask = targets.mask
    chance = torch.rand(2, len(mask), generator=gen, device=mask.device)
    position = pick_position(mask, chance[0] < 0.5, gen)
    click = to_pixels(position, gen)
    clicks = torch.stack([click, torch.zeros_like(click)], 1)
    is_click = chance[1] >= box_share
    coords = torch.where(is_click[:, None, None], clicks, boxes(mask, gen))
    first, second = torch.where(is_click, 1, 2), torch.where(is_click, PADDING_LABEL, 3)
    return coords, torch.stack([first, second], 1), is_click, position


def correction(mask: Tensor, predicted: Tensor, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    """Click where the prediction is wrong: coordinates (N, 1, 2) and labels (N, 1)."""
    wrong = mask ^ predicted
    wrong = torch.where(wrong.flatten(1).any(1)[:, None, None], wrong, mask)
    central = torch.rand(len(mask), generator=gen, device=mask.device) < 0.6
    position = pick_position(wrong, central, gen)
    n = torch.arange(len(mask), device=mask.device)
    label = mask[n, position[:, 1], position[:, 0]].long()
    return to_pixels(position, gen)[:, None], label[:, None]


def rough_masks(mask: Tensor, gen: torch.Generator) -> Tensor:
    """Imitate masks that a detector found.

    Parameters
    ----------
    mask : Tensor
        (N, S, S) bool.
    gen : torch.Generator
        Source of chance.

    Returns
    -------
    Tensor
        (N, S, S) bool: cells of 4 pixels, enlarged as logits; the outline wavers, and thin parts
        may be missing.
    """
    n, side = len(mask), mask.shape[-1]
    soft = F.avg_pool2d(F.avg_pool2d(mask[:, None].float(), 4), 3, 1, 1)
    noise = torch.randn(n, 1, 12, 12, generator=gen, device=mask.device).clamp(-1.5, 1.5)
    noise = F.interpolate(noise, soft.shape[2:], mode="bilinear")
    amount = 0.3 * torch.rand(n, 1, 1, 1, generator=gen, device=mask.device)
    # Thin objects fill no cell: half of what they fill at most is inside.
    most = soft.amax((2, 3), keepdim=True)
    logits = soft + (amount * noise - 0.5) * most
    return F.interpolate(logits, (side, side), mode="bilinear")[:, 0] > 0
