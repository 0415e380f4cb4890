#!/usr/bin/env bash
# PyAV 18.1.0 (its wheel carries SVT-AV1 4.1): encoding one clip with the codec "libsvtav1" in a process
# of root leaves the calling thread with the scheduling policy SCHED_FIFO at priority 99, for as long as
# it lives. Threads and processes that it starts later inherit that. "libx264" in the same process
# changes nothing, and without root nothing changes either.
#
# It meets batch jobs, notebooks and test suites in containers, where root is usual: each process that
# computes afterwards has real-time priority, so one such child for each processor keeps everything else
# of the machine, its own parent included, from running. A thread of its own for the encoder leaves the
# others as they were.
#
# Seen 2026-11-28, as root on Linux:
#   before: policy 0 priority 0
#   libx264: policy 0 priority 0
#   libsvtav1 in a thread: policy 0 priority 0
#   libsvtav1: policy 1 priority 99
# Exit status 0 while it is so, 1 when it has changed, 2 where this user may not ask for real time.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet numpy==2.3.5 av==18.1.0
cd "$folder"
cat > policy.py <<'PYTHON'
import os
import threading

import av
import numpy as np


def encode(codec):
    with av.open(f"{codec}.mkv", "w") as container:
        stream = container.add_stream(codec, rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for grey in (10, 90, 170):
            image = np.full((64, 64, 3), grey, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())


def tell(what):
    print(f"{what}: policy {os.sched_getscheduler(0)} priority {os.sched_getparam(0).sched_priority}")


def allowed():
    """A thread of its own tries, so that this one stays as it is."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))
    except PermissionError:
        os._exit(2)


def in_a_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()


in_a_thread(allowed)
tell("before")
encode("libx264")
tell("libx264")
in_a_thread(encode, "libsvtav1")
tell("libsvtav1 in a thread")
encode("libsvtav1")
tell("libsvtav1")
PYTHON
venv/bin/python policy.py 2> /dev/null | tee seen
diff seen - <<'TEXT'
before: policy 0 priority 0
libx264: policy 0 priority 0
libsvtav1 in a thread: policy 0 priority 0
libsvtav1: policy 1 priority 99
TEXT
