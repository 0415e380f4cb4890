"""Seed faults into a copy of the sources, and look which of them the default test run finds.

    python tests/nightly/mutations.py FOLDER [--faults 12] [--seed 1] [--jobs 2]

Run it in an environment that has the package's requirements: the copy is installed there. Each
fault is switched on by the variable `SAM_RLX_FAULT`, so that one build holds all of them. Runs of
the default tests and of the slow ones, without a fault, tell which files of tests reach which
fault; then each fault meets these files, the quickest first, until one fails. What only slow tests
find is lost to the default run.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
AREAS = {
    "core": ("cpp/core", "cpp/ops", "cpp/layers"),
    "loading": ("cpp/checkpoint", "cpp/loading"),
    "predictors": ("cpp/predictors", "cpp/models"),
    "compat": ("python/sam_rlx/compat",),
    "apps": ("python/sam_rlx/apps", "python/sam_rlx/_internal/media"),
}

SWITCH_H = '#pragma once\n#ifdef __cplusplus\nextern "C"\n#endif\nint sam_rlx_fault(int fault);\n'
SWITCH_CPP = r"""
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
extern "C" int sam_rlx_fault(int fault) {
  static const char* const chosen = std::getenv("SAM_RLX_FAULT");
  static const int number = chosen == nullptr ? 0 : std::atoi(chosen);
  static const char* const log = std::getenv("SAM_RLX_FAULT_LOG");
  if (log == nullptr) return number == fault ? 1 : 0;
  // Some hundred times a second at most: faults are in loops too.
  static thread_local std::map<int, std::chrono::steady_clock::time_point> asked;
  const auto now = std::chrono::steady_clock::now();
  auto& before = asked[fault];
  if (now - before < std::chrono::milliseconds(3)) return number == fault ? 1 : 0;
  before = now;
  static std::mutex mutex;
  static std::map<int, std::string> last;
  const char* const test = std::getenv("PYTEST_CURRENT_TEST");
  std::string file = test == nullptr ? "" : test;
  file = file.substr(0, file.find("::"));
  // Without waiting: in a forked child the lock may be that of a thread which is not there.
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (lock && !file.empty() && last[fault] != file) {
    last[fault] = file;
    if (std::FILE* const out = std::fopen(log, "a")) {
      std::fprintf(out, "%d %s\n", fault, file.c_str());
      std::fclose(out);
    }
  }
  return number == fault ? 1 : 0;
}
"""
SWITCH_PY = """
import os

_CHOSEN = int(os.environ.get("SAM_RLX_FAULT", "0"))
_LOG = os.environ.get("SAM_RLX_FAULT_LOG")
_last = {}


def fault(number):
    if _LOG is not None:
        file = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]
        if file and _last.get(number) != file:
            _last[number] = file
            with open(_LOG, "a") as log:
                log.write(f"{number} {file}\\n")
    return int(number == _CHOSEN)
"""

IF = re.compile(
    r"^(\s+(?:\} else )?if \()(.+)(\) (?:\{|return\b[^;]*;|continue;|break;|throw .*))$"
)
LOOP = re.compile(r"^(\s+for \(.+; \w+)( < .+; .+\) .*)$")
NUMBER = re.compile(r"(?<=[=+\-*/(] )(\d+)(?=[;), ])")
FIXED = re.compile(r"//|constexpr|case |static|template|<\d|\[|enum|^\s*\.|\{\d|::k[A-Z]")


def cpp_faults(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, kind and the changed line with `@` for the number of the fault."""
    for index, line in enumerate(text.splitlines()):
        if (found := IF.match(line)) and _is_condition(found[2]):
            switched = f"static_cast<bool>({found[2]}) != (sam_rlx_fault(@) != 0)"
            yield index, "condition negated", f"{found[1]}{switched}{found[3]}"
        elif found := LOOP.match(line):
            yield index, "last turn left out", f"{found[1]} + sam_rlx_fault(@){found[2]}"
        elif (" = " in line or "return " in line) and not FIXED.search(line):
            for number in NUMBER.finditer(line):
                changed = f"({number[1]} + sam_rlx_fault(@))"
                yield index, "number + 1", line[: number.start()] + changed + line[number.end() :]


def _is_condition(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0 and not re.search(r"[^=!<>]=[^=]|;|constexpr", text)


def python_faults(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield as `cpp_faults` does."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            part, form, kind = node.test, "(bool({}) != _fault(@))", "condition negated"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
            part, form, kind = node.right, "(({}) + _fault(@))", "number + 1"
            if not isinstance(part, ast.Constant) or not isinstance(part.value, int):
                continue
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt | ast.Gt):
            part, form, kind = node.comparators[0], "(({}) + _fault(@))", "number + 1"
            if not isinstance(part, ast.Constant):
                continue
        else:
            continue
        if part.lineno == part.end_lineno:
            line = lines[part.lineno - 1].encode()
            start, end = part.col_offset, part.end_col_offset
            changed = form.format(line[start:end].decode())
            yield part.lineno - 1, kind, (line[:start] + changed.encode() + line[end:]).decode()


def choose(tree: Path, count: int, seed: int) -> list[dict[str, Any]]:
    """Choose faults of each area, no two of them near each other, and write them."""
    faults: list[dict[str, Any]] = []
    for area, folders in AREAS.items():
        files = [
            path
            for folder in folders
            for suffix in ("cpp", "py")
            for path in sorted((tree / folder).rglob(f"*.{suffix}"))
        ]
        candidates = [
            (path, *fault)
            for path in files
            for fault in (python_faults if path.suffix == ".py" else cpp_faults)(path.read_text())
        ]
        random.Random(f"{seed} {area}").shuffle(candidates)
        taken: set[tuple[Path, int]] = set()
        for path, line, kind, changed in candidates:
            if len(taken) < count and not any(
                (path, line + near) in taken for near in range(-8, 9)
            ):
                taken.add((path, line))
                entry = {"number": len(faults) + 1, "area": area, "line": line + 1, "kind": kind}
                faults.append({**entry, "path": str(path.relative_to(tree)), "new": changed})
    for fault in faults:
        path = tree / str(fault["path"])
        lines = path.read_text().splitlines()
        index = int(str(fault["line"])) - 1
        fault["old"] = lines[index]
        lines[index] = str(fault["new"]).replace("@", str(fault["number"]))
        path.write_text("\n".join(lines) + "\n")
    return faults


def add_switches(tree: Path, faults: list[dict[str, Any]]) -> None:
    """Give the copy the functions that ask for the fault."""
    (tree / "fault.h").write_text(SWITCH_H)
    shape = tree / "cpp/core/shape.cpp"
    shape.write_text(shape.read_text() + SWITCH_CPP)
    (tree / "python/sam_rlx/_fault.py").write_text(SWITCH_PY)
    for name in {str(fault["path"]) for fault in faults if str(fault["path"]).endswith(".py")}:
        path = tree / name
        text = path.read_text()
        body = ast.parse(text).body
        first = next(node for node in body if not isinstance(node, ast.Expr))
        while isinstance(first, ast.ImportFrom) and first.module == "__future__":
            first = body[body.index(first) + 1]
        lines = text.splitlines()
        lines.insert(first.lineno - 1, "from sam_rlx._fault import fault as _fault")
        path.write_text("\n".join(lines) + "\n")


# All passed; wrong usage; no test was collected. A crash has another status, too.
NO_FAILURE = (0, 4, 5)


def pytest(tree: Path, *arguments: str, **variables: str) -> int:
    """Run pytest in a tree: its exit status, 1 where a test failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=tree, env={**os.environ, **variables}, stdout=subprocess.DEVNULL, check=False
    ).returncode


def measured(report: Path) -> tuple[dict[str, float], list[str]]:
    """Read seconds of each file of tests, and the tests that fail, of a JUnit report."""
    seconds: dict[str, float] = defaultdict(float)
    failed = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        file = case.get("classname", "").replace(".", "/") + ".py"
        seconds[file] += float(case.get("time", "0"))
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{file}::{case.get('name')}")
    return dict(seconds), failed


@dataclass
class Suite:
    """A choice of tests: which files reach each fault, their seconds, what fails without one."""

    options: tuple[str, ...]
    reached: dict[int, set[str]]
    seconds: dict[str, float]
    failed: list[str]

    def killer(self, tree: Path, fault: int, limit: float) -> str | None:
        """Return the first file of tests that fails with a fault, within a time."""
        start = time.monotonic()
        for file in sorted(self.reached[fault], key=lambda file: self.seconds.get(file, 0)):
            left = [f"--deselect={test}" for test in self.failed if test.startswith(file)]
            options = (*self.options, "-x", "-n0", "--timeout=60", file, *left)
            # Alone, a file may fail without a fault too.
            if (
                pytest(tree, *options, SAM_RLX_FAULT=str(fault)) not in NO_FAILURE
                and pytest(tree, *options) in NO_FAILURE
            ):
                return file
            if time.monotonic() - start > limit:
                break
        return None


def first_run(tree: Path, work: Path, label: str, *options: str, processes: int) -> Suite:
    """Run tests without a fault, unless that was done."""
    log, report = work / f"{label}.log", work / f"{label}.xml"
    if not report.exists():
        log.write_text("")
        spread = (f"-n{processes}", f"--maxprocesses={processes}")
        limit = "--timeout=300"
        pytest(tree, *options, *spread, limit, f"--junitxml={report}", SAM_RLX_FAULT_LOG=str(log))
    reached: dict[int, set[str]] = defaultdict(set)
    for line in log.read_text().splitlines():
        number, _, file = line.partition(" ")
        if (tree / file).is_file():  # not one that a test of the pytest plugin wrote
            reached[int(number)].add(file)
    return Suite(options, reached, *measured(report))


def main() -> None:
    """Seed the faults, and meet each one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--faults", type=int, default=12, help="in each area")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes of tests at a time")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one fault")
    args = parser.parse_args()
    work = args.folder.resolve()
    tree = work / "tree"
    if not tree.exists():
        tree.mkdir(parents=True)
        archive = ["git", "-C", str(ROOT), "archive", "HEAD"]
        files = subprocess.run(archive, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x", "-C", str(tree)], input=files.stdout, check=True)
        faults = choose(tree, args.faults, args.seed)
        add_switches(tree, faults)
        (work / "faults.json").write_text(json.dumps(faults, indent=1))
    faults = json.loads((work / "faults.json").read_text())
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    flags = {"CXXFLAGS": f"-include {tree / 'fault.h'}"}
    subprocess.run([*install, "-e", str(tree)], env={**os.environ, **flags}, check=True)
    missed = meet(tree, work, faults, "default", args)
    lost = missed and len(missed) - len(meet(tree, work, missed, "slow", args))
    print(f"{len(faults)} faults: default tests miss {len(missed)}, of which slow ones find {lost}")
    raise SystemExit(1 if lost else 0)


def meet(
    tree: Path, work: Path, faults: list[dict[str, Any]], label: str, args: argparse.Namespace
) -> list[dict[str, Any]]:
    """Let tests meet faults; return those that none of them finds."""
    options = () if label == "default" else ("--full", "-m", "slow")
    suite = first_run(tree, work, label, *options, processes=args.jobs)

    def found(fault: dict[str, Any]) -> bool:
        number = fault["number"]
        file = suite.killer(tree, number, args.limit)
        where = f"{number:3} {fault['area']:10} {fault['path']}:{fault['line']} {fault['kind']}"
        reach = f"not found, {len(suite.reached[number])} files reach it"
        print(f"{label} {where}: {file or reach}", flush=True)
        return file is not None

    with ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(found, faults))
    return [one for one, is_found in zip(faults, results, strict=True) if not is_found]


if __name__ == "__main__":
    main()
