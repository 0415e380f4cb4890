"""The command line: files, exit codes, JSON on stdout, interruption."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import io
from sam_rlx.apps import cli
from sam_rlx.apps.cli import demo
from support import HANG_SECONDS, adapters

POINT = ["--point", "300,200"]


@pytest.fixture
def photo() -> Path:
    return demo.IMAGE


@pytest.fixture
def run(
    tiny_checkpoint: Path, run_cli: Callable[..., tuple[int, str, str]]
) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process on the tiny model."""

    def run(*words: object) -> tuple[int, str, str]:
        takes_model = words[0] in ("segment", "everything", "demo")
        return run_cli(*words, *(["--model", tiny_checkpoint, "--threads", 1] * takes_model))

    return run


def test_segment_writes_a_directory(run: Callable[..., tuple], photo: Path, tmp_path: Path) -> None:
    code, out, err = run("segment", photo, *POINT, "--multimask", "--output", tmp_path / "out")
    assert (code, err) == (0, "")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["mask_000.png", "mask_001.png", "mask_002.png", "masks.json", "overlay.png"]
    with Image.open(tmp_path / "out" / "overlay.png") as overlay:
        assert overlay.size == (384, 303)
    document = json.loads((tmp_path / "out" / "masks.json").read_text())
    assert document["images"][0]["file_name"] == photo.name
    assert len(document["annotations"]) == 3
    assert str(tmp_path / "out" / "overlay.png") in out


def test_precision(run: Callable[..., tuple], photo: Path, tmp_path: Path) -> None:
    npz = tmp_path / "masks.npz"
    code, out, _ = run("segment", photo, *POINT, "--npz", npz, "--precision", "int8")
    assert code == 0
    assert "int8" in out
    assert npz.is_file()
    assert run("segment", photo, *POINT, "--npz", npz, "--precision", "int3")[0] == 2


def test_segment_npz_goes_in_again_as_a_mask(
    run: Callable[..., tuple], photo: Path, tmp_path: Path
) -> None:
    npz = tmp_path / "photo.npz"
    assert run("segment", photo, *POINT, "--multimask", "--npz", npz)[0] == 0
    with np.load(npz) as arrays:
        assert arrays["masks"].shape == (3, 303, 384)
        assert arrays["iou_predictions"].shape == (3,)
        best = arrays["low_res_masks"][arrays["iou_predictions"].argmax()]
    np.save(tmp_path / "best.npy", best)
    first = run("segment", photo, *POINT, "--mask", npz, "--json", "-")
    second = run("segment", photo, *POINT, "--mask", tmp_path / "best.npy", "--json", "-")
    assert first[0] == second[0] == 0
    assert first[1] == second[1]


def test_several_boxes_are_several_objects(
    run: Callable[..., tuple], photo: Path, tmp_path: Path
) -> None:
    boxes = ["--box", "10,20,200,200", "--box", "200,50,320,280"]
    code, out, _ = run("segment", photo, *boxes, "--output", tmp_path / "photo.png", "--json", "-")
    assert code == 0
    assert len(json.loads(out)["annotations"]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["photo.png"]


def test_holes_and_islands_are_cleaned_as_in_python(
    run: Callable[..., tuple], tiny_checkpoint: Path, photo: Path, tmp_path: Path
) -> None:
    npz = tmp_path / "masks.npz"
    words = ["segment", photo, *POINT, "--multimask", "--npz", npz]
    assert run(*words, "--min-mask-region-area", 400)[0] == 0
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(tiny_checkpoint))
    predictor.set_image(io.read_image(photo))
    prompts = {"point_coords": [[300, 200]], "point_labels": [1]}
    cleaned = predictor.predict(**prompts, min_mask_region_area=400).masks
    assert (cleaned != predictor.predict(**prompts).masks).any()
    with np.load(npz) as arrays:
        np.testing.assert_array_equal(arrays["masks"], cleaned)
    for command in ("segment", "track", "everything"):
        with pytest.raises(SystemExit):
            cli.main([command, "a.png", *POINT, "--min-mask-region-area", "-1"])


def test_json_is_alone_on_stdout(run: Callable[..., tuple], photo: Path) -> None:
    code, out, err = run("segment", photo, *POINT, "--json", "-")
    assert code == 0
    assert json.loads(out)["annotations"][0]["segmentation"]["size"] == [303, 384]
    assert "encoded in" in err


def test_everything_writes_what_it_found(
    run: Callable[..., tuple], photo: Path, tmp_path: Path
) -> None:
    loose = ["--pred-iou-thresh", 0, "--stability-score-thresh", 0, "--points-per-side", 3]
    npz = tmp_path / "all.npz"
    code, out, err = run(
        "everything", photo, *loose, "--output", tmp_path / "all.png", "--npz", npz
    )
    assert (code, err) == (0, "")
    with np.load(npz) as arrays:
        count = len(arrays["masks"])
        assert arrays["boxes_xywh"].shape == (count, 4)
    assert f"found {count} masks" in out


def test_dry_runs_write_nothing(run: Callable[..., tuple], photo: Path, tmp_path: Path) -> None:
    output = ["--output", tmp_path / "x.png", "--dry"]
    for command in (["segment", photo, *POINT], ["everything", photo]):
        code, out, _ = run(*command, *output)
        assert code == 0
        assert "would" in out
    assert list(tmp_path.iterdir()) == []


def test_demo_segments_the_packaged_image(run: Callable[..., tuple], tmp_path: Path) -> None:
    code, out, _ = run("demo", "--output", tmp_path / "demo.png")
    assert code == 0
    assert "predicted IoU" in out
    with Image.open(tmp_path / "demo.png") as overlay, Image.open(demo.IMAGE) as image:
        assert overlay.size == image.size


def test_info(run: Callable[..., tuple], tiny_checkpoint: Path) -> None:
    code, out, _ = run("info")
    assert code == 0
    assert "generic" in out
    assert "sam-rlx models" in out
    assert ".pth" not in out  # that is what `sam-rlx models` tells
    assert set(json.loads(run("info", "--json")[1])) == {"build", "drop_ins"}
    code, out, _ = run("info", tiny_checkpoint, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["model"]["family"] == "sam"
    names = {tensor["name"]: tensor for tensor in found["model"]["tensors"]}
    assert names["image_encoder.patch_embed.proj.weight"]["dtype"] == "F32"
    assert names["image_encoder.patch_embed.proj.weight"]["shape"] == [64, 3, 16, 16]
    code, out, _ = run("info", tiny_checkpoint)
    assert code == 0
    assert "image_encoder.patch_embed.proj.weight" in out


def test_info_tells_of_an_adapter(
    run: Callable[..., tuple],
    tiny_checkpoint: Path,
    tiny_weights: dict[str, np.ndarray],
    tmp_path: Path,
) -> None:
    tensors, _ = adapters.for_modules(tiny_weights, ["image_encoder.blocks.0.mlp.lin1"], 4, 2.0)
    lora = adapters.save(tmp_path / "lora", tensors)
    code, out, _ = run("info", tiny_checkpoint, "--lora", lora)
    assert code == 0
    assert f"merged with the adapter {lora}" in out
    assert json.loads(run("info", tiny_checkpoint, "--lora", lora, "--json")[1])["model"]["lora"]
    renamed = {name.replace("blocks.0", "blocks.77"): value for name, value in tensors.items()}
    other = adapters.save(tmp_path / "other", renamed)
    code, out, _ = run("info", tiny_checkpoint, "--lora", other)
    assert code == 0
    assert "blocks.77" in out.partition("it does not load:")[2]
    assert run("info", "--lora", lora)[0] == 2


@pytest.mark.parametrize(
    "command", ["segment", "everything", "info", "convert", "quantize", "demo"]
)
def test_help_has_an_example(run: Callable[..., tuple], command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"sam-rlx {command}" in out.partition("example")[2]


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["segment"],
        ["segment", "PHOTO", "--output", "x.png"],
        ["segment", "PHOTO", *POINT],
        ["segment", "PHOTO", "--point", "1", "--dry"],
        ["segment", "PHOTO", "--point", "1,2,3", "--dry"],
        ["segment", "PHOTO", "--point", "nan,2", "--dry"],
        ["segment", "PHOTO", "--point", "400,2", "--dry"],
        ["segment", "PHOTO", "--box", "5,5,2,9", "--dry"],
        ["segment", "PHOTO", "--box", "1,1,2,2", "--box", "3,3,4,4", *POINT, "--dry"],
        ["segment", "PHOTO", *POINT, "--output", "x.bmp"],
        ["segment", "PHOTO", *POINT, "--threads", "0", "--dry"],
        ["everything", "PHOTO", "--stability-score-thresh", "1.5", "--dry"],
        ["everything", "PHOTO", "--crop-n-layers", "-1", "--dry"],
        ["demo", "--output", "x.bmp"],
    ],
)
def test_wrong_usage_is_2(
    capsys: pytest.CaptureFixture[str], photo: Path, tiny_checkpoint: Path, arguments: list[str]
) -> None:
    words = [str(photo) if word == "PHOTO" else word for word in arguments]
    if len(words) > 1:
        words += ["--model", str(tiny_checkpoint)]
    try:
        code = cli.main(words)
    except SystemExit as stop:
        code = int(stop.code or 0)
    assert code == 2
    assert "sam-rlx" in capsys.readouterr().err


def test_failures_are_1_with_one_line(
    run: Callable[..., tuple], photo: Path, tmp_path: Path
) -> None:
    text = tmp_path / "text.png"
    text.write_text("no image")
    blocked = tmp_path / "file"
    blocked.write_text("")
    for arguments in (
        ["segment", tmp_path / "absent.png", *POINT, "--dry"],
        ["segment", text, *POINT, "--dry"],
        ["segment", photo, *POINT, "--output", blocked / "x.png"],
        ["info", tmp_path / "absent.pth"],
        ["info", text],
    ):
        code, out, err = run(*arguments)
        assert code == 1, arguments
        assert len(err.strip().splitlines()) == 1, err
        assert "Traceback" not in out + err


def test_interruption_is_130_and_leaves_no_file(
    run: Callable[..., tuple], photo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Image.Image, "save", interrupted)
    code, _, err = run("segment", photo, *POINT, "--output", tmp_path / "x.png")
    assert code == 130
    assert "interrupted" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_ctrl_c_stops_the_computation(photo: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sam_rlx", "everything", str(photo), "--output", "x.png"]
    with subprocess.Popen(
        [*command, "--points-per-side", "64"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("image"):
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 130
    assert err.strip() == "sam-rlx everything: interrupted"
    assert list(tmp_path.iterdir()) == []


def test_the_command_is_a_module_too(run_python: Callable[..., object]) -> None:
    found = run_python("-m", "sam_rlx", "info", "--json")
    assert found.returncode == 0
    assert json.loads(found.stdout)["build"] == sam_rlx.build_info()
