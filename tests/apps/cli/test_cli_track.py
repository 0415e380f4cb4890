"""``sam-rlx track``: a file for each object and frame, prompts, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import io, viz
from sam_rlx._internal.media.frames import ClipFrames
from sam_rlx.apps.cli import track_outputs

POINT = ["--point", "20,18"]


@pytest.fixture
def run(
    sam2_checkpoint: Path,
    clip: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_cli: Callable[..., tuple[int, str, str]],
) -> Callable[..., tuple[int, str, str]]:
    """Track on two frames of a clip, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object, video: Path = clip) -> tuple[int, str, str]:
        model = ["--model", sam2_checkpoint, "--threads", 1, "--max-frames", 2]
        return run_cli("track", video, *words, *model)

    return run


def test_each_object_has_files_of_its_own(run: Callable[..., tuple], tmp_path: Path) -> None:
    names = ["a b", "a/b", "a_b", "a%20b", "ab", "..", "猫", "x" * 300, "x" * 299 + "y"]
    words: list[str] = []
    for index, name in enumerate(names):
        words += ["--object", name, "--point", f"{10 + index},18"]
    code, _, err = run(*words, "--output", tmp_path / "out")
    assert code == 0, err
    document = json.loads((tmp_path / "out" / "masks.json").read_text())
    assert [entry["object"] for entry in document["annotations"]] == names * 2
    files = list((tmp_path / "out" / "masks").iterdir())
    assert len(files) == 2 * len(names)
    for entry in document["annotations"]:
        frame = document["images"][entry["image_id"] - 1]["frame_index"]
        path = (
            tmp_path
            / "out"
            / "masks"
            / f"{track_outputs.file_name(entry['object'])}_{frame:05d}.png"
        )
        assert (io.read_image(path)[..., 0] > 0).sum() == entry["area"]


def test_names_of_files_differ_as_objects_do() -> None:
    assert track_outputs.file_name("cat") == "cat"
    assert track_outputs.file_name("a b") == "a%20b"
    assert track_outputs.file_name(".a") == "%2Ea"
    long = [track_outputs.file_name("é" * 200 + end) for end in ("", "a", "b")]
    assert len(set(long)) == 3
    assert max(len(name.encode()) for name in long) < 200


def test_overlays_name_the_objects(
    run: Callable[..., tuple], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caption for each object that a name was given; none for the only one without."""
    drawn: list[object] = []
    overlay = viz.overlay

    def spy(*args: object, **kwargs: object) -> np.ndarray:
        drawn.append(kwargs["captions"])
        return overlay(*args, **kwargs)

    monkeypatch.setattr(viz, "overlay", spy)
    assert run("--object", "cat", *POINT, "--object", "狗", *POINT, "--output", "a.mp4")[0] == 0
    assert drawn == [["cat", "狗"]] * 2
    assert run(*POINT, "--output", "a.mp4")[0] == 0
    assert drawn[2:] == [None, None]


def test_a_number_of_a_text_is_not_an_object_of_the_user() -> None:
    names = track_outputs.Names(["1", "cat"])
    assert [names.of(obj) for obj in ("1", "cat", 0, 1, 2, 1)] == [
        "1",
        "cat",
        "0",
        "1-2",
        "2",
        "1-2",
    ]


def test_masks_of_an_earlier_run_go(run: Callable[..., tuple], tmp_path: Path) -> None:
    masks = tmp_path / "out" / "masks"
    assert run("--object", "cat", *POINT, "--output", "out")[0] == 0
    Image.fromarray(np.zeros((9, 9), np.uint8)).save(masks / "mine_00000.png")
    code, out, _ = run("--object", "dog", *POINT, "--output", "out")
    assert code == 0
    assert "removed 2 masks of an earlier run" in out
    assert sorted(path.name for path in masks.iterdir()) == [
        "dog_00000.png",
        "dog_00001.png",
        "mine_00000.png",
    ]
    # A folder of --masks may hold other objects: those stay.
    assert run("--object", "cat", *POINT, "--masks", masks)[0] == 0
    assert run("--object", "cat", *POINT, "--masks", masks, "--frame", "1")[0] == 0
    names = sorted(path.name for path in masks.glob("[cd]*"))
    assert names == ["cat_00001.png", "cat_00002.png", "dog_00000.png", "dog_00001.png"]


def test_inputs_are_never_replaced(run: Callable[..., tuple], clip: Path, tmp_path: Path) -> None:
    video = tmp_path / "clip.mp4"
    video.write_bytes(clip.read_bytes())
    frames = tmp_path / "frames"
    for index in range(3):
        io.write_image(frames / f"f_{index:05d}.png", np.full((48, 64, 3), 9 * index, np.uint8))
    before = {path.name: path.read_bytes() for path in frames.iterdir()}
    for source, words in (
        (video, ["--output", "clip.mp4"]),
        (video, ["--json", "clip.mp4"]),
        (frames, ["--masks", "frames"]),
    ):
        code, _, err = run(*POINT, *words, video=source)
        assert code == 2
        assert "than the input" in err
    assert video.read_bytes() == clip.read_bytes()
    assert {path.name: path.read_bytes() for path in frames.iterdir()} == before


def test_masks_are_images_or_logits(run: Callable[..., tuple], clip: Path) -> None:
    mask = np.zeros(ClipFrames(clip).read(0).shape[:2], bool)
    mask[8:28, 10:28] = True
    io.write_image("mask.png", mask)
    np.save("mask.npy", mask)
    np.save("logits.npy", np.where(mask, 3.0, -3.0).astype(np.float32))
    np.savez("found.npz", masks=np.stack([~mask, mask]), iou_predictions=np.array([0.1, 0.9]))
    found = {}
    for name in ("mask.png", "mask.npy", "logits.npy", "found.npz"):
        code, out, err = run("--mask", name, "--json", "-")
        assert code == 0, err
        found[name] = json.loads(out)["annotations"]
    assert all(entry == found["mask.png"] for entry in found.values())
    assert found["mask.png"][0]["area"] > 0


def test_low_resolution_logits_are_a_mask(
    run: Callable[..., tuple], sam2_model: sam_rlx.Model, clip: Path
) -> None:
    side = sam2_model.mask_side
    logits = np.full((side, side), -5, np.float32)
    logits[: side // 2] = 5
    np.save("half.npy", logits)
    half = np.zeros(ClipFrames(clip).read(0).shape[:2], bool)
    half[: half.shape[0] // 2] = True
    io.write_image("half.png", half)
    found = [run("--mask", name, "--json", "-") for name in ("half.npy", "half.png")]
    assert [code for code, _, _ in found] == [0, 0]
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--point", "500,18"], 2, "--point: expected pixels of"),
        (["--point", "5,5", "--frame", "2", "--point", "3,900"], 2, "--point: expected pixels of"),
        (["--box", "500,18,600,40"], 2, "--box: expected a part of"),
        ([*POINT, "--frame", "99"], 2, "--frame: expected 0 to 11, found 99"),
    ],
)
def test_prompts_outside_are_refused(
    run: Callable[..., tuple], tmp_path: Path, words: list[str], code: int, text: str
) -> None:
    found, _, err = run(*words, "--output", "out")
    assert found == code
    assert text in err
    assert not (tmp_path / "out").exists()


def test_frames_of_a_folder_give_results_their_names(
    run: Callable[..., tuple], tmp_path: Path
) -> None:
    """Shots that begin at 1001 and have gaps: each mask belongs to the frame of its name."""
    frames = tmp_path / "frames"
    for number in (1001, 1003, 1010):
        io.write_image(frames / f"shot_{number}.png", np.full((48, 64, 3), 9, np.uint8))
    (frames / "notes.txt").write_text("x")
    code, _, err = run(*POINT, "--object", "a_b", "--output", "out", video=frames)
    assert code == 0
    assert "3 frames, point of 'a_b', " in err
    assert "passed over: 1 file of another kind (notes.txt)" in err
    document = json.loads((tmp_path / "out" / "masks.json").read_text())
    assert [image["file_name"] for image in document["images"]] == [
        "shot_1001.png",
        "shot_1003.png",
    ]
    written = sorted(path.name for path in (tmp_path / "out" / "masks").iterdir())
    assert written == ["a_b_shot_1001.png", "a_b_shot_1003.png"]
    # A second run with fewer frames takes the masks of the first one away.
    assert run(*POINT, "--object", "a_b", "--output", "out", "--frame", 2, video=frames)[0] == 0
    written = sorted(path.name for path in (tmp_path / "out" / "masks").iterdir())
    assert written == ["a_b_shot_1010.png"]


@pytest.mark.parametrize("words", [["--output", "o.mp4", "--json", "o.mp4"], ["--json", "o.png"],
                                   ["--masks", "m.png"]])  # fmt: skip
def test_names_of_other_kinds_of_files(
    run: Callable[..., tuple], tmp_path: Path, words: list[str]
) -> None:
    assert run(*POINT, *words)[0] == 2
    assert not list(tmp_path.iterdir())


def test_holes_and_islands_are_cleaned_as_in_python(
    run: Callable[..., tuple], sam2_checkpoint: Path, clip: Path, tmp_path: Path
) -> None:
    assert run(*POINT, "--masks", tmp_path / "found", "--min-mask-region-area", 200)[0] == 0

    def frames(area: int) -> list[np.ndarray]:
        model = sam_rlx.load_model(sam2_checkpoint)
        video = sam_rlx.VideoPredictor(model, clip, min_mask_region_area=area)
        video.add_prompt(0, "1", point_coords=[[20, 18]], point_labels=[1])
        return [result.masks["1"] for result in video.propagate(max_frames=2)]

    cleaned = frames(200)
    assert any((a != b).any() for a, b in zip(cleaned, frames(0), strict=True))
    for mask, path in zip(cleaned, sorted((tmp_path / "found").iterdir()), strict=True):
        np.testing.assert_array_equal(io.read_image(path)[..., 0] > 0, mask)


def test_a_rule_of_memory_as_in_python(
    run: Callable[..., tuple], sam2_checkpoint: Path, clip: Path, tmp_path: Path
) -> None:
    words = [*POINT, "--masks", tmp_path / "found"]
    assert run(*words, "--memory-rule", "dam4sam")[0] == 0
    video = sam_rlx.VideoPredictor(sam_rlx.load_model(sam2_checkpoint), clip, memory_rule="dam4sam")
    video.add_prompt(0, "1", point_coords=[[20, 18]], point_labels=[1])
    files = sorted((tmp_path / "found").iterdir())
    for frame, path in zip(video.propagate(max_frames=2), files, strict=True):
        np.testing.assert_array_equal(io.read_image(path)[..., 0] > 0, frame.masks["1"])
    assert run(*words, "--memory-rule", "other")[0] == 2


def test_mattes_and_polygons(run: Callable[..., tuple], tmp_path: Path) -> None:
    words = ["--object", "a", *POINT, "--object", "b", *POINT, "--mattes", tmp_path / "mattes"]
    code, _, err = run(*words, "--json", tmp_path / "a.json", "--json-polygons")
    assert code == 0, err
    document = json.loads((tmp_path / "a.json").read_text())
    assert all(isinstance(entry["segmentation"], list) for entry in document["annotations"])
    tracks = {entry["object"]: entry["track_id"] for entry in document["annotations"]}
    assert tracks == {"a": 1, "b": 2}
    for name in "ab":
        files = sorted((tmp_path / "mattes" / name).iterdir())
        assert [path.name for path in files] == ["000000.png", "000001.png"]
        areas = [int((io.read_image(path)[..., 0] > 0).sum()) for path in files]
        found = [entry["area"] for entry in document["annotations"] if entry["object"] == name]
        assert areas == found
