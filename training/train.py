"""Train `sam-nano` in resumable stages on generated scenes."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch

from training import losses, prompts, shapes, textures
from training.model import NANO, Sam
from training.runs import Run, Team
from training.scenes import SceneMaker, Scenes

PEAK_RATE = 8e-4
TARGETS_PER_SCENE = 6
ROUNDS = 3
WITHOUT_MASK = 0.2
SAVE_EVERY = 100
STEPS_PER_SCENES = 2


def train_step(run: Run, scenes: Scenes, gen: torch.Generator) -> list[losses.RoundLoss]:
    """Choose targets, prompt for each of them three times, and update the weights."""
    model = run.model
    targets = prompts.choose_targets(scenes, TARGETS_PER_SCENE, gen)
    coords, labels, alone, position = prompts.first_prompts(targets, gen)
    other = prompts.other_reading(scenes, targets, position)
    other = torch.where(alone[:, None, None], other, targets.mask)
    rounds: list[losses.RoundLoss] = []
    mask = None
    with torch.autocast(run.device.type, torch.bfloat16):
        embedding = model.image_encoder(model.normalise(scenes.pixels, scenes.valid))
        embedding = embedding[targets.scene]
    while True:
        with torch.autocast(run.device.type, torch.bfloat16):
            logits, scores = model.decode(embedding, coords, labels, mask)
        logits, scores = logits.float(), scores.float()
        rounds.append(losses.round_loss(logits, scores, targets.mask, other, alone))
        if len(rounds) == ROUNDS:
            break
        with torch.no_grad():
            lead = torch.where(alone, scores[:, 1:].argmax(1) + 1, 0)
            mask = logits.detach()[torch.arange(len(lead), device=lead.device), lead][:, None]
            click, label = prompts.correction(targets.mask, mask[:, 0] > 0, gen)
        coords, labels = torch.cat([coords, click], 1), torch.cat([labels, label], 1)
        mask = None if run.chance() < WITHOUT_MASK else mask
        alone, other = torch.zeros_like(alone), targets.mask
    run.update(sum(r.total for r in rounds))
    return rounds


def make_scenes(
    device: torch.device,
    seed: int,
    count: int,
    workers: int | None = None,
    kept: Path | None = None,
) -> SceneMaker:
    """Make pools of shapes and textures, or load those kept in a file, and a scene maker."""
    start = time.time()
    if kept and kept.exists():
        pools = torch.load(kept, mmap=True)
    else:
        fields, kinds = shapes.make_pool(count, seed, workers or os.cpu_count() or 1)
        maker = textures.TextureMaker(device, seed, textures.TRAINING_PHOTOS)
        pool = maker.pool(count // 4).cpu()
        pools = {"fields": torch.from_numpy(fields), "kinds": torch.from_numpy(kinds)}
        pools["textures"] = pool
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            torch.save(pools, kept)
    fields, pool = pools["fields"].to(device), pools["textures"].to(device)
    print(
        f"pools: {len(fields)} shapes, {len(pool)} textures, {time.time() - start:.0f} s",
        flush=True,
    )
    return SceneMaker(fields, pools["kinds"], pool, seed)


def report(run: Run, rounds: list[losses.RoundLoss], started: float) -> None:
    """Print one line of progress."""
    lines = [f"{r.chosen_iou:.3f}/{r.best_iou:.3f}/{r.iou_error:.3f}" for r in rounds]
    print(
        f"step {run.step} at {run.seconds:.0f} s ({time.time() - started:.0f} s here): "
        f"loss {sum(r.total.item() for r in rounds):.3f} chosen/best/error {' '.join(lines)}",
        flush=True,
    )


def main() -> None:
    """Run one stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="folder to write")
    parser.add_argument("--resume", type=Path, help="folder of the stage before")
    parser.add_argument("--seconds", type=float, required=True, help="training time of this stage")
    parser.add_argument("--total-seconds", type=float, required=True, help="time of all stages")
    parser.add_argument("--small-seconds", type=float, default=150, help="time on small images")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--shapes", type=int, default=12000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="compile encoder and decoder")
    args = parser.parse_args()

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.manual_seed(args.seed)
    run = Run(Sam(NANO), PEAK_RATE, args.total_seconds, Team())
    device = run.device
    if args.resume:
        run.load(args.resume)
    maker = make_scenes(device, args.seed + 1000 * (run.step + 1), args.shapes)
    started, saved = time.time(), time.time()
    before, compiled = run.seconds, False
    while time.time() - started < args.seconds:
        run.seconds = before + time.time() - started
        small = run.seconds < args.small_seconds
        batch, side = (args.batch * 2, NANO.img_size // 2) if small else (args.batch, NANO.img_size)
        if args.compile and not small and not compiled:
            run.model.image_encoder.compile(dynamic=False)
            run.model.mask_decoder.compile(dynamic=False)
            compiled = True
        scenes = maker.make(batch, side)
        for _ in range(STEPS_PER_SCENES):
            rounds = train_step(run, scenes, maker.gen)
        if run.step % 200 == 0 or run.step in (2, 20):
            report(run, rounds, started)
        if time.time() - saved > SAVE_EVERY:
            run.save(args.output)
            saved = time.time()
    run.seconds = before + time.time() - started
    run.save(args.output)
    report(run, rounds, started)
    if device.type == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB", flush=True)


if __name__ == "__main__":
    main()
