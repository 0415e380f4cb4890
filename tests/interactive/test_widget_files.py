"""Files of the widget: which images a folder gives it, and what `save` may replace."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import io
from sam_rlx.apps.annotator.sources import ImageSource
from sam_rlx.errors import InvalidArgumentError, MediaWarning

pytest.importorskip("anywidget")
from sam_rlx.widget import SegmentWidget


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two images, and what is none of the widget's."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("b.png", "a.pgm", "._b.png"):
        Image.fromarray(np.full((20, 30), 90, np.uint8)).save(folder / name)
    io.write_masks(folder, [np.ones((20, 30), bool)])
    return folder


@pytest.fixture
def widget(model: sam_rlx.Model, folder: Path) -> Iterator[Any]:
    with pytest.warns(MediaWarning, match=r"1 hidden file or folder \(\._b\.png\), 1 result of"):
        widget = SegmentWidget(model, folder, num_threads=1)
    widget.start(np.ones((20, 30), bool))
    widget.commit()
    yield widget
    widget.close()


def test_a_folder_gives_what_it_gives_everywhere(folder: Path) -> None:
    with pytest.warns(MediaWarning):
        source = ImageSource(folder)
    assert [path.name for path in source.files] == ["a.pgm", "b.png"]
    with pytest.raises(FileNotFoundError, match="download it first"):
        ImageSource("https://example.org/a.png")


@pytest.mark.parametrize(
    ("form", "suffix"),
    [
        ("coco", ".json"),
        ("polygons", ".json"),
        ("png", ".zip"),
        ("labels", ".png"),
        ("npz", ".npz"),
    ],
)
def test_a_file_is_of_the_kind_of_its_name(
    widget: Any, folder: Path, tmp_path: Path, form: str, suffix: str
) -> None:
    others = (".json", ".zip", ".png", ".npz", ".mp4", ".txt")
    for other in (other for other in others if other != suffix):
        with pytest.raises(InvalidArgumentError, match=rf"that ends in \{suffix}, found"):
            widget.save(tmp_path / f"a{other}", form)
    before = (folder / "b.png").read_bytes()
    with pytest.raises(InvalidArgumentError, match=r"than the input|ends in"):
        widget.save(folder / "b.png", form)
    assert (folder / "b.png").read_bytes() == before
    for _ in range(2):
        assert widget.save(tmp_path / f"a{suffix}", form).is_file()


def test_documents_name_images_in_any_form_of_unicode(model: sam_rlx.Model, tmp_path: Path) -> None:
    mask = io.coco_annotation(np.ones((20, 30), bool))
    paths = [tmp_path / "plain.png", tmp_path / "pi\u00f1a.png"]
    for path in paths:
        Image.fromarray(np.full((20, 30, 3), 90, np.uint8)).save(path)
    named = {"file_name": unicodedata.normalize("NFD", f"dir\\{paths[1].name}")}
    document = io.coco_document({**named, "height": 20, "width": 30}, [mask])
    (tmp_path / "saved.json").write_text(json.dumps(document))
    widget = SegmentWidget(model, paths, num_threads=1)
    try:
        assert widget.load(tmp_path / "saved.json") == []
        assert not widget.objects
        widget.show(1)
        assert len(widget.objects) == 1
    finally:
        widget.close()
