"""The pages on speed and the sources name each other: no name leads nowhere."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "develop" / "optimizations.md"
SOURCES = [p for p in (ROOT / "cpp").rglob("*") if p.suffix in {".cpp", ".h", ".inl"}]
CITATION = re.compile(r"docs/develop/optimizations\.md[:,]? (.*)")
NAME = re.compile(r"\b[a-z0-9]+(?:-[a-z0-9]+)+\b|\b(?:arena|barrier)\b")
PATH = re.compile(r"`((?:[\w.]+/)*[\w.]+\.(?:cpp|h|inl|py))`")


def rows():
    """Names of the page's rows: the first cells."""
    return set(re.findall(r"^\| ([a-z0-9-]+) \|", PAGE.read_text(), re.MULTILINE))


def citations():
    return [
        (path.relative_to(ROOT), line)
        for path in SOURCES
        for line in CITATION.findall(path.read_text())
    ]


def test_constants_name_rows_of_the_page():
    found = citations()
    assert len(found) > 30
    for path, line in found:
        names = NAME.findall(line)
        assert names or "the roof" in line, (path, line)
        assert set(names) <= rows(), (path, line)


def test_every_tuning_constant_of_a_kernel_table_is_cited():
    """A table's constants stand together, under one comment that names their rows."""
    for path in sorted((ROOT / "cpp" / "kernels").glob("*/*.*")):
        lines = path.read_text().splitlines()
        for index, line in enumerate(lines):
            if re.match(r"constexpr \w+ k(Mr|Int8Mr|Rows) = ", line):
                block = "\n".join(lines[max(index - 3, 0) : index + 1])
                assert "docs/develop/optimizations.md" in block, (path, line)


def test_paths_of_the_page_exist():
    folders = ["", "benchmarks/", "cpp/", "cpp/kernels/", "cpp/kernels/bodies/", "tests/"]
    paths = PATH.findall(PAGE.read_text())
    assert len(paths) > 20
    for path in paths:
        known = any((ROOT / folder / path).exists() for folder in folders)
        assert known or path == "simd.inl", path  # one in each folder of an instruction set
