"""The small models: part of a checkout's package, a package of their own for released wheels."""

from __future__ import annotations

import copy
import importlib.util
import pickle
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import sam_rlx
from sam_rlx._internal.weights import sources

ROOT = Path(__file__).parents[2]
NAMES = ("sam-nano", "sam2-nano", "sam3-nano")
WEIGHTS = {name: Path(sam_rlx.load_model(name).source) for name in NAMES}


def _module(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package without weights, beside a folder that programs import from."""
    monkeypatch.setattr(sources, "_ASSETS", tmp_path / "assets")
    monkeypatch.setattr(sources, "_PACKAGE", "sam_rlx_nano_of_a_test")
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site")
    return tmp_path / "site"


def test_a_build_without_the_weights_says_what_to_install(bare: Path) -> None:
    with pytest.raises(sam_rlx.UnsupportedError, match=r"pip install sam-rlx-nano") as error:
        sam_rlx.load_model("sam2-nano")
    assert "weights of sam2-nano" in str(error.value)


def test_the_package_of_the_weights_is_found(bare: Path) -> None:
    package = bare / "sam_rlx_nano_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text('"""Weights."""\n')
    for name in NAMES:
        (package / f"{name}.gguf").symlink_to(WEIGHTS[name])
    for name in NAMES:
        model = sam_rlx.load_model(name)
        assert model.variant == name
        assert Path(model.source).parent == package
        # A pickle names the model, wherever another machine has it.
        assert name in str(model.__reduce__())
        assert str(package) not in str(model.__reduce__())
        assert pickle.loads(pickle.dumps(model)).variant == name
        assert copy.copy(model) is model


@pytest.mark.source_tree
def test_what_is_published_requires_the_package_of_the_weights(tmp_path: Path) -> None:
    make_sdist = _module("make_sdist", ROOT / "packages" / "make_sdist.py")
    text = (ROOT / "pyproject.toml").read_text()
    own, published = (tomllib.loads(t) for t in (text, make_sdist.published(text)))
    extra = set(published["project"].pop("dependencies")) - set(own["project"].pop("dependencies"))
    assert own == published
    assert extra == {make_sdist.NANO}
    nano = tomllib.loads((ROOT / "packages" / "sam-rlx-nano" / "pyproject.toml").read_text())
    assert nano["project"]["name"] == "sam-rlx-nano"
    assert nano["project"]["version"].startswith("0.1.")  # as `make_sdist.NANO` asks for
    with pytest.raises(ValueError, match="expected one line"):
        make_sdist.published(make_sdist.published(text))


@pytest.mark.source_tree
def test_the_published_tree_has_no_weights(tmp_path: Path) -> None:
    make_sdist = _module("make_sdist", ROOT / "packages" / "make_sdist.py")
    try:
        make_sdist.copy_tree(tmp_path)
    except (make_sdist.subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("needs a checkout and git")
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    assert {"python/sam_rlx/assets/coins.jpg", "CMakeLists.txt", "cpp/core/tensor.h"} <= names
    assert not [name for name in names if name.endswith((".gguf", ".safetensors", ".so"))]
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.*")) < 13_000_000


@pytest.mark.source_tree
def test_the_package_of_the_weights_holds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Built from the checkout, and again from the source distribution."""
    build = pytest.importorskip("hatchling.build", reason="builds without isolation")
    monkeypatch.chdir(ROOT / "packages" / "sam-rlx-nano")
    (tmp_path / "again").mkdir()
    wheels = [tmp_path / build.build_wheel(str(tmp_path))]
    with tarfile.open(tmp_path / build.build_sdist(str(tmp_path))) as archive:
        # Older Pythons have no filters, newer ones want one named.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    monkeypatch.chdir(unpacked)
    wheels.append(tmp_path / "again" / build.build_wheel(str(tmp_path / "again")))
    for wheel in wheels:
        assert wheel.name == "sam_rlx_nano-0.1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
            for name in NAMES:
                assert archive.read(f"sam_rlx_nano/{name}.gguf") == WEIGHTS[name].read_bytes()
                assert f"sam_rlx_nano/{name}.md" in names
            assert "sam_rlx_nano/LICENSE" in names
            code = {name for name in names if name.endswith(".py")}
            assert code == {"sam_rlx_nano/__init__.py"}
    assert "sam_rlx_nano" not in sys.modules
