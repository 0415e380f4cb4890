"""Kernels without Python: those of this processor, and of others in an emulator."""

import shutil
import subprocess
from pathlib import Path

import pytest
from support.ops import ISAS

ROOT = Path(__file__).parents[2]
FLAGS = ["-std=c++20", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Icpp"]


def need(*names):
    for name in names:
        if (path := shutil.which(name)) is not None:
            return path
    return pytest.skip(f"needs {' or '.join(names)}")


def tables_in(output):
    """Name of each table that the program speaks of, and what it says."""
    return dict(line.split(": ", 1) for line in output.splitlines() if ": " in line)


@pytest.mark.build
def test_tables_of_this_processor_agree_with_generic():
    programs = sorted(ROOT.glob("build/*/kernel_check"))
    if not programs:
        pytest.skip("no build tree with SAM_RLX_TESTING beside the sources")
    result = subprocess.run([programs[-1]], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    found = tables_in(result.stdout)
    assert {name for name in found if found[name] == "0 failures"} == set(ISAS) - {"generic"}
    skipped = [name for name in found if found[name].startswith("skipped")]
    assert set(found) == set(skipped) | set(ISAS) - {"generic"}


@pytest.mark.build
@pytest.mark.slow
def test_neon_agrees_with_generic(tmp_path):
    compiler = need("aarch64-linux-gnu-g++")
    emulator = need("qemu-aarch64", "qemu-aarch64-static")
    objects = []
    for isa in ("generic", "neon"):
        objects.append(str(tmp_path / f"{isa}.o"))
        source = f"cpp/kernels/{isa}/kernels.cpp"
        kernel_flags = ["-fno-exceptions", "-fno-rtti", "-c", source, "-o", objects[-1]]
        subprocess.run([compiler, *FLAGS, *kernel_flags], cwd=ROOT, check=True)
    program = str(tmp_path / "kernel_check")
    sources = ["tests/cpp/kernel_check.cpp", "cpp/kernels/select.cpp", "cpp/core/cpu.cpp"]
    check = ["-DSAM_RLX_HAVE_NEON", *sources, *objects, "-static", "-o", program]
    subprocess.run([compiler, *FLAGS, *check], cwd=ROOT, check=True)
    result = subprocess.run([emulator, program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert tables_in(result.stdout) == {"neon": "0 failures"}
