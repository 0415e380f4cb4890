"""``sam-rlx segment`` with texts and examples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import io
from sam_rlx.apps.cli import demo

pytest.importorskip("support.upstream", reason="needs the reference packages")
concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
pytestmark = pytest.mark.parity

WORDS = ["--text", "a cat", "--text", "cat 1", "--threshold", "0.4"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sam3") / "tiny.safetensors"
    return concepts.save(path, concepts.image_model())


@pytest.fixture
def run(checkpoint: Path, run_cli: Callable[..., tuple]) -> Callable[..., tuple]:
    def run(*arguments: object, model: Path = checkpoint) -> tuple[int, str, str]:
        return run_cli("segment", demo.IMAGE, *arguments, "--model", model, "--threads", 1)

    return run


def test_holes_and_islands_are_cleaned_as_in_python(
    run: Callable[..., tuple], checkpoint: Path, tmp_path: Path
) -> None:
    predictor = sam_rlx.ConceptPredictor(sam_rlx.load_model(checkpoint))
    predictor.set_image(io.read_image(demo.IMAGE))
    prompts = {"text": ["a cat", "cat 1"], "threshold": 0.4}
    cleaned = predictor.predict(**prompts, min_mask_region_area=2000).masks
    assert (cleaned != predictor.predict(**prompts).masks).any()
    npz = tmp_path / "found.npz"
    assert run(*WORDS, "--min-mask-region-area", 2000, "--npz", npz)[0] == 0
    with np.load(npz) as arrays:
        np.testing.assert_array_equal(arrays["masks"], cleaned)


def test_texts(run: Callable[..., tuple], checkpoint: Path, tmp_path: Path) -> None:
    found = sam_rlx.ConceptPredictor(sam_rlx.load_model(checkpoint)).predict(
        io.read_image(demo.IMAGE), text=["a cat", "cat 1"], threshold=0.4
    )
    count = len(found.scores)
    npz = tmp_path / "found.npz"
    code, out, err = run(*WORDS, "--output", tmp_path / "out", "--npz", npz)
    assert (code, err) == (0, "")
    assert f"found {np.count_nonzero(found.labels == 0)} of 'a cat'" in out
    document = json.loads((tmp_path / "out" / "masks.json").read_text())
    assert [entry["name"] for entry in document["categories"]] == ["a cat", "cat 1"]
    assert len(document["annotations"]) == count > 2
    for entry, label, score in zip(
        document["annotations"], found.labels, found.scores, strict=True
    ):
        assert entry["category_id"] == label + 1
        assert entry["text"] == found.texts[label]
        assert entry["score"] == pytest.approx(score)
    with np.load(npz) as arrays:
        np.testing.assert_array_equal(arrays["masks"], found.masks)
        np.testing.assert_array_equal(arrays["boxes_xyxy"], found.boxes)
        assert arrays["texts"].tolist() == ["a cat", "cat 1"]
    assert len(list((tmp_path / "out").glob("mask_*.png"))) == count
    with Image.open(tmp_path / "out" / "overlay.png") as overlay:
        assert np.asarray(overlay).shape == (*found.masks.shape[1:], 3)


@pytest.mark.parametrize("name", ["--image-size", "--side"])
def test_another_side(
    run: Callable[..., tuple], checkpoint: Path, tmp_path: Path, name: str
) -> None:
    npz = tmp_path / "found.npz"
    assert run(*WORDS, name, 168, "--npz", npz)[0] == 0
    predictor = sam_rlx.ConceptPredictor(sam_rlx.load_model(checkpoint, image_size=168))
    predictor.set_image(io.read_image(demo.IMAGE))
    expected = predictor.predict(text=["a cat", "cat 1"], threshold=0.4)
    with np.load(npz) as arrays:
        np.testing.assert_array_equal(arrays["masks"], expected.masks)
    code, _, told = run(*WORDS, name, 100, "--npz", npz)
    assert code == 1
    assert "image_size: expected a multiple of 14" in told


def test_examples(run: Callable[..., tuple], checkpoint: Path) -> None:
    boxes = ["--box", "10,20,200,200", "--box", "200,50,320,280"]
    labels = ["--box-label", "1", "--box-label", "0", "--threshold", "0.01"]
    point = ["--point", "30,40,0"]
    code, out, _ = run(*boxes, *labels, *point, "--json", "-")
    assert code == 0
    found = sam_rlx.ConceptPredictor(sam_rlx.load_model(checkpoint)).predict(
        io.read_image(demo.IMAGE),
        boxes=[[10, 20, 200, 200], [200, 50, 320, 280]],
        box_labels=[1, 0],
        point_coords=[[30, 40]],
        point_labels=[0],
        threshold=0.01,
    )
    document = json.loads(out)
    assert [entry["score"] for entry in document["annotations"]] == found.scores.tolist()
    assert [entry["name"] for entry in document["categories"]] == ["visual"]


def test_nothing_found(run: Callable[..., tuple], tmp_path: Path) -> None:
    image = tmp_path / "none.png"
    code, out, err = run("--text", "a cat", "--threshold", 1, "--output", image)
    assert code == 1
    assert "found 0 of 'a cat'" in out
    assert "nothing with a score above 1: a lower --threshold" in err
    assert image.exists()


def test_dry(run: Callable[..., tuple], tmp_path: Path) -> None:
    code, out, _ = run(*WORDS, "--output", tmp_path / "x.png", "--dry")
    assert code == 0
    assert "would use text" in out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text", "a", "--multimask"], "no --mask and --multimask"),
        (["--box", "1,2,30,40", "--box-label", 1, "--box-label", 0], "found 2 for 1"),
        (["--box", "1,2,30,40", "--box-label", 2], "invalid choice"),
        (["--text", "a", "--threshold", 2], "--threshold: expected 0 to 1, found 2"),
        ([], "--point, --box, --mask or --text"),
    ],
)
def test_wrong_usage(run: Callable[..., tuple], arguments: list, message: str) -> None:
    code, _, err = run(*arguments, "--json", "-")
    assert code == 2
    assert message in err


def test_another_model(run: Callable[..., tuple], tiny_checkpoint: Path) -> None:
    code, _, err = run("--text", "a cat", "--json", "-", model=tiny_checkpoint)
    assert code == 2
    assert "expected a checkpoint of SAM 3 as --model" in err
