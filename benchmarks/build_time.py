"""CPU time of a build from a clean tree, in all and of the units that take longest.

    python benchmarks/build_time.py
    python benchmarks/build_time.py ../old . --top 20
    python benchmarks/build_time.py -DSAM_RLX_TESTING=ON

Configures and builds each tree in a new folder that is removed, as `pip install .` does: a release
without the extension for tests. Times are seconds of CPU, user and system, of the compiler and what
it starts; without a cache of the compiler. They depend on other processes less than a clock does,
but two threads on one core count more. Needs CMake, Ninja and pybind11, and Eigen or its wheel.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RECORD = "--record"  # then a file and the command of a compiler


def run(command: list[str], **options: Any) -> float:
    """Run a command: seconds of CPU of it and of what it started. A failure ends the program."""
    process = subprocess.Popen(command, **options)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(1)
    return usage.ru_utime + usage.ru_stime


def record(log: str, command: list[str]) -> None:
    """Run a compiler and append a line to a file: what was compiled, and the seconds."""
    line = json.dumps([command[command.index("-o") + 1], run(command)]) + "\n"
    with Path(log).open("a") as file:
        file.write(line)


def build(tree: Path, settings: list[str]) -> tuple[float, list[tuple[float, str]]]:
    """Build a tree: seconds of CPU in all, and of each unit, longest first."""
    import pybind11

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "units.jsonl")
        launcher = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), RECORD, str(log)]
        seconds = run(
            [
                *("cmake", "-G", "Ninja", "-S", str(tree), "-B", folder),
                *("-DCMAKE_BUILD_TYPE=Release", "-DSKBUILD_PROJECT_VERSION=0.0.0"),
                f"-DCMAKE_CXX_COMPILER_LAUNCHER={';'.join(launcher)}",
                f"-DCMAKE_PREFIX_PATH={Path(pybind11.__file__).parents[1]}",
                f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
                f"-DPython_EXECUTABLE={sys.executable}",
                *(f"-D{setting}" for setting in settings),
            ],
            stdout=subprocess.DEVNULL,
        )
        seconds += run(["cmake", "--build", folder], stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    units = [(taken, output.rpartition(".dir/")[2]) for output, taken in lines]
    return seconds, sorted(units, reverse=True)


def main() -> None:
    """Print a table for each tree, and what the last one takes of the first one's time."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trees", nargs="*", type=Path, default=[Path(__file__).parents[1]])
    parser.add_argument("--top", type=int, default=10, help="units that are printed")
    parser.add_argument("-D", dest="settings", action="append", default=[], help="of CMake")
    arguments = parser.parse_args()
    totals = []
    for tree in arguments.trees:
        seconds, units = build(tree.resolve(), arguments.settings)
        totals.append(seconds)
        print(f"{tree}: {seconds:.0f} s of CPU, {len(units)} units", flush=True)
        for taken, name in units[: arguments.top]:
            print(f"{taken:7.1f}  {name}", flush=True)
    if len(totals) > 1:
        print(f"last / first: {totals[-1] / totals[0]:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == [RECORD]:
        record(sys.argv[2], sys.argv[3:])
    else:
        main()
