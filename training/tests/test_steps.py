"""Training steps of SAM 2.1: what they train, that they never wait, that they compile."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from training import speed, train_sam2
from training.clips import LIVELY, ClipMaker, Clips, Liveliness
from training.images import image_loss
from training.losses import ABSENT_WEIGHT, PRESENCE_WEIGHT, tracked_loss
from training.prompts import choose_targets
from training.runs import CLIP, WEIGHT_DECAY, Run
from training.sam2 import Sam2
from training.tests.small_sam2 import CONFIG, SIDE, scene_maker
from training.tracks import clip_loss

WAITING = {
    "_local_scalar_dense", "nonzero", "bincount", "masked_select", "multinomial", "equal",
    "_unique2", "unique_consecutive", "lift_fresh", "item", "repeat_interleave",
}  # fmt: skip


class NeverWaits(TorchDispatchMode):
    """Refuse operations for which a GPU would have to hand a value to the program."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        assert name not in WAITING, name
        if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
            assert all(i is None or i.dtype != torch.bool for i in args[1]), "mask as index"
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    """Leave no part compiled."""
    yield
    speed.switch_on(set())


@pytest.fixture
def run() -> Run:
    """A run of the small model."""
    torch.manual_seed(0)
    return Run(Sam2(CONFIG), 1e-3, 100)


def clips(frames: int, seed: int = 0, life: Liveliness = LIVELY) -> tuple[Clips, torch.Generator]:
    """Two clips, and the generator that drew them."""
    maker = scene_maker(seed)
    return ClipMaker(maker, life).make(2, frames, SIDE, stretched=True), maker.gen


def test_images_train_all_but_the_memory(run: Run) -> None:
    """The gradients of an image step reach every weight outside the memory, and only those."""
    maker = scene_maker()
    loss, figures = image_loss(run.model, maker.make(2, SIDE, stretched=True), maker.gen)
    run.backward(loss)
    assert figures.shape == (3, 3)
    assert figures.isfinite().all()
    assert run.grads.isfinite().all()
    parts = ("image_encoder", "sam_prompt_encoder", "sam_mask_decoder", "no_mem_embed")
    for name, used in run.flat.views(run.used).items():
        assert bool(used.all()) == name.startswith(parts), name
        assert not used.any() or used.all()


def test_clips_train_everything(run: Run) -> None:
    """The gradients of a clip step reach every weight but the one that SAM 2.1 does not use."""
    batch, gen = clips(4)
    loss, figures = clip_loss(run.model, batch, gen)
    run.backward(loss)
    assert figures.shape == (4, 3)
    assert figures.isfinite().all()
    assert run.grads.isfinite().all()
    unused = {n for n, used in run.flat.views(run.used).items() if not used.any()}
    assert unused == {"no_mem_pos_enc"}
    still = {n for n, g in run.flat.views(run.grads).items() if not g.any()}
    # Nothing is missing yet where the model says that all objects are there, or that none is.
    assert still - unused <= {"no_obj_ptr", "no_obj_embed_spatial", "obj_ptr_proj"}


def test_no_part_of_a_step_waits_for_the_device(run: Run) -> None:
    """Scenes, clips, losses, gradients and updates can be captured as CUDA graphs."""
    maker = scene_maker()
    clip_maker = ClipMaker(maker, LIVELY)
    for _ in range(2):  # what is kept from the first time is no matter
        with NeverWaits():
            scenes = maker.make(2, SIDE, stretched=True)
            run.backward(image_loss(run.model, scenes, maker.gen)[0])
            run.apply()
            made = clip_maker.make(2, 3, SIDE, stretched=True)
            run.backward(clip_loss(run.model, made, maker.gen)[0])
            run.apply()


def test_waiting_is_noticed() -> None:
    """The test above can fail."""
    x = torch.randn(3)
    for act in (lambda: x.sum().item(), lambda: x[x > 0], lambda: torch.tensor([1.0])):
        with pytest.raises(AssertionError), NeverWaits():
            act()


@pytest.mark.slow
@pytest.mark.usefixtures("no_stand_in")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`:UserWarning")
@pytest.mark.parametrize("part", speed.PARTS)
def test_parts_compile_as_a_whole(run: Run, part: str) -> None:
    """Each part is traced without a break, and gives the same loss and gradients."""
    got = []
    for on in (set(), {part}):
        speed.switch_on(on, "aot_eager")
        maker = scene_maker()
        image, _ = image_loss(run.model, maker.make(1, SIDE, stretched=True), maker.gen)
        batch = ClipMaker(maker, LIVELY).make(1, 3, SIDE, stretched=True)
        clip, _ = clip_loss(run.model, batch, maker.gen)
        run.backward(image + clip)
        got.append((image + clip, run.grads.clone()))
    (loss, grads), (compiled_loss, compiled_grads) = got
    torch.testing.assert_close(compiled_loss, loss, rtol=2e-2, atol=1e-2)
    cosine = torch.cosine_similarity(grads, compiled_grads, 0)
    assert cosine > 0.98, cosine


def reference(run: Run) -> tuple[torch.optim.Optimizer, dict[str, Tensor]]:
    """PyTorch's AdamW over a copy of the weights."""
    copies = {n: p.detach().clone().requires_grad_() for n, p in run.params.items()}
    decay = run.flat.views(run.decay)
    groups = [{"params": [p], "weight_decay": float(decay[n].max())} for n, p in copies.items()]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99)), copies


def test_update_is_adamw(run: Run) -> None:
    """Weights follow PyTorch's AdamW with clipping, also those that only some steps train."""
    optimiser, copies = reference(run)
    gen = torch.Generator().manual_seed(0)
    for step in range(4):
        part = {n: p for i, (n, p) in enumerate(run.params.items()) if step % 2 or i % 3}
        factors = {n: torch.randn(p.shape, generator=gen) for n, p in part.items()}
        run.backward(sum((p * factors[n]).sum() for n, p in part.items()))
        run.tell()
        run.lr.fill_(1e-3)
        run.apply()
        optimiser.zero_grad()
        for n, factor in factors.items():
            copies[n].grad = factor
        torch.nn.utils.clip_grad_norm_(list(copies.values()), CLIP)
        optimiser.step()
    for name, p in run.params.items():
        torch.testing.assert_close(p.detach(), copies[name].detach(), rtol=1e-4, atol=2e-6)
    decayed = [n for n, d in run.flat.views(run.decay).items() if d.any()]
    assert "sam_mask_decoder.iou_token.weight" not in decayed
    assert "image_encoder.trunk.blocks.0.mlp.layers.0.weight" in decayed
    assert float(run.decay.max()) == pytest.approx(WEIGHT_DECAY)


def test_broken_gradients_change_nothing(run: Run) -> None:
    """A step whose loss is not finite is left out."""
    before = run.weights.clone()
    run.update(sum(p.sum() for p in run.params.values()) * float("nan"))
    assert torch.equal(run.weights, before)
    assert run.exp_avg_sq.isfinite().all()
    run.update(sum((p * 2).sum() for p in run.params.values()))
    assert run.weights.isfinite().all()
    assert not torch.equal(run.weights, before)


def test_saved_runs_carry_on(run: Run, tmp_path: Path) -> None:
    """Weights, averages, moments and clock come back; without momentum it starts anew."""
    for _ in range(3):
        run.update(sum((p * 2).square().sum() for p in run.params.values()))
    run.seconds = 12.5
    run.save(tmp_path)
    torch.manual_seed(1)
    again = Run(Sam2(CONFIG), 1e-3, 100)
    again.load(tmp_path)
    assert (again.step, again.seconds) == (3, 12.5)
    for name in ("weights", "average", "exp_avg", "exp_avg_sq"):
        torch.testing.assert_close(getattr(again, name), getattr(run, name), rtol=1e-2, atol=1e-3)
    (tmp_path / "exp_avg.pt").unlink()
    again = Run(Sam2(CONFIG), 1e-3, 100)
    again.load(tmp_path)
    assert not again.exp_avg.any()
    assert again.exp_avg_sq.any()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "average.safetensors", "exp_avg_sq.pt", "raw.pt"
    ]  # fmt: skip


def test_a_stage_learns(run: Run) -> None:
    """Images and clips in turn, through the program of a stage, lower the loss."""
    stage = train_sam2.Stage(run, ClipMaker(scene_maker(), LIVELY), capture=False)
    phase = train_sam2.Phase(1.0, SIDE, 2, 1, 3, 0.5)
    for _ in range(4):
        stage.steps(phase)
    assert run.step == 12
    assert all(v.count for v in stage.lessons.values())
    assert all("loss" in v.line() for v in stage.lessons.values())
    assert not torch.equal(run.average, run.weights)


def test_targets_are_drawn_as_multinomial_draws() -> None:
    """The held-out scenes are those of the first model cards."""
    for seed in range(50):
        scale = torch.rand(5, 34, generator=torch.Generator().manual_seed(seed))
        weight = torch.where(scale < 0.3, 1.0, 0.0) + 1e-6
        a, b = (torch.Generator().manual_seed(seed) for _ in range(2))
        wanted = torch.multinomial(weight, 6, replacement=True, generator=a)
        sums = (weight.cumsum(1) / weight.sum(1, keepdim=True))[:, None]
        drawn = torch.rand(5, 6, 1, generator=b, dtype=torch.float64)
        assert torch.equal((sums < drawn).sum(2), wanted)


def test_targets_lie_where_their_masks_say() -> None:
    """Targets are whole objects or parts seen in their scene."""
    maker = scene_maker(2)
    scenes = maker.make(4, SIDE, stretched=True)
    targets = choose_targets(scenes, 6, maker.gen)
    assert targets.mask.flatten(1).any(1).all()
    for n in range(24):
        numbers = scenes.part if targets.is_part[n] else scenes.owner
        seen = numbers[n // 6, ::2, ::2] == targets.number[n]
        assert int(targets.scene[n]) == n // 6
        assert torch.equal(targets.mask[n], seen)


def test_missing_objects_weigh_more() -> None:
    """A wrong object score counts more where the object is away, and nothing where it peeps."""
    logits, scores = torch.zeros(1, 4, 8, 8), torch.zeros(1, 4)
    presence = torch.full((1, 1), 2.0)

    def score(area: int, sign: float) -> float:
        goal = torch.zeros(1, 8, 8)
        both = [
            float(tracked_loss(logits, scores, s * presence, goal, torch.tensor([area])).total)
            for s in (sign, 0.0)
        ]
        return both[0] - both[1]

    middle, worst = 0.6931, 2.1269
    assert score(0, 1) == pytest.approx(
        PRESENCE_WEIGHT * ABSENT_WEIGHT * (worst - middle), abs=1e-3
    )
    assert score(400, -1) == pytest.approx(PRESENCE_WEIGHT * (worst - middle), abs=1e-3)
    assert score(3, 1) == pytest.approx(0)


def test_lively_clips_hide_more() -> None:
    """Training clips show more frames without an object that was seen first."""

    def missing(life: Liveliness) -> float:
        maker = scene_maker(4)
        made = ClipMaker(maker, life).make(10, 6, 32, stretched=True)
        first = made.frame(0)
        seen = torch.stack([(made.owner == k).flatten(2).any(2) for k in range(1, 11)], 1)
        assert (first.owner >= 0).all()
        return float((~seen & seen[:, :, :1]).float().sum() / seen[:, :, :1].sum())

    assert missing(LIVELY) > 1.3 * missing(dataclasses.replace(LIVELY, hidden=0.0, leaving=0.0))
