"""Matrices of float32 are packed from where they lie in the file, and copied where they cannot."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import sam_rlx
from support import tiny, tiny_sam2

IMAGE = np.random.default_rng(0).integers(0, 256, (90, 121, 3), np.uint8)


def moved(path, by):
    """Write the file again, with all tensors so many bytes further behind."""
    contents = path.read_bytes()
    length = int.from_bytes(contents[:8], "little")
    header = contents[8 : 8 + length] + by * b" "
    other = path.with_name(f"moved_{path.name}")
    other.write_bytes(len(header).to_bytes(8, "little") + header + contents[8 + length :])
    return other


def clicked(path, precision):
    model = sam_rlx.load_model(path, precision=precision)
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(IMAGE)
    result = predictor.predict(point_coords=[[60, 45]], point_labels=[1], return_logits=True)
    return model.core.weights_hash, result.masks, result.iou_predictions


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("family", ["sam", "sam2"])
def test_numbers_of_any_alignment_give_the_same_bits(tmp_path, tiny_weights, family, precision):
    path = tmp_path / "aligned.safetensors"
    if family == "sam":
        tiny.save_safetensors(path, tiny_weights)
    else:
        tiny_sam2.save_safetensors(path, tiny_sam2.TINY, tiny_sam2.weights(tiny_sam2.TINY, 0))
    expected = clicked(path, precision)
    found = clicked(moved(path, 3), precision)
    assert found[0] == expected[0]
    for theirs, ours in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(theirs, ours)


def test_nothing_of_the_model_lies_in_the_file_afterwards(tmp_path, tiny_weights):
    path = tiny.save_safetensors(tmp_path / "weights.safetensors", tiny_weights)
    expected = clicked(path, "float32")
    model = sam_rlx.load_model(path)
    with path.open("r+b") as file:  # the same file, with other numbers and none
        file.write(bytes(path.stat().st_size))
        file.truncate(1)
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(IMAGE)
    result = predictor.predict(point_coords=[[60, 45]], point_labels=[1], return_logits=True)
    np.testing.assert_array_equal(result.masks, expected[1])


# One core, so that the threads that pack have no stacks of their own.
LIMITED = """
import os, re, resource, sys
import sam_rlx

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
status = open("/proc/self/status").read()
used = 1024 * int(re.search(r"VmData:\\s*(\\d+)", status)[1])
resource.setrlimit(resource.RLIMIT_DATA, (used + int(sys.argv[2]),) * 2)
sam_rlx.load_model(sys.argv[1], precision="int8")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_int8_takes_no_memory_for_the_numbers_of_float32(tmp_path):
    config = dataclasses.replace(tiny.TINY, embed_dim=1024, num_heads=16, depth=4)
    weights = {name: np.zeros(shape, np.float32) for name, shape in tiny.sam_shapes(config).items()}
    path = tiny.save_safetensors(tmp_path / "wide.safetensors", weights, config)
    size = path.stat().st_size
    assert size > 200e6
    subprocess.run(
        [sys.executable, "-c", LIMITED, path, str(size // 2)],
        check=True,
        capture_output=True,
        text=True,
    )
