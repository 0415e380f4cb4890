"""Flags of the environment that let a compiler change results do not reach a build."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULE = ROOT / "cmake" / "refused_flags.cmake"
VARIABLES = ("CMAKE_CXX_FLAGS", "CMAKE_CXX_FLAGS_RELEASE", "CMAKE_SHARED_LINKER_FLAGS")
REFUSED = (
    "-O2 -ffast-math",
    "-Ofast -g",
    "-funsafe-math-optimizations",
    "-ffinite-math-only",
    "-fassociative-math",
    "-freciprocal-math",
    "-fno-signed-zeros",
    "-fsingle-precision-constant",
    "-fcx-limited-range",
    "-mrecip=all",
    "-mdaz-ftz",
    "-ffp-model=fast",
    "/fp:fast",
    "/clang:-ffast-math",
)
# conda-forge's, and what names of refused flags are part of.
TAKEN = (
    "",
    "-O2 -march=nocona -mtune=haswell -ftree-vectorize -fPIC -fstack-protector-strong -fno-plt"
    " -ffunction-sections -pipe -DNDEBUG -D_FORTIFY_SOURCE=2 -isystem /opt/fast-math/include",
    "-O2 -march=native -fno-fast-math -fno-math-errno -fno-finite-math-only -ffp-contract=fast",
    "-O2 -flto=auto -ffat-lto-objects -Wl,-z,relro",
)

pytestmark = [pytest.mark.build, pytest.mark.source_tree]


def program(folder):
    """CMake itself: what its wheel starts it with takes longer than it."""
    if (found := shutil.which("cmake")) is None:
        pytest.skip("needs cmake")
    script = folder / "which.cmake"
    script.write_text('message("${CMAKE_COMMAND}")')
    done = subprocess.run([found, "-P", script], capture_output=True, text=True, check=True)
    return done.stderr.strip()


@pytest.fixture(scope="module")
def cmake(tmp_path_factory):
    """Run CMake: its status, and what it printed as one line."""
    path = program(tmp_path_factory.mktemp("cmake"))
    clean = {name: value for name, value in os.environ.items() if not name.endswith("FLAGS")}

    def run(*arguments, **environment):
        command = [path, *map(str, arguments)]
        env = clean | environment
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return run


@pytest.fixture(scope="module")
def rule(cmake):
    """Run the rule alone."""

    def run(variable, flags):
        return cmake(f"-D{variable}={flags}", "-DCMAKE_BUILD_TYPE=Release", "-P", RULE)

    return run


@pytest.mark.parametrize("flags", REFUSED)
def test_flags_that_change_results_are_refused(rule, flags):
    status, text = rule("CMAKE_CXX_FLAGS", flags)
    assert status != 0
    named = next(flag for flag in flags.split() if flag not in ("-O2", "-g"))
    assert f"CMAKE_CXX_FLAGS: expected flags that keep results, found {named}," in text


@pytest.mark.parametrize("variable", VARIABLES)
def test_flags_are_refused_wherever_they_are(rule, variable):
    status, text = rule(variable, "-g -ffast-math")
    assert status != 0
    assert f"{variable}: expected flags that keep results, found -ffast-math" in text


@pytest.mark.parametrize("flags", TAKEN, ids=range(len(TAKEN)))
def test_other_flags_are_taken(rule, flags):
    assert rule("CMAKE_CXX_FLAGS", flags) == (0, "")


@pytest.mark.parametrize("variable", ["CXXFLAGS", pytest.param("LDFLAGS", marks=pytest.mark.slow)])
def test_a_build_asks_first(cmake, variable, tmp_path):
    """The environment's flags end the configuration with that sentence."""
    settings = ["-DSKBUILD_PROJECT_VERSION=0.0.0", "-S", ROOT, "-B", tmp_path]
    status, text = cmake(*settings, **{variable: "-O2 -funsafe-math-optimizations"})
    assert status != 0
    assert "FLAGS: expected flags that keep results, found -funsafe-math-optimizations" in text
