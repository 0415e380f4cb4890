"""``--key`` and ``sam-rlx info`` on files of training programs, and on files that do not load."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx.apps.cli import demo
from support import checkpoint_files as files

Run = Callable[..., tuple[int, str, str]]


def save(path: Path, **dicts: Any) -> Path:
    storages = files.Storages()
    value: dict[str, Any] = {"epoch": 3}
    for key, weights in dicts.items():
        stored = {name: files.stored(array) for name, array in weights.items()}
        value[key] = files.state_dict_value(stored, storages)
    path.write_bytes(files.zip_bytes(files.torch_entries(value, storages)))
    return path


@pytest.fixture
def several(tmp_path: Path, tiny_weights: dict[str, Any]) -> Path:
    average = {f"module.{name}": value + np.float32(1) for name, value in tiny_weights.items()}
    return save(tmp_path / "several.pth", model=tiny_weights, ema=average)


def test_a_key_chooses_in_every_command(
    run_cli: Run, several: Path, tmp_path: Path, tiny_weights: dict[str, Any]
) -> None:
    photo = demo.IMAGE
    words = ["segment", photo, "--point", "9,9", "--npz", tmp_path / "m.npz", "--model", several]
    code, _, err = run_cli(*words)
    assert code == 1
    assert 'found models under "model", "ema.module"' in err
    assert run_cli(*words, "--key", "model", "--threads", 1)[0] == 0
    output = tmp_path / "x.safetensors"
    assert run_cli("convert", several, output)[0] == 1
    assert not output.exists()
    assert run_cli("convert", several, output, "--key", "ema.module")[0] == 0
    name = "image_encoder.pos_embed"
    from safetensors.numpy import load_file

    np.testing.assert_array_equal(load_file(output)[name], tiny_weights[name] + np.float32(1))
    packed = tmp_path / "x.gguf"
    assert run_cli("quantize", several, packed, "--type", "F16", "--key", "model")[0] == 0
    assert packed.exists()
    code, out, _ = run_cli("info", several, "--key", "ema.module")
    assert code == 0
    assert "tensors are under the key 'ema'" in out
    assert "before every name: 'module.'" in out


def test_info_looks_into_a_file_with_several_models(run_cli: Run, several: Path) -> None:
    code, out, _ = run_cli("info", several)
    assert code == 0
    assert "container: PyTorch archive" in out
    assert "dicts with tensors (for --key): 'model', 'ema'" in out
    assert "it does not load:" in out
    assert "one of several" in out
    code, out, _ = run_cli("info", several, "--json")
    document = json.loads(out)
    assert document["file"]["keys"] == ["model", "ema"]
    assert "model" not in document
    assert "found models under" in document["reason"]


def test_info_looks_into_other_networks(run_cli: Run, tmp_path: Path) -> None:
    names = [f"image_encoder.features.{i}.c.weight" for i in range(30)]
    weights = {name: np.ones((2, 3), np.float32) for name in names}
    weights["head.steps"] = np.ones(1, np.int64)
    path = save(tmp_path / "repvit.pth", net=weights)
    code, out, _ = run_cli("info", path)
    assert code == 0
    assert "tensors are under the key 'net'" in out
    assert "31 tensors: 30 F32, 1 I64" in out
    assert "30 names begin with image_encoder" in out
    assert "(2, 3)" in out
    assert "... and 11 more" in out
    assert "found RepViT-SAM" in out
    assert "load mobile_sam.pt, the smallest checkpoint of SAM, or sam-nano" in out


def test_info_of_a_file_that_nothing_reads(run_cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(b"\x08\x07\x12\x07pytorch" + bytes(64))
    code, out, err = run_cli("info", path)
    assert (code, out) == (1, "")
    assert "found an ONNX model" in err


def test_an_error_has_at_most_twenty_lines(tmp_path: Path, tiny_weights: dict[str, Any]) -> None:
    weights = {name: value for name, value in tiny_weights.items() if "point_embed" not in name}
    weights |= {f"other.{i}": np.ones(1, np.float32) for i in range(100)}
    path = save(tmp_path / "x.pth", model=weights)
    with pytest.raises(sam_rlx.CheckpointError) as caught:
        sam_rlx.load_model(path)
    lines = str(caught.value).splitlines()
    assert len(lines) == 20
    assert lines[-1].startswith("  ... and ")
    assert len(str(caught.value)) < 3000
