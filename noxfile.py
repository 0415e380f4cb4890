"""Sessions that developers and CI run: ``nox -s lint tests``."""

import nox

nox.options.sessions = ["lint", "tests"]


@nox.session
def lint(session: nox.Session) -> None:
    """Format, lint and type-check."""
    session.install("pre-commit", "mypy>=2.0", "numpy", "pillow")
    session.run("pre-commit", "run", "--all-files", "--show-diff-on-failure")
    session.run("mypy")


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
def docs(session: nox.Session) -> None:
    """Run the examples of README, docs, docstrings and notebooks."""
    session.install("-e", ".[test]")
    session.run("pytest", "tests/package/test_docs.py", "tests/package/test_notebooks.py")


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks beside the rivals that are installed."""
    session.install("-e", ".[test,parity]")  # with the testing module: it measures the peak
    session.run("python", "benchmarks/run.py", *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Build a wheel, install it alone, and run the demo from it."""
    session.install("build")
    session.run("python", "-m", "build", "--wheel", "--outdir", "dist")
    session.install("sam_rlx[cli]", "--find-links", "dist", "--no-index", "--no-deps")
    session.install("numpy", "pillow", "tqdm")
    session.run("sam-rlx", "demo", "--output", f"{session.create_tmp()}/demo.png")
