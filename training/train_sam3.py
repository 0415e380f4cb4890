"""Train `sam3-nano` in resumable stages on generated scenes with texts."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
from torch import Tensor

from training import speed
from training.detection import detection_loss, goals
from training.runs import Run, Team
from training.sam3 import NANO, Found, Sam3
from training.texts import Named, TextMaker, text_maker
from training.train_sam2 import Lesson, set_up

PEAK_RATE = 8e-4
TEXTS = 4
SAVE_EVERY = 100


@speed.compiled("encoder")
def find(model: Sam3, pixels: Tensor, ids: Tensor, boxes: Tensor, labels: Tensor) -> Found:
    """Answer texts and examples about images (B, 3, S, S) in 0..255."""
    return model(pixels / 127.5 - 1, ids, boxes, labels)


def text_loss(model: Sam3, batch: Named) -> tuple[Tensor, Tensor]:
    """The loss of one batch, and figures to print."""
    with torch.autocast(batch.pixels.device.type, torch.bfloat16):
        asked = (x.flatten(0, 1) for x in (batch.ids, batch.boxes, batch.labels))
        found = find(model, batch.pixels, *asked)
    return detection_loss(found, goals(batch, found.pixels.shape[-1]))


def lesson_of(run: Run, maker: TextMaker, batch: int, capture: bool) -> Lesson:
    """Scenes with texts, and the training step on them."""
    side = run.model.config.img_size
    return Lesson(run, lambda: maker.make(batch, side, TEXTS), text_loss, capture)


def main() -> None:
    """Run one stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="folder to write")
    parser.add_argument("--resume", type=Path, help="folder of the stage before")
    parser.add_argument("--seconds", type=float, required=True, help="time of this stage")
    parser.add_argument("--total-seconds", type=float, required=True, help="time of all stages")
    parser.add_argument("--batch", type=int, default=32, help="images a step and process")
    parser.add_argument("--shapes", type=int, default=12000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", default="", help=f"comma-separated: {', '.join(speed.PARTS)}")
    parser.add_argument("--graphs", action="store_true", help="capture steps as CUDA graphs")
    parser.add_argument("--report", type=int, default=300, help="steps between lines of progress")
    args = parser.parse_args()

    entered = time.time()
    set_up(args)
    run = Run(Sam3(NANO), PEAK_RATE, args.total_seconds, Team())
    if args.resume:
        run.load(args.resume)
    cuda, team = run.device.type == "cuda", run.team
    seed = args.seed + 1000 * (run.step + 1) + team.rank
    workers = max((os.cpu_count() or 1) // team.size, 1)
    maker = text_maker(run.device, seed, args.shapes, 400, workers)
    lesson = lesson_of(run, maker, args.batch, args.graphs and cuda)
    apply = speed.Step(run.apply, args.graphs and cuda, warm_up=0)
    lesson.warm_up()
    lead = team.agree(time.time() - entered)
    before, reported, saved = run.seconds, run.step, lead
    while (now := team.agree(time.time() - entered)) < args.seconds:
        run.seconds = before + now - lead
        lesson.steps(apply)
        if cuda:
            torch.cuda.current_stream().synchronize()
        if run.step - reported >= args.report and team.rank == 0:
            print(f"step {run.step} at {run.seconds:.0f} s: {lesson.line()}", flush=True)
            reported = run.step
        if now - saved > SAVE_EVERY:
            run.save(args.output)
            saved = now
    run.save(args.output)
    if team.rank == 0:
        print(f"step {run.step}, {run.seconds:.0f} s trained: {lesson.line()}", flush=True)


if __name__ == "__main__":
    main()
