"""Sessions, embeddings and masks on disk: read whole, or refused with an error of ours."""

from __future__ import annotations

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
from support import saved_files
from support.videos import POINT

SCHEMA: saved_arrays.Schema = {
    "values": Field("f", range(1, 4)),
    "names": Field("U", 1, required=False),
    "counts": Field("i", 0, required=False),
}


def read(path: Path) -> dict[str, np.ndarray]:
    with path.open("rb") as file:
        return saved_arrays.read_masks(file, str(path), "a test file", SCHEMA)


@pytest.fixture
def session(sam2_model: sam_rlx.Model, frames: np.ndarray) -> sam_rlx.VideoPredictor:
    return sam_rlx.VideoPredictor(sam2_model, frames).add_prompt(0, 1, **POINT)


# ---------------------------------------------------------------- masks of anybody


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_arrays_come_back(write: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 1, 5)).astype(np.float32)
    for given in (values, values[..., ::2], np.asfortranarray(values), values[:0], values[0, 0]):
        write(tmp_path / "a.npz", values=given, names=["ä", "", "狗"], other=[1])
        found = read(tmp_path / "a.npz")
        assert found.keys() == {"values", "names"}
        np.testing.assert_array_equal(found["values"], given)
        assert found["values"].dtype == np.float32
        assert found["names"].tolist() == ["ä", "", "狗"]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({}, "no values"),
        ({"values": np.zeros((1, 1, 1, 1))}, "values of float64 with 4 axes"),
        ({"values": np.zeros(3, np.int64)}, "values of int64"),
        ({"values": np.zeros(3, ">f4")}, "no array of plain values"),
        ({"values": np.zeros(3, [("a", "f4")])}, "no array of plain values"),
        ({"names": np.array(["\ud800"])}, "utf-32"),
        ({"counts": np.zeros((1,) * 6, int)}, "counts with 6 axes"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(sam_rlx.InvalidArgumentError) as caught:
        read(tmp_path / "a.npz")
    assert str(caught.value).startswith(f"{tmp_path / 'a.npz'}: expected a test file, found")
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
        archive.writestr("values.npy", HOSTILE[name])
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"expected a test file, found .*values"):
        read(tmp_path / "a")


def test_what_is_not_in_the_schema_is_not_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a", "w") as archive:
        archive.writestr("values.npy", member("'<f4'", "(1,)", b"\0" * 4))
        archive.writestr("other.npy", HOSTILE["a huge shape"])
    assert list(read(tmp_path / "a")) == ["values"]


def test_arrays_that_grow_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "a.npz", values=np.zeros(1 << 20, np.float32))
    assert read(tmp_path / "a.npz")["values"].size == 1 << 20
    monkeypatch.setattr(saved_arrays, "MAX_UNPACKED", 1 << 20)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="of which at most 1048576 are taken"):
        read(tmp_path / "a.npz")


def test_directories_that_lie(tmp_path: Path) -> None:
    """The sizes of an archive's directory are no reason to allocate."""
    np.savez(tmp_path / "a.npz", counts=1, values=np.zeros(100, np.float32))
    data = (tmp_path / "a.npz").read_bytes()
    entry = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1)
    for offset, value in ((20, 2**31), (24, 2**31), (42, 2**31), (6, 99), (8, 1), (10, 12)):
        form = "<I" if value > 99 else "<H"
        changed = bytearray(data)
        struct.pack_into(form, changed, entry + offset, value)
        (tmp_path / "b").write_bytes(changed)
        with pytest.raises(sam_rlx.InvalidArgumentError, match=r"b: expected a test file"):
            read(tmp_path / "b")


def test_a_disk_that_fails_is_no_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    np.savez(tmp_path / "a.npz", values=[0.5])
    monkeypatch.setattr(zipfile.ZipFile, "open", fail)
    with pytest.raises(OSError, match="Input/output error"):
        read(tmp_path / "a.npz")


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


def test_names_in_the_files_of_sessions(
    session: sam_rlx.VideoPredictor,
    sam2_model: sam_rlx.Model,
    frames: np.ndarray,
    tmp_path: Path,
) -> None:
    path = tmp_path / "session.safetensors"
    session.save(path)
    fields = saved_files.read(path)
    assert [json.loads(text) for text in json.loads(fields["names"])] == [["int", "0x1"]]
    for names in ([], ['"a"', '"b"'], ["1"], ["(" * 3000], [1], {}, "x"):
        saved_files.write(path, {**fields, "names": json.dumps(names)})
        with pytest.raises(sam_rlx.CheckpointError, match="expected"):
            sam_rlx.VideoPredictor.load(path, sam2_model, frames)


def option(**changes: Any) -> str:
    options = {"fill_hole_area": 8, "min_mask_region_area": 0, "history": 64, "resize": "video"}
    options["memory_rule"] = None
    options |= dict.fromkeys(("non_overlap_masks", "keep_corrections", "memory_selection"), False)
    return json.dumps({**options, **changes})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", "sam_rlx.video_session.1"),
        ("options", ""),
        ("options", "[" * 9999),
        ("options", "[1, 2]"),
        ("options", '{"history": 1}'),
        ("options", option(fill_hole_area=-1)),
        ("options", option(fill_hole_area=True)),
        ("options", option(history=2**62)),
        ("options", option(history=1.5)),
        ("options", option(non_overlap_masks=1)),
        ("options", option(resize="other")),
        ("options", option(resize=["video"])),
        ("options", option(memory_rule="other")),
        ("options", option(memory_rule="")),
        ("options", option(more=1)),
        ("num_pushed", np.asarray([-2])),
        ("num_pushed", np.asarray([2**62])),
        ("num_pushed", np.asarray([3])),
        ("handles", np.asarray([-1])),
        ("handles", np.asarray([2**62])),
        ("handles", np.asarray([[0]])),
        ("handles", np.asarray([0], np.int32)),
        ("0.cond.obj_ptr", np.zeros((1,) * 6, np.float32)),
        ("img_size", "x"),
        ("family", "sam3"),
    ],
)
def test_sessions_with_a_wrong_part(
    session: sam_rlx.VideoPredictor,
    sam2_model: sam_rlx.Model,
    frames: np.ndarray,
    tmp_path: Path,
    name: str,
    value: Any,
) -> None:
    path = tmp_path / "session.safetensors"
    session.save(path)
    fields = saved_files.read(path)
    saved_files.write(path, {**fields, "options": option()})
    sam_rlx.VideoPredictor.load(path, sam2_model, frames)
    saved_files.write(path, {**fields, name: value})
    with pytest.raises(sam_rlx.CheckpointError, match=r"session.safetensors: .*expected"):
        sam_rlx.VideoPredictor.load(path, sam2_model, frames)


# ---------------------------------------------------------------- embeddings


@pytest.mark.parametrize("size", [[2**38, 2**38], [1, 2**38], [0, 5], [-1, 5], [5], [5, 5, 5]])
def test_sizes_of_images_have_limits(
    predictor: sam_rlx.ImagePredictor, tmp_path: Path, size: list[int]
) -> None:
    path = tmp_path / "embedding.safetensors"
    predictor.save_embedding(path)
    embedding = predictor.image_embeddings
    saved_files.write(path, {**saved_files.read(path), "orig_hw": json.dumps(size)})
    with pytest.raises(sam_rlx.CheckpointError, match=r"embedding.safetensors: .*orig_hw"):
        predictor.load_embedding(path)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="orig_hw"):
        predictor.set_image_embedding(embedding, tuple(size))  # type: ignore[arg-type]


@pytest.mark.parametrize("size", ["", "x", "5", "null", "[1e999, 5]", '["5", 5]', "[" * 9999])
def test_sizes_that_are_none(predictor: sam_rlx.ImagePredictor, tmp_path: Path, size: str) -> None:
    path = tmp_path / "embedding.safetensors"
    predictor.save_embedding(path)
    saved_files.write(path, {**saved_files.read(path), "orig_hw": size})
    with pytest.raises(sam_rlx.CheckpointError, match="expected a complete embedding"):
        predictor.load_embedding(path)


def test_any_program_reads_and_writes_embeddings(
    predictor: sam_rlx.ImagePredictor, tmp_path: Path
) -> None:
    """The judge of the format is the package of Hugging Face; floats of 16 bits are taken."""
    path = tmp_path / "embedding.safetensors"
    predictor.save_embedding(path)
    fields = saved_files.read(path)
    (expected,) = predictor.image_embeddings
    np.testing.assert_array_equal(fields["image_embedding"], expected)
    assert fields["orig_hw"] == json.dumps(predictor.orig_hw)
    assert fields["written_by"] == "sam_rlx"
    half = expected.astype(np.float16)
    saved_files.write(path, {**fields, "image_embedding": half})
    predictor.load_embedding(path)
    np.testing.assert_array_equal(predictor.image_embeddings[0], half.astype(np.float32))


@pytest.mark.parametrize("part", ["a text", "a number"])
def test_a_changed_byte_is_found(
    predictor: sam_rlx.ImagePredictor, tmp_path: Path, part: str
) -> None:
    path = tmp_path / "embedding.safetensors"
    predictor.save_embedding(path)
    data = bytearray(path.read_bytes())
    at = data.index(b"checkpoint") + 13 if part == "a text" else len(data) - 2
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(sam_rlx.CheckpointError, match=r"expected the checksum .*file is damaged"):
        predictor.load_embedding(path)


def test_a_file_of_the_other_kind(
    predictor: sam_rlx.ImagePredictor,
    session: sam_rlx.VideoPredictor,
    sam2_model: sam_rlx.Model,
    frames: np.ndarray,
    tmp_path: Path,
) -> None:
    embedding, video = tmp_path / "embedding.safetensors", tmp_path / "session.safetensors"
    predictor.save_embedding(embedding)
    session.save(video)
    with pytest.raises(sam_rlx.CheckpointError, match=r"expected format 'sam_rlx\.image_embedding"):
        predictor.load_embedding(video)
    with pytest.raises(sam_rlx.CheckpointError, match=r"expected format 'sam_rlx\.video_session"):
        sam_rlx.VideoPredictor.load(embedding, sam2_model, frames)


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
