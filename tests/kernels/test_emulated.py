"""Kernels without Python: those of this processor, and of others in an emulator."""

import shutil
import subprocess
from pathlib import Path

import pytest
from support.ops import ISAS

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]
FLAGS = ["-std=c++20", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Icpp"]

# What an emulator can run that the machine perhaps cannot: the processor's name, its table and the
# flags of that one's object. No emulator that is free has the tables of AVX-512 and AMX.
EMULATED = [
    pytest.param("aarch64", "neon", [], id="neon"),
    pytest.param("x86_64", "avx2", ["-mavx2", "-mfma", "-mf16c"], id="avx2"),
]


def need(*names):
    for name in names:
        if (path := shutil.which(name)) is not None:
            return path
    return pytest.skip(f"needs {' or '.join(names)}")


def tables_in(output):
    """Name of each table that the program speaks of, and what it says."""
    return dict(line.split(": ", 1) for line in output.splitlines() if ": " in line)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def kernel_check():
    programs = list(ROOT.glob("build/*/kernel_check"))
    if not programs:
        pytest.skip("no build tree with SAM_RLX_TESTING beside the sources")
    return max(programs, key=lambda path: path.stat().st_mtime)


@pytest.mark.build
def test_tables_of_this_processor_agree_with_float64(kernel_check):
    result = run(kernel_check, "--seeds", "2")
    assert result.returncode == 0, result.stdout
    found = tables_in(result.stdout)
    assert {name for name in found if found[name] == "0 failures"} == set(ISAS)
    skipped = [name for name in found if found[name].startswith("skipped")]
    assert set(found) == set(skipped) | set(ISAS)


@pytest.mark.build
@pytest.mark.parametrize(
    "arguments", [["--seeds", "0"], ["--seed"], ["--seed", "-1"], ["--seed", "1x"], ["7"]]
)
def test_wrong_arguments_are_refused(kernel_check, arguments):
    result = run(kernel_check, *arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "[--seed N] [--seeds COUNT]" in result.stderr


@pytest.mark.build
@pytest.mark.slow
@pytest.mark.parametrize(("processor", "isa", "isa_flags"), EMULATED)
def test_an_emulated_table_agrees_with_float64(processor, isa, isa_flags, tmp_path):
    if isa in ISAS:
        pytest.skip(f"this processor has {isa} and needs no emulator for it")
    compiler = need(f"{processor}-linux-gnu-g++")
    emulator = need(f"qemu-{processor}", f"qemu-{processor}-static")
    objects = []
    for name, flags in (("generic", []), (isa, isa_flags)):
        objects.append(str(tmp_path / f"{name}.o"))
        source = f"cpp/kernels/{name}/kernels.cpp"
        kernel_flags = [*flags, "-fno-exceptions", "-fno-rtti", "-c", source, "-o", objects[-1]]
        subprocess.run([compiler, *FLAGS, *kernel_flags], cwd=ROOT, check=True)
    program = str(tmp_path / "kernel_check")
    sources = ["tests/cpp/kernel_check.cpp", "cpp/kernels/select.cpp", "cpp/core/cpu.cpp"]
    check = [f"-DSAM_RLX_HAVE_{isa.upper()}", *sources, *objects, "-static", "-o", program]
    subprocess.run([compiler, *FLAGS, *check], cwd=ROOT, check=True)
    result = run(emulator, "-cpu", "max", program)
    assert result.returncode == 0, result.stdout
    assert tables_in(result.stdout) == {isa: "0 failures", "generic": "0 failures"}
