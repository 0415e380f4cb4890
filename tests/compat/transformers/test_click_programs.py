"""Programs of transformers' pages, cards and courses on clicks, beside it and by the drop-in."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

transformers = pytest.importorskip("transformers", minversion="5")
torch = pytest.importorskip("torch")

from PIL import Image  # noqa: E402
from sam_rlx.compat.transformers.refusals import WORDS, RefusedError  # noqa: E402
from support import concept_folders  # noqa: E402
from support import transformers_models as models  # noqa: E402
from support.cases import quick  # noqa: E402
from support.hugging_face_configs import family, side  # noqa: E402

FOLDER = Path(__file__).parents[3] / "benchmarks" / "programs" / "transformers"
pytestmark = [
    pytest.mark.parity,
    pytest.mark.source_tree,
    pytest.mark.filterwarnings("ignore:SamHQModel"),
]
# Small networks with random weights give masks all over the image, of scores around 0.
OPTIONS = {
    "pred_iou_thresh": -9.0,
    "stability_score_thresh": 0.3,
    "stability_score_offset": 0.1,
    "crops_nms_thresh": 1.0,
    "points_per_crop": 3,
}
FILES = {
    "sam": ("Sam", "SamHQ"),
    "clicks": ("Sam2", "EdgeTam", "Sam3Tracker"),
    "everything": ("Sam", "SamHQ", "Sam2", "EdgeTam", "Sam3Tracker"),
}
PROGRAMS = [(file, name) for file, names in FILES.items() for name in names]


@pytest.fixture(scope="module")
def run() -> Any:
    """The module that runs programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield importlib.import_module("four_ways")
    del sys.modules["four_ways"]


def processor_of(name: str) -> Any:
    """Return transformers' processor of a small model."""
    length, low = side(name), models.mask_side(name)
    square, small = ({"height": each, "width": each} for each in (length, low))
    if family(name) == "Sam" or name == "SamHQModel":
        images = transformers.SamImageProcessor(
            size={"longest_edge": length},
            pad_size=square,
            mask_size={"longest_edge": low},
            mask_pad_size=small,
        )
        return getattr(transformers, name.replace("Model", "Processor"))(images)
    kind = transformers.Sam3ImageProcessor if family(name) == "Sam3" else None
    images = (kind or transformers.Sam2ImageProcessor)(size=square, mask_size=small)
    whole = "Sam3TrackerProcessor" if family(name) == "Sam3" else "Sam2Processor"
    return getattr(transformers, whole)(images)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Make the job of a program with a family of models, with folders and images."""
    home = tmp_path_factory.mktemp("programs")
    images = []
    for index, pixels in enumerate(concept_folders.two_images()):
        images.append(str(home / f"{index}.png"))
        Image.fromarray(pixels).save(images[-1])

    def of(file: str, name: str, **more: Any) -> dict[str, Any]:
        folder = home / name
        if not folder.exists():
            models.save(f"{name}Model", folder)
            processor_of(f"{name}Model").save_pretrained(folder)
        found = {"file": file, "arguments": [name, str(folder)], "images": images, **more}
        if file == "everything":
            found["values"] = {"OPTIONS": OPTIONS}
        if (file, name) == ("sam", "SamHQ"):
            found["steps"] = ["one_click", "label_map", "only_token", "commonest"]
        return found

    return of


def alike(found: Any, expected: Any, name: str) -> None:
    """Hold masks to a thousandth of their positions, and numbers to a thousandth of the largest."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
    if found.dtype == bool:
        assert (found != expected).mean() < 1e-3, name
    else:
        scale = np.abs(expected.astype(np.float64)).max(initial=1e-6)
        assert np.abs(found.astype(np.float64) - expected).max(initial=0) < 1e-3 * scale, name


@pytest.mark.parametrize(("file", "name"), quick(PROGRAMS, 0, 2, 5))
def test_a_program_gives_what_transformers_gives(run: Any, job: Any, file: str, name: str):
    asked = job(file, name)
    expected, failed = run.results(asked)
    assert not failed
    found, failed = run.results(asked, run.CHANGED)
    assert not failed
    assert found.keys() == expected.keys()
    steps = {key.split(".")[2] for key in found if "." in key}
    assert steps == {step.__name__ for step in run.steps_of(run.load(file), asked)}
    for key in found.keys() - {"seconds"}:
        alike(found[key], expected[key], key)


WAYS = {
    "no changed line": (["-m", "sam_rlx.compat", "--with", "transformers"], []),
    "no PyTorch": ([], ["--without-torch"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_programs_run_in_processes_of_their_own(run: Any, job: Any, way: str, tmp_path: Path):
    """They give the bits that a changed import gives in this process, with PyTorch and without."""
    asked = [job("sam", "Sam"), job("clicks", "Sam2"), job("everything", "Sam")]
    (tmp_path / "jobs.json").write_text(json.dumps(asked), encoding="utf-8")
    before, after = WAYS[way]
    words = [*before, FOLDER / "four_ways.py", tmp_path / "jobs.json", tmp_path / "out.npz", *after]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as found:
        assert json.loads(str(found["failed"])) == {}
        expected: dict[str, Any] = {}
        for each in asked:
            expected |= run.results(each, run.CHANGED)[0]
        assert set(found.files) - {"failed"} == set(expected)
        for key in set(expected) - {"seconds"}:
            assert found[key].dtype == expected[key].dtype, key
            np.testing.assert_array_equal(found[key], expected[key], err_msg=key)


STOPS = {
    "page_on_masks": "SamModel.mask_decoder: " + WORDS["layers"],
    "own_data": "SamModel.mask_decoder: " + WORDS["layers"],
    "one_shot": WORDS["inner values"],
}


@pytest.mark.parametrize("step", STOPS)
def test_programs_that_train_stop_with_words(run: Any, job: Any, step: str):
    asked = job("training", "Sam", steps=[step])
    asked["arguments"] = asked["arguments"][1:]
    found, failed = run.results(asked)
    assert not failed
    assert np.isfinite(next(value for key, value in found.items() if key != "seconds")).all()
    found, failed = run.results(asked, run.CHANGED)
    (error,) = failed.values()
    assert error.startswith(f"{RefusedError.__name__}: ")
    assert error.endswith(STOPS[step])
    assert found.keys() == {"seconds"}
