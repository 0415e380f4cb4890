"""What an installation needs: errors name what helps, extras exist, a build says what it lacks."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sam_rlx
from sam_rlx._internal.packages import EXTRAS, install_command, needed_by_command, optional
from support import HANG_SECONDS

ROOT = Path(__file__).parents[2]
PACKAGE = Path(sam_rlx.__file__).parent


def test_a_missing_package_is_named() -> None:
    with pytest.raises(sam_rlx.MissingExtraError) as error:
        optional("here", "no_such_module", "no-such-package")
    text = str(error.value)
    assert re.fullmatch(r"here: expected the package .+, found .+", text)
    assert "(pip install no-such-package)" in text
    assert isinstance(error.value, ImportError)


PIP, UV = 'pip install "sam_rlx[serve]"', "home = /usr/bin\nuv = 0.9.1\n"


@pytest.mark.parametrize(
    ("folder", "files", "command"),
    [
        ("project/.venv", {"pyvenv.cfg": "home = /usr/bin\nversion = 3.12.1\n"}, PIP),
        ("usr", {}, PIP),
        ("project/.venv", {"pyvenv.cfg": UV}, f"uv {PIP}"),
        (
            "cache/uv/archive-v0/Xb3k",
            {"pyvenv.cfg": UV},
            'uvx --from "sam_rlx[serve]" sam-rlx',
        ),
        (
            "share/uv/tools/sam-rlx",
            {"pyvenv.cfg": UV, "uv-receipt.toml": ""},
            'uv tool install "sam_rlx[serve]"',
        ),
        (
            "other/venvs/sam-rlx",
            {"pipx_metadata.json": "{}", "pyvenv.cfg": ""},
            'pipx install --force "sam_rlx[serve]"',
        ),
        (
            "share/pipx/.cache/0123456789abcde",
            {"pipx_metadata.json": "{}"},
            'pipx run --spec "sam_rlx[serve]" sam-rlx',
        ),
    ],
)
def test_an_extra_is_installed_by_what_made_the_environment(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    folder: str,
    files: dict[str, str],
    command: str,
) -> None:
    prefix = tmp_path / folder
    prefix.mkdir(parents=True)
    for name, text in files.items():
        (prefix / name).write_text(text)
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(sys, "argv", ["sam-rlx"])
    assert install_command("uvicorn") == command


def test_the_extra_is_that_of_the_command() -> None:
    assert install_command("pillow").endswith('pip install "sam_rlx[image]"')
    for name, extra in (("demo", "cli"), ("track", "cli"), ("serve", "serve"), ("batch", "batch")):
        with needed_by_command(name):
            assert install_command("pillow").endswith(f'pip install "sam_rlx[{extra}]"')
    with needed_by_command("parity"):
        assert install_command("torch").endswith('pip install "sam_rlx[parity]"')
        assert install_command("huggingface-hub").endswith('pip install "sam_rlx[hub]"')
    assert install_command("matplotlib") == "pip install matplotlib"


def test_one_function_says_what_is_missing() -> None:
    """Other modules raise its error: none has a text of its own."""
    calls = re.compile(r"\braise MissingExtraError\(")
    assert [
        path.name for path in sorted(PACKAGE.rglob("*.py")) if calls.search(path.read_text())
    ] == []


@pytest.mark.source_tree
def test_the_extras_bring_the_packages_that_errors_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    brought = {
        name: {re.match(r"[\w.-]+(\[\w+\])?", line)[0].lower() for line in lines}
        for name, lines in project["optional-dependencies"].items()
    }
    for package, extras in EXTRAS.items():
        assert extras, package
        assert all(package.lower() in brought[extra] for extra in extras), package


# A script that runs where packages cannot be found.
ALONE = """
import sys
for name in ("PIL", "av", "tqdm", "pyarrow", "starlette", "uvicorn", "websockets", "anywidget"):
    sys.modules[name] = None
"""
COINS = str(PACKAGE / "assets" / "coins.jpg")
COMMANDS = [
    (["segment", COINS, "--point", "346,185", "--output", "o.png"], "cli"),
    (["everything", COINS, "--output", "o.png"], "cli"),
    (["demo", "--output", "o.png"], "cli"),
    (["parity", "sam-nano"], "parity"),
    (["track", "clip.mp4", "--point", "3,4", "--output", "o.mp4"], "cli"),
    (["serve"], "serve"),
    (["annotate", COINS], "serve"),
    (["batch", "x", "--output", "o"], "batch"),
]


def test_commands_with_numpy_alone_name_their_extra(
    run_python: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"x")
    code = f"""
import os
from sam_rlx.apps.cli import main
os.chdir({str(tmp_path)!r})
sys.argv[0] = "sam-rlx"
print([main(words) for words in {[words for words, _ in COMMANDS]!r}])
"""
    done = run_python("-c", ALONE + code)
    assert done.stdout == f"{[1] * len(COMMANDS)}\n"
    for line, (words, extra) in zip(done.stderr.splitlines(), COMMANDS, strict=True):
        assert line.startswith(f"sam-rlx {words[0]}: "), line
        assert f'pip install "sam_rlx[{extra}]"), found' in line
    assert [path.name for path in tmp_path.iterdir()] == ["clip.mp4"]


def test_python_with_numpy_alone_names_extras(run_python: Callable[..., Any]) -> None:
    code = f"""
import sam_rlx
for use in (lambda: sam_rlx.io.read_image({COINS!r}), lambda: sam_rlx.widget):
    try:
        use()
    except sam_rlx.MissingExtraError as error:
        print(error)
import pydoc
assert "widget" not in dir(sam_rlx)
assert "ImagePredictor" in pydoc.render_doc(sam_rlx)
"""
    done = run_python("-c", ALONE + code)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "io: expected the package pillow (" in lines[0]
    assert 'pip install "sam_rlx[image]"), found' in lines[0]
    assert 'pip install "sam_rlx[jupyter]"), found' in lines[1]


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
