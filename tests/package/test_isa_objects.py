"""What keeps an instruction set inside of its object file.

A function that the linker may share between objects (weak), an initializer that runs when the
library is loaded, or a second exported name could run AVX code on a processor without it.
"""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Of editable installs. A sanitizer's build has more in each object.
TREES = sorted(path.parent for path in ROOT.glob("build/cp*/CMakeCache.txt"))
PATTERN = "CMakeFiles/sam_rlx_*.dir/cpp/kernels/*/kernels.cpp.o"
OBJECTS = [path for tree in TREES for path in sorted(tree.glob(PATTERN))]
# What measures a core in benchmarks: in the extension for tests.
CHAINS = [
    path for tree in TREES for path in sorted(tree.glob("CMakeFiles/*/cpp/testing/chains/*.o"))
]
# What an object may ask of others: the C library's plain functions.
NEEDED = {"memcpy", "memset", "memmove", "sqrtf", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}
INITIALIZER = re.compile(r"_GLOBAL__|__cxx_global|_init\b|guard variable")

pytestmark = [pytest.mark.build, pytest.mark.source_tree]


def need(*names):
    for name in names:
        if (path := shutil.which(name)) is not None:
            return path
    return pytest.skip(f"needs {' or '.join(names)}")


def symbols(path):
    """(type, name) of each symbol of an object file."""
    command = [need("nm"), "-C", path]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [(line[17], line[19:]) for line in lines.splitlines()]


def faults(path, isa, function="kernels"):
    """Kinds of the symbols that an ISA's object file must not have."""
    found = symbols(path)
    exported = [name.partition("(")[0] for kind, name in found if kind in "TDBRGSC"]
    weak = [name for kind, name in found if kind in "wWvVu"]
    initializers = [name for _, name in found if INITIALIZER.search(name)]
    needed = {name for kind, name in found if kind == "U"} - NEEDED
    kinds = {
        "exported": exported != [f"sam_rlx::{isa}_{function}"],
        "weak": weak,
        "initializer": initializers,
        "needed": needed,
    }
    return [kind for kind, wrong in kinds.items() if wrong]


@pytest.mark.skipif(not TREES, reason="no build tree beside the sources")
@pytest.mark.parametrize("tree", TREES, ids=lambda path: path.name)
def test_every_isa_of_this_processor_has_an_object(tree):
    families = {path.parent.name for path in (ROOT / "cpp/kernels").glob("*/kernels.cpp")}
    arm = {"neon"}
    expected = {"x86_64": families - arm - {"generic"}, "aarch64": arm}[platform.machine()]
    assert {path.parent.name for path in tree.glob(PATTERN)} - {"generic"} == expected


@pytest.mark.parametrize(
    "path", [path for path in OBJECTS if path.parent.name != "generic"], ids=lambda p: p.parent.name
)
def test_isa_object(path):
    assert faults(path, path.parent.name) == []


@pytest.mark.parametrize("path", CHAINS, ids=lambda path: path.name.partition(".")[0])
def test_object_of_chains(path):
    assert faults(path, path.name.partition(".")[0], "chains") == []


@pytest.mark.skipif(not TREES, reason="no build tree beside the sources")
@pytest.mark.parametrize("tree", TREES, ids=lambda path: path.name)
def test_chains_have_an_object_for_each_width_of_registers(tree):
    expected = {"x86_64": {"avx2", "avx512", "generic"}, "aarch64": {"neon", "generic"}}
    found = {path.name.partition(".")[0] for path in CHAINS if tree in path.parents}
    assert found == expected[platform.machine()]


GOOD = """
namespace { int twice(int x) { return 2 * x; } const int kTable[] = {1, 2}; }
namespace sam_rlx { int toy_kernels() noexcept { return twice(kTable[1]); } }
"""
BAD = {
    "a second function": ("exported", "int second() { return 2; }"),
    "a variable": ("exported", "int counter = 3;"),
    "a function of C": ("exported", 'extern "C" int plain(int x) { return x; }'),
    "an inline function": (
        "weak",
        "inline int f(int x) { return x + 1; } namespace { int (*volatile p)(int) = f; }",
    ),
    "a template": (
        "weak",
        "template <class T> T f(T x) { return x * x; } namespace { int (*volatile p)(int) = f; }",
    ),
    "an initializer": (
        "initializer",
        "extern int other; namespace { volatile int copy = other; }",
    ),
    "a static in a function": (
        "initializer",
        "int value(); namespace { int f() { static const int v = value(); return v; }"
        " int (*volatile p)() = f; }",
    ),
    "a call of the library": (
        "needed",
        'extern "C" int puts(const char*);'
        ' namespace { void f() { puts("x"); } void (*volatile p)() = f; }',
    ),
}


def compiled(folder, source):
    """An object file of `source`, as the ISA objects are compiled."""
    path = folder / "toy.cpp"
    path.write_text(source)
    flags = ["-std=c++20", "-O1", "-fPIC", "-fno-exceptions", "-fno-rtti", "-c"]
    compiler = need("c++", "g++", "clang++")
    subprocess.run([compiler, *flags, path, "-o", path.with_suffix(".o")], check=True)
    return path.with_suffix(".o")


def test_a_good_object_has_no_fault(tmp_path):
    assert faults(compiled(tmp_path, GOOD), "toy") == []
    assert faults(compiled(tmp_path, GOOD), "avx2") == ["exported"]


@pytest.mark.parametrize("case", BAD)
def test_a_bad_object_is_noticed(tmp_path, case):
    fault, source = BAD[case]
    assert fault in faults(compiled(tmp_path, GOOD + source), "toy")
