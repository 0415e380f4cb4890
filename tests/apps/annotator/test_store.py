"""The files of a project: what was acknowledged is there, whatever ends the process."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sam_rlx.apps.annotator import store as module
from sam_rlx.apps.annotator.history import Edit, History
from sam_rlx.apps.annotator.lock import Holder, ProjectLock, holder_of, lock_of
from sam_rlx.apps.annotator.records import history_to_json
from sam_rlx.apps.annotator.store import Loaded, Store, TakenOverError, aside_of, load, log_of
from sam_rlx.errors import InvalidArgumentError, UnsupportedError
from support.edits import Worker, project, state
from support.odd_json import ODD, changed

TESTS = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sam_rlx.project.json"


def worked(path: Path, seed: int, count: int = 25) -> History:
    """Do random work on what is there, and leave it without a word, as a killed process does."""
    loaded = load(path)
    history = loaded.history
    if not history.project.items:
        history = History(project())
        loaded = Loaded(history)
    store, worker = Store(path, loaded), Worker(history, seed)
    for _ in range(count):
        record = worker.do()
        if record is not None:
            store.put(record)
            assert store.write()
    store.close()
    return history


def same(a: History, b: History) -> bool:
    return state(a) == state(b) and a.n == b.n and a.undone == b.undone and a.edits == b.edits


@pytest.mark.parametrize("log_bytes", [4_000_000, 20_000])
def test_what_was_written_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch, log_bytes: int
) -> None:
    monkeypatch.setattr(module, "_LOG_BYTES", log_bytes)
    for seed in range(8):
        history = worked(path, seed)
        found = load(path)
        assert same(found.history, history)
        assert found.cut == 0


def test_undo_after_a_restart_is_exact(path: Path) -> None:
    history = worked(path, 3, 60)
    again = load(path).history
    for key in ("aaaa", "bbbb", "cccc") * 30:
        assert (history.undo(key) is None) == (again.undo(key) is None)
        assert state(history) == state(again)


def test_only_the_last_edits_are_kept_in_a_snapshot(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_KEPT_EDITS", 5)
    monkeypatch.setattr(module, "_LOG_BYTES", 2_000)
    for seed in range(4):
        history = worked(path, seed, 60)
        assert same(load(path).history, history)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_masks_are_cocos_run_lengths(path: Path) -> None:
    judge = pytest.importorskip("pycocotools.mask", reason="pycocotools decodes the masks")
    history = worked(path, 1)
    taken = Store(path, load(path))
    taken.take_over()
    taken.close()
    document = json.loads(path.read_text())
    seen = 0
    for key, said in document["documents"].items():
        for one, entry in zip(history.document(key).objects, said["objects"], strict=True):
            for frame, mask in entry["masks"].items():
                decoded = judge.decode(document["masks"][mask["mask"]]).astype(bool)
                np.testing.assert_array_equal(decoded, one.masks[int(frame)].to_mask())
                seen += 1
    assert seen


def test_a_line_that_is_cut_off_anywhere_is_dropped(path: Path) -> None:
    worked(path, 5, 12)
    log = log_of(path)
    contents = log.read_bytes()
    lines = contents.splitlines(keepends=True)
    wanted = load(path).history.n
    start = len(contents) - len(lines[-1])
    for end in {start, start + 1, start + 9, len(contents) - 2, len(contents) - 1}:
        log.write_bytes(contents[:end])
        found = load(path)
        assert found.history.n == wanted - 1
        assert (found.log_bytes, found.cut) == (start, end - start)
    broken = bytearray(contents)
    broken[len(lines[0]) + 20] ^= 1
    log.write_bytes(broken)
    found = load(path)
    assert found.log_bytes == len(lines[0])
    assert found.cut == len(contents) - len(lines[0])
    n = found.history.n
    store = Store(path, found)
    edit = Worker(found.history, 9).everywhere()
    assert edit
    store.put(edit)
    assert store.write()
    store.close()
    assert (load(path).history.n, load(path).cut) == (n + 1, 0)


def signed(text: bytes) -> bytes:
    return b"%08x %s\n" % (zlib.crc32(text), text)


@pytest.mark.parametrize("odd", [ODD[::6], pytest.param(ODD, marks=pytest.mark.slow)])
def test_hostile_files_give_typed_errors(path: Path, odd: list[Any]) -> None:
    worked(path, 2, 9)
    first, last = path.read_text(), log_of(path).read_bytes().splitlines()[-1]
    document = json.loads(first)
    for other in changed(document, odd):
        path.write_text(json.dumps(other))
        with contextlib.suppress(InvalidArgumentError, UnsupportedError):
            load(path)
    path.write_text(first)
    line = json.loads(last[9:])
    for other in changed(line, odd):
        log_of(path).write_bytes(signed(json.dumps(other).encode()))
        with contextlib.suppress(InvalidArgumentError, UnsupportedError):
            load(path)


@pytest.mark.parametrize(
    "contents",
    [
        *(b"", b"\xff\xfe", b"[" * 100_000, b"{}", b'{"format": "sam_rlx.batch"}'),
        b'{"format": "sam_rlx.project", "version": true}',
        b'{"format": "sam_rlx.project", "version": 1, "generation": NaN}',
        b'{"format": "sam_rlx.project", "version": 1, "generation": 0}',
    ],
)
def test_other_files_are_refused_and_stay(path: Path, contents: bytes) -> None:
    path.write_bytes(contents)
    with pytest.raises(InvalidArgumentError, match=path.name):
        load(path)
    assert path.read_bytes() == contents


def test_a_newer_version_is_refused(path: Path) -> None:
    path.write_text('{"format": "sam_rlx.project", "version": 3}')
    with pytest.raises(UnsupportedError, match="a newer sam_rlx"):
        load(path)


def test_records_that_do_not_follow_are_refused(path: Path) -> None:
    worked(path, 2, 20)
    log = log_of(path)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:-2], lines[-1]]))
    with pytest.raises(InvalidArgumentError, match="expected record"):
        load(path)
    wrong = b'{"n":%d,"by":"","of":10000,"back":true}' % (load_n(path, lines) + 1)
    log.write_bytes(b"".join(lines) + signed(wrong))
    with pytest.raises(InvalidArgumentError, match="an edit that is known"):
        load(path)


def load_n(path: Path, lines: list[bytes]) -> int:
    log_of(path).write_bytes(b"".join(lines))
    return load(path).history.n


def test_a_full_disk_clears_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a line is on the disk; what waits is written when there is room again."""
    history = worked(path, 4, 10)
    store, worker = Store(path, load(path)), Worker(history, 11)
    full = OSError(errno.ENOSPC, "No space left on device")

    class Full:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def write(self, contents: bytes) -> int:
            self.file.write(contents[:7])
            raise full

    records = [record for record in (worker.do() for _ in range(20)) if record is not None]
    for record in records[:3]:
        monkeypatch.setattr(store, "_log", Full(log_of(path).open("ab", buffering=0)))
        store.put(record)
        assert not store.write()
        assert store.problem == "No space left on device"
        assert not store.is_saved
    for record in records[3:]:
        store.put(record)
    assert store.write()
    store.close()
    assert (store.is_saved, store.problem) == (True, "")
    assert same(load(path).history, history)


def test_one_fsync_serves_all_that_wait(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worked(path, 4, 5)
    loaded = load(path)
    store, worker = Store(path, loaded), Worker(loaded.history, 1)
    count, wait = 0, threading.Event()
    sync = os.fsync

    def slow(number: int) -> None:
        nonlocal count
        count += 1
        wait.wait(30)
        sync(number)

    monkeypatch.setattr(module.os, "fsync", slow)

    def put() -> None:
        assert store.write()

    threads = []
    for _ in range(8):
        edit = worker.everywhere()
        assert edit
        store.put(edit)
        threads.append(threading.Thread(target=put))
        threads[-1].start()
    wait.set()
    for thread in threads:
        thread.join(30)
    store.close()
    assert count <= 2
    assert same(load(path).history, loaded.history)


def test_who_is_taken_over_writes_nothing_and_sets_its_work_aside(path: Path) -> None:
    history = worked(path, 6)
    first, second = Store(path, load(path)), Store(path, load(path))
    second.take_over()
    edit = Worker(history, 1).everywhere()
    assert edit
    first.put(edit)
    before = path.read_bytes(), log_of(path).read_bytes()
    with pytest.raises(TakenOverError):
        first.write()
    assert (path.read_bytes(), log_of(path).read_bytes()) == before
    aside = first.set_aside()
    assert aside.parent == path.parent
    assert aside.name.startswith("sam_rlx.project (")
    assert load(aside).history.n == first._history.n
    assert aside_of(path) != aside
    first.close()
    second.close()


def test_locks(path: Path) -> None:
    first, second = ProjectLock(path, "http://127.0.0.1:8765"), ProjectLock(path)
    assert first.acquire() is None
    holder = second.acquire()
    assert holder is not None
    assert (holder.pid, holder.address) == (os.getpid(), "http://127.0.0.1:8765")
    assert f"process {os.getpid()} on " in str(holder)
    first.release()
    assert second.acquire() is None
    second.release()
    assert not lock_of(path).exists()
    for contents in (b"", b"\n[]", b"\n[" * 9999, b'\n{"host": 3, "pid": "x"}', b"\n\xff"):
        lock_of(path).write_bytes(contents)
        assert holder_of(lock_of(path)) == Holder()


# ------------------------------------------------------------------ kills


CHILD = """
import hashlib, sys
from pathlib import Path
from support.edits import Worker, project
from sam_rlx.apps.annotator import store
from sam_rlx.apps.annotator.history import Edit, History
from test_store_digest import digest
store._LOG_BYTES = 60_000
path = Path(sys.argv[1])
loaded = store.load(path)
if not loaded.history.project.items:
    loaded = store.Loaded(History(project()))
writer, worker = store.Store(path, loaded), Worker(loaded.history, int(sys.argv[2]))
print("ready", flush=True)
while True:
    record = worker.do()
    if record is not None:
        print("try", record.n, digest(loaded.history), flush=True)
        writer.put(record)
        assert writer.write()
        print("kept", record.n, flush=True)
"""
# Of the state alone: a new snapshot forgets the oldest edits, and their masks.
DIGEST = """
import hashlib, json
from sam_rlx.apps.annotator.history import Edit, History
from sam_rlx.apps.annotator.records import history_to_json
def digest(history):
    said = history_to_json(History(history.project, history.documents, history.n))
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()
"""


@pytest.mark.parametrize("kills", [4, pytest.param(150, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
def test_kills_lose_no_edit_that_was_acknowledged(
    path: Path, tmp_path: Path, kills: int, record_property: Any
) -> None:
    (tmp_path / "test_store_digest.py").write_text(DIGEST)
    chance = random.Random(0)
    space: dict[str, Any] = {}
    exec(DIGEST, space)
    total = cuts = 0
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(TESTS), str(tmp_path), os.environ.get("PYTHONPATH", "")]
        ),
    }
    for kill in range(kills):
        command = [sys.executable, "-c", CHILD, str(path), str(kill)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        begun, wanted = b"", chance.randrange(1, 40)
        while begun.count(b"kept") < wanted:
            begun += child.stdout.readline()
        time.sleep(chance.uniform(0, 0.02))
        child.kill()
        said = [line.split() for line in (begun + child.stdout.read()).decode().split("\n")[:-1]]
        child.wait(60)
        child.stdout.close()
        tried = {int(line[1]): line[2] for line in said if line[0] == "try" and len(line) == 3}
        kept = [int(line[1]) for line in said if line[0] == "kept"]
        found = load(path)
        cuts += found.cut > 0
        total += len(kept)
        assert found.history.n >= max(kept, default=0)
        if found.history.n in tried:
            assert space["digest"](found.history) == tried[found.history.n]
    record_property("acknowledged", total)
    print(f"{kills} kills, {total} edits acknowledged, {cuts} cut lines")
    assert total >= kills


def test_snapshots_say_all(path: Path) -> None:
    history = worked(path, 7)
    assert history_to_json(load(path).history) == history_to_json(history)


def test_a_project_of_version_1_opens_and_goes_on(path: Path) -> None:
    """Its objects had no lock and its classes no digit; what is added makes it version 2."""
    for suffix in (".json", ".log"):
        kept = TESTS / "data" / f"project_v1{suffix}"
        path.with_suffix(suffix).write_bytes(kept.read_bytes())
    loaded = load(path)
    assert loaded.version == 1
    assert loaded.cut == 0
    history = loaded.history
    assert history.n == 16
    assert [(one.name, one.digit) for one in history.project.classes] == [
        ("object", "1"),
        ("class 2", "2"),
    ]
    objects = history.document("aaaa").objects
    assert len(objects) == 5
    assert not any(one.locked for one in objects)
    before = state(history)
    store = Store(path, loaded)
    record = Worker(history, 7).click()
    assert isinstance(record, Edit)
    store.put(record)
    assert store.write()
    store.close()
    assert json.loads(path.read_text())["version"] == 2
    again = load(path)
    assert (again.version, same(again.history, history)) == (2, True)
    assert history.n == 17
    key = next(iter(record.documents))
    assert again.history.undo(key)
    assert state(again.history) == before
