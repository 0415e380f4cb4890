"""Every door with what other libraries give: a table of what was right, told, refused, wrong.

A door is the one function that a kind of thing comes in by: arrays, images in files, label files,
masks, ... Files and arrays are made by libraries that are not ours, and a result is right if it is
what that library holds. Libraries that are not installed are left out, and named.

Example: ``python tests/nightly/doors.py [--door NAME] [--rows]``

A door is added by a module of ``nightly.door_rows`` whose functions have the decorator `door`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import pkgutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    sys.modules["nightly.doors"] = sys.modules["__main__"]  # one registry, however it is named

import numpy as np
from sam_rlx import MediaWarning, SamRlxError

# right: what the other library holds; told: something else, with a warning that says what;
# refused: an error of this library, or a file that is not there; wrong: an error of another kind;
# silent: something else.
OUTCOMES = ("right", "told", "refused", "wrong", "silent")
BAD = ("wrong", "silent")

Trial: TypeAlias = tuple[str, str]  # what was tried, outcome with its words
Rows: TypeAlias = Callable[[Path], Iterator[Trial]]

DOORS: dict[str, list[Rows]] = {}
ABSENT: set[str] = set()


def door(name: str) -> Callable[[Rows], Rows]:
    """Register a function of a folder for files that yields trials of a door."""

    def register(rows: Rows) -> Rows:
        DOORS.setdefault(name, []).append(rows)
        return rows

    return register


def library(name: str) -> Any:
    """Return a module of another library, None where it is not installed."""
    try:
        return importlib.import_module(name)
    except Exception:  # also one that does not fit another package of this machine
        ABSENT.add(name.partition(".")[0])
        return None


def outcome(call: Callable[[], Any], right: Any, tolerance: float = 0.0) -> str:
    """Call a door, and compare what it gives with what is right; return the outcome with words.

    `right` None: there is no right answer but a refusal.
    """
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = call()
        except (SamRlxError, FileNotFoundError) as error:
            return f"refused: {' '.join(str(error).split())}"
        except Exception as error:
            return f"wrong: {type(error).__name__}: {' '.join(str(error).split())}"
    if right is not None and _equal(found, right, tolerance):
        return "right"
    words = [str(one.message) for one in told if issubclass(one.category, MediaWarning)]
    return f"told: {words[0]}" if words else f"silent: {_shown(found)}, right {_shown(right)}"


def _equal(found: Any, right: Any, tolerance: float) -> bool:
    found, right = np.asarray(found), np.asarray(right)
    if found.shape != right.shape:
        return False
    if tolerance:
        return bool((np.abs(found.astype(float) - right.astype(float)) <= tolerance).all())
    return bool(np.array_equal(found, right))


def _shown(values: Any) -> str:
    array = np.asarray(values)
    if array.dtype.kind in "OU":
        return "none" if values is None else str(values)
    return f"{array.dtype} {array.shape} with sum {array.sum()}"


def _modules() -> None:
    from nightly import door_rows

    for each in pkgutil.iter_modules(door_rows.__path__):
        importlib.import_module(f"nightly.door_rows.{each.name}")


def main(count: int = 1, seed: int = 0, part: str = "", *, rows: bool = False) -> int:
    """Try all doors, or one; print the table; return how many trials were wrong or silent.

    There is no chance in it; `count` and `seed` are taken for the caller's sake.
    """
    del count, seed
    _modules()
    total: Counter[str] = Counter()
    lines = []
    for name, functions in sorted(DOORS.items()):
        if part and name != part:
            continue
        found: Counter[str] = Counter()
        for function in functions:
            with tempfile.TemporaryDirectory() as folder:
                for label, words in _quiet(function, Path(folder)):
                    kind = words.partition(":")[0]
                    found[kind] += 1
                    if kind in BAD or rows:
                        print(f"{name} | {label} | {words[:300]}")
        total += found
        lines.append(_line(name, found))
    print(_line("door", None))
    print("\n".join([*lines, _line("all", total)]))
    print(f"not installed: {', '.join(sorted(ABSENT)) or 'none'}")
    return sum(total[kind] for kind in BAD)


def _quiet(function: Rows, folder: Path) -> Iterator[Trial]:
    """Yield the trials of a function without the warnings of other libraries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from function(folder)


def _line(name: str, found: Counter[str] | None) -> str:
    if found is None:
        cells = ["tried", *OUTCOMES]
    else:
        cells = [str(found.total()), *(str(found[kind]) for kind in OUTCOMES)]
    return f"{name:<16}" + "".join(f"{cell:>9}" for cell in cells)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--door", default="", help="one door alone")
    parser.add_argument("--rows", action="store_true", help="print every trial")
    args = parser.parse_args()
    raise SystemExit(main(part=args.door, rows=args.rows) > 0)
