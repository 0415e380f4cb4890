"""Sessions and embeddings on disk: read whole, or refused with `CheckpointError`."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from nightly import damaged_files
from sam_rlx._internal.files import object_names, saved_arrays
from sam_rlx._internal.files.saved_arrays import Field
from support.videos import POINT

SCHEMA: saved_arrays.Schema = {
    "values": Field("f", range(1, 4), required=False),
    "texts": Field("U", 1, required=False),
    "counts": Field("i", 0, required=False),
}
FORMATS = ("test.2", "test.1")


def read(path: Path) -> dict[str, np.ndarray]:
    return saved_arrays.read(path, "a test file", FORMATS, SCHEMA)


@pytest.fixture
def session(sam2_model: sam_rlx.Model, frames: np.ndarray) -> sam_rlx.VideoPredictor:
    return sam_rlx.VideoPredictor(sam2_model, frames).add_prompt(0, 1, **POINT)


def fields_of(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as archive:
        return dict(archive)


# ---------------------------------------------------------------- arrays


def test_arrays_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 1, 5)).astype(np.float32)
    for given in (values, values[..., ::2], np.asfortranarray(values), values[:0], values[0, 0]):
        saved_arrays.write(
            tmp_path / "a", {"format": "test.1", "values": given, "texts": ["ä", "", "狗"]}
        )
        found = read(tmp_path / "a")
        np.testing.assert_array_equal(found["values"], given)
        assert found["values"].dtype == np.float32
        assert saved_arrays.texts(found["texts"]) == ["ä", "", "狗"]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({}, "no format"),
        ({"format": "other"}, "expected format 'test.2', found 'other'"),
        ({"format": ["test.1"]}, "format of <U6 with 1 axes"),
        ({"format": "test.1", "values": np.zeros((1, 1, 1, 1))}, "values of float64 with 4 axes"),
        ({"format": "test.1", "values": np.zeros(3, np.int64)}, "values of int64"),
        ({"format": "test.1", "values": np.zeros(3, ">f4")}, "no array of plain values"),
        ({"format": "test.1", "values": np.zeros(3, [("a", "f4")])}, "no array of plain values"),
        ({"format": "test.1", "texts": np.array(["\ud800"])}, "utf-32"),
        ({"format": "test.1", "counts": np.zeros((1,) * 6, int)}, "counts with 6 axes"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    saved_arrays.write(tmp_path / "a", arrays)
    with pytest.raises(sam_rlx.CheckpointError) as caught:
        read(tmp_path / "a")
    assert str(caught.value).startswith(str(tmp_path / "a") + ": expected")
    assert words in str(caught.value)


def member(descr: str, shape: str, data: bytes = b"", length: int | None = None) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    size = struct.pack("<H", len(text) if length is None else length)
    return b"\x93NUMPY\x01\x00" + size + text + data


HOSTILE = {
    "a huge shape": member("'<f4'", "(274877906944,)"),
    "a shape whose product overflows": member("'<f4'", "(4294967296, 4294967296, 1)"),
    "a negative shape": member("'<f4'", "(-1,)"),
    "objects": member("'|O'", "(1,)", b"cos\nsystem\n"),
    "nested brackets": member("(" * 3000 + "'<f4'", "(1,)", b"\0" * 4),
    "an expression": member("'<f4'", "(2+2,)", b"\0" * 16),
    "bytes left over": member("'<f4'", "(1,)", b"\0" * 8),
    "a header that is cut off": member("'<f4'", "(1,)", length=3000),
    "an older version": b"\x93NUMPY\x03\x00" + member("'<f4'", "(1,)")[8:],
    "no array": b"x",
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_members(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "a", "w") as archive:
        archive.writestr("format.npy", member("'<U6'", "()", "test.1".encode("utf-32-le")))
        archive.writestr("values.npy", HOSTILE[name])
    with pytest.raises(sam_rlx.CheckpointError, match=r"expected a test file, found .*values"):
        read(tmp_path / "a")


def test_what_is_not_in_the_schema_is_not_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a", "w") as archive:
        archive.writestr("format.npy", member("'<U6'", "()", "test.1".encode("utf-32-le")))
        archive.writestr("other.npy", HOSTILE["a huge shape"])
    assert list(read(tmp_path / "a")) == ["format"]


def test_compressed_arrays_are_read_unless_they_grow_too_much(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000).astype(np.float32)
    np.savez_compressed(tmp_path / "a.npz", format="test.1", values=values)
    np.testing.assert_array_equal(read(tmp_path / "a.npz")["values"], values)
    np.savez_compressed(tmp_path / "a.npz", format="test.1", values=np.zeros(1 << 20))
    with pytest.raises(sam_rlx.CheckpointError, match="over 100 times as large as the file"):
        read(tmp_path / "a.npz")


def test_directories_that_lie(tmp_path: Path) -> None:
    """The sizes of an archive's directory are no reason to allocate."""
    saved_arrays.write(tmp_path / "a", {"format": "test.1", "values": np.zeros(100, np.float32)})
    data = (tmp_path / "a").read_bytes()
    entry = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1)
    for offset, value in ((20, 2**31), (24, 2**31), (42, 2**31), (6, 99), (8, 1), (10, 12)):
        form = "<I" if value > 99 else "<H"
        changed = bytearray(data)
        struct.pack_into(form, changed, entry + offset, value)
        (tmp_path / "b").write_bytes(changed)
        with pytest.raises(sam_rlx.CheckpointError, match=r"b: expected a test file"):
            read(tmp_path / "b")


def test_a_disk_that_fails_is_no_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    saved_arrays.write(tmp_path / "a", {"format": "test.1"})
    monkeypatch.setattr(zipfile.ZipFile, "open", fail)
    with pytest.raises(OSError, match="Input/output error"):
        read(tmp_path / "a")


# ---------------------------------------------------------------- names of objects

NAMES = [0, -5, 2**80, "a", "", "'\"\\\n", "\ud800", True, None, 0.1, float("inf"), b"\0\xff"]
NAMES += [(), ("a", (1, (2.5, None))), np.int64(7)]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_names_come_back(name: Any) -> None:
    text = object_names.to_text(name)
    assert text.isascii()
    found = object_names.from_text(text)
    assert found == name
    assert type(found) is (int if isinstance(name, np.integer) else type(name))


@pytest.mark.parametrize("name", [frozenset(), 1j, float("nan"), object(), 1 << 99999], ids=type)
def test_names_that_are_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        object_names.to_text(name)


def test_names_deep_in_tuples_are_refused(session: sam_rlx.VideoPredictor, tmp_path: Path) -> None:
    name: Any = 1
    for _ in range(100_000):
        name = (name,)
    with pytest.raises(ValueError, match="deep"):
        object_names.to_text(name)
    while isinstance(name, tuple):  # an end by recursion would be as deep
        (name,) = name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1",
        "1.5",
        "{}",
        "[]",
        '["int"]',
        '["int",1]',
        '["int","x"]',
        '["set",[]]',
        "[" * 9999,
        '["float","0x1p99999"]',
        '["bytes","x"]',
        '["tuple",3]',
        '["int","' + "1" * 5000 + '"]',
    ],
)
def test_texts_that_are_no_names(text: str) -> None:
    with pytest.raises((ValueError, OverflowError, RecursionError)):
        object_names.from_text(text)


def with_names(
    fields: dict[str, np.ndarray], names: list[str], form: str = "sam_rlx.video_session.3"
) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **{**fields, "names": np.asarray(names), "format": np.asarray(form)})
    return buffer.getvalue()


def test_names_in_the_files_of_sessions(
    session: sam_rlx.VideoPredictor,
    sam2_model: sam_rlx.Model,
    frames: np.ndarray,
    tmp_path: Path,
) -> None:
    path = tmp_path / "session.npz"
    session.save(path)
    fields = fields_of(path)
    assert [json.loads(text) for text in fields["names"]] == [["int", "0x1"]]
    path.write_bytes(with_names(fields, ["1"], "sam_rlx.video_session.1"))
    with pytest.raises(
        sam_rlx.CheckpointError, match=r"expected format 'sam_rlx.video_session.3', found .*\.1"
    ):
        sam_rlx.VideoPredictor.load(path, sam2_model, frames)
    for names in ([], ['"a"', '"b"'], ["1"], ["(" * 3000]):
        path.write_bytes(with_names(fields, names))
        with pytest.raises(sam_rlx.CheckpointError, match="expected a video session"):
            sam_rlx.VideoPredictor.load(path, sam2_model, frames)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("options", np.zeros(3, np.int64)),
        ("options", np.asarray([-1, 0, 1, 64, 0])),
        ("options", np.asarray([8, 0, 1, 2**62, 0])),
        ("options", np.asarray([8, 2, 1, 64, 0])),
        ("resize", np.asarray("other")),
        ("pushed", np.asarray(-2)),
        ("pushed", np.asarray(2**62)),
        ("state.handles", np.asarray([-1])),
        ("state.handles", np.asarray([2**62])),
        ("img_size", np.asarray("x")),
        ("family", np.asarray("sam3")),
    ],
)
def test_sessions_with_a_wrong_part(
    session: sam_rlx.VideoPredictor,
    sam2_model: sam_rlx.Model,
    frames: np.ndarray,
    tmp_path: Path,
    name: str,
    value: np.ndarray,
) -> None:
    path = tmp_path / "session.npz"
    session.save(path)
    np.savez(path, **{**fields_of(path), name: value})
    with pytest.raises(sam_rlx.CheckpointError, match=r"session.npz: expected"):
        sam_rlx.VideoPredictor.load(path, sam2_model, frames)


# ---------------------------------------------------------------- embeddings


@pytest.mark.parametrize("size", [[2**38, 2**38], [1, 2**38], [0, 5], [-1, 5], [5], [5, 5, 5]])
def test_sizes_of_images_have_limits(
    predictor: sam_rlx.ImagePredictor, tmp_path: Path, size: list[int]
) -> None:
    path = tmp_path / "embedding.npz"
    predictor.save_embedding(path)
    embedding = predictor.image_embeddings
    np.savez(path, **{**fields_of(path), "orig_hw": np.asarray(size)})
    with pytest.raises(sam_rlx.CheckpointError, match=r"embedding.npz: .*orig_hw"):
        predictor.load_embedding(path)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="orig_hw"):
        predictor.set_image_embedding(embedding, tuple(size))  # type: ignore[arg-type]


def test_a_file_of_the_other_kind(
    predictor: sam_rlx.ImagePredictor,
    session: sam_rlx.VideoPredictor,
    sam2_model: sam_rlx.Model,
    frames: np.ndarray,
    tmp_path: Path,
) -> None:
    predictor.save_embedding(tmp_path / "embedding.npz")
    session.save(tmp_path / "session.npz")
    with pytest.raises(sam_rlx.CheckpointError, match=r"expected format 'sam_rlx\.image_embedding"):
        predictor.load_embedding(tmp_path / "session.npz")
    with pytest.raises(sam_rlx.CheckpointError, match=r"expected format 'sam_rlx\.video_session"):
        sam_rlx.VideoPredictor.load(tmp_path / "embedding.npz", sam2_model, frames)


# ---------------------------------------------------------------- damage by chance


def test_damaged_files_are_read_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert damaged_files.main(120, 20) == 0, capsys.readouterr().out
    assert "120 files, seed 20" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["read", "error"])
def test_the_damage_script_tells_what_it_found(what: str, tmp_path: Path) -> None:
    def reader(path: Path) -> None:
        if what == "error":
            raise KeyError(path.name)

    kind = damaged_files.Kind("test", {}, reader, sam_rlx.CheckpointError)
    assert damaged_files.attempt(kind, tmp_path).partition(":")[0] in ("read", "KeyError")
