"""What writers replace: no input, and no file of another kind than they write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import io
from sam_rlx._internal.files.targets import check_target
from sam_rlx.errors import InvalidArgumentError

Writer = Callable[[Path], object]
WRITERS: dict[str, Writer] = {
    ".json": lambda path: io.write_json(path, {"a": 1}),
    ".npz": lambda path: io.write_npz(path, a=np.zeros(3)),
    ".png": lambda path: io.write_image(path, np.zeros((3, 3, 3), np.uint8)),
}


@pytest.mark.parametrize("kind", [".json", ".npz"])
@pytest.mark.parametrize("suffix", [".png", ".MP4", ".zip.gz", ".pth", ".csv", ".md"])
def test_a_suffix_of_another_kind_is_refused(kind: str, suffix: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=f"expected a name that ends in {kind}"):
        WRITERS[kind](tmp_path / f"a{suffix}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [".json", ".npz"])
@pytest.mark.parametrize("name", ["a", ".a", "a.tmp", "v1.5", "a.2026-11"])
def test_a_suffix_that_says_nothing_is_taken(kind: str, name: str, tmp_path: Path) -> None:
    WRITERS[kind](tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("kind", list(WRITERS))
def test_files_of_other_kinds_stay(kind: str, tmp_path: Path) -> None:
    name = tmp_path / f"a{kind}"
    photo = tmp_path / "photo.webp"
    Image.new("RGB", (8, 8), "red").save(photo)
    name.write_bytes(photo.read_bytes())
    with pytest.raises(InvalidArgumentError, match=r"found a file of WEBP that sam_rlx has not"):
        WRITERS[kind](name)
    assert name.read_bytes() == photo.read_bytes()
    io.write_image(photo, np.zeros((3, 3, 3), np.uint8))  # of ours: replaced
    name.write_bytes(photo.read_bytes())
    WRITERS[kind](name)
    WRITERS[kind](name)


def test_inputs_stay(tmp_path: Path) -> None:
    source, link = tmp_path / "a.json", tmp_path / "b.json"
    source.write_text("{}")
    link.symlink_to("a.json")
    for target in (source, link):
        with pytest.raises(InvalidArgumentError, match="expected another file than the input"):
            check_target(target, ("JSON",), [source])
    check_target(tmp_path / "c.json", ("JSON",), [source])


def test_an_embedding_is_no_image_file(tiny_checkpoint: Path, tmp_path: Path) -> None:
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(tiny_checkpoint), num_threads=1)
    predictor.set_image(np.zeros((20, 30, 3), np.uint8))
    with pytest.raises(InvalidArgumentError, match=r"ends in \.npz, found '\.jpg'"):
        predictor.save_embedding(tmp_path / "a.jpg")
    predictor.save_embedding(tmp_path / "a.emb")
    predictor.save_embedding(tmp_path / "a.emb")
