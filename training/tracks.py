"""Train SAM 2.1 on clips: prompts on the first frame, then objects are followed by memory."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from training import losses, prompts
from training.clips import Clips
from training.images import (
    SLOTS,
    chosen,
    decode,
    double,
    encode,
    figures,
    pick,
    prompt_rounds,
    shares,
)  # fmt: skip
from training.sam2 import Decoded, Features, Heads, Pointers
from training.sam2.memory import Stored
from training.sam2.sam2 import NO_OBJECT, NOTHING, PADDING, no_points
from training.speed import compiled

TARGETS_PER_CLIP = 4
FIRST_ROUNDS = 2
ONE_ROUND = 0.7
CORRECTED_SHARE = 0.25
LONG_SHARE = 0.75
FAR_SHARE = 0.25
FAR = 60
TRACKED_WEIGHT = 3.0


class Habits(NamedTuple):
    """How the first frame is prompted.

    Attributes
    ----------
    mask : float
        Share of the objects that are given as a mask.
    rough : float
        Share of these masks that are as rough as those of a detector.
    """

    mask: float = 0.2
    rough: float = 0.0


@compiled("memory")
def remember(
    model: Heads, top: Tensor, mask: Tensor, present: Tensor
) -> tuple[tuple[Tensor, Tensor], ...]:
    """Encode a memory of one frame and prepare it for all layers: keys and values."""
    return tuple(tuple(s) for s in model.store(model.remember(top, mask, present)))


class Kept(NamedTuple):
    """What is remembered of one frame.

    Attributes
    ----------
    stored : list of Stored
        Keys and values of each layer.
    pointer : Tensor
        (N, C) object pointers.
    prompted : Tensor, optional
        (N,) bool: objects that were prompted for in this frame, if any were.
    """

    stored: list[Stored]
    pointer: Tensor
    prompted: Tensor | None


class Bank:
    """Memories of the frames of a clip.

    Frames are remembered for as long as the memory reaches back; a frame in which only some
    objects were prompted for must not be older than that, for all objects share its position.
    """

    def __init__(self, model: Heads, frames: int, grid: int, gen: torch.Generator) -> None:
        config = model.config
        self.model, self.reach = model, config.num_maskmem - 1
        self.times = model.times(grid)
        chance = torch.rand(3, generator=gen, device=gen.device)
        # Most clips pass for the start of a long video.
        long = float(config.max_obj_ptrs_in_encoder)
        longest = torch.where(chance[0] < LONG_SHARE, max(frames, long), frames)
        self.longest = (longest.clamp(max=long) - 1).clamp(min=1)
        # Now and then the prompt lies far back, as in a long video.
        self.far = torch.where(chance[1] < FAR_SHARE, (chance[2] * FAR).floor(), 0.0)
        self.kept: list[Kept] = []

    def condition(self, top: Tensor) -> Tensor:
        """Let the next frame look at what was before."""
        t = len(self.kept)
        reached = [0, *range(max(1, t - self.reach), t)]
        memories = [(self.kept[k].stored, self._time(k, t)) for k in reached]
        tokens = torch.stack([self.kept[k].pointer for k in range(t)], 1)
        back = torch.arange(t, 0, -1, device=top.device).float()
        back = torch.cat([back[:1] + self.far, back[1:]])
        return self.model.condition(top, memories, Pointers(tokens, back / self.longest))

    def _time(self, k: int, t: int) -> list[Tensor]:
        """What the time of frame `k`, seen from `t`, adds to its keys in each layer."""
        if k == 0:
            return [rows[-1] for rows in self.times]
        prompted = self.kept[k].prompted
        if prompted is None:
            return [rows[t - k - 1] for rows in self.times]
        prompted = prompted[:, None, None, None]
        return [torch.where(prompted, rows[-1], rows[t - k - 1]) for rows in self.times]

    def keep(
        self, top: Tensor, mask: Tensor, token: Tensor, there: Tensor, ask: Tensor | None = None
    ) -> None:
        """Remember the next frame.

        Parameters
        ----------
        top : Tensor
            (N, C, g, g) features of the frame, without memory.
        mask : Tensor
            (N, 1, S, S) in 0..1.
        token : Tensor
            (N, C) the token that made the mask.
        there : Tensor
            (N,) bool: the object is to be seen.
        ask : Tensor, optional
            (N,) bool: it was prompted for.
        """
        stored = [Stored(*s) for s in remember(self.model, top, mask, there)]
        self.kept.append(Kept(stored, self.model.pointer(token, there), ask))


class Said(NamedTuple):
    """An answer as the memory takes it: logits (N, 1, 4g, 4g), token (N, C), presence (N,)."""

    low: Tensor
    token: Tensor
    there: Tensor


def said(got: Decoded, index: Tensor) -> Said:
    """Take mask number `index` of each object."""
    return Said(pick(got.logits, index)[:, None], pick(got.tokens, index), got.presence[:, 0] > 0)


def either(first: Tensor, a: Said, b: Said) -> Said:
    """Take `a` for objects where `first`, else `b`."""
    return Said(*(torch.where(_like(first, x), x, y) for x, y in zip(a, b, strict=True)))


def enlarge(answer: Said, side: int) -> Tensor:
    """Logits (N, 1, side, side) after the gate of the object score."""
    low = torch.where(_like(answer.there, answer.low), answer.low, NO_OBJECT)
    return F.interpolate(low, (side, side), mode="bilinear")


class Tracker:
    """Follow the targets of clips and sum up the loss."""

    def __init__(self, model: Heads, clips: Clips, gen: torch.Generator, habits: Habits) -> None:
        self.model, self.gen, self.clips, self.habits = model, gen, clips, habits
        self.frames, self.side = clips.pixels.shape[1], clips.pixels.shape[-1]
        self.first = clips.frame(0)
        self.targets = prompts.choose_targets(self.first, TARGETS_PER_CLIP, gen, background=0.0)
        self.masks = clips.masks(self.targets)
        self.area = self.masks.sum((2, 3)) * 4
        self.goals = F.avg_pool2d(self.masks.float(), 2)
        self.corrected = self.frames // 2
        self.rounds: list[losses.RoundLoss] = []

    def chance(self, share: float) -> Tensor:
        """True for about `share` of the objects."""
        n = len(self.masks)
        return torch.rand(n, generator=self.gen, device=self.masks.device) < share

    def run(self) -> Tensor:
        """Go through all frames and return the loss."""
        pixels = self.clips.pixels.transpose(0, 1).flatten(0, 1)
        frames = encode(self.model, pixels).frames(self.frames)
        frames = [f.spread(TARGETS_PER_CLIP) for f in frames]
        grid = frames[0].top.shape[-1]
        self.bank = Bank(self.model, self.frames, grid, self.gen)
        total = self.begin(frames[0])
        for t in range(1, self.frames):
            total = total + self.follow(t, frames[t])
        return total

    def begin(self, features: Features) -> Tensor:
        """Prompt on the first frame, for some objects with their mask."""
        model, top = self.model, features.top
        source = model.without_memory(top)
        answers, total = prompt_rounds(
            model, source, features, self.first, self.targets, FIRST_ROUNDS, self.gen
        )
        self.rounds.append(answers[0].loss)
        first, last = (said(a.got, a.index) for a in answers)
        answer = either(self.chance(ONE_ROUND), first, last)
        mask = (enlarge(answer, self.side) > 0).float()
        as_mask = self.chance(self.habits.mask)
        full = self.given_masks()
        token, presence = model.mask_token(features, full)
        total = total + losses.presence_loss(presence)
        mask = torch.where(_like(as_mask, mask), full, mask)
        token = torch.where(_like(as_mask, token), token, answer.token)
        there = as_mask | answer.there
        self.bank.keep(top, mask, token, there)
        return total

    def given_masks(self) -> Tensor:
        """Masks of the first frame as prompts: (N, 1, S, S) of zeros and ones."""
        full = self.clips.first_masks(self.targets)
        if self.habits.rough:
            rough = prompts.rough_masks(full, self.gen)
            full = torch.where(_like(self.chance(self.habits.rough), full), rough, full)
        return full[:, None].float()

    def follow(self, t: int, features: Features) -> Tensor:
        """Track into frame `t`; click once more on some objects in the middle of the clip."""
        source = self.bank.condition(features.top)
        nothing = no_points(len(source), source.device, SLOTS)
        got = decode(self.model, source, features, *nothing)
        loss = losses.tracked_loss(
            got.logits, got.iou, got.presence, self.goals[:, t], self.area[:, t]
        )
        self.rounds.append(loss)
        total = TRACKED_WEIGHT * loss.total / (self.frames - 1)
        index = chosen(got, torch.ones_like(self.targets.is_part))
        answer, ask = said(got, index), None
        if t == self.corrected:
            ask = self.chance(CORRECTED_SHARE)
            again, extra = self.correct(source, features, answer, t)
            total = total + TRACKED_WEIGHT * extra / (self.frames - 1)
            answer = either(ask, again, answer)
        high = enlarge(answer, self.side)
        mask = high.sigmoid()
        if ask is not None:
            mask = torch.where(_like(ask, high), (high > 0).float(), mask)
        self.bank.keep(features.top, mask, answer.token, answer.there, ask)
        return total

    def correct(
        self, source: Tensor, features: Features, before: Said, t: int
    ) -> tuple[Said, Tensor]:
        """Click where a tracked mask is wrong: the new answer and its loss."""
        mask, area = self.masks[:, t], self.area[:, t]
        with torch.no_grad():
            low = before.low.float()
            click, label = prompts.correction(mask, double(low)[:, 0] > 0, self.gen)
            low = low.clamp(-32, 32)
        coords = F.pad(click, (0, 0, 0, SLOTS - 1))
        padding = torch.full_like(label, PADDING)
        labels = F.pad(torch.cat([label, padding], 1), (0, SLOTS - 2), value=NOTHING)
        given = torch.ones_like(area, dtype=torch.bool)
        got = decode(self.model, source, features, coords, labels, low, given)
        loss = losses.tracked_loss(got.logits, got.iou, got.presence, shares(mask), area)
        single = losses.mask_losses(got.logits[:, :1], shares(mask))[:, 0]
        extra = (single * (area >= losses.MIN_VISIBLE)).mean()
        return said(got, torch.zeros_like(label[:, 0])), loss.total + extra


def clip_loss(
    model: Heads, clips: Clips, gen: torch.Generator, habits: Habits | None = None
) -> tuple[Tensor, Tensor]:
    """Prompt on the first frame and follow the objects: the loss, and figures to print."""
    with torch.autocast(clips.pixels.device.type, torch.bfloat16):
        tracker = Tracker(model, clips, gen, habits or Habits())
        total = tracker.run()
    rounds = tracker.rounds
    return total, figures([rounds[0], rounds[1], rounds[len(rounds) // 2], rounds[-1]])


def _like(chosen: Tensor, x: Tensor) -> Tensor:
    """Give (N,) as many axes as `x` has."""
    return chosen.reshape(-1, *[1] * (x.ndim - 1))
