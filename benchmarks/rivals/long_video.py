"""The process that tracks a long video with one engine: ``python -m rivals.long_video ORDER``.

The order is JSON, see `video_memory.py`. Prints {"early", "late": bytes, "seconds"}: the
time of the frames between the two.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import resident
from workloads import Workload, sample_image

RED, BLUE = (215, 40, 35), (40, 60, 210)


def ours(workload: Workload, frames: int, threads: int) -> Iterator[Any]:
    import sam_rlx

    from rivals import sam_rlx_video

    model = sam_rlx.load_model(workload.ours, image_size=workload.side)
    session = sam_rlx_video.start_session(workload, model, threads, frames)
    return session.propagate(return_logits=True)


def upstream(workload: Workload, frames: int, threads: int) -> Iterator[Any]:
    import torch

    from rivals import sam2_models

    torch.set_num_threads(threads)
    model = sam2_models.load_tracker(workload)
    state = sam2_models.start_session(workload, model, frames)
    tracked: Iterator[Any] = model.propagate_in_video(state)
    return tracked


def pushed(text: str, frames: int, threads: int) -> Iterator[Any]:
    """Three discs that cross the image, each with other pauses between."""
    import sam_rlx

    session = sam_rlx.VideoPredictor(sam_rlx.load_model("sam3-nano"), num_threads=threads)
    session.add_text(text)
    y, x = np.mgrid[:240, :320]
    ground = sample_image(240, 320) // 4 + 90
    for t in range(frames):
        frame = ground.copy()
        for row, pause, colour in ((50, 45, RED), (120, 60, RED), (190, 75, BLUE)):
            column = 10 * (t % pause) - 30
            frame[(x - column) ** 2 + (y - row) ** 2 < 25**2] = colour
        yield session.push(frame)


START = {"sam_rlx": ours, "pytorch": upstream}


def settled() -> int | None:
    """Memory in use: free blocks of the heap, which hide growth, go back to the system first."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)
    return resident.own()


def main() -> None:
    order = json.loads(sys.argv[1])
    workload = Workload.from_json(order["workload"])
    if order["text"]:
        tracked = pushed(order["text"], order["frames"], order["threads"])
    else:
        tracked = START[order["engine"]](workload, order["frames"], order["threads"])
    found: dict[str, Any] = {}
    start, done = 0.0, 0
    for _ in tracked:  # which holds the session: memory is read before it ends
        done += 1
        if done == order["early"]:
            found["early"], start = settled(), time.perf_counter()
        elif done == order["frames"]:
            found["seconds"] = time.perf_counter() - start
            found["late"] = settled()
    if done != order["frames"]:
        sys.exit(f"expected {order['frames']} frames, tracked {done}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
