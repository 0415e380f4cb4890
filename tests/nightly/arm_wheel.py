"""Cross-build the wheel for ARM with zig, and try it in an emulator.

Needs root, debootstrap, qemu-user, ziglang, what a build needs, and the package as it is installed
here, whose masks are compared. Debian's Python for ARM lies in a folder that stays. Unlike the
published wheel, which GCC compiles with OpenMP, this one has threads of the standard library.
Example: ``python tests/nightly/arm_wheel.py build tests``
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from bare_debian import run

Results = Mapping[str, Any]  # of PROBE

ROOT = Path(__file__).parents[2]
PYTHON = "python{}.{}".format(*sys.version_info)
# Suite of Debian whose Python has the version of this one, which builds the wheel.
SUITES = {(3, 11): "bookworm", (3, 13): "trixie"}
TARGET = "aarch64-linux-gnu.2.28"
# Of the index's wheels; pip takes each name as it is.
PLATFORMS = ("linux", "manylinux2014", *(f"manylinux_2_{minor}" for minor in range(17, 29)))
EMULATOR = "qemu-aarch64"
# NumPy's products raise warnings with SVE. The plain algorithm of signed addresses is slow.
EVERYTHING = "max,sve=off,pauth-impdef=on"
ARM_TABLES = ("neon_bf16", "neon_i8mm", "neon_dotprod", "neon")
PROCESSORS = {
    "cortex-a53": ARM_TABLES[3:],
    "a64fx": ARM_TABLES[3:],
    "neoverse-n1": ARM_TABLES[2:],
    EVERYTHING: ARM_TABLES,
}

TESTS_S = 900  # processor time of the tests
TEST_TIMEOUT_S = 1800  # of one, which encodes clips; elsewhere pyproject.toml says it
# Tiny networks of SAM and SAM 2, and what the core does without one.
TESTS = ("tests/library/test_predictor.py", "tests/library/test_video.py")
MODELS = ("sam-nano", "sam2-nano", "sam3-nano")
# Precisions and processors that images of the packaged models run with.
CASES = (("float32", "neoverse-n1"), ("int8", "neoverse-n1"), ("int8", EVERYTHING))
LEAST_IOU = 0.99  # of the best mask in int8, which differs between tables of x86 too
SCORE_BOUND = 1e-6  # scores in float32, whose masks are equal
# What the package tells of a processor: its tables, the best one, and one by name.
TABLES = """
import sys
import sam_rlx

expected = sys.argv[1:]
told = sam_rlx.build_info()
assert told["available_isas"] == [*expected, "generic"], told
assert told["default_isa"] == expected[0], told
assert sam_rlx.load_model("sam-nano", isa="neon").isa == "neon"
for missing in {"neon_bf16", "neon_i8mm", "neon_dotprod"} - set(expected):
    try:
        sam_rlx.load_model("sam-nano", isa=missing)
    except sam_rlx.UnsupportedError as error:
        assert ", ".join([*expected, "generic"]) in str(error), error
    else:
        raise AssertionError(missing)
"""
# Masks and scores of a click; of texts and of a short clip where the arguments ask for them.
PROBE = """
import sys
from pathlib import Path
import numpy as np
from PIL import Image
import sam_rlx

source, size, precision, isa, output, *others = sys.argv[1:]
model = sam_rlx.load_model(
    source, precision=precision, isa=isa or None, image_size=int(size) or None
)
image = np.asarray(Image.open(Path(sam_rlx.__file__).parent / "assets/coins.jpg").convert("RGB"))
click = {"point_coords": [[346, 185]], "point_labels": [1]}
predictor = sam_rlx.ImagePredictor(model)
predictor.set_image(image)
result = predictor.predict(**click)
masks, scores = [result.masks], [result.iou_predictions]
if "text" in others:
    found = sam_rlx.ConceptPredictor(model).predict(image, text="coin")
    masks.append(found.masks)
    scores.append(found.scores)
if "clip" in others:
    video = sam_rlx.VideoPredictor(model, [np.roll(image, 4 * i, 1) for i in range(3)])
    video.add_prompt(0, obj_id=1, **click)
    masks += [frame.masks[1][None] for frame in video.propagate()]
np.savez(output, masks=np.concatenate(masks), scores=np.concatenate(scores), isa=model.isa)
"""


def system(folder: Path) -> Path:
    """Unpack Debian's Python for ARM, with its headers: the folder."""
    root = folder / "debian"
    if not (root / "usr" / "bin" / PYTHON).exists():
        suite = SUITES.get(sys.version_info[:2])
        if suite is None:
            raise SystemExit(f"arm_wheel: expected Python 3.11 or 3.13, found {sys.version}")
        shutil.rmtree(root, ignore_errors=True)
        include = "--include=python3,libpython3-dev,libstdc++6"
        run("debootstrap", "--foreign", "--arch=arm64", "--variant=minbase", include, suite, root)
        # Nothing is installed, which would need the emulator for each package.
        for package in sorted((root / "var" / "cache" / "apt" / "archives").glob("*.deb")):
            run("dpkg", "-x", package, root)
    return root


def write_program(path: Path, *lines: str) -> Path:
    """Write a program for Python, and return its path."""
    path.write_text("\n".join((f"#!{sys.executable}", "import os, sys", *lines, "")))
    path.chmod(0o755)
    return path


def build(folder: Path, root: Path) -> None:
    """Build the wheel into the folder `wheels`."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    zig = f"zig = [{sys.executable!r}, '-m', 'ziglang']"
    end = "os.execv(zig[0], zig + words)"
    # Names of extensions as zig wants them, which takes no -march.
    words = "words = [w.replace('-march=armv8.2-a+', '-mcpu=generic+') for w in sys.argv[1:]]"
    cxx = write_program(
        tools / "clang++", zig, words, f"words = ['c++', '-target', {TARGET!r}, *words]", end
    )
    ar, ranlib = (
        write_program(tools / name, zig, f"words = [{name!r}, *sys.argv[1:]]", end)
        for name in ("ar", "ranlib")
    )
    interpreter = str(root / "usr" / "bin" / PYTHON)
    python = write_program(
        tools / "python",
        f"words = [{EMULATOR!r}, '-L', {str(root)!r}, {interpreter!r}, *sys.argv[1:]]",
        "os.execvp(words[0], words)",
    )
    settings = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": "aarch64",
        "CMAKE_CXX_COMPILER": cxx,
        "CMAKE_AR": ar,
        "CMAKE_RANLIB": ranlib,
        # Of Debian's headers, that of Python's own configuration alone.
        "CMAKE_CXX_FLAGS": f"-idirafter {root / 'usr' / 'include'}",
        # CMake asks the interpreter of the other platform only where it knows how to run it, and
        # pybind11 asks it directly.
        "CMAKE_POLICY_DEFAULT_CMP0190": "NEW",
        "CMAKE_CROSSCOMPILING_EMULATOR": "/usr/bin/env",
        "Python_EXECUTABLE": python,
        "Python_INCLUDE_DIR": root / "usr" / "include" / PYTHON,
        # Of pybind11's, unused: zig would compile its library of C++ anew to try it.
        "HAS_FLTO_THIN": "ON",
        "SAM_RLX_THREADS": "std",
    }
    defines = [f"-Ccmake.define.{name}={value}" for name, value in settings.items()]
    wheels = folder / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    # Isolated, pip would look for build requirements of the other platform.
    pip = (sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation")
    environment = os.environ | {"_PYTHON_HOST_PLATFORM": "linux-aarch64"}
    run(*pip, "-w", wheels, f"-Cbuild-dir={folder / 'tree'}", *defines, ROOT, env=environment)


def install(folder: Path, root: Path) -> None:
    """Install the wheel and what its tests need into a new environment."""
    environment = folder / "venv"
    shutil.rmtree(environment, ignore_errors=True)
    packages = environment / "lib" / PYTHON / "site-packages"
    packages.mkdir(parents=True)
    interpreter = root / "usr" / "bin" / PYTHON
    (environment / "pyvenv.cfg").write_text(f"home = {interpreter.parent}\n")
    (environment / "bin").mkdir()
    (environment / "bin" / "python").symlink_to(interpreter)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    requirements = settings["tool"]["cibuildwheel"]["test-requires"]
    version = "{}.{}".format(*sys.version_info)
    platforms = [f"--platform={name}_aarch64" for name in PLATFORMS]
    # What is installed here besides is none of its business.
    pip = (sys.executable, "-m", "pip", "install", "-q", "--no-warn-conflicts")
    (wheel,) = (folder / "wheels").glob("sam_rlx-*.whl")
    only = (f"--python-version={version}", "--only-binary=:all:")
    run(*pip, "--target", packages, *platforms, *only, f"{wheel}[cli]", *requirements)


def emulated(root: Path, processor: str, *command: str | Path) -> None:
    """Run a program for ARM, and print what it took."""
    # Those of this processor's NumPy are none of the other's.
    env = {key: text for key, text in os.environ.items() if not key.startswith("OPENBLAS")}
    env |= {"QEMU_LD_PREFIX": str(root), "QEMU_CPU": processor}
    start, spent = time.monotonic(), processor_seconds()
    run(EMULATOR, *command, env=env, cwd=ROOT)
    wall, spent = time.monotonic() - start, processor_seconds() - spent
    print(f"{processor}: {wall:.0f} s, {spent:.0f} s of processor time", flush=True)


def processor_seconds() -> float:
    """Return what all children took that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def check_tests(folder: Path, root: Path, python: Path) -> None:
    """Run the named tests, a tiny network of each family, and the demo."""
    program = folder / "tables.py"
    program.write_text(TABLES)
    for processor, tables in PROCESSORS.items():
        emulated(root, processor, python, program, *tables)
    spent = processor_seconds()
    pytest = (python, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", "--durations=20")
    options = (f"--timeout={TEST_TIMEOUT_S}", "-m", "not source_tree")
    emulated(root, "neoverse-n1", *pytest, *options, *TESTS)
    sources = tiny_networks(folder)
    for source, (size, *others) in sources.items():
        for processor in ("neoverse-n1", EVERYTHING):
            check_masks(folder, root, processor, [source, size, "float32"], others)
    if processor_seconds() - spent > TESTS_S:
        raise SystemExit(f"tests: expected {TESTS_S} s of processor time, found more")
    demo = ("-m", "sam_rlx", "demo", "--overwrite", "--output", folder / "demo.png")
    emulated(root, "neoverse-n1", python, *demo)


def tiny_networks(folder: Path) -> dict[str, tuple[str, ...]]:
    """Write tiny networks: the side of each, and what it is run with besides a click."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support import tiny, tiny_sam2

    sam, sam2 = folder / "sam.safetensors", folder / "sam2.safetensors"
    tiny.save_safetensors(sam, tiny.sam_weights(tiny.TINY, seed=0))
    weights = tiny_sam2.weights(tiny_sam2.TINY, 0)
    weights["sam_mask_decoder.pred_obj_score_head.layers.2.bias"] += np.float32(1)  # it is there
    tiny_sam2.save_safetensors(sam2, tiny_sam2.TINY, weights)
    # Of SAM 3 the packaged one, whose vocabulary alone is not tiny.
    return {str(sam): ("0",), str(sam2): ("0", "clip"), "sam3-nano": ("112", "text", "clip")}


def compare(here: Results, there: Results, precision: str) -> str:
    """Return what is wrong with masks and scores of the emulator: nothing, if they are right."""
    ours, theirs = here["masks"], there["masks"]
    if ours.shape != theirs.shape:
        return f"expected masks {ours.shape}, found {theirs.shape}"
    pixels = int((ours != theirs).sum())
    apart = float(np.abs(here["scores"] - there["scores"]).max())
    told = f"{pixels} of {ours.size} pixels of {len(ours)} masks differ, scores by {apart:.1e}"
    if precision == "float32":
        print(f"{there['isa']}, float32: {told}", flush=True)
        return "" if pixels == 0 and apart <= SCORE_BOUND else "expected equal masks and scores"
    ious = (ours & theirs).sum((1, 2)) / (ours | theirs).sum((1, 2))
    print(f"{there['isa']}, {precision}: {told}, IoU {ious.min():.4f} and more", flush=True)
    best = float(ious[here["scores"].argmax()])
    return "" if best >= LEAST_IOU else f"expected an IoU of {LEAST_IOU}, found {best:.4f}"


def check_masks(
    folder: Path, root: Path, processor: str, model: list[str], others: list[str]
) -> None:
    """Compare masks with those of the generic kernels here."""
    probe, here, there = (folder / name for name in ("probe.py", "here.npz", "there.npz"))
    probe.write_text(PROBE)
    run(sys.executable, probe, *model, "generic", here, *others)
    python = folder / "venv" / "bin" / "python"
    emulated(root, processor, python, probe, *model, "", there, *others)
    if problem := compare(np.load(here), np.load(there), model[-1]):
        raise SystemExit(f"{model}, {processor}: {problem}")


def main() -> None:
    """Build and try."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    steps = ("build", "install", "tests", "images")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "arm")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS, help="of images")
    parser.add_argument("steps", nargs="*", default=steps, choices=steps, help="default: all")
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    root = system(folder)
    if "build" in args.steps:
        build(folder, root)
    if "install" in args.steps:
        install(folder, root)
    python = folder / "venv" / "bin" / "python"
    if "tests" in args.steps:
        check_tests(folder, root, python)
    if "images" in args.steps:
        for name in args.models:
            for precision, processor in CASES:
                text = ["text"] * (name == "sam3-nano" and precision == "float32")
                check_masks(folder, root, processor, [name, "0", precision], text)


if __name__ == "__main__":
    main()
