"""The table of gestures: each row can be reached, is described, and checks what it is given."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from sam_rlx.apps import annotator
from sam_rlx.apps.annotator.gestures import Gesture, messages_text, table_of
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.video_session import VideoSession
from sam_rlx.errors import InvalidArgumentError

pytest.importorskip("anywidget")
from sam_rlx.widget import SegmentWidget, VideoWidget

TABLES = {ImageSession: SegmentWidget, VideoSession: VideoWidget}
# Methods of widgets that have another name than their row.
METHODS = {
    "image": "show",
    "export": "save",
    "export_as": "export",
    "import_as": "import_from",
    "frame": "preview",
}
# What only a view needs, or only the page has.
OF_VIEWS = {"tiles", "thumbnail", "order"}
FILE = Path(annotator.__file__).parent / "messages.md"


def rows() -> list[tuple[type, Gesture]]:
    return [(kind, row) for kind in TABLES for row in table_of(kind).values()]


@pytest.mark.parametrize(("kind", "row"), rows(), ids=lambda one: getattr(one, "name", ""))
def test_each_row_has_a_method_of_the_widget(kind: type, row: Gesture) -> None:
    if row.name in OF_VIEWS:
        return
    method = getattr(TABLES[kind], METHODS.get(row.name, row.name))
    assert inspect.getdoc(method)


@pytest.mark.parametrize(("kind", "row"), rows(), ids=lambda one: getattr(one, "name", ""))
def test_each_row_has_a_title_and_refuses_odd_fields(kind: type, row: Gesture) -> None:
    assert row.title
    assert row.title[0].islower()
    assert inspect.getdoc(getattr(kind, row.method))
    with pytest.raises(InvalidArgumentError, match="found 'nonsense'"):
        row.values({"nonsense": 1}, of_view=False)
    odd: tuple[Any, ...] = ([[]], {"a": 1}, "\0" * 5000, float("nan"), -1, 1e300, object(), [None])
    for name, check in row.fields.items():
        for value in odd if check.of_views else ():
            try:
                check.read(name, value)
            except InvalidArgumentError as error:
                assert name in str(error)  # noqa: PT017  # some odd values are right somewhere


def test_no_two_rows_have_one_key() -> None:
    for kind in TABLES:
        keys = [row.key for row in table_of(kind).values() if len(row.key) == 1]
        assert len(keys) == len(set(keys))


def test_the_page_of_messages_is_made_from_the_table() -> None:
    wanted = messages_text({"image": table_of(ImageSession), "clip": table_of(VideoSession)})
    assert FILE.read_text("utf-8") == wanted, "python -m sam_rlx.apps.annotator.messages"
