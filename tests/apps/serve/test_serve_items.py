"""Items of a project of the page: images that are left out, and folders as clips."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sam_rlx.apps.cli.annotate import add_parser
from sam_rlx.apps.serve import kept
from sam_rlx.apps.serve.local_files import local_files_of
from sam_rlx.errors import InvalidArgumentError
from starlette.testclient import TestClient
from support.interactive import SESSION

from tests.apps.serve.test_serve_clips import frames
from tests.apps.serve.test_serve_tabs import Tab


def png_of(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def grays(count: int) -> list[bytes]:
    return [png_of(np.full((30, 40, 3), 40 + 30 * k, np.uint8)) for k in range(count)]


def states(head: dict[str, Any]) -> list[tuple[int, str, str]]:
    return [(one["index"], one["name"], one["state"]) for one in head["items"]]


def test_what_is_left_out_stays_in_the_queue(client: TestClient) -> None:
    with client, client.websocket_connect(SESSION) as socket:
        tab = Tab(socket)
        tab.send({"type": "open", "names": ["a.png", "b.png", "c.png"]}, *grays(3))
        opened, _ = tab.next("opened")
        tab.send({"type": "ready", "view": "v", "seq": 1, "edits": True})
        tab.next("project")
        key = opened["items"][1]["key"]
        tab.send({"type": "leave_out", "view": "v", "seq": 2, "key": key})
        head, _ = tab.next("project")
        assert (1, "b.png", "left out") in states(head)
        tab.send({"type": "image", "view": "v", "seq": 3, "index": 2})
        image, _ = tab.next("image")
        assert (image["name"], image["index"], image["count"]) == ("c.png", 2, 3)
        tab.send({"type": "image", "view": "v", "seq": 4, "index": 1})
        assert tab.next("image")[0]["name"] == "b.png"
        tab.send({"type": "leave_out", "view": "v", "seq": 5, "on": False})
        head, _ = tab.next("project")
        assert (1, "b.png", "begun") in states(head)
        tab.send({"type": "undo", "view": "v", "seq": 6})
        head, _ = tab.next("project")
        assert (1, "b.png", "left out") in states(head)


def test_a_mended_image_stands_for_the_broken_one(client: TestClient) -> None:
    good = grays(2)
    with client, client.websocket_connect(SESSION) as socket:
        tab = Tab(socket)
        tab.send({"type": "open", "names": ["a.png", "b.png"]}, good[0], good[1][:60])
        opened, _ = tab.next("opened")
        tab.send({"type": "ready", "view": "v", "seq": 1, "edits": True})
        tab.send({"type": "image", "view": "v", "seq": 2, "index": 1})
        assert "b.png" in tab.next("error")[0]["text"]
        again = {"type": "open", "names": ["b.png"], "project": opened["project"]}
        tab.send(again, good[1])
        opened, _ = tab.next("opened")
        tab.send({"type": "ready", "view": "w", "seq": 1})
        head, _ = tab.next("project")
        assert [name for _, name, _ in states(head)] == ["a.png", "b.png"]
        assert head["items"][1]["key"] == opened["item"]


def test_a_folder_is_a_clip(client: TestClient) -> None:
    files = [png_of(frame) for frame in frames()]
    names = [f"walk/{k}.png" for k in (8, 9, 10, 11)]
    with client, client.websocket_connect(SESSION) as socket:
        tab = Tab(socket)
        asked = {"type": "open", "names": names, "clip": True}
        tab.send(asked, *files)
        opened, _ = tab.next("opened")
        assert [(one["name"], one["kind"]) for one in opened["items"]] == [("walk", "clip")]
        tab.send({"type": "ready", "view": "v", "seq": 1, "edits": True})
        image, _ = tab.next("image")
        assert (image["kind"], image["frames"]) == ("video", 4)
        tab.send({"type": "click", "view": "v", "seq": 2, "frame": 2, "x": 38, "y": 30})
        assert len(tab.next("edit")[0]["objects"]) == 1
        tab.send({"type": "frame", "view": "v", "seq": 3, "frame": 3})
        _, buffers = tab.next("frame")
        shown = np.asarray(Image.open(io.BytesIO(bytes(buffers[0]))), int)
        assert abs(shown - frames()[3]).mean() < 3
        folder = kept.folder_of(opened["project"]) / "files" / opened["item"]
        assert sorted(one.name for one in folder.iterdir()) == [f"{k:06d}.png" for k in range(4)]
        assert kept._used(kept.kept_folder()) >= sum(map(len, files))
        tab.send({**asked, "project": opened["project"]}, *files)
        again, _ = tab.next("opened")
        assert again["items"] == [{**opened["items"][0], "state": "begun"}]
        tab.send({**asked, "project": opened["project"]}, *files[:3], b"no image")
        assert "images alone for the frames of a clip" in tab.next("error")[0]["text"]


def test_a_folder_of_the_command_line_is_a_clip(tmp_path: Path) -> None:
    for at, frame in enumerate(frames()):
        (tmp_path / f"{at:04d}.png").write_bytes(png_of(frame))
    found = local_files_of(tmp_path, clip=True)
    assert (found.kind, found.count) == ("clip", 1)
    assert found.location.snapshot == tmp_path / "sam_rlx.project.json"
    assert local_files_of(tmp_path).kind == "image"
    (tmp_path / "note.jpg").write_bytes(b"")
    with pytest.raises(InvalidArgumentError):
        local_files_of(tmp_path, clip=True)
    import argparse

    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    assert parser.parse_args(["annotate", str(tmp_path), "--clip"]).clip
