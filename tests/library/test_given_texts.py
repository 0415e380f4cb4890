"""Texts of tables: cells and columns are texts, bytes are named; hints of types resolve."""

from __future__ import annotations

import array
import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx import InvalidArgumentError, batch, conversion, frames, io, parity, tokenizer, viz
from sam_rlx._internal.arrays.checks import as_items, as_path_text, as_texts, holds_texts

TEXTS = ["red cup", "Löffel"]
COLUMNS: dict[str, Callable[[], Any]] = {
    "list": lambda: TEXTS,
    "NumPy": lambda: np.array(TEXTS),
    "NumPy objects": lambda: np.array(TEXTS, object),
    "NumPy StringDType": lambda: np.array(TEXTS, np.dtypes.StringDType()),
    "pyarrow": lambda: pytest.importorskip("pyarrow").array(TEXTS),
    "pyarrow chunks": lambda: pytest.importorskip("pyarrow").chunked_array([TEXTS[:1], TEXTS[1:]]),
    "cells": lambda: [pytest.importorskip("pyarrow").scalar(text) for text in TEXTS],
    "a cell of a list": lambda: pytest.importorskip("pyarrow").scalar(TEXTS),
    "pandas": lambda: pytest.importorskip("pandas").Series(TEXTS),
    "pandas, Arrow": lambda: pytest.importorskip("pandas").Series(TEXTS, dtype="string[pyarrow]"),
    "polars": lambda: pytest.importorskip("polars").Series(TEXTS),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_texts_are_texts(name: str) -> None:
    column = COLUMNS[name]()
    assert holds_texts(column)
    assert as_texts("text", column) == TEXTS
    assert as_items("inputs", column) == TEXTS or name == "a cell of a list"
    tokens = sam_rlx.Tokenizer()
    np.testing.assert_array_equal(tokens(column), tokens(TEXTS))


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view"])
def test_a_cell_is_a_text_and_a_path(kind: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    cell = pyarrow.scalar("a.png", type=getattr(pyarrow, kind)())
    assert as_texts("text", cell) == ["a.png"]
    assert as_path_text("inputs", cell) == "a.png"


BYTES: dict[str, Any] = {
    "bytes": b"cup",
    "bytearray": bytearray(b"cup"),
    "memoryview": memoryview(b"cup"),
    "array": array.array("b", b"cup"),
    "a list": [b"cup"],
    "NumPy": np.array([b"cup"]),
}


@pytest.mark.parametrize("name", BYTES)
def test_letters_as_bytes_are_no_ids(name: str) -> None:
    assert holds_texts(BYTES[name])
    with pytest.raises(InvalidArgumentError, match=r"text.*; bytes\(it\)\.decode\(\) makes a text"):
        as_texts("text", BYTES[name])
    with pytest.raises(InvalidArgumentError, match="decode"):
        sam_rlx.Tokenizer()(BYTES[name])


def test_a_cell_of_bytes_is_named() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    with pytest.raises(InvalidArgumentError, match="decode"):
        as_texts("text", pyarrow.scalar(b"cup"))


def test_a_table_is_no_column() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": TEXTS})
    assert not holds_texts(table)
    with pytest.raises(InvalidArgumentError, match="found DataFrame: give one column of it"):
        as_texts("text", table)
    with pytest.raises(InvalidArgumentError, match="found dict"):
        as_texts("text", {"cup": 1})
    with pytest.raises(InvalidArgumentError, match=r"text\[1\]: expected a text, found nan"):
        as_texts("text", pandas.Series(["cup", float("nan")], dtype=object))


def test_ids_are_ids() -> None:
    for ids in ([49406, 49407], np.array([[49406, 49407]]), [], 1.5, None, np.float64(1)):
        assert not holds_texts(ids)


def _callables() -> list[tuple[str, Any]]:
    found = []
    for module in (sam_rlx, batch, conversion, frames, io, parity, tokenizer, viz):
        for name in getattr(module, "__all__", dir(module)):
            whole = getattr(module, name)
            members = vars(whole).items() if inspect.isclass(whole) else ()
            for label, each in (("", whole), *members):
                if inspect.isfunction(each) and not label.startswith("__"):
                    found.append((f"{module.__name__}.{name}.{label}", each))
    return found


def test_hints_of_types_resolve() -> None:
    """What pydantic, typeguard and servers of tools do with a function."""
    callables = _callables()
    assert len(callables) > 40
    for label, each in callables:
        assert typing.get_type_hints(each) is not None, label
        assert inspect.signature(each, eval_str=True), label


def test_text_of_a_prediction(nano_concepts: sam_rlx.ConceptPredictor, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    right = nano_concepts.predict(text=["red square", "cup"])
    found = nano_concepts.predict(text=pyarrow.array(["red square", "cup"]))
    assert found.texts == right.texts
    np.testing.assert_array_equal(found.masks, right.masks)
    for given in (bytearray(b"cup"), np.frombuffer(b"cup", np.uint8)):
        with pytest.raises(InvalidArgumentError, match="text: expected"):
            nano_concepts.predict(text=given)


@pytest.fixture(scope="module")
def nano_concepts() -> sam_rlx.ConceptPredictor:
    predictor = sam_rlx.ConceptPredictor(sam_rlx.load_model("sam3-nano"), num_threads=1)
    image = np.full((64, 96, 3), 40, np.uint8)
    image[20:44, 50:80] = (200, 90, 30)
    predictor.set_image(image)
    return predictor
