"""osam's JSON and X-AnyLabeling's server protocol."""

from __future__ import annotations

import base64
import io
import itertools
import json
import threading
import warnings
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx.apps.serve import anylabeling
from sam_rlx.apps.serve.app import create_app
from sam_rlx.apps.serve.engine import Engine
from starlette.testclient import TestClient
from support import HANG_SECONDS
from support.interactive import HOST, TOKEN, client_of, predictor_of


def _generate(client: TestClient, image: str, prompt: Any, model: str = "sam-nano") -> Any:
    return client.post("/api/generate", json={"model": model, "image": image, "prompt": prompt})


def test_osam_classes_read_the_answers(
    client: TestClient, png_text: str, image: np.ndarray, model: sam_rlx.Model
) -> None:
    types = pytest.importorskip("osam.types", reason="osam judges its own JSON")
    request = types.GenerateRequest(
        model="sam-nano:latest",
        image=image,
        prompt=types.Prompt(points=[[60, 60], [150, 100]], point_labels=[1, 0]),
    )
    body = {
        "model": request.model,
        "image": png_text,
        "prompt": request.prompt.model_dump(),
    }
    answer = client.post("/api/generate", json=body)
    assert answer.status_code == 200, answer.text
    raw = answer.json()
    for annotation in raw["annotations"]:  # its class of answers takes arrays
        pixels = Image.open(io.BytesIO(base64.b64decode(annotation["mask"])))
        annotation["mask"] = np.asarray(pixels) > 0
    response = types.GenerateResponse.model_validate(raw)
    (annotation,) = response.annotations
    found = predictor_of(model, image).predict(
        point_coords=[[60, 60], [150, 100]], point_labels=[1, 0], multimask_output=False
    )
    box, mask = annotation.bounding_box, np.zeros(image.shape[:2], bool)
    mask[box.ymin : box.ymax + 1, box.xmin : box.xmax + 1] = annotation.mask
    np.testing.assert_array_equal(mask, found.masks[0])
    assert annotation.score == pytest.approx(found.iou_predictions[0])


def test_osam_box_is_two_corners(
    client: TestClient, png_text: str, image: np.ndarray, model: sam_rlx.Model
) -> None:
    prompt = {"points": [[90, 90], [30, 30]], "point_labels": [3, 2]}
    (annotation,) = _generate(client, png_text, prompt).json()["annotations"]
    found = predictor_of(model, image).predict(box=[30, 30, 90, 90], multimask_output=False)
    rows, columns = np.nonzero(found.masks[0])
    assert annotation["bounding_box"] == {
        "xmin": columns.min(),
        "ymin": rows.min(),
        "xmax": columns.max(),
        "ymax": rows.max(),
    }


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        (5, "prompt"),
        ({}, "points"),
        ({"texts": []}, "texts"),
        ({"points": [[1, 2]], "point_labels": []}, "point_labels"),
        ({"points": [[1, 2]], "point_labels": [7]}, "point_labels"),
        ({"points": [[1, 2]], "point_labels": [2]}, "box"),
        ({"points": [[1, "a"]], "point_labels": [1]}, "points"),
        ({"points": [[1, 1e999]], "point_labels": [1]}, "points"),
        ({"points": "abc", "point_labels": [1]}, "points"),
        ({"texts": ["a"]}, "texts"),
    ],
)
def test_osam_refuses_wrong_prompts(
    client: TestClient, png_text: str, prompt: Any, reason: str
) -> None:
    answer = client.post(
        "/api/generate",
        content=json.dumps({"model": "sam-nano", "image": png_text, "prompt": prompt}),
    )
    assert answer.status_code == 400
    assert reason in answer.json()["error"]


def test_what_osam_takes_without_a_prompt(client: TestClient, png_text: str) -> None:
    """The point in the middle, by osam's own rule; no texts beside points are none."""
    middle = {"points": [[203 / 2, 151 / 2]], "point_labels": [1]}
    right = _generate(client, png_text, middle).json()
    lines = base64.encodebytes(base64.b64decode(png_text)).decode()
    assert lines.count("\n") > 1
    assert client.post("/api/generate", json={"model": "sam-nano", "image": lines}).json() == right
    for prompt in (None, {"texts": [], **middle}, {"texts": None, **middle}):
        assert _generate(client, png_text, prompt).json() == right


def test_osams_texts_thresholds_and_a_box(image: np.ndarray, png_text: str) -> None:
    """A threshold of null is none; a box beside a text is an example; without a text "visual"."""
    from sam_rlx.apps.serve.engine import Engine

    model = sam_rlx.load_model("sam3-nano")
    client = client_of(Engine({"sam3-nano": model}, num_threads=1))

    def ask(prompt: Any) -> Any:
        body = {"model": "sam3-nano", "image": png_text, "prompt": prompt}
        answer = client.post("/api/generate", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["annotations"]

    null = {"score_threshold": None, "iou_threshold": None, "max_annotations": None}
    assert ask({"texts": ["circle"], **null}) == ask({"texts": ["circle"], "score_threshold": 0})
    assert ask(None) == ask({"texts": []}) == ask({"texts": ["visual"]})
    corners = {"points": [[30, 30], [90, 90]], "point_labels": [2, 3]}
    found = ask({"texts": ["circle"], "score_threshold": 0.05, **corners})
    concepts = sam_rlx.ConceptPredictor(model, num_threads=1)
    right = concepts.predict(image, text="circle", threshold=0.05, boxes=[[30, 30, 90, 90]])
    scores = sorted((min(float(score), 1.0) for score in right.scores), reverse=True)
    assert [one["score"] for one in found] == pytest.approx(scores)
    points = {"points": [[30, 30]], "point_labels": [1]}
    body = {"model": "sam3-nano", "image": png_text, "prompt": {"texts": ["circle"], **points}}
    assert "points beside texts" in client.post("/api/generate", json=body).json()["error"]


def test_scores_lie_in_0_to_1_and_errors_keep_the_shapes(
    engine: Any, client: TestClient, png_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sam_rlx.apps.serve.limits import BusyError

    point = [{"type": "point", "data": [60, 60], "label": 1}]
    body = {"model": "sam-nano", "image": f"data:;base64,{png_text}", "params": {"marks": point}}
    shapes = client.post("/v1/predict", json=body).json()["data"]["shapes"]
    assert shapes
    assert all(0.0 <= shape["score"] <= 1.0 for shape in shapes)
    (value,) = {
        widget["value"]
        for widget in anylabeling_widgets(client, "sam-nano")
        if widget["name"] == "output_label"
    }
    assert value is None

    def busy(*_: object) -> None:
        raise BusyError("queue: expected a turn, found others")

    monkeypatch.setattr(engine, "encode", busy)
    for changed in ({}, {"model": "gone"}, {"image": "%"}):
        answer = client.post("/v1/predict", json=body | changed)
        assert answer.status_code == 200
        found = answer.json()
        assert found["success"] is False
        assert found["data"]["shapes"] == []
        assert found["data"]["replace"] is False


def anylabeling_widgets(client: TestClient, name: str) -> Any:
    return client.get("/v1/models").json()["data"][name]["widgets"]


def test_wrong_images_and_models_are_refused(client: TestClient, png_text: str) -> None:
    prompt = {"points": [[1, 2]], "point_labels": [1]}
    for image in (None, 5, "", "%%%", base64.b64encode(b"no image").decode(), "data:text,abc"):
        answer = _generate(client, image, prompt)
        assert answer.status_code == 400, image
    assert _generate(client, png_text, prompt, model="/etc/passwd").status_code == 400


def test_texts_find_instances(png_text: str, image: np.ndarray) -> None:
    sam3 = sam_rlx.load_model("sam3-nano")
    app = create_app(Engine({"sam3-nano": sam3}, num_threads=1), TOKEN, None)
    client = TestClient(app, base_url=f"http://{HOST}", headers={"Token": TOKEN})
    found = sam_rlx.ConceptPredictor(sam3).predict(image, text=["circle"], threshold=0.3)
    prompt = {"texts": ["circle"], "score_threshold": 0.3}
    answer = _generate(client, png_text, prompt, model="sam3-nano").json()["annotations"]
    assert len(answer) == len(found.scores) > 0
    assert sorted(one["score"] for one in answer) == pytest.approx(sorted(found.scores))
    assert {one["text"] for one in answer} == {"circle"}
    params = {"text_prompt": "circle", "conf_threshold": 0.3}
    body = {"model": "sam3-nano", "image": png_text, "params": params}
    shapes = client.post("/v1/predict", json=body).json()["data"]["shapes"]
    assert {shape["label"] for shape in shapes} == {"circle"}


def _filled(points: list[list[float]], hw: tuple[int, int]) -> np.ndarray:
    """Pixels inside an outline of pixel edges, by crossings of the row's middle."""
    y, x = np.mgrid[: hw[0], : hw[1]] + 0.5
    inside = np.zeros(hw, bool)
    for (x0, y0), (_, y1) in itertools.pairwise(points):
        if y0 != y1:  # a vertical edge
            inside ^= (y > min(y0, y1)) & (y < max(y0, y1)) & (x > x0)
    return inside


def test_anylabeling_shapes_cover_the_mask(
    client: TestClient, png_text: str, image: np.ndarray, model: sam_rlx.Model
) -> None:
    assert client.get("/v1/models").json()["data"]["sam-nano"]["display_name"]
    assert client.get("/v1/models/sam-nano/info").json()["data"]["model_id"] == "sam-nano"
    missing = client.get("/v1/models/none/info").json()
    assert missing["error"]["code"] == "MODEL_NOT_FOUND"
    marks = [
        {"type": "point", "data": [60, 60], "label": 1},
        {"type": "rectangle", "data": [25, 25, 95, 95]},
    ]
    body = {
        "model": "sam-nano",
        "image": f"data:image/png;base64,{png_text}",
        "params": {"marks": marks},
    }
    answer = client.post("/v1/predict", json=body).json()
    assert answer["success"] is True
    found = predictor_of(model, image).predict(
        point_coords=[[60, 60]], point_labels=[1], box=[25, 25, 95, 95], multimask_output=False
    )
    covered = np.zeros(image.shape[:2], bool)
    for shape in answer["data"]["shapes"]:
        assert shape["shape_type"] == "polygon"
        assert shape["points"][0] == shape["points"][-1]
        covered |= _filled(shape["points"], image.shape[:2])
    np.testing.assert_array_equal(covered, found.masks[0])


def test_anylabeling_shapes_leave_holes_open() -> None:
    """Its client fills an outline whole, and so does pycocotools with its export."""
    judge = pytest.importorskip("pycocotools.mask")
    mask = np.zeros((50, 70), bool)
    mask[5:40, 8:60] = True
    mask[12:30, 15:40] = mask[33, 50] = False
    mask[44:48, 2:9] = True
    lines = [np.ravel(shape["points"]).tolist() for shape in anylabeling._shapes(mask, "a", 0.5)]
    assert len(lines) == 2
    with warnings.catch_warnings():  # of its wrapper, with NumPy 2
        warnings.simplefilter("ignore", DeprecationWarning)
        found = judge.decode(judge.merge(judge.frPyObjects(lines, *mask.shape)))
    np.testing.assert_array_equal(found.astype(bool), mask)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"model": "other"}, "MODEL_NOT_FOUND"),
        ({"image": "abc"}, "INVALID_IMAGE"),
        ({"params": {"marks": [{"type": "circle"}]}}, "INFERENCE_ERROR"),
        ({"params": {"text_prompt": "cat"}}, "INFERENCE_ERROR"),
        ({"params": 5}, "INFERENCE_ERROR"),
    ],
)
def test_anylabeling_errors(
    client: TestClient, png_text: str, change: dict[str, Any], code: str
) -> None:
    body = {"model": "sam-nano", "image": png_text, "params": {"marks": []}, **change}
    answer = client.post("/v1/predict", json=body)
    assert answer.status_code == 200
    assert answer.json()["error"]["code"] == code


def test_anylabeling_has_no_video(idle_client: TestClient) -> None:
    for method, path in (("POST", "init"), ("POST", "session/prompt"), ("DELETE", "a/b")):
        answer = idle_client.request(method, f"/v1/video/{path}", json={})
        assert answer.status_code == 501
        assert answer.json()["success"] is False
        assert answer.json()["error"]["code"] == "NOT_IMPLEMENTED"


def test_requests_at_once(client: TestClient, engine: Engine, png_text: str) -> None:
    """Many threads, one image: one encoding, equal answers."""
    prompt = {"points": [[60, 60]], "point_labels": [1]}
    answers: list[Any] = []

    def ask() -> None:
        answers.append(_generate(client, png_text, prompt).json())

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert len(answers) == 6
    assert all(answer == answers[0] for answer in answers)
    assert engine.num_encoded == 1
