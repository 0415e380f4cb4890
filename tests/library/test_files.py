"""Writers: each file appears whole or not at all, whoever else writes it and whatever stops it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from nightly import many_writers
from sam_rlx._internal.files.atomic import NewFile, atomic_write
from sam_rlx._internal.files.locks import lock
from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx._internal.media.frames import ClipFrames
from support.systems import IS_ROOT, posix_only

WRITE_AND_WAIT = """
import sys
from sam_rlx._internal.files.atomic import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("started", flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_writer(path: Path, code: str = WRITE_AND_WAIT) -> Iterator[subprocess.Popen[str]]:
    """Start a process that writes `path`, and wait until it is in the middle of it."""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        try:
            yield process
        finally:
            process.kill()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def drafts(folder: Path) -> list[str]:
    """Return the names of temporary files that have a lock beside them."""
    found = {name.removesuffix(".tmp") for name in names(folder) if name.endswith(".tmp")}
    locks = {name.removesuffix(".lock") for name in names(folder) if name.endswith(".lock")}
    assert found == locks
    return sorted(found)


def test_writers_of_one_file_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    files = [NewFile(path) for _ in range(3)]
    for index, new in enumerate(files):
        new.file.write(bytes([index]) * (1000 + index))
    assert len(drafts(tmp_path)) == 3
    for index in (1, 2, 0):
        files[index].commit()
        files[index].discard()
        assert path.read_bytes() == bytes([index]) * (1000 + index)
    assert names(tmp_path) == ["a.bin"]


def test_many_threads_and_processes_write_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert many_writers.main(5) == 0
    assert "80 writes, wrong 0" in capsys.readouterr().out


@posix_only
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_mode_bits_are_those_of_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with atomic_write(tmp_path / "a") as file:
            file.write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~umask


def test_what_a_killed_writer_left_is_removed_and_a_live_one_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with atomic_write(path) as file:  # this process knows the folder
        file.write(b"first")
    with other_writer(path) as killed:
        killed.kill()
        killed.wait()
        (stale,) = drafts(tmp_path)
    with other_writer(path) as living:
        (kept,) = drafts(tmp_path)
        assert kept != stale  # the new one removed the stale one
        (tmp_path / ".b.npz.0123456789abcdef.sam_rlx.tmp").write_bytes(b"of another target")
        with atomic_write(path) as file:
            file.write(b"mine")
        assert drafts(tmp_path) == [kept]
        living.communicate("")
        assert living.returncode == 0
    assert path.read_bytes() == b"half"
    assert names(tmp_path) == ["a.npz"]


def test_a_lock_that_a_killed_writer_left_alone_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".b.npz.0123456789abcdef.sam_rlx.lock").touch()
    with atomic_write(tmp_path / "a") as file:
        file.write(b"x")
    assert names(tmp_path) == ["a"]


@posix_only
def test_a_leftover_is_removed_while_its_lock_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that has just made that file would lock it otherwise, and lose it."""
    left = tmp_path / ".b.npz.0123456789abcdef.sam_rlx.lock"
    left.touch()
    unlink, locked = Path.unlink, []

    def unlinking(path: Path, missing_ok: bool = False) -> None:
        if path == left:
            with path.open("r+b") as file:
                locked.append(lock(file))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlinking)
    with atomic_write(tmp_path / "a") as file:
        file.write(b"x")
    assert locked == [False]
    assert names(tmp_path) == ["a"]


def test_a_target_that_a_scanner_has_open_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows replaces no file that another program has open."""
    busy, replace = [3], os.replace

    def refusing(source: Path, target: Path) -> None:
        if busy[0]:
            busy[0] -= 1
            raise PermissionError(13, "in use by another process", str(source))
        replace(source, target)

    monkeypatch.setattr(os, "replace", refusing)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with atomic_write(tmp_path / "a") as file:
        file.write(b"x")
    assert names(tmp_path) == ["a"]
    busy[0] = 100
    with (
        pytest.raises(PermissionError, match=r"in use.*'.*/a'"),
        atomic_write(tmp_path / "a") as file,
    ):
        file.write(b"y")
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"x"


@pytest.mark.parametrize("locks", ["none", "of bytes"])
def test_writers_without_posix_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: str
) -> None:
    """Where nobody can tell whether a writer lives, its files stay; Windows locks bytes."""
    taken: list[int] = []

    def locking(number: int, mode: int, count: int) -> None:
        assert (mode, count, os.lseek(number, 0, os.SEEK_CUR)) == (2, 1, 0)
        if os.fstat(number).st_ino in taken:
            raise OSError(13, "Permission denied")
        taken.append(os.fstat(number).st_ino)

    monkeypatch.setattr("sam_rlx._internal.files.locks.flock", None)
    if locks == "of bytes":
        monkeypatch.setattr("sam_rlx._internal.files.locks.locking", locking)
        monkeypatch.setattr("sam_rlx._internal.files.locks.LK_NBLCK", 2, raising=False)
    living = NewFile(tmp_path / "a")
    (tmp_path / ".b.0123456789abcdef.sam_rlx.tmp").touch()
    (tmp_path / ".b.0123456789abcdef.sam_rlx.lock").touch()
    with atomic_write(tmp_path / "c") as file:
        file.write(b"x")
    left = [name for name in drafts(tmp_path) if name.startswith(".b.")]
    assert len(left) == (locks == "none")
    living.commit()
    assert [name for name in names(tmp_path) if not name.startswith(".b.")] == ["a", "c"]


def test_a_series_of_files_removes_what_any_of_them_left(tmp_path: Path) -> None:
    (tmp_path / ".1.png.0123456789abcdef.sam_rlx.tmp").write_bytes(b"half")
    for index in range(3):
        with atomic_write(tmp_path / f"{index}.png") as file:
            file.write(b"whole")
    assert names(tmp_path) == ["0.png", "1.png", "2.png"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_the_target(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")

    def fail() -> None:
        with atomic_write(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["a"]


def test_bytes_are_on_the_disk_before_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    fsync, replace = os.fsync, Path.replace

    def recorded_fsync(number: int) -> None:
        seen.append(("fsync", os.fstat(number).st_size))
        fsync(number)

    def recorded_replace(self: Path, target: Path) -> Path:
        seen.append(("replace", self.stat().st_size))
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(Path, "replace", recorded_replace)
    with atomic_write(tmp_path / "a") as file:
        file.write(b"12345")
    assert seen == [("fsync", 5), ("replace", 5)]


def test_a_full_disk_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "a").write_bytes(b"before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"), atomic_write(tmp_path / "a") as file:
        file.write(b"x")
    assert (tmp_path / "a").read_bytes() == b"before"
    assert names(tmp_path) == ["a"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_device_gets_the_bytes_or_tells_its_error() -> None:
    with atomic_write("/dev/null") as file:
        file.write(b"x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    with pytest.raises(OSError, match="No space left"), atomic_write("/dev/full") as file:
        file.write(b"x")
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


@posix_only
def test_a_pipe_gets_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    with atomic_write(path) as file:
        np.savez(file, a=np.arange(5))
    reader.join()
    (tmp_path / "copy.npz").write_bytes(got[0])
    with np.load(tmp_path / "copy.npz") as archive:
        assert archive["a"].tolist() == [0, 1, 2, 3, 4]
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("name", ["/proc/self/fd/1", "/dev/stdout"])
@pytest.mark.parametrize("redirected", [True, False])
def test_standard_output_gets_the_bytes(tmp_path: Path, name: str, redirected: bool) -> None:
    code = "import sys, sam_rlx.io; sam_rlx.io.write_json(sys.argv[1], [1])"
    path = tmp_path / "out"
    path.write_bytes(b"longer than what is written")
    inode = path.stat().st_ino
    with path.open("r+b") as file:
        done = subprocess.run(
            [sys.executable, "-c", code, name],
            stdout=file if redirected else subprocess.PIPE,
            check=True,
        )
    assert (path.read_bytes() if redirected else done.stdout) == b"[\n 1\n]\n"
    assert path.stat().st_ino == inode
    assert names(tmp_path) == ["out"]


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "real").write_bytes(b"before")
    (tmp_path / "link").symlink_to("deep/real")
    (tmp_path / "again").symlink_to(tmp_path / "link")
    with atomic_write(tmp_path / "again") as file:
        file.write(b"after")
    assert (tmp_path / "again").is_symlink()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "deep" / "real").read_bytes() == b"after"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="loop"), atomic_write(tmp_path / "loop") as file:
        file.write(b"x")


def test_names_that_are_no_files(tmp_path: Path) -> None:
    for path in (None, 3, b"a", "", "a\0b"):
        with pytest.raises(sam_rlx.InvalidArgumentError, match="path: expected"):
            NewFile(path)  # type: ignore[arg-type]
    with pytest.raises(IsADirectoryError):
        NewFile(tmp_path)
    longest = "x" * 255
    with atomic_write(tmp_path / longest) as file:
        file.write(b"x")
    assert names(tmp_path) == [longest]


@pytest.mark.skipif(IS_ROOT, reason="root may write everywhere")
@posix_only
def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        NewFile(tmp_path / "a")


# ---------------------------------------------------------------- clips


def test_clips_of_two_writers_do_not_mix(tmp_path: Path, frames: np.ndarray) -> None:
    path = tmp_path / "clip.mp4"
    with ClipWriter(path, 10) as first, ClipWriter(path, 10) as second:
        for index, frame in enumerate(frames):
            first.add(frame)
            if index < 4:
                second.add(frame)
    assert ClipFrames(path).count == len(frames)  # the first one ends last
    assert names(tmp_path) == ["clip.mp4"]


def test_a_clip_without_frames_or_with_an_error_is_none(tmp_path: Path, frames: np.ndarray) -> None:
    with ClipWriter(tmp_path / "a.mp4", 10):
        pass

    def fail() -> None:
        with ClipWriter(tmp_path / "a.mp4", 10) as writer:
            writer.add(frames[0])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names(tmp_path) == []


@pytest.mark.parametrize("rate", [0, -1.0, float("nan"), float("inf"), "fast", None])
def test_rates_that_are_none(tmp_path: Path, rate: object) -> None:
    with pytest.raises(sam_rlx.InvalidArgumentError, match="rate: expected"):
        ClipWriter(tmp_path / "a.mp4", rate)  # type: ignore[arg-type]


# ---------------------------------------------------------------- the command line

# A run in the background ignores SIGHUP, and so would every child.
SLOW_COMMAND = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from sam_rlx._internal.files import atomic as files
from sam_rlx import io
from sam_rlx.apps import cli

def write_json(path, document):
    with files.atomic_write(path) as file:
        file.write(b"half")
        file.flush()
        print("started", flush=True)
        sys.stdin.read()

io.write_json = write_json
image = sys.argv[1] + ".png"
io.write_image(image, __import__("numpy").zeros((40, 50, 3), "uint8"))
sys.exit(cli.main(["segment", image, "--point", "5,5", "--json", sys.argv[1]]))
"""


@posix_only
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_signals_that_end_a_command_leave_no_temporary_file(tmp_path: Path, name: str) -> None:
    number = getattr(signal, name)
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_COMMAND, str(tmp_path / "a.json")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline() not in ("started\n", ""):
            pass
        process.send_signal(number)
        _, err = process.communicate()
    assert process.returncode == 128 + number, err
    assert err.strip() == "sam-rlx segment: terminated"
    assert names(tmp_path) == ["a.json.png"]


def test_the_command_line_leaves_signal_handlers_as_they_were(
    run_cli: Callable[..., tuple[int, str, str]],
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert run_cli("info")[0] == 0
    assert signal.getsignal(signal.SIGTERM) is before
