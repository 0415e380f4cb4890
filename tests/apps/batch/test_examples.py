"""Files of examples: in batches, and in ``sam-rlx segment --examples``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx import batch, errors, io
from sam_rlx.apps.batch import examples
from support import batches

pytest.importorskip("pyarrow", reason="needs pyarrow")

BOXES = [[20, 30, 60, 75], [5, 6, 30, 20]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    batches.write_images(folder, 3)
    return folder


@pytest.fixture(scope="module")
def predictor() -> sam_rlx.ConceptPredictor:
    return sam_rlx.ConceptPredictor(sam_rlx.load_model("sam3-nano"), num_threads=1)


@pytest.fixture(scope="module")
def paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("image-*.png"))


def document(path: Path, images: list[Path], **changes: Any) -> Path:
    """Write a COCO document beside images: `BOXES` on the first, one box on each other."""
    annotations = []
    for number, boxes in enumerate([BOXES, *[BOXES[:1]] * (len(images) - 1)]):
        for x0, y0, x1, y1 in boxes:
            entry = {"image_id": number, "category_id": 7, "bbox": [x0, y0, x1 - x0, y1 - y0]}
            annotations.append({"id": len(annotations), **entry, **changes})
    entries = [{"id": number, "file_name": each.name} for number, each in enumerate(images)]
    path.write_text(json.dumps({"images": entries, "annotations": annotations}))
    return path


def test_a_document_and_saved_examples(
    folder: Path, paths: list[Path], predictor: sam_rlx.ConceptPredictor, tmp_path: Path
) -> None:
    by_hand = [
        predictor.encode_examples(io.read_image(paths[1]), BOXES),
        predictor.encode_examples(io.read_image(paths[2]), BOXES[:1]),
    ]
    given = document(folder / "coco.json", paths[1:])
    found = examples.encode(predictor, [given], positions=True)
    assert [each.tokens.tobytes() for each in found] == [each.tokens.tobytes() for each in by_hand]
    saved = tmp_path / "saved.safetensors"
    by_hand[1].save(saved)
    found = examples.encode(predictor, [saved, given], positions=False)
    assert found[0].tokens.tobytes() == by_hand[1].tokens.tobytes()
    assert found[1].tokens.tobytes() != by_hand[0].tokens.tobytes()
    assert len(found) == 3


def test_a_batch_is_its_single_calls(
    folder: Path, paths: list[Path], predictor: sam_rlx.ConceptPredictor, tmp_path: Path
) -> None:
    given = document(folder / "coco.json", paths[1:])
    shown = examples.encode(predictor, [given], positions=True)
    image = io.read_image(paths[0])
    for text, name in ((None, "visual"), ("circle", "circle")):
        out = tmp_path / name
        options: dict[str, Any] = {"text": text, "threshold": 0.01, "workers": 1}
        batch.run(paths[0], out, examples=given, **options)
        [row] = batches.rows(out)
        found = predictor.predict(image, text=text, examples=shown, threshold=0.01)
        assert [entry["object"] for entry in row["masks"]] == [name] * len(found.scores)
        assert [entry["score"] for entry in row["masks"]] == found.scores.tolist()
        assert len(found.scores) > 0
    # The same files are the same batch, wherever they are; others are another one.
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    again = [moved / "coco.json"]
    assert batch.run(paths[0], tmp_path / "circle", examples=again, **options).done_before == 1
    for changed in ({"examples": ()}, {"example_positions": False}):
        with pytest.raises(errors.StateError, match="expected the same"):
            batch.run(
                paths[0],
                tmp_path / "circle",
                **{"examples": given, **options, **changed},
            )


def test_the_command(
    folder: Path,
    paths: list[Path],
    predictor: sam_rlx.ConceptPredictor,
    run_cli: Callable[..., Any],
    tmp_path: Path,
) -> None:
    given = document(folder / "coco.json", paths[1:])
    words = ("segment", paths[0], "--examples", given, "--threshold", 0.01, "--threads", 1)
    npz = tmp_path / "found.npz"
    code, out, err = run_cli(*words, "--text", "circle", "--no-example-positions", "--npz", npz)
    assert (code, err) == (0, "")
    shown = examples.encode(predictor, [given], positions=False)
    found = predictor.predict(
        io.read_image(paths[0]), text="circle", examples=shown, threshold=0.01
    )
    assert f"found {len(found.scores)} of 'circle'" in out
    with np.load(npz) as arrays:
        np.testing.assert_array_equal(arrays["masks"], found.masks)
    code, out, _ = run_cli(*words, "--dry", "--output", tmp_path / "x.png")
    assert code == 0
    assert "would use examples" in out
    # Several images know what their results were made of.
    several = (*words[:1], *paths[:2], *words[2:], "--output", tmp_path / "out")
    assert run_cli(*several)[0] in (0, 1)
    code, _, told = run_cli(*several)
    assert code == 1
    assert "0 of 2 images done, 2 left" in told
    document(given, paths[2:])
    assert run_cli(*several)[0] == 2


REFUSED = {
    "several categories": ({}, "categories 1, 7"),
    "an empty box": ({"bbox": [5, 5, 0, 4]}, "width or height 0"),
    "no box": ({"bbox": None}, "expected a bbox"),
    "a box outside": ({"bbox": [5000, 5, 9, 9]}, "image-0001.png: boxes: expected"),
    "no image": ({}, "image-0001.png"),
    "another size": ({}, "expected 3 x 4 pixels"),
    "views": ({}, "found none"),
    "no annotations": ({}, "found none"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(
    folder: Path, paths: list[Path], predictor: sam_rlx.ConceptPredictor, tmp_path: Path, case: str
) -> None:
    changes, message = REFUSED[case]
    shutil.copy(paths[1], tmp_path / paths[1].name)
    given = document(tmp_path / "coco.json", paths[1:2], **changes)
    contents = json.loads(given.read_text())
    if case == "several categories":
        contents["annotations"][1]["category_id"] = 1
    if case == "no image":
        (tmp_path / paths[1].name).unlink()
    if case == "another size":
        contents["images"][0] |= {"width": 3, "height": 4}
    if case == "views":
        points = [{"name": "a", "x": 1, "y": 2}]
        contents = [{"view": paths[1].stem, "width": 9, "height": 9, "points": points}]
    if case == "no annotations":
        del contents["annotations"]
    given.write_text(json.dumps(contents))
    kind = FileNotFoundError if case == "no image" else errors.InvalidArgumentError
    with pytest.raises(kind, match=message):
        examples.encode(predictor, [given], positions=True)


def test_no_clips(folder: Path, paths: list[Path], clip: Path, tmp_path: Path) -> None:
    given = document(folder / "coco.json", paths[1:])
    with pytest.raises(errors.InvalidArgumentError, match="expected images alone, found the clip"):
        batch.run([clip], tmp_path / "out", examples=given)
