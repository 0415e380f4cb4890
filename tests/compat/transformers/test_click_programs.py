"""The programs of transformers' pages on clicks: with transformers, with ours, without PyTorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.cases import quick

pytest.importorskip("transformers", reason="needs transformers")
pytestmark = pytest.mark.parity

from sam_rlx.compat import transformers as ours  # noqa: E402
from support import transformers_models, upstream  # noqa: E402
from support.hugging_face_configs import side  # noqa: E402

upstream.prepare()
PROGRAM = Path(__file__).parents[3] / "benchmarks" / "programs" / "transformers" / "clicks.py"
ALL = ("one_click", "one_box", "several_objects", "batch", "label_maps", "detected_boxes")
STEPS = {
    "SamModel": (*ALL, "embeddings_once", "image_processor_alone", "server", "everything"),
    "SamHQModel": (*ALL, "image_processor_alone"),
    "Sam2Model": (*ALL, "embeddings_once", "ragged_batch", "earlier_mask", "server", "everything"),
    "Sam3TrackerModel": (*ALL, "embeddings_once", "ragged_batch", "earlier_mask", "server"),
}
PROCESSORS = {
    "SamModel": ("SamProcessor", "SamImageProcessor"),
    "SamHQModel": ("SamHQProcessor", "SamImageProcessor"),
    "Sam2Model": ("Sam2Processor", "Sam2ImageProcessor"),
    "Sam3TrackerModel": ("Sam3TrackerProcessor", "Sam3ImageProcessor"),
}
QUICK = [("SamModel", "server"), ("Sam2Model", "earlier_mask"), ("SamModel", "everything")]
CASES = [(name, step) for name, steps in STEPS.items() for step in steps]


def program(import_line: str) -> ModuleType:
    """Return the program with another line for the import of transformers."""
    text = PROGRAM.read_text(encoding="utf-8")
    assert text.count("\nimport transformers\n") == 1
    module = ModuleType("clicks_program")
    exec(text.replace("\nimport transformers\n", f"\n{import_line}\n"), vars(module))
    return module


def images() -> list[Image.Image]:
    random = np.random.default_rng(4)
    return [
        Image.fromarray(random.integers(0, 256, (*hw, 3), dtype=np.uint8))
        for hw in ((75, 100), (90, 64))
    ]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return the folder of a tiny model and its processor, by class."""
    made: dict[str, Path] = {}

    def of(name: str) -> str:
        if name not in made:
            made[name] = transformers_models.save(name, tmp_path_factory.mktemp("clicks") / name)
            length = side(name)
            size, mask = {"height": length, "width": length}, length // 4
            whole, part = (getattr(ours, each) for each in PROCESSORS[name])
            if name in ("SamModel", "SamHQModel"):
                images_ = part(
                    size={"longest_edge": length},
                    pad_size=size,
                    mask_size={"longest_edge": mask},
                    mask_pad_size={"height": mask, "width": mask},
                )
            else:
                images_ = part(size=size, mask_size={"height": mask, "width": mask})
            whole(images_).save_pretrained(made[name])
        return str(made[name])

    return of


def check(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected) > 0
    for mine, theirs in zip(map(np.asarray, found), map(np.asarray, expected), strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        if mine.dtype == np.bool_:
            assert (mine != theirs).mean() < 1e-3
        else:
            span = max(float(np.ptp(theirs)), 1.0)
            assert np.abs(mine - theirs).max() <= 1e-3 * span


@pytest.mark.parametrize(("name", "step"), quick(CASES, *map(CASES.index, QUICK)))
def test_a_step_gives_what_transformers_gives(folders, name, step):
    folder = folders(name)
    expected = list(getattr(program("import transformers"), step)(folder, images()))
    line = "from sam_rlx.compat import transformers"
    check(list(getattr(program(line), step)(folder, images())), expected)


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import numpy as np
from PIL import Image
from types import ModuleType

text = open(sys.argv[1], encoding="utf-8").read()
module = ModuleType("clicks_program")
line = "\\nfrom sam_rlx.compat import transformers\\n"
exec(text.replace("\\nimport transformers\\n", line), vars(module))
images = [Image.open(name) for name in sys.argv[4:6]]
found = {}
for step in sys.argv[6:]:
    for i, value in enumerate(getattr(module, step)(sys.argv[2], images)):
        found[f"{step} {i:02}"] = np.asarray(value)
np.savez(sys.argv[3], **found)
"""


@pytest.mark.parametrize("name", STEPS)
def test_steps_without_pytorch(folders, tmp_path, name):
    """The program's lines for PyTorch are not there; an import of it would fail."""
    files = []
    for i, image in enumerate(images()):
        files.append(str(tmp_path / f"{i}.png"))
        image.save(files[-1])
    steps = [step for step in STEPS[name] if step != "everything"]
    results = tmp_path / "results.npz"
    arguments = [str(PROGRAM), folders(name), str(results), *files, *steps]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with np.load(results) as found:
        for step in steps:
            expected = list(getattr(program("import transformers"), step)(folders(name), images()))
            check([found[key] for key in sorted(found) if key.split()[0] == step], expected)
