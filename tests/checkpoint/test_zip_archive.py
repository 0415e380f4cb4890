"""Zip archives whose directory lies are refused before anything is read."""

import io
import struct
import zipfile

import numpy as np
import pytest
from support import checkpoint_files as files

TENSORS = {"w": files.stored(np.arange(4, dtype=np.float32))}


def entries():
    storages = files.Storages()
    return files.torch_entries(files.state_dict_value(TENSORS, storages), storages)


def patched(data, at, layout, value):
    changed = bytearray(data)
    struct.pack_into(layout, changed, at % len(data), value)
    return bytes(changed)


def central(data, number=0):
    """Offset of an entry of the central directory."""
    at = -1
    for _ in range(number + 1):
        at = data.index(b"PK\x01\x02", at + 1)
    return at


@pytest.mark.parametrize(
    "options", [{}, {"zip64": True}, {"comment": b"PK\x05\x06" + bytes(30)}, {"align": 1}]
)
def test_reads_what_the_format_allows(testing, tmp_path, options):
    path = tmp_path / "x.pth"
    path.write_bytes(files.zip_bytes(entries(), **options))
    assert testing.open_checkpoint(path).keys() == ["w"]


def test_reads_an_archive_of_the_zipfile_module(testing, tmp_path):
    path = tmp_path / "x.pth"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries():
            archive.writestr(name, data)
    np.testing.assert_array_equal(testing.open_checkpoint(path)["w"], np.arange(4))


def test_refuses_compression(refuse):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10_000_000))
    error = refuse(content.getvalue())
    assert "without compression, found compression method 8; unpack a zip file" in error


def test_refuses_two_entries_of_one_name(refuse):
    assert "expected one entry of this name" in refuse(
        files.zip_bytes([*entries(), ("archive/data.pkl", b".")])
    )


def test_refuses_entries_that_overlap(refuse):
    inner = files.zip_bytes([("b", b"1234")])
    data = files.zip_bytes([("a/data.pkl", inner), ("b", b"1234")], align=1)
    inside = data.index(b"PK\x03\x04", 4)
    data = patched(data, data.rindex(b"PK\x01\x02") + 42, "<I", inside)
    assert "do not overlap" in refuse(data)


@pytest.mark.parametrize(
    ("field", "layout", "value", "message"),
    [
        (8, "<H", 1, "encrypted"),
        (10, "<H", 99, "compression method 99"),
        (20, "<I", 7, "stored bytes"),
        (34, "<H", 3, "stored bytes in this file"),
        (42, "<I", 0x7FFFFFFF, "local header before the central directory"),
        (42, "<I", 1, "a local header at byte 1"),
        (28, "<H", 0xFFFF, "more bytes"),
        (30, "<H", 0xFFFF, "more bytes"),
        (46, "<H", 0x4242, "same name in the local header"),
        (0, "<I", 0, "an entry of the central directory"),
    ],
)
def test_refuses_a_lying_entry(refuse, field, layout, value, message):
    data = files.zip_bytes(entries())
    assert message in refuse(patched(data, central(data) + field, layout, value))


def test_refuses_a_size_beyond_the_file(refuse):
    data = files.zip_bytes(entries())
    at = central(data, 2)
    data = patched(patched(data, at + 20, "<I", 0x7FFFFFFF), at + 24, "<I", 0x7FFFFFFF)
    assert "expected 2147483647 more bytes" in refuse(data)


@pytest.mark.parametrize(
    ("field", "layout", "value", "message"),
    [
        (-18, "<H", 1, "one of several parts"),
        (-14, "<H", 1, "one of several parts"),
        (-10, "<I", 0xFFFFFF00, "a central directory inside the file"),
        (-6, "<I", 0xFFFFFF00, "a central directory inside the file"),
        (-6, "<I", 1, "an entry of the central directory"),
        (-2, "<H", 7, "no end record"),
    ],
)
def test_refuses_a_lying_end_record(refuse, field, layout, value, message):
    assert message in refuse(patched(files.zip_bytes(entries()), field, layout, value))


def test_refuses_more_entries_than_the_directory_holds(refuse):
    data = patched(files.zip_bytes(entries()), -12, "<H", 60000)
    assert "more bytes" in refuse(patched(data, -14, "<H", 60000))


ZIP64_END = -22 - 20 - 56


@pytest.mark.parametrize(
    ("field", "layout", "value", "message"),
    [
        (-22 - 12, "<Q", 2**63, "a zip64 end record before its locator"),
        (-22 - 12, "<Q", 0, "a zip64 end record where its locator says"),
        (ZIP64_END + 16, "<I", 9, "one of several parts"),
        (ZIP64_END + 32, "<Q", 2**64 - 1, "one of several parts"),
        (ZIP64_END + 40, "<Q", 2**64 - 1, "a central directory inside the file"),
        (ZIP64_END + 48, "<Q", 2**64 - 1, "a central directory inside the file"),
    ],
)
def test_refuses_a_lying_zip64_end(refuse, field, layout, value, message):
    assert message in refuse(patched(files.zip_bytes(entries(), zip64=True), field, layout, value))


@pytest.mark.parametrize("field", [4, 12, 20])
def test_refuses_lying_zip64_sizes(refuse, field):
    data = files.zip_bytes(entries(), zip64=True)
    extra = central(data) + 46 + len("archive/data.pkl")
    refuse(patched(data, extra + field, "<Q", 2**64 - 2))


def test_refuses_a_short_zip64_block(refuse):
    data = files.zip_bytes(entries(), zip64=True)
    extra = central(data) + 46 + len("archive/data.pkl")
    assert "zip64 sizes" in refuse(patched(data, extra + 2, "<H", 8))


def test_refuses_every_truncation(refuse):
    data = files.zip_bytes(entries(), align=4)
    for size in range(len(data)):
        refuse(data[:size])
