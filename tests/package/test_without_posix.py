"""The library where modules and names of POSIX are missing, as on Windows, and rules of its names.

Such a system is simulated: the rest of it is seen by the workflow of wheels alone.
"""

from __future__ import annotations

import ntpath
import os
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx._internal.files.portable_names import portable_name
from support import HANG_SECONDS, without_posix

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

Run = Callable[..., str]


@pytest.fixture
def restricted(tmp_path: Path) -> Run:
    """Run code in a process without what Windows lacks, in a folder with an image."""
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(without_posix.__file__, site / "sitecustomize.py")
    work = tmp_path / "work"
    work.mkdir()
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[10:30, 15:45] = 200
    Image.fromarray(pixels).save(work / "cup.png")

    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=work,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-3000:]
        return done.stdout

    return run


def modules() -> list[str]:
    found = pkgutil.walk_packages(sam_rlx.__path__, "sam_rlx.", onerror=lambda name: None)
    return [
        module.name
        for module in found
        # These import packages of extras, which may choose by the system.
        if not module.name.startswith(("sam_rlx.widget", "sam_rlx.apps.serve", "sam_rlx._testing"))
        and not module.name.endswith("__main__")
    ]


@linux
def test_every_module_is_imported(restricted: Run) -> None:
    assert "sam_rlx.apps.batch.worker" in modules()
    code = f"""
import importlib
for name in {modules()}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name in ("pytest", "torch", "av", "uvicorn"), error
try:
    import fcntl
except ImportError:
    print("without fcntl")
"""
    assert restricted(code) == "without fcntl\n"


@linux
def test_commands_run(restricted: Run, tmp_path: Path) -> None:
    """Of demo, segment, track and batch, with leftovers of writers that were killed."""
    code = """
from pathlib import Path
from PIL import Image
from sam_rlx.apps.cli import main

leftover = ".x.0123456789abcdef.sam_rlx"
Path(leftover + ".tmp").touch()
Path(leftover + ".lock").touch()
still = Image.open("cup.png")
still.save("clip.gif", save_all=True, append_images=[Image.new("RGB", still.size, "blue")])
for words in (
    "demo --output demo.png",
    "segment cup.png --box 10,8,50,32 --output cup_overlay.png --json cup.json",
    "track clip.gif --box 10,8,50,32 --json clip.json",
):
    assert main([*words.split(), "--threads", "1"]) == 0, words
import sam_rlx.batch
done = sam_rlx.batch.run("cup.png", "out", boxes=[[10, 8, 50, 32]], workers=1, num_threads=1)
print("items", done.items, len(done.failures))
"""
    assert restricted(code).splitlines()[-1] == "items 1 0"
    names = {path.name for path in (tmp_path / "work").iterdir()}
    assert names == {
        *("cup.png", "clip.gif", "demo.png", "cup_overlay.png", "cup.json", "clip.json", "out")
    }


@linux
def test_two_batches_in_one_folder_are_told_apart(restricted: Run) -> None:
    code = """
from pathlib import Path
from sam_rlx.apps.batch import job
from sam_rlx.errors import StateError

with job.opened(Path("out"), {"format": "sam_rlx.batch.1"}):
    try:
        with job.opened(Path("out"), {"format": "sam_rlx.batch.1"}):
            pass
    except StateError as error:
        print(error)
"""
    assert "found one in use" in restricted(code)


@linux
def test_a_server_has_its_port_alone(restricted: Run) -> None:
    """Windows has another option for it, and SO_REUSEADDR would share the port."""
    pytest.importorskip("uvicorn")
    code = """
import socket
options = []
socket.SO_EXCLUSIVEADDRUSE = -5
socket.socket.setsockopt = lambda self, level, name, value: options.append(name)
from sam_rlx.apps.serve import server
server.listen("127.0.0.1", 0).close()
print(options)
"""
    assert restricted(code) == "[-5]\n"


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("con", "%63on"),
        ("NUL.png", "%4EUL.png"),
        ("Aux.tar.gz", "%41ux.tar.gz"),
        ("com7", "%63om7"),
        ("LPT²", "%4CPT²"),
        ("prn .txt", "%70rn .txt"),
        ("half.", "half%2E"),
        ("half ", "half%20"),
        ("a:b", "a%3Ab"),
        ("who?", "who%3F"),
        ("...", "%2E%2E%2E"),
    ],
)
def test_names_that_windows_refuses(name: str, written: str) -> None:
    assert portable_name(name) == written
    assert portable_name(written) == written


@pytest.mark.parametrize("name", ["cup", "console", "com10", "nul-1", ".con", "a b", "é", "con_"])
def test_other_names_stay(name: str) -> None:
    assert portable_name(name) == name


def test_names_are_those_that_ntpath_knows() -> None:
    devices = ("con", "prn", "aux", "nul", "com1", "com9", "lpt3", "com¹", "conin$", "conout$")
    odd = [f"{name}{end}" for name in (*devices, "cup") for end in ("", ".png", " .x", ".", " ")]
    written = [portable_name(name) for name in odd]
    assert len(set(written)) == len(odd)
    for name in written:
        # One component, of the current drive and folder.
        assert ntpath.split(ntpath.join("C:\\out", name)) == ("C:\\out", name)
        assert ntpath.splitdrive(name)[0] == ""
        assert ntpath.normpath(name) == name
        if sys.version_info >= (3, 13):
            assert not ntpath.isreserved(name)


# ---------------------------------------------------------------- consoles


@pytest.mark.parametrize("encoding", ["", "cp1252:strict"])
def test_an_output_of_any_encoding(tmp_path: Path, encoding: str) -> None:
    """UTF-8, or escapes where another encoding is asked for."""
    Image.new("RGB", (60, 40), "red").save(tmp_path / "a.png")
    words = ["segment", "a.png", "--point", "5,5", "--json", "茶碗.json"]
    done = subprocess.run(
        [sys.executable, "-m", "sam_rlx", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    name = "\\u8336\\u7897" if encoding else "茶碗"
    assert name.encode() in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="a shell closes stderr")
def test_a_program_without_stderr(tmp_path: Path) -> None:
    Image.new("RGB", (60, 40), "red").save(tmp_path / "a.png")
    command = f'"{sys.executable}" -m sam_rlx segment a.png --point 5,5 --json - 2>&-'
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, timeout=HANG_SECONDS
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(b"{")
