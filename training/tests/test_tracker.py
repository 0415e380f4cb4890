"""SAM 3's tracker learns on a detector that stays as it is, and stages of it carry on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from training import export, speed
from training.clips import LIVELY
from training.evaluate_sam3_clips import judge, named_clips, said, texts_of
from training.images import image_loss
from training.named_clips import NamedClips
from training.prompts import rough_masks
from training.runs import Run
from training.sam3 import NANO, TRACKING, Sam3, Sam3Video, on_detector
from training.tests.test_detection import SMALL as DETECTOR
from training.tests.test_detection import maker as maker  # a fixture
from training.tests.test_steps import NeverWaits
from training.texts import ANY, TextMaker
from training.tracks import Habits, clip_loss
from training.train_sam2 import Phase
from training.train_sam3_tracker import HABITS, NamedStage

SMALL = dataclasses.replace(
    DETECTOR,
    scale_factors=(4.0, 2.0, 1.0),
    scalp=0,
    upsampling_stages=2,
    mem_dim=16,
    memory_feedforward=32,
    decoder_mlp_dim=32,
    iou_head_hidden_dim=32,
)
SIDE = 16 * SMALL.grid


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    """Leave no part compiled."""
    yield
    speed.switch_on(set())


@pytest.fixture
def run() -> Run:
    """A run of the small model."""
    torch.manual_seed(0)
    return Run(on_detector(SMALL, Sam3(DETECTOR)), 1e-3, 100)


def test_the_detector_is_kept_and_the_neck_copied() -> None:
    """A tracker's neck begins as the detector's, and what nothing reads is left out."""
    torch.manual_seed(0)
    detector = Sam3(DETECTOR)
    state = on_detector(SMALL, detector).state_dict()
    name = "backbone.vision_backbone."
    for key, value in detector.state_dict().items():
        if f"detector.{key}" in state:
            assert torch.equal(state[f"detector.{key}"], value)
        else:
            assert any(part in key for part in ("convs.3", "conv_layers.2", "norms.2")), key
    for key, value in state.items():
        if "sam2_convs" in key:
            assert torch.equal(value, state[key.replace("sam2_convs", "convs")])
    assert f"detector.{name}sam2_convs.0.conv_3x3.weight" in state
    assert "tracker.sam_mask_decoder.transformer.layers.0.mlp.lin1.weight" in state


def test_the_released_size_fits(tmp_path: Path) -> None:
    """Detector and tracker together are 16 MB at most."""
    model = on_detector(TRACKING, Sam3(NANO))
    export.save(model.state_dict(), TRACKING, tmp_path / "nano.safetensors")
    assert (tmp_path / "nano.safetensors").stat().st_size <= 16_000_000


def test_steps_train_the_tracker_alone_without_waiting(run: Run, maker: TextMaker) -> None:
    """Images and clips give gradients to all of the tracker and its neck, and to nothing else."""
    clips = NamedClips(maker, LIVELY)
    gen = maker.scenes.gen
    with NeverWaits():
        scenes = clips.images(1, SIDE)
        image, seen = image_loss(run.model.tracker, scenes, gen)
        made = clips.make(1, 3, SIDE)
        clip, followed = clip_loss(run.model.tracker, made, gen, HABITS)
        run.backward(image + clip)
        run.apply()
    assert made.pixels.shape == (1, 3, 3, SIDE, SIDE)
    assert seen.isfinite().all()
    assert followed.shape == (4, 3)
    assert run.grads.isfinite().all()
    assert all(n.startswith("tracker.") or "sam2_convs" in n for n in run.params)
    unused = {n for n, used in run.flat.views(run.used).items() if not used.any()}
    assert unused == {"tracker.no_mem_pos_enc"}


@pytest.mark.slow
@pytest.mark.usefixtures("no_stand_in")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`:UserWarning")
@pytest.mark.parametrize("part", speed.PARTS)
def test_parts_compile_as_a_whole(run: Run, maker: TextMaker, part: str) -> None:
    """Each part is traced without a break, and gives about the same loss."""
    clips = NamedClips(maker, LIVELY)
    scenes, made = clips.images(1, SIDE), clips.make(1, 3, SIDE)
    got = []
    for on in (set(), {part}):
        speed.switch_on(on, "aot_eager")
        gen = torch.Generator().manual_seed(5)
        image, _ = image_loss(run.model.tracker, scenes, gen)
        clip, _ = clip_loss(run.model.tracker, made, gen, HABITS)
        run.backward(image + clip)
        got.append((image + clip, run.grads.clone()))
    torch.testing.assert_close(got[0][0], got[1][0], rtol=2e-2, atol=1e-2)
    assert torch.cosine_similarity(got[0][1], got[1][1], 0) > 0.98


def test_a_stage_learns_and_carries_on(run: Run, maker: TextMaker, tmp_path: Path) -> None:
    """A stage trains, and what it leaves gives the same detector and the trained tracker."""
    frozen = {k: v.clone() for k, v in run.model.detector.state_dict().items()}
    stage = NamedStage(run, NamedClips(maker, LIVELY), capture=False)
    for _ in range(2):
        stage.steps(Phase(9.99, SIDE, 1, 1, 3, 0.5))
    assert run.step == 6
    run.save(tmp_path)
    again = Run(Sam3Video(SMALL), 1e-3, 100)
    again.load(tmp_path)
    for name in ("weights", "average", "exp_avg"):
        torch.testing.assert_close(getattr(again, name), getattr(run, name), rtol=1e-2, atol=1e-3)
    for name, value in again.model.detector.state_dict().items():
        if "sam2_convs" not in name:
            torch.testing.assert_close(value, frozen[name], rtol=1e-3, atol=1e-3)
    assert not torch.equal(run.average, run.weights)


def test_rough_masks_are_near_and_never_empty() -> None:
    """Rough masks cover nearly what the masks do, also where these are thin."""
    gen = torch.Generator().manual_seed(0)
    mask = torch.zeros(3, 128, 128, dtype=torch.bool)
    mask[0, 30:90, 40:100] = True
    mask[1, 20:100, 60:63] = True
    mask[2, 50:58, 70:78] = True
    for _ in range(5):
        rough = rough_masks(mask, gen)
        both, either = (rough & mask).sum((1, 2)), (rough | mask).sum((1, 2))
        assert (both / either)[0] > 0.75
        assert both.all()
        assert not torch.equal(rough, mask)


def test_habits_choose_the_masks(run: Run, maker: TextMaker) -> None:
    """Clips are prompted with masks as rough as the habits say."""
    from training.tracks import Tracker

    made = NamedClips(maker, LIVELY).make(1, 2, SIDE)
    for rough in (0.0, 1.0):
        tracker = Tracker(run.model.tracker, made, maker.scenes.gen, Habits(1.0, rough))
        exact = made.first_masks(tracker.targets)[:, None].float()
        assert torch.equal(tracker.given_masks(), exact) == (rough == 0)


def test_texts_of_clips_mean_what_is_there(maker: TextMaker) -> None:
    """Texts mean objects that are seen at first, the absent one none; the truth is perfect."""
    clips = named_clips(NamedClips(maker), 3, 4)
    asked = 0
    for clip in clips:
        usual, absent = texts_of(clip)
        for wanted in usual:
            meant = clip.meant(wanted)
            assert meant
            assert clip.seen()[meant].all()
            assert set(said(maker, wanted).split())
            found = [{7: clip.masks[meant[0], t]} for t in range(4)]
            assert all(min(v) == 1 for v in judge(found, clip.masks[meant[0]]).values() if v)
            silent = judge([{}] * 4, clip.masks[meant[0]])
            assert silent == {"found on the first frame": [0.0]}
            asked += 1
        assert absent is None or (not clip.meant(absent) and (absent != ANY).sum() == 2)
    assert asked
