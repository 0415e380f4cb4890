"""``sam-rlx track`` with texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from sam_rlx import io
from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx._internal.media.frames import ClipFrames

pytest.importorskip("support.upstream", reason="needs the reference packages")
concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
oracle = pytest.importorskip("support.upstream_sam3_masklets", reason="needs sam3")
upstream_video = pytest.importorskip("support.upstream_video")
pytestmark = pytest.mark.parity

THRESHOLD = 0.2
OPTIONS = {"score_threshold_detection": THRESHOLD, "new_det_thresh": THRESHOLD}
WORDS = ["--text", "person", "--text", "cat", "--threshold", str(THRESHOLD)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sam3") / "tiny.safetensors"
    return concepts.save(path, oracle.detector(6))


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clip") / "moving.mp4"
    with ClipWriter(path, 10) as writer:
        for frame in upstream_video.clip(18, (72, 96)):
            writer.add(frame)
    return path


@pytest.fixture
def run(
    checkpoint: Path, moving: Path, run_cli: Callable[..., tuple[int, str, str]]
) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: object, model: object = checkpoint) -> tuple[int, str, str]:
        chosen = [] if model is None else ["--model", model]
        return run_cli("track", moving, *arguments, "--threads", 1, *chosen)

    return run


def test_track(
    run: Callable[..., tuple[int, str, str]], checkpoint: Path, moving: Path, tmp_path: Path
) -> None:
    session = sam_rlx.VideoPredictor(sam_rlx.load_model(checkpoint), moving, text_options=OPTIONS)
    session.add_prompt(0, "click", point_coords=[[20, 28]], point_labels=[1])
    session.add_text("person").add_text("cat")
    expected = list(session.propagate())
    assert {p for frame in expected for p in frame.texts.values()} == {"person", "cat"}

    click = ["--object", "click", "--point", "20,28"]
    code, out, err = run(*click, *WORDS, "--output", tmp_path / "out")
    assert (code, err) == (0, "")
    assert "tracked 18 frames" in out
    document = json.loads((tmp_path / "out" / "masks.json").read_text())
    names = {entry["id"]: entry["name"] for entry in document["categories"]}
    assert list(names.values()) == ["object", "person", "cat"]
    found = iter(document["annotations"])
    for frame in expected:
        for obj_id, mask in frame.masks.items():
            entry = next(found)
            assert entry["object"] == str(obj_id)
            assert document["images"][entry["image_id"] - 1]["frame_index"] == frame.frame_index
            assert names[entry["category_id"]] == frame.texts.get(obj_id, "object")
            assert entry.get("text") == frame.texts.get(obj_id)
            score = entry["score" if obj_id in frame.texts else "object_score"]
            assert score == pytest.approx(frame.scores[obj_id])
            path = tmp_path / "out" / "masks" / f"{obj_id}_{frame.frame_index:05d}.png"
            assert np.array_equal(io.read_image(path)[..., 0] > 0, mask)
    assert next(found, None) is None
    drawn = ClipFrames(tmp_path / "out" / "overlay.mp4")
    assert drawn.count == 18
    assert not np.array_equal(drawn.read(9), ClipFrames(moving).read(9))


def test_a_part_on_stdout(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = run("--frame", 3, *WORDS, "--max-frames", 4, "--json", "-")
    assert code == 0
    document = json.loads(out)
    assert [entry["frame_index"] for entry in document["images"]] == [3, 4, 5, 6]
    assert document["annotations"]


def test_the_packaged_model(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = run("--text", "red circle", "--max-frames", 3, "--json", "-", model=None)
    assert code == 0
    found = json.loads(out)["annotations"]
    assert [entry["image_id"] for entry in found] == [1, 2, 3]  # the disc, not the square
    assert {entry["object"] for entry in found} == {"0"}


def test_what_is_refused(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    for words, model, text in (
        (["--threshold", "2", "--text", "cat"], "sam3-nano", "expected 0 to 1"),
        (["--text", "cat"], "sam2-nano", "--text: expected a checkpoint of SAM 3"),
        ([], "sam3-nano", "--mask or --text"),
    ):
        code, _, err = run(*words, "--output", tmp_path / "a.mp4", model=model)
        assert code == 2
        assert text in err
