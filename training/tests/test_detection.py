"""Texts mean what they say, matching is one to one, and a detector's step trains all of it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

from training import shapes
from training.detection import goals, match
from training.evaluate_sam3 import average_precision, figures, judge
from training.runs import Run
from training.sam3 import NANO, Found, Sam3
from training.scenes import SceneMaker
from training.tests.test_steps import NeverWaits
from training.texts import (
    ANY,
    COLOURS,
    END,
    FAMILIES,
    NOUNS,
    SIZES,
    START,
    SURFACES,
    VISUAL,
    WORDS,
    TextMaker,
    boxes_of,
    surfaces,
)  # fmt: skip
from training.train_sam3 import text_loss

SMALL = dataclasses.replace(
    NANO,
    img_size=112,
    pretrain_img_size=112,
    embed_dim=32,
    depth=2,
    num_heads=2,
    window_size=4,
    global_att_blocks=(1,),
    d_model=32,
    text_width=16,
    nheads=2,
    dim_feedforward=32,
    encoder_layers=1,
    decoder_layers=2,
    num_queries=12,
)


@pytest.fixture
def maker() -> TextMaker:
    """Scenes of all named families; discs stand in for them."""
    line = torch.linspace(-1, 1, 128)
    away = (line[:, None] ** 2 + line**2).sqrt()
    fields = (0.8 - away).half().expand(len(FAMILIES), -1, -1).contiguous()
    kinds = torch.tensor([shapes.family_number(f) for f in FAMILIES])
    scenes = SceneMaker(fields, kinds, surfaces(torch.device("cpu"), 0, 2), 0)
    return TextMaker(scenes, kinds, 2)


def test_texts_are_words_in_order(maker: TextMaker) -> None:
    """Tokens are start, at most an article, attributes in their order, a noun, and the end."""
    ids = maker.make(4, 112, 8).ids.flatten(0, 1)
    words = {number: word for word, number in WORDS.items()}
    alone = [START, VISUAL, END]
    order = [{"a"}, {*SIZES, "big", "little"}, {*COLOURS, "grey"}, {*SURFACES, "dotted"}]
    for row in ids.tolist():
        length = row.index(END)
        if row[: length + 1] == alone:
            continue
        assert row[0] == START
        assert not any(row[length + 1 :])
        said = [words[n] for n in row[1:length]]
        positions = [next((i for i, group in enumerate(order) if w in group), 4) for w in said]
        assert positions == sorted(set(positions))
        assert positions[-1] == 4


def test_about_half_of_the_texts_mean_nothing(maker: TextMaker) -> None:
    """Present and absent texts are balanced, and several objects can be meant."""
    meant = torch.cat([maker.make(8, 56, 16).meant for _ in range(4)])
    share = float(meant.any(2).float().mean())
    assert 0.35 < share < 0.7
    assert (meant.sum(2) > 1).any()


def test_meant_objects_have_the_attributes(maker: TextMaker) -> None:
    """A text means exactly the visible objects with all that it names."""
    layout = maker.draw.make(3, 56)
    _, attributes = maker.paint_plan(layout)
    gen = torch.Generator().manual_seed(5)
    seen = torch.rand(attributes.shape[:2], generator=gen) < 0.5
    wanted = maker.texts(attributes, seen, 10)
    assert ((wanted == ANY) | (wanted >= 0)).all()
    limits = torch.tensor([len(SIZES), len(COLOURS), len(SURFACES), len(NOUNS)])
    assert (wanted < limits).all()


def test_matching_is_one_to_one_and_nearly_the_best() -> None:
    """Each object gets a query of its own, at a cost close to the best assignment's."""
    gen = torch.Generator().manual_seed(6)
    cost = torch.randn(16, 20, 6, generator=gen)
    there = torch.rand(16, 6, generator=gen) < 0.7
    chosen = match(cost, there)
    ratio = []
    for c, t, q in zip(cost.numpy(), there.numpy(), chosen.numpy(), strict=True):
        number = np.flatnonzero(t)
        assert len(set(q[number])) == len(number)
        if len(number):
            best = linear_sum_assignment(c[:, number])
            ratio.append(c[q[number], number].sum() / c[:, number][best].sum())
    assert np.mean(ratio) > 0.9


def test_goals_are_the_meant_objects(maker: TextMaker) -> None:
    """Masks and boxes of goals are those of the objects in the image."""
    batch = maker.make(2, 112, 4)
    goal = goals(batch, 112)
    for b in range(2):
        for p in range(4):
            row = b * 4 + p
            wanted = [batch.owner[b] == k + 1 for k in batch.meant[b, p].nonzero()[:, 0].tolist()]
            assert int(goal.there[row].sum()) == len(wanted)
            for k, mask in enumerate(wanted):
                assert torch.equal(goal.masks[row, k], mask)
    mask = torch.zeros(1, 1, 10, 10, dtype=torch.bool)
    mask[..., 2:4, 5:10] = True
    torch.testing.assert_close(boxes_of(mask)[0, 0], torch.tensor([0.75, 0.3, 0.5, 0.2]))


def test_a_step_trains_the_detector_without_waiting(maker: TextMaker) -> None:
    """Gradients reach every weight but those of points, and losses fall."""
    torch.manual_seed(0)
    run = Run(Sam3(SMALL), 3e-3, 100)
    batch = maker.make(1, SMALL.img_size, 4)
    losses = []
    for step in range(8):
        loss, figures = text_loss(run.model, batch)
        if step == 0:
            with NeverWaits():
                maker.make(1, SMALL.img_size, 4)
                loss, figures = text_loss(run.model, batch)
        run.update(loss)
        run.started = -1000
        losses.append(float(loss.detach()))
    assert figures.shape == (1, 3)
    assert losses[-1] < 0.9 * losses[0]
    unused = {n for n, used in run.flat.views(run.used).items() if not used.any()}
    silent = ("points_", "text_projection")
    idle = ("vision_backbone.convs.3", "conv_layers.2", "norms.2")
    assert all(any(part in n for part in (*silent, *idle)) for n in unused), unused
    assert sum(p.numel() for p in Sam3(NANO).parameters()) * 2 < 14e6


def test_perfect_answers_have_perfect_figures(maker: TextMaker) -> None:
    """The figures of the truth are 1, those of silence 0, and texts without objects count."""
    batch = maker.make(4, 96, 4)
    side = 24
    goal = goals(batch, side)
    there = goal.there.any(1, keepdim=True).float()
    cells = goal.masks.flatten(2).float() * 2 - 1

    def answer(score: torch.Tensor) -> Found:
        presence = there * 20 - 10
        pixels = torch.eye(side**2).reshape(1, -1, side, side)
        return Found([score], [goal.boxes], [presence], cells, pixels, presence)

    loud = answer(torch.where(goal.there, 10.0, -10.0))
    assert all(v > 0.99 for v in figures(judge(loud, batch)).values())
    quiet = figures(judge(answer(torch.full(goal.there.shape, -10.0)), batch))
    assert quiet["F1 at score 0.5"] == 0
    assert quiet["absent texts left empty"] == 1
    scores, right = np.array([0.9, 0.8, 0.7]), np.array([True, False, True])
    assert average_precision(scores, right, 4) == pytest.approx((1 + 2 / 3) / 4)
