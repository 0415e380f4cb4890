"""Losses of the detector: queries are matched with objects, the rest should be silent."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from training.losses import mask_losses
from training.sam3 import Found
from training.speed import compiled
from training.texts import Named, boxes_of

SCORE_WEIGHT, BOX_WEIGHT, OVERLAP_WEIGHT = 2.0, 5.0, 2.0
MASK_WEIGHT, SEMANTIC_WEIGHT, PRESENCE_WEIGHT = 1.0, 0.5, 3.0
EARLIER_WEIGHT = 0.5
FAR = 1e4


class Goals(NamedTuple):
    """What texts mean: masks (B, K, h, w), boxes (B, K, 4), and which are there (B, K)."""

    masks: Tensor
    boxes: Tensor
    there: Tensor


def goals(batch: Named, side: int) -> Goals:
    """Objects meant by each text, at `side` cells along the image."""
    full = batch.owner.shape[-1]
    line = ((torch.arange(side, device=batch.owner.device) + 0.5) * (full / side)).long()
    owner = batch.owner[:, line][:, :, line]
    meant, number = batch.meant.to(torch.int8).sort(dim=2, descending=True, stable=True)
    there = meant.bool()
    masks = owner[:, None, None] == (number[..., None, None] + 1)
    masks = (masks & there[..., None, None]).flatten(0, 1)
    return Goals(masks, boxes_of(masks), there.flatten(0, 1))


def corners(boxes: Tensor) -> Tensor:
    """Turn centres and sizes into corners."""
    centre, size = boxes.chunk(2, -1)
    return torch.cat([centre - size / 2, centre + size / 2], -1)


def overlap(a: Tensor, b: Tensor) -> Tensor:
    """Generalised IoU of boxes (..., 4) given by corners."""
    shared = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(
        0
    )
    both = torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])
    area = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1)
    inner, hull = shared.prod(-1), both.prod(-1).clamp(min=1e-6)
    union = (area - inner).clamp(min=1e-6)
    return inner / union - (hull - union) / hull


@torch.no_grad()
def match(cost: Tensor, there: Tensor) -> Tensor:
    """Give each object a query of its own: numbers (B, K) from costs (B, Q, K).

    The cheapest pair goes first, then the cheapest of what is left. This is close to the best
    assignment and needs neither loops over the batch nor another device.
    """
    b, queries, objects = cost.shape
    cost = torch.where(there[:, None], cost.clamp(-FAR / 4, FAR / 4), FAR)
    query = torch.arange(queries, device=cost.device)[:, None]
    number = torch.arange(objects, device=cost.device)
    chosen = torch.zeros(b, objects, dtype=torch.long, device=cost.device)
    for _ in range(objects):
        best = cost.flatten(1).argmin(1)
        q, k = best // objects, best % objects
        chosen = torch.where(number == k[:, None], q[:, None], chosen)
        # Objects that are not there come last, and then any query will do.
        taken = (query == q[:, None, None]) | (number == k[:, None, None])
        cost = torch.where(taken, 2 * FAR, cost)
    return chosen


def take(x: Tensor, chosen: Tensor) -> Tensor:
    """Rows (B, K, C) of x (B, Q, C)."""
    return x.gather(1, chosen[..., None].expand(-1, -1, x.shape[2]))


def layer_loss(scores: Tensor, boxes: Tensor, goal: Goals) -> tuple[Tensor, Tensor]:
    """Loss of scores and boxes of one layer, and the matching (B, K)."""
    there, count = goal.there.float(), goal.there.sum().clamp(min=1)
    with torch.no_grad():
        pairs = overlap(corners(boxes)[:, :, None], corners(goal.boxes)[:, None])
        away = (boxes[:, :, None] - goal.boxes[:, None]).abs().sum(-1)
        likely = scores.sigmoid()[..., None]
        cost = -SCORE_WEIGHT * likely + BOX_WEIGHT * away - OVERLAP_WEIGHT * pairs
        chosen = match(cost, goal.there)
    own = take(boxes, chosen)
    box = ((own - goal.boxes).abs().sum(-1) * there).sum() / count
    shared = overlap(corners(own), corners(goal.boxes))
    # A matched query should say how well its box fits, others nothing.
    wanted = torch.zeros_like(scores)
    quality = (0.5 + 0.5 * shared.detach().clamp(0, 1)) * there
    wanted = wanted.scatter_reduce(1, chosen, quality, "amax")
    entropy = F.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
    miss = (scores.sigmoid() - wanted).square()
    # Texts that mean nothing are the presence token's affair.
    present = goal.there.any(1, keepdim=True).float()
    score = (entropy * (0.25 * miss + wanted * 0.5) * present).sum() / count
    total = SCORE_WEIGHT * 4 * score + BOX_WEIGHT * box
    return total + OVERLAP_WEIGHT * ((1 - shared) * there).sum() / count, chosen


@compiled("losses")
def detection_loss(found: Found, goal: Goals) -> tuple[Tensor, Tensor]:
    """The whole loss, and figures: mask IoU of matched queries, presence right, absent empty."""
    present = goal.there.any(1).float()
    count = goal.there.sum().clamp(min=1)
    total = torch.zeros((), device=present.device)
    layers = len(found.scores)
    for i in range(layers):
        weight = 1.0 if i == layers - 1 else EARLIER_WEIGHT
        loss, chosen = layer_loss(found.scores[i].float(), found.boxes[i].float(), goal)
        said = found.presence[i][:, 0].float()
        presence = F.binary_cross_entropy_with_logits(said, present)
        total = total + weight * (loss + PRESENCE_WEIGHT * presence)
    states = take(found.states, chosen)
    logits = (states @ found.pixels.flatten(2)).unflatten(2, goal.masks.shape[2:]).float()
    each = mask_losses(logits.flatten(0, 1)[:, None], goal.masks.flatten(0, 1))[:, 0]
    total = total + MASK_WEIGHT * (each * goal.there.flatten()).sum() / count
    whole = goal.masks.any(1)
    total = total + SEMANTIC_WEIGHT * mask_losses(found.semantic.float(), whole).mean()
    with torch.no_grad():
        seen = logits > 0
        both = (seen & goal.masks).sum((2, 3)).float()
        iou = both / (seen | goal.masks).sum((2, 3)).clamp(min=1)
        iou = (iou * goal.there).sum() / count
        right = ((said > 0) == (present > 0.5)).float()
        quiet = (right * (1 - present)).sum() / (1 - present).sum().clamp(min=1)
        figures = torch.stack([iou, right.mean(), quiet])
    return total, figures[None]
