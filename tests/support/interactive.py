"""A server's application with a tiny model, and a browser."""

from __future__ import annotations

import base64
import io
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image

from support import HANG_SECONDS
from support.half_size import SIDES, half_size

TOKEN = "0123456789abcdef-token"
HOST = "127.0.0.1:8765"
SESSION = f"ws://{HOST}/session"


@pytest.fixture(scope="session")
def model() -> sam_rlx.Model:
    return half_size("sam-nano")


@pytest.fixture(scope="session")
def image() -> np.ndarray:
    """Two bright discs on a dark ground, of an odd size."""
    y, x = np.ogrid[:151, :203]
    pixels = np.full((151, 203, 3), 40, np.uint8)
    pixels[(y - 60) ** 2 + (x - 60) ** 2 < 30**2] = (220, 60, 50)
    pixels[(y - 100) ** 2 + (x - 150) ** 2 < 25**2] = (60, 90, 220)
    return pixels


@pytest.fixture(scope="session")
def png(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="session")
def png_text(png: bytes) -> str:
    return base64.b64encode(png).decode()


def predictor_of(model: sam_rlx.Model, image: np.ndarray) -> sam_rlx.ImagePredictor:
    """Return a predictor that has encoded an image."""
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(image)
    return predictor


@pytest.fixture
def engine(model: sam_rlx.Model) -> Any:
    pytest.importorskip("starlette", reason="sam-rlx serve")
    from sam_rlx.apps.serve.engine import Engine

    return Engine({"sam-nano": model}, num_threads=1)


@pytest.fixture
def client(engine: Any) -> Any:
    """Asks with the token."""
    return client_of(engine)


@pytest.fixture(scope="session")
def idle_engine(model: sam_rlx.Model) -> Any:
    """For tests that encode nothing."""
    from sam_rlx.apps.serve.engine import Engine

    return Engine({"sam-nano": model}, num_threads=1)


@pytest.fixture(scope="session")
def idle_client(idle_engine: Any) -> Any:
    """Asks with the token for what encodes nothing."""
    return client_of(idle_engine)


def client_of(engine: Any, **options: Any) -> Any:
    """Return a client with the token, of an application with these options."""
    from sam_rlx.apps.serve.app import create_app
    from sam_rlx.apps.serve.guard import allowed_hosts
    from starlette.testclient import TestClient

    app = create_app(engine, TOKEN, allowed_hosts("127.0.0.1"), **options)
    return TestClient(app, base_url=f"http://{HOST}", headers={"Token": TOKEN})


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    from support.jupyter import browser

    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def server(chrome: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """JupyterLab, in a folder of its own."""
    from support.jupyter import JupyterServer

    running = JupyterServer(tmp_path_factory.mktemp("jupyter"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def predictor(model: sam_rlx.Model) -> sam_rlx.ImagePredictor:
    """Has encoded the packaged image that pages show."""
    from sam_rlx.io import read_image

    coins = Path(sam_rlx.__file__).parent / "assets" / "coins.jpg"
    return predictor_of(model, read_image(coins))


def serve_command(*options: str) -> list[str]:
    """Return the command of a server with its model at half of its side."""
    model = options[options.index("--model") + 1] if "--model" in options else "sam-nano"
    side = ["--image-size", str(SIDES[model])] if model in SIDES else []
    return [sys.executable, "-m", "sam_rlx", "serve", *options, *side]


@contextmanager
def serving(*options: str) -> Iterator[str]:
    """Run ``sam-rlx serve`` in a process of its own: the address of its page."""
    command = [*serve_command(*options), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = next(filter(None, (re.match(r"page: +(\S+)", line) for line in process.stdout)))
        yield found[1]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate(timeout=HANG_SECONDS)


class Server:
    """``sam-rlx serve`` at one address and with one token, ended and begun again.

    Parameters
    ----------
    arguments : str
        Of the command: files to show where they lie, and options.
    """

    def __init__(self, *arguments: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.arguments = arguments
        self.start()

    def start(self) -> None:
        """Begin, and wait until requests are answered."""
        command = [*serve_command(*self.arguments), "--threads", "1"]
        command += ["--port", str(self.port), "--token", TOKEN]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        next(line for line in self.process.stdout if line.startswith("page:"))

    def kill(self) -> None:
        """End it as nothing can that it could prepare for."""
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate(timeout=HANG_SECONDS)

    def stop(self) -> None:
        """End it as a person does, by Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=HANG_SECONDS)
        assert self.process.returncode == 0

    @property
    def address(self) -> str:
        """Of its first page."""
        return f"http://127.0.0.1:{self.port}/?token={TOKEN}"

    def project(self, path: Path) -> str:
        """Return the address of what it shows where it lies."""
        from sam_rlx.apps.serve.local_files import local_files_of

        return f"http://127.0.0.1:{self.port}/{TOKEN}/p/{local_files_of(path).identity}"


@pytest.fixture
def servers() -> Iterator[Callable[..., Server]]:
    """Begin servers, which end with the test."""
    begun: list[Server] = []

    def begin(*arguments: str) -> Server:
        begun.append(Server(*arguments))
        return begun[-1]

    yield begin
    for one in begun:
        one.kill()
