"""The acceptance table: a line for each capability, and each test that it names is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "develop" / "acceptance.md"
ROWS = 70


def rows():
    """Return (number, capability, tests) of each line."""
    lines = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    return [(int(number), text, tests) for number, text, tests in lines]


@cache
def functions(path):
    """Return the names of the tests in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def missing(text):
    """Return the tests named in a text that are not there; `::name` stands for the last file."""
    found, last = [], ""
    for name in re.findall(r"`([^`]*(?:/|::)[^`]*)`", text):
        file, _, test = name.partition("::")
        last = file or last
        path = next((p for p in (ROOT / "tests" / last, ROOT / last) if p.exists()), None)
        if path is None or (test and test not in functions(path)):
            found.append(name)
    return found


def test_each_capability_has_a_line():
    assert [number for number, _, _ in rows()] == list(range(1, ROWS + 1))


@pytest.mark.parametrize(("number", "text", "tests"), rows(), ids=lambda value: str(value)[:24])
def test_named_tests_exist(number, text, tests):
    assert re.search(r"`[^`]+`", tests), f"row {number} names no test"
    assert not missing(tests), f"row {number}"


def test_what_is_not_there_is_found():
    assert missing("`docs/test_acceptance.py::test_each_capability_has_a_line`") == []
    assert missing("`docs/test_acceptance.py`, `::no_such_test`") == ["::no_such_test"]
    assert missing("`package/test_none.py`") == ["package/test_none.py"]
