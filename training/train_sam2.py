"""Train `sam2-nano` in resumable stages on generated scenes and clips."""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from training import losses, prompts
from training.clips import ClipMaker, Clips
from training.runs import Run, Team
from training.sam2 import NANO, Decoded, Features, Memory, Sam2
from training.sam2.sam2 import NO_OBJECT, NOTHING, PADDING, no_points
from training.scenes import SceneMaker, Scenes
from training.train import make_scenes

PEAK_RATE = 1e-3
TARGETS_PER_SCENE = 6
TARGETS_PER_CLIP = 4
ROUNDS = 3
SLOTS = 5
WITHOUT_MASK = 0.2
MASK_SHARE = 0.2
CORRECTED_SHARE = 0.3
LONG_SHARE = 0.75
FAR_SHARE = 0.25
FAR = 60
TRACKED_WEIGHT = 3.0
SAVE_EVERY = 120
STEPS_PER_BATCH = 3


@dataclasses.dataclass(frozen=True)
class Phase:
    """Part of the training, up to a share of the planned time.

    `scenes` pictures a step, or `clips` clips of `frames` frames in the share `clip_share` of the
    steps; sides in pixels.
    """

    until: float
    side: int
    scenes: int
    clips: int
    frames: int
    clip_share: float


PHASES = (
    Phase(0.10, 256, 64, 24, 8, 0.0),
    Phase(0.22, 256, 64, 24, 8, 0.5),
    Phase(0.40, 512, 32, 12, 8, 0.15),
    Phase(0.82, 512, 32, 8, 8, 0.4),
    Phase(9.99, 512, 32, 8, 12, 0.4),
)


def encode(model: Sam2, pixels: Tensor) -> Features:
    """Encode pictures in batches of one size, for which the encoder is compiled once."""
    side = pixels.shape[-1]
    size = 32 if side > NANO.image_size // 2 else 64
    parts = [model.encode(model.normalise(p)) for p in pixels.split(size)]
    return Features(*(torch.cat(maps) for maps in zip(*parts, strict=True)))


def shares(mask: Tensor) -> Tensor:
    """Covered share of each cell of the logits, from masks (N, h, w) of twice the resolution."""
    return F.avg_pool2d(mask[:, None].float(), 2)[:, 0]


def chosen(got: Decoded, alone: Tensor) -> Tensor:
    """Number of the mask to use: the most promising alternative, or the single answer."""
    return torch.where(alone, got.iou[:, 1:].argmax(1) + 1, 0)


def pick(x: Tensor, index: Tensor) -> Tensor:
    """Take element `index[i]` of each row of x (N, M, ...)."""
    return x[torch.arange(len(index), device=index.device), index]


@dataclasses.dataclass
class Prompted:
    """Outcome of prompting on one frame."""

    rounds: list[losses.RoundLoss]
    presence: Tensor
    got: Decoded
    index: Tensor

    @property
    def total(self) -> Tensor:
        """The sum to minimise."""
        return sum(r.total for r in self.rounds) + self.presence


def prompt_rounds(
    run: Run,
    source: Tensor,
    features: Features,
    scenes: Scenes,
    targets: prompts.Targets,
    rounds: int,
    gen: torch.Generator,
) -> Prompted:
    """Prompt with a click or a box, then correct, as a person would."""
    coords, labels, alone, place = prompts.first_prompts(targets, gen)
    last = torch.where(alone, NOTHING, PADDING)[:, None]
    coords, labels = F.pad(coords, (0, 0, 0, 1)), torch.cat([labels, last], 1)
    other = prompts.other_reading(scenes, targets, place)
    goal = shares(targets.mask)
    other = shares(torch.where(alone[:, None, None], other, targets.mask))
    out: list[losses.RoundLoss] = []
    presence = goal.new_zeros(())
    mask = None
    while True:
        spare = SLOTS - labels.shape[1]
        padded = F.pad(coords, (0, 0, 0, spare)), F.pad(labels, (0, spare), value=NOTHING)
        got = run.model.decode(source, features, *padded, mask, slots=True)
        got = Decoded(got.logits.float(), got.iou.float(), got.tokens, got.presence.float())
        out.append(losses.round_loss(got.logits, got.iou, goal, other, alone))
        presence = presence + losses.presence_loss(got.presence)
        index = chosen(got, alone)
        if len(out) == rounds:
            return Prompted(out, presence, got, index)
        with torch.no_grad():
            mask = pick(got.logits, index)[:, None].detach()
            click, label = prompts.correction(targets.mask, double(mask)[:, 0] > 0, gen)
        coords, labels = torch.cat([coords, click], 1), torch.cat([labels, label], 1)
        mask = None if run.chance() < WITHOUT_MASK else mask
        alone, other = torch.zeros_like(alone), goal


def double(logits: Tensor) -> Tensor:
    """Enlarge logits to the resolution of the targets."""
    return F.interpolate(logits, scale_factor=2, mode="bilinear")


def picture_step(run: Run, scenes: Scenes, gen: torch.Generator) -> list[losses.RoundLoss]:
    """Choose targets, prompt for each of them three times, and update the weights."""
    targets = prompts.choose_targets(scenes, TARGETS_PER_SCENE, gen)
    # One region for the whole step: weights are cast once.
    with torch.autocast(run.device.type, torch.bfloat16):
        features = encode(run.model, scenes.pixels).spread(TARGETS_PER_SCENE)
        source = run.model.without_memory(features.top)
        prompted = prompt_rounds(run, source, features, scenes, targets, ROUNDS, gen)
    run.update(prompted.total)
    return prompted.rounds


class Bank:
    """Memories of the frames of a clip, by frame."""

    def __init__(self, run: Run, frames: int) -> None:
        self.model = run.model
        self.frames = max(frames, NANO.max_obj_ptrs_in_encoder)
        self.frames = self.frames if run.chance() < LONG_SHARE else frames
        # Now and then the prompt lies far back, as in a long video.
        self.far = int(run.chance() * FAR) if run.chance() < FAR_SHARE else 0
        self.prompted: dict[int, Memory] = {}
        self.tracked: dict[int, Memory] = {}

    def condition(self, t: int, top: Tensor) -> Tensor:
        """Let frame `t` look at what was before."""
        spatial = [(m.spatial, 0) for m in self.prompted.values()]
        pointers = [(m.pointer, float(t - k + self.far)) for k, m in self.prompted.items()]
        for back in range(NANO.num_maskmem - 1, 0, -1):
            if t - back in self.tracked:
                spatial.append((self.tracked[t - back].spatial, back))
        for back in range(1, min(self.frames, NANO.max_obj_ptrs_in_encoder)):
            if t - back in self.tracked:
                pointers.append((self.tracked[t - back].pointer, float(back)))
        return self.model.condition(top, spatial, pointers, self.frames)

    def keep(self, t: int, top: Tensor, got: Decoded, index: Tensor, prompted: bool) -> None:
        """Remember frame `t` with mask number `index` of each object."""
        present = got.presence[:, 0] > 0
        low = pick(got.logits, index)[:, None]
        low = torch.where(present[:, None, None, None], low.float(), NO_OBJECT)
        side = top.shape[-1] * NANO.backbone_stride
        high = F.interpolate(low, (side, side), mode="bilinear")
        mask = (high > 0).float() if prompted else high.sigmoid()
        pointer = self.model.pointer(pick(got.tokens, index), present)
        spatial = self.model.remember(top, mask, present)
        (self.prompted if prompted else self.tracked)[t] = Memory(spatial, pointer)

    def keep_mask(self, t: int, features: Features, mask: Tensor) -> Tensor:
        """Remember frame `t` with given masks (N, 1, S, S); return the logits of presence."""
        token, presence = self.model.mask_token(features, mask)
        seen = torch.ones(len(mask), dtype=torch.bool, device=mask.device)
        spatial = self.model.remember(features.top, mask, seen)
        self.prompted[t] = Memory(spatial, self.model.pointer(token, seen))
        return presence


def clip_step(run: Run, clips: Clips, gen: torch.Generator) -> list[losses.RoundLoss]:
    """Prompt on the first frame, follow the objects, sometimes correct, and update the weights."""
    model, frames = run.model, clips.pixels.shape[1]
    first = clips.frame(0)
    targets = prompts.choose_targets(first, TARGETS_PER_CLIP, gen, background=0.0)
    masks = clips.masks(targets)
    area = masks.sum((2, 3)) * 4
    goals = F.avg_pool2d(masks.float(), 2)
    bank = Bank(run, frames)
    as_mask = run.chance() < MASK_SHARE
    rounds = 1 + int(run.chance() * 2.2)
    corrected = int(1 + run.chance() * (frames - 1)) if run.chance() < CORRECTED_SHARE else -1
    tracked: list[losses.RoundLoss] = []
    start: list[losses.RoundLoss] = []
    total = goals.new_zeros(())
    with torch.autocast(run.device.type, torch.bfloat16):
        encoded = encode(model, clips.pixels.flatten(0, 1)).unflatten(frames)
        for t in range(frames):
            features = encoded.frame(t).spread(TARGETS_PER_CLIP)
            if t == 0 and as_mask:
                full = clips.masks(targets, 1)[:, :1].float()
                total = total + losses.presence_loss(bank.keep_mask(t, features, full))
                continue
            if t == 0:
                source = model.without_memory(features.top)
                prompted = prompt_rounds(run, source, features, first, targets, rounds, gen)
                total, start = total + prompted.total, prompted.rounds
                bank.keep(t, features.top, prompted.got, prompted.index, prompted=True)
                continue
            source = bank.condition(t, features.top)
            nothing = no_points(len(source), run.device, SLOTS)
            got = model.decode(source, features, *nothing, slots=True)
            loss = losses.tracked_loss(
                got.logits.float(), got.iou.float(), got.presence, goals[:, t], area[:, t]
            )
            tracked.append(loss)
            total = total + TRACKED_WEIGHT * loss.total / (frames - 1)
            index = chosen(got, torch.ones_like(targets.is_part))
            if t == corrected:
                got, extra = correct(
                    run, source, features, got, index, masks[:, t], area[:, t], gen
                )
                total, index = total + extra, torch.zeros_like(index)
            bank.keep(t, features.top, got, index, prompted=t == corrected)
    run.update(total)
    return [*start[:1], tracked[0], tracked[len(tracked) // 2], tracked[-1]]


def correct(
    run: Run,
    source: Tensor,
    features: Features,
    got: Decoded,
    index: Tensor,
    mask: Tensor,
    area: Tensor,
    gen: torch.Generator,
) -> tuple[Decoded, Tensor]:
    """Click where a tracked mask is wrong: the new answer and its loss."""
    with torch.no_grad():
        seen = pick(got.logits, index)[:, None].float()
        click, label = prompts.correction(mask, double(seen)[:, 0] > 0, gen)
        before = seen.clamp(-32, 32)
    n = len(label)
    coords = F.pad(click, (0, 0, 0, SLOTS - 1))
    labels = torch.full((n, SLOTS), NOTHING, device=label.device)
    labels[:, :1], labels[:, 1] = label, PADDING
    got = run.model.decode(source, features, coords, labels, before, slots=True)
    loss = losses.tracked_loss(
        got.logits.float(), got.iou.float(), got.presence, shares(mask), area
    )
    single = losses.mask_losses(got.logits[:, :1].float(), shares(mask))[:, 0]
    return got, loss.total + (single * (area >= losses.MIN_VISIBLE)).mean()


def line(rounds: list[losses.RoundLoss]) -> str:
    """Figures of some rounds in short."""
    each = [f"{r.chosen_iou:.3f}/{r.best_iou:.3f}/{r.iou_error:.3f}" for r in rounds]
    return f"loss {sum(r.total.item() for r in rounds):.3f}, {' '.join(each)}"


class Stage:
    """Scenes and clips of one stage and the choice between them."""

    def __init__(self, run: Run, maker: SceneMaker) -> None:
        self.run, self.maker, self.clips = run, maker, ClipMaker(maker)
        self.last: dict[str, list[losses.RoundLoss]] = {}
        self.count = {"pictures": 0, "clips": 0}

    def steps(self, phase: Phase) -> None:
        """Make one batch and train on it a few times."""
        gen = self.maker.gen
        if self.run.chance() < phase.clip_share:
            clips = self.clips.make(phase.clips, phase.frames, phase.side, stretched=True)
            for _ in range(STEPS_PER_BATCH):
                self.last["clips"] = clip_step(self.run, clips, gen)
            self.count["clips"] += STEPS_PER_BATCH
        else:
            scenes = self.maker.make(phase.scenes, phase.side, stretched=True)
            for _ in range(STEPS_PER_BATCH):
                self.last["pictures"] = picture_step(self.run, scenes, gen)
            self.count["pictures"] += STEPS_PER_BATCH

    def report(self) -> None:
        """Print progress: chosen IoU, best IoU and error of the predicted IoU."""
        if self.run.team.rank == 0:
            text = "; ".join(f"{kind} {line(v)}" for kind, v in self.last.items())
            counts = " ".join(str(v) for v in self.count.values())
            print(
                f"step {self.run.step} ({counts}) at {self.run.seconds:.0f} s: {text}", flush=True
            )


def main() -> None:
    """Run one stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="folder to write")
    parser.add_argument("--resume", type=Path, help="folder of the stage before")
    parser.add_argument("--seconds", type=float, required=True, help="training time of this stage")
    parser.add_argument("--total-seconds", type=float, required=True, help="time of all stages")
    parser.add_argument("--shapes", type=int, default=12000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="compile the image encoder")
    parser.add_argument("--report", type=int, default=200, help="steps between lines of progress")
    args = parser.parse_args()

    entered = time.time()
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.manual_seed(args.seed)
    run = Run(Sam2(NANO), PEAK_RATE, args.total_seconds, Team())
    if args.resume:
        run.load(args.resume)
    workers = (os.cpu_count() or 1) // run.team.size
    seed = args.seed + 1000 * (run.step + 1) + run.team.rank
    maker = make_scenes(run.device, seed, args.shapes, workers)
    torch.manual_seed(seed)
    stage = Stage(run, maker)
    started = saved = time.time()
    before, reported, compiled = run.seconds, run.step, False
    while True:
        run.seconds = before + run.team.agree(time.time() - started)
        if run.team.agree(time.time() - entered) > args.seconds:
            break
        phase = next(p for p in PHASES if run.seconds < p.until * args.total_seconds)
        if args.compile and not compiled and phase.side == NANO.image_size:
            run.model.image_encoder.compile(dynamic=False)
            compiled = True
        stage.steps(phase)
        if run.step - reported >= args.report:
            stage.report()
            reported = run.step
        if time.time() - saved > SAVE_EVERY:
            run.save(args.output)
            saved = time.time()
    stage.report()
    run.save(args.output)
    if run.device.type == "cuda" and run.team.rank == 0:
        peak = torch.cuda.max_memory_allocated() / 2**30
        print(f"{run.seconds:.0f} s trained, {time.time() - entered:.0f} s, {peak:.1f} GiB")


if __name__ == "__main__":
    main()
