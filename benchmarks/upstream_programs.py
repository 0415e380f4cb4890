"""Runs programs of the package index, untouched, on Meta's packages and on the drop-ins.

    python benchmarks/upstream_programs.py CACHE [--only NAME ...] [--light] [--repeat 3] [--cpu]
    python benchmarks/upstream_programs.py CACHE --resume --cpu --page

Each program of ``programs/meta/programs.toml`` has a driver, which uses it as its users do, on a
image or a clip. The driver runs in an environment of its own, which is made in the folder CACHE
at its first use: pinned packages without what they require, in front of the environment that runs
this, which needs PyTorch, Meta's packages and `sam_rlx` (extras ``test`` and ``parity``). It runs
once by Python, with Meta's packages, and once by ``python -m sam_rlx.compat``, both with the
weights of the packaged models. What programs ask others for (detectors, downloads) is stubbed.
``--reuse`` runs the drop-ins alone, beside Meta's results of before; ``--resume`` runs neither
where CACHE has the results of both. With ``--cpu`` seconds are CPU seconds of one core, which
others on the machine change little; results with other seconds are kept apart.

Prints a row for each program: the least IoU of its masks, seconds of both, the error; then the
median of the ratios. ``--page`` writes the table of all programs into docs/compat.md. The exit
status is 1 if a program runs less far than ``programs.toml`` says.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from programs import clocks, comparison, environments, tables, weights

META = Path(__file__).resolve().parent / "programs" / "meta"
PAGE = META.parents[2] / "docs" / "compat.md"
MARK = "programs"
RANKS = ("yes", "part", "no")  # from best to worst
HEAD = "| program | runs | least IoU | masks | Meta, s | here, s | ratio | note |"


class Outcome(NamedTuple):
    """How a program went."""

    runs: str  # one of RANKS
    note: str = ""
    iou: float | None = None
    masks: int = 0
    meta: float | None = None
    ours: float | None = None

    @property
    def ratio(self) -> float | None:
        """Meta's seconds for one of ours."""
        return self.meta / self.ours if self.meta and self.ours else None

    def row(self, title: str) -> str:
        """Return the row of the table."""
        iou = "" if self.iou is None else f"{self.iou:.4f}"
        times = [f"{value:.2f}" if value else "" for value in (self.meta, self.ours)]
        ratio = f"{self.ratio:.1f}" if self.ratio else ""
        count = str(self.masks or "")
        return tables.row([title, self.runs, iou, count, *times, ratio, self.note])


def one_side(python: Path, driver: Path, out: Path, options: Any, ours: bool) -> str:
    """Run a driver in an empty folder; return the last line of its error, or nothing."""
    where = ["-m", "sam_rlx.compat"] if ours else []
    with tempfile.TemporaryDirectory() as name:
        home = Path(name, "home")
        (home / ".cache").mkdir(parents=True)
        Path(name, "work").mkdir()
        env = {
            **os.environ,
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "HF_HOME": str(home / "hub"),
            "HF_HUB_OFFLINE": "1",
            "TORCH_HOME": str(home / "torch"),
            "MPLBACKEND": "Agg",
            "PYTHONWARNINGS": "ignore",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if options.wheel:
            before = os.environ.get("PYTHONPATH", "")
            env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(options.wheel), before]))
        command = [str(python), *where, str(driver), str(out), str(options.weights)]
        done = subprocess.run(
            [*command, str(options.repeat), options.clock],
            cwd=Path(name, "work"),
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode == 0 and out.exists():
        return ""
    if options.verbose:
        print(done.stdout[-2000:], done.stderr[-6000:], sep="\n")
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"ended with status {done.returncode}"


def outcome(name: str, program: dict[str, Any], table: Any, options: Any) -> Outcome:
    """Run a program on both sides."""
    results = options.cache / "results" / options.clock
    results.mkdir(parents=True, exist_ok=True)
    meta, ours = results / f"{name}-meta.npz", results / f"{name}-ours.npz"
    if options.resume and meta.exists() and ours.exists():
        return judged(meta, ours)
    try:
        python = environments.make(name, program, table, options.cache)
    except environments.InstallError as error:
        return Outcome("no", f"not installed: {error}")
    ours.unlink(missing_ok=True)
    if not options.reuse:
        meta.unlink(missing_ok=True)
    for path, mine in ((meta, False), (ours, True)):
        if path.exists():
            continue
        reason = one_side(python, META / f"{name}.py", path, options, mine)
        if not reason and not mine:
            reason = "; ".join(comparison.failed(path).values())
        if reason:
            side = "here" if mine else "with Meta's packages"
            return Outcome("no", f"{side}: {reason}")
    return judged(meta, ours)


def judged(meta: Path, ours: Path) -> Outcome:
    """Compare the results of both sides."""
    iou, is_enough = comparison.compared(meta, ours)
    seconds = comparison.times(meta), comparison.times(ours)
    count, real = comparison.masks_of(ours)
    failed = comparison.failed(ours)
    runs, note = "yes", ""
    if not is_enough:
        runs, note = "no", "masks differ"
    elif not real:
        runs, note = "no", "no mask that is neither empty nor full"
    elif failed:
        runs, note = "part", "; ".join(f"{name}: {error}" for name, error in failed.items())
    return Outcome(runs, note, iou, count, *seconds)


def chosen(table: Any, options: Any) -> dict[str, dict[str, Any]]:
    """Return the programs that are asked for."""
    programs: dict[str, dict[str, Any]] = table["programs"]
    if unknown := set(options.only) - set(programs):
        raise SystemExit(f"--only: expected names of {sorted(programs)}, found {sorted(unknown)}")
    return {
        name: program
        for name, program in programs.items()
        if (not options.only or name in options.only)
        and (program.get("light", False) or not options.light)
    }


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cache", type=Path, help="folder of environments, weights and results")
    parser.add_argument("--only", nargs="+", default=[], help="names in programs.toml")
    parser.add_argument("--light", action="store_true", help="programs that install in seconds")
    parser.add_argument("--repeat", type=int, default=1, help="the quickest run counts")
    parser.add_argument("--reuse", action="store_true", help="Meta's results of before, if any")
    parser.add_argument("--resume", action="store_true", help="results of before, where both are")
    parser.add_argument("--cpu", action="store_true", help="CPU seconds of one core (Linux)")
    parser.add_argument("--sam-rlx", type=Path, help="a wheel instead of what is installed here")
    parser.add_argument("--page", action="store_true", help="write the table into docs/compat.md")
    parser.add_argument("--verbose", action="store_true", help="print the errors in full")
    options = parser.parse_args()
    if options.page and (options.only or options.light):
        parser.error("--page: the page has the rows of all programs; expected no --only or --light")
    options.clock = clocks.chosen(options.cpu).__name__
    options.cache = options.cache.resolve()
    options.weights = weights.write(options.cache / "weights")
    options.wheel = options.sam_rlx and environments.with_wheel(options.sam_rlx, options.cache)
    table = tomllib.loads((META / "programs.toml").read_text(encoding="utf-8"))
    rows, lost, ratios = [], [], []
    print(HEAD, flush=True)
    for name, program in chosen(table, options).items():
        found = outcome(name, program, table, options)
        rows.append(found.row(program.get("title", f"{program['package']} {program['version']}")))
        print(rows[-1], flush=True)
        if RANKS.index(found.runs) > RANKS.index(program.get("runs", "yes")):
            lost.append(name)
        if found.ratio:
            ratios.append(found.ratio)
    if options.page:
        tables.write(PAGE, MARK, HEAD, rows)
    if ratios:
        print(f"median ratio {statistics.median(ratios):.1f}")
    return tables.closing(rows, lost)


if __name__ == "__main__":
    sys.exit(main())
