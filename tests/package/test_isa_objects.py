"""What keeps an instruction set inside of its object file.

A function that the linker may share between objects (weak), an initialiser that runs when the
library is loaded, or a second exported name could run AVX code on a processor without it.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OBJECTS = sorted(ROOT.glob("build/*/CMakeFiles/sam_rlx_*.dir/cpp/kernels/*/kernels.cpp.o"))

pytestmark = pytest.mark.build


def symbols(path):
    """(type, name) of each symbol of an object file."""
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("needs nm")
    lines = subprocess.run([nm, "-C", path], capture_output=True, text=True, check=True).stdout
    return [(line[17], line[19:]) for line in lines.splitlines()]


def test_objects_are_found():
    if not OBJECTS:
        pytest.skip("no build tree beside the sources")


@pytest.mark.parametrize("path", OBJECTS, ids=lambda p: p.parent.name)
def test_isa_object(path):
    if path.parent.name == "generic":
        pytest.skip("baseline flags")
    found = symbols(path)
    exported = [name for kind, name in found if kind in "TDBRVC"]
    assert [name.partition("(")[0] for name in exported] == [f"sam_rlx::{path.parent.name}_kernels"]
    assert not [name for kind, name in found if kind in "wWvVu"], "weak symbols"
    initialisers = [name for _, name in found if re.search(r"_GLOBAL__|__cxx_global|_init", name)]
    assert not initialisers
    needed = {name for kind, name in found if kind == "U"}
    allowed = {"memcpy", "memset", "memmove", "sqrtf", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}
    assert needed <= allowed
