"""What the drivers share: small weights for released ones, images, stubs, and how they are run.

A driver is run twice, ``python DRIVER.py OUT.npz WEIGHTS REPEAT CLOCK``: by Python with Meta's
packages, and by ``python -m sam_rlx.compat``. CLOCK is a function of `time`. It says which weights
its program asks for, and gives `run` two functions: one that prepares (not timed) and one that
works and returns arrays by name.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

OUT, WEIGHTS, REPEAT = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), int(sys.argv[3])
clock = getattr(time, sys.argv[4])
WORK = Path.cwd()  # an empty folder
OURS = "sam_rlx.compat.common.take_over" in sys.modules
SIZE = (170, 256)  # (H, W) of the images
FAILED: dict[str, str] = {}  # what did not run, and why


def photo(name: str = "coffee") -> np.ndarray:
    """Return one of scikit-image's images as (H, W, 3)."""
    from skimage import data

    pixels = getattr(data, name)()
    image = Image.fromarray(pixels).convert("RGB").resize(SIZE[::-1])
    return np.asarray(image)


def saved(image: np.ndarray, name: str) -> str:
    """Save an image in the working folder; return its path."""
    Image.fromarray(image).save(WORK / name)
    return str(WORK / name)


def discs(step: int = 0) -> np.ndarray:
    """Return an image of three discs, which move by a few pixels with each step."""
    image = Image.new("RGB", SIZE[::-1], (90, 90, 90))
    draw = ImageDraw.Draw(image)
    for number, colour in enumerate(((220, 60, 40), (40, 90, 230), (230, 200, 40))):
        x, y = 50 + 75 * number + 4 * step, 60 + 22 * number + 2 * step
        draw.ellipse((x - 26, y - 26, x + 26, y + 26), fill=colour)
    return np.asarray(image)


def frames(folder: str, count: int = 6) -> str:
    """Write a clip of the discs as JPEG files; return the path of the folder."""
    path = WORK / folder
    path.mkdir(exist_ok=True)
    for index in range(count):
        Image.fromarray(discs(index)).save(path / f"{index:05d}.jpg", quality=95)
    return str(path)


def stub(name: str, **members: Any) -> None:
    """Let `name` be importable, with members of our own, and the packages around it."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        path = ".".join(parts[:count])
        if path not in sys.modules:
            module = sys.modules[path] = ModuleType(path)
            module.__path__ = []
            module.__spec__ = importlib.machinery.ModuleSpec(path, None, is_package=True)
            if count > 1:
                setattr(sys.modules[".".join(parts[: count - 1])], parts[count - 1], module)
    for key, value in members.items():
        setattr(sys.modules[name], key, value)


def unused(*_args: Any, **_named: Any) -> Any:
    """Stand for what a program imports and this run does not need."""
    raise RuntimeError("a stub that this run must not call")


def link(path: str | Path, weights: str) -> str:
    """Put a file of weights where a program looks for a released one; return the path."""
    path = Path(path).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(WEIGHTS / weights)
    return str(path)


def in_hub(repository: str, name: str, weights: str) -> None:
    """Put a file of weights where the client of the hub looks first."""
    home = Path(os.environ["HF_HOME"]) / "hub" / ("models--" + repository.replace("/", "--"))
    (home / "refs").mkdir(parents=True)
    (home / "snapshots" / "0").mkdir(parents=True)
    shutil.copy(WEIGHTS / weights, home / "snapshots" / "0" / name)  # links may not lead out of it
    (home / "refs" / "main").write_text("0")


def part(name: str, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return arrays of one part of a program; if it fails, the others count, and its error."""
    try:
        return call()
    except Exception as error:  # any of the program's own too
        FAILED[name] = f"{type(error).__name__}: {error}"
        return {}


def run(
    prepare: Callable[[], Any], work: Callable[[Any], dict[str, Any]], sam3: bool = False
) -> None:
    """Run a driver: the quickest of its repetitions counts, the last one's arrays are kept.

    Meta's SAM 3 asks for CUDA where it is written down, which `sam3` turns into the CPU.
    """
    # A driver has the name of its program, which is not to be imported from here.
    sys.path[:] = [part for part in sys.path if Path(part).resolve() != Path(__file__).parent]
    from sam_rlx.apps.parity import packages

    torch = packages.import_torch("torch")  # with torchvision, also beside another PyTorch
    with packages.running(torch) if sam3 and not OURS else contextlib.nullcontext():
        begin = clock()
        prepared = prepare()
        loading = clock() - begin
        seconds = []
        for _ in range(REPEAT):
            begin = clock()
            found = work(prepared)
            seconds.append(clock() - begin)
    arrays = {key: np.asarray(_plain(value)) for key, value in found.items()}
    told = {"seconds": min(seconds), "loading": loading, "failed": json.dumps(FAILED)}
    np.savez_compressed(OUT, **told, **arrays)


def _plain(value: Any) -> Any:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def unordered(masks: Any) -> np.ndarray:
    """Return masks (N, H, W) of everything mode in an order that near ties do not change."""
    stacked = np.array([np.asarray(mask, bool) for mask in masks])
    if not len(stacked):
        return np.zeros((0, *SIZE), bool)
    height, width = stacked.shape[1:]
    area = stacked.sum((1, 2))
    y = (stacked.sum(2) * np.arange(height)).sum(1) / np.maximum(area, 1)
    x = (stacked.sum(1) * np.arange(width)).sum(1) / np.maximum(area, 1)
    return stacked[np.lexsort((x.round(), y.round(), -(area // 8)))]
