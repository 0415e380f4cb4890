"""Kernels without Python: those of this processor, and of others in an emulator."""

import shutil
import subprocess
from pathlib import Path

import pytest
from support.ops import ISAS

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]
FLAGS = ["-std=c++20", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Icpp"]

# What an emulator can run that the machine perhaps cannot: tables of a processor's family and the
# flags of their objects. No emulator that is free has the tables of AVX-512 and AMX.
EMULATED = {
    "aarch64": {
        "neon": [],
        "neon_dotprod": ["-march=armv8.2-a+dotprod"],
        "neon_i8mm": ["-march=armv8.2-a+dotprod+i8mm"],
        "neon_bf16": ["-march=armv8.2-a+dotprod+i8mm+bf16"],
    },
    "x86_64": {"avx2": ["-mavx2", "-mfma", "-mf16c"]},
}
# The programs, and the sources that they need besides the tables.
OPS = (
    "linear",
    "int8_linear",
    "int16_linear",
    "bfloat16_linear",
    "block_linear",
    "attention",
    "streaming_attention",
)
CORE = ("blocks", "cores", "half", "parallel", "shape", "tensor", "thread_pool", "workspace")
PROGRAMS = {
    "kernel_check": [],
    "op_check": [
        *(f"cpp/ops/{name}.cpp" for name in OPS),
        *(f"cpp/core/{name}.cpp" for name in CORE),
    ],
}
# Processors of the emulator, and the tables that they have besides `generic`. A table that is taken
# where its instructions are missing ends the program with a signal.
ARM = ["neon", "neon_dotprod", "neon_i8mm", "neon_bf16"]
PROCESSORS = [
    pytest.param("aarch64", "cortex-a53", ARM[:1], id="nothing"),
    pytest.param("aarch64", "a64fx", ARM[:1], id="SVE"),
    pytest.param("aarch64", "neoverse-n1", ARM[:2], id="DotProd"),
    pytest.param("aarch64", "max", ARM, id="all"),
    pytest.param("aarch64", "max,sve=off", ARM, id="all without SVE"),
    pytest.param("x86_64", "max", ["avx2"], id="avx2"),
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


@pytest.fixture(scope="module")
def emulated_checks(tmp_path_factory):
    """Make the programs for a family of processors, once: a function of the family's name."""
    made = {}

    def programs(family):
        if family not in made:
            made[family] = build(family, tmp_path_factory.mktemp(family))
        return made[family]

    return programs


def build(family, folder):
    """Compile the programs with the tables of a family of processors: their folder."""
    compiler = need(f"{family}-linux-gnu-g++")
    objects = []
    for isa, flags in {"generic": [], **EMULATED[family]}.items():
        for source in sorted((ROOT / "cpp" / "kernels" / isa).glob("*.cpp")):
            objects.append(str(folder / f"{isa}_{source.stem}.o"))
            kernel_flags = [*flags, "-fno-exceptions", "-fno-rtti", "-c", source, "-o", objects[-1]]
            subprocess.run([compiler, *FLAGS, *kernel_flags], cwd=ROOT, check=True)
    defines = [f"-DSAM_RLX_HAVE_{isa.upper()}" for isa in EMULATED[family]]
    common = ["cpp/kernels/select.cpp", "cpp/core/cpu.cpp", *objects]
    for name, sources in PROGRAMS.items():
        check = [*defines, f"tests/cpp/{name}.cpp", *sources, *common, "-o", folder / name]
        flags = [*FLAGS, "-DSAM_RLX_STD_THREADS", "-pthread", "-static"]
        subprocess.run([compiler, *flags, *check], cwd=ROOT, check=True)
    return folder


@pytest.mark.build
@pytest.mark.slow
@pytest.mark.timeout(1800)  # an emulated SVE takes minutes, and more beside other programs
@pytest.mark.parametrize(("family", "processor", "tables"), PROCESSORS)
def test_emulated_tables_agree_with_float64(family, processor, tables, emulated_checks):
    if set(tables) <= set(ISAS):
        pytest.skip("this processor needs no emulator for it")
    emulator = need(f"qemu-{family}", f"qemu-{family}-static")
    result = run(emulator, "-cpu", processor, emulated_checks(family) / "kernel_check")
    assert result.returncode == 0, result.stdout
    missing = "skipped, this processor does not have it"
    expected = {isa: "0 failures" if isa in tables else missing for isa in EMULATED[family]}
    assert tables_in(result.stdout) == {**expected, "generic": "0 failures"}


@pytest.mark.build
@pytest.mark.slow
@pytest.mark.timeout(1800)  # an emulated SVE takes minutes, and more beside other programs
@pytest.mark.parametrize(("family", "processor", "tables"), PROCESSORS)
def test_emulated_tables_read_what_they_pack(family, processor, tables, emulated_checks):
    """Linear layers and attention: int8 has the bits of `generic`, bfloat16 is near float64."""
    if set(tables) <= set(ISAS):
        pytest.skip("this processor needs no emulator for it")
    emulator = need(f"qemu-{family}", f"qemu-{family}-static")
    result = run(emulator, "-cpu", processor, emulated_checks(family) / "op_check")
    assert result.returncode == 0, result.stdout
    assert tables_in(result.stdout) == dict.fromkeys([*tables, "generic"], "0 failures")
