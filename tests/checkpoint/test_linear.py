"""Reading takes time and memory linear in the size of the file, whatever is in it."""

import json
import subprocess
import sys

import numpy as np
import pytest
import sam_rlx.errors
from support import HANG_SECONDS, cases, large_work
from support import checkpoint_files as files
from support.systems import without_asan

SMALL, LARGE = (400_000, 4_000_000) if cases.full else (100_000, 1_000_000)
MAX_PEAK = 160  # bytes of memory for a byte of the file: 64 MB for the larger SMALL
FIXED_PEAK = 8 << 20
# A child for every file, so that each has a peak of its own. The limits end what is not linear.
SCRIPT = """
import json, os, resource, sys, time
import sam_rlx, sam_rlx._testing as testing

def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024

def read(path):
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30))
    before, start = peak(), time.process_time()
    results, length = [], 0
    for attempt in (sam_rlx.load_model, load_one):
        try:
            attempt(path)
            results.append("loaded")
        except Exception as error:
            results.append(type(error).__name__)
            length = max(length, len(str(error)))
    return results, length, time.process_time() - start, peak() - before

def load_one(path):
    testing.open_checkpoint(path).load([("w", [1])], values=False)

for path in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        print(json.dumps(read(path)), flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        print(json.dumps([["died"], 0, 60, 3 << 30]), flush=True)
"""


@pytest.fixture(scope="module")
def measured(testing, tmp_path_factory):
    """Results, length of the error, processor seconds and peak of memory, for every file."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the peak of a process is read from /proc")
    folder = tmp_path_factory.mktemp("large")
    (folder / "shard.safetensors").write_bytes(
        files.safetensors_bytes(*files.safetensors_parts({"w": files.stored(np.ones(1, "f4"))}))
    )
    paths = {}
    for kind, make in large_work.MAKERS.items():
        for size in (SMALL, LARGE):
            path = paths[kind, size] = folder / f"{kind}-{size}"
            path.write_bytes(make(size))
    command = [sys.executable, "-c", SCRIPT, *map(str, paths.values())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    sizes = [path.stat().st_size for path in paths.values()]
    return dict(zip(paths, zip(rows, sizes, strict=True), strict=True))


@without_asan
@pytest.mark.parametrize("kind", large_work.MAKERS)
def test_a_file_is_read_in_linear_time_and_memory(measured, kind):
    small, _ = measured[kind, SMALL]
    for size in (SMALL, LARGE):
        (results, length, _, peak), file_size = measured[kind, size]
        assert set(results) <= {"CheckpointError", "UnsupportedError", "loaded"}, kind
        assert results[0] != "loaded"
        assert length < 100_000
        assert peak < FIXED_PEAK + MAX_PEAK * file_size
    # Ten times as large: ten times as long, with room for a busy machine; a square is a hundred.
    assert measured[kind, LARGE][0][2] < 30 * max(small[2], 0.05)


def test_the_names_that_collide_are_many():
    names = large_work.colliding_names(5000)
    assert len(set(names)) == 5000
    assert {len(name) for name in names} == {16}


def test_a_long_list_of_what_was_skipped_is_cut(testing, tmp_path):
    path = tmp_path / "x.pth"
    value = {f"\x1b[2J{i}" + "n" * 1000: None for i in range(1500)}
    path.write_bytes(files.zip_bytes(files.torch_entries(value, files.Storages())))
    skipped = testing.open_checkpoint(path).skipped
    assert len(skipped) == 1001
    assert skipped[0].startswith("\\x1b[2J0nnn")
    assert skipped[0].endswith("n...: not a tensor")
    assert skipped[-1] == "... and 500 more"


def test_a_long_list_of_problems_is_cut(testing, tmp_path):
    path = tmp_path / "x.safetensors"
    empty = files.stored(np.zeros(0, np.float32))
    tensors = {f"w{i}": empty for i in range(300)}
    path.write_bytes(files.safetensors_bytes(*files.safetensors_parts(tensors)))
    with pytest.raises(sam_rlx.errors.CheckpointError) as caught:
        testing.open_checkpoint(path).load([("x", [1])])
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("found 1 missing, 0 misshaped, 300 unexpected")
    assert lines[1] == "  x: expected shape (1,), found no tensor"
    assert lines[-1] == "  ... and 283 more"
    assert len(lines) == 20
