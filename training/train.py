"""Train `sam-nano` in resumable stages on generated scenes."""

from __future__ import annotations

import argparse
import math
import os
import random
import time
from pathlib import Path

import torch
from torch import Tensor

from training import export, losses, prompts, shapes, textures
from training.model import NANO, Sam
from training.scenes import SceneMaker, Scenes

PEAK_RATE = 8e-4
WEIGHT_DECAY = 0.05
WARM_UP_STEPS = 300
CLIP = 1.0
AVERAGE = 0.999
TARGETS_PER_SCENE = 6
ROUNDS = 3
WITHOUT_MASK = 0.2
SAVE_EVERY = 100
STEPS_PER_SCENES = 2


class Run:
    """Model, optimiser, averaged weights and clock of one training run."""

    def __init__(self, device: torch.device, total_seconds: float) -> None:
        self.device = device
        self.total_seconds = total_seconds
        self.model = Sam(NANO).to(device)
        self.average = {k: v.clone() for k, v in self.model.state_dict().items()}
        names = [n for n, _ in self.model.named_parameters()]
        params = dict(self.model.named_parameters())
        decayed = [n for n in names if params[n].ndim >= 2 and not _is_table(n)]
        plain = [n for n in names if n not in set(decayed)]
        self.order = decayed + plain
        groups = [
            {"params": [params[n] for n in decayed], "weight_decay": WEIGHT_DECAY},
            {"params": [params[n] for n in plain], "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.99), fused=True)
        self.step, self.seconds = 0, 0.0
        self._chance = random.Random(0)

    def chance(self) -> float:
        """A uniform number in 0..1 that needs no transfer from the device."""
        return self._chance.random()

    def rate(self) -> float:
        """Learning rate: linear warm-up by steps, then a cosine over the planned seconds."""
        done = min(self.seconds / self.total_seconds, 1.0)
        cosine = 0.01 + 0.99 * (0.5 + 0.5 * math.cos(math.pi * done))
        return PEAK_RATE * cosine * min(1.0, (self.step + 1) / WARM_UP_STEPS)

    def update(self, loss: Tensor) -> None:
        """One optimiser step and one step of the averaged weights."""
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate()
        self.optimiser.step()
        self.step += 1
        keep = min(AVERAGE, (self.step + 1) / (self.step + 10))
        state = self.model.state_dict()
        torch._foreach_lerp_(list(self.average.values()), list(state.values()), 1 - keep)

    def save(self, folder: Path) -> None:
        """Write averaged weights, and everything that a next stage needs, in small files."""
        folder.mkdir(parents=True, exist_ok=True)
        export.save(self.average, NANO, folder / "average.safetensors")
        raw = {k: v.half() for k, v in self.model.state_dict().items()}
        torch.save({"weights": raw, "step": self.step, "seconds": self.seconds}, folder / "raw.pt")
        states = self.optimiser.state
        params = dict(self.model.named_parameters())
        for key in ("exp_avg", "exp_avg_sq"):
            moments = {n: states[params[n]][key].bfloat16() for n in self.order}
            torch.save(moments, folder / f"{key}.pt")

    def load(self, folder: Path) -> None:
        """Carry on from what `save` wrote."""
        raw = torch.load(folder / "raw.pt", map_location=self.device)
        self.model.load_state_dict({k: v.float() for k, v in raw["weights"].items()})
        self.step, self.seconds = raw["step"], raw["seconds"]
        average = export.load(folder / "average.safetensors").state_dict()
        self.average = {k: v.to(self.device) for k, v in average.items()}
        params = dict(self.model.named_parameters())
        for key in ("exp_avg", "exp_avg_sq"):
            moments = torch.load(folder / f"{key}.pt", map_location=self.device)
            for name, value in moments.items():
                state = self.optimiser.state[params[name]]
                state[key] = value.float()
                state["step"] = torch.tensor(float(self.step), device=self.device)


def _is_table(name: str) -> bool:
    """Tables of positions and tokens are not decayed."""
    words = ("pos_embed", "rel_pos", "_token", "embed.weight", "_embeddings")
    return any(word in name for word in words)


def train_step(run: Run, scenes: Scenes, gen: torch.Generator) -> list[losses.RoundLoss]:
    """Choose targets, prompt for each of them three times, and update the weights."""
    model = run.model
    targets = prompts.choose_targets(scenes, TARGETS_PER_SCENE, gen)
    coords, labels, alone, place = prompts.first_prompts(targets, gen)
    other = prompts.other_reading(scenes, targets, place)
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


def make_scenes(device: torch.device, seed: int, count: int) -> SceneMaker:
    """Make the pools of shapes and textures and a scene maker on them."""
    start = time.time()
    fields, kinds = shapes.make_pool(count, seed, os.cpu_count() or 1)
    maker = textures.TextureMaker(device, seed, textures.TRAINING_PHOTOS)
    pool = maker.pool(count // 4)
    print(f"pools: {count} shapes, {len(pool)} textures, {time.time() - start:.0f} s", flush=True)
    return SceneMaker(torch.from_numpy(fields).to(device), torch.from_numpy(kinds), pool, seed)


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
    parser.add_argument("--small-seconds", type=float, default=150, help="time on small pictures")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--shapes", type=int, default=12000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="compile encoder and decoder")
    args = parser.parse_args()

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(args.seed)
    run = Run(device, args.total_seconds)
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
