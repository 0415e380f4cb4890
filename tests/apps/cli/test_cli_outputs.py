"""Result files of the command line: inputs stay, used folders are cleaned, hints."""

from __future__ import annotations

import io as standard_io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import io
from sam_rlx._internal.arrays.mask_logits import mask_logits
from sam_rlx._internal.files.marks import is_own_file
from sam_rlx.apps import cli
from sam_rlx.apps.cli import demo
from support import cookbook

BOX = ["--box", "100,60,200,200"]
STRICT = ["--points-per-side", 2, "--pred-iou-thresh", 9]


@pytest.fixture
def photo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A photograph in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "photo.jpg"
    path.write_bytes(demo.IMAGE.read_bytes())
    return path


@pytest.fixture
def run(
    tiny_checkpoint: Path, run_cli: Callable[..., tuple[int, str, str]]
) -> Callable[..., tuple[int, str, str]]:
    def run(command: str, *words: object) -> tuple[int, str, str]:
        return run_cli(command, *words, "--model", tiny_checkpoint, "--threads", 1)

    return run


# ---------------------------------------------------------------- inputs


@pytest.mark.parametrize("option", ["--output", "--json", "--npz"])
@pytest.mark.parametrize("name", ["photo.jpg", "./photo.jpg", "link.jpg", "hard.jpg"])
def test_the_input_is_never_replaced(
    run: Callable[..., tuple], photo: Path, option: str, name: str
) -> None:
    before = photo.read_bytes()
    (photo.parent / "link.jpg").symlink_to("photo.jpg")
    (photo.parent / "hard.jpg").hardlink_to(photo)
    code, _, err = run("segment", "photo.jpg", *BOX, option, name)
    assert code == 2
    assert "than the input" in err
    assert photo.read_bytes() == before


def test_inputs_in_a_result_folder_are_never_replaced(
    run: Callable[..., tuple], photo: Path
) -> None:
    out = photo.parent / "out"
    assert run("segment", photo, *BOX, "--output", out)[0] == 0
    for name in ("overlay.png", "mask_000.png"):
        before = (out / name).read_bytes()
        assert run("segment", out / name, *BOX, "--output", out)[0] == 2
        assert run("segment", photo, "--mask", out / name, "--output", out)[0] == 2
        assert (out / name).read_bytes() == before
    code, _, err = run("segment", photo, *BOX, "--json", "x", "--npz", "x")
    assert code == 2
    assert "different files" in err


def test_a_model_is_not_converted_onto_itself(
    run_cli: Callable[..., tuple], tiny_checkpoint: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(tiny_checkpoint.read_bytes())
    (tmp_path / "b.gguf").symlink_to(path)
    for words in (
        ["convert", path, path],
        ["quantize", path, tmp_path / "b.gguf", "--type", "F16"],
    ):
        code, _, err = run_cli(*words)
        assert code == 2
        assert "expected another output file than the source" in err
    assert path.read_bytes() == tiny_checkpoint.read_bytes()


# ---------------------------------------------------------------- further formats


def test_formats_are_those_of_results(run: Callable[..., tuple], photo: Path) -> None:
    """The files of --formats are those that `save` writes, beside the usual ones."""
    out, saved = photo.parent / "out", photo.parent / "saved"
    code, text, _ = run("segment", photo, *BOX, "--output", out, "--formats", "csv,cutouts,yolo")
    assert code == 0
    image = io.read_image(photo)
    mask = io.read_mask(out / "mask_000.png")
    score = json.loads((out / "masks.json").read_text())["annotations"][0]["predicted_iou"]
    result = sam_rlx.Objects([mask], scores=[score])
    names = ["cutout_000.png", "masks.csv", "masks.txt"]
    assert [path.name for path in result.save(saved, ["cutouts", "csv", "yolo"], image=image)] == (
        names
    )
    for name in names:
        assert (out / name).read_bytes() == (saved / name).read_bytes(), name
        assert f"wrote {out / name}" in text


def test_cutouts_of_an_earlier_run_go(run: Callable[..., tuple], photo: Path) -> None:
    out = photo.parent / "out"
    words = ["--output", out, "--formats", "cutouts"]
    assert run("segment", photo, *BOX, "--box", "10,10,90,90", *words)[0] == 0
    code, text, _ = run("segment", photo, *BOX, *words)
    assert code == 0
    assert "removed 1 cut-out of an earlier run" in text
    assert [path.name for path in out.glob("cutout_*")] == ["cutout_000.png"]


def test_formats_of_several_images_are_resumed(run: Callable[..., tuple], photo: Path) -> None:
    """An image is left whose results were made with the same formats, and no others."""
    photos, out = photo.parent / "photos", photo.parent / "out"
    photos.mkdir()
    for name in ("a.jpg", "b.jpg"):
        (photos / name).write_bytes(photo.read_bytes())
    words = ["segment", photos, *BOX, "--output", out, "--formats", "geojson"]
    assert run(*words)[0] == 0
    for name in ("a", "b"):
        assert json.loads((out / name / "masks.geojson").read_text())["features"]
    code, text, err = run(*words)
    assert (code, text.count("left, since it has its results")) == (1, 2), err
    assert run(*words[:-1], "labels")[0] == 2


def test_cutouts_never_replace_an_input_or_the_file_of_another(
    run: Callable[..., tuple], photo: Path
) -> None:
    words = ["--output", "out", "--formats", "cutouts,labels"]
    assert run("segment", photo, *BOX, *words)[0] == 0
    for name in ("cutout_000.png", "labels.png"):
        path = photo.parent / "out" / name
        before = path.read_bytes()
        assert run("segment", path, "--point", "9,9", *words)[0] == 2
        assert path.read_bytes() == before
        Image.fromarray(np.zeros((9, 9), np.uint8)).save(path)
        code, _, err = run("segment", photo, *BOX, *words)
        assert code == 2
        assert "which sam-rlx has not written" in err
        path.write_bytes(before)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--output", "out", "--formats", "csv,coco"], "expected some of"),
        (["--output", "a.png", "--formats", "csv"], "--formats: expected a directory as --output"),
        (["--json", "a.json", "--formats", "csv"], "--formats: expected a directory as --output"),
    ],
)
def test_formats_without_a_folder(
    run: Callable[..., tuple], photo: Path, words: list[str], error: str
) -> None:
    code, _, err = run("segment", photo, *BOX, *words)
    assert code == 2
    assert error in err


def test_geojson_of_a_tiled_image_lies_on_its_map(run: Callable[..., tuple], photo: Path) -> None:
    """With --tile the transform of the file is that of the outlines."""
    pytest.importorskip("tifffile", reason="needs the extra tiff")
    path = photo.parent / "scene.tif"
    cookbook.write_geotiff(path, io.read_image(photo))
    words = [*BOX, "--tile", 512, "--output", "out", "--formats", "geojson"]
    assert run("segment", path, *words)[0] == 0
    found = json.loads((photo.parent / "out" / "masks.geojson").read_text())
    assert found["crs"]["properties"]["name"] == "urn:ogc:def:crs:EPSG::32633"
    corners = np.concatenate([ring for one in found["features"] for part in one["geometry"]
                              ["coordinates"] for ring in part])  # fmt: skip
    (x0, y0), (x1, y1) = corners.min(axis=0), corners.max(axis=0)
    document = json.loads((photo.parent / "out" / "masks.json").read_text())
    x, y, width, height = document["annotations"][0]["bbox"]
    left, top = cookbook.ORIGIN
    expected = [left + x / 2, top - (y + height) / 2, left + (x + width) / 2, top - y / 2]
    assert [x0, y0, x1, y1] == expected


# ---------------------------------------------------------------- used folders


def test_masks_of_an_earlier_run_go(run: Callable[..., tuple], photo: Path) -> None:
    out = photo.parent / "out"
    for words in (["--output", out], ["--masks", out]):
        assert run("segment", photo, *BOX, "--multimask", *words)[0] == 0
        (out / "mask_of_mine.png").write_bytes(b"x")
        code, text, _ = run("segment", photo, *BOX, *words)
        assert code == 0
        assert "removed 2 masks of an earlier run" in text
        assert sorted(path.name for path in out.glob("mask_*")) == [
            "mask_000.png",
            "mask_of_mine.png",
        ]
    assert len(json.loads((out / "masks.json").read_text())["annotations"]) == 1


def test_masks_of_others_stay(run: Callable[..., tuple], photo: Path) -> None:
    """A folder of ground truth that is called as results are."""
    out = photo.parent / "truth"
    out.mkdir()
    for index in (0, 7):
        Image.fromarray(np.zeros((9, 9), np.uint8)).save(out / f"mask_{index:03d}.png")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    code, _, err = run("segment", photo, *BOX, "--masks", out)
    assert code == 2
    assert "which sam-rlx has not written" in err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert run("segment", photo, *BOX, "--masks", out, "--overwrite")[0] == 0
    assert (out / "mask_007.png").read_bytes() == before["mask_007.png"]
    assert is_own_file(out / "mask_000.png")


@pytest.mark.parametrize("command", ["segment", "demo"])
@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp"])
def test_photographs_are_not_overlaid(
    run: Callable[..., tuple], photo: Path, command: str, name: str
) -> None:
    """A file of somebody else stays, an overlay of ours is replaced."""
    target = photo.parent / name
    Image.fromarray(np.full((9, 9, 3), 90, np.uint8)).save(target)
    before = target.read_bytes()
    words = [command, *([photo, *BOX] if command == "segment" else []), "--output", target]
    code, _, err = run(*words)
    assert code == 2
    assert "which sam-rlx has not written" in err
    assert target.read_bytes() == before
    assert run(*words, "--overwrite")[0] == 0
    assert is_own_file(target)
    assert run(*words)[0] == 0


def test_a_list_that_is_none(run: Callable[..., tuple], photo: Path) -> None:
    binary = photo.parent / "list.bin"
    binary.write_bytes(b"\xff\xfe\xfa")
    for name, said in (("none.txt", "expected a text file, found none at none.txt"),
                       (binary, f"expected a text file, found {binary}")):  # fmt: skip
        code, _, err = run("segment", "--list", name, *BOX, "--output", "out")
        assert code == 1
        assert said in err
        assert "Errno" not in err


def test_a_failed_write_leaves_no_half_set(
    run: Callable[..., tuple], photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(cli.outputs, "write_arrays", full)
    code, _, err = run("segment", photo, *BOX, "--output", "out", "--npz", "a.npz")
    assert code == 1
    assert "No space left on device: 'a.npz'" in err
    assert not any(path.is_file() for path in (photo.parent / "out").rglob("*"))


def test_errors_of_the_disk_name_the_users_file(
    run: Callable[..., tuple], photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(self), None, str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    code, _, err = run("segment", photo, *BOX, "--output", "out.png")
    assert code == 1
    assert str(photo.parent / "out.png") in err
    assert ".tmp" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_is_named(run: Callable[..., tuple], photo: Path) -> None:
    code, _, err = run("segment", photo, *BOX, "--json", "/dev/full")
    assert code == 1
    assert "No space left on device: '/dev/full'" in err


def test_every_writer_names_the_users_file(run_python: Callable[..., object], photo: Path) -> None:
    """A limit on the size of files stands for a full disk."""
    code = """
import resource, sys
import numpy as np
from sam_rlx import io
from sam_rlx._internal.media.clip_writer import ClipWriter

def clip(path):
    with ClipWriter(path, 10) as writer:
        for _ in range(30):
            writer.add(noise)

noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
for name, write in {
    "a.mp4": clip,
    "a.png": lambda path: io.write_image(path, noise),
    "a.npz": lambda path: io.write_npz(path, a=noise),
    "a.json": lambda path: io.write_json(path, noise.tolist()),
}.items():
    try:
        write(sys.argv[1] + "/" + name)
    except OSError as error:
        assert error.filename == sys.argv[1] + "/" + name, (name, error)
        print(name)
"""
    found = run_python("-c", code, str(photo.parent))
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["a.mp4", "a.png", "a.npz", "a.json"]
    assert [path.name for path in photo.parent.iterdir()] == ["photo.jpg"]


# ---------------------------------------------------------------- nothing found


def test_nothing_found_is_told(run: Callable[..., tuple], photo: Path) -> None:
    code, out, err = run("everything", photo, *STRICT, "--output", "all.png", "--json", "-")
    assert code == 1
    assert json.loads(out)["annotations"] == []
    assert (photo.parent / "all.png").exists()
    assert "found nothing: lower --pred-iou-thresh (9)" in err.splitlines()[-1]


def test_nothing_found_on_all_of_several(run: Callable[..., tuple], photo: Path) -> None:
    (photo.parent / "b.jpg").write_bytes(photo.read_bytes())
    code, out, err = run("everything", photo, "b.jpg", *STRICT, "--output", "all")
    assert code == 1
    assert "2 of 2 images done" in out
    assert "found nothing" in err


@pytest.mark.parametrize("name", ["sam-nano", "sam2-nano", "sam3-nano"])
def test_the_defaults_find_something_with_the_packaged_models(
    run_cli: Callable[..., tuple], photo: Path, name: str
) -> None:
    words = ["--points-per-side", 6, "--json", "-"]
    code, out, _ = run_cli("everything", photo, "--model", name, *words)
    assert code == 0
    assert json.loads(out)["annotations"]


# ---------------------------------------------------------------- --mask


def test_a_mask_is_an_image_or_logits(run: Callable[..., tuple], photo: Path) -> None:
    image = io.read_image(photo)
    mask = np.zeros(image.shape[:2], bool)
    mask[60:200, 100:200] = True
    io.write_image("mask.png", mask)
    np.save("mask.npy", mask)
    np.save("numbers.npy", mask.astype(np.uint8))
    np.save("logits.npy", np.where(mask, 3.0, -3.0).astype(np.float32))
    found = {}
    for name in ("mask.png", "mask.npy", "numbers.npy", "logits.npy"):
        code, out, _ = run(
            "segment", photo, "--mask", name, "--box", "90,50,210,210", "--json", "-"
        )
        assert code == 0, name
        found[name] = json.loads(out)["annotations"]
    assert all(entry == found["mask.png"] for entry in found.values())


@pytest.mark.parametrize(("hw", "padded"), [((30, 60), True), ((30, 60), False), ((64, 16), True)])
def test_the_logits_of_a_mask_lie_where_the_network_sees_it(
    hw: tuple[int, int], padded: bool
) -> None:
    """The share of each position that the mask covers, by counting pixels."""
    side, (height, width) = 4, hw
    mask = np.random.default_rng(0).integers(0, 2, hw).astype(bool)
    full = (max(hw), max(hw)) if padded else hw
    canvas = np.zeros(full)
    canvas[:height, :width] = mask
    rows = np.repeat(np.repeat(canvas, side, 0), side, 1)  # each pixel in side x side parts
    share = rows.reshape(side, full[0], side, full[1]).mean(axis=(1, 3))
    model: Any = SimpleNamespace(mask_side=side, family="sam" if padded else "sam2")
    np.testing.assert_allclose(mask_logits(mask, model), 20 * share - 10, atol=1e-4)


def _npy(array: np.ndarray) -> bytes:
    file = standard_io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _npz(**arrays: np.ndarray) -> bytes:
    file = standard_io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"no mask", "found another file"),
        (b"PK\x03\x04 no archive", "found another file"),
        (_npz(other=np.zeros(3)), "found another file"),
        (_npz(masks=np.zeros((0, 5, 5), bool), scores=np.zeros(0)), "at least one mask"),
        (_npy(np.zeros((2, 3, 4))), "float64 (2, 3, 4)"),
        (_npy(np.array([None])), "found another file"),
        (_npy(np.full((64, 64), np.nan)), "NaN or infinity"),
        (_npy(np.zeros((5, 6))), "found 6 x 5"),
        (_npy(np.zeros((5, 6), bool)), "found 6 x 5"),
    ],
)
def test_a_mask_that_is_none(
    run: Callable[..., tuple],
    run_cli: Callable[..., tuple],
    sam2_checkpoint: Path,
    clip: Path,
    photo: Path,
    data: bytes,
    text: str,
) -> None:
    path = photo.parent / "mask.any"
    path.write_bytes(data)
    track = ["track", clip, "--model", sam2_checkpoint]
    for code, _, err in (
        run("segment", photo, "--mask", path, "--json", "-"),
        run_cli(*track, "--mask", path, "--json", "-"),
    ):
        assert code == 2
        assert "--mask: expected" in err
        assert text in err


# ---------------------------------------------------------------- the rest


def test_version(run_cli: Callable[..., tuple]) -> None:
    assert run_cli("--version") == (0, f"sam-rlx {sam_rlx.__version__}\n", "")


def test_a_box_outside_of_the_image_is_refused(run: Callable[..., tuple], photo: Path) -> None:
    for box in ("400,10,500,20", "10,-50,20,-1"):
        code, _, err = run("segment", photo, f"--box={box}", "--dry")
        assert code == 2
        assert "--box: expected a part of an image of 384 x 303" in err
    assert run("segment", photo, "--box=-10,-10,30,30", "--dry")[0] == 0


def test_an_unknown_instruction_set_is_an_error_of_loading(
    run_python: Callable[..., object],
) -> None:
    code = """
import sam_rlx
assert sam_rlx.build_info()["default_isa"] is None
try:
    sam_rlx.load_model("sam-nano")
except sam_rlx.UnsupportedError as error:
    print(error)
assert sam_rlx.load_model("sam-nano", isa="generic").isa == "generic"
"""
    found = run_python("-c", code, SAM_RLX_ISA="abacus")
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("SAM_RLX_ISA: expected one of ")
    assert "found abacus" in found.stdout
    assert run_python("-m", "sam_rlx", "info", SAM_RLX_ISA="abacus").returncode == 0
    found = run_python("-m", "sam_rlx", "demo", "--output", "/dev/null.png", SAM_RLX_ISA="abacus")
    assert found.returncode == 1
    assert found.stderr.startswith("sam-rlx demo: SAM_RLX_ISA: expected")


def test_a_reader_that_has_enough_is_no_error(run_python: Callable[..., object]) -> None:
    code = """
import os, sys
from sam_rlx.apps import cli
read, write = os.pipe()
os.close(read)
os.dup2(write, 1)
sys.exit(cli.main(["info"]))
"""
    found = run_python("-c", code)
    assert found.returncode == 141
    assert found.stderr == ""


def test_a_packed_model_does_not_grow_unasked(
    run_cli: Callable[..., tuple], tmp_path: Path
) -> None:
    path = tmp_path / "a.gguf"
    for words in (["convert", "sam-nano", path], ["quantize", "sam-nano", path, "--type", "F16"]):
        code, _, err = run_cli(*words)
        assert code == 2
        assert "does not grow" in err
        assert not path.exists()
    code, out, _ = run_cli("convert", "sam-nano", path, "--type", "F16")
    assert code == 0
    assert "times the source" in out
    assert run_cli("quantize", path, tmp_path / "b.gguf", "--type", "Q4_0")[0] == 0
    assert (tmp_path / "b.gguf").stat().st_size < path.stat().st_size
