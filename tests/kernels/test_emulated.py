"""Kernels of other processors, compiled with a cross compiler and run in an emulator."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLAGS = ["-std=c++20", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Icpp"]


def need(*names):
    for name in names:
        if (path := shutil.which(name)) is not None:
            return path
    return pytest.skip(f"needs {' or '.join(names)}")


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
    check = ["-DSAM_RLX_TABLE=neon_kernels", "tests/cpp/kernel_check.cpp", *objects, "-static"]
    subprocess.run([compiler, *FLAGS, *check, "-o", program], cwd=ROOT, check=True)
    result = subprocess.run([emulator, program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
