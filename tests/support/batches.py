"""Folders of images for batches, and what their results are compared by."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from sam_rlx import batch, io

# Ends a worker at each image with this name.
POISON = """
import os, signal
from sam_rlx.apps.batch import finders
_opened = finders.opened
def opened(item, *, in_tiles):
    if "poison" in item.path:
        os.kill(os.getpid(), signal.SIGKILL)
    return _opened(item, in_tiles=in_tiles)
finders.opened = opened
"""


def write_hooks(folder: Path, code: str) -> None:
    """Write a folder for ``PYTHONPATH`` that runs code in the workers of both engines.

    Not in other processes: Ray starts many, and its daemon does not wait long for them.
    """
    folder.mkdir(exist_ok=True)
    (folder / "hooks.py").write_text(code)
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "workers = ('default_worker', 'apps.batch.worker')\n"
        "if any(worker in word for worker in workers for word in sys.orig_argv):\n"
        "    import hooks\n"
    )


def write_images(folder: Path, count: int, hw: tuple[int, int] = (61, 83)) -> list[Path]:
    """Write crops of photographs, at odd sizes that differ."""
    from skimage import data

    folder.mkdir(parents=True, exist_ok=True)
    sources = [data.coffee(), np.stack([data.coins()] * 3, axis=-1)]
    rng = np.random.default_rng(count)
    paths = []
    for index in range(count):
        image = sources[index % 2]
        height, width = (side + int(rng.integers(0, 9)) for side in hw)
        top = int(rng.integers(0, max(1, image.shape[0] - height)))
        left = int(rng.integers(0, max(1, image.shape[1] - width)))
        paths.append(folder / f"image-{index:04d}.png")
        io.write_image(paths[-1], image[top : top + height, left : left + width])
    return paths


def digests(out: Path) -> dict[str, str]:
    """Return a hash of each file with rows."""
    parts = sorted((out / "parts").iterdir())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in parts}


def command(*words: object) -> list[str]:
    """Return the command line of a batch in a process of its own."""
    code = "import sys; from sam_rlx.apps import cli; sys.exit(cli.main(sys.argv[1:]))"
    return [sys.executable, "-c", code, "batch", *map(str, words)]


def started(
    arguments: Sequence[str], output: IO[bytes] | None = None, **env: str
) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own; what it prints is lost without a file."""
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(
        arguments,
        stdin=nowhere,
        stdout=nowhere if output is None else output,
        stderr=nowhere if output is None else output,
        env={**os.environ, **env},
        start_new_session=True,
    )


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[bytes]) -> None:
    """Wait until something holds, or the process has ended."""
    while process.poll() is None and not condition():
        time.sleep(0.02)


def rows_begun(out: Path) -> int:
    """Return how many rows there are, in files and in journals."""
    journals = [path.read_bytes() for path in (out / "journal").glob("*.jsonl") if path.exists()]
    return sum(text.count(b'{"row"') for text in journals) + sum(
        1 for _ in (out / "parts").glob("part-*.parquet")
    )


def kill(process: subprocess.Popen[bytes], number: int | None = None) -> int:
    """Send a signal to one process, or kill it, and wait for its end."""
    if number is None:
        process.kill()
    else:
        process.send_signal(number)
    return process.wait()


def rows(out: Path) -> list[dict[str, Any]]:
    """Return all rows of a batch."""
    return list(batch.read(out))
