"""Files are mapped: errors of the system arrive as Python's own, and memory is not taken twice."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import sam_rlx.errors
from support import checkpoint_files as files
from support.systems import IS_ROOT, posix_only


def test_a_missing_file_is_file_not_found(testing, tmp_path):
    path = tmp_path / "no such file.pth"
    with pytest.raises(FileNotFoundError) as caught:
        testing.open_checkpoint(path)
    assert caught.value.filename == str(path)


@pytest.mark.skipif(IS_ROOT, reason="root reads every file")
@posix_only
def test_an_unreadable_file_is_a_permission_error(testing, tmp_path):
    path = tmp_path / "x.pth"
    path.write_bytes(b"x")
    path.chmod(0)
    with pytest.raises(PermissionError):
        testing.open_checkpoint(path)


def test_an_empty_file_is_named_so(testing, tmp_path):
    path = tmp_path / "x.pth"
    path.write_bytes(b"")
    with pytest.raises(sam_rlx.errors.CheckpointError, match="found an empty file"):
        testing.open_checkpoint(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_does_not_block(testing, tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(sam_rlx.errors.CheckpointError, match="regular file"):
        testing.open_checkpoint(path)


def test_names_outside_unicode_work(testing, tmp_path):
    path = tmp_path / os.fsdecode(b"w\xe9ight\xff.safetensors")
    path.write_bytes(b"??")
    with pytest.raises(sam_rlx.errors.CheckpointError, match=r"w\\xe9ight\\xff"):
        testing.open_checkpoint(path)


LOAD = """
    import pathlib, re, sys
    from sam_rlx import _testing

    def peak():  # not ru_maxrss: a process inherits that from the one that started it
        status = pathlib.Path("/proc/self/status").read_text()
        return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", status)[1])

    state_dict = _testing.open_checkpoint(sys.argv[1])
    before = peak()
    state_dict.load([(name, {shape}) for name in state_dict.keys()], values=False)
    print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("kind", ["safetensors", "torch"])
def test_a_load_holds_the_weights_once(testing, tmp_path, kind):
    shape = (5, 1024, 1024)
    zeros = bytes(4 * np.prod(shape))
    tensors = {f"w{i}": files.Stored("F32", zeros, shape) for i in range(10)}
    path = tmp_path / "large"
    if kind == "torch":
        path.write_bytes(files.torch_bytes(tensors))
    else:
        path.write_bytes(files.safetensors_bytes(*files.safetensors_parts(tensors)))
    size = path.stat().st_size
    assert size > 200e6
    del tensors
    script = textwrap.dedent(LOAD.replace("{shape}", str(list(shape))))
    run = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert 0.8 * size < int(run.stdout) < 1.3 * size
