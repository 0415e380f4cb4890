"""What an installation needs: errors name what helps, extras exist, a build says what it lacks."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import sam_rlx
from sam_rlx._packages import optional
from support import HANG_SECONDS

ROOT = Path(__file__).parents[2]
PACKAGE = Path(sam_rlx.__file__).parent
INSTALL = re.compile(r"pip install ([\w.-]+)")


def test_a_missing_package_is_named() -> None:
    with pytest.raises(sam_rlx.MissingExtraError) as error:
        optional("here", "no_such_module", "no-such-package")
    text = str(error.value)
    assert re.fullmatch(r"here: expected the package .+, found .+", text)
    assert INSTALL.findall(text) == ["no-such-package"]
    assert isinstance(error.value, ImportError)


def _source() -> dict[str, str]:
    return {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in _files()}


def _files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_no_error_asks_for_an_extra_of_the_index() -> None:
    """Where the package is installed from a checkout, the index may not know it."""
    found = [
        name for name, text in _source().items() if re.search(r"pip install .{0,3}sam_rlx\[", text)
    ]
    assert found == []


@pytest.mark.source_tree
def test_errors_name_packages_of_the_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    known = {re.match(r"[\w.-]+", line)[0].lower() for lines in extras.values() for line in lines}
    calls = re.compile(r"\boptional\(\s*\"[^\"]*\",\s*f?\"[^\"]*\",\s*\"([^\"]+)\"", re.DOTALL)
    named = {name for text in _source().values() for name in calls.findall(text)}
    assert {"av", "huggingface-hub", "pillow"} <= named
    assert named <= known


@pytest.mark.source_tree
def test_the_page_lists_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "install.md").read_text()
    listed = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert set(project["optional-dependencies"]) <= listed


def _program(name: str) -> Path:
    """Find a tool itself: what the index or a manager of Pythons puts on the path is a script."""
    spec = importlib.util.find_spec(name)
    folders = [Path(f, "data", "bin") for f in (spec and spec.submodule_search_locations) or []]
    folders += [Path(sys.executable).parent, *map(Path, os.environ["PATH"].split(os.pathsep))]
    for folder in folders:
        path = folder / name
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
            return path
    pytest.skip(f"needs {name}")


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with CMake and Ninja, and no compiler."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("cmake", "ninja"):
        (folder / name).symlink_to(_program(name))
    return folder


@pytest.mark.build
@pytest.mark.source_tree
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="compilers are found otherwise")
def test_a_build_without_a_compiler_says_what_to_install(tools: Path, tmp_path: Path) -> None:
    command = ["cmake", "-S", str(ROOT), "-B", str(tmp_path / "b"), "-GNinja"]
    done = subprocess.run(
        [str(tools / command[0]), *command[1:], "-DSKBUILD_PROJECT_VERSION=0.0.0"],
        env={"PATH": str(tools), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode != 0
    text = " ".join(done.stderr.split())
    assert "found no C++ compiler" in text
    assert "apt install g++ python3-dev" in text
    assert "CMAKE_CXX_COMPILER" not in text  # CMake's own words
