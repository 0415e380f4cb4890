"""Threads with a small stack, and systems that give no further thread."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support import HANG_SECONDS
from support.systems import IS_ROOT, without_asan


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout


SMALL_STACK = """
import threading
import numpy as np
import sam_rlx

def use():
    image = np.zeros((60, 80, 3), np.uint8)
    image[20:40, 20:50] = 200
    video = sam_rlx.VideoPredictor(sam_rlx.load_model("sam2-nano"), [image] * 2, num_threads=1)
    video.add_prompt(0, 1, box=[18, 18, 52, 42])
    frames = [frame.frame_index for frame in video.propagate()]
    concepts = sam_rlx.ConceptPredictor(sam_rlx.load_model("sam3-nano"), num_threads=1)
    concepts.predict(image, text="a bright square")
    print(frames)

threading.stack_size(256 * 1024)
thread = threading.Thread(target=use)
thread.start()
thread.join()
"""


def test_a_small_stack_is_enough() -> None:
    """Loading, clips and texts: 256 kB, where the C library's default is 8 MB or 128 kB."""
    assert run(SMALL_STACK) == "[0, 1]\n"


NO_THREAD = """
import os, resource
import numpy as np
import sam_rlx

model = sam_rlx.load_model("sam-nano")
image = np.zeros((60, 80, 3), np.uint8)

def embedding(num_threads):
    predictor = sam_rlx.ImagePredictor(model, num_threads=num_threads)
    predictor.set_image(image)
    return predictor.image_embedding

alone = embedding(1)
LIMIT
try:
    equal = (embedding(200) == alone).all()
except MemoryError:
    equal = True
print(equal, len(os.listdir("/proc/self/task")) < 100)
"""
PROCESSES = "os.setuid(23456); resource.setrlimit(resource.RLIMIT_NPROC, (4, 4))"
MEMORY = """
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (400 << 20),) * 2)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("limit", ["processes", pytest.param("memory", marks=without_asan)])
def test_fewer_threads_where_the_system_gives_no_more(limit: str) -> None:
    """GNU OpenMP would end the process."""
    if limit == "processes" and not IS_ROOT:
        pytest.skip("only root may become a user who has no other process")
    code = NO_THREAD.replace("LIMIT", PROCESSES if limit == "processes" else MEMORY)
    assert run(code) == "True True\n"
