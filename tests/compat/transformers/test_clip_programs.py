"""The programs of transformers' pages on clips, run with transformers and with the drop-in."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

transformers = pytest.importorskip("transformers", reason="needs transformers")
pytestmark = pytest.mark.parity

from support import transformers_clips as clips  # noqa: E402
from support import upstream  # noqa: E402
from support.cases import quick  # noqa: E402

upstream.prepare()
PROGRAM = Path(__file__).parents[3] / "benchmarks" / "programs" / "transformers" / "clips.py"
STEPS = ("one_click", "refined", "boxed", "stream")


def program(import_line):
    """Return the program with another line for the import of transformers."""
    spec = importlib.util.spec_from_loader("clips_program", None)
    module = importlib.util.module_from_spec(spec)
    text = PROGRAM.read_text(encoding="utf-8")
    assert text.count("\nimport transformers\n") == 1
    exec(text.replace("import transformers", import_line), vars(module))
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folders with weights and settings of processors, by class."""
    made = {}

    def of(name):
        if name in made:
            return made[name]
        theirs = clips.theirs(name)
        made[name] = clips.save(theirs.model, tmp_path_factory.mktemp("programs") / name)
        side = theirs.model.config.image_size
        size, mask = {"height": side, "width": side}, {"height": side // 4, "width": side // 4}
        is_sam3 = name.startswith("Sam3")
        images = transformers.Sam3ImageProcessor if is_sam3 else transformers.Sam2ImageProcessor
        whole = (
            transformers.Sam3TrackerVideoProcessor if is_sam3 else transformers.Sam2VideoProcessor
        )
        whole(
            image_processor=images(size=size, mask_size=mask),
            video_processor=transformers.Sam2VideoVideoProcessor(size=size),
        ).save_pretrained(made[name])
        return made[name]

    return of


@pytest.mark.parametrize("name", quick(clips.CLASSES, 0))
@pytest.mark.parametrize("step", STEPS)
def test_a_program_gives_the_masks_of_transformers(folder, name, step):
    random = np.random.default_rng(5)
    scene = random.integers(0, 256, (75, 100, 3), np.uint8)
    frames = [np.roll(scene, 3 * index, 1) for index in range(5)]
    source = str(folder(name))
    both = [
        list(getattr(program(line), step)(name, source, frames))
        for line in ("import transformers", "import sam_rlx.compat.transformers as transformers")
    ]
    assert "torch" in sys.modules
    assert len(both[0]) == len(both[1]) > 4
    for expected, found in zip(*both, strict=True):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        exact, ours = np.asarray(expected), np.asarray(found)
        if exact.dtype != np.bool_:
            assert np.abs(exact - ours).max() < 1e-2 * np.ptp(exact)
            exact, ours = exact > 0, ours > 0
        # Two ways to memories in bfloat16.
        assert (exact == ours).mean() > 0.995
