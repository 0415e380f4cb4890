"""Who is answered by ``sam-rlx serve``, and what is refused."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from typing import Any

import pytest
from sam_rlx.apps.serve.app import create_app
from sam_rlx.apps.serve.engine import Engine
from sam_rlx.apps.serve.guard import allowed_hosts
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from .conftest import HOST, SESSION, TOKEN


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        ("/", {}, 403),
        ("/?token=wrong", {}, 403),
        ("/v1/models", {}, 403),
        (f"/?token={TOKEN}", {}, 200),
        (f"/{TOKEN}/", {}, 200),
        ("/v1/models", {"Token": TOKEN}, 200),
        ("/v1/models", {"Authorization": f"Bearer {TOKEN}"}, 200),
        ("/v1/models", {"Authorization": f"Token {TOKEN}"}, 200),
        (
            "/v1/models",
            {"Authorization": "Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode()},
            200,
        ),
        ("/v1/models", {"Authorization": "Basic %%%"}, 403),
        ("/health", {}, 200),
        (f"/?token={TOKEN}", {"Host": "evil.example"}, 403),
        (f"/?token={TOKEN}", {"Host": "127.0.0.1@evil.example"}, 403),
        (f"/?token={TOKEN}", {"Host": ""}, 403),
        (f"/?token={TOKEN}", {"Host": "localhost:1"}, 200),
        (f"/?token={TOKEN}", {"Origin": "http://evil.example"}, 403),
        (f"/?token={TOKEN}", {"Origin": "null"}, 403),
        (f"/?token={TOKEN}", {"Origin": f"http://{HOST}"}, 200),
        ("/health", {"Host": "evil.example"}, 403),
        (f"/nothing?token={TOKEN}", {}, 404),
        (f"/..%2f..%2fetc%2fpasswd?token={TOKEN}", {}, 404),
        (f"/{TOKEN}/../page.html", {}, 403),
        (f"/assets/../page.js?token={TOKEN}", {}, 200),  # the client has resolved it
        (f"/%2e%2e/%2e%2e/etc/passwd?token={TOKEN}", {}, 404),
    ],
)
def test_who_is_answered(
    idle_engine: Engine, path: str, headers: dict[str, str], code: int
) -> None:
    app = create_app(idle_engine, TOKEN, allowed_hosts("127.0.0.1"))
    answer = TestClient(app, base_url=f"http://{HOST}").get(path, headers=headers)
    assert answer.status_code == code
    if code == 403:
        assert "expected" in answer.json()["error"]
        assert TOKEN not in answer.text


def test_raw_paths_outside_are_not_found(idle_engine: Engine) -> None:
    """As no client would send them: the path itself climbs."""
    app = create_app(idle_engine, TOKEN, None)
    for path in ("/../../etc/passwd", "/..", "//etc/passwd", "/assets/../../pyproject.toml"):
        sent: list[dict[str, Any]] = []
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"host", HOST.encode()), (b"token", TOKEN.encode())],
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(message: Any, sent: list[dict[str, Any]] = sent) -> None:
            sent.append(message)

        asyncio.run(app(scope, receive, send))
        assert sent[0]["status"] == 404


def test_hosts_by_address() -> None:
    assert "192.168.1.5" in (allowed_hosts("192.168.1.5") or ())
    assert allowed_hosts("0.0.0.0") is None
    assert "evil.example" not in (allowed_hosts("127.0.0.1") or ())


@pytest.mark.parametrize(
    "headers", [{"Token": "wrong"}, {"Origin": "http://evil.example"}, {"Host": "evil.example"}]
)
def test_sockets_are_refused_with_a_code(idle_client: TestClient, headers: dict[str, str]) -> None:
    with idle_client.websocket_connect(SESSION, headers=headers) as socket:
        with pytest.raises(WebSocketDisconnect) as refused:
            socket.receive_bytes()
        assert refused.value.code == 4403
        assert next(iter(headers)).lower() in refused.value.reason


def _limited(engine: Engine, **limits: float) -> Any:
    """Return an application with other limits, on the models of an engine."""
    changed = replace(engine.limits, **limits)  # type: ignore[arg-type]
    return create_app(Engine(engine.models, num_threads=1, limits=changed), TOKEN, None)


def test_large_and_slow_bodies_are_refused(idle_engine: Engine) -> None:
    app = _limited(idle_engine, body_bytes=1000)
    client = TestClient(app, base_url=f"http://{HOST}", headers={"Token": TOKEN})
    assert client.post("/api/generate", content=b"x" * 1001).status_code == 413

    def parts() -> Any:  # without a length
        yield b"[" * 600
        yield b"[" * 600

    assert client.post("/api/generate", content=parts()).status_code == 413
    assert client.post("/api/generate", content=b"x" * 1000).status_code == 400
    slow = _limited(idle_engine, body_seconds=0.0)
    client = TestClient(slow, base_url=f"http://{HOST}", headers={"Token": TOKEN})
    assert client.post("/api/generate", content=b"{}").status_code == 408


def test_101_megabytes_are_too_many(idle_client: TestClient) -> None:
    answer = idle_client.post("/v1/predict", headers={"Content-Length": "101000000"}, content=b"")
    assert answer.status_code == 413


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"[" * 50_000, b"\xff\xfe"])
def test_bodies_that_are_no_objects(idle_client: TestClient, body: bytes) -> None:
    for path in ("/api/generate", "/v1/predict"):
        assert idle_client.post(path, content=body).status_code == 400
