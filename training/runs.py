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
AVERAGE = 0.9993
BETAS = (0.9, 0.99)
TINY = 1e-8
ALIGNED = 64
TABLES = (
    "pos_embed", "rel_pos", "_token", "embed.weight", "_embedding", "tpos_enc", "no_mem", "no_obj",
    "reference_points",
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

    def mean(self, flat: Tensor) -> None:
        """Replace a tensor by its mean over all processes."""
        if self.size > 1:
            dist.all_reduce(flat)
            flat /= self.size

    def agree(self, value: float) -> float:
        """Return the first process's value."""
        if self.size > 1:
            shared = torch.tensor(value, dtype=torch.float64)
            dist.broadcast(shared, 0)
            value = float(shared)
        return value


class Flat:
    """One long tensor with a piece for each parameter, each at an aligned position."""

    def __init__(self, params: dict[str, nn.Parameter], device: torch.device) -> None:
        self.shapes = {name: p.shape for name, p in params.items()}
        self.starts: dict[str, int] = {}
        length = 0
        for name, p in params.items():
            self.starts[name] = length
            length += -(-p.numel() // ALIGNED) * ALIGNED
        self.length, self.device = length, device

    def new(self) -> Tensor:
        """A tensor of zeros for all parameters."""
        return torch.zeros(self.length, device=self.device)

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The pieces of `flat` with the shapes of the parameters."""
        return {
            name: flat[start : start + self.shapes[name].numel()].view(self.shapes[name])
            for name, start in self.starts.items()
        }


class Run:
    """Model, optimiser (AdamW), averaged weights and clock.

    All weights are pieces of one tensor, and so are gradients, moments and averages: an update is
    a dozen operations, and one all-reduce. Nothing of it makes the program wait for the device,
    so `backward` and `apply` can be captured as graphs.

    Parameters
    ----------
    model : nn.Module
        A model with a `config`; weights that ask for no gradients stay as they are.
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
        self.params = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        self.flat = Flat(self.params, self.device)
        self.weights, self.grads, self.used = (self.flat.new() for _ in range(3))
        self.exp_avg, self.exp_avg_sq, self.count = (self.flat.new() for _ in range(3))
        self.decay = self.flat.new()
        decay = self.flat.views(self.decay)
        for name, piece in self.flat.views(self.weights).items():
            piece.copy_(self.params[name].detach())
            self.params[name].data = piece
            if piece.ndim >= 2 and not _is_table(name):
                decay[name].fill_(WEIGHT_DECAY)
        self.average = self.weights.clone()
        self.lr, self.keep = (torch.zeros((), device=self.device) for _ in range(2))
        self.step, self.seconds, self.started = 0, 0.0, 0
        self._chance = random.Random(0)

    def chance(self) -> float:
        """A uniform number in 0..1, the same in all processes, without the device."""
        return self._chance.random()

    def rate(self) -> float:
        """Learning rate: linear warm-up by steps of this stage, a cosine over the seconds."""
        done = min(self.seconds / self.total_seconds, 1.0)
        cosine = 0.01 + 0.99 * (0.5 + 0.5 * math.cos(math.pi * done))
        return self.peak_rate * cosine * min(1.0, (self.step - self.started + 1) / WARM_UP_STEPS)

    def backward(self, loss: Tensor) -> None:
        """Write the gradients of `loss`, and which weights it depends on, into flat tensors."""
        params = list(self.params.values())
        grads = torch.autograd.grad(loss, params, allow_unused=True)
        into, used = (list(self.flat.views(f).values()) for f in (self.grads, self.used))
        there = [i for i, g in enumerate(grads) if g is not None]
        self.grads.zero_()
        self.used.zero_()
        torch._foreach_copy_([into[i] for i in there], [grads[i] for i in there])
        torch._foreach_add_([used[i] for i in there], 1.0)

    def tell(self) -> None:
        """Hand the learning rate and the pace of the average to the device; count the step."""
        self.lr.fill_(self.rate())
        self.step += 1
        self.keep.fill_(min(AVERAGE, (self.step + 1) / (self.step + 10)))

    @torch.no_grad()
    def apply(self) -> None:
        """One step of AdamW and of the averaged weights, where the gradients are finite.

        Weights that the loss did not depend on stay as they are, with their moments.
        """
        norm = self.grads.norm()
        fine = norm.isfinite()
        grads = torch.where(fine, self.grads, 0) * (CLIP / (norm + 1e-6)).clamp(max=1).nan_to_num()
        used = self.used * fine
        self.count += used
        self.exp_avg.lerp_(grads, (1 - BETAS[0]) * used)
        self.exp_avg_sq.lerp_(grads.square(), (1 - BETAS[1]) * used)
        # Where nothing was counted yet, `used` is 0 as well.
        count = self.count.clamp(min=1)
        mean = self.exp_avg / (1 - torch.pow(BETAS[0], count))
        size = (self.exp_avg_sq / (1 - torch.pow(BETAS[1], count))).sqrt()
        change = mean / (size + TINY) + self.decay * self.weights
        self.weights -= self.lr * used * change
        self.average.lerp_(self.weights, 1 - self.keep)

    def update(self, loss: Tensor) -> None:
        """One optimiser step and one step of the averaged weights."""
        self.backward(loss)
        self.team.mean(self.grads)
        self.tell()
        self.apply()

    def averaged(self) -> dict[str, Tensor]:
        """The state of the model with averaged weights."""
        return {**self.model.state_dict(), **self.flat.views(self.average)}

    def save(self, folder: Path) -> None:
        """Write averaged weights, and everything that a next stage needs, in small files."""
        if self.team.rank > 0:
            return
        folder.mkdir(parents=True, exist_ok=True)
        export.save(self.averaged(), self.model.config, folder / "average.safetensors")
        raw = {k: v.half() for k, v in self.model.state_dict().items()}
        torch.save({"weights": raw, "step": self.step, "seconds": self.seconds}, folder / "raw.pt")
        counted = self.flat.views(self.count)
        for key in ("exp_avg", "exp_avg_sq"):
            pieces = self.flat.views(getattr(self, key)).items()
            moments = {n: m.bfloat16() for n, m in pieces if counted[n].any()}
            torch.save(moments, folder / f"{key}.pt")

    def load(self, folder: Path) -> None:
        """Carry on from what `save` wrote; without `exp_avg.pt` the momentum starts anew."""
        raw = torch.load(folder / "raw.pt", map_location=self.device)
        self.model.load_state_dict({k: v.float() for k, v in raw["weights"].items()})
        self.step, self.seconds = raw["step"], raw["seconds"]
        self.started = self.step
        self._chance = random.Random(self.step)
        average = export.load(folder / "average.safetensors").state_dict()
        for name, piece in self.flat.views(self.average).items():
            piece.copy_(average[name])
        counts = self.flat.views(self.count)
        for key in ("exp_avg", "exp_avg_sq"):
            if not (folder / f"{key}.pt").exists():
                continue
            pieces = self.flat.views(getattr(self, key))
            moments = torch.load(folder / f"{key}.pt", map_location=self.device)
            for name, moment in moments.items():
                pieces[name].copy_(moment)
                counts[name].fill_(self.step)


def _is_table(name: str) -> bool:
    """Tables of positions and tokens are not decayed."""
    return any(word in name for word in TABLES)
