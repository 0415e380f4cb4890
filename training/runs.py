"""A training run: model, optimiser, averaged weights and clock, on one device or several."""

from __future__ import annotations

import math
import os
import random
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from training import export

WEIGHT_DECAY = 0.05
WARM_UP_STEPS = 300
CLIP = 1.0
AVERAGE = 0.999
TABLES = (
    "pos_embed", "rel_pos", "_token", "embed.weight", "_embeddings", "tpos_enc", "no_mem", "no_obj",
)  # fmt: skip


class Team:
    """The processes that train together, one per device; started by `torchrun`, or just one."""

    def __init__(self) -> None:
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        if torch.cuda.is_available():
            torch.cuda.set_device(self.rank)
            self.device = torch.device("cuda", self.rank)
        else:
            self.device = torch.device("cpu")
        if self.size > 1:
            dist.init_process_group("cpu:gloo,cuda:nccl")

    def mean(self, tensors: list[Tensor]) -> None:
        """Replace tensors by their mean over all processes."""
        if self.size > 1:
            flat = torch.cat([t.flatten() for t in tensors])
            dist.all_reduce(flat, dist.ReduceOp.AVG)
            parts = flat.split([t.numel() for t in tensors])
            torch._foreach_copy_(
                tensors, [p.view_as(t) for p, t in zip(parts, tensors, strict=True)]
            )

    def agree(self, value: float) -> float:
        """Return the first process's value."""
        if self.size > 1:
            shared = torch.tensor(value, dtype=torch.float64)
            dist.broadcast(shared, 0)
            value = float(shared)
        return value


class Run:
    """Model, optimiser, averaged weights and clock.

    Parameters
    ----------
    model : nn.Module
        A model with a `config`.
    peak_rate : float
        Highest learning rate.
    total_seconds : float
        Training time of all stages.
    team : Team, optional
        The processes that train together.
    """

    def __init__(
        self, model: nn.Module, peak_rate: float, total_seconds: float, team: Team | None = None
    ) -> None:
        self.team = team or Team()
        self.device = self.team.device
        self.peak_rate, self.total_seconds = peak_rate, total_seconds
        self.model = model.to(self.device)
        self.average = {k: v.clone() for k, v in self.model.state_dict().items()}
        self.params = dict(self.model.named_parameters())
        decayed = [n for n, p in self.params.items() if p.ndim >= 2 and not _is_table(n)]
        plain = [n for n in self.params if n not in set(decayed)]
        groups = [
            {"params": [self.params[n] for n in decayed], "weight_decay": WEIGHT_DECAY},
            {"params": [self.params[n] for n in plain], "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=peak_rate, betas=(0.9, 0.99), fused=True)
        self.step, self.seconds = 0, 0.0
        self._chance = random.Random(0)

    def chance(self) -> float:
        """A uniform number in 0..1, the same in all processes, without the device."""
        return self._chance.random()

    def rate(self) -> float:
        """Learning rate: linear warm-up by steps, then a cosine over the planned seconds."""
        done = min(self.seconds / self.total_seconds, 1.0)
        cosine = 0.01 + 0.99 * (0.5 + 0.5 * math.cos(math.pi * done))
        return self.peak_rate * cosine * min(1.0, (self.step + 1) / WARM_UP_STEPS)

    def update(self, loss: Tensor) -> None:
        """One optimiser step and one step of the averaged weights."""
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.team.mean([p.grad for p in self.params.values() if p.grad is not None])
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
        if self.team.rank > 0:
            return
        folder.mkdir(parents=True, exist_ok=True)
        export.save(self.average, self.model.config, folder / "average.safetensors")
        raw = {k: v.half() for k, v in self.model.state_dict().items()}
        torch.save({"weights": raw, "step": self.step, "seconds": self.seconds}, folder / "raw.pt")
        states = self.optimiser.state
        for key in ("exp_avg", "exp_avg_sq"):
            moments = {n: states[p][key].bfloat16() for n, p in self.params.items() if p in states}
            torch.save(moments, folder / f"{key}.pt")

    def load(self, folder: Path) -> None:
        """Carry on from what `save` wrote; without `exp_avg.pt` the momentum starts anew."""
        raw = torch.load(folder / "raw.pt", map_location=self.device)
        self.model.load_state_dict({k: v.float() for k, v in raw["weights"].items()})
        self.step, self.seconds = raw["step"], raw["seconds"]
        self._chance = random.Random(self.step)
        average = export.load(folder / "average.safetensors").state_dict()
        self.average = {k: v.to(self.device) for k, v in average.items()}
        squares = torch.load(folder / "exp_avg_sq.pt", map_location=self.device)
        means: dict[str, Tensor] = {}
        if (folder / "exp_avg.pt").exists():
            means = torch.load(folder / "exp_avg.pt", map_location=self.device)
        for name, square in squares.items():
            state = self.optimiser.state[self.params[name]]
            state["exp_avg_sq"] = square.float()
            mean = means.get(name)
            state["exp_avg"] = torch.zeros_like(square.float()) if mean is None else mean.float()
            state["step"] = torch.tensor(float(self.step), device=self.device)


def _is_table(name: str) -> bool:
    """Tables of positions and tokens are not decayed."""
    return any(word in name for word in TABLES)
