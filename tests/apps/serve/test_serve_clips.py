"""Clips on the page: they are opened, tracked, kept and opened again."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sam_rlx.apps.serve.clips import check_clip, kind_of
from sam_rlx.errors import InvalidArgumentError
from starlette.testclient import TestClient
from support.interactive import SESSION

from tests.apps.serve.test_serve_tabs import Tab

HW = (64, 96)


def frames() -> np.ndarray:
    y, x = np.mgrid[: HW[0], : HW[1]]
    made = np.full((4, *HW, 3), 60, np.uint8)
    for t, frame in enumerate(made):
        frame[np.hypot(x - 30 - 4 * t, y - 30) < 14] = (220, 60, 40)
    return made


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    pytest.importorskip("av", reason="decodes clips")
    from sam_rlx import io as files

    path = tmp_path_factory.mktemp("film") / "a.mp4"
    files.write_video(path, list(frames()), 5)
    return Path(path).read_bytes()


def gif(count: int) -> bytes:
    images = [Image.fromarray(frame) for frame in frames()[:count]]
    file = io.BytesIO()
    images[0].save(file, "GIF", save_all=True, append_images=images[1:])
    return file.getvalue()


def test_files_are_told_by_their_first_bytes(film: bytes, png: bytes) -> None:
    assert kind_of(film) == "clip"
    assert kind_of(gif(4)) == "clip"
    assert kind_of(gif(1)) == kind_of(png) == kind_of(b"GIF89a broken") == kind_of(b"") == "image"
    for text in (b"ffconcat version 1.0\nfile /etc/passwd\n", b"#EXTM3U\nfile:///etc/passwd\n"):
        assert kind_of(text) == "image"
    check_clip(film, 10_000)
    with pytest.raises(InvalidArgumentError, match="clip: expected at most 100 pixels"):
        check_clip(film, 100)


def test_a_clip_is_opened_tracked_and_kept(client: TestClient, film: bytes, png: bytes) -> None:
    with client:
        with client.websocket_connect(SESSION) as socket:
            tab = Tab(socket)
            tab.send({"type": "open", "names": ["a.mp4", "b.png"]}, film, png)
            opened, _ = tab.next("opened")
            assert [one["kind"] for one in opened["items"]] == ["clip", "image"]
            tab.send({"type": "ready", "view": "v", "seq": 1, "edits": True})
            image, _ = tab.next("image")
            assert (image["kind"], image["frames"]) == ("video", 4)
            tab.send({"type": "click", "view": "v", "seq": 2, "frame": 0, "x": 30, "y": 30})
            assert len(tab.next("edit")[0]["objects"]) == 1
            tab.send({"type": "track", "view": "v", "seq": 3})
            while (progress := tab.next("progress")[0])["running"] or not progress["done"]:
                pass
            assert progress["done"] == progress["total"] == 4
            assert tab.next("checks")[0]["rows"] == []
            tab.send({"type": "export_as", "view": "v", "seq": 4, "form": "mots"})
            file, buffers = tab.next("file")
            assert file["name"] == "mots.zip"
            assert bytes(buffers[0]).startswith(b"PK")
            _goes_to(tab, opened["project"], opened["items"][1]["key"], "image")
        with client.websocket_connect(SESSION) as socket:
            tab = Tab(socket)
            _goes_to(tab, opened["project"], opened["items"][0]["key"], "video")
            lanes, _ = tab.next("lanes")
            assert [at for at, _ in lanes["lanes"][0]["frames"]] == [0, 1, 2, 3]


def _goes_to(tab: Any, project: str, item: str, kind: str) -> None:
    tab.send({"type": "resume", "project": project, "item": item})
    tab.next("opened")
    tab.send({"type": "ready", "view": "w", "seq": 1})
    assert tab.next("image")[0]["kind"] == kind
