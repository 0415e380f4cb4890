"""libgomp's waiting threads: what it is told when the extension loads it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sam_rlx._internal import extension
from sam_rlx._internal.extension import BINDING

CODE = "import os; before = dict(os.environ); import sam_rlx; assert dict(os.environ) == before"


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what the tests themselves run with."""
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", *BINDING):
        monkeypatch.delenv(name, raising=False)


def spin_count(run_python: Callable[..., object], **environment: str) -> str:
    """Return the turns that libgomp says it spins."""
    found = run_python("-c", CODE, OMP_DISPLAY_ENV="verbose", **environment)
    assert found.returncode == 0, found.stderr
    shown = re.search(r"GOMP_SPINCOUNT = '(\w+)'", found.stderr)
    if shown is None:
        pytest.skip("the extension was built with another OpenMP library than libgomp")
    return shown[1]


def test_waiting_threads_sleep_soon(run_python: Callable[..., object]) -> None:
    assert spin_count(run_python) == "10000"


def test_the_environment_counts(run_python: Callable[..., object]) -> None:
    assert spin_count(run_python, GOMP_SPINCOUNT="7") == "7"
    assert spin_count(run_python, OMP_WAIT_POLICY="passive") == "0"


# Prints what a process computes by how many threads, and on how many cores it and a process that it
# starts may run. An argument: a module that is imported first.
CHILD = """
import hashlib, importlib, json, os, subprocess, sys, tempfile
from pathlib import Path
for name in sys.argv[2:]:
    importlib.import_module(name)
import numpy as np
import sam_rlx
from sam_rlx import batch, io
from sam_rlx._internal.extension import all_cores

def cores(process=0):
    return len(os.sched_getaffinity(process))

image = np.random.default_rng(3).integers(0, 255, (96, 128, 3), np.uint8)
before = len(os.listdir("/proc/self/task"))
predictor = sam_rlx.ImagePredictor(sam_rlx.load_model("sam-nano"))
predictor.set_image(image)
logits = predictor.predict(point_coords=[[40, 30]], point_labels=[1]).low_res_masks
found = {"cores": sam_rlx.build_info()["cores"], "bits": hashlib.sha256(logits).hexdigest()}
found["threads"] = len(os.listdir("/proc/self/task")) - before
with all_cores():
    asked = [sys.executable, "-c", "import os; print(len(os.sched_getaffinity(0)))"]
    found["child"] = int(subprocess.run(asked, capture_output=True, check=True).stdout)
if sys.argv[1] == "batch":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        io.write_image("a.png", image)
        result = batch.run("a.png", "out", boxes=[[5, 5, 60, 60]], workers=1)
        (row,) = batch.read("out")
        found["rows"] = [row["error"], row["masks"][0]["counts"]]
print(json.dumps(found))
"""
BOUND: list[dict[str, str]] = [
    {"OMP_PROC_BIND": "true"},
    {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"},
    {"OMP_PROC_BIND": "spread", "OMP_PLACES": "threads"},
    {"OMP_PLACES": "sockets"},
    {"GOMP_CPU_AFFINITY": "0-63"},
    {"KMP_AFFINITY": "granularity=fine,compact"},
    {"OMP_PROC_BIND": "false", "OMP_PLACES": "cores"},
]


def computed(run_python: Callable[..., Any], *words: str, **environment: str) -> dict[str, Any]:
    done = run_python("-c", CHILD, *words, **environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" or "affinity" not in done.stderr.lower()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


needs_masks = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has affinity masks")


@needs_masks
def test_bound_threads_take_no_cores_away(run_python: Callable[..., Any]) -> None:
    """Also where another OpenMP runtime, of PyTorch, has bound the thread before."""
    free = computed(run_python, "encode")
    assert free["cores"] <= free["child"] == len(os.sched_getaffinity(0))
    assert computed(run_python, "encode", **BOUND[0]) == free
    if importlib.util.find_spec("torch") is not None:
        found = computed(run_python, "encode", "torch", **BOUND[0])
        del found["threads"], free["threads"]  # PyTorch has threads of its own
        assert found == free


@needs_masks
@pytest.mark.slow
@pytest.mark.parametrize("environment", BOUND, ids=lambda found: ",".join(found.values()))
def test_encode_and_batch_with_bound_threads(
    run_python: Callable[..., Any], environment: dict[str, str]
) -> None:
    assert computed(run_python, "batch", **environment) == computed(run_python, "batch")


@needs_masks
@pytest.mark.slow
def test_intels_runtime_that_binds(run_python: Callable[..., Any]) -> None:
    """It is loaded before the program, binds at the first loop, and stands in for libgomp."""
    library = Path(sys.prefix) / "lib" / "libiomp5.so"
    if not library.exists():
        pytest.skip("needs the package intel-openmp")
    found = computed(run_python, "batch", LD_PRELOAD=str(library), **BOUND[5])
    free = computed(run_python, "batch")
    del found["threads"], free["threads"]  # it has one that watches
    assert found == free


@needs_masks
def test_a_runtime_that_cannot_tell_what_it_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        _name = "libold.so"

    monkeypatch.setattr(extension, "_loaded_runtimes", lambda: [Old()])
    with pytest.warns(UserWarning, match=r"libold\.so has bound to its threads.*import sam_rlx"):
        extension._release()
