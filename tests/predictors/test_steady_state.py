"""Memory and processes: what a program that runs for long relies on."""

import multiprocessing
import os
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest
import sam_rlx
from support import HANG_SECONDS, tiny
from support.cases import quick
from support.systems import without_asan


@pytest.mark.parametrize(("batch", "threads"), [(1, 1), (1, 2), (7, 1), (7, 2), (7, 3)])
def test_a_third_call_allocates_nothing(testing, tiny_checkpoint, batch, threads):
    image = np.random.default_rng(0).integers(0, 256, (97, 150, 3), np.uint8)
    counts = testing.allocations(str(tiny_checkpoint), image, batch, threads, 4)
    # The first call grows the scratch memory, the second may take it as one block.
    assert counts[2:] == [0, 0], counts


def _embedding_sum(path):
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(path), num_threads=2)
    predictor.set_image(np.full((60, 80, 3), 90, np.uint8))
    return float(predictor.image_embedding.sum())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_can_compute(tiny_checkpoint):
    """GNU OpenMP hangs in a child that is forked after a parallel region, but for our handler."""
    here = _embedding_sum(tiny_checkpoint)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map_async(_embedding_sum, [tiny_checkpoint] * 2).get(timeout=HANG_SECONDS)
    assert found == [here, here]


@without_asan
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("depth", "most"), quick([(2, 330), (12, 700)], 0))
def test_encoding_with_vit_b_takes_little_memory(tmp_path, depth, most):
    """Weights of 12 blocks are 375 MB, of 2 are 91; PyTorch takes 3.2 GB for the same image."""
    blocks = {"depth": depth, "global_attn_indexes": (depth - 1,)}
    config = tiny.VIT_B if depth == tiny.VIT_B.depth else replace(tiny.VIT_B, **blocks)
    path = tiny.save_safetensors(tmp_path / "vit_b.safetensors", tiny.sam_weights(config), config)
    program = """
        import sys
        import numpy as np, sam_rlx
        predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(sys.argv[1]), num_threads=2)
        predictor.set_image(np.zeros((480, 640, 3), np.uint8))
        status = open("/proc/self/status").read()
        print(status.split("VmHWM:")[1].split()[0])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert int(done.stdout) < most * 1000, f"{int(done.stdout) / 1000:.0f} MB"
