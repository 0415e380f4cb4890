"""The number that tells weights apart: read in pieces by all cores, the same with one."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
import sam_rlx
from support import tiny

# A layer of 4 MiB, of which each core reads 1 MiB at a time.
WIDE = dataclasses.replace(tiny.TINY, embed_dim=512, num_heads=8, depth=1)
NAME = "image_encoder.blocks.0.mlp.lin1.weight"
PIECE = 2**20 // 4  # numbers


def saved(folder, change=lambda values: None):
    weights = tiny.sam_weights(WIDE, 0)
    change(weights[NAME].reshape(-1))
    return tiny.save_safetensors(folder / "wide.safetensors", weights, WIDE)


def number(path):
    return sam_rlx.load_model(path).core.weights_hash


def swap_first_pieces(values):
    values[: 2 * PIECE] = np.roll(values[: 2 * PIECE], PIECE)


def change_last_number(values):
    values[-1] = np.nextafter(values[-1], np.inf)


@pytest.mark.parametrize("change", [swap_first_pieces, change_last_number])
def test_other_weights_have_another_number(tmp_path, change):
    assert tiny.sam_weights(WIDE, 0)[NAME].size == 4 * PIECE
    assert number(saved(tmp_path, change)) != number(saved(tmp_path))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no masks of cores")
def test_one_core_finds_the_same_number(tmp_path):
    path = saved(tmp_path)
    code = (
        f"import os, sam_rlx; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}});"
        f"print(sam_rlx.load_model({str(path)!r}).core.weights_hash)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == number(path)
