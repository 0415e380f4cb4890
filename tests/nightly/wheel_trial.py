"""Build the wheels in one Debian folder, and try them in another one that has no compiler.

Needs root, debootstrap, and the package ``build``. The folders stay: a second run is quicker.
Example: ``python tests/nightly/wheel_trial.py --folder build/trial --suite trixie``
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from bare_debian import BARE, debian, fresh, inside, run

ROOT = Path(__file__).parents[2]
COMPILER = "g++,python3-dev,ccache,patchelf"
LARGEST = 4_000_000  # bytes of the wheel
# pip builds in a folder of another name each time.
CCACHE = {"CCACHE_DIR": "/ccache", "CCACHE_BASEDIR": "/tmp", "CCACHE_NOHASHDIR": "1"}


def build(builder: Path, wheels: Path) -> None:
    """Build and repair the wheel from the published sources; and that of the small models."""
    work = fresh(builder)
    run(sys.executable, ROOT / "packages" / "make_sdist.py", work)
    script = """
python3 -m venv tools
tools/bin/pip install -q auditwheel
CMAKE_CXX_COMPILER_LAUNCHER=ccache tools/bin/pip wheel -q --no-deps -w raw sam_rlx-*.tar.gz
tools/bin/auditwheel repair -w repaired raw/sam_rlx-*.whl
"""
    inside(builder, script, **CCACHE)
    nano = ROOT / "packages" / "sam-rlx-nano"
    run(sys.executable, "-m", "build", "-q", "--wheel", "--outdir", wheels, nano)
    for path in (work / "repaired").glob("*.whl"):
        shutil.copy(path, wheels)
        size = path.stat().st_size
        print(f"{path.name}: {size:,} bytes")
        if size > LARGEST:
            raise SystemExit(f"{path.name}: expected at most {LARGEST:,} bytes, found {size:,}")


def attempt(bare: Path, wheels: Path, arguments: list[str]) -> None:
    """Install both wheels without a compiler, run the demo and the tests that need no sources."""
    work = fresh(bare)
    shutil.copytree(wheels, work / "wheels")
    shutil.copytree(ROOT / "tests", work / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", work)
    quoted = " ".join(arguments)
    script = f"""
for name in cc gcc g++ clang; do ! command -v $name; done
python3 -m venv venv
venv/bin/pip install -q --find-links wheels "sam_rlx[cli]"
venv/bin/pip list
venv/bin/sam-rlx demo
venv/bin/pip install -q --find-links wheels "sam_rlx[test]"
venv/bin/python -m pytest -q -m "not source_tree" {quoted}
"""
    inside(bare, script)


def main() -> None:
    """Build and try."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "trial")
    parser.add_argument("--suite", default="trixie", help="of Debian")
    parser.add_argument("--skip-build", action="store_true", help="take the wheels that are there")
    parser.add_argument("arguments", nargs="*", help="of pytest, behind --")
    args = parser.parse_args()
    bare, builder = args.folder / "bare", args.folder / "builder"
    wheels = args.folder / "wheels"
    debian(bare, args.suite, BARE)
    if not args.skip_build:
        debian(builder, args.suite, f"{BARE},{COMPILER}")
        shutil.rmtree(wheels, ignore_errors=True)
        wheels.mkdir(parents=True)
        build(builder, wheels)
    attempt(bare, wheels, args.arguments)


if __name__ == "__main__":
    main()
