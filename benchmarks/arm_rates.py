"""What ARM's kernels reach of their multiply instructions: ``python benchmarks/arm_rates.py``.

No ARM processor is needed, and none is measured. The objects of the tables are compiled for 64-bit
ARM, the loops with the most multiply instructions are taken out of their assembly, and llvm-mca
says how many cycles they take on Neoverse cores whose loads all hit the first-level cache. The
share is that of a chain of 24 independent ones. Then instructions are counted for one image of
ViT-B: its products alone, without packing, rounding and the ends of tiles.

Needs aarch64-linux-gnu-g++ (or ``--compiler``) and llvm-mca 17 or newer.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FLAGS = ("-std=c++20", "-O3", "-ffp-contract=off", "-fno-exceptions", "-fno-rtti", "-fPIC")
ITERATIONS = 300
OLDEST = 17  # LLVM 14 gives the Neoverse cores the tables of an older one
CORES = ("neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2")
# Multiply-adds of one image of ViT-B, in 1e9.
LAYERS, ATTENTION = 348, 117


CONDITION = "eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"
BRANCH = re.compile(rf"(b(\.?({CONDITION}))?|cbn?z|tbn?z|blr?|br|ret)\s")


@dataclass(frozen=True)
class Kernel:
    """A product: its source and its instruction."""

    name: str
    source: str  # below cpp/kernels
    march: str
    instruction: str  # of a chain, with {i} for the sum
    multiplies: int  # multiply-adds of one instruction
    least: float  # share that is expected
    on_n1: bool = True


KERNELS = (
    *(
        Kernel(name, source, "armv8-a", "fmla v{i}.4s, v31.4s, v30.s[0]", 4, 0.9)
        for name, source in (
            ("float32, packed rows", "neon/gemm_packed.cpp"),
            ("float32, rows in place", "neon/gemm_plain.cpp"),
            ("float32, attention", "neon/attention.cpp"),
        )
    ),
    Kernel(
        *("int8 by SDOT", "neon_dotprod/kernels.cpp", "armv8.2-a+dotprod"),
        *("sdot v{i}.4s, v31.16b, v30.4b[0]", 16, 0.85),
    ),
    Kernel(
        *("int8 by USMMLA", "neon_i8mm/kernels.cpp", "armv8.2-a+dotprod+i8mm"),
        *("usmmla v{i}.4s, v31.16b, v30.16b", 32, 0.85),
        on_n1=False,
    ),
    Kernel(
        *("bfloat16 by BFMMLA", "neon_bf16/kernels.cpp", "armv8.2-a+dotprod+i8mm+bf16"),
        *("bfmmla v{i}.4s, v31.8h, v30.8h", 16, 0.85),
        on_n1=False,
    ),
)


def assembly(compiler: str, kernel: Kernel, folder: Path) -> str:
    """Compile the table's object to assembly."""
    path, source = folder / "kernel.s", ROOT / "cpp" / "kernels" / kernel.source
    flags = (*FLAGS, f"-march={kernel.march}", f"-I{ROOT / 'cpp'}")
    subprocess.run([compiler, *flags, "-S", source, "-o", path], check=True)
    return path.read_text(encoding="utf-8")


def loops(text: str) -> list[list[str]]:
    """Return the instructions of each loop without a branch in its midst."""
    found: list[list[str]] = []
    label, block = "", []
    for line in text.splitlines():
        word = line.split("//")[0].strip()
        if re.fullmatch(r"[.\w$]+:", word):
            label, block = word[:-1], []
        elif word and not word.startswith((".", "#")):
            block.append(word)
            if BRANCH.match(f"{word} "):
                if word.split()[-1] == label:
                    found.append(block)
                label, block = "", []
    return found


def own_loops(text: str, kernel: Kernel) -> list[list[str]]:
    """Return the loops of whole tiles: those with the most of the kernel's instruction."""
    found = loops(text)
    most = max(count(block, kernel) for block in found)
    return [block for block in found if count(block, kernel) == most]


def count(block: list[str], kernel: Kernel) -> int:
    """Return how many of the kernel's multiply instructions a loop has."""
    name = kernel.instruction.split()[0]
    return sum(line.split()[0] == name for line in block)


def cycles(mca: str, core: str, block: list[str], folder: Path) -> float:
    """Return the cycles of one turn of a loop."""
    path = folder / "block.s"
    path.write_text("\n".join(re.sub(r"\.L\w+$", "0", line) for line in block) + "\n")
    command = [mca, "-mtriple=aarch64-linux-gnu", f"-mcpu={core}", f"-iterations={ITERATIONS}"]
    flags = ["-mattr=+dotprod,+i8mm,+bf16", "-instruction-info=0", "-resource-pressure=0"]
    done = subprocess.run([*command, *flags, path], capture_output=True, text=True, check=True)
    total = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    if total is None:
        raise SystemExit(f"arm_rates: expected cycles from {mca}, found: {done.stdout}")
    return int(total[1]) / ITERATIONS


def share(mca: str, core: str, block: list[str], kernel: Kernel, folder: Path) -> float:
    """Return what a loop reaches of the rate of a chain of independent multiplies."""
    chain = [kernel.instruction.format(i=i) for i in range(24)]
    peak = len(chain) / cycles(mca, core, chain, folder)
    return count(block, kernel) / cycles(mca, core, block, folder) / peak


def find_mca() -> str | None:
    """Return llvm-mca of LLVM 17 or newer."""
    names = [f"llvm-mca-{version}" for version in range(OLDEST + 12, OLDEST - 1, -1)]
    for name in (*names, "llvm-mca"):
        path = shutil.which(name)
        if path is None:
            continue
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
        version = re.search(r"LLVM version (\d+)", said.stdout)
        if version is not None and int(version[1]) >= OLDEST:
            return path
    return None


@dataclass(frozen=True)
class Rate:
    """A kernel's loop of whole tiles; the slowest, where it has several."""

    kernel: Kernel
    instructions: int
    multiplies: int
    loads: int
    copies: int
    stack: int  # loads and stores of the stack
    shares: dict[str, float]

    @property
    def per_multiply_add(self) -> float:
        """Instructions for one multiply-add."""
        return self.instructions / (self.multiplies * self.kernel.multiplies)


def rates(compiler: str, mca: str) -> list[Rate]:
    """Compile the tables and time their loops."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kernel in KERNELS:
            blocks = own_loops(assembly(compiler, kernel, folder), kernel)
            cores = [core for core in CORES if kernel.on_n1 or core != "neoverse-n1"]
            shares = {
                core: min(share(mca, core, block, kernel, folder) for block in blocks)
                for core in cores
            }
            block = max(blocks, key=len)
            found.append(
                Rate(
                    kernel,
                    instructions=len(block),
                    multiplies=count(block, kernel),
                    loads=sum(re.match(r"ld", line) is not None for line in block),
                    copies=sum(re.match(r"(dup|mov|orr)\s+v", line) is not None for line in block),
                    stack=sum(re.search(r"\[sp\b", line) is not None for line in block),
                    shares=shares,
                )
            )
    return found


def image_counts(found: list[Rate]) -> dict[str, float]:
    """Return instructions of ViT-B's products for an image, in 1e9, by kernels."""
    each = {rate.kernel.name: rate.per_multiply_add for rate in found}
    float32, bfloat16 = each["float32, packed rows"], each["bfloat16 by BFMMLA"]
    sdot, usmmla = each["int8 by SDOT"], each["int8 by USMMLA"]
    return {
        "float32": (LAYERS + ATTENTION) * float32,
        "layers: float32": LAYERS * float32,
        "layers: int8 by SDOT": LAYERS * sdot,
        "layers: int8 by USMMLA": LAYERS * usmmla,
        "int8 by SDOT, attention float32": LAYERS * sdot + ATTENTION * float32,
        "int8 by USMMLA, attention float32": LAYERS * usmmla + ATTENTION * float32,
        "int8 by USMMLA, attention BFMMLA": LAYERS * usmmla + ATTENTION * bfloat16,
        "bfloat16 by BFMMLA": (LAYERS + ATTENTION) * bfloat16,
    }


def main() -> int:
    """Print the tables: 1 if a share is below what is expected."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--compiler", default="aarch64-linux-gnu-g++")
    args = parser.parse_args()
    mca = find_mca()
    if mca is None or shutil.which(args.compiler) is None:
        raise SystemExit(f"arm_rates: expected {args.compiler} and llvm-mca {OLDEST} or newer")
    found = rates(args.compiler, mca)
    print(f"| kernel | {' | '.join(CORES)} | instructions | multiplies | loads | copies | stack |")
    print("| --- |" + " --- |" * (len(CORES) + 5))
    for rate in found:
        shares = [f"{100 * rate.shares[c]:.0f} %" if c in rate.shares else "-" for c in CORES]
        counts = (rate.instructions, rate.multiplies, rate.loads, rate.copies, rate.stack)
        print(f"| {rate.kernel.name} | {' | '.join([*shares, *map(str, counts)])} |")
    counts = image_counts(found)
    print("\n| an image of ViT-B | instructions, 1e9 | of float32 |\n| --- | --- | --- |")
    for name, value in counts.items():
        whole = counts["layers: float32" if name.startswith("layers") else "float32"]
        print(f"| {name} | {value:.0f} | {value / whole:.2f} |")
    low = [rate for rate in found if min(rate.shares.values()) < rate.kernel.least]
    for rate in low:
        print(
            f"{rate.kernel.name}: expected {rate.kernel.least}, found {min(rate.shares.values())}"
        )
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
