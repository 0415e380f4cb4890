"""Build a wheel for 64-bit ARM Linux with zig on another machine, and try it in an emulator.

Needs apt, dpkg, qemu-aarch64, and in this Python ziglang, pybind11, cmeel-eigen, scikit-build-core,
cmake and ninja. Debian's own packages for ARM give the other Python, of this one's version; nothing
is installed on this system. The folder stays: a second run is quicker. Example:
``python tests/nightly/arm_wheel.py --folder build/arm --cpu neoverse-n1 library/test_predictor.py``

The masks of the packaged models are compared with those of this machine: equal in float32 in every
pixel, and nearly equal in int8.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
TRIPLE = "aarch64-linux-gnu"
SUITE = "bookworm"
PACKAGES = (f"libpython{VERSION}-dev", f"python{VERSION}", "libstdc++6", "libgomp1")
REQUIREMENTS = ("numpy", "pillow<13", "pytest", "pytest-timeout", "pytest-xdist", "hypothesis")
# zig takes a processor's name where GCC and Clang take an architecture's.
WRAPPER = """#!/bin/sh
for argument; do
  shift
  case $argument in
    -march=armv8.2-a+*) argument="-mcpu=generic+${argument#*+}" ;;
  esac
  set -- "$@" "$argument"
done
exec "%s" -m ziglang %s -target aarch64-linux-gnu.2.28 "$@"
"""
# A part of the suite that takes minutes in an emulator: the tiny networks of each family.
QUICK = (
    "checkpoint/test_quantize.py",
    "library/test_predictor.py::test_shapes_and_types",
    "library/test_predictor.py::test_a_batch_of_prompts_equals_the_loop",
    "library/test_video.py::test_start_end_and_direction",
    "predictors/concept/test_concept_predictor.py::test_types_and_shapes",
)
IOU = 0.99  # of int8 masks: the tables of x86 differ among themselves by some hundred pixels


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command; raise where it fails."""
    return subprocess.run([str(part) for part in command], check=True, text=True, **options)  # type: ignore[call-overload]


def sysroot(folder: Path) -> Path:
    """Unpack Debian's Python for ARM, with its headers and libraries."""
    root = folder / "root"
    if (root / "usr" / "bin" / f"python{VERSION}").exists():
        return root
    apt = folder / "apt"
    for name in ("state/lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    sources = apt / "sources.list"
    sources.write_text(f"deb https://deb.debian.org/debian {SUITE} main\n")
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Install-Recommends": "false",
        "Dir::State": apt / "state",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Debug::NoLocking": "1",
    }
    options = [part for item in settings.items() for part in ("-o", "=".join(map(str, item)))]
    run("apt-get", *options, "-q", "update")
    run("apt-get", *options, "-q", "-y", "--download-only", "install", *PACKAGES)
    for package in sorted((apt / "cache" / "archives").glob("*.deb")):
        run("dpkg", "-x", package, root)
    return root


def build(folder: Path, root: Path) -> Path:
    """Build the wheel, small models included, as for an own checkout."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name, language in (("cc", "cc"), ("cxx", "c++"), ("ar", "ar"), ("ranlib", "ranlib")):
        path = tools / name
        text = WRAPPER % (sys.executable, language)
        path.write_text(
            text if name[0] == "c" else text.replace("-target aarch64-linux-gnu.2.28 ", "")
        )
        path.chmod(0o755)
    include = root / "usr" / "include"
    flags = f"-I{include / f'python{VERSION}'} -idirafter {include}"
    (folder / "arm.cmake").write_text(
        f"""set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER {tools / "cc"})
set(CMAKE_CXX_COMPILER {tools / "cxx"})
set(CMAKE_AR {tools / "ar"})
set(CMAKE_RANLIB {tools / "ranlib"})
set(CMAKE_CXX_FLAGS_INIT "{flags}")
"""
    )
    suffix = f".cpython-{VERSION.replace('.', '')}-{TRIPLE}.so"
    environment = {
        **os.environ,
        "CMAKE_TOOLCHAIN_FILE": str(folder / "arm.cmake"),
        "SETUPTOOLS_EXT_SUFFIX": suffix,
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
    }
    wheels = folder / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    settings = (f"build-dir={folder / 'cmake'}", "cmake.define.SAM_RLX_THREADS=std")
    options = [f"--config-settings={setting}" for setting in settings]
    command = (sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation")
    run(*command, *options, "-w", wheels, ROOT, env=environment)
    (wheel,) = wheels.glob("*_aarch64.whl")
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes", flush=True)
    return wheel


def install(folder: Path, wheel: Path) -> Path:
    """Put the wheel and what its tests need into a folder for the other Python."""
    site = folder / "site"
    platform = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (28, 17)]
    target = [*platform, "--platform=linux_aarch64", f"--python-version={VERSION}"]
    command = (sys.executable, "-m", "pip", "install", "-q", "--upgrade", "--only-binary=:all:")
    run(*command, *target, "--target", site, *REQUIREMENTS, wheel)
    return site


class Emulator:
    """The other Python, as a processor of qemu's runs it."""

    def __init__(self, folder: Path, cpu: str) -> None:
        root = folder / "root"
        python = root / "usr" / "bin" / f"python{VERSION}"
        self._command = ["qemu-aarch64", "-cpu", cpu, "-L", str(root), str(python)]
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(folder / "site"),
            "PYTHONHOME": str(root / "usr"),
            "OPENBLAS_NUM_THREADS": "1",
        }

    def run(self, *arguments: object) -> None:
        """Run it; raise where it fails."""
        run(*self._command, *arguments, cwd=ROOT / "tests", env=self._environment)


# Runs in both Pythons: masks of a packaged model for a click on a scene of three colours.
MASKS = """
import sys
import numpy as np
import sam_rlx
name, precision, path = sys.argv[1:]
y, x = np.mgrid[:96, :128]
image = np.full((96, 128, 3), (60, 90, 60), np.uint8)
image[(y - 40) ** 2 + (x - 50) ** 2 < 500] = (200, 60, 40)
image[60:80, 90:120] = (40, 60, 200)
model = sam_rlx.load_model(name, precision=precision)
predictor = sam_rlx.ImagePredictor(model)
predictor.set_image(image)
result = predictor.predict(point_coords=[[50, 40]], point_labels=[1])
np.savez(path, masks=result.masks, scores=result.iou_predictions)
print(name, precision, sam_rlx.build_info()["default_isa"], result.iou_predictions, flush=True)
"""


def compare(emulator: Emulator, name: str, precision: str) -> bool:
    """Compare the masks of a packaged model with those of this machine."""
    import numpy as np

    with tempfile.TemporaryDirectory() as scratch:
        here, there = Path(scratch, "here.npz"), Path(scratch, "there.npz")
        run(sys.executable, "-c", MASKS, name, precision, here)
        emulator.run("-c", MASKS, name, precision, there)
        ours, theirs = (np.load(path) for path in (here, there))
        both, union = ours["masks"] & theirs["masks"], ours["masks"] | theirs["masks"]
        differ = int((ours["masks"] != theirs["masks"]).sum())
        iou = float(both.sum() / max(int(union.sum()), 1))
        scores = float(np.abs(ours["scores"] - theirs["scores"]).max())
    print(f"{name} {precision}: {differ} pixels differ, IoU {iou:.4f}, scores within {scores:.1e}")
    return iou >= IOU if precision == "int8" else differ == 0 and scores <= 1e-6


def main() -> int:
    """Build, and try: 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "arm")
    parser.add_argument("--cpu", default="neoverse-n1", help="NumPy warns with max: not for tests")
    parser.add_argument("--models", nargs="*", default=["sam-nano", "sam2-nano", "sam3-nano"])
    parser.add_argument("--keep", action="store_true", help="take the wheel of the run before")
    parser.add_argument("tests", nargs="*", default=QUICK, help="of the suite, from its folder")
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    root = sysroot(folder)
    if not args.keep:
        install(folder, build(folder, root))
    emulator = Emulator(folder, args.cpu)
    emulator.run("-m", "sam_rlx", "info")
    emulator.run("-m", "sam_rlx", "demo")
    options = ("-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not source_tree")
    emulator.run("-m", "pytest", *options, "--timeout=3000", *args.tests)
    results = [
        compare(emulator, name, precision)
        for name in args.models
        for precision in ("float32", "int8")
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
