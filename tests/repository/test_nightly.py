"""Short forms of the nightly jobs, and what runs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FUZZ = TESTS / "cpp" / "fuzz"


def run(code):
    """Run code with the jobs on the path; return the exit status and what it printed."""
    script = f"import sys; sys.path.insert(0, {str(TESTS)!r}); {code}"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.source_tree
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kills_leave_no_half_file():
    commands = ("quantize", "save embedding")
    status, text = run(f"import nightly.kills as k; sys.exit(k.main(6, 1, {commands}))")
    assert "kills: 6 of 2 commands, seed 1: 0 problems" in text
    assert status == 0, text


def test_kills_are_told_from_whole_files(tmp_path):
    """A writer that is not atomic is found out."""
    code = f"""
import pathlib, nightly.kills as k
trial = k._Trial("save", pathlib.Path("."), pathlib.Path({str(tmp_path)!r}), {{"a": b"new"}})
for content in (b"ne", b"new", k.OLD):
    (trial.out / "a").write_bytes(content)
    print(*(len(trial.problems(old, "SIGKILL")) for old in (True, False)))
(trial.out / "a").unlink()
(trial.out / ".a.1.tmp").write_bytes(b"n")
(trial.out / "b").write_bytes(b"n")
print(trial.problems(True, "SIGKILL"))
"""
    status, text = run(f"exec({code!r})")
    assert status == 0, text
    assert text.split("\n")[:3] == ["1 1", "0 0", "0 1"]
    assert text.split("\n")[3] == "['a: lost', 'b: no file of the command']"


def test_a_stopped_track_may_keep_its_first_frames():
    code = """
import json, pathlib, tempfile, nightly.kills as k
whole, first = ({"images": list(range(n)), "annotations": list(range(n))} for n in (3, 2))
out = pathlib.Path(tempfile.mkdtemp())
other = {"images": [1, 0], "annotations": [0, 1]}
for name in ("track", "everything"):
    trial = k._Trial(name, out, out, {"a": json.dumps(whole).encode()})
    for content in (json.dumps(first), json.dumps(other), json.dumps(first)[:-1]):
        (out / "a").write_text(content)
        print(*(len(trial.problems(False, signal)) for signal in k.SIGNALS))
"""
    status, text = run(f"exec({code!r})")
    assert status == 0, text
    assert text.split("\n")[:6] == ["1 0", "1 1", "1 1", "1 1", "1 1", "1 1"]


@pytest.mark.source_tree
def test_every_fuzz_target_is_built():
    text = (TESTS.parent / "CMakeLists.txt").read_text(encoding="utf-8")
    listed = text.split("target\n", 1)[1].split(")", 1)[0].split()
    assert listed == sorted(path.stem for path in FUZZ.glob("fuzz_*.cpp"))


@pytest.fixture
def jobs(tmp_path):
    """A folder with targets that are scripts: one ends well, one does not."""
    for name, status in (("fuzz_a", 0), ("fuzz_b", 77)):
        path = tmp_path / name
        path.write_text(
            f"#!/bin/sh\necho '#9 DONE rss: 31Mb' >&2\necho Done 9 runs >&2\nexit {status}\n"
        )
        path.chmod(0o755)
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="the targets are shell scripts")
def test_fuzz_targets_are_all_run_and_counted(jobs):
    code = f"import pathlib, nightly.fuzz as f; sys.exit(f.main(1, 1, pathlib.Path({str(jobs)!r})))"
    status, text = run(code)
    assert status == 1
    assert "fuzz_a: 9 runs, at most 31 MB: ok" in text
    assert "fuzz_b: 9 runs, at most 31 MB: failed" in text
    assert sorted(path.name for path in (jobs / "corpus").iterdir()) == ["fuzz_a", "fuzz_b"]


@pytest.mark.skipif(sys.platform == "win32", reason="the targets are shell scripts")
@pytest.mark.parametrize(("names", "status"), [(["fuzz_a"], 0), (["fuzz_b"], 1), (["fuzz_c"], 1)])
def test_fuzz_targets_can_be_named(jobs, names, status):
    start = "import pathlib, nightly.fuzz as f; sys.exit(f.main(1, 1, "
    found, text = run(f"{start}pathlib.Path({str(jobs)!r}), {names}))")
    assert found == status
    assert ("expected fuzz_c in" in text) == (names == ["fuzz_c"])
    assert "fuzz_a: 9" not in text or names == ["fuzz_a"]


def test_a_job_that_fails_fails_the_night(tmp_path):
    code = "import nightly.__main__ as m, nightly.fuzz as f, pathlib; "
    missing = f"f.main.__defaults__ = (pathlib.Path({str(tmp_path)!r}), ()); "
    status, text = run(code + missing + "sys.exit(m.main(['fuzz', '--seed', '1']))")
    assert status == 1
    assert "expected targets" in text
    assert "fuzz: failed after" in text


def test_a_job_is_named_or_refused():
    status, text = run("import nightly.__main__ as m; sys.exit(m.main(['fuzzy']))")
    assert status == 2
    assert "expected fuzz, structures, damaged_files" in text


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measures memory by /proc")
def test_changed_structures_are_read_or_refused():
    """A few of each kind; all of them are read as they are."""
    for package in ("av", "pyarrow", "yaml", "PIL"):
        pytest.importorskip(package)
    status, text = run("from nightly import structures as s; sys.exit(s.main(60, 6, most=6) > 0)")
    assert "structures: 42 inputs, seed 6, wrong 0" in text
    assert status == 0, text


def test_what_a_reader_must_not_do_is_found():
    """A bare error, an end of the process, a wait without end, and too much memory."""
    code = """
from nightly import structures as s
found = s.Found()
found.add(0, 10, ("read", 0.1, 5 << 20))
found.add(1, 10, ("KeyError: 'x'", 0.2, 0))
found.add(2, 10, ("crash: exit status -11", 0.3, 0))
found.add(3, 10, ("refused", 0.1, 31 << 20))
print(found.line("kind"))
print(*sorted(found.wrong))
"""
    status, text = run(f"exec({code!r})")
    assert status == 0, text
    assert "4 inputs: read 1, refused 0, wrong 3; slowest 0.30 s (input 2)" in text
    assert "input 3: memory: 31 MB for 10 bytes" in text


def test_a_process_that_ends_or_waits_is_told():
    code = """
from nightly import structures as s
s.HANG, start = 1, s.subprocess.Popen
for script in ("import os; os.abort()", "import time; time.sleep(60)"):
    s.subprocess.Popen = lambda words, **options: start([words[0], "-c", script], **options)
    reader = s.Reader()
    print(reader.ask("kind", "folder", "file")[0])
    reader.end()
"""
    status, text = run(f"exec({code!r})")
    assert status == 0, text
    assert text.splitlines() == ["crash: exit status -6", "hang: nothing within 1 s"]


def test_the_time_of_a_job_can_be_given():
    code = (
        "import nightly.__main__ as m, nightly.structures as s; "
        "s.main = lambda seconds, seed: print('for', seconds, seed) or 0; "
        "sys.exit(m.main(['structures', '--seconds', '7', '--seed', '3']))"
    )
    status, text = run(code)
    assert status == 0
    assert "for 7 3" in text


def test_outcomes_of_doors_are_told_apart():
    code = """
import warnings, sam_rlx
from nightly import doors
def tells():
    warnings.warn("page 0", sam_rlx.MediaWarning)
    return [2]
def raises(error):
    raise error
own, other = sam_rlx.InvalidArgumentError("a"), KeyError("a")
calls = (lambda: [1], tells, lambda: raises(own), lambda: raises(other), lambda: [2])
print(*(doors.outcome(call, [1]).partition(":")[0] for call in calls))
@doors.door("one")
def rows(folder):
    yield "a", "right"
    yield "b", "silent: 5"
doors._modules = lambda: None
print("bad", doors.main(part="one"))
"""
    status, text = run(f"exec({code!r})")
    assert status == 0, text
    assert text.splitlines()[0].split() == ["right", "told", "refused", "wrong", "silent"]
    assert "one | b | silent: 5" in text
    assert text.splitlines()[-1] == "bad 1"
