"""Threads that compute while a program ends, forks, and other interpreters."""

from __future__ import annotations

import importlib
import itertools
import os
import subprocess
import sys
import textwrap
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import sam_rlx
from support import HANG_SECONDS
from support.cases import quick
from support.interrupts import polls

IMAGE = np.full((60, 80, 3), 90, np.uint8)
# Each computes until the program ends, and says so by `ready` when it began.
LOOPS = {
    "image": """
        predictor = sam_rlx.ImagePredictor(sam_rlx.load_model("sam2-nano"), num_threads=2)
        def loop():
            while True:
                predictor.set_image(image)
                ready.set()
        """,
    "concept": """
        predictor = sam_rlx.ConceptPredictor(sam_rlx.load_model("sam3-nano"), num_threads=2)
        def loop():
            predictor.set_image(image)
            report = lambda done, total: ready.set()
            while True:
                predictor.predict(text=["red circle", "disc"], progress=report)
        """,
    "video": """
        frames = np.stack([image] * 4)
        def loop():
            session = sam_rlx.VideoPredictor(sam_rlx.load_model("sam2-nano"), frames)
            session.add_prompt(0, 1, box=[10, 10, 40, 40])
            while True:
                for frame in session.propagate():
                    ready.set()
        """,
    "callback": """
        generator = sam_rlx.MaskGenerator(sam_rlx.load_model("sam-nano"), points_per_side=8)
        def report(done, total):
            ready.set()
            for i in range(20000):  # Python code, in which the thread may be when the program ends
                pass
        def loop():
            while True:
                generator.generate(image, progress=report)
        """,
    "several": """
        model = sam_rlx.load_model("sam2-nano")
        def loop():
            predictor = sam_rlx.ImagePredictor(model, num_threads=2)
            while True:
                predictor.set_image(image)
                ready.set()
        for _ in range(4):
            threading.Thread(target=loop, daemon=True).start()
        """,
}
ENDS = {
    "its last line": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "an exception": ("raise ValueError('x')", 1),
    "os._exit": ("os._exit(4)", 4),
}


def run(program, *arguments):
    code = "import os, sys, threading\nimport numpy as np, sam_rlx\n" + program
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )


@pytest.mark.parametrize(("loop", "end"), quick(itertools.product(LOOPS, ENDS), 0, 5, 10, 12, 19))
def test_a_daemon_thread_computes_while_the_program_ends(loop, end):
    statement, code = ENDS[end]
    program = f"""
image = np.full((60, 80, 3), 90, np.uint8)
ready = threading.Event()
{textwrap.dedent(LOOPS[loop])}
threading.Thread(target=loop, daemon=True).start()
assert ready.wait(120)
{statement}
"""
    done = run(program)
    assert done.returncode == code, done.stderr
    assert "terminate" not in done.stderr


@pytest.mark.parametrize("executor", [False, True])
def test_other_threads_end_their_work_first(executor):
    """Python waits for them; what they compute after the last line of the program is whole."""
    start = (
        "futures.ThreadPoolExecutor(2).submit(work)"
        if executor
        else "threading.Thread(target=work).start()"
    )
    done = run(f"""
from concurrent import futures
predictor = sam_rlx.ImagePredictor(sam_rlx.load_model("sam2-nano"), num_threads=2)
begun = threading.Event()
def work():
    for _ in range(3):
        predictor.set_image(np.full((60, 80, 3), 90, np.uint8))
        begun.set()
    print("whole", predictor.predict(point_coords=[[3, 4]], point_labels=[1]).masks.shape)
{start}
assert begun.wait(120)
sys.exit(3)
""")
    assert (done.returncode, done.stdout.split()[0]) == (3, "whole"), done.stderr


def test_a_predictor_works_in_a_function_that_runs_at_exit():
    done = run("""
import atexit
predictor = sam_rlx.ImagePredictor(sam_rlx.load_model("sam-nano"), num_threads=2)
@atexit.register
def last():
    predictor.set_image(np.full((60, 80, 3), 90, np.uint8))
    print(predictor.orig_hw)
""")
    assert (done.returncode, done.stdout) == (0, "(60, 80)\n"), done.stderr


# ---------------------------------------------------------------- interpreters


def _interpreters():
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return importlib.import_module(name).__name__
        except ImportError:
            continue
    pytest.skip("this Python has no module for interpreters")
    return None


IMPORT = """
try:
    import sam_rlx
except ImportError as error:
    print(error, flush=True)
"""


def test_a_sub_interpreter_gets_an_import_error():
    program = f"""
import importlib, sys
interpreters = importlib.import_module(sys.argv[1])
interpreters.run_string(interpreters.create(), {IMPORT!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", program, _interpreters()],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    # In one with a GIL of its own, Python itself refuses.
    assert "a sub-interpreter" in done.stdout or "in subinterpreters" in done.stdout, done.stdout


# ---------------------------------------------------------------- forks


def in_a_child(work):
    """Return the text that `work` returns in a forked child."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(sender, text.encode())
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as file:
        text = file.read()
    os.waitpid(child, 0)
    return text


def read(index, side):
    return IMAGE


def predictors(kind, model):
    """Return a call that takes a while, and another one on the same predictor."""
    if kind == "image":
        predictor = sam_rlx.ImagePredictor(model, num_threads=1)
        return lambda: predictor.set_image(IMAGE), predictor.reset_image
    if kind == "core":
        core = sam_rlx._core.ImagePredictor(model.core, 1)
        return lambda: core.set_image(IMAGE), core.reset_image
    if kind == "video":
        session = sam_rlx.VideoPredictor(model, num_threads=1)
        return lambda: session.push(IMAGE), session.reset
    core = sam_rlx._core.VideoSession(model.core, 1, {}, SimpleNamespace(count=1, read=read))
    return lambda: core.load(0), core.reset


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("kind", ["image", "core", "video", "session"])
def test_a_predictor_that_was_forked_in_use_says_so(kind):
    """The model goes on working in the child, with a predictor that is made there."""
    model = sam_rlx.load_model("sam2-nano")
    call, other = predictors(kind, model)
    inside, go_on = threading.Event(), threading.Event()
    here = threading.current_thread()

    def wait():
        if threading.current_thread() is not here and os.getpid() == parent:
            inside.set()
            assert go_on.wait(60)

    def in_child():
        sam_rlx._core.set_poll_hook(None)
        fresh, _ = predictors(kind, model)
        fresh()
        try:
            other()
        except sam_rlx.StateError as error:
            return str(error)
        return "free"

    parent = os.getpid()
    sam_rlx._core.set_poll_hook(wait)
    try:
        thread = threading.Thread(target=call)
        thread.start()
        assert inside.wait(60)
        text = in_a_child(in_child)
        with pytest.raises(sam_rlx.StateError, match="expected one call at a time"):
            other()
    finally:
        go_on.set()
        thread.join()
        sam_rlx._core.set_poll_hook(None)
    assert "forked" in text, text
    assert "make a new one" in text
    other()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_predictor_that_is_forked_while_it_is_free_goes_on():
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model("sam2-nano"), num_threads=2)
    predictor.set_image(IMAGE)
    here = float(predictor.image_embedding.sum())

    def work():
        predictor.set_image(IMAGE)
        return str(float(predictor.image_embedding.sum()))

    assert in_a_child(work) == str(here)


def test_a_call_within_a_call_is_refused():
    """By a handler of signals, say: the predictor is in the middle of its work."""
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model("sam2-nano"), num_threads=1)
    with polls():
        sam_rlx._core.set_poll_hook(lambda: predictor.set_image(IMAGE))
        with pytest.raises(sam_rlx.StateError, match="expected one call at a time"):
            predictor.set_image(IMAGE)
    predictor.set_image(IMAGE)
