"""Fixtures of the Python layer: a tiny model with random weights, and real images."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx.apps import cli
from sam_rlx.pytest_plugin import sam_rlx_parity  # noqa: F401
from support import HANG_SECONDS, tiny_sam2
from support.videos import frame_image as frame_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def model(tiny_checkpoint: Path) -> sam_rlx.Model:
    return sam_rlx.load_model(tiny_checkpoint)


@pytest.fixture(scope="session")
def image(images: dict[str, np.ndarray]) -> np.ndarray:
    return images["wide 400x600"]


@pytest.fixture
def predictor(model: sam_rlx.Model, image: np.ndarray) -> sam_rlx.ImagePredictor:
    predictor = sam_rlx.ImagePredictor(model, num_threads=1)
    predictor.set_image(image)
    return predictor


@pytest.fixture(scope="session")
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python code or arguments in a fresh interpreter."""

    def run(*arguments: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=cwd,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )

    return run


@pytest.fixture
def run_cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run ``sam-rlx`` in this process: its exit code and what it printed."""

    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="session")
def sam2_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weights = tiny_sam2.weights(tiny_sam2.TINY, 0)
    weights["sam_mask_decoder.pred_obj_score_head.layers.2.bias"] += np.float32(1)
    path = tmp_path_factory.mktemp("sam2") / "tiny.safetensors"
    return tiny_sam2.save_safetensors(path, tiny_sam2.TINY, weights)


@pytest.fixture(scope="session")
def sam2_model(sam2_checkpoint: Path) -> sam_rlx.Model:
    return sam_rlx.load_model(sam2_checkpoint)


@pytest.fixture(scope="session")
def frames() -> np.ndarray:
    return np.stack([frame_of(t) for t in range(12)])


@pytest.fixture(scope="session")
def clip(frames: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    with ClipWriter(path, 10) as writer:
        for frame in frames:
            writer.add(frame)
    return path
