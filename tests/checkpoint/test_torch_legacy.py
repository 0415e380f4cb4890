"""The PyTorch format before zip archives: a row of pickles and raw storages."""

import io
import pickle
import struct
import tarfile

import numpy as np
import pytest
import sam_rlx.errors
from support import checkpoint_files as files

WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)
TENSORS = {"w": files.stored(WEIGHT), "b": files.stored(np.arange(3))}


def row(magic=files.LEGACY_MAGIC, version=files.LEGACY_PROTOCOL, system=None, **change):
    """A file with one storage of which parts are changed."""
    storages = files.Storages(legacy=True)
    parts = {
        "object": {"w": storages.tensor(files.stored(WEIGHT))},
        "keys": ["0"],
        "data": struct.pack("<q", 6) + WEIGHT.tobytes(),
    } | change
    pickles = [magic, version, system or {"little_endian": True}, parts["object"], parts["keys"]]
    return b"".join(map(files.pickle_bytes, pickles)) + parts["data"]


def test_the_plain_row_is_read(testing, tmp_path):
    path = tmp_path / "x.pth"
    path.write_bytes(row())
    np.testing.assert_array_equal(testing.open_checkpoint(path)["w"], WEIGHT)


def view_of_another(legacy_view):
    storages = files.Storages(legacy=True)
    call = storages.tensor(files.stored(WEIGHT))
    identity = call.arguments[0]
    identity.arguments = (*identity.arguments[:5], legacy_view)
    return {"w": call}


def two_types():
    storages = files.Storages(legacy=True)
    value = {"w": storages.tensor(files.stored(WEIGHT))}
    return value | {"v": storages.view(files.Stored("I32", b"", (6,)), "0", 6)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"magic": 5}, "PyTorch's magic number"),
        ({"magic": 2**79}, "PyTorch's magic number"),
        ({"version": 1002}, "protocol version 1001"),
        ({"version": "1001"}, "protocol version 1001"),
        ({"keys": []}, "storage 0: expected its elements"),
        ({"keys": ["0", "0"]}, "a storage of the object, once"),
        ({"keys": ["1"]}, "a storage of the object, once"),
        ({"keys": [0]}, "a storage of the object, once"),
        ({"keys": None}, "a list of keys"),
        ({"data": struct.pack("<q", 7) + bytes(28)}, "expected 6 elements, found 7"),
        ({"data": struct.pack("<q", -1)}, "expected 6 elements, found -1"),
        ({"data": struct.pack("<q", 2**62)}, "expected 6 elements"),
        ({"data": struct.pack("<q", 6) + bytes(23)}, "expected 24 more bytes"),
        ({"data": b""}, "expected 8 more bytes"),
        ({"object": view_of_another(("1", 0, 6))}, "a view of another"),
        ({"object": two_types()}, "one type and size"),
    ],
)
def test_refuses_a_lying_file(refuse, change, message):
    assert message in refuse(row(**change))


def test_big_endian_is_unsupported(testing, tmp_path):
    path = tmp_path / "x.pth"
    path.write_bytes(row(system={"little_endian": False}))
    with pytest.raises(sam_rlx.errors.UnsupportedError, match="found big"):
        testing.open_checkpoint(path)


def test_refuses_every_truncation(refuse):
    whole = files.legacy_bytes(TENSORS)
    for size in range(len(whole)):
        refuse(whole[:size])


def test_refuses_a_bare_pickle(refuse):
    assert "PyTorch's magic number" in refuse(pickle.dumps({"w": [1, 2]}, protocol=2))


def test_the_tar_format_is_unsupported(testing, tmp_path):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("storages"), io.BytesIO())
    path = tmp_path / "x.pth"
    path.write_bytes(content.getvalue())
    with pytest.raises(sam_rlx.errors.UnsupportedError, match="found a tar file"):
        testing.open_checkpoint(path)
