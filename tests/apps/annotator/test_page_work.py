"""Work is kept, in real Chromium on the page: reloads, kills, tabs, processes, disks, files."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sam_rlx.apps.annotator.store import FOLDER_PROJECT
from sam_rlx.apps.serve.tabs import unpacked
from support.cases import quick
from support.interactive import Server
from support.jupyter import wait_for
from support.views import DISCS, View, after, discs, masks, painted

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
def server() -> Iterator[Server]:
    """One that is ended and begun again."""
    running = Server()
    yield running
    running.kill()


def known(view: View) -> list[Any]:
    """Return all that is known of the objects of the shown image, with their masks."""
    now = view.idle()
    parts = ("id", "name", "class", "locked", "marks", "boxes")
    found = masks(view)
    return [[[one[part] for part in parts], found[one["id"]].tobytes()] for one in now["objects"]]


# ------------------------------------------------------------------ the same page again


@pytest.mark.parametrize("moment", ["a drag", "encoding"])
def test_reload_keeps_everything(chrome: Any, address: str, folder: Path, moment: str) -> None:
    """Objects, image and zoom are as they were, whatever was going on."""
    view = View(chrome, address)
    view.open(*sorted(folder.iterdir()))
    view.key("d")
    view.idle(lambda now: now["index"] == 1)
    view.click(*DISCS[0])
    view.key("Enter")
    view.click(*DISCS[1])
    before = known(view)
    for _ in range(3):
        view.key("+")
    seen = view.idle()
    if moment == "a drag":
        view.canvas.move(*DISCS[2])
        view.page.mouse.down()
        view.page.mouse.move(700, 300)
    else:
        view.page.keyboard.press("d")  # the next image is encoded
        wait_for(lambda: (view.peek() or {}).get("index") == 2, "the next image")
    view.page.reload()
    wait_for(view.peek, "the image")
    if moment == "encoding":
        assert view.idle()["index"] == 2
        view.key("a")
        view.idle(lambda now: now["index"] == 1)
    now = view.idle(lambda now: len(now["objects"]) == 2)
    assert now["name"] == "disc 1.png"
    assert known(view) == before
    if moment == "a drag":
        at = pytest.approx([seen[part] for part in ("scale", "left", "top")], abs=0.6)
        # Once the view lay 34.5 pixels lower right after the reload: why is not known.
        view.idle(lambda now: [now[part] for part in ("scale", "left", "top")] == at)
    view.close()


class Line:
    """The messages of a server on their way to a page, which can be held up."""

    def __init__(self, view: View) -> None:
        self.held: list[tuple[Any, bytes]] | None = None
        self._kinds: tuple[str, ...] = ()
        self._ends: list[Any] = []
        view.page.route_web_socket("**/session", self._route)

    def _route(self, socket: Any) -> None:
        server = socket.connect_to_server()
        server.on_message(lambda message: self._hand(socket, message))
        self._ends = [server, socket]

    def _hand(self, socket: Any, message: bytes) -> None:
        if self.held is not None and (self.held or unpacked(message)[0]["type"] in self._kinds):
            self.held.append((socket, message))
        else:
            socket.send(message)

    def hold(self, *kinds: str) -> None:
        """Hold the next message of one of these types, and all behind it."""
        self._kinds, self.held = kinds, []

    def release(self) -> None:
        held, self.held = self.held or [], None
        for socket, message in held:
            socket.send(message)

    def cut(self) -> None:
        """Break the connection."""
        for end in self._ends:
            end.close()


def test_an_image_is_not_at_rest_before_its_objects(
    chrome: Any, address: str, folder: Path
) -> None:
    """Between the message with an image and the one with its objects the view waits."""
    view = View(chrome, "about:blank")
    line = Line(view)
    view.go(address)
    view.open(*sorted(folder.iterdir())[:2])
    view.click(*DISCS[0])
    view.key("Enter")
    view.key("d")
    view.idle(lambda now: now["index"] == 1)
    line.hold("state", "edit")
    view.page.keyboard.press("a")
    now = view.until(lambda now: now["index"] == 0 and now["drawn"] and line.held)
    assert (now["busy"], now["objects"]) == (True, [])
    line.release()
    assert len(view.idle()["objects"]) == 1
    line.hold("state", "edit")
    view.page.reload()  # the same where a page begins
    now = view.until(lambda now: now["index"] == 0 and now["drawn"] and line.held)
    assert (now["busy"], now["objects"]) == (True, [])
    line.release()
    assert len(view.idle()["objects"]) == 1
    view.close()


def test_what_is_done_before_a_session_is_there_again(
    chrome: Any, address: str, folder: Path
) -> None:
    """After a break a click waits for the session, and for what was current."""
    view = View(chrome, "about:blank")
    line = Line(view)
    view.go(address)
    view.open(*sorted(folder.iterdir())[:1])
    view.click(*DISCS[0])
    line.hold("opened")
    line.cut()
    view.until(lambda now: line.held)
    assert view.peek()["link"] == "down"  # type: ignore[index]
    view.canvas.click(DISCS[0][0] + 9, DISCS[0][1] + 7)
    view.until(lambda now: now["outbox"] == 1)
    line.release()
    (one,) = view.settled()["objects"]
    assert one["points"] == 2
    assert view.said() == ""
    view.close()


def test_open_adds_to_the_queue(view: View, folder: Path, tmp_path: Path) -> None:
    """Files, dropped and pasted images, a folder: all are added, and nothing goes."""
    first, second, third = sorted(folder.iterdir())
    view.open(first)
    view.click(*DISCS[0])
    before = known(view)
    assert view.open(second)["count"] == 2
    view.drop(third)
    view.idle(lambda now: now["count"] == 3)
    view.drop(discs(tmp_path / "pasted.png", 4), "paste")
    view.idle(lambda now: now["count"] == 4)
    for name in ("cam0", "cam1"):  # equal names, other contents
        camera = tmp_path / "cameras" / name
        camera.mkdir(parents=True)
        discs(camera / "0001.png", 5 + int(name[-1]))
    view.page.set_input_files("input.srx-folder", str(tmp_path / "cameras"))
    view.idle(lambda now: now["count"] == 6)
    view.drop(first)  # it is there
    assert view.idle(lambda now: now["name"] == first.name)["count"] == 6
    seen = set()
    for index in range(6):
        view.to(index)
        seen.add(view.idle()["key"])
    assert len(seen) == 6
    view.to(0)
    assert known(view) == before


# ------------------------------------------------------------------ kills


def job(view: View, images: int) -> Iterator[Callable[[], Any]]:
    """Yield the steps of some work on images; each can be made while no server is there."""
    keys = view.page.keyboard

    def goes(index: int) -> Callable[[], Any]:
        return lambda: view.to(index)

    def paint() -> None:
        keys.press("b")
        painted(view, (140.0, 150.0), (165.0, 141.0), (170.0, 150.0))
        keys.press("s")

    for index in range(images):
        yield goes(index)
        yield lambda: view.canvas.click(*DISCS[0])
        yield lambda: view.canvas.click(DISCS[0][0] + 55, DISCS[0][1], button="right")
        yield lambda: keys.press("Enter")
        yield lambda: view.canvas.drag((175, 50), (246, 128))
        yield lambda: keys.press("Enter")
        yield lambda: view.canvas.click(*DISCS[2])
        yield paint
        yield lambda: keys.press("Control+z")
        yield lambda: keys.press("q")
        yield lambda: keys.press("Enter")


def worked(view: View, folder: Path, images: int, break_it: Callable[[int], None]) -> list[Any]:
    """Do the job, calling `break_it` with the number of each step; return what is there."""
    view.open(*sorted(folder.iterdir()))
    for number, step in enumerate(job(view, images)):
        break_it(number)
        step()
        view.settled()
    found = []
    for index in range(images):
        view.to(index)
        view.settled()
        found.append(known(view))
    return found


@pytest.mark.parametrize(("kills", "images"), quick([(2, 1), (20, 3)], 0))
def test_server_killed_twenty_times(
    chrome: Any, server: Server, folder: Path, kills: int, images: int
) -> None:
    """Killed at random moments of some work, the end is that of the undisturbed work."""
    view = View(chrome, server.address)
    undisturbed = worked(view, folder, images, lambda number: None)
    assert [len(one) for one in undisturbed] == [3] * images
    view.close()
    chance = random.Random(kills)
    steps = set(chance.sample(range(1, 11 * images), kills))
    timers: list[threading.Thread] = []

    def break_it(number: int) -> None:
        if number not in steps:
            return
        for timer in timers:
            timer.join()
        if chance.random() < 0.3:  # the work goes on for a while without a server
            server.kill()
        pause = chance.uniform(0, 0.4)
        timers.append(threading.Timer(pause, lambda: (server.kill(), server.start())))
        timers[-1].start()

    view = View(chrome, server.address)
    disturbed = worked(view, folder, images, break_it)
    for timer in timers:
        timer.join()
    for one, other in zip(disturbed, undisturbed, strict=True):
        assert [told for told, _ in one] == [told for told, _ in other]
        assert one == other
    view.close("WebSocket")


def test_escape_after_a_restart(chrome: Any, server: Server, folder: Path) -> None:
    """What was not kept before a server ended is taken back after it: a new object, or points."""
    view = View(chrome, server.address)
    view.open(*sorted(folder.iterdir())[:1])

    def restarted() -> None:
        server.kill()
        server.start()
        view.settled()

    view.click(*DISCS[0])
    view.key("Enter")
    before = known(view)
    view.click(*DISCS[1])
    restarted()
    after(view, lambda: view.page.keyboard.press("Escape"))
    assert known(view) == before
    view.key("j")
    view.click(DISCS[0][0] + 55, DISCS[0][1], button="right")
    assert known(view) != before
    restarted()
    view.click(DISCS[0][0] + 9, DISCS[0][1] + 7)
    restarted()
    after(view, lambda: view.page.keyboard.press("Escape"))
    assert known(view) == before
    view.close("WebSocket")


def test_closed_tab_opened_by_address(chrome: Any, server: Server, folder: Path) -> None:
    """The next day the address shows the work, and the images that were dropped."""
    view = View(chrome, server.address)
    for path in sorted(folder.iterdir()):
        view.drop(path)
        view.idle(lambda now, path=path: path.name in [item[0] for item in now["items"]])
    view.to(1)
    view.click(*DISCS[1])
    view.key("Enter")
    before, address = known(view), view.page.url
    view.close()
    server.stop()
    server.start()
    for path in folder.iterdir():
        path.unlink()
    view = View(chrome, address)
    now = view.idle(lambda now: len(now["objects"]) == 1)
    assert (now["index"], now["count"], now["name"]) == (1, 3, "disc 1.png")
    assert known(view) == before
    view.canvas.page.mouse.move(3, 3)
    blue = view.canvas.pixel(DISCS[1][0] + 0.5, DISCS[1][1] + 0.5)
    assert blue[2] > blue[0]
    view.to(0)
    assert view.click(*DISCS[0])["objects"]
    view.close()


# ------------------------------------------------------------------ tabs and processes


def test_two_views_of_one_session(chrome: Any, address: str, folder: Path) -> None:
    """Objects are meant by number; each tab takes back what it shows, and has its own image."""
    first = View(chrome, address)
    first.open(*sorted(folder.iterdir()))
    first.page.locator(".srx-others input").click()
    for dx in (-15, -5, 5, 15):
        first.page.keyboard.down("Alt")
        first.click(DISCS[0][0] + dx, DISCS[0][1])
        first.page.keyboard.up("Alt")
        first.key("Enter")
    second = View(chrome, first.page.url)
    second.idle(lambda now: len(now["objects"]) == 4)

    def remove(view: View, name: str) -> None:
        row = view.page.locator(".srx-objects .srx-object").filter(has_text=name)
        row.hover()
        row.locator("button").nth(2).click()

    remove(first, "object 1")
    second.idle(lambda now: [one["id"] for one in now["objects"]] == [2, 3, 4])
    remove(second, "object 2")  # the last edit, whichever tab the server hears first
    for view in (first, second):
        view.idle(lambda now: [one["id"] for one in now["objects"]] == [3, 4])
    second.to(1)
    second.click(*DISCS[1])
    first.key("Control+z")
    first.idle(lambda now: [one["id"] for one in now["objects"]] == [2, 3, 4])
    assert [one["id"] for one in second.idle()["objects"]] == [1]
    assert (first.idle()["index"], second.idle()["index"]) == (0, 1)
    second.key("e")
    assert first.idle()["tool"] == "click"
    first.close()
    second.close()


def test_two_processes_of_one_folder(chrome: Any, servers: Any, folder: Path) -> None:
    """One writes; the other says who, and takes over; what the first made then is set aside."""
    one, other = servers(str(folder)), servers(str(folder))
    first = View(chrome, one.project(folder))
    first.click(*DISCS[0])
    first.key("Enter")
    second = View(chrome, other.project(folder))
    second.idle(lambda now: len(now["objects"]) == 1)
    wait_for(lambda: second.saved() == "Read only", "a mark")
    assert str(one.process.pid) in second.said()
    second.canvas.click(*DISCS[1])
    wait_for(lambda: "is open in" in second.said(), "a sentence")
    assert len(second.idle()["objects"]) == 1
    with second.context.expect_page() as opened:
        second.page.get_by_text("Go to its address", exact=True).click()
    there = opened.value
    objects = "document.querySelector('.srx')?.front?.peek()?.objects.length"
    wait_for(lambda: there.evaluate(objects) == 1, "the project at its address")
    assert there.url.startswith(one.project(folder))
    assert there.locator("span.srx-saved").inner_text() == "Saved"
    there.close()
    second.page.get_by_text("Take over", exact=True).click()
    wait_for(lambda: second.saved() == "Saved", "an answer")
    second.click(*DISCS[1])
    first.canvas.click(*DISCS[2])
    wait_for(lambda: first.saved() == "Read only", "the end of its turn")
    wait_for(lambda: "sam_rlx.project (" in first.said(), "where its work is")
    assert len(list(folder.glob("sam_rlx.project (*).json"))) == 1
    second.page.reload()
    assert len(second.idle(lambda now: len(now["objects"]) == 2)["objects"]) == 2
    first.close()
    second.close()


# ------------------------------------------------------------------ disks and files


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder one that cannot be written, also by the system's administrator."""
    folder.chmod(0o555)
    mounted = False
    try:
        if os.access(folder, os.W_OK):  # an administrator
            bind = ["mount", "--bind", str(folder), str(folder)]
            if subprocess.run(bind, capture_output=True).returncode:
                pytest.skip("an administrator writes everywhere, and this one may not mount")
            mounted = True
            again = ["mount", "-o", "remount,bind,ro", str(folder)]
            subprocess.run(again, check=True, capture_output=True)
        yield
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)
        folder.chmod(0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files, and mounts")
def test_read_only_and_full_disk(chrome: Any, servers: Any, folder: Path) -> None:
    """Where nothing can be written it is said, and the work goes on; nothing is lost meanwhile."""
    full = servers(str(folder))
    view = View(chrome, full.project(folder))
    view.click(*DISCS[0])
    view.key("Enter")
    assert view.saved() == "Saved"
    _, most = resource.prlimit(full.process.pid, resource.RLIMIT_FSIZE, (0, -1))
    view.click(*DISCS[1])
    wait_for(lambda: view.saved() == "Not saved", "a mark")
    assert "Not saved: " in view.said()
    view.key("Enter")
    view.click(*DISCS[2])
    assert (view.saved(), len(view.idle()["objects"])) == ("Not saved", 3)
    resource.prlimit(full.process.pid, resource.RLIMIT_FSIZE, (-1, most))
    view.key("Enter")
    after(view, lambda: view.page.keyboard.press("Control+Enter"))
    wait_for(lambda: view.saved() == "Saved", "room on the disk")
    view.to(0)
    before = known(view)
    assert len(before) == 3
    full.kill()
    full.start()
    view.settled()
    view.to(0)
    assert known(view) == before
    view.close("WebSocket")
    full.kill()

    other = folder.with_name("shared")
    shutil.copytree(folder, other, ignore=shutil.ignore_patterns("sam_rlx*"))
    with read_only(other):
        server = servers(str(other))
        view = View(chrome, server.project(other))
        view.click(*DISCS[0])
        assert view.saved() == "Saved on this machine"
        before, where = known(view), server.project(other)
        view.close()
        server.kill()
        server.start()
        assert server.project(other) == where
        view = View(chrome, where)
        view.idle(lambda now: len(now["objects"]) == 1)
        assert known(view) == before
        view.close()
        server.kill()
        assert sorted(path.name for path in other.iterdir()) == [f"disc {k}.png" for k in range(3)]


@pytest.mark.parametrize("count", quick([4, 12], 0))
@pytest.mark.slow
def test_moved_renamed_changed_images(
    chrome: Any, servers: Any, tmp_path: Path, count: int
) -> None:
    """Objects follow the content of images; what has other content gets none silently."""
    folder = tmp_path / "cameras"
    folder.mkdir()
    for at in range(count):
        discs(folder / f"{at:02}.png", at)
    server = servers(str(folder))
    view = View(chrome, server.project(folder))
    begun: dict[int, list[Any]] = {}
    for index in range(count):
        view.to(index)
        view.click(*DISCS[index % 3])
        begun[index] = known(view)
    view.close()
    server.kill()
    moved = {at: (5 * at + 3) % count for at in range(count)}  # where each image goes
    for at in range(count):
        (folder / f"{at:02}.png").rename(folder / f"moved {at}")
    for at, to in moved.items():
        (folder / f"moved {at}").rename(folder / f"{to:02}.png")
    with Image.open(folder / f"{moved[1]:02}.png") as image:
        cropped = image.crop((0, 0, 300, 200))
    cropped.save(folder / f"{moved[1]:02}.png")
    pixels = np.random.default_rng(0).integers(0, 255, (240, 320, 3), np.uint8)
    Image.fromarray(pixels).save(folder / f"{moved[2]:02}.png")
    server.start()
    view = View(chrome, server.project(folder))
    wait_for(lambda: "their objects" in view.said(), "what has changed")
    assert all(f"{at:02}.png" in view.said() for at in (1, 2))
    assert "renamed" in view.said()
    for at, to in moved.items():
        view.to(to)
        assert view.idle()["name"] == f"{to:02}.png"
        assert known(view) == ([] if at in (1, 2) else begun[at]), at
    view.close()
    server.kill()
    assert (folder / FOLDER_PROJECT).exists()
