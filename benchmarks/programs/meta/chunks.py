"""What two programs of one origin do: a clip in chunks, whose seeds are masks of the one before."""

import importlib
import os
import shutil
from types import SimpleNamespace

import numpy as np
import shared
import small


def run(package):
    """Run the package's tracking on two objects over three chunks."""

    def prepare():
        """Load the runner, which looks for a config beside SAM 2 and for a checkpoint."""
        small.sam2()
        shared.link(shared.WORK / "weights" / "sam2.1_hiera_tiny.pt", small.SAM2)
        os.environ.update(SAM2_MODEL="tiny", SAM2_CHECKPOINT_DIR=str(shared.WORK / "weights"))
        runner = importlib.import_module(f"{package}.sam2.runner")
        return runner, importlib.import_module(f"{package}.video.chunker").VideoChunker

    shared.run(prepare, _work)


def _work(prepared):
    """Track, and keep the masks that go into the videos."""
    runner, chunker = prepared
    shutil.rmtree(shared.WORK / "out", ignore_errors=True)
    found = []
    runner._render_chunk_video = lambda _path, _files, segments, **_: found.append(segments)
    click = SimpleNamespace(frame_idx=0, obj_id=1, box=None, points=[(50, 60)], labels=[1])
    box = SimpleNamespace(frame_idx=0, obj_id=2, box=(98, 55, 54, 54), points=[], labels=[])
    chunks = chunker(shared.frames("clip", 8), shared.WORK / "out", chunk_size=3, overlap=1)
    runner.run_sam2(chunker=chunks, by_chunk={0: [click, box]}, output=shared.WORK / "out")
    masks = [_plain(mask) for part in found for frame in part.values() for mask in frame.values()]
    return {"masks": np.array(masks)}


def _plain(mask):
    """Return a mask (H, W): later versions keep its box alone."""
    mask = mask.dense() if hasattr(mask, "dense") else mask
    return np.squeeze(np.asarray(mask, bool))
