"""Where code may go: include edges between the folders of cpp/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.long_files import cpp_functions

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]
CPP = ROOT / "cpp"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)

MODELS = ("models/sam", "models/sam2", "models/sam3")
# What each folder may include besides itself. Folders that a prefix matches share its row.
ALLOWED = {
    "core": set(),
    "kernels": set(),
    "ops": {"core", "kernels"},
    "masks": {"core", "ops/resize.h"},
    "layers": {"core", "kernels", "ops"},
    "models/sam": {"core", "kernels", "ops", "layers"},
    "models/sam2": {"core", "kernels", "ops", "layers", "models/sam"},
    "models/sam3": {"core", "kernels", "ops", "layers", "models/sam", "models/sam2"},
    "checkpoint": {"core", "layers/layer.h"},
    "loading": {"core", "kernels", "ops", "layers", *MODELS, "checkpoint"},
    "predictors": {"core", "kernels", "ops", "masks", "layers", *MODELS, "checkpoint", "loading"},
    "bindings": {
        "core",
        "kernels",
        "ops",
        "masks",
        "layers",
        *MODELS,
        "checkpoint",
        "loading",
        "predictors",
    },
}
ALLOWED["testing"] = ALLOWED["bindings"] | {"bindings"}
EXTRA = {
    # Names the kernel table that a context carries; it does not look inside.
    "core/context.h": {"kernels/kernel_table.h"},
    # Chooses a table by what the CPU can run. It is no kernel: it has baseline flags.
    "kernels/select.cpp": {"core/cpu.h", "core/error.h"},
}

SOURCES = sorted(path for kind in ("h", "cpp", "inl") for path in CPP.rglob(f"*.{kind}"))


def _folder(name: str) -> str:
    return next(folder for folder in ALLOWED if name.startswith(f"{folder}/"))


def _permitted(source: str, target: str) -> bool:
    folder = _folder(source)
    allowed = ALLOWED[folder] | EXTRA.get(source, set())
    return _folder(target) == folder or any(
        target == entry or target.startswith(f"{entry}/") for entry in allowed
    )


def test_every_source_lies_in_a_known_folder() -> None:
    assert SOURCES
    for path in SOURCES:
        assert _folder(path.relative_to(CPP).as_posix())


def test_includes_point_one_way() -> None:
    wrong = []
    for path in SOURCES:
        source = path.relative_to(CPP).as_posix()
        for target in INCLUDE.findall(path.read_text()):
            assert (CPP / target).is_file(), f"{source} includes {target}: not from cpp/"
            if not _permitted(source, target):
                wrong.append(f"{source} -> {target}")
    assert not wrong, "\n".join(wrong)


def test_eigen_stays_in_sources_with_baseline_flags() -> None:
    found = {
        path.relative_to(CPP).as_posix()
        for path in SOURCES
        if re.search(r"#\s*include\s+<(unsupported/)?Eigen/", path.read_text())
    }
    assert found, "the build asks for Eigen"
    for source in found:
        assert source.endswith(".cpp"), f"{source}: files that include it would share Eigen's types"
        assert not source.startswith("kernels/"), f"{source}: may be built with another ISA"


def test_no_source_uses_regular_expressions_of_the_standard_library() -> None:
    # They ask for facets of a locale. Where the C++ library is linked into the extension, these can
    # be those of another library in the process, and the call ends in a foreign function. They also
    # recurse once for each character of a name.
    found = [path.name for path in SOURCES if "<regex>" in path.read_text()]
    assert not found


def test_threads_are_started_in_one_position() -> None:
    found = {
        path.relative_to(CPP).as_posix() for path in SOURCES if "#pragma omp" in path.read_text()
    }
    assert found == {"core/parallel.cpp"}


def test_no_family_is_asked_for_by_its_name() -> None:
    asks = re.compile(r'[!=]= *"sam[23]?"|\bis_sam[123]?\(')
    sources = [*SOURCES, *(ROOT / "python/sam_rlx").rglob("*.py")]
    exempt = (CPP / "loading", ROOT / "python/sam_rlx/compat")
    found = [
        path.relative_to(ROOT).as_posix()
        for path in sources
        if not any(path.is_relative_to(folder) for folder in exempt)
        and asks.search(path.read_text())
    ]
    assert not found


def test_the_measure_of_functions_works() -> None:
    code = """
namespace a {
struct B {
  int f(int x) const {  // {
    if (x) { return '{'; }
    return 2;
  }
};
const C kTable{.gemm = g<6>, .h = {1, 2}};
template <class T>
void h(T x,
       int y) {
}
}  // namespace a
"""
    assert [length for _, length in cpp_functions(code)] == [2, 0]
