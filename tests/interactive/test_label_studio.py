"""Label Studio's backend against a server that stands in for it, and its brush codes."""

from __future__ import annotations

import http.server
import importlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx import _core
from sam_rlx.apps.serve.app import create_app
from sam_rlx.apps.serve.engine import Engine
from starlette.testclient import TestClient

from .conftest import HOST, TOKEN

CONFIG = """<View>
  <!-- smart points -->
  <Image name="image" value="$photo" zoom="true"/>
  <KeyPointLabels name="point" toName="image" smart="true" smartOnly="true">
    <Label value="Cat"/><Label value="Dog"/>
  </KeyPointLabels>
  <BrushLabels name="brush" toName="image"><Label value="Cat"/><Label value="Dog"/></BrushLabels>
</View>"""


# ------------------------------------------------------------------- brush codes


def decoded(code: list[int] | bytes) -> np.ndarray:
    """Return the words of a code, by the rules of rle-pack."""
    bits = np.unpackbits(np.array(list(code), np.uint8))
    position = 0

    def read(count: int) -> int:
        nonlocal position
        value = int("".join(map(str, bits[position : position + count])) or "0", 2)
        position += count
        return value

    total, word = read(32), read(5) + 1
    lengths = [read(4) + 1 for _ in range(4)]
    words: list[int] = []
    while len(words) < total:
        repeated = read(1)
        count = read(lengths[read(2)]) + 1
        words += [read(word)] * count if repeated else [read(word) for _ in range(count)]
    return np.array(words, np.uint8)


def _random_masks(count: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(5)
    for number in range(count):
        height, width = rng.integers(1, 90, 2)
        if number % 4 == 0:
            yield rng.random((height, width)) < rng.random()
        elif number % 4 == 1:
            y, x = np.ogrid[:height, :width]
            yield (y - height / 2) ** 2 + (x - width / 3) ** 2 < rng.integers(1, 2000)
        elif number % 4 == 2:
            coarse = rng.random((height // 9 + 1, width // 9 + 1)) < 0.5
            yield coarse.repeat(9, 0).repeat(9, 1)[:height, :width]
        else:  # runs longer than a length can tell
            mask = np.full((130 + number % 7, 127), bool(number % 8 == 3))
            mask[: number % 3, : number % 5] ^= True
            yield mask


def test_codes_give_the_masks_back() -> None:
    for mask in _random_masks(60):
        words = decoded(_core.brush_code(mask)).reshape(*mask.shape, 4)
        np.testing.assert_array_equal(words, np.repeat(mask[..., np.newaxis], 4, 2) * 255)


def test_codes_are_those_of_the_sdk() -> None:
    name = "label_studio_sdk.converter.brush"
    sdk = pytest.importorskip("label_studio_sdk", reason="its encoder judges ours")
    brush = importlib.import_module(name)
    assert sdk is not None
    for mask in _random_masks(1000):
        expected = brush.mask2rle(mask.astype(np.uint8) * 255)
        assert list(_core.brush_code(mask)) == list(expected)


# ------------------------------------------------------------------- the backend


class Studio(http.server.ThreadingHTTPServer):
    """Gives one image to who has the key."""

    def __init__(self, png: bytes) -> None:
        self.png = png
        self.asked: list[tuple[str, str | None]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Studio

    def do_GET(self) -> None:
        key = self.headers.get("Authorization")
        self.server.asked.append((self.path, key))
        if self.path == "/away.png":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.2:1/stolen")
            self.end_headers()
            return
        self.send_response(200 if key == "Token secret" else 401)
        self.end_headers()
        if key == "Token secret":
            self.wfile.write(self.server.png)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def studio(png: bytes) -> Iterator[Studio]:
    server = Studio(png)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def client(engine: Engine, studio: Studio, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.delenv("LABEL_STUDIO_API_KEY", raising=False)
    app = create_app(engine, TOKEN, None, studio.address)
    client = TestClient(app, base_url=f"http://{HOST}/{TOKEN}/")
    setup = {"project": "1.5", "schema": CONFIG, "access_token": "secret", "hostname": "x"}
    assert client.post("setup", json=setup).json()["model_version"].startswith("sam_rlx sam")
    return client


def _mark(x: float, y: float, positive: int | None, kind: str = "keypointlabels") -> Any:
    value = {"x": 100 * x / 203, "y": 100 * y / 151, "width": 0.3, kind: ["Dog"]}
    mark = {"type": kind, "original_width": 203, "original_height": 151, "value": value}
    return mark if positive is None else {**mark, "is_positive": positive}


def _ask(client: TestClient, marks: Any, image: str = "/data/upload/1/a.png", **change: Any) -> Any:
    body = {
        "tasks": [{"id": 1, "data": {"photo": image}}],
        "project": "1.5",
        "label_config": CONFIG,
        "params": {"login": None, "password": None, "context": {"result": marks}},
        **change,
    }
    return client.post("predict", json=body)


def test_points_become_a_brush_region(
    client: TestClient, studio: Studio, engine: Engine, image: np.ndarray, model: sam_rlx.Model
) -> None:
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(image)
    marks = []
    for number in range(5):
        marks.append(_mark(60 + number, 60, int(number != 1)))
        answer = _ask(client, marks)
        assert answer.status_code == 200, answer.text
        (result,) = answer.json()["results"]
        (region,) = result["result"]
        assert (region["from_name"], region["to_name"]) == ("brush", "image")
        assert region["value"]["brushlabels"] == ["Dog"]
        found = predictor.predict(
            point_coords=[[60 + k, 60] for k in range(number + 1)],
            point_labels=[int(k != 1) for k in range(number + 1)],
            multimask_output=number == 0,
        )
        best = found.best()
        words = decoded(region["value"]["rle"]).reshape(151, 203, 4)
        np.testing.assert_array_equal(words[..., 3] > 0, found.masks[best.index])
        assert result["score"] == pytest.approx(best.iou_prediction)
    assert engine.num_encoded == 1
    assert set(studio.asked) == {("/data/upload/1/a.png", "Token secret")}


def test_a_rectangle_is_a_box(client: TestClient, image: np.ndarray, model: sam_rlx.Model) -> None:
    mark = _mark(30, 30, None, "rectanglelabels")
    mark["value"] |= {"width": 100 * 60 / 203, "height": 100 * 60 / 151}
    (result,) = _ask(client, [mark]).json()["results"]
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(image)
    found = predictor.predict(box=[30, 30, 90, 90], multimask_output=False)
    words = decoded(result["result"][0]["value"]["rle"]).reshape(151, 203, 4)
    np.testing.assert_array_equal(words[..., 0] > 0, found.masks[0])


@pytest.mark.parametrize("params", [None, {}, {"context": None}, {"context": {"result": []}}])
def test_without_marks_there_is_no_region(client: TestClient, studio: Studio, params: Any) -> None:
    (result,) = _ask(client, [], params=params).json()["results"]
    assert result["result"] == []
    assert studio.asked == []


@pytest.mark.parametrize(
    "address",
    [
        "http://evil.example/a.png",
        "//evil.example/a.png",
        "file:///etc/passwd",
        "s3://bucket/a.png",
        "/away.png",
        "http://127.0.0.1:1/a.png",
        "",
        None,
    ],
)
def test_images_come_from_label_studio_only(
    client: TestClient, studio: Studio, address: Any
) -> None:
    answer = _ask(client, [_mark(60, 60, 1)], address)
    assert answer.status_code == 400
    assert "expected" in answer.json()["error"]
    assert all(path == "/away.png" for path, _ in studio.asked)


@pytest.mark.parametrize(
    "change",
    [
        {"label_config": None},
        {"label_config": "<View>"},
        {"label_config": "<View/>"},
        {"label_config": '<!DOCTYPE a [<!ENTITY b "c">]>' + CONFIG},
        {"label_config": CONFIG.replace("$photo", "/etc/passwd")},
        {"tasks": [5]},
        {"params": {"context": {"result": [5]}}},
        {"params": {"context": {"result": [{"type": "keypointlabels"}]}}},
        {"params": {"context": {"result": [{**_mark(1, 1, 1), "original_width": 99}]}}},
        {"params": {"context": {"result": [{**_mark(1, 1, 1), "type": "choices"}]}}},
    ],
)
def test_what_makes_no_sense_is_refused(client: TestClient, change: Any) -> None:
    answer = _ask(client, [_mark(60, 60, 1)], **change)
    assert answer.status_code == 400


def test_webhooks_are_taken(client: TestClient) -> None:
    answer = client.post("webhook", json={"action": "ANNOTATION_CREATED"})
    assert (answer.status_code, answer.json()) == (200, {})


def test_no_backend_without_an_address(engine: Engine) -> None:
    app = create_app(engine, TOKEN, None)
    client = TestClient(app, base_url=f"http://{HOST}/{TOKEN}/")
    assert client.post("setup", json={}).status_code == 404
    with pytest.raises(sam_rlx.InvalidArgumentError, match="--label-studio"):
        create_app(engine, TOKEN, None, "ftp://a")
