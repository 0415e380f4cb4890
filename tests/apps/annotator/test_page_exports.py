"""Exports from the dialog of the page, in real Chromium."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from sam_rlx.apps.annotator.imports import READERS
from sam_rlx.widget import SegmentWidget
from support.cases import quick
from support.half_size import half_size
from support.views import DISCS, View

pytestmark = pytest.mark.timeout(1200)


def contents(file: Path) -> dict[str, bytes]:
    """Return the files of a ZIP, without the times that some forms write."""
    with zipfile.ZipFile(file) as packed:
        found = {name: packed.read(name) for name in packed.namelist() if not name.endswith("/")}
    times = re.compile(rb'\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^"<]*')
    return {
        name: times.sub(b"", data) if len(data) < 1 << 20 else data for name, data in found.items()
    }


def by_image(widget: SegmentWidget) -> dict[str, set[bytes]]:
    """Return masks by the name of the image."""
    session = widget._session
    return {
        Path(image.name).name: {one.mask.tobytes() for one in image.objects}
        for image in map(session.annotated, session.annotated_indices())
    }


@pytest.mark.parametrize("every", quick([False, True], 0))
@pytest.mark.slow
def test_exports_by_their_owners(
    chrome: Any, servers: Any, folder: Path, tmp_path: Path, every: bool
) -> None:
    """Each form of the dialog is byte by byte that of Python, and comes back to equal masks.

    What Python writes is read by its owners in test_exports.py.
    """
    server = servers(str(folder))
    view = View(chrome, server.project(folder))
    for index, count in ((0, 3), (1, 2)):
        view.to(index)
        for disc in DISCS[:count]:
            view.click(*disc)
            view.key("Enter")
    view.page.locator(".srx-classes button").first.click()
    view.page.keyboard.type('größte "Scheibe"')
    view.page.keyboard.press("Enter")
    view.idle(lambda now: len(now["classes"]) == 2)
    view.page.locator(".srx-objects .srx-object").first.click()
    view.idle(lambda now: now["current"] == 1)
    view.key("2")
    view.key("Escape")
    view.key("Control+e")
    forms = view.page.locator("dialog input[name=srx-form]").evaluate_all(
        "(all) => all.map((one) => one.value)"
    )
    view.key("Escape")
    assert len(forms) > 15
    model = half_size("sam-nano")
    python = SegmentWidget(model, folder)  # reads what the page writes
    wanted = by_image(python)
    assert [len(masks) for masks in wanted.values()] == [3, 2]
    chosen = forms[1:] if every else ["yolo", "cvat"]
    for form in chosen:
        view.key("Control+e")
        view.page.locator(f"dialog label.srx-form:has(input[value='{form}'])").click()
        with view.page.expect_download() as download:
            view.page.locator("dialog .srx-main").click()
        file = tmp_path / f"{form}.zip"
        download.value.save_as(file)
        python.export(tmp_path / f"python {form}.zip", form, images="some")
        assert contents(file) == contents(tmp_path / f"python {form}.zip"), form
        if form in READERS and form != "coco":
            again = SegmentWidget(model, folder, project=False)
            with zipfile.ZipFile(file) as packed:
                packed.extractall(tmp_path / form)
            again.import_from(tmp_path / form, form)
            found = by_image(again)
            again.close()
            assert {name: len(masks) for name, masks in found.items()} == {
                name: len(masks) for name, masks in wanted.items()
            }, form
    python.close()
    view.close()
