"""Unit tests in C++ of shapes, tensors, workspaces and parallel loops."""

import subprocess
from pathlib import Path

import pytest
from support import HANG_SECONDS

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.build, pytest.mark.source_tree]


def run_core_check(*groups, program="core_check"):
    """Standard output and exit status of a program of the newest editable build."""
    programs = sorted(ROOT.glob(f"build/cp*/{program}"), key=lambda path: path.stat().st_mtime)
    if not programs:
        pytest.skip("no build tree with SAM_RLX_TESTING beside the sources")
    result = subprocess.run(
        [programs[-1], *groups], capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    return result.stdout, result.returncode


@pytest.mark.parametrize("group", ["shape", "tensor", "workspace", "parallel"])
def test_group(group):
    output, status = run_core_check(group)
    assert (output, status) == (f"{group}: 0 failures\n", 0), output


def test_parallel_loops_on_threads_of_the_standard_library():
    """What a build with SAM_RLX_THREADS=std runs on."""
    output, status = run_core_check("parallel", program="core_check_std")
    assert (output, status) == ("parallel: 0 failures\n", 0), output


def test_every_group_is_in_the_list_above():
    sources = {path.stem for path in (ROOT / "tests/cpp").glob("core_check_*.cpp")}
    assert sources == {
        f"core_check_{name}" for name in ("shape", "tensor", "workspace", "parallel")
    }


def test_a_group_that_does_not_exist_is_refused():
    assert run_core_check("shapes") == ("unknown group\n", 2)
