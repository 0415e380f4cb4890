"""Imports of a view: it is told what files would add, then they do so in one edit."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import sam_rlx
from sam_rlx.apps.annotator.imports import form_of, unpack
from sam_rlx.apps.annotator.imports import unpacked as module
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.widget import SegmentWidget, VideoWidget

from tests.apps.annotator.test_exports import FRAMES, HW, by_frame, by_image, video, widget  # noqa: F401
from tests.apps.annotator.test_exports import folder as folder

IMAGES = (
    *("coco", "panoptic", "yolo", "label_studio", "cvat", "labelme", "isat", "voc"),
    *("labels", "masks"),
)
CLIPS = ("coco", "cvat", "mots", "youtube_vis", "davis")


class View:
    """Hears what a session says to it."""

    def __init__(self, widget: Any) -> None:  # noqa: F811
        self.session = widget._session
        self.heard: list[dict[str, Any]] = []
        self.session._send_to_host = lambda head, buffers, view: self.heard.append(head)
        self.seq = 0
        self.session.receive({"type": "ready", "view": "v", "seq": 0}, [])

    def asks(self, name: str, contents: bytes, add: bool = False) -> dict[str, Any]:
        self.seq += 1
        self.heard.clear()
        head = {"type": "import_as", "view": "v", "seq": self.seq, "name": name, "add": add}
        self.session.receive(head, [contents])
        self.session.call("select", object=None)  # behind it
        return next(one for one in self.heard if one["type"] in ("import", "error"))


def zipped(path: Path, within: str = "") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for one in sorted(path.rglob("*")):
            if one.is_file() and not one.name.startswith("."):
                archive.write(one, within + one.relative_to(path).as_posix())
    return file.getvalue()


@pytest.mark.parametrize("form", IMAGES)
@pytest.mark.parametrize("within", ["", "dataset/"])
def test_a_view_is_told_before_anything_changes(
    widget: SegmentWidget,  # noqa: F811
    model: sam_rlx.Model,
    folder: Path,
    tmp_path: Path,
    form: Any,
    within: str,
) -> None:
    widget.export(tmp_path / "out", form)
    contents = zipped(tmp_path / "out", within)
    other = SegmentWidget(model, sorted(folder.rglob("*.png")), project=False)
    view = View(other)
    told = view.asks("out.zip", contents)
    assert (told["type"], told["form"], told["added"]) == ("import", form, False)
    assert told["objects"] == 3
    assert sum(told["matched"].values()) == 2
    if form == "coco":
        assert told["matched"] == {"key": 2}
    assert told["absent_count"] == 0
    assert all(one["new"] for one in told["classes"] if one["name"] != "object")
    assert by_image(other) == {}
    assert not other._session.project.history.next_undo(other._session.key)
    assert view.asks("out.zip", contents, add=True)["added"]
    assert sum(map(len, by_image(other).values())) == 3
    if form in ("coco", "cvat", "labelme", "isat", "label_studio"):
        assert by_image(other) == by_image(widget)
    other.undo()
    assert by_image(other) == {}
    assert len(other.classes) == 1
    other.close()


@pytest.mark.parametrize("form", CLIPS)
def test_a_clip_takes_what_it_wrote(video: VideoWidget, tmp_path: Path, form: Any) -> None:  # noqa: F811
    video.export(tmp_path / "out", form)
    wanted = by_frame(video)
    video.delete(1)
    video.delete(2)
    told = (view := View(video)).asks("out.zip", zipped(tmp_path / "out"))
    assert (told["form"], told["objects"]) == (form, 2)
    assert 0 < told["matched"]["frame"] <= FRAMES
    view.asks("out.zip", zipped(tmp_path / "out"), add=True)
    assert by_frame(video) == wanted
    video.undo()
    assert by_frame(video) == {}


def test_the_one_file_of_a_form(widget: SegmentWidget, tmp_path: Path) -> None:  # noqa: F811
    widget.export(tmp_path / "out", "cvat")
    contents = (tmp_path / "out" / "annotations.xml").read_bytes()
    told = View(widget).asks("annotations.xml", contents)
    assert (told["form"], told["matched"]) == ("cvat", {"path": 2})
    text = contents.decode().replace("cam1/a.png", "cam7/z.png")
    told = View(widget).asks("other.xml", text.encode())
    assert (told["absent"], told["matched"]) == (["cam7/z.png"], {"path": 1})
    assert widget.import_from(tmp_path / "out") == []


def test_hostile_archives_are_refused(
    widget: SegmentWidget,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = View(widget)
    before = widget._session.project.history.n
    names = ("../a.json", "/a.json", "a/../../b.json", "c:/a.json", "a\\..\\b.json", "a/\x07.json")
    for name in (*names, "a//b.json", "x" * 300 + ".json"):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(name, "{}")
        said = view.asks("a.zip", file.getvalue())
        assert said["type"] == "error", name
    for contents in (b"PK", b"PK\3\4" + bytes(90), zipped(Path(__file__).parent)[:-30], b""):
        assert view.asks("a.zip", contents)["type"] == "error"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("annotations.json", b" " * 5_000_000)
    monkeypatch.setattr(module, "MAX_UNPACKED", 1_000_000)
    assert "expected at most 1 MB unpacked" in view.asks("a.zip", file.getvalue())["text"]
    monkeypatch.setattr(module, "MAX_ENTRIES", 0)
    assert "expected at most 0 files" in view.asks("a.zip", file.getvalue())["text"]
    many = b"[" + b"[]," * 2_100_000 + b"[]]"
    assert "at most 4000000 values" in view.asks("a.json", many)["text"]
    assert "at most 1000000 tags" in view.asks("a.xml", b"<a/>" * 1_000_001)["text"]
    assert view.asks("a.json", b'{"dog": 1}')["text"].startswith("a.json: expected JSON of a form")
    for name in ("../a.json", "a/b.json", "", 3, ".zip"):
        view.heard.clear()
        head = {"type": "import_as", "view": "v", "seq": 90, "name": name}
        view.session.receive(head, [b"{}"])
        assert view.heard[0]["type"] == "error"
    assert widget._session.project.history.n == before


@pytest.mark.parametrize("form", ["labelme", "isat", "cvat", "label_studio"])
def test_a_size_that_is_not_the_images_makes_no_mask(
    widget: SegmentWidget,  # noqa: F811
    tmp_path: Path,
    form: Any,
) -> None:
    widget.export(tmp_path / "out", form)
    for file in (tmp_path / "out").rglob("*"):
        if file.suffix in (".json", ".xml"):
            text = file.read_text("utf-8")
            for old, new in ((f'"{HW[0]}"', '"60000"'), (f": {HW[0]},", ": 60000,")):
                text = text.replace(old, new)
            file.write_text(text, "utf-8")
    said = View(widget).asks("a.zip", zipped(tmp_path / "out"))
    assert "expected masks of 87 x 61 pixels, found 87 x 60000" in said["text"]


def test_forms_are_told_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(InvalidArgumentError, match="form that is known, found none"):
        form_of(tmp_path / "none")
    outlines = tmp_path / "a.json"
    outlines.write_text(json.dumps({"shapes": []}))
    assert form_of(outlines) == "labelme"
    assert unpack("a.json", b"{}", tmp_path) == outlines
