"""``sam-rlx export``: what was made in a notebook or on the page, without either."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sam_rlx.apps.cli import main
from support.half_size import half_size

pytest.importorskip("anywidget")
from sam_rlx.widget import SegmentWidget, VideoWidget

HW = (40, 56)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "photos"
    made.mkdir()
    for name in "ab":
        pixels = np.random.default_rng(ord(name)).integers(0, 255, (*HW, 3), np.uint8)
        Image.fromarray(pixels).save(made / f"{name}.png")
    widget = SegmentWidget(half_size("sam-nano"), made)
    widget.class_add("cat")
    mask = np.zeros(HW, np.bool_)
    mask[5:20, 7:30] = True
    widget.start(mask)
    widget.close()
    return made


def test_a_folder_project(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["export", str(folder), "--form", "yolo", "--output", str(out)]) == 0
    assert "1 image" in capsys.readouterr().out
    assert (out / "images" / "train" / "a.png").read_bytes() == (folder / "a.png").read_bytes()
    assert (out / "labels" / "train" / "a.txt").read_text().startswith("1 ")
    assert main(["export", str(folder), "--form", "yolo", "--output", str(out)]) == 1
    words = ["export", str(folder), "--form", "coco", "--output", str(out), "--overwrite"]
    assert main([*words, "--images", "all", "--class", "cat"]) == 0
    document = json.loads((out / "annotations.json").read_text())
    assert [one["name"] for one in document["categories"]] == ["cat"]
    assert len(document["images"]) == 2
    assert document["annotations"][0]["bbox"] == [7, 5, 23, 15]
    assert sorted(one.name for one in folder.iterdir()) == [
        *("a.png", "b.png", "sam_rlx.project.json", "sam_rlx.project.log")
    ]


def test_wrong_words(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    for words in (
        ["export", str(tmp_path / "none"), "--form", "coco", "--output", out],
        ["export", str(folder), "--form", "coco", "--output", out, "--images", "done"],
    ):
        assert main(words) == 2
        assert "found" in capsys.readouterr().err
    assert main(["export", str(folder), "--form", "coco", "--output", out, "--class", "dog"]) == 1
    assert main(["export", str(folder), "--form", "mots", "--output", out]) == 1
    for wrong in (["--split", "2"], ["--tolerance", "-1"], ["--tolerance", "nan"]):
        with pytest.raises(SystemExit):
            main(["export", str(folder), "--form", "coco", "--output", out, *wrong])
    assert not Path(out).exists()


def test_the_project_of_a_clip(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 255, (3, *HW, 3), np.uint8)
    folder = tmp_path / "clip"
    folder.mkdir()
    for at, frame in enumerate(frames):
        Image.fromarray(frame).save(folder / f"{at}.png")
    widget = VideoWidget(half_size("sam2-nano"), folder)
    mask = np.zeros(HW, np.bool_)
    mask[2:9, 3:9] = True
    widget.start(1, mask, "ball")
    project = widget.project
    widget.close()
    assert project is not None
    out = tmp_path / "vis"
    assert main(["export", str(project), "--form", "youtube_vis", "--output", str(out)]) == 0
    document = json.loads((out / "instances.json").read_text())
    assert [one is not None for one in document["annotations"][0]["segmentations"]] == [
        *(False, True, False)
    ]
