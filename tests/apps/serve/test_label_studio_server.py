"""Label Studio itself with `sam-rlx serve` as its backend, in Chromium: ``nox -s label_studio``."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from numpy.typing import NDArray
from sam_rlx import io
from support.jupyter import browser, wait_for

from .test_label_studio import decoded

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        importlib.util.find_spec("label_studio") is None, reason="Label Studio: nox -s label_studio"
    ),
]

COINS = Path(sam_rlx.__file__).parent / "assets" / "coins.jpg"
MAIL, PASSWORD = "a@example.org", "four-plain-words-here"
# The first one on the largest coin; the others miss what was drawn before.
POINTS = [(346.5, 185.5), *((20.5 + 55 * (k % 5), 45.5 + 60 * (k // 5)) for k in range(19))]
CONFIG = """<View>
  <Image name="image" value="$image"/>
  <BrushLabels name="brush" toName="image"><Label value="Coin"/></BrushLabels>
  <KeyPointLabels name="point" toName="image" smart="true" smartOnly="true">
    <Label value="Coin"/>
  </KeyPointLabels>
</View>"""

# The tool that a click on the toolbar's magic pencil chooses.
CHOOSE = """() => {
  const tools = Htx.annotationStore.selected.names.get("image").getToolsManager();
  tools.selectTool(tools.allTools().find((tool) => tool.fullName === "KeyPointTool-dynamic"), true);
}"""
KEPT = """() => Htx.annotationStore.selected.serializeAnnotation()
  .filter((one) => one.type === "brushlabels")"""


class Studio:
    """A Label Studio server with one project of one image."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        self._key = secrets.token_hex(20)
        environment = {
            **os.environ,
            "HOME": str(folder),
            "ML_BLOCK_LOCAL_IP": "false",
            "SSRF_PROTECTION_ENABLED": "false",
            "COLLECT_ANALYTICS": "false",
            "SENTRY_DSN": "",
            "FRONTEND_SENTRY_DSN": "",
            "LATEST_VERSION_CHECK": "false",
        }
        options = [
            *("start", "--init", "first", "--no-browser", "--internal-host", "127.0.0.1"),
            *("--port", self.url.rpartition(":")[2], "--data-dir", str(folder / "data")),
            *("--username", MAIL, "--password", PASSWORD, "--user-token", self._key),
            "--enable-legacy-api-token",
        ]
        program = str(Path(sys.executable).with_name("label-studio"))
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program, *options],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        wait_for(self._answers, "Label Studio", 900)
        self.project = self.ask("POST", "projects", {"title": "coins", "label_config": CONFIG})[
            "id"
        ]
        self._bring(COINS)

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        try:
            self.ask("GET", "projects")
        except OSError:
            return False
        return True

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """Call its API."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = {"Authorization": f"Token {self._key}", "Content-Type": kind}
        request = urllib.request.Request(f"{self.url}/api/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)

    def _bring(self, file: Path) -> None:
        edge = secrets.token_hex(16)
        head = f'name="file"; filename="{file.name}"\r\nContent-Type: image/jpeg'
        start = f"--{edge}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode()
        body = start + file.read_bytes() + f"\r\n--{edge}--\r\n".encode()
        kind = f"multipart/form-data; boundary={edge}"
        self.ask("POST", f"projects/{self.project}/import", body, kind)

    def close(self) -> None:
        """End the server."""
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait(60)


@contextmanager
def backend(studio: str) -> Iterator[tuple[str, str]]:
    """Start ``sam-rlx serve``: its address, and the backend's."""
    command = [sys.executable, "-m", "sam_rlx", "serve", "--port", "0", "--label-studio", studio]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        lines = (re.search(r"backend URL: (\S+)", line) for line in process.stdout)
        found = next(filter(None, lines))[1]
        yield found.rpartition("/")[0], found
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    running = Studio(tmp_path)
    yield running
    running.close()


def mask_of(region: Any) -> NDArray[np.bool_]:
    shape = (region["original_height"], region["original_width"], 4)
    words = decoded(region["value"]["rle"]).reshape(shape)
    return words[..., 3] > 0


def test_suggestions_are_our_masks_and_the_image_is_encoded_once(studio: Studio) -> None:
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model("sam-nano"))
    predictor.set_image(io.read_image(COINS))
    height, width = io.read_image(COINS).shape[:2]

    def expected(drawn: list[Any]) -> NDArray[np.bool_]:
        """Return the mask of what the browser says was drawn."""
        points = [
            (one["value"]["x"] * width / 100, one["value"]["y"] * height / 100) for one in drawn
        ]
        found = predictor.predict(
            point_coords=points,
            point_labels=[int(one["is_positive"]) for one in drawn],
            multimask_output=len(points) == 1,
        )
        mask: NDArray[np.bool_] = found.masks[found.best().index]
        return mask

    with backend(studio.url) as (ours, url), browser() as chrome:
        body = {"project": studio.project, "url": url, "title": "ours", "is_interactive": True}
        studio.ask("POST", "ml", body)
        page = opened(chrome, studio)
        answers: list[Any] = []

        def heard(response: Any) -> None:
            if "interactive-annotating" in response.url:
                drawn = json.loads(response.request.post_data)["context"]["result"]
                answers.append((drawn, response.json()["data"]["result"]))

        page.on("response", heard)
        box = page.locator("canvas").first.bounding_box()
        shares = box["width"] / width, box["height"] / height
        for number, (x, y) in enumerate(POINTS):
            page.locator(".lsf-label").nth(1).click()
            page.evaluate(CHOOSE)
            page.mouse.click(box["x"] + x * shares[0], box["y"] + y * shares[1])
            drawn, (region,) = answer_of(page, answers, number)
            last = drawn[-1]["value"]
            assert abs(last["x"] * width / 100 - x) < 1
            assert abs(last["y"] * height / 100 - y) < 1
            np.testing.assert_array_equal(mask_of(region), expected(drawn))
            page.wait_for_function("() => Htx.annotationStore.selected.suggestions.size === 1")
            if number == 0:
                check_accepted(page, mask_of(region))
        with urllib.request.urlopen(f"{ours}/health") as answer:
            assert json.load(answer)["encoded"] == 1
        assert len(answers) == len(POINTS) == 20


def opened(chrome: Any, studio: Studio) -> Any:
    """Log in, open the task, and choose the smart point: the page."""
    page = chrome.new_context(viewport={"width": 1400, "height": 1000}).new_page()
    page.set_default_timeout(180_000)
    page.goto(f"{studio.url}/user/login")
    page.fill("input[name=email]", MAIL)
    page.fill("input[name=password]", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_url(lambda url: "login" not in url, wait_until="commit")
    (task,) = studio.ask("GET", f"tasks?project={studio.project}")["tasks"]
    page.goto(f"{studio.url}/projects/{studio.project}/data?task={task['id']}")
    page.wait_for_function(
        "() => window.Htx?.annotationStore?.selected?.names.get('image')?.imageIsLoaded"
    )
    page.get_by_text("Auto-Annotation").click()
    return page


def answer_of(page: Any, answers: list[Any], number: int) -> Any:
    """Return what was drawn and what was answered, when the browser has it."""

    def heard() -> bool:
        page.evaluate("1")  # lets events come
        return len(answers) > number

    wait_for(heard, f"answer {number}")
    return answers[number]


def check_accepted(page: Any, mask: NDArray[np.bool_]) -> None:
    """What was suggested is kept as it is."""
    page.get_by_text("suggestions").locator("xpath=following::button[2]").click()
    page.wait_for_function(f"() => ({KEPT})().length === 1")
    (kept,) = page.evaluate(KEPT)
    np.testing.assert_array_equal(mask_of(kept), mask)
