"""Compile the core for Windows and macOS with zig's Clang: objects alone, nothing is linked or run.

Needs ziglang and cmeel-eigen. Bindings are left out: they need each system's Python.
Example: ``python tests/nightly/other_systems.py --targets x86_64-windows-gnu core ops``
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
TARGETS = ("x86_64-windows-gnu", "aarch64-macos", "x86_64-macos")
FLAGS = ("-std=c++20", "-O1", "-fvisibility=hidden", "-ffp-contract=off", "-fno-sanitize=undefined")
DEFINES = ("-DEIGEN_MPL2_ONLY", "-DEIGEN_DONT_PARALLELIZE", "-DSAM_RLX_STD_THREADS")
AVX2 = ("-mavx2", "-mfma", "-mf16c")
AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c")
# Instruction sets that a processor has, beside `generic`; amx is asked for on Linux alone.
ISAS = {
    "x86_64": {
        "avx2": AVX2,
        "avx2_vnni": (*AVX2, "-mavxvnni"),
        "avx512": AVX512,
        "avx512_vnni": (*AVX512, "-mavx512vnni"),
        "avx512_bf16": (*AVX512, "-mavx512bf16"),
    },
    # Of zig, which takes no -march.
    "aarch64": {
        "neon": (),
        "neon_dotprod": ("-mcpu=generic+dotprod",),
        "neon_i8mm": ("-mcpu=generic+dotprod+i8mm",),
        "neon_bf16": ("-mcpu=generic+dotprod+i8mm+bf16",),
    },
}


def sources() -> list[Path]:
    """Return the sources of the library, as CMakeLists.txt lists them."""
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    listed = text[text.index("  sam_rlx_core\n  STATIC") :]
    listed = listed[: listed.index("${isa_objects}")]
    return [ROOT / name for name in re.findall(r"cpp/[\w/]+\.cpp", listed)]


def kernels(target: str) -> dict[Path, tuple[str, ...]]:
    """Return the files of instruction sets that a target has, and their flags."""
    own = ISAS[target.partition("-")[0]]
    return {
        path: flags
        for isa, flags in own.items()
        for path in sorted((ROOT / "cpp" / "kernels" / isa).glob("*.cpp"))
    }


def eigen() -> Path:
    """Return the folder of Eigen's headers."""
    spec = importlib.util.find_spec("cmeel")
    if spec is None or spec.origin is None:
        raise SystemExit("other_systems: expected the package cmeel-eigen, found none")
    return Path(spec.origin).parents[1] / "cmeel.prefix" / "include" / "eigen3"


def compile_one(target: str, source: Path, flags: tuple[str, ...], folder: Path) -> str:
    """Compile a file; return what the compiler says if it refuses."""
    name = source.relative_to(ROOT).as_posix().replace("/", "_")
    defines = [f"-DSAM_RLX_HAVE_{isa.upper()}" for isa in ISAS[target.partition("-")[0]]]
    command = [
        *(sys.executable, "-m", "ziglang", "c++", "-target", target, *FLAGS, *DEFINES, *defines),
        *(*flags, f"-I{ROOT / 'cpp'}", "-isystem", str(eigen())),
        *("-c", str(source), "-o", str(folder / f"{name}.o")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"{target}: {source.relative_to(ROOT)}\n{done.stderr}" if done.returncode else ""


def main() -> int:
    """Compile, and tell what is refused: 1 if something is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("parts", nargs="*", help="folders of cpp/; default: all")
    args = parser.parse_args()
    failed = 0
    for target in args.targets:
        isas = kernels(target)
        wanted = [
            path
            for path in [*sources(), *isas]
            if not args.parts
            or any(path.is_relative_to(ROOT / "cpp" / part) for part in args.parts)
        ]
        flags = {path: ("-fno-exceptions", "-fno-rtti", *own) for path, own in isas.items()}
        with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(args.jobs) as pool:
            calls = [
                pool.submit(compile_one, target, path, flags.get(path, ()), Path(name))
                for path in wanted
            ]
            found = [text for call in calls if (text := call.result())]
        print("\n".join(found))
        print(f"{target}: {len(wanted) - len(found)} of {len(wanted)} files compiled", flush=True)
        failed += len(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
