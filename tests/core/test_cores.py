"""The default number of threads: affinity mask and CPU quotas of control groups."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sam_rlx
from sam_rlx import _testing

pytestmark = pytest.mark.source_tree


def quota(folder: Path, memberships: str, files: dict[str, str]) -> float:
    """Quota in cores of a process with such groups, in a folder with such files."""
    root = folder / "cgroup"
    root.mkdir()
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    listed = folder / "memberships"
    listed.write_text(memberships)
    cores: float = _testing.quota_cores(str(root), str(listed))
    return cores


VERSION2 = "0::/a.slice/b.scope\n"
VERSION1 = "5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n1:name=systemd:/docker/1\n"


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"a.slice/b.scope/cpu.max": "150000 100000\n"}, 1.5),
        ({"a.slice/b.scope/cpu.max": "max 100000\n"}, 0),
        # The smallest of the group's own and those above it counts.
        ({"a.slice/b.scope/cpu.max": "400000 100000\n", "a.slice/cpu.max": "30000 10000\n"}, 3),
        ({"a.slice/b.scope/cpu.max": "max 100000\n", "a.slice/cpu.max": "200000 100000\n"}, 2),
        # In a container the group's name is the host's, and the root is the container's group.
        ({"cpu.max": "50000 100000\n"}, 0.5),
        ({"unified/a.slice/cpu.max": "700000 100000\n"}, 7),
        ({}, 0),
        ({"a.slice/cpu.max": ""}, 0),
        ({"a.slice/cpu.max": "12"}, 0),
        ({"a.slice/cpu.max": "200000 0\n"}, 0),
        ({"a.slice/cpu.max": "-5 100000\n"}, 0),
        ({"a.slice/cpu.max": "two 100000\n"}, 0),
        ({"a.slice/cpu.max": f"{10**30} 100000\n"}, 0),
        ({"a.slice/cpu.max": "\x00\xff" * 200_000}, 0),
        # No group of version 2 obeys files of version 1.
        ({"a.slice/cpu.cfs_quota_us": "200000", "a.slice/cpu.cfs_period_us": "100000"}, 0),
    ],
)
def test_quota_of_version_2(tmp_path, files, cores):
    assert quota(tmp_path, VERSION2, files) == cores


@pytest.mark.parametrize("folder", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize("group", ["", "/docker", "/docker/1"])
@pytest.mark.parametrize(
    ("quota_us", "period_us", "cores"),
    [("250000\n", "100000\n", 2.5), ("-1\n", "100000\n", 0), ("50000\n", "", 0)],
)
def test_quota_of_version_1(tmp_path, folder, group, quota_us, period_us, cores):
    files = {
        f"{folder}{group}/cpu.cfs_quota_us": quota_us,
        f"{folder}{group}/cpu.cfs_period_us": period_us,
        "memory/docker/1/cpu.cfs_quota_us": "100000",
        "memory/docker/1/cpu.cfs_period_us": "100000",
    }
    assert quota(tmp_path, VERSION1, files) == cores


def test_the_smaller_quota_counts_where_both_versions_are_mounted(tmp_path):
    files = {
        "cpu/docker/1/cpu.cfs_quota_us": "600000",
        "cpu/docker/1/cpu.cfs_period_us": "100000",
        "unified/cpu.max": "400000 100000",
    }
    assert quota(tmp_path, VERSION1 + "0::/\n", files) == 4


@pytest.mark.parametrize("memberships", ["", "\n", "::::\n", "0:cpu\n", "0::", "no colon", "\xff"])
def test_damaged_memberships(tmp_path, memberships):
    assert quota(tmp_path, memberships, {}) == 0


def test_files_that_cannot_be_read(tmp_path):
    assert _testing.quota_cores(str(tmp_path), str(tmp_path / "none")) == 0
    assert _testing.quota_cores("", str(tmp_path)) == 0
    (tmp_path / "cpu.max").mkdir()
    (tmp_path / "memberships").write_text("0::/\n")
    assert _testing.quota_cores(str(tmp_path), str(tmp_path / "memberships")) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has an affinity mask to set")
def test_a_process_on_one_core_uses_one_thread():
    one = min(os.sched_getaffinity(0))
    code = (
        f"import os; os.sched_setaffinity(0, {{{one}}});"
        "import sam_rlx; print(sam_rlx.build_info()['cores'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_no_more_cores_than_the_affinity_mask_has():
    cores = sam_rlx.build_info()["cores"]
    assert isinstance(cores, int)
    most = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    assert 1 <= cores <= most
