"""Click the widget in an app of another host, in Chromium: the mask is that of the predictor.

Example: ``python tests/nightly/hosts panel``, in an environment with that host, as ``nox -s hosts``
makes them. Needs chromium on PATH.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

import anywidget
import sam_rlx
from sam_rlx import io
from support.jupyter import Canvas, browser, wait_for

from nightly.hosts.apps import ANNOTATED, HOSTS, Host

COINS = Path(sam_rlx.__file__).parent / "assets" / "coins.jpg"
POINT = (346.5, 185.5)


def area() -> int:
    """Return the pixels of the mask that the predictor gives for the click."""
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model("sam-nano"), num_threads=1)
    predictor.set_image(io.read_image(COINS))
    found = predictor.predict(point_coords=[POINT], point_labels=[1])
    return int(found.masks[found.iou_predictions.argmax()].sum())


@contextmanager
def running(host: Host, folder: Path) -> Iterator[str]:
    """Start an app; its address."""
    (folder / "annotated.py").write_text(ANNOTATED)
    for name, text in host.files.items():
        (folder / name).write_text(text)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/"
    own = {name: str(folder) for name in ("HOME", "XDG_CONFIG_HOME", "PYTHONPATH")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *(word.format(port=port) for word in host.command)],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **own, **host.environment},
            start_new_session=True,
        )

    def answers() -> bool:
        assert process.poll() is None, (folder / "log").read_text()
        try:  # a request would make Voila start a kernel
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    try:
        wait_for(answers, "the app")
        yield address
    except Exception:
        print((folder / "log").read_text()[-3000:])
        raise
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def click(page: Any, folder: Path, address: str) -> str:
    """Click, and compare what the app has; what was found."""
    page.goto(f"{address}app" if "panel" in folder.name else address)
    canvas = Canvas(page)
    canvas.wait("!f.busy")
    box = canvas.canvas.bounding_box()
    assert box["height"] > 200, box

    def state() -> Any:
        path = folder / "state.json"
        return json.loads(path.read_text()) if path.exists() else None

    canvas.click(*POINT)
    found = wait_for(state, "a mask in the app")
    assert found == [area()], found
    canvas.press("Delete")
    wait_for(lambda: state() == [], "no object in the app")
    return f"a mask of {found[0]} pixels, as the predictor's, and none when it was deleted"


def refused(page: Any, address: str) -> str:
    """Wait for the words about a host that carries no messages; these."""
    page.goto(address)
    badge = page.locator(".srx-badge")
    badge.wait_for(timeout=60_000)
    words = "this host does not carry the widget's messages"
    wait_for(lambda: words in badge.inner_text(), words)
    return words


def installed(page: Any) -> None:
    """Answer what Panel and Solara ask of a CDN, the program of anywidget, from its package."""
    program = Path(anywidget.__file__).with_name("nbextension") / "index.js"
    page.route(re.compile(r"https://.*/anywidget@"), lambda route: route.fulfill(path=program))


def attempt(name: str) -> str:
    """Try one host; what was found."""
    host = HOSTS[name]
    with (
        tempfile.TemporaryDirectory(prefix=f"{name}-") as folder,
        running(host, Path(folder)) as address,
        browser() as chrome,
    ):
        page = chrome.new_context(viewport={"width": 1100, "height": 800}).new_page()
        page.set_default_timeout(120_000)
        installed(page)
        if host.carries_messages:
            return click(page, Path(folder), address)
        return refused(page, address)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python tests/nightly/hosts", description=__doc__)
    parser.add_argument("hosts", nargs="+", choices=[*HOSTS])
    for chosen in parser.parse_args().hosts:
        print(f"{chosen}: {attempt(chosen)}", flush=True)
