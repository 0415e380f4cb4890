"""Projects of the page: an address each, kept over reloads, tabs, and ends of the server."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sam_rlx.apps.annotator.lock import holder_of, lock_of
from sam_rlx.apps.annotator.projects import state_folder
from sam_rlx.apps.annotator.store import FOLDER_PROJECT
from sam_rlx.apps.serve import kept
from sam_rlx.errors import InvalidArgumentError
from starlette.testclient import TestClient
from support.interactive import HOST, SESSION, TOKEN, Server
from support.jupyter import PATIENCE, Canvas, wait_for

from .test_serve_tabs import Tab

CLICK = {"type": "click", "view": "v", "x": 60, "y": 60, "label": 1}


def other(seed: int) -> bytes:
    """Return another image: the bytes of a PNG file."""
    pixels = np.random.default_rng(seed).integers(0, 255, (41, 57, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def begin(tab: Tab, head: dict[str, Any], *files: bytes) -> dict[str, Any]:
    tab.send(head, *files)
    opened, _ = tab.next("opened")
    tab.send({"type": "ready", "view": "v", "seq": 1})
    return opened


def objects(tab: Tab, seq: int, view: str = "v") -> list[Any]:
    while (head := tab.next("state")[0])["answer"] != {"view": view, "seq": seq}:
        pass
    return list(head["objects"])


def test_a_project_is_shown_by_other_tabs(client: TestClient, png: bytes) -> None:
    with client, client.websocket_connect(SESSION) as a:
        first = Tab(a)
        opened = begin(first, {"type": "open", "names": ["a.png"]}, png)
        assert re.fullmatch("[0-9a-f]{16}", opened["project"])
        first.send({**CLICK, "seq": 2})
        assert len(objects(first, 2)) == 1
        holder = holder_of(lock_of(kept.folder_of(opened["project"]) / FOLDER_PROJECT))
        assert holder.pid == os.getpid()
        assert holder.address == f"http://{HOST}/p/{opened['project']}"
        resume = {"type": "resume", "project": opened["project"], "item": opened["item"]}
        with client.websocket_connect(SESSION) as b:
            second = Tab(b)
            again = begin(second, resume)
            assert again["item"] == opened["item"]
            assert len(second.next("state")[0]["objects"]) == 1
            second.send({"type": "delete", "view": "w", "seq": 2, "object": 1})
            assert objects(second, 2, "w") == []
            while first.next("state")[0]["objects"]:
                pass
            second.send({"type": "undo", "view": "w", "seq": 3})
            assert len(objects(second, 3, "w")) == 1
    with client, client.websocket_connect(SESSION) as c:
        third = Tab(c)
        begin(third, resume)
        assert len(third.next("state")[0]["objects"]) == 1


def test_the_queue_only_grows(client: TestClient, png: bytes) -> None:
    with client, client.websocket_connect(SESSION) as socket:
        tab = Tab(socket)
        opened = begin(tab, {"type": "open", "names": ["a.png", "b.png"]}, png, other(1))
        more = {"type": "open", "project": opened["project"]}
        names = ["b.png", "a.png", "c/d\\a.png", "../../e.png"]
        files = other(1), other(2), png, other(3)
        again = begin(tab, {**more, "names": names}, *files)
        # b.png is there; a.png has other content; the third is the first one again.
        assert again["count"] == 4
        listed = kept.listed()
        assert [(one["id"], one["images"]) for one in listed] == [(opened["project"], 4)]
        assert listed[0]["done"] == 0
        tab.send({"type": "done", "view": "v", "seq": 2, "key": opened["item"]})
        wait_for(lambda: kept.listed()[0]["done"] == 1, "a line of the log")
        folder = state_folder() / "pages" / opened["project"]
        assert {path.parent for path in folder.rglob("*") if path.is_file()} == {
            folder,
            folder / "files",
        }


def test_broken_images_are_named_and_mended(client: TestClient, png: bytes) -> None:
    with client, client.websocket_connect(SESSION) as socket:
        tab = Tab(socket)
        names = [f"{k}.png" for k in range(3)]
        opened = begin(tab, {"type": "open", "names": names}, png, other(1)[:300], other(2))
        tab.send({"type": "image", "view": "v", "seq": 2, "index": 1})
        while (head := tab.next("image")[0])["index"] == 0:
            pass
        assert head["index"] == 2
        assert "1.png cannot be read" in tab.next("note")[0]["text"]
        more = {"type": "open", "project": opened["project"]}
        again = begin(tab, {**more, "names": ["1.png", "0.png"]}, other(1), b"no image")
        assert again["count"] == 3


@pytest.mark.parametrize("identity", ["../a", "", "0" * 15, "0" * 16, 5, None, ["0"], "\0" * 16])
def test_no_message_names_a_folder(client: TestClient, png: bytes, identity: Any) -> None:
    with client, client.websocket_connect(SESSION) as socket:
        tab = Tab(socket)
        for head in (
            {"type": "resume", "project": identity},
            {"type": "remove", "project": identity},
        ):
            if head["type"] == "remove" and identity == "0" * 16:
                continue  # nothing is there
            tab.send(head)
            with pytest.raises(AssertionError, match="project: expected"):
                tab.next("opened")
        tab.open(png)
        assert tab.click(60, 60, seq=2).any()


def test_projects_are_removed_when_no_tab_shows_them(client: TestClient, png: bytes) -> None:
    with client, client.websocket_connect(SESSION) as a:
        first = Tab(a)
        opened = begin(first, {"type": "open", "names": ["a.png"]}, png)
        remove = {"type": "remove", "project": opened["project"]}
        first.send(remove)
        with pytest.raises(AssertionError, match="no tab shows"):
            first.next("projects")
    with client, client.websocket_connect(SESSION) as b:
        second = Tab(b)
        wait_for(lambda: not kept.is_shown(opened["project"]), "the end of the tab")
        second.send(remove)
        assert second.next("projects")[0]["projects"] == []
    assert not kept.folder_of(opened["project"]).exists()


def test_the_state_folder_is_bounded(
    client: TestClient, png: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MAX_BYTES", len(png) + 10)
    with client, client.websocket_connect(SESSION) as socket:
        tab = Tab(socket)
        begin(tab, {"type": "open", "names": ["a.png"]}, png)
        tab.send({"type": "open", "names": ["a.png"]}, png)
        with pytest.raises(AssertionError, match="remove projects that are done"):
            tab.next("opened")
    assert len(kept.listed()) == 1


def test_names_of_files() -> None:
    names = {"a.png": "a.png", "../b": "b", "c\\d": "d", "/": "image", "..": "image", "e\0f": "f"}
    assert {name: kept.plain_name(name) for name in names} == names
    with pytest.raises(InvalidArgumentError):
        kept.folder_of("../x")


def test_the_page_of_a_project(client: TestClient) -> None:
    """The page is the same; its script lies where it lay."""
    for path, script in (
        (f"/{TOKEN}/p/{'0' * 16}", "../page.js"),
        (f"/p/{'0' * 16}?token={TOKEN}", f"../{TOKEN}/page.js"),
        (f"/{TOKEN}/", "page.js"),
    ):
        answer = client.get(path, headers={"Token": ""})
        assert answer.status_code == 200, path
        assert f'src="{script}"' in answer.text, path


# ------------------------------------------------------------------ in a browser


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.kill()


def shown(page: Any, count: int) -> Any:
    """Wait until a page shows so many objects, and return what it shows."""

    def found() -> Any:
        root = page.locator(".srx")
        seen = root.first.evaluate("(root) => root.front?.peek()") if root.count() else None
        return seen if seen and not seen["busy"] and len(seen["objects"]) == count else None

    return wait_for(found, f"{count} objects")


def outbox(page: Any) -> int:
    """Return how many gestures wait for an answer."""
    return int(page.evaluate("() => document.querySelector('.srx').front.peek().outbox"))


@pytest.mark.timeout(600)
def test_work_is_kept_over_a_reload_a_kill_and_in_a_second_tab(
    chrome: Any, server: Server, tmp_path: Path, png: bytes
) -> None:
    (tmp_path / "a.png").write_bytes(png)
    (tmp_path / "b.png").write_bytes(other(1))
    context = chrome.new_context(viewport={"width": 900, "height": 800})
    page = context.new_page()
    page.goto(server.address)
    page.locator(".srx-openfiles").wait_for(timeout=1000 * PATIENCE)
    page.set_input_files("input.srx-files", [str(tmp_path / "a.png")])
    shown(page, 0)
    Canvas(page).click(60, 60)
    shown(page, 1)
    page.set_input_files("input.srx-files", [str(tmp_path / "b.png")])
    wait_for(lambda: shown(page, 0)["count"] == 2, "a second image")
    Canvas(page).press("PageUp")
    assert shown(page, 1)["name"] == "a.png"
    page.reload()
    assert shown(page, 1)["name"] == "a.png"
    address = page.url
    assert re.search(rf"/{TOKEN}/p/[0-9a-f]{{16}}#item=[0-9a-f]{{16}}$", address)
    server.kill()
    wait_for(lambda: "Reconnecting" in page.inner_text(".srx-badge"), "a page that reconnects")
    Canvas(page).click(150, 100)
    assert outbox(page) == 1
    server.start()
    shown(page, 2)
    wait_for(lambda: outbox(page) == 0, "an empty outbox")
    second = context.new_page()
    second.goto(address)
    shown(second, 2)
    Canvas(second).press("j")
    Canvas(second).press("Delete")
    shown(second, 1)
    assert [one["id"] for one in shown(page, 1)["objects"]] == [2]
    context.close()
