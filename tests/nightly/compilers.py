"""Build with other compilers and flags, and compare masks with those of the default build.

Needs NumPy, Pillow, what a build needs, and the compilers. A line for each build says how many of
the packaged models' results, with generic kernels and the best ones, have the default's bits.
Example: ``python tests/nightly/compilers.py gcc-11 conda-forge``
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Environment of each build.
BUILDS = {
    "default": {},
    "gcc-11": {"CXX": "g++-11"},
    "clang-16": {"CXX": "clang++-16"},
    # What conda-forge's compilers set on x86-64.
    "conda-forge": {
        "CXXFLAGS": "-fvisibility-inlines-hidden -fmessage-length=0 -march=nocona -mtune=haswell"
        " -ftree-vectorize -fPIC -fstack-protector-strong -fno-plt -O2 -ffunction-sections -pipe"
        " -DNDEBUG -D_FORTIFY_SOURCE=2",
        "LDFLAGS": "-Wl,-O2 -Wl,--sort-common -Wl,--as-needed -Wl,-z,relro -Wl,-z,now"
        " -Wl,--gc-sections",
    },
}
# Digests of masks, logits and scores: of each model, with generic kernels and the best ones.
PROBE = """
import hashlib, json, sys
from pathlib import Path
import numpy as np
from PIL import Image
import sam_rlx

assets = Path(sam_rlx.__file__).parent / "assets"
assert assets.is_relative_to(sys.argv[1]), assets
image = np.asarray(Image.open(assets / "coins.jpg").convert("RGB"))
found = {}
for path in sorted(assets.glob("*.gguf")):
    for isa in ("generic", None):
        predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(path, isa=isa))
        predictor.set_image(image)
        result = predictor.predict(point_coords=[[346, 185]], point_labels=[1])
        parts = (result.masks, result.low_res_masks, result.iou_predictions)
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in parts))
        found[f"{path.stem}, {isa or 'best'}"] = digest.hexdigest()
json.dump(found, sys.stdout)
"""


def build(name: str, folder: Path) -> None:
    """Build the package into a folder."""
    import pybind11

    tree = folder / "tree"
    environment = os.environ | BUILDS[name]
    configure = [
        *("cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(tree)),
        *("-DCMAKE_BUILD_TYPE=Release", "-DSKBUILD_PROJECT_VERSION=0.0.0"),
        f"-DCMAKE_PREFIX_PATH={Path(pybind11.__file__).parents[1]}",
        f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    shutil.copytree(ROOT / "python" / "sam_rlx", folder / "sam_rlx")
    for command in (
        configure,
        ["cmake", "--build", str(tree)],
        ["cmake", "--install", str(tree), "--prefix", str(folder)],
    ):
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def digests(name: str) -> dict[str, str]:
    """Digests of what a build computes."""
    with tempfile.TemporaryDirectory() as folder:
        build(name, Path(folder))
        # Without what an editable installation adds to the path.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([folder, *sys.path[1:]])}
        command = [sys.executable, "-S", "-c", PROBE, folder]
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env=environment
        )
        found: dict[str, str] = json.loads(done.stdout)
        return found


def main() -> int:
    """Build and compare: 1 if a build computes other bits."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    others = [name for name in BUILDS if name != "default"]
    parser.add_argument("builds", nargs="*", default=others, help=f"default: {' '.join(others)}")
    arguments = parser.parse_args()
    if unknown := set(arguments.builds) - set(BUILDS):
        parser.error(f"expected {', '.join(others)}, found {', '.join(sorted(unknown))}")
    expected = digests("default")
    differing = 0
    for name in arguments.builds:
        found = digests(name)
        wrong = [key for key in expected if found.get(key) != expected[key]]
        differing += len(wrong)
        print(f"{name}: {len(expected) - len(wrong)} of {len(expected)} equal", *wrong, flush=True)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
