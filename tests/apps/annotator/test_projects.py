"""Work is kept: sessions that share a project, restarts, other processes, images that change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx.apps.annotator import projects
from sam_rlx.apps.annotator.gestures import table_of
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.lock import ProjectLock
from sam_rlx.apps.annotator.projects import Location, OpenProject, location_of_name, open_project
from sam_rlx.apps.annotator.sources import ImageSource
from sam_rlx.apps.annotator.store import FOLDER_PROJECT
from sam_rlx.errors import InvalidArgumentError, StateError
from support import HANG_SECONDS

from .test_image_session import View

Show = Callable[..., ImageSession]


def disc(seed: int) -> np.ndarray:
    """Return a disc on a ground: uint8 (50, 70, 3)."""
    y, x = np.ogrid[:50, :70]
    pixels = np.full((50, 70, 3), 40 + 20 * seed, np.uint8)
    pixels[(y - 25) ** 2 + (x - 20 - 5 * seed) ** 2 < 12**2] = (220, 60, 50)
    return pixels


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for k in range(3):
        Image.fromarray(disc(k)).save(folder / f"{k}.png")
    return folder


@pytest.fixture
def show(model: sam_rlx.Model) -> Iterator[Show]:
    """Show images with the project that is theirs."""
    shown = []

    def made(images: Any, **options: Any) -> ImageSession:
        source = ImageSource(images)
        project = options.pop("project", None) or open_project(source.location)
        shown.append(ImageSession(model, source, project=project, num_threads=1, **options))
        return shown[-1]

    yield made
    for session in shown:
        ended(session)


def ended(session: ImageSession) -> None:
    """Close a session, and wait for it."""
    session.close()
    thread = session._worker._thread
    if thread is not None:
        thread.join(HANG_SECONDS)


def ids(session: ImageSession) -> list[int]:
    return [one.number for one in session.document.objects]


def test_a_folder_is_where_it_was(show: Show, folder: Path) -> None:
    session = show(folder)
    assert not (folder / FOLDER_PROJECT).exists()
    session.call("click", x=20, y=25)
    session.call("image", index=2)
    session.call("click", x=30, y=25)
    session.call("rename", object=1, name="größte")
    objects = [session.project.document(session.sources.known_key(k)).objects for k in (0, 2)]
    ended(session)
    assert sorted(path.name for path in folder.iterdir()) == [
        *("0.png", "1.png", "2.png"),
        *("sam_rlx.project.json", "sam_rlx.project.log"),
    ]
    again = show(folder)
    assert again.document.objects == objects[0]
    again.call("image", index=2)
    assert again.document.objects == objects[1]
    again.call("undo")
    assert again.document.objects[0].name == "object 1"
    again.call("undo")
    assert ids(again) == []
    assert len(again.project.document(again.sources.known_key(0)).objects) == 1


def test_views_of_one_project_delete_by_number(show: Show, folder: Path) -> None:
    views = [View(), View()]
    a, b = (show(folder, send=view.send) for view in views)
    a.call("others_stay", on=False)
    for x in (18, 20, 22, 24):
        a.call("click", x=x, y=25)
        a.call("commit")
    assert ids(b) == [1, 2, 3, 4]
    a.call("delete", object=1)
    b.call("delete", object=2)
    assert ids(a) == ids(b) == [3, 4]
    with pytest.raises(InvalidArgumentError, match=r"number of an object \(3, 4\), found 2"):
        a.call("rename", object=2, name="a")
    b.call("image", index=1)
    b.call("click", x=20, y=25)
    a.call("undo")
    assert ids(a) == [2, 3, 4]
    assert ids(b) == [1]
    assert any(head["type"] == "state" for head, _, _ in views[0].messages)


def test_a_message_that_comes_again_is_answered_and_not_done_again(
    show: Show, folder: Path
) -> None:
    view = View()
    session = show(folder, send=view.send)
    click = {"type": "click", "view": "v", "seq": 7, "x": 20, "y": 25}
    session.receive(click)
    view.wait("state", 7)
    session.call("commit")
    ended(session)
    again = View()
    session = show(folder, send=again.send)
    session.receive(click)
    again.wait("state", 7)
    assert ids(session) == [1]
    assert len(session.document.objects[0].points) == 1
    assert session.current == 1  # further prompts change what it began
    session.call("commit")
    session.call("others_stay", on=False)
    session.receive({**click, "seq": 8})
    again.wait("state", 8)
    assert ids(session) == [1, 2]


def test_results_are_undone(model: sam_rlx.Model, show: Show, folder: Path) -> None:
    session = show(folder)
    options = {"points_per_side": 4, "pred_iou_thresh": 0.1, "stability_score_thresh": 0.1}
    session.call("everything", options=options)
    found = session.document.found
    assert found
    session.call("pick", x=20, y=25)
    session.call("undo")
    session.call("undo")
    assert session.document.found == ()
    session.call("redo")
    assert session.document.found == found
    session.call("everything", on=False)
    assert session.document.found == ()
    session.call("undo")
    assert session.document.found == found
    session.call("click", x=20, y=25)
    contents = session.call("export", format="coco").contents
    session.call("load", name="a.json", contents=contents)
    assert ids(session) == [2, 3]
    session.call("undo")
    assert ids(session) == [2]


def test_images_that_move_or_change(show: Show, folder: Path) -> None:
    session = show(folder)
    for index in range(3):
        session.call("image", index=index)
        session.call("click", x=20 + 5 * index, y=25)
        session.call("rename", object=1, name=f"disc {index}")
    ended(session)
    (folder / "0.png").rename(folder / "9.png")  # behind the others
    Image.fromarray(disc(5)).save(folder / "1.png")
    session = show(folder)
    names = []
    for index in range(3):
        session.call("image", index=index)
        names.append([one.name for one in session.document.objects])
    assert names == [[], ["disc 2"], ["disc 0"]]
    assert any("1.png has other content" in note for note in session.notes)
    assert any("9.png is 0.png" in note for note in session.notes)
    ended(session)
    Image.fromarray(disc(1)).save(folder / "1.png")
    session = show(folder)
    assert [one.name for one in session.document.objects] == ["disc 1"]


def test_objects_of_changed_images_are_kept_if_wanted(show: Show, folder: Path) -> None:
    session = show(folder)
    for index in range(3):
        session.call("image", index=index)
        session.call("click", x=20 + 5 * index, y=25)
        session.call("rename", object=1, name=f"disc {index}")
    ended(session)
    Image.fromarray(disc(5)).save(folder / "0.png")
    Image.fromarray(disc(6)).save(folder / "1.png")
    Image.fromarray(disc(7)[:40]).save(folder / "2.png")  # of another size
    view = View()
    session = show(folder, send=view.send)
    session.receive({"type": "ready", "view": "v", "seq": 1})
    note = view.wait("note")[0]
    assert note["about"] == "changed"
    assert session.document.objects == ()
    session.call("keep_changed")
    names = []
    for index in range(3):
        session.call("image", index=index)
        names.append([one.name for one in session.document.objects])
    assert names == [["disc 0"], ["disc 1"], []]
    assert [one for one in session.notes if "aside" in one] == [
        "2.png has another size than before: its objects are held aside"
    ]
    session.call("image", index=0)
    session.call("undo")
    assert session.document.objects == ()
    session.call("redo")
    assert [one.name for one in session.document.objects] == ["disc 0"]
    ended(session)
    Image.fromarray(disc(3)).save(folder / "0.png")
    session = show(folder)
    session.call("keep_changed", on=False)
    assert session.document.objects == ()
    assert not any("aside" in one for one in session.notes)
    before = session.project.history.n
    session.call("keep_changed")  # it was answered
    assert session.project.history.n == before


def test_broken_images_are_stepped_over(show: Show, folder: Path) -> None:
    good = (folder / "1.png").read_bytes()
    (folder / "1.png").write_bytes(good[:-200])
    (folder / "0.png").write_bytes(b"no image")
    view = View()
    session = show(folder, send=view.send)
    assert session.index == 2
    with pytest.raises(InvalidArgumentError, match=r"1\.png cannot be read"):
        session.call("image", index=1)
    assert session.index == 2
    (folder / "0.png").write_bytes(good)
    session.call("image", index=0)
    session.receive({"type": "image", "view": "v", "seq": 1, "index": 1})
    head, _ = view.wait("image", 1)
    assert head["index"] == 2
    assert "1.png cannot be read" in view.wait("error")[0]["text"]
    for path in folder.glob("*.png"):
        path.write_bytes(b"no image")
    with pytest.raises(InvalidArgumentError, match="expected an image"):
        show(folder)


def test_another_process_reads_only_and_may_take_over(show: Show, folder: Path) -> None:
    session = show(folder)
    session.call("click", x=20, y=25)
    code = """if True:
        import sys, sam_rlx
        from sam_rlx.apps.annotator.image_session import ImageSession
        from sam_rlx.apps.annotator.projects import open_project
        from sam_rlx.apps.annotator.sources import ImageSource
        source = ImageSource(sys.argv[1])
        project = open_project(source.location)
        session = ImageSession(sam_rlx.load_model("sam-nano"), source, project=project)
        print(len(session.document.objects), project.read_only, flush=True)
        try:
            session.call("click", x=5, y=5)
        except sam_rlx.StateError as error:
            print(error, flush=True)
        session.call("take_over")
        session.call("click", x=5, y=5)
        print(len(session.document.objects), project.read_only, flush=True)
        sys.stdin.readline()
    """
    command = [sys.executable, "-W", "ignore", "-c", code, str(folder)]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert child.stdout is not None
    holder = f"it is open in process {os.getpid()} on"
    assert child.stdout.readline().startswith(f"1 {holder}")
    assert child.stdout.readline().startswith(
        f"click: expected a project to write, found that {holder}"
    )
    assert child.stdout.readline() == "2 \n"
    session.call("click", x=30, y=25)  # is kept beside the project
    assert session.project.read_only
    with pytest.raises(StateError, match="expected a project to write"):
        session.call("click", x=40, y=25)
    (aside,) = folder.glob("sam_rlx.project (*).json")
    kept = OpenProject(aside)
    assert len(kept.document(session.key).objects[0].points) == 2
    kept.close_files()
    child.communicate("\n", timeout=HANG_SECONDS)


def test_a_full_disk_is_said_and_mended(
    show: Show, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = View()
    session = show(folder, send=view.send)
    session.call("click", x=20, y=25)
    store = session.project._store
    assert store is not None

    def full(lines: list[bytes]) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(store, "_append", full)
        session.call("click", x=21, y=25)
        assert len(session.document.objects[0].points) == 2
    state = [head for head, _, _ in view.messages if head["type"] == "state"][-1]
    assert state["unsaved"] == "No space left on device"
    session.call("click", x=22, y=25)
    state = [head for head, _, _ in view.messages if head["type"] == "state"][-1]
    assert state["unsaved"] == ""
    ended(session)
    assert len(show(folder).document.objects[0].points) == 3


def test_where_projects_are(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = projects.state_folder() / "projects"
    assert ImageSource(folder).location == Location(folder / FOLDER_PROJECT)
    assert ImageSource(folder / "0.png").location == Location(folder / "0.png.sam_rlx.json")
    several = ImageSource([folder / "0.png", folder / "1.png"]).location
    assert (several.snapshot.parent, several.shared) == (kept, False)
    arrays = [ImageSource(disc(k)).location.snapshot for k in (0, 1, 0)]
    assert arrays[0] == arrays[2] != arrays[1]
    assert arrays[0].parent == kept
    coins = Path(sam_rlx.__file__).parent / "assets" / "coins.jpg"
    assert ImageSource(coins).location.snapshot.parent == kept
    monkeypatch.setattr(projects.os, "access", lambda path, mode: False)
    assert ImageSource(folder).location.snapshot.parent == kept
    monkeypatch.chdir(tmp_path)
    assert location_of_name("work").snapshot == tmp_path / "work.sam_rlx.json"
    for name in ("", ".", "..", "a/b", "a\\b", "a\0", "C:", "a" * 101, "a\n"):
        with pytest.raises(InvalidArgumentError, match="project: expected a name"):
            location_of_name(name)


def test_arrays_begin_anew_beside_work_that_is_open(show: Show) -> None:
    first = show(disc(0))
    first.call("click", x=20, y=25)
    second = show(disc(0))
    assert ids(second) == []
    ended(first)
    ended(second)
    assert ids(show(disc(0))) == [1]


def test_where_nothing_can_be_kept_work_goes_on(show: Show, folder: Path) -> None:
    view = View()
    session = show(folder, send=view.send)
    (folder / "sam_rlx.project.lock").mkdir()
    for count in (1, 2):
        session.call("click", x=20, y=25 + count)
        assert session.project.problem
        assert session.project.read_only == ""
        state = [head for head, _, _ in view.messages if head["type"] == "state"][-1]
        assert state["unsaved"] == session.project.problem
    (folder / "sam_rlx.project.lock").rmdir()
    session.call("click", x=20, y=25)
    assert session.project.problem == ""
    ended(session)
    assert len(show(folder).document.objects[0].points) == 3


def test_a_lock_that_is_left_is_taken(show: Show, folder: Path) -> None:
    (folder / "sam_rlx.project.lock").write_text('\n{"host": "a", "pid": 1, "address": ""}')
    session = show(folder)
    session.call("click", x=20, y=25)
    assert session.project.read_only == ""
    assert ProjectLock(folder / FOLDER_PROJECT).acquire() is not None


def test_checks_come_from_the_signature() -> None:
    row = table_of(ImageSession)["click"]
    assert row.values({"x": 1, "y": 2}, of_view=True) == {"x": 1.0, "y": 2.0}
    wrong: list[dict[str, Any]] = [
        *({}, {"x": 1}, {"x": 1, "y": None}, {"x": True, "y": 1}, {"x": 1, "y": 1, "label": 2}),
        *({"x": 1, "y": 1, "z": 1}, {"x": float("nan"), "y": 1}, {"x": "1", "y": 1}),
    ]
    for given in wrong:
        with pytest.raises(InvalidArgumentError, match="expected"):
            row.values(given, of_view=True)
    with pytest.raises(InvalidArgumentError, match="a caller in Python"):
        table_of(ImageSession)["start"].values({"mask": 1}, of_view=True)
    assert json.dumps(sorted(row.fields)) == '["label", "x", "y"]'
