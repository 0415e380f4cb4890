"""Values of strangers in requests: told in our words, whatever they are."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest
from sam_rlx.apps.serve.app import create_app
from sam_rlx.apps.serve.engine import Engine
from starlette.testclient import TestClient
from support.interactive import HOST, SESSION, TOKEN
from support.odd_json import ODD, changed

from .test_label_studio import CONFIG


def _requests(image: str) -> dict[str, Any]:
    value = {"x": 30.0, "y": 30.0, "width": 20.0, "height": 20.0, "rotation": 5.0}
    mark = {
        "type": "rectanglelabels",
        "original_width": 203,
        "original_height": 151,
        "from_name": "point",
        "to_name": "image",
        "image_rotation": 0,
        "value": {**value, "rectanglelabels": ["Cat"]},
    }
    point = {"type": "point", "data": [60, 60], "label": 1}
    return {
        "/api/generate": {
            "model": "sam-nano",
            "image": image,
            "prompt": {"points": [[60, 60]], "point_labels": [1]},
        },
        "/v1/predict": {
            "model": "sam-nano",
            "image": image,
            "params": {"marks": [point], "conf_threshold": 0.5},
        },
        "/predict": {
            "tasks": [{"id": 1, "data": {"photo": f"data:image/png;base64,{image}"}}],
            "label_config": CONFIG,
            "params": {"context": {"result": [mark]}},
        },
        "/setup": {"project": "1.5", "schema": CONFIG, "access_token": "a"},
    }


@pytest.mark.parametrize("odd", [ODD[::5], pytest.param(ODD, marks=pytest.mark.slow)])
def test_no_value_is_a_fault_of_the_server(engine: Engine, png_text: str, odd: list[Any]) -> None:
    app = create_app(engine, TOKEN, None, "http://127.0.0.1:9")
    client = TestClient(app, base_url=f"http://{HOST}", headers={"Token": TOKEN})
    for path, body in _requests(png_text).items():
        answer = client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        codes = set()
        for other in changed(body, odd):
            answer = client.post(path, content=json.dumps(other))
            codes.add(answer.status_code)
            if answer.status_code != 200:
                assert "expected" in str(answer.json()["error"]), other
        assert codes <= {200, 400}, path


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "[::1"},
        {"Host": "127.0.0.1:x"},
        {"Host": "[v1.a]"},
        {"Origin": "http://["},
        {"Origin": "\xff"},
        {"Content-Length": "9" * 5000},
        {"Content-Length": "-1"},
        {"Authorization": "Basic =" + "A" * 50},
        {"Authorization": "Bearer \xe4"},
        {"Token": "\xff"},
    ],
)
def test_no_header_is_a_fault_of_the_server(
    idle_client: TestClient, headers: dict[str, str]
) -> None:
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    answer = idle_client.post("/v1/predict", headers=raw, content=b"{}")  # type: ignore[arg-type]
    assert answer.status_code in (200, 403, 413)


@pytest.mark.parametrize(
    "head",
    [
        b'{"buffers": [1e999]}',
        b'{"buffers": [true]}',
        b'{"buffers": [1.5]}',
        b'{"buffers": "a"}',
        b'{"buffers": {"a": 1}}',
        b'{"buffers": null}',
        b'{"buffers": [' + b"9" * 400 + b"]}",
        b"[" * 5000,
        b'{"type": "open", "names": ["\\ud800"], "model": "sam-nano", "buffers": []}',
        b'{"type": "open", "names": 5, "buffers": []}',
        b'{"type": ["open"], "buffers": []}',
    ],
)
def test_no_message_ends_a_tab(idle_client: TestClient, head: bytes) -> None:
    with idle_client, idle_client.websocket_connect(SESSION) as socket:
        socket.receive_bytes()
        for _ in range(2):
            socket.send_bytes(len(head).to_bytes(4, "little") + head)
            assert b'"error"' in socket.receive_bytes()


def test_base64_is_read_in_parts() -> None:
    from sam_rlx._internal.files import base64_text
    from sam_rlx.errors import InvalidArgumentError

    part = base64_text._PART
    for count in (0, 1, 2, 3 * part // 4, 3 * part // 4 + 1, 3 * part):
        data = io.BytesIO(bytes(range(256)) * (count // 256 + 1)).read(count)
        text = base64.b64encode(data).decode()
        if text:
            assert base64_text.from_base64("image", text) == data
    for text in ("A" * (part - 1) + "=" + "A" * 4, "A" * part + "%", "A" * (part + 1)):
        with pytest.raises(InvalidArgumentError, match="base64"):
            base64_text.from_base64("image", text)
