"""``python -m sam_rlx.compat``: run a program of upstream's packages on the drop-ins.

The program stays as it is. ``import sam2`` and its like give the drop-ins, in child processes too.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from types import ModuleType

from sam_rlx._internal.packages import SHARED, installed_originals
from sam_rlx.compat.common.take_over import SHIMS, default_names, install

_USAGE = """usage: python -m sam_rlx.compat [--with NAME] [PROGRAM | -m MODULE | -c CODE] [WORD ...]
       python -m sam_rlx.compat --list

Run a program whose imports of segment_anything, segment_anything_hq, sam2 and sam3 give the
drop-ins of sam_rlx, in its child processes too. So do those of ultralytics and transformers,
where they are not installed; --with NAME takes that name there too: an installed transformers
keeps all names that the drop-in has not. --list: what is installed."""


def main() -> None:
    """Read the arguments as Python does, and run."""
    names = default_names()
    kind, *rest = sys.argv[1:] or ["--help"]
    if kind == "--with" and len(rest) > 1:
        names = tuple(dict.fromkeys((*names, rest[0])))
        kind, *rest = rest[1:]
    if kind in ("-h", "--help"):
        print(_USAGE)
        return
    if kind == "--list":
        for name, folder in installed_originals().items():
            print(f"{name:<20} sam_rlx.compat.{name}, instead of {folder or 'none installed'}")
        return
    if kind in ("-m", "-c") and not rest:
        raise SystemExit(f"{_USAGE}\n\n{kind}: expected an argument, found none")
    before = os.environ.get("PYTHONPATH")
    folders = [str(SHIMS), *(str(SHIMS / "shared" / name) for name in names if name in SHARED)]
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *([before] if before else [])])
    sys.path[1:1] = folders  # which multiprocessing hands on
    install(*names)
    if kind == "-m":
        sys.argv = rest  # the first becomes the path of the module
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        module = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), vars(module))
    else:
        sys.argv = [kind, *rest]
        sys.path[0] = str(Path(kind).resolve().parent)
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    main()
