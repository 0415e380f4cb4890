"""One rule for the results of all commands: files of others stay without ``--overwrite``."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import safetensors.numpy
from gguf import GGUFWriter
from PIL import Image
from sam_rlx import io
from sam_rlx._internal.files.marks import is_own_file
from sam_rlx.apps.cli import demo
from sam_rlx.apps.parity.report import Report

BOX = ["--box", "100,60,200,200"]


def _foreign_json(path: Path) -> None:
    """Somebody's annotations, with the name of this library in them."""
    path.write_text(json.dumps({"images": [{"file_name": "sam_rlx.jpg"}], "info": {}}))


def _foreign_npz(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, masks=np.zeros((1, 3, 3)))


def _foreign_clip(path: Path) -> None:
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=Fraction(10))
        stream.width, stream.height, stream.pix_fmt = 32, 16, "yuv420p"
        frame = av.VideoFrame.from_ndarray(np.zeros((16, 32, 3), np.uint8), format="rgb24")
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def _foreign_gguf(path: Path) -> None:
    writer = GGUFWriter(path, "sam")
    writer.add_tensor("a", np.zeros((2, 2), np.float32))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file):
        write()
    writer.write_tensors_to_file()
    writer.close()


def _foreign_safetensors(path: Path) -> None:
    safetensors.numpy.save_file({"a": np.zeros(3, np.float32)}, path, {"format": "pt"})


def _foreign_text(path: Path) -> None:
    path.write_text("<html>sam_rlx</html>")


def _foreign_image(path: Path) -> None:
    Image.fromarray(np.full((9, 9, 3), 90, np.uint8)).save(path)


# Command, option, name of the result, and what makes a file of somebody else there.
SEGMENT = ["segment", "photo.jpg", *BOX, "--model", "{sam}"]
EVERYTHING = ["everything", "photo.jpg", "--points-per-side", "2", "--model", "{sam}",
              "--pred-iou-thresh", "0", "--stability-score-thresh", "0"]  # fmt: skip
TRACK = ["track", "{clip}", "--box", "5,5,40,40", "--model", "{sam2}", "--max-frames", "1"]
BATCH = ["batch", "photo.jpg", "--output", "batch", "--model", "{sam2}", "--points-per-side", "1",
         "--workers", "1"]  # fmt: skip
PARITY = ["parity", "{sam}"]
ROWS = [
    (SEGMENT, "--output", "a.png", _foreign_image),
    (SEGMENT, "--output", "out", "out/overlay.png", _foreign_image),
    (SEGMENT, "--output", "out", "out/masks.json", _foreign_json),
    (SEGMENT, "--output", "out", "out/mask_003.png", _foreign_image),
    (SEGMENT, "--json", "a.json", _foreign_json),
    (SEGMENT, "--json", "results", _foreign_text),
    (SEGMENT, "--npz", "a.npz", _foreign_npz),
    (SEGMENT, "--masks", "m", "m/mask_000.png", _foreign_image),
    (["segment", "photo.jpg", "b.jpg", *BOX, "--model", "{sam}"], "--json", "a.json",
     _foreign_json),
    (EVERYTHING, "--json", "a.json", _foreign_json),
    (EVERYTHING, "--npz", "a.npz", _foreign_npz),
    (TRACK, "--output", "a.mp4", _foreign_clip),
    (TRACK, "--output", "out", "out/overlay.mp4", _foreign_clip),
    (TRACK, "--output", "out", "out/masks.json", _foreign_json),
    (TRACK, "--json", "a.json", _foreign_json),
    (TRACK, "--masks", "m", "m/1_00000.png", _foreign_image),
    (BATCH, "--json", "a.json", _foreign_json),
    (PARITY, "--json", "a.json", _foreign_json),
    (PARITY, "--junit", "a.xml", _foreign_text),
    (PARITY, "--html", "a.html", _foreign_text),
    (["demo", "--model", "{sam}"], "--output", "a.png", _foreign_image),
    (["convert", "{sam}"], "", "a.safetensors", _foreign_safetensors),
    (["convert", "{sam}"], "", "a.gguf", _foreign_gguf),
    (["convert", "{transformers}"], "", "out", "out/model.safetensors", _foreign_safetensors),
    (["convert", "{transformers}"], "", "out", "out/config.json", _foreign_json),
    (["quantize", "{sam}", "--type", "F16"], "", "a.gguf", _foreign_gguf),
]  # fmt: skip
_IDS = [" ".join([row[0][0], *filter(None, (row[1], row[-2]))]) for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=_IDS)
def test_files_of_others_stay(
    row: tuple,
    run_cli: Callable[..., tuple[int, str, str]],
    tiny_checkpoint: Path,
    sam2_checkpoint: Path,
    clip: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What another program wrote is refused, and is written over on demand; ours is replaced."""
    monkeypatch.chdir(tmp_path)
    for name in ("photo.jpg", "b.jpg"):
        Path(name).write_bytes(demo.IMAGE.read_bytes())
    command, option, output, *between, make = row
    files = {"sam": tiny_checkpoint, "sam2": sam2_checkpoint, "clip": clip,
             "transformers": "sam-nano"}  # fmt: skip
    words = [word.format(**files) for word in command] + [*filter(None, [option]), output]
    result = Path(between[0] if between else output)
    result.parent.mkdir(exist_ok=True)
    make(result)
    before = result.read_bytes()
    code, _, err = run_cli(*words)
    assert code == 2
    assert f"found {result}, which sam-rlx has not written: choose another name, or --over" in err
    assert result.read_bytes() == before
    assert not is_own_file(result)
    if command[0] == "parity":  # its results are below
        return
    assert run_cli(*words, "--overwrite")[0] == 0
    if result.name == "mask_003.png":  # of the names of ours, but none of the run's
        assert result.read_bytes() == before
        return
    assert result.read_bytes() != before
    if "b.jpg" not in command:  # of several images, results of ours stay too
        assert run_cli(*words)[0] == 0


def test_reports_are_known(tmp_path: Path) -> None:
    report = Report("a.pt", "sam", "vit_b", "segment_anything", "float32", True, (), (), (), (), {})
    for name, write in (("a.json", report.write_json), ("a.xml", report.write_junit),
                        ("a.html", report.write_html)):  # fmt: skip
        write(tmp_path / name)
        assert is_own_file(tmp_path / name), name


def test_marks_are_passed_over_by_readers(tmp_path: Path) -> None:
    """NumPy reads the archive, and nothing else is in it."""
    path = tmp_path / "a.npz"
    io.write_npz(path, a=np.arange(5), b=np.zeros((2, 3), bool))
    with np.load(path) as found:
        assert found.files == ["a", "b"]
        np.testing.assert_array_equal(found["a"], np.arange(5))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert {member.compress_type for member in archive.infolist()} == {zipfile.ZIP_DEFLATED}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"P",
        b"PK\3\4",
        b"GGUF",
        b"\0\0\0\x18ftypmp42",
        b"\xff" * 8 + b"{",
        b"\4\0\0\0\0\0\0\0{[]}",
    ],
)
def test_damaged_files_are_not_ours(data: bytes, tmp_path: Path) -> None:
    for name in ("a.json", "a.npz", "a.mp4", "a.png"):
        (tmp_path / name).write_bytes(data)
        assert not is_own_file(tmp_path / name)
