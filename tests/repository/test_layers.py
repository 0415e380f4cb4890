"""Where code may go: include edges between the folders of cpp/, imports between Python's rings."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support import rings
from support.long_files import cpp_functions

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).parents[2]
CPP = ROOT / "cpp"
PYTHON = ROOT / "python" / "sam_rlx"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)

MODELS = ("models/trunks", "models/sam", "models/sam2", "models/sam3")
# What each folder may include besides itself. Folders that a prefix matches share its row.
ALLOWED = {
    "core": set(),
    "kernels": set(),
    "ops": {"core", "kernels"},
    "masks": {"core", "ops/resize.h"},
    "layers": {"core", "kernels", "ops"},
    "models/trunks": {"core", "kernels", "ops", "layers"},
    "models/sam": {"core", "kernels", "ops", "layers", "models/trunks"},
    "models/sam2": {"core", "kernels", "ops", "layers", "models/trunks", "models/sam"},
    "models/sam3": {"core", "kernels", "ops", "layers", *MODELS[:3]},
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


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("core/shape.h", "ops/linear.h"),
        ("kernels/generic/kernels.cpp", "core/tensor.h"),
        ("ops/linear.cpp", "layers/linear.h"),
        ("layers/mlp.h", "models/sam/config.h"),
        ("masks/rle.cpp", "ops/linear.h"),
        ("ops/pool.cpp", "masks/rle.h"),
        ("models/sam/config.h", "models/sam2/config.h"),
        ("models/sam2/sam2.cpp", "loading/model.h"),
        ("checkpoint/gguf.cpp", "layers/linear.h"),
        ("loading/open.cpp", "predictors/image/image_predictor.h"),
        ("predictors/image/crops.cpp", "bindings/numpy.h"),
        ("bindings/errors.cpp", "testing/ops.h"),
    ],
)
def test_a_wrong_include_is_found(source: str, target: str) -> None:
    assert not _permitted(source, target)
    assert _permitted(source, f"{_folder(source)}/{Path(source).name}")


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
    sources = [*SOURCES, *PYTHON.rglob("*.py")]
    exempt = (CPP / "loading", PYTHON / "compat")
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


def test_modules_at_the_root_of_the_package() -> None:
    names = {path.stem for path in PYTHON.glob("*.py")}
    assert names - {"__init__", "__main__"} == {
        name for name in rings.RINGS if name.isidentifier() and not name.startswith("_")
    } - {"apps", "compat"}
    assert len(names) <= 17


def test_imports_of_python_point_inward() -> None:
    found = rings.edges(PYTHON)
    assert len(found) > 500
    wrong = list(filter(None, map(rings.fault, sorted(found))))
    assert not wrong, "\n".join(wrong)
    assert not rings.circle(found)


def test_the_rooms_of_internal_are_a_ladder() -> None:
    rooms = {path.stem for path in (PYTHON / "_internal").iterdir() if path.stem[:2] != "__"}
    assert rooms == set(rings.ROOMS)
    assert not rings.circle((room, other) for room in rings.ROOMS for other in rings.ROOMS[room])


@pytest.mark.parametrize(
    "edge",
    [
        # outward
        ("errors", "_internal.printable"),
        ("_internal.options", "model"),
        ("_internal.media.frames", ""),
        ("image", "apps.annotator.session"),
        ("io", "compat.common.tensor"),
        ("viz", "batch"),
        ("apps.batch.work", "batch"),
        ("apps.annotator.session", "widget"),
        ("compat.sam2.build_sam", "parity"),
        ("widget", "apps.cli.common"),
        ("apps.serve.app", "apps.cli"),
        # in ring 0
        ("errors", "_core"),
        # between rooms of ring 1
        ("_internal.arrays.checks", "_internal.files.marks"),
        ("_internal.files.atomic", "_internal.media.frames"),
        ("_internal.media.frames", "_internal.drawing.overlay"),
        ("_internal.media.frames", "_internal.weights.hub"),
        ("_internal.weights.hub", "_internal.media.frames"),
        ("_internal.printable", "_internal.arrays.checks"),
        # between apps, between drop-in packages, and between the two
        ("apps.batch.work", "apps.serve.app"),
        ("apps.annotator.session", "apps.serve.app"),
        ("apps.serve.app", "apps.parity.stages"),
        ("compat.sam2.build_sam", "compat.segment_anything"),
        ("compat.segment_anything.build_sam", "compat.segment_anything_hq.build_sam"),
        ("compat.sam3.model.sam3_image", "compat.sam2.sam2_base"),
        ("compat.common.tensor", "compat.sam2.sam2_base"),
        ("apps.batch.work", "compat.common.tensor"),
        ("compat.sam2.build_sam", "apps.parity.stages"),
    ],
)
def test_a_wrong_import_is_found(edge: rings.Edge) -> None:
    assert rings.fault(edge)


@pytest.mark.parametrize(
    "edge",
    [
        ("_internal.drawing.overlay", "_internal.media.image_files"),
        ("_internal.options", "_core"),
        ("image", "_internal.arrays.checks"),
        ("viz", "concept"),
        ("apps.serve.tabs", "apps.annotator.image_session"),
        ("apps.batch.work", "apps.batch.job"),
        ("compat.sam2.build_sam", "compat.common.network"),
        ("compat.segment_anything_hq.build_sam", "compat.segment_anything.build_sam"),
        ("batch", "apps.batch.job"),
        ("apps.cli.batch", "batch"),
        ("__main__", "apps.cli"),
    ],
)
def test_a_right_import_is_none(edge: rings.Edge) -> None:
    assert rings.fault(edge) is None


def test_a_module_without_a_ring_is_found() -> None:
    with pytest.raises(KeyError, match="helpers"):
        rings.fault(("image", "helpers"))


def test_a_circle_is_found() -> None:
    line = [("image", "model"), ("model", "io"), ("image", "io")]
    assert not rings.circle(line)
    assert set(rings.circle([*line, ("io", "image")])) == {"image", "model", "io"}


def test_which_imports_count() -> None:
    text = """
import numpy
import sam_rlx.io
from typing import TYPE_CHECKING
from sam_rlx import _core, __version__
from sam_rlx._internal import options as _options
from sam_rlx._internal.options import checked
if TYPE_CHECKING:
    from sam_rlx import widget
else:
    from sam_rlx import viz
def late():
    from sam_rlx.model import Model
"""
    known = ["", "io", "model", "viz", "widget", "_internal", "_internal.options"]
    found = ["io", "_core", "", "_internal.options", "_internal.options", "viz", "model"]
    assert list(rings.imports(text, known)) == found


def test_results_of_public_functions_are_defined_in_public_modules() -> None:
    found = {}
    for name in rings.LIBRARY:
        module = importlib.import_module(f"sam_rlx.{name}".rstrip("."))
        for value in _public_functions(module):
            hint = inspect.unwrap(value).__annotations__.get("return", "")
            for word in re.findall(r"[A-Za-z_]\w*", str(hint)):
                kind = getattr(inspect.unwrap(value), "__globals__", {}).get(word)
                protocol = getattr(kind, "_is_protocol", False)
                if inspect.isclass(kind) and not protocol and "sam_rlx." in kind.__module__:
                    found[kind.__qualname__] = kind.__module__
    assert {"MaskPrediction", "ConceptPrediction", "VideoFrame", "Model"} <= set(found)
    assert not {name: home for name, home in found.items() if "._" in home}


def _public_functions(module: ModuleType) -> Iterator[Callable[..., Any]]:
    for name in dir(module):
        value = getattr(module, name)
        if inspect.isclass(value):
            methods = inspect.getmembers(value, inspect.isfunction)
            yield from (method for word, method in methods if not word.startswith("_"))
        elif inspect.isfunction(value):
            yield value
