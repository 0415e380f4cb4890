"""Files of other programs are hostile input: odd values give typed errors, or what they say."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sam_rlx.apps.annotator.imports import READERS, read
from sam_rlx.apps.annotator.imports.forms import brush_mask
from sam_rlx.apps.annotator.imports.found import row_mask
from sam_rlx.errors import InvalidArgumentError, SamRlxError
from support.odd_json import ODD, changed

from tests.apps.annotator.test_exports import HW, video, widget  # noqa: F401
from tests.apps.annotator.test_exports import folder as folder

JSON = {
    "panoptic": "panoptic.json",
    "label_studio": "tasks.json",
    "labelme": "cam0/a.json",
    "isat": "cam0/a.json",
}


def read_all(path: Path, form: str) -> None:
    with contextlib.suppress(SamRlxError, FileNotFoundError):
        read(path, form, lambda name: HW)


@pytest.mark.parametrize("form", JSON)
def test_odd_values_of_json(widget: Any, tmp_path: Path, form: str) -> None:  # noqa: F811
    widget.export(tmp_path / "out", form)
    file = tmp_path / "out" / JSON[form]
    document = json.loads(file.read_text("utf-8"))
    for at, other in enumerate(changed(document, ODD[::5])):
        if at % 7 == 0:
            file.write_text(json.dumps(other), "utf-8")
            read_all(tmp_path / "out", form)
    for text in ("", "[]", "{", "null", "[" * 5000, '{"images": 1e999}', "\ufeff{}"):
        file.write_text(text, "utf-8")
        read_all(tmp_path / "out", form)


def test_odd_values_of_a_clip(video: Any, tmp_path: Path) -> None:  # noqa: F811
    video.export(tmp_path / "out", "youtube_vis")
    file = tmp_path / "out" / "instances.json"
    document = json.loads(file.read_text("utf-8"))
    for at, other in enumerate(changed(document, ODD[::5])):
        if at % 5 == 0:
            file.write_text(json.dumps(other), "utf-8")
            read_all(file, "youtube_vis")


@pytest.mark.parametrize("form", ["cvat", "yolo", "voc", "labels", "masks", "labelme", "panoptic"])
def test_files_that_end_early_or_have_other_bytes(
    widget: Any,  # noqa: F811
    tmp_path: Path,
    form: str,
) -> None:
    random = np.random.default_rng(0)
    widget.export(tmp_path / "out", form)
    files = [one for one in sorted((tmp_path / "out").rglob("*")) if one.is_file()]
    for file in files[:6]:
        whole = file.read_bytes()
        for _ in range(6):
            data = bytearray(whole[: int(random.integers(len(whole) + 1))])
            for at in random.integers(0, max(len(data), 1), 3) if data else ():
                data[int(at)] = int(random.integers(256))
            file.write_bytes(bytes(data))
            read_all(tmp_path / "out", form)
        file.write_bytes(whole)


def test_numbers_of_xml(widget: Any, tmp_path: Path) -> None:  # noqa: F811
    widget.export(tmp_path / "out", "cvat")
    file = tmp_path / "out" / "annotations.xml"
    text = file.read_text("utf-8")
    numbers = list(re.finditer(r'(?<==")[\d, ]+(?=")', text))
    for at, match in enumerate(numbers):
        for value in ("", "-1", "nan", "1e9", "99999999999", "a", "1,2", "&#0;")[at % 3 :: 3]:
            file.write_text(text[: match.start()] + value + text[match.end() :], "utf-8")
            read_all(tmp_path / "out", "cvat")
    bomb = '<!DOCTYPE a [<!ENTITY b "cccc">]><annotations>&b;</annotations>'
    file.write_text(bomb, "utf-8")
    with pytest.raises(InvalidArgumentError, match="without declarations"):
        read(tmp_path / "out", "cvat", lambda name: HW)
    file.write_text("<a>" * 500 + "</a>" * 500, "utf-8")
    with pytest.raises(InvalidArgumentError, match="at most 100 levels"):
        read(tmp_path / "out", "cvat", lambda name: HW)


def test_no_file_outside_of_the_folder_is_read(widget: Any, tmp_path: Path) -> None:  # noqa: F811
    widget.export(tmp_path / "out", "panoptic")
    file = tmp_path / "out" / "panoptic.json"
    secret = tmp_path / "secret.png"
    secret.write_bytes((tmp_path / "out" / "panoptic" / "cam0" / "a.png").read_bytes())
    document = json.loads(file.read_text())
    document["annotations"][0]["file_name"] = "../../secret.png"
    file.write_text(json.dumps(document))
    with pytest.raises(InvalidArgumentError, match="file_name: expected a file in panoptic"):
        read(tmp_path / "out", "panoptic", lambda name: HW)


def test_runs_of_rows() -> None:
    found = row_mask("a", (4, 5), [1, 2, 1], (1, 1, 2, 2)).to_mask()
    assert np.argwhere(found).tolist() == [[1, 2], [2, 1]]
    assert row_mask("a", (4, 5), [0, 4], (1, 1, 2, 2)).to_mask().sum() == 4
    assert row_mask("a", (4, 5), [1], (0, 0, 1, 1)).to_mask().sum() == 0
    for counts, box in (([5], (1, 1, 2, 2)), ([1, 2, 1], (4, 1, 2, 2)), ([], (0, 0, 0, 0))):
        with pytest.raises(InvalidArgumentError):
            row_mask("a", (4, 5), counts, box)


def test_brush_codes_that_are_none() -> None:
    for data in (b"", b"\0" * 7, b"\0\0\0\x50" + b"\xff" * 3, b"\0\0\0\x51" + bytes(20)):
        with pytest.raises(InvalidArgumentError):
            brush_mask("a", data, (4, 5))


def test_wrong_forms_and_paths(tmp_path: Path) -> None:
    for form in READERS:
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "none", form, lambda name: HW)
        with pytest.raises(SamRlxError):
            read(tmp_path, form, lambda name: HW)
    with pytest.raises(InvalidArgumentError, match="form: expected one of"):
        read(tmp_path, "pdf", lambda name: HW)
