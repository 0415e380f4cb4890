"""The annotator's checks in notebooks, in real Chromium: JupyterLab, in short Notebook 7.

Those of keys, layout, broken images, classes, answers and points run there too, from the files of
the page's tests: what differs is the parameter "lab/tree" or "notebooks".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sam_rlx.apps.annotator.lock import ProjectLock
from sam_rlx.apps.annotator.store import FOLDER_PROJECT
from support.jupyter import wait_for
from support.views import DISCS, NotebookView, View, after, disc_at, masks, moving_discs

pytestmark = [pytest.mark.timeout(1200)]


@pytest.fixture
def view(chrome: Any, server: Any) -> Iterator[NotebookView]:
    found = NotebookView(chrome, server)
    yield found
    found.close()


def known(view: View) -> list[Any]:
    now, found = view.idle(), masks(view)
    return [[one["name"], one["marks"], found[one["id"]].tobytes()] for one in now["objects"]]


@pytest.mark.slow
def test_reload_keeps_everything(view: NotebookView, folder: Path) -> None:
    """The notebook is loaded again: objects and image are as they were."""
    view.open(folder)
    view.key("d")
    view.idle(lambda now: now["index"] == 1)
    view.click(*DISCS[0])
    view.key("Enter")
    view.click(*DISCS[1])
    for _ in range(3):
        view.key("+")
    before = known(view)
    view.notebook.command("docmanager:save")
    view.notebook.wait_until("!window.jupyterapp.shell.currentWidget.context.model.dirty")
    view.page.reload()
    view.idle(lambda now: len(now["objects"]) == 2)
    assert view.idle()["name"] == "disc 1.png"
    assert known(view) == before


@pytest.mark.slow  # test_browser has a restart by default
@pytest.mark.parametrize("path", ["lab/tree", "notebooks"])
def test_kernel_restarted(chrome: Any, server: Any, folder: Path, path: str) -> None:
    """The old view says so; the same cell goes on with all that there was."""
    view = NotebookView(chrome, server, path)
    view.open(folder)
    view.click(*DISCS[0])
    view.key("Enter")
    before = known(view)
    view.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    view.until(lambda now: now["link"] == "gone")
    assert view.said() == "The kernel was restarted: run the cell again, your work is kept."
    old = (view.peek() or {})["view"]
    view.run_cell()
    view.idle(lambda now: now["view"] != old and len(now["objects"]) == 1)
    assert known(view) == before
    view.key("Control+z")  # the history is there too
    view.idle(lambda now: now["objects"] == [])
    view.close()


@pytest.mark.slow
def test_two_views_of_one_session(view: NotebookView, folder: Path) -> None:
    """Two views of a widget, and Python, mean objects by number; undo of one is seen in all."""
    view.open(folder)
    for disc in DISCS:
        view.click(*disc)
        view.key("Enter")
    view.notebook.command("notebook:insert-cell-below")
    assert view.run("w.delete(1); print([one.number for one in w.objects])") == [2, 3]
    view.idle(lambda now: [one["id"] for one in now["objects"]] == [2, 3])
    view.page.locator(".srx-objects .srx-object").first.click()
    view.idle(lambda now: now["current"] == 2)
    view.key("Delete")
    view.idle(lambda now: [one["id"] for one in now["objects"]] == [3])
    view.run("w.undo()")
    view.idle(lambda now: [one["id"] for one in now["objects"]] == [2, 3])


@pytest.mark.slow
def test_two_processes_of_one_folder(
    chrome: Any, servers: Any, view: NotebookView, folder: Path
) -> None:
    """A notebook and a page on one folder: one writes, the other reads until it takes over."""
    view.open(folder)
    view.click(*DISCS[0])
    view.key("Enter")
    assert ProjectLock(folder / FOLDER_PROJECT).acquire() is not None
    server = servers(str(folder))
    page = View(chrome, server.project(folder))
    page.idle(lambda now: len(now["objects"]) == 1)
    wait_for(lambda: page.saved() == "Read only", "a mark")
    page.page.get_by_text("Take over", exact=True).click()
    wait_for(lambda: page.saved() == "Saved", "an answer")
    page.click(*DISCS[1])
    view.canvas.click(*DISCS[2])
    wait_for(lambda: view.saved() == "Read only", "the end of its turn")
    assert len(list(folder.glob("sam_rlx.project (*).json"))) == 1
    page.close()


@pytest.mark.slow
def test_undo_of_results(view: NotebookView, folder: Path) -> None:
    """Everything mode, a loaded file, a repair: each is one step back, and comes again."""
    view.open(folder)
    view.click(*DISCS[2])
    view.key("Enter")

    def all_of() -> list[Any]:
        return [*known(view), view.idle()["layer"]]

    def back_and_forth(act: Any) -> None:
        before = all_of()
        act()
        done = all_of()
        assert done != before
        after(view, lambda: view.key("Control+z"))
        assert all_of() == before
        after(view, lambda: view.key("Control+Shift+z"))
        assert all_of() == done

    def found() -> None:
        view.key("g")
        view.idle(lambda now: now["layer"])

    back_and_forth(found)
    back_and_forth(lambda: after(view, lambda: view.key("k")))
    view.run("w.save('all.json')")
    back_and_forth(lambda: after(view, lambda: view.run("w.load('all.json')")))
    view.page.locator(".srx-objects .srx-object").first.click()
    view.idle(lambda now: now["current"] is not None)
    back_and_forth(lambda: after(view, lambda: view.run("w.smooth(radius=9)")))


@pytest.mark.slow
def test_clip_in_background(chrome: Any, server: Any, tmp_path: Path) -> None:
    """Clicks, hovers and undo while a clip is tracked leave the track as it is without them."""
    frames, counts = 60, []
    view = NotebookView(chrome, server, model="sam2-nano")
    for disturbed in (False, True):
        path = moving_discs(tmp_path / f"clip {disturbed}.gif", frames)
        view.open(path)
        view.click(*disc_at(0, 0))
        view.key("Enter")
        view.page.keyboard.press("t")
        view.until(lambda now: now["running"])
        if disturbed:
            view.canvas.move(*disc_at(1, 0))
            view.until(lambda now: now["hover"])
            view.goto(30)
            view.until(lambda now: now["frame"] == 30 and now["drawn"])
            view.canvas.click(*disc_at(1, 30))
            view.until(lambda now: len(now["objects"]) == 2)
            view.page.keyboard.press("Control+z")
            view.until(lambda now: len(now["objects"]) == 1)
        view.idle(lambda now: not now["running"])
        code = (
            "import hashlib\n"
            f"parts = [w.masks(t)['object 1'].tobytes() for t in range({frames})]\n"
            "print(json.dumps(hashlib.sha256(b''.join(parts)).hexdigest()))"
        )
        counts.append(view.run(code))
    assert counts[0] == counts[1]
    view.close()


@pytest.mark.slow
def test_speed_and_memory(view: NotebookView, folder: Path) -> None:
    """Hovers and clicks leave the memory of the kernel where it was."""
    view.open(folder)
    code = "print(int(open('/proc/self/status').read().partition('VmRSS:')[2].split()[0]) // 1024)"
    begun = 0
    for number in range(200):
        if number == 60:
            begun = view.run(code)
        x, y = 20 + (number * 37) % 280, 20 + (number * 53) % 200
        view.canvas.move(x, y)
        view.peek()
        if number % 5 == 0:
            view.canvas.click(x, y)
            view.key("Control+z")
    view.idle()
    assert view.run(code) - begun < 40
