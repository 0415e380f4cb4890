"""What a server's clients may use, over real sockets: who vanishes, waits or reads nothing."""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import _core
from sam_rlx._internal.files.saved_arrays import MAX_UNPACKED
from sam_rlx.apps.annotator import limits as session_limits
from sam_rlx.apps.serve import server
from sam_rlx.apps.serve.app import create_app
from sam_rlx.apps.serve.connections import Visit
from sam_rlx.apps.serve.engine import Engine
from sam_rlx.apps.serve.limits import LIMITS, Limits
from sam_rlx.apps.serve.stopping import Stop
from sam_rlx.apps.serve.tabs import packed, unpacked
from support import HANG_SECONDS
from support.interactive import TOKEN, client_of
from support.jupyter import wait_for
from websockets.sync.client import ClientConnection, connect


class Live:
    """A server on a port of this machine, in threads of this process."""

    def __init__(self, model: sam_rlx.Model, limits: Limits) -> None:
        self.engine = Engine({"sam-nano": model}, num_threads=1, limits=limits)
        self.stop = Stop()
        listener = server.listen("127.0.0.1", 0)
        self.port = listener.getsockname()[1]
        hosts = frozenset(["127.0.0.1"])
        self.guard = create_app(self.engine, TOKEN, hosts, stop=self.stop)
        ready = threading.Event()
        run = partial(server.run, self.guard, listener, ready.set, self.stop, limits)
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        assert ready.wait(HANG_SECONDS)

    def socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), HANG_SECONDS)

    def ask(self, path: str, body: Any = None) -> int:
        """Return the status of an answer."""
        asking = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG_SECONDS)
        with contextlib.closing(asking):
            text = None if body is None else json.dumps(body)
            asking.request("GET" if body is None else "POST", path, text, {"Token": TOKEN})
            answer = asking.getresponse()
            answer.read()
            return answer.status

    def vanish(self, body: Any) -> None:
        """Ask, and go without waiting for an answer."""
        text = json.dumps(body).encode()
        head = f"POST /api/generate HTTP/1.1\r\nHost: 127.0.0.1\r\nToken: {TOKEN}\r\n"
        with self.socket() as asking:
            asking.sendall(f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text)

    def tab(self) -> ClientConnection:
        address = f"ws://127.0.0.1:{self.port}/session?token={TOKEN}"
        return connect(address, max_size=None, compression=None)


@contextlib.contextmanager
def running(model: sam_rlx.Model, limits: Limits) -> Iterator[Live]:
    """Run a server."""
    found = Live(model, limits)
    try:
        yield found
    finally:
        found.stop.set()
        found.thread.join(HANG_SECONDS)
    assert not found.thread.is_alive()


@pytest.fixture
def live(model: sam_rlx.Model, request: pytest.FixtureRequest) -> Iterator[Live]:
    with running(model, replace(LIMITS, **getattr(request, "param", {}))) as found:
        yield found
    _core.set_poll_hook(None)


def image_text(seed: int, side: int = 64) -> str:
    """Return an image of its own for each seed, as base64."""
    pixels = np.random.default_rng(seed).integers(0, 255, (side, side, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=1)
    return base64.b64encode(file.getvalue()).decode()


def click(seed: int) -> dict[str, Any]:
    prompt = {"points": [[20, 20]], "point_labels": [1]}
    return {"model": "sam-nano", "image": image_text(seed), "prompt": prompt}


def is_ended(given: socket.socket) -> bool:
    given.setblocking(False)
    try:
        return given.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("live", [{"strangers": 20, "header_seconds": 1.5}], indirect=True)
def test_strangers_do_not_lock_clients_out(live: Live) -> None:
    drip = live.socket()
    drip.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(live.socket()) for _ in range(60)]
        assert live.ask("/") == 200
        wait_for(lambda: sum(map(is_ended, held)) >= 40, "an end of the oldest connections")
        ended = time.monotonic() + HANG_SECONDS

        def is_cut() -> bool:  # a line of headers now and then does not help
            assert time.monotonic() < ended
            try:
                drip.sendall(b"X: a\r\n")
            except OSError:
                return True
            return is_ended(drip)

        wait_for(is_cut, "an end of slow headers")
        wait_for(lambda: all(map(is_ended, held)), "an end of silent connections")
    drip.close()
    assert live.ask("/") == 200


@pytest.mark.parametrize("live", [{"clients": 3}], indirect=True)
def test_connections_with_the_token_are_counted(live: Live) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(live.tab()).recv()
        assert live.ask("/") == 503
        assert live.ask("/health") == 200
    wait_for(lambda: live.ask("/") == 200, "room for a client")


def test_a_client_that_goes_in_its_request_leaves_no_traceback(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    with live.socket() as asking:
        head = f"POST /api/generate HTTP/1.1\r\nHost: 127.0.0.1\r\nToken: {TOKEN}\r\n"
        asking.sendall(f"{head}Content-Length: 100\r\n\r\n".encode() + b"{")
    assert live.ask("/") == 200
    wait_for(lambda: live.guard._budget.used == 0, "an end of the request")
    assert not caplog.records


def test_the_work_of_clients_that_vanish_is_not_done(live: Live) -> None:
    assert live.ask("/api/generate", click(0)) == 200
    for seed in range(2, 32):
        live.vanish(click(seed))
    assert live.ask("/api/generate", click(100)) == 200
    wait_for(lambda: len(live.engine.queue) == 0, "an empty queue")
    assert live.engine.num_encoded < 30


@pytest.mark.slow
def test_the_next_click_comes_in_time(live: Live, model: sam_rlx.Model) -> None:
    """Beside 60 clients that vanish, 260 silent connections and a tab that reads nothing.

    A second server is left in peace; both are asked in turn, since the machine has other work.
    """

    def seconds(server: Live, body: Any) -> float:
        begin = time.monotonic()
        assert server.ask("/api/generate", body) == 200
        return time.monotonic() - begin

    with contextlib.ExitStack() as stack:
        alone = stack.enter_context(running(model, LIMITS))
        for each in (alone, live):
            seconds(each, click(0))
        for _ in range(260):
            stack.enter_context(live.socket())
        stack.enter_context(reads_nothing(live))
        longer = []
        for turn in range(9):
            bodies = [click(1000 + 100 * turn + seed) for seed in range(60)]
            later = -seconds(alone, bodies[0])
            for body in bodies:
                live.vanish(body)
            longer.append(later + seconds(live, click(5000 + turn)))
    assert float(np.median(longer)) < 0.2, longer


def reads_nothing(live: Live) -> socket.socket:
    """Open a tab that asks for its image again and again, and reads none."""
    given = live.socket()
    given.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    key = base64.b64encode(bytes(16)).decode()
    heads = ("Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade")
    heads = (*heads, f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13")
    lines = (f"GET /session?token={TOKEN} HTTP/1.1", *heads, "", "")
    given.sendall("\r\n".join(lines).encode())
    given.recv(4)

    def send(head: dict[str, Any], *buffers: bytes) -> None:
        message = packed(head, buffers)
        size = len(message)
        given.sendall(b"\x82\xff" + size.to_bytes(8, "big") + bytes(4) + message)

    send({"type": "open", "names": ["a"]}, base64.b64decode(image_text(5, 700)))
    with contextlib.suppress(OSError):
        for seq in range(30):
            send({"type": "ready", "view": "v", "seq": seq})
    return given


@pytest.mark.parametrize(
    "live", [{"unread_bytes": 3_000_000}, {"stall_seconds": 1.0}], indirect=True
)
def test_a_tab_that_reads_nothing_is_ended(live: Live, monkeypatch: Any) -> None:
    ended = threading.Event()
    abort = Visit.abort

    def ending(visit: Visit) -> None:
        abort(visit)
        ended.set()

    monkeypatch.setattr(Visit, "abort", ending)
    given = reads_nothing(live)
    assert ended.wait(HANG_SECONDS)
    # The end stands behind what the system had taken before.
    given.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    with contextlib.suppress(ConnectionError):
        while given.recv(1 << 16):
            pass
    given.close()
    assert live.ask("/api/generate", click(7)) == 200


def test_the_end_of_the_server_ends_computations(live: Live, monkeypatch: Any) -> None:
    began = threading.Event()

    def endless(*_: Any) -> Any:
        began.set()
        predictor = sam_rlx.ImagePredictor(live.engine.models["sam-nano"], num_threads=1)
        pixels = np.zeros((64, 64, 3), np.uint8)
        while True:  # until the core is told to stop
            predictor.set_image(pixels)

    monkeypatch.setattr(live.engine._clicks["sam-nano"], "encode", endless)
    answers: list[int] = []
    asking = threading.Thread(
        target=lambda: answers.append(live.ask("/api/generate", click(0))), daemon=True
    )
    asking.start()
    assert began.wait(HANG_SECONDS)
    live.stop.set()
    live.thread.join(HANG_SECONDS)
    asking.join(HANG_SECONDS)
    assert answers == [503]


def test_large_json_is_refused_before_it_is_parsed(model: sam_rlx.Model) -> None:
    engine = Engine({"sam-nano": model}, limits=replace(LIMITS, json_values=1000))
    client = client_of(engine)
    for body in (b'{"a": [' + b"1," * 1000 + b"1]}", b"[" * 2000, b'{"a": "' + b"\\n" * 20000):
        answer = client.post("/api/generate", content=body)
        assert answer.status_code == 400
        assert "at most 1000 values" in answer.json()["error"]
    long = {"model": "sam-nano", "image": "A" * 100_000}
    assert "expected an image" in client.post("/api/generate", json=long).json()["error"]


def test_what_all_hold_together_is_bounded(model: sam_rlx.Model) -> None:
    engine = Engine({"sam-nano": model}, limits=replace(LIMITS, held_bytes=100_000))
    client = client_of(engine)
    assert client.post("/api/generate", content=b"{" * 100_001).status_code == 503
    assert client.post("/api/generate", content=b"{" * 99_000).status_code == 400
    with client, client.websocket_connect("ws://127.0.0.1:8765/session") as tab:
        tab.receive_bytes()
        large = base64.b64decode(image_text(3, 150))  # 68 kB, and as many pixels
        tab.send_bytes(packed({"type": "open", "names": ["a"]}, [large]))
        assert "at most 100000 bytes of all" in unpacked(tab.receive_bytes())[0]["text"]
        small = base64.b64decode(image_text(3, 60))
        tab.send_bytes(packed({"type": "open", "names": ["a"]}, [small]))
        while (head := unpacked(tab.receive_bytes())[0])["type"] != "opened":
            assert head["type"] != "error"


def test_images_of_many_pixels_are_refused_before_they_are_unpacked(model: sam_rlx.Model) -> None:
    engine = Engine({"sam-nano": model}, limits=replace(LIMITS, pixels=4000))
    client = client_of(engine)
    answer = client.post("/api/generate", json=click(0))
    assert answer.status_code == 400
    assert "at most 4000 pixels, found 64 x 64" in answer.json()["error"]
    with client, client.websocket_connect("ws://127.0.0.1:8765/session") as tab:
        tab.receive_bytes()
        tab.send_bytes(packed({"type": "open", "names": ["a"]}, [base64.b64decode(image_text(1))]))
        assert "at most 4000 pixels" in unpacked(tab.receive_bytes())[0]["text"]


@pytest.mark.source_tree
def test_the_docs_state_the_limits() -> None:
    text = (Path(__file__).parents[3] / "docs" / "serve.md").read_text(encoding="utf-8")
    lines = text.partition("\n## Limits")[2].partition("\n\n|")[2].partition("\n\n")[0].splitlines()
    rows = dict([cell.strip() for cell in line.strip(" |").split("|")] for line in lines[2:])

    def mb(count: int) -> str:
        return f"{count // 1_000_000} MB"

    at = LIMITS
    assert list(rows.values()) == [
        f"{at.header_seconds:g} s",
        f"{mb(at.body_bytes)}, {at.body_seconds:g} s",
        mb(at.held_bytes),
        f"{at.strangers}",
        f"{at.clients}",
        f"{at.stall_seconds:g} s",
        mb(at.unread_bytes),
        f"{at.tabs}",
        f"{at.images}",
        f"{at.pixels // 1_000_000} million",
        f"{at.queue}, {at.queue_seconds:g} s",
        f"{at.json_values:,}",
        f"{at.document_values:,}",
        mb(MAX_UNPACKED),
        f"{session_limits.MAX_LABELS}",
        f"{at.points}",
        f"{at.boxes}",
        f"{at.texts}",
        f"{at.tasks}",
        f"{mb(at.body_bytes)}, {at.fetch_seconds:g} s in all",
        f"{session_limits.MAX_OBJECTS:,}",
        f"{session_limits.MAX_EDITS:,} edits, {mb(session_limits.MAX_UNDO_BYTES)} of masks",
        f"{session_limits.MAX_POINTS_PER_SIDE}",
    ]
    assert at.points == session_limits.MAX_POINTS
