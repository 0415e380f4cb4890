"""What writers replace: no input, and no file of another kind than they write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
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


def test_a_folder_is_not_called_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="expected the name of a folder"):
        io.write_masks(tmp_path / "masks.png", [np.ones((3, 3), bool)])
    assert not list(tmp_path.iterdir())
    io.write_masks(tmp_path / "run.3", [np.ones((3, 3), bool)])


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
    with pytest.raises(InvalidArgumentError, match=r"ends in \.safetensors, found '\.jpg'"):
        predictor.save_embedding(tmp_path / "a.jpg")
    predictor.save_embedding(tmp_path / "a.emb")
    predictor.save_embedding(tmp_path / "a.emb")


def test_an_embedding_never_replaces_weights(tiny_checkpoint: Path, tmp_path: Path) -> None:
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(tiny_checkpoint), num_threads=1)
    predictor.set_image(np.zeros((20, 30, 3), np.uint8))
    theirs, ours = tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors"
    safetensors.numpy.save_file({"a": np.zeros(3, np.float32)}, theirs, {"format": "pt"})
    sam_rlx.convert(tiny_checkpoint, ours)
    for path in (theirs, ours):
        before = path.read_bytes()
        with pytest.raises(InvalidArgumentError, match="found weights: choose another name"):
            predictor.save_embedding(path)
        assert path.read_bytes() == before


def test_a_session_never_replaces_what_it_reads(
    sam2_checkpoint: Path, clip: Path, tmp_path: Path
) -> None:
    model = sam_rlx.load_model(sam2_checkpoint)
    source = tmp_path / "clip"  # a suffix would be refused before
    source.write_bytes(clip.read_bytes())
    frames = tmp_path / "frames"
    frames.mkdir()
    for number in (1001, 1003):
        Image.new("RGB", (16, 12), "red").save(frames / f"shot_{number}.png")
    (tmp_path / "link").symlink_to(frames / "shot_1003.png")
    for given, target in ((source, source), (frames, tmp_path / "link")):
        video = sam_rlx.VideoPredictor(model, given, num_threads=1)
        with pytest.raises(InvalidArgumentError, match="expected another file than the input"):
            video.save(target)
    assert source.read_bytes() == clip.read_bytes()
    video.save(tmp_path / "a.safetensors")
    video.save(tmp_path / "a.safetensors")


@pytest.mark.parametrize("kind", ["embedding", "session"])
def test_files_belong_to_the_weights_that_made_them(
    kind: str, sam2_checkpoint: Path, tmp_path: Path
) -> None:
    """A fine-tune of the same structure: the error names both."""
    weights = safetensors.numpy.load_file(sam2_checkpoint)
    name = next(name for name in weights if name.startswith("image_encoder."))
    weights[name] = weights[name] + np.float32(1e-3)
    other_file = tmp_path / "tuned.safetensors"
    with safetensors.safe_open(sam2_checkpoint, "np") as opened:
        safetensors.numpy.save_file(weights, other_file, opened.metadata())
    model, other = sam_rlx.load_model(sam2_checkpoint), sam_rlx.load_model(other_file)
    again = sam_rlx.load_model(sam2_checkpoint)
    path = tmp_path / "a.safetensors"
    image = np.zeros((20, 30, 3), np.uint8)

    def load(model: sam_rlx.Model) -> None:
        if kind == "session":
            sam_rlx.VideoPredictor.load(path, model, num_threads=1)
        else:
            sam_rlx.ImagePredictor(model, num_threads=1).load_embedding(path)

    if kind == "session":
        video = sam_rlx.VideoPredictor(model, num_threads=1)
        video.push(image)
        video.save(path)
    else:
        predictor = sam_rlx.ImagePredictor(model, num_threads=1)
        predictor.set_image(image)
        predictor.save_embedding(path)
    load(again)
    with pytest.raises(
        sam_rlx.CheckpointError, match=rf"weights of tuned\.safetensors .*{sam2_checkpoint.name}"
    ):
        load(other)


def test_equal_weights_have_one_hash_in_any_file(tiny_checkpoint: Path, tmp_path: Path) -> None:
    """Whatever the container and the precision; rounded weights are others."""
    expected = sam_rlx.load_model(tiny_checkpoint).core.weights_hash
    assert len(expected) == 16
    for name, dtype, same in (
        ("a.safetensors", None, True),
        ("a.gguf", "F32", True),
        ("b.gguf", "F16", False),
    ):
        sam_rlx.convert(tiny_checkpoint, tmp_path / name, dtype=dtype)
        found = sam_rlx.load_model(tmp_path / name).core.weights_hash
        assert (found == expected) == same, name
    loaded = sam_rlx.load_model(tiny_checkpoint, precision="int8", isa="generic")
    assert loaded.core.weights_hash == expected
