"""The page about annotation tools: its programs run."""

from __future__ import annotations

import importlib
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import io
from support.half_size import half_size
from support.interactive import TOKEN

ROOT = Path(__file__).parents[3]
ASSETS = Path(sam_rlx.__file__).parent / "assets"
COINS = ASSETS / "coins.jpg"


def _blocks() -> dict[str, str]:
    """Return the Python programs of the page by their headings."""
    page = (ROOT / "docs" / "serve.md").read_text()
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return {
        name: found[1]
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
        if (found := re.search(r"```python\n(.*?)```", text, re.DOTALL))
    }


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(ASSETS / "coffee.jpg", tmp_path / "cup.jpg")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def base(engine: Any) -> Iterator[str]:
    """Where a server answers, in a thread of this process."""
    import uvicorn
    from sam_rlx.apps.serve.app import create_app
    from sam_rlx.apps.serve.guard import allowed_hosts
    from sam_rlx.apps.serve.server import listen

    listener = listen("127.0.0.1", 0)
    app = create_app(engine, TOKEN, allowed_hosts("127.0.0.1"))
    config = uvicorn.Config(app, log_level="warning", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listener.close()


@pytest.mark.source_tree
@pytest.mark.usefixtures("workplace")
def test_the_program_for_osam_runs(base: str) -> None:
    """With what the server printed, as its reader writes it there."""
    printed = f'BASE, TOKEN = "{base}", "{TOKEN}"'
    program, count = re.subn(r"^BASE, TOKEN = .*$", printed, _blocks()["osam"], flags=re.MULTILINE)
    assert count == 1
    names: dict[str, Any] = {}
    exec(program, names)
    predictor = sam_rlx.ImagePredictor(half_size("sam-nano"))
    predictor.set_image(io.read_image("cup.jpg"))
    best = predictor.predict(point_coords=[[300, 60]], point_labels=[1]).best()
    assert names["found"][0]["score"] == pytest.approx(best.iou_prediction)


@pytest.mark.usefixtures("workplace")
def test_supervision_takes_the_results() -> None:
    pytest.importorskip("supervision", reason="what the page says of it")
    names: dict[str, Any] = {}
    exec(_blocks()["supervision"], names)
    detections = names["sv"].Detections.from_sam(names["records"])
    by_area = sorted(names["records"], key=lambda record: -record.area)
    assert len(detections) == len(by_area) > 0
    for mask, record in zip(detections.mask, by_area, strict=True):
        np.testing.assert_array_equal(mask, record.segmentation)
    assert len(names["detections"]) == len(names["found"].scores)


def test_the_function_for_cvat(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cvat_sdk.auto_annotation", reason="what the example is for")
    masks = importlib.import_module("cvat_sdk.masks")
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    monkeypatch.delitem(sys.modules, "cvat_function", raising=False)
    function: Any = importlib.import_module("cvat_function")
    image = Image.open(COINS)
    predictor = function.preprocess_image(None, image)
    prompts = SimpleNamespace(
        pos_points=[(346, 185)], neg_points=[(295, 190)], bounding_box=((300, 150), (380, 220))
    )
    (shape,) = function.detect(None, predictor, prompts)
    found = predictor.predict(
        point_coords=[[346, 185], [295, 190]],
        point_labels=[1, 0],
        box=[300, 150, 380, 220],
        multimask_output=False,
    )
    decoded = masks.decode_mask(shape.points, image_width=image.width, image_height=image.height)
    np.testing.assert_array_equal(decoded, found.masks[0])
