"""Losses of masks and of the IoU predictions."""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor

FOCAL_WEIGHT = 20.0
DICE_WEIGHT = 1.0
IOU_WEIGHT = 2.0
SINGLE_WITH_ONE_CLICK = 0.5
BEST_WITH_MORE = 0.4
OWN_SHARE = 0.3


@dataclasses.dataclass
class RoundLoss:
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
        (N, h, w) bool.

    Returns
    -------
    Tensor
        (N, M).
    """
    wanted = target[:, None].float().expand_as(logits)
    entropy = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    p = logits.sigmoid()
    miss = p + wanted - 2 * p * wanted
    focal = ((0.75 - 0.5 * wanted) * entropy * miss**2).mean((2, 3))
    overlap = (p * wanted).sum((2, 3))
    dice = 1 - (2 * overlap + 1) / (p.sum((2, 3)) + wanted.sum((2, 3)) + 1)
    return FOCAL_WEIGHT * focal + DICE_WEIGHT * dice


def mask_iou(logits: Tensor, target: Tensor) -> Tensor:
    """IoU of thresholded masks (N, M, h, w) with targets (N, h, w): (N, M)."""
    seen, wanted = logits > 0, target[:, None]
    both = (seen & wanted).sum((2, 3)).float()
    return both / (seen | wanted).sum((2, 3)).clamp(min=1)


def round_loss(
    logits: Tensor, scores: Tensor, target: Tensor, other: Tensor, alone: Tensor
) -> RoundLoss:
    """Loss of one round of prompts.

    Parameters
    ----------
    logits, scores : Tensor
        (N, 4, h, w) and (N, 4): index 0 is the single answer.
    target, other : Tensor
        (N, h, w) bool: the wanted mask, and what else the prompt could mean.
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
