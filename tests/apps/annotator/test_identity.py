"""Which file is which item: by path, size, time and content."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from sam_rlx.apps.annotator import identity
from sam_rlx.apps.annotator.identity import Matched, key_of, key_of_bytes, matched, relative
from sam_rlx.apps.annotator.values import Item


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def match(root: Path, known: list[Item]) -> Matched:
    files = sorted(root.rglob("*.png"))
    return matched(files, [relative(path, root) for path in files], known)


def test_keys_are_of_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = write(tmp_path / "a", "one"), write(tmp_path / "b", "one")
    assert key_of(a) == key_of(b) == key_of_bytes(b"one")
    assert len(key_of(a)) == 16
    assert key_of(write(b, "two")) != key_of(a)
    monkeypatch.setattr(identity, "_WHOLE", 1000)
    monkeypatch.setattr(identity, "_PIECE", 10)
    contents = bytearray(np.random.default_rng(0).bytes(5000))
    first = key_of_bytes(contents)
    for at in (0, 9, 4990, 4999, 4990 * 7 // 15):
        other = bytearray(contents)
        other[at] ^= 1
        assert key_of_bytes(other) != first
    assert key_of_bytes(bytes(contents) + b"0") != first


def test_equal_path_size_and_time_are_taken_without_a_hash(tmp_path: Path) -> None:
    path = write(tmp_path / "a.png", "one")
    items = match(tmp_path, []).items

    def refuse(path: Path) -> str:
        raise AssertionError(path)

    assert matched([path], ["a.png"], items, key=refuse).items == items
    os.utime(path, ns=(1, 1))
    (found,) = match(tmp_path, items).items
    assert (found.key, found.stat) == (items[0].key, (3, 1))


def test_renamed_and_moved_files_are_followed(tmp_path: Path) -> None:
    a, b = (write(tmp_path / name, name) for name in ("a.png", "b.png"))
    known = match(tmp_path, []).items
    a.rename(tmp_path / "z.png")
    (tmp_path / "in").mkdir()
    b.rename(tmp_path / "in" / "a.png")
    found = match(tmp_path, known)
    assert {one.path: one.key for one in found.items} == {
        "z.png": known[0].key,
        "in/a.png": known[1].key,
    }
    assert sorted(found.renamed) == [("a.png", "z.png"), ("b.png", "in/a.png")]
    assert not found.missing


def test_equal_names_in_two_folders_stay_apart(tmp_path: Path) -> None:
    for folder in ("cam0", "cam1"):
        write(tmp_path / folder / "0001.png", folder)
    known = match(tmp_path, []).items
    assert [one.path for one in known] == ["cam0/0001.png", "cam1/0001.png"]
    (tmp_path / "cam0").rename(tmp_path / "x")
    (tmp_path / "cam1").rename(tmp_path / "cam0")
    (tmp_path / "x").rename(tmp_path / "cam1")
    os.utime(tmp_path / "cam0" / "0001.png", ns=(5, 5))
    os.utime(tmp_path / "cam1" / "0001.png", ns=(6, 6))
    found = match(tmp_path, known)
    keys = {one.path: one.key for one in found.items}
    assert keys == {"cam0/0001.png": known[1].key, "cam1/0001.png": known[0].key}


def test_of_equal_contents_the_path_decides(tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c.png"):
        write(tmp_path / name, "same")
    known = match(tmp_path, []).items
    assert len({one.key for one in known}) == 3
    for name in ("a.png", "b.png", "c.png"):
        os.utime(tmp_path / name, ns=(7, 7))
    assert [one.key for one in match(tmp_path, known).items] == [one.key for one in known]


def test_changed_files_are_other_items(tmp_path: Path) -> None:
    write(tmp_path / "a.png", "one")
    write(tmp_path / "b.png", "two")
    known = match(tmp_path, []).items
    write(tmp_path / "a.png", "three")
    (tmp_path / "b.png").unlink()
    found = match(tmp_path, known)
    assert found.changed == [known[0]]
    assert found.missing == [known[1]]
    assert found.items[0].key not in {one.key for one in known}
    write(tmp_path / "a.png", "one")
    again = match(tmp_path, [*known, *found.items])
    assert [one.key for one in again.items] == [known[0].key]


def test_paths_are_relative_with_slashes_in_one_form(tmp_path: Path) -> None:
    root = tmp_path / "in"
    assert relative(root / "a" / "pin\u0303a.png", root) == "a/pi\u00f1a.png"
    assert relative(tmp_path / "b.png", root) == "b.png"
