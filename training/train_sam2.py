"""Train `sam2-nano` in resumable stages on generated scenes and clips."""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from training import speed
from training.clips import LIVELY, ClipMaker
from training.images import image_loss
from training.runs import Run, Team
from training.sam2 import NANO, Sam2
from training.scenes import SceneMaker
from training.tracks import clip_loss
from training.train import make_scenes

PEAK_RATE = 1e-3
SAVE_EVERY = 100
STEPS_PER_BATCH = 3


@dataclasses.dataclass(frozen=True)
class Phase:
    """Part of the training, up to a share of the planned time.

    `scenes` images a step, or `clips` clips of `frames` frames in the share `clip_share` of the
    steps; sides in pixels.
    """

    until: float
    side: int
    scenes: int
    clips: int
    frames: int
    clip_share: float


PLANS = {
    # From random weights: small images bring most of the early progress.
    "new": (
        Phase(0.12, 256, 64, 32, 8, 0.0),
        Phase(0.22, 256, 64, 32, 8, 0.4),
        Phase(0.45, 512, 32, 8, 8, 0.15),
        Phase(9.99, 512, 32, 8, 8, 0.4),
    ),
    # From weights that know something; one side, so that all is compiled once.
    "on": (
        Phase(0.35, 512, 32, 8, 8, 0.15),
        Phase(9.99, 512, 32, 8, 8, 0.4),
    ),
    # To end with: longer clips, half and half with images.
    "long": (Phase(9.99, 512, 32, 8, 12, 0.5),),
    # For less memory.
    "small": (Phase(9.99, 512, 32, 4, 8, 0.4),),
    # To try the program.
    "tiny": (Phase(0.5, 64, 2, 1, 3, 0.5), Phase(9.99, 128, 1, 1, 3, 0.5)),
}


class Lesson:
    """Batches of one kind and size, and the training step on them; both may be CUDA graphs."""

    def __init__(
        self, run: Run, make: Callable[[], object], loss: Callable[..., tuple], capture: bool
    ) -> None:
        self.run = run
        self.loss = loss
        self.make = speed.Step(make, capture)
        self.learn = speed.Step(self._learn, capture)
        self.batch: object = None
        self.figures: Tensor | None = None
        self.count = 0

    def _learn(self) -> Tensor:
        loss, figures = self.loss(self.run.model, self.batch)
        self.run.backward(loss)
        self.figures = torch.cat([loss.detach().float().reshape(1), figures.flatten()])
        return self.figures

    def warm_up(self) -> None:
        """Compile and capture."""
        self.next_batch()
        self.learn()

    def next_batch(self) -> None:
        """Make the images or clips of the next few steps."""
        self.batch = self.make()

    def steps(self, apply: Callable[[], None]) -> None:
        """Make one batch and train on it a few times."""
        self.next_batch()
        for _ in range(STEPS_PER_BATCH):
            self.learn()
            self.run.team.mean(self.run.grads)
            self.run.tell()
            apply()
        self.count += STEPS_PER_BATCH

    def line(self) -> str:
        """Last figures in short: chosen IoU, best IoU and error of the predicted IoU."""
        if self.figures is None:
            return "none yet"
        loss, *rest = self.figures.tolist()
        rows = [rest[i : i + 3] for i in range(0, len(rest), 3)]
        return f"loss {loss:.3f} " + " ".join("/".join(f"{v:.3f}" for v in row) for row in rows)


class Stage:
    """Scenes and clips of one stage and the choice between them."""

    def __init__(self, run: Run, clips: ClipMaker, capture: bool) -> None:
        self.run, self.clips, self.capture = run, clips, capture
        self.apply = speed.Step(run.apply, capture, warm_up=0)
        if run.device.type == "cuda":
            self.last = torch.cuda.Event(blocking=True)
        self.lessons: dict[str, Lesson] = {}
        self.size: tuple[int, ...] = ()

    def prepare(self, phase: Phase) -> None:
        """Make, compile and capture what a phase needs, unless the one before needed the same."""
        size = (phase.side, phase.scenes, phase.clips, phase.frames)
        if size == self.size:
            return
        start = time.time()
        self.size = size
        # Graphs hold on to their memory.
        self.lessons.clear()
        if self.run.device.type == "cuda":
            torch.cuda.empty_cache()
        self.lessons = self.lessons_of(phase)
        for lesson in self.lessons.values():
            lesson.warm_up()
        if self.run.team.rank == 0:
            print(f"ready for {phase.side} pixels in {time.time() - start:.0f} s", flush=True)

    def lessons_of(self, phase: Phase) -> dict[str, Lesson]:
        """Lessons on images, and on clips if there are any in a phase."""
        maker, side = self.clips.scenes, phase.side
        gen = maker.gen
        lessons = {
            "images": Lesson(
                self.run,
                lambda: maker.make(phase.scenes, side, stretched=True),
                lambda model, scenes: image_loss(model, scenes, gen),
                self.capture,
            )
        }
        if phase.clip_share > 0:
            lessons["clips"] = Lesson(
                self.run,
                lambda: self.clips.make(phase.clips, phase.frames, side, stretched=True),
                lambda model, clips: clip_loss(model, clips, gen),
                self.capture,
            )
        return lessons

    def steps(self, phase: Phase) -> None:
        """Train on one batch of images or clips."""
        self.prepare(phase)
        kind = "clips" if self.run.chance() < phase.clip_share else "images"
        self.lessons[kind].steps(self.apply)
        if self.run.device.type == "cuda":
            # The program stays at most one batch ahead of the device.
            self.last.synchronize()
            self.last.record()

    def report(self) -> None:
        """Print progress; this waits for the device."""
        if self.run.team.rank == 0:
            text = "; ".join(f"{v.count} {k} {v.line()}" for k, v in self.lessons.items())
            print(f"step {self.run.step} at {self.run.seconds:.0f} s: {text}", flush=True)


def arguments(plans: Sequence[str] = tuple(PLANS)) -> argparse.ArgumentParser:
    """The options of a stage; the first plan is the one to take where none is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="folder to write")
    parser.add_argument("--resume", type=Path, help="folder of the stage before")
    parser.add_argument("--new-clock", action="store_true", help="start the rate's schedule anew")
    parser.add_argument("--seconds", type=float, required=True, help="time of this stage")
    parser.add_argument("--total-seconds", type=float, required=True, help="time of all stages")
    parser.add_argument("--plan", choices=plans, default=plans[0])
    parser.add_argument("--rate", type=float, default=PEAK_RATE, help="highest learning rate")
    parser.add_argument("--shapes", type=int, default=12000)
    parser.add_argument("--pools", type=Path, help="folder to keep pools of shapes in, or to use")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", default="", help=f"comma-separated: {', '.join(speed.PARTS)}")
    parser.add_argument("--graphs", action="store_true", help="capture steps as CUDA graphs")
    parser.add_argument("--report", type=int, default=300, help="steps between lines of progress")
    return parser


def set_up(args: argparse.Namespace) -> None:
    """Set PyTorch up for fast steps."""
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    speed.switch_on(set(filter(None, args.compile.split(","))))
    torch.manual_seed(args.seed)


def carry_on(run: Run, args: argparse.Namespace) -> None:
    """Load what the stage before left, if there was one."""
    if args.resume:
        run.load(args.resume)
    if args.new_clock:
        run.seconds = 0.0


def prepare(args: argparse.Namespace) -> tuple[Run, SceneMaker]:
    """Set the process up, and make or load weights and pools."""
    set_up(args)
    run = Run(Sam2(NANO), args.rate, args.total_seconds, Team())
    carry_on(run, args)
    workers = max((os.cpu_count() or 1) // run.team.size, 1)
    seed = args.seed + 1000 * (run.step + 1) + run.team.rank
    pools = args.pools and args.pools / f"pools{run.team.rank}.pt"
    return run, make_scenes(run.device, seed, args.shapes, workers, pools)


def _phase(plan: tuple[Phase, ...], run: Run) -> Phase:
    return next(p for p in plan if run.seconds < p.until * run.total_seconds)


def train(stage: Stage, plan: tuple[Phase, ...], args: argparse.Namespace, entered: float) -> None:
    """Train for the time of one stage, which began when the process was entered."""
    run = stage.run
    stage.prepare(_phase(plan, run))
    lead = run.team.agree(time.time() - entered)
    before, reported, saved = run.seconds, run.step, lead
    while (now := run.team.agree(time.time() - entered)) < args.seconds:
        run.seconds = before + now - lead
        stage.steps(_phase(plan, run))
        if run.step - reported >= args.report:
            stage.report()
            reported = run.step
        if now - saved > SAVE_EVERY:
            run.save(args.output)
            saved = now
    stage.report()
    run.save(args.output)
    if run.device.type == "cuda" and run.team.rank == 0:
        peak = torch.cuda.max_memory_allocated() / 2**30
        print(f"{run.seconds:.0f} s trained, {time.time() - entered:.0f} s, {peak:.1f} GiB")


def main() -> None:
    """Run one stage."""
    args = arguments().parse_args()
    entered = time.time()
    run, maker = prepare(args)
    stage = Stage(run, ClipMaker(maker, LIVELY), args.graphs and run.device.type == "cuda")
    train(stage, PLANS[args.plan], args, entered)


if __name__ == "__main__":
    main()
