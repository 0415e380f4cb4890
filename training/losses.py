"""Losses of masks and of the IoU predictions."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from training.speed import compiled

FOCAL_WEIGHT = 20.0
DICE_WEIGHT = 1.0
IOU_WEIGHT = 2.0
SINGLE_WITH_ONE_CLICK = 0.5
BEST_WITH_MORE = 0.4
OWN_SHARE = 0.3
OTHERS_WHEN_TRACKING = 0.4
SINGLE_WHEN_TRACKING = 0.3
PRESENCE_WEIGHT = 0.5
ABSENT_WEIGHT = 5.0
MIN_VISIBLE = 16


class RoundLoss(NamedTuple):
    """The sum to minimise, and figures to print."""

    total: Tensor
    best_iou: Tensor
    chosen_iou: Tensor
    iou_error: Tensor


def mask_losses(logits: Tensor, target: Tensor) -> Tensor:
    """Focal (alpha 0.25, gamma 2) and dice losses, weighted and summed, per mask.

    Parameters
    ----------
    logits : Tensor
        (N, M, h, w).
    target : Tensor
        (N, h, w) bool, or the covered share of each cell.

    Returns
    -------
    Tensor
        (N, M).
    """
    wanted = target[:, None].float().expand_as(logits)
    entropy = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    p = logits.sigmoid()
    miss = p - wanted
    focal = ((0.75 - 0.5 * wanted) * entropy * miss**2).mean((2, 3))
    overlap = (p * wanted).sum((2, 3))
    dice = 1 - (2 * overlap + 1) / (p.sum((2, 3)) + wanted.sum((2, 3)) + 1)
    return FOCAL_WEIGHT * focal + DICE_WEIGHT * dice


def mask_iou(logits: Tensor, target: Tensor) -> Tensor:
    """IoU of thresholded masks (N, M, h, w) with targets (N, h, w): (N, M)."""
    seen, wanted = logits > 0, target[:, None] > 0.5
    both = (seen & wanted).sum((2, 3)).float()
    return both / (seen | wanted).sum((2, 3)).clamp(min=1)


@compiled("losses")
def round_loss(
    logits: Tensor, scores: Tensor, target: Tensor, other: Tensor, alone: Tensor
) -> RoundLoss:
    """Loss of one round of prompts.

    Parameters
    ----------
    logits, scores : Tensor
        (N, 4, h, w) and (N, 4): index 0 is the single answer.
    target, other : Tensor
        (N, h, w) bool or shares: the wanted mask, and what else the prompt could mean.
    alone : Tensor
        (N,) bool: the prompt is a single click, so alternatives are in order.

    Notes
    -----
    Only the best of the three alternatives learns. All four IoU predictions learn: their goal is
    mostly the IoU with the better fitting of both readings, so that a clean mask of a part scores
    well, and to the share `OWN_SHARE` the IoU with the wanted one, so that likelier readings lead.
    """
    losses = mask_losses(logits, target)
    best = losses[:, 1:].min(1).values
    single_weight = torch.where(alone, SINGLE_WITH_ONE_CLICK, 1.0)
    best_weight = torch.where(alone, 1.0, BEST_WITH_MORE)
    with torch.no_grad():
        own = mask_iou(logits, target)
        either = torch.maximum(own, mask_iou(logits, other))
        goal = OWN_SHARE * own + (1 - OWN_SHARE) * either
    error = scores.float() - goal
    total = (single_weight * losses[:, 0] + best_weight * best).mean()
    total = total + IOU_WEIGHT * error.square().mean()
    lead = scores[:, 1:].argmax(1, keepdim=True)
    chosen = torch.where(alone, own[:, 1:].gather(1, lead)[:, 0], own[:, 0])
    return RoundLoss(total, own[:, 1:].max(1).values.mean(), chosen.mean(), error.abs().mean())


@compiled("losses")
def tracked_loss(
    logits: Tensor, scores: Tensor, presence: Tensor, target: Tensor, area: Tensor
) -> RoundLoss:
    """Loss of a frame that has no prompts of its own.

    Parameters
    ----------
    logits, scores, presence : Tensor
        (N, 4, h, w), (N, 4) and (N, 1).
    target : Tensor
        (N, h, w) covered share of each cell; empty where the object is not to be seen.
    area : Tensor
        (N,) pixels of the object that can be seen.

    Notes
    -----
    The three alternatives are what is used while tracking. The best of them learns most, the
    others a little, for the IoU head can choose any. Frames without the object teach nothing but
    the object score, and that `ABSENT_WEIGHT` times as much, for they are rare; those with a sliver
    of it, not even that.
    """
    there = (area >= MIN_VISIBLE).float()
    known = torch.where(area == 0, ABSENT_WEIGHT, there)
    losses = mask_losses(logits, target)
    others = losses[:, 1:]
    each = others.min(1).values + OTHERS_WHEN_TRACKING * others.mean(1)
    each = each + SINGLE_WHEN_TRACKING * losses[:, 0]
    with torch.no_grad():
        own = mask_iou(logits, target)
    error = scores.float() - own
    each = each + IOU_WEIGHT * error.square().mean(1)
    score = F.binary_cross_entropy_with_logits(presence[:, 0].float(), there, reduction="none")
    total = (each * there).mean() + PRESENCE_WEIGHT * (score * known).mean()
    lead = scores[:, 1:].argmax(1, keepdim=True)
    count = there.sum().clamp(min=1)

    def mean(x: Tensor) -> Tensor:
        return (x * there).sum() / count

    chosen = own[:, 1:].gather(1, lead)[:, 0]
    best = own[:, 1:].max(1).values
    return RoundLoss(total, mean(best), mean(chosen), mean(error.abs().mean(1)))


def presence_loss(presence: Tensor) -> Tensor:
    """Loss of the object score (N, 1) where the object is certainly there."""
    return PRESENCE_WEIGHT * F.softplus(-presence.float()).mean()
