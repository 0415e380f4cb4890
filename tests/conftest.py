"""Options, markers and fixtures that all tests share."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import secrets
import signal
import tempfile
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from support import cases, tiny
from support import images as image_source
from support.parity import Parity
from support.times import Times

# Fixtures of models, images and commands, wherever a test lies.
pytest_plugins = ["support.python_layer"]

# The same examples on every machine, however slow or busy it is. `--hypothesis-profile explore`
# draws others.
PATIENT: Any = {
    "deadline": None,
    "suppress_health_check": [hypothesis.HealthCheck.too_slow],
}
hypothesis.settings.register_profile("same", derandomize=True, database=None, **PATIENT)
hypothesis.settings.register_profile("explore", **PATIENT)
hypothesis.settings.load_profile("same")

# Several processes share the cores: threads must not spin while they wait.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Bounds of parity tests are multiples of PyTorch's own error, which depends on the instruction set
# that PyTorch chooses: the choice is the same on every processor that has AVX2.
CPU_FLAGS = Path("/proc/cpuinfo")
if CPU_FLAGS.exists() and "avx2" in CPU_FLAGS.read_text().split():
    os.environ["ATEN_CPU_CAPABILITY"] = "avx2"
    os.environ["MKL_CBWR"] = "AVX2"
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"

# Work of tests is kept apart from that of whoever runs them; servers of a module share this folder.
_STATE = tempfile.TemporaryDirectory(prefix="sam_rlx-state-")
os.environ["XDG_STATE_HOME"] = os.environ["LOCALAPPDATA"] = _STATE.name

# A run in the background of a shell starts with Ctrl-C ignored, and so would every child.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a state folder of its own: work of others is none of its."""
    folder = tmp_path_factory.getbasetemp() / f"state-{secrets.token_hex(8)}"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    monkeypatch.setenv("LOCALAPPDATA", str(folder))


REFERENCE_PACKAGES = (
    "torch",
    "torchvision",
    "segment_anything",
    "sam2",
    "sam3",
    "psutil",
    "open_clip",
)

# Each takes longer than a share of a process, as --times tells: they start first.
LONG_FILES = (
    *("test_docs.py", "test_sam3_video_texts.py", "test_page_work.py", "test_cookbook.py"),
    *("test_page_checks.py", "test_browser.py", "test_page_repair.py", "test_parity_tool.py"),
    *("test_video_predictor.py", "test_sam3_video_predictor.py", "test_parity_workflow.py"),
    *("test_parity_transformers.py", "test_page_undo.py", "test_benchmarks.py"),
    *("test_compat_sam2_config.py", "test_compat_sam2_video.py", "test_sam_heads.py"),
)

FULL_GIB = 15.0  # of the 16 GB of a machine the system keeps some


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sam_rlx")
    group.addoption(
        "--checkpoint-dir",
        type=Path,
        default=None,
        metavar="DIR",
        help="folder with Meta's released checkpoints, for tests marked checkpoint",
    )
    group.addoption(
        "--full",
        action="store_true",
        help="also run the tests marked slow, and with 16 GB of memory those marked full",
    )
    group.addoption(
        "--times",
        action="store_true",
        help="print where the time goes, by folder and by file",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--times"):
        config.pluginmanager.register(Times())
    cases.full = config.getoption("--full")
    if not cases.full:
        # PyTorch's threads, which this sets, cost more than they bring: networks are tiny, and
        # every core has a process of tests. Whole networks, of --full, need them.
        os.environ.setdefault("MKL_NUM_THREADS", "1")


# Without it, in a trial of a wheel, files that need it are not even read: their imports would fail.
SOURCE_TREE = (Path(__file__).parents[1] / "CMakeLists.txt").is_file()
NEEDS_SOURCE_TREE = re.compile(r"^pytestmark = [^=]*mark\.source_tree", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out files of which every test has the marker `source_tree`, where that is missing."""
    if SOURCE_TREE or collection_path.suffix != ".py":
        return None
    return bool(NEEDS_SOURCE_TREE.search(collection_path.read_text(encoding="utf-8"))) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    missing = [name for name in REFERENCE_PACKAGES if importlib.util.find_spec(name) is None]
    folder = config.getoption("--checkpoint-dir")
    for item in items:
        if item.get_closest_marker("parity") and missing:
            reason = f"needs the reference packages; not installed: {', '.join(missing)}"
            item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("checkpoint") and folder is None:
            item.add_marker(pytest.mark.skip(reason="needs --checkpoint-dir"))
        if item.get_closest_marker("full") and memory_gib() < FULL_GIB:
            item.add_marker(pytest.mark.skip(reason="needs 16 GB of memory"))
    if not config.getoption("--full"):
        left_out = [item for item in items if is_exhaustive(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not is_exhaustive(item)]
    # One that starts last keeps a single process busy while the others are done.
    rank = {name: position for position, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


def is_exhaustive(item: pytest.Item) -> bool:
    """Whether only --full runs it."""
    return any(item.get_closest_marker(name) for name in ("slow", "full"))


def memory_gib() -> float:
    """Memory of this machine; none is known where the system does not tell."""
    if not hasattr(os, "sysconf"):
        return 0.0
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


@pytest.fixture(scope="session")
def testing() -> Any:
    """The extension that opens layers and ops; editable installs have it."""
    if importlib.util.find_spec("sam_rlx._testing") is None:
        pytest.skip("needs sam_rlx._testing: install with pip install -e")
    return importlib.import_module("sam_rlx._testing")


@pytest.fixture(scope="session")
def parity(testing: Any) -> Parity:
    return Parity(testing)


@pytest.fixture(scope="session")
def tiny_weights() -> tiny.Weights:
    return tiny.sam_weights(tiny.TINY, seed=0)


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory, tiny_weights: tiny.Weights) -> Path:
    """A tiny SAM with random weights as a safetensors file in Meta's layout."""
    path = tmp_path_factory.mktemp("tiny") / "sam_tiny.safetensors"
    return tiny.save_safetensors(path, tiny_weights)


@pytest.fixture(scope="session")
def tiny_pth(tmp_path_factory: pytest.TempPathFactory, tiny_weights: tiny.Weights) -> Path:
    """The same weights as `tiny_checkpoint`, written by PyTorch as Meta writes them."""
    upstream = pytest.importorskip("support.upstream", reason="needs PyTorch")
    return upstream.save_pth(tmp_path_factory.mktemp("tiny") / "sam_tiny.pth", tiny_weights)


@pytest.fixture(scope="session")
def images() -> dict[str, np.ndarray]:
    """RGB images by shape."""
    return image_source.rgb_images()


@pytest.fixture(scope="session")
def image_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Image files that are not plain RGB, by kind."""
    return image_source.image_files(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="session")
def checkpoint_dir(request: pytest.FixtureRequest) -> Path:
    return request.config.getoption("--checkpoint-dir")
