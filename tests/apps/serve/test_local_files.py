"""Folders, images and clips that the command line names: the page shows them where they lie."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sam_rlx.apps import cli
from sam_rlx.apps.serve import kept
from sam_rlx.apps.serve.local_files import local_files_of
from sam_rlx.errors import InvalidArgumentError
from starlette.testclient import TestClient
from support import HANG_SECONDS
from support.interactive import SESSION, client_of

from tests.apps.serve.test_serve_tabs import Tab


@pytest.fixture
def folder(tmp_path: Path, image: np.ndarray) -> Path:
    made = tmp_path / "photos"
    made.mkdir()
    Image.fromarray(image).save(made / "a.png")
    Image.fromarray(np.ascontiguousarray(image[:, ::-1])).save(made / "b.png")
    return made


def moving(image: np.ndarray) -> list[Image.Image]:
    return [Image.fromarray(np.roll(image, 4 * t, axis=1)) for t in range(3)]


def resumed(client: TestClient, identity: str, item: str = "") -> tuple[Any, Tab, dict[str, Any]]:
    """Open a tab on a project, and say that it is ready."""
    context = client.websocket_connect(SESSION)
    tab = Tab(context.__enter__())
    tab.send({"type": "resume", "project": identity, "item": item})
    opened, _ = tab.next("opened")
    tab.send({"type": "ready", "view": "v", "seq": 1, "edits": True})
    return context, tab, opened


def test_a_folder_is_labelled_where_it_lies(engine: Any, folder: Path) -> None:
    local = local_files_of(folder)
    with client_of(engine, local=[local]) as client:
        context, tab, opened = resumed(client, local.identity)
        assert (opened["count"], opened["project"]) == (2, local.identity)
        about, _ = tab.next("about")
        assert (about["name"], about["kept"]) == ("photos", "folder")
        image, _ = tab.next("image")
        assert (image["name"], image["count"]) == ("a.png", 2)
        tab.send({"type": "click", "view": "v", "seq": 2, "x": 60, "y": 60})
        assert len(tab.next("edit")[0]["objects"]) == 1
        tab.send({"type": "done", "view": "v", "seq": 3})
        tab.send({"type": "image", "view": "v", "seq": 4, "index": 1})
        assert tab.next("image")[0]["name"] == "b.png"
        context.__exit__(None, None, None)
        there = sorted(one.name for one in folder.iterdir())
        assert {"a.png", "b.png", "sam_rlx.project.json"} <= set(there)
        assert all(one.is_file() for one in folder.iterdir())
        # The next time it goes on with what is not done, or with what the address says.
        context, tab, opened = resumed(client, local.identity)
        assert tab.next("image")[0]["name"] == "b.png"
        done = next(one["key"] for one in opened["items"] if one["name"] == "a.png")
        context.__exit__(None, None, None)
        context, tab, _ = resumed(client, local.identity, done)
        assert tab.next("image")[0]["name"] == "a.png"
        assert len(tab.next("state")[0]["objects"]) == 1
        context.__exit__(None, None, None)
    assert local.identity not in {one["id"] for one in kept.listed()}


def test_it_is_listed_and_takes_no_uploads(engine: Any, folder: Path, png: bytes) -> None:
    local = local_files_of(folder)
    with client_of(engine, local=[local]) as client, client.websocket_connect(SESSION) as socket:
        tab = Tab(socket)
        for head, files in (
            ({"type": "open", "names": ["c.png"], "project": local.identity}, [png]),
            ({"type": "remove", "project": local.identity}, []),
        ):
            tab.send(head, *files)
            said = tab.next("error")[0]["text"]
            assert said.startswith(f"{head['type']}: expected a project of the page, found that")
            assert "photos" in said
        tab.send({"type": "open", "names": ["c.png"]}, png)  # a project of the page
        own = tab.next("opened")[0]["project"]
    assert own != local.identity
    assert sorted(one.name for one in folder.iterdir()) == ["a.png", "b.png"]
    row = local.listed()
    assert (row["id"], row["name"], row["images"]) == (local.identity, "photos", 2)
    assert local_files_of(folder).identity == local.identity
    assert re.fullmatch(r"[0-9a-f]{16}", local.identity)


def test_without_the_command_line_nothing_is_found(idle_client: TestClient, folder: Path) -> None:
    with idle_client as client, client.websocket_connect(SESSION) as socket:
        tab = Tab(socket)
        for project in (local_files_of(folder).identity, str(folder), "../photos", None):
            tab.send({"type": "resume", "project": project})
            assert "project: expected" in tab.next("error")[0]["text"]


def test_a_widget_and_the_page_have_one_project(
    engine: Any, model: Any, folder: Path, image: np.ndarray
) -> None:
    pytest.importorskip("anywidget", reason="the widget")
    from sam_rlx.widget import SegmentWidget

    widget = SegmentWidget(model, folder)
    mask = np.zeros(image.shape[:2], bool)
    mask[5:20, 7:30] = True
    widget.start(mask, "made in a notebook")
    widget.close()
    local = local_files_of(folder)
    with client_of(engine, local=[local]) as client:
        context, tab, _ = resumed(client, local.identity)
        objects = tab.next("state")[0]["objects"]
        assert [one["name"] for one in objects] == ["made in a notebook"]
        context.__exit__(None, None, None)


def test_a_clip_is_labelled_where_it_lies(engine: Any, tmp_path: Path, image: np.ndarray) -> None:
    path = tmp_path / "a.gif"
    first, *others = moving(image)
    first.save(path, "GIF", save_all=True, append_images=others)
    local = local_files_of(path)
    assert (local.kind, local.count) == ("clip", 1)
    with client_of(engine, local=[local]) as client:
        context, tab, _ = resumed(client, local.identity)
        shown, _ = tab.next("image")
        assert (shown["kind"], shown["frames"]) == ("video", 3)
        tab.send({"type": "click", "view": "v", "seq": 2, "frame": 0, "x": 60, "y": 60})
        assert len(tab.next("edit")[0]["objects"]) == 1
        tab.send({"type": "done", "view": "v", "seq": 3})
        while not any(one["state"] == "done" for one in tab.next("project")[0]["items"]):
            pass
        context.__exit__(None, None, None)
        assert (tmp_path / "a.gif.sam_rlx.json").is_file()
        context, tab, opened = resumed(client, local.identity)
        assert [one["state"] for one in opened["items"]] == ["done"]
        lanes, _ = tab.next("lanes")
        assert [at for at, _ in lanes["lanes"][0]["frames"]] == [0]
        context.__exit__(None, None, None)


def test_an_image_has_its_project_beside_it(folder: Path) -> None:
    local = local_files_of(folder / "a.png")
    assert (local.kind, local.count) == ("image", 1)
    assert local.location.snapshot == folder / "a.png.sam_rlx.json"
    still = folder / "still.gif"
    Image.open(folder / "a.png").save(still)
    assert local_files_of(still).kind == "image"


def test_others_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, text = tmp_path / "empty", tmp_path / "notes.txt"
    empty.mkdir()
    text.write_text("no image")
    with pytest.raises(InvalidArgumentError, match=r"notes\.txt"):
        local_files_of(text)
    for path in (empty, text, tmp_path / "none.png"):
        for command in ("annotate", "serve"):
            assert cli.main([command, str(path), "--port", "0"]) == 1
            assert capsys.readouterr().err.startswith(f"sam-rlx {command}: ")


def test_the_command_prints_the_address(folder: Path) -> None:
    command = [sys.executable, "-m", "sam_rlx", "annotate", "--port", "0", "--threads", "1"]
    process = subprocess.Popen(
        [*command, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        lines = iter(process.stdout)
        found = next(filter(None, (re.match(r"photos: (http://\S+)", line) for line in lines)))
        assert found[1].endswith(f"/p/{local_files_of(folder).identity}")
        with urllib.request.urlopen(found[1], timeout=HANG_SECONDS) as answer:
            assert b"<html" in answer.read()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=HANG_SECONDS)
        assert (process.returncode, err) == (0, "")
    finally:
        process.kill()
        process.communicate(timeout=HANG_SECONDS)
