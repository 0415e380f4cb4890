"""A Jupyter server and Chromium for tests of what is seen and clicked in a browser."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Far more than anything takes: tests wait for conditions, and end early when these hold.
PATIENCE = 180.0
CONTEXT = "root.querySelector('canvas.srx-view').getContext('2d')"
_EXTENSIONS = {"jupyterlab": True, "notebook": True}


def chromium() -> str:
    """Return Chromium's program; skip the test where there is none."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("there is no chromium on PATH (Debian: apt-get install chromium)")


@contextmanager
def browser() -> Iterator[Any]:
    """Start Chromium without a window."""
    program = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        running = playwright.chromium.launch(executable_path=program, args=flags)
        try:
            yield running
        finally:
            running.close()


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Return the first true value of a condition; fail with `what` when there is none in time."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)
    return found


class JupyterServer:
    """A Jupyter server of its own on the loopback device: JupyterLab and Notebook 7.

    Parameters
    ----------
    folder : Path
        Notebooks are in `folder` / "work", settings and what a kernel writes beside it.
    """

    def __init__(self, folder: Path) -> None:
        for name in ("jupyter_server", "jupyterlab", "notebook", "anywidget", "ipykernel"):
            pytest.importorskip(name, reason=f"{name} is not installed")
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.token = secrets.token_hex(12)
        self.url = ""
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        settings = self.folder / "settings"
        page = settings / "labconfig" / "page_config.json"
        page.parent.mkdir(parents=True)
        # It would ask whether to look for news.
        off = {"@jupyterlab/apputils-extension:announcements": True}
        page.write_text(json.dumps({"disabledExtensions": off}))
        shared = shared_folder()
        application = {"app_dir": str(shared / "lab"), "expose_app_in_browser": True}
        written = {
            "server": {"ServerApp": {"jpserver_extensions": _EXTENSIONS}},
            "lab": {"LabApp": application},
            "notebook": {"JupyterNotebookApp": {"expose_app_in_browser": True}},
        }
        for name, content in written.items():
            (settings / f"jupyter_{name}_config.json").write_text(json.dumps(content))
        runtime = self.folder / "runtime"
        environment = {
            **os.environ,
            "JUPYTER_CONFIG_DIR": str(settings),
            "JUPYTER_RUNTIME_DIR": str(runtime),
            "JUPYTER_DATA_DIR": str(self.folder / "data"),
            "JUPYTER_PATH": str(shared),
            "JUPYTER_PREFER_ENV_PATH": "0",
            "IPYTHONDIR": str(self.folder / "ipython"),
            "PYTHONWARNINGS": "ignore",
        }
        arguments = [
            *("--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", "--ServerApp.open_browser=False"),
            *("--allow-root", f"--ServerApp.root_dir={self.work}"),
            f"--IdentityProvider.token={self.token}",
        ]
        with (self.folder / "server.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "jupyter_server", *arguments],
                cwd=self.work,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

        def answered() -> bool:
            assert process.poll() is None, (self.folder / "server.log").read_text()
            found = list(runtime.glob("jpserver-*.json"))
            if not found:
                return False
            try:
                self.url = json.loads(found[0].read_text())["url"]
                request = f"{self.url}api/status?token={self.token}"
                with urllib.request.urlopen(request, timeout=5) as answer:
                    return bool(answer.status == 200)
            except (OSError, ValueError, KeyError):
                return False

        wait_for(answered, "the Jupyter server")
        return process

    def notebook(self, name: str, *cells: str) -> None:
        """Write a notebook with code cells."""
        document = {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {
                "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
            },
            "cells": [
                {
                    "id": f"cell{number}",
                    "cell_type": "code",
                    "metadata": {},
                    "execution_count": None,
                    "outputs": [],
                    "source": cell,
                }
                for number, cell in enumerate(cells)
            ],
        }
        (self.work / name).write_text(json.dumps(document))

    def close(self) -> None:
        """End the server and its kernels."""
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def shared_folder() -> Path:
    """Return the folder ``share/jupyter`` of the packages, which need not be `sys.prefix`'s."""
    import jupyterlab

    for folder in Path(jupyterlab.__file__).parents:
        if (folder / "share" / "jupyter" / "lab").is_dir():
            return folder / "share" / "jupyter"
    pytest.skip("the files of JupyterLab's pages are not where its package is")


class NotebookPage:
    """A notebook that is open in Chromium.

    Parameters
    ----------
    page : playwright Page
        A fresh page.
    server : JupyterServer
        Its server.
    name : str
        The notebook's file.
    path : {"lab/tree", "notebooks"}
        JupyterLab or Notebook 7.
    """

    def __init__(self, page: Any, server: JupyterServer, name: str, path: str = "lab/tree") -> None:
        self.page = page
        self.name = name
        self.requests: list[str] = []
        page.set_default_timeout(1000 * PATIENCE)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("websocket", lambda socket: self.requests.append(socket.url))
        reset = "&reset" if path == "lab/tree" else ""
        page.goto(f"{server.url}{path}/{name}?token={server.token}{reset}")
        page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        self.wait_until("window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel")

    def wait_until(self, expression: str) -> None:
        """Wait until JavaScript is true."""
        self.page.wait_for_function(f"() => !!({expression})", timeout=1000 * PATIENCE)

    def command(self, name: str) -> None:
        """Run a command of the notebook, and do not wait for its end."""
        self.page.evaluate(f"() => {{ window.jupyterapp.commands.execute('{name}'); }}")

    def run_all(self) -> None:
        """Run all cells."""
        self.command("notebook:run-all-cells")

    def cells(self) -> list[str]:
        """Return kinds and sources of all cells."""
        found: list[str] = self.page.evaluate(
            """() => [...window.jupyterapp.shell.currentWidget.content.model.cells].map(
                 cell => cell.type + ':' + cell.sharedModel.getSource())"""
        )
        return found

    def foreign(self) -> list[str]:
        """Return the addresses of requests that left this machine."""
        own = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")
        return [url for url in self.requests if not url.startswith(own)]


class Canvas:
    """The canvas of one view of a widget. What is seen of the view is what its `peek` says.

    Parameters
    ----------
    page : playwright Page
        The page.
    number : int
        Which of the views on the page.
    """

    def __init__(self, page: Any, number: int = 0) -> None:
        self.page = page
        self.root = page.locator(".srx").nth(number)  # in a shadow tree too
        self.root.wait_for(timeout=1000 * PATIENCE)
        self.wait("f?.drawn")
        self.canvas = self.root.locator("canvas.srx-view")
        self.canvas.scroll_into_view_if_needed()

    def front(self, expression: str) -> Any:
        """Return a value of what the front end shows, `f`: None before there is an image."""
        return self.root.evaluate(
            f"(root) => {{ const f = root.front?.peek(); return {expression}; }}"
        )

    def wait(self, expression: str) -> None:
        """Wait until a condition of the front end, `f`, holds."""
        wait_for(lambda: self.front(f"!!({expression})"), expression)

    def client(self, x: float, y: float) -> tuple[float, float]:
        """Return where on the page a position of the image is."""
        box = self.canvas.bounding_box()
        scale, left, top = self.front("[f.scale, f.left, f.top]")
        return box["x"] + left + x * scale, box["y"] + top + y * scale

    def move(self, x: float, y: float) -> None:
        """Move the mouse to a position of the image."""
        self.page.mouse.move(*self.client(x, y))

    def click(self, x: float, y: float, **options: Any) -> None:
        """Click at a position of the image."""
        self.page.mouse.click(*self.client(x, y), **options)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag from one position of the image to another one."""
        self.move(*start)
        self.page.mouse.down()
        self.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        self.move(*end)
        self.page.mouse.up()

    def press(self, key: str) -> None:
        """Press a key on the canvas."""
        self.canvas.focus()
        self.page.keyboard.press(key)

    def pixel(self, x: float, y: float) -> list[int]:
        """Return the colour RGB at a position of the image, as it is seen."""
        found: list[int] = self.front(
            f"[...{CONTEXT}.getImageData(Math.floor((f.left + {x} * f.scale) * f.ratio),"
            f" Math.floor((f.top + {y} * f.scale) * f.ratio), 1, 1).data].slice(0, 3)"
        )
        return found

    def pixels_hash(self) -> int:
        """Return a number that follows from all pixels that are seen."""
        found: int = self.front(
            f"{CONTEXT}.getImageData(0, 0, {CONTEXT}.canvas.width, {CONTEXT}.canvas.height).data"
            ".reduce((sum, value) => (sum * 31 + value) | 0, 7)"
        )
        return found
