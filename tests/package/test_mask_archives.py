"""Archives of masks and objects, and arrays, that are damaged or lie about their size."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sam_rlx.apps.annotator.saved import OpenImages
from sam_rlx.apps.annotator.saved_documents import read_saved
from sam_rlx.apps.cli import mask_files
from sam_rlx.apps.cli.common import UsageError
from sam_rlx.errors import InvalidArgumentError

HW = (20, 30)
IMAGES = OpenImages(["a.png"], 0, lambda _: HW)


def _objects(compressed: bool) -> bytes:
    file = io.BytesIO()
    arrays = {
        "masks": np.arange(2 * 600).reshape(2, *HW) % 7 < 3,
        "scores": np.float32([0.5, 0.75]),
        "names": np.array(["cat", "d\u00f6g"]),
        "colors": np.uint8([[1, 2, 3], [4, 5, 6]]),
        "labels": np.zeros(HW, np.uint16),
    }
    (np.savez_compressed if compressed else np.savez)(file, **arrays)  # type: ignore[operator]
    return file.getvalue()


def _masks() -> bytes:
    file = io.BytesIO()
    masks, scores = np.ones((3, *HW), bool), np.float32([0.1, 0.9, 0.3])
    np.savez(file, masks=masks, iou_predictions=scores, low_res_masks=np.zeros((3, 8, 8), "f4"))
    return file.getvalue()


def _array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.ones(HW, np.uint8))
    return file.getvalue()


def _damaged(contents: bytes, count: int) -> Iterator[bytes]:
    """Yield the contents with bytes changed, left out or doubled."""
    random = np.random.default_rng(7)
    for _ in range(count):
        changed = bytearray(contents)
        for _ in range(int(random.integers(1, 4))):
            at, kind = int(random.integers(len(changed))), int(random.integers(4))
            if kind == 0:
                del changed[at:]
            elif kind == 1:
                changed[at : at + 1] = changed[at : at + int(random.integers(64))] * 2
            else:
                changed[at] = int(random.choice([0, 1, 0x7F, 0x80, 0xFF, random.integers(256)]))
            if not changed:
                break
        yield bytes(changed)


@pytest.mark.parametrize("count", [60, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("compressed", [True, False])
def test_damaged_objects_are_refused(compressed: bool, count: int) -> None:
    contents = _objects(compressed)
    assert len(read_saved("objects.npz", contents, IMAGES).objects[0]) == 2
    refused = []
    for changed in _damaged(contents, count):
        try:
            read_saved("objects.npz", changed, IMAGES)
        except InvalidArgumentError as error:
            refused.append(str(error))
    assert len(refused) > count // 4
    assert max(map(len, refused)) < 2000  # signs that no terminal shows are written as escapes


@pytest.mark.parametrize("count", [60, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("contents", [_masks(), _array()], ids=["archive", "array"])
def test_damaged_masks_are_refused(tmp_path: Path, contents: bytes, count: int) -> None:
    path = tmp_path / "mask"
    path.write_bytes(contents)
    assert mask_files.read(path).mask is not None
    for changed in _damaged(contents, count):
        path.write_bytes(changed)
        with contextlib.suppress(UsageError):
            mask_files.read(path)


def test_headers_that_lie_take_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "mask.npy"
    whole = _array().replace(b"(20, 30)", b"(90000, 90000)")
    path.write_bytes(whole)
    with pytest.raises(UsageError, match=r"600 bytes|another file"):
        mask_files.read(path)
    archive = _objects(False).replace(b"(2, 20, 30)", b"(9, 90, 90)")
    with pytest.raises(InvalidArgumentError, match="found"):
        read_saved("objects.npz", archive, IMAGES)


def test_an_archive_of_other_counts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mask.npz"
    np.savez(path, masks=np.ones((3, *HW), bool), scores=np.float32([0.5]))
    with pytest.raises(UsageError, match="--mask"):
        mask_files.read(path)
    np.savez(path, masks=np.ones((3, *HW), bool))
    with pytest.raises(UsageError, match="--mask"):
        mask_files.read(path)
