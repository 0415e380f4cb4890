"""What keeps an instruction set inside of its object file.

A function that the linker may share between objects (weak), an initializer that runs when the
library is loaded, or an exported name that other code calls could run AVX code on a processor
without it. An instruction set has one object with its table, whose one exported function hands it
over, and perhaps objects of parts: these export the functions of `parts.h`, for that table alone.
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
PATTERN = "CMakeFiles/sam_rlx_*.dir/cpp/kernels/*/*.cpp.o"
OBJECTS = [
    path for tree in TREES for path in sorted(tree.glob(PATTERN)) if path.parent.name != "generic"
]
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


def names_in(path, kinds):
    """Names of an object's symbols of these types, without arguments."""
    return [name.partition("(")[0] for kind, name in symbols(path) if kind in kinds]


def faults(path, exported, others=()):
    """Kinds of the symbols that an ISA's object file must not have.

    `exported` are the functions that it may export, and `others` those of its parts.
    """
    found = symbols(path)
    weak = [name for kind, name in found if kind in "wWvVu"]
    initializers = [name for _, name in found if INITIALIZER.search(name)]
    own = names_in(path, "TDBRGSC")
    functions = names_in(path, "T")
    kinds = {
        "exported": not own or own != functions or not set(own) <= set(exported),
        "weak": weak,
        "initializer": initializers,
        "needed": set(names_in(path, "U")) - NEEDED - set(others),
    }
    return [kind for kind, wrong in kinds.items() if wrong]


def parts(isa):
    """Functions of an instruction set's objects that its table is made of."""
    header = ROOT / "cpp" / "kernels" / isa / "parts.h"
    if not header.exists():
        return set()
    return {f"sam_rlx::{name}" for name in re.findall(rf"void ({isa}_\w+)\(", header.read_text())}


@pytest.mark.skipif(not TREES, reason="no build tree beside the sources")
@pytest.mark.parametrize("tree", TREES, ids=lambda path: path.name)
def test_every_isa_of_this_processor_has_an_object(tree):
    families = {path.parent.name for path in (ROOT / "cpp/kernels").glob("*/kernels.cpp")}
    arm = {"neon", "neon_dotprod", "neon_i8mm", "neon_bf16"}
    expected = {"x86_64": families - arm - {"generic"}, "aarch64": arm}[platform.machine()]
    assert {path.parent.name for path in tree.glob(PATTERN)} - {"generic"} == expected


@pytest.mark.parametrize("path", OBJECTS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_isa_object(path):
    isa = path.parent.name
    table = path.name == "kernels.cpp.o"
    assert faults(path, {f"sam_rlx::{isa}_kernels"} if table else parts(isa), parts(isa)) == []


@pytest.mark.parametrize("tree", TREES, ids=lambda path: path.name)
def test_each_part_is_in_one_object_and_only_its_table_calls_it(tree):
    """A part that baseline code called would run on any processor."""
    for isa in {path.parent.name for path in OBJECTS}:
        own = [path for path in OBJECTS if tree in path.parents and path.parent.name == isa]
        exported = [name for path in own for name in names_in(path, "T")]
        assert sorted(exported) == sorted(parts(isa) | {f"sam_rlx::{isa}_kernels"})
    includes = [
        path.relative_to(ROOT).as_posix()
        for kind in ("h", "cpp", "inl")
        for path in (ROOT / "cpp").rglob(f"*.{kind}")
        if "/parts.h" in path.read_text(encoding="utf-8")
    ]
    assert includes
    assert all(re.fullmatch(r"cpp/kernels/(avx512|neon)/\w+\.cpp", name) for name in includes)


@pytest.mark.parametrize("path", CHAINS, ids=lambda path: path.name.partition(".")[0])
def test_object_of_chains(path):
    assert faults(path, {f"sam_rlx::{path.name.partition('.')[0]}_chains"}) == []


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
    path = compiled(tmp_path, GOOD)
    assert faults(path, {"sam_rlx::toy_kernels"}) == []
    assert faults(path, {"sam_rlx::avx2_kernels"}) == ["exported"]


@pytest.mark.parametrize("case", BAD)
def test_a_bad_object_is_noticed(tmp_path, case):
    fault, source = BAD[case]
    assert fault in faults(compiled(tmp_path, GOOD + source), {"sam_rlx::toy_kernels"})
