"""Train SAM 2.1 on images: prompts for several objects of each, then corrections."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from training import losses, prompts
from training.sam2 import Decoded, Features, Heads
from training.sam2.sam2 import NOTHING, PADDING
from training.scenes import Scenes
from training.speed import compiled

TARGETS_PER_SCENE = 6
ROUNDS = 3
SLOTS = 5
WITHOUT_MASK = 0.2
ENCODED_AT_ONCE = 32 * 512**2


@compiled("encoder")
def encode_part(model: Heads, pixels: Tensor) -> Features:
    """Encode images (B, 3, S, S) in 0..255."""
    return model.encode(model.normalise(pixels))


def encode(model: Heads, pixels: Tensor) -> Features:
    """Encode images in batches of one size, for which the encoder is compiled once."""
    size = max(ENCODED_AT_ONCE // pixels.shape[-1] ** 2, 1)
    parts = [encode_part(model, p) for p in pixels.split(size)]
    if len(parts) == 1:
        return parts[0]
    return Features(*(torch.cat(maps) for maps in zip(*parts, strict=True)))


@compiled("decoder")
def decode(
    model: Heads,
    source: Tensor,
    features: Features,
    coords: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    given: Tensor | None = None,
) -> Decoded:
    """Answer prompts in `SLOTS` slots; logits and scores come in float32."""
    got = model.decode(source, features, coords, labels, mask, slots=True, given=given)
    return Decoded(got.logits.float(), got.iou.float(), got.tokens, got.presence.float())


def shares(mask: Tensor) -> Tensor:
    """Covered share of each cell of the logits, from masks (N, h, w) of twice the resolution."""
    return F.avg_pool2d(mask[:, None].float(), 2)[:, 0]


def double(logits: Tensor) -> Tensor:
    """Enlarge logits to the resolution of the targets."""
    return F.interpolate(logits, scale_factor=2, mode="bilinear")


def chosen(got: Decoded, alone: Tensor) -> Tensor:
    """Number of the mask to use: the most promising alternative, or the single answer."""
    return torch.where(alone, got.iou[:, 1:].argmax(1) + 1, 0)


def pick(x: Tensor, index: Tensor) -> Tensor:
    """Take element `index[i]` of each row of x (N, M, ...)."""
    position = index.reshape(-1, *[1] * (x.ndim - 1)).expand(-1, 1, *x.shape[2:])
    return x.gather(1, position)[:, 0]


class Answer(NamedTuple):
    """What the model said in one round, and the number of the mask to use."""

    got: Decoded
    index: Tensor
    loss: losses.RoundLoss


def prompt_rounds(
    model: Heads,
    source: Tensor,
    features: Features,
    scenes: Scenes,
    targets: prompts.Targets,
    rounds: int,
    gen: torch.Generator,
) -> tuple[list[Answer], Tensor]:
    """Prompt with a click or a box, then correct, as a person would: answers and their loss."""
    coords, labels, alone, position = prompts.first_prompts(targets, gen)
    last = torch.where(alone, NOTHING, PADDING)[:, None]
    coords, labels = F.pad(coords, (0, 0, 0, 1)), torch.cat([labels, last], 1)
    other = prompts.other_reading(scenes, targets, position)
    goal = shares(targets.mask)
    other = shares(torch.where(alone[:, None, None], other, targets.mask))
    out: list[Answer] = []
    total = goal.new_zeros(())
    mask = given = None
    while True:
        spare = SLOTS - labels.shape[1]
        padded = F.pad(coords, (0, 0, 0, spare)), F.pad(labels, (0, spare), value=NOTHING)
        got = decode(model, source, features, *padded, mask, given)
        loss = losses.round_loss(got.logits, got.iou, goal, other, alone)
        total = total + loss.total + losses.presence_loss(got.presence)
        out.append(Answer(got, chosen(got, alone), loss))
        if len(out) == rounds:
            return out, total
        with torch.no_grad():
            mask = pick(got.logits, out[-1].index)[:, None].detach()
            click, label = prompts.correction(targets.mask, double(mask)[:, 0] > 0, gen)
            chance = torch.rand(len(label), generator=gen, device=label.device)
            given = chance >= WITHOUT_MASK
        coords, labels = torch.cat([coords, click], 1), torch.cat([labels, label], 1)
        alone, other = torch.zeros_like(alone), goal


def image_loss(model: Heads, scenes: Scenes, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    """Choose targets and prompt for each of them three times: the loss, and figures to print."""
    targets = prompts.choose_targets(scenes, TARGETS_PER_SCENE, gen)
    # One region for the whole step: weights are cast once.
    with torch.autocast(scenes.pixels.device.type, torch.bfloat16):
        features = encode(model, scenes.pixels).spread(TARGETS_PER_SCENE)
        source = model.without_memory(features.top)
        answers, total = prompt_rounds(model, source, features, scenes, targets, ROUNDS, gen)
    return total, figures([a.loss for a in answers])


def figures(rounds: list[losses.RoundLoss]) -> Tensor:
    """Chosen IoU, best IoU and error of the predicted IoU of some rounds: (R, 3)."""
    each = [torch.stack([r.chosen_iou, r.best_iou, r.iou_error]) for r in rounds]
    return torch.stack(each).detach().float()
