"""Drop-in for transformers: classes of the Segment Anything family, on the CPU without PyTorch.

A program changes one import. Names of other families are those of the installed transformers.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from sam_rlx.compat.transformers import names
from sam_rlx.compat.transformers.installed import of_installed

__version__ = "5.24.0"
# For an installed transformers whose names are taken over.
patch = names.patch


class _Package(ModuleType):
    """A package with a function of the name of one of its modules."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in names.NAMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
names.add_long_paths()


def __getattr__(name: str) -> Any:
    if names.is_known(name):
        return names.value(name)
    if name.startswith("__") or (Path(__file__).parent / f"{name}.py").is_file():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return of_installed(name)


def __dir__() -> list[str]:
    of_python = (name for name in globals() if name.startswith("__") and name.endswith("__"))
    return sorted({*names.NAMES, *of_python})
