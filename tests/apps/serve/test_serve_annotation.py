"""A whole annotation on the page of ``sam-rlx serve``: objects, names, every kind of export."""

from __future__ import annotations

import io as streams
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.jupyter import wait_for

from .test_serve_page import Tab, address  # noqa: F401  a fixture

pytestmark = pytest.mark.timeout(600)

COINS = ((346.5, 185.5), (335.5, 44.5), (55.5, 50.5), (215.5, 185.5))
NAMES = ["größte Münze", "硬币 2", "a/b\\c", "object 4"]


# Of pycocotools.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_four_objects_are_named_and_exported(
    chrome: Any,
    address: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    context = chrome.new_context(viewport={"width": 1000, "height": 900})
    tab = Tab(context.new_page(), address)
    for count, point in enumerate(COINS, 1):
        tab.canvas.click(*point)
        tab.settled(f"f.objects.length === {count}")
        tab.canvas.press("Enter")
        tab.settled("f.current === null")
    for index, name in enumerate(NAMES[:3]):
        tab.page.locator(".srx-object .srx-n").nth(index).dblclick()
        tab.page.locator(".srx-object input").fill(name)
        tab.page.keyboard.press("Enter")
        tab.settled(f"f.objects[{index}].name === {json.dumps(name)}")
    masks = tab.masks()

    def exported(kind: str) -> bytes:
        with tab.page.expect_download() as download:
            tab.canvas.press("Control+e")
            tab.page.locator(f"input[name=srx-form][value='{kind}']").check(force=True)
            tab.page.keyboard.press("Enter")
        return Path(download.value.path()).read_bytes()

    check_coco(exported(""), masks, tmp_path / "coco.json")
    ((_, content),) = members(exported("labels"), ".png")
    labels = np.asarray(Image.open(streams.BytesIO(content)))
    wanted = np.zeros(labels.shape, int)
    for number, mask in enumerate(masks, 1):
        wanted[mask] = number
    np.testing.assert_array_equal(labels, wanted)
    ((_, content),) = members(exported("npz"), ".npz")
    with np.load(streams.BytesIO(content)) as arrays:
        np.testing.assert_array_equal(arrays["masks"], masks)
        assert arrays["names"].tolist() == NAMES
    files = members(exported("masks"), ".png")
    assert len(files) == 4
    for (file, content), mask in zip(files, masks, strict=True):
        assert not file.startswith("/")
        pixels = np.asarray(Image.open(streams.BytesIO(content)))
        np.testing.assert_array_equal(pixels > 0, mask)
    wait_for(lambda: tab.canvas.front("!f.busy"), "an idle page")
    assert tab.problems == []
    context.close()


def check_coco(content: bytes, masks: list[np.ndarray], path: Path) -> None:
    """pycocotools reads names and masks as they were."""
    api = pytest.importorskip("pycocotools.coco", reason="pycocotools judges the file")
    path.write_bytes(content)
    coco = api.COCO(str(path))
    annotations = coco.loadAnns(coco.getAnnIds())
    assert [one["name"] for one in annotations] == NAMES
    for one, mask in zip(annotations, masks, strict=True):
        np.testing.assert_array_equal(coco.annToMask(one).astype(bool), mask)


def members(archive: bytes, suffix: str) -> list[tuple[str, bytes]]:
    """Return names and contents of the members of a ZIP with a suffix."""
    with zipfile.ZipFile(streams.BytesIO(archive)) as opened:
        return [(name, opened.read(name)) for name in opened.namelist() if name.endswith(suffix)]
