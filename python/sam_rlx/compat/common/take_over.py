"""Upstream's names for the drop-ins, so that programs run without a changed line."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from sam_rlx._internal.packages import DROP_INS, SHARED, installed_originals
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common import devices
from sam_rlx.errors import InvalidArgumentError, StateError

SHIMS = Path(__file__).parents[1] / "shims"
_DROP_INS = "sam_rlx.compat."
# Packages that run beside their drop-ins: an installed one keeps all names that these have not.
_PATCHED = ("transformers",)


class _Loader:
    """Gives a drop-in's module for upstream's name: one module under two names."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_DROP_INS + spec.name)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec again, which the import system has written over."""
        written = module.__spec__
        module.__spec__ = None if written is None else written.loader_state


class _Patcher:
    """Loads an installed package, and gives it the names of its drop-in."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._original.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the package, which may put another module in its own position."""
        self._original.exec_module(module)
        importlib.import_module(_DROP_INS + module.__name__).patch(sys.modules[module.__name__])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


class _Finder:
    """Finds upstream's names, before all others do."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        """Return the spec of a drop-in's module, if there is one of this name."""
        ours = _DROP_INS + name
        if name.partition(".")[0] not in self.names:
            return None
        package = name.partition(".")[0]
        if package in _PATCHED and (original := _original(package)) is not None:
            return original if name == package else None
        if ours not in sys.modules and importlib.util.find_spec(ours) is None:
            return None
        return ModuleSpec(name, _Loader())  # type: ignore[arg-type]


@functools.cache
def _original(name: str) -> ModuleSpec | None:
    """Return the spec of an installed package, which then gets our names; None: there is none."""
    paths = [path for path in sys.path if not Path(path or ".").resolve().is_relative_to(SHIMS)]
    spec = PathFinder.find_spec(name, paths)
    if spec is not None:
        spec.loader = _Patcher(spec.loader)  # type: ignore[assignment]
    return spec


_FINDER = _Finder()


def install(*names: str) -> None:
    """Give upstream's names to the drop-ins, for the imports that follow in this process.

    Any device is taken then, with one warning that all is computed on the CPU. Child processes
    need ``python -m sam_rlx.compat``.

    Parameters
    ----------
    *names : str
        ``"segment_anything"``, ``"segment_anything_hq"``, ``"sam2"``, ``"sam3"``,
        ``"ultralytics"``, ``"transformers"``. Default: all, the last two if no package of this name
        is installed, since they have other networks too. An installed transformers keeps all names
        that its drop-in has not.

    Raises
    ------
    InvalidArgumentError
        A name is none of these.
    StateError
        A name was imported already, from upstream's package.
    """
    for name in names:
        if name not in DROP_INS + SHARED:
            raise InvalidArgumentError(
                f"install: expected names of {DROP_INS + SHARED}, found {name!r}"
            )
    wanted = names or default_names()
    for name in wanted:
        module = sys.modules.get(name)
        if module is not None and not module.__name__.startswith(_DROP_INS):
            where = getattr(module, "__file__", None)
            raise StateError(
                f"install: expected to come before the import of {name}, found it imported from "
                f"{where}; begin a new process or restart the notebook"
            )
    _FINDER.names.update(wanted)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    devices.take_any()


def default_names() -> tuple[str, ...]:
    """Return the names that are taken if none are given."""
    installed = installed_originals()
    return DROP_INS + tuple(name for name in SHARED if installed[name] is None)


def replace(name: str) -> None:
    """Put the drop-in where the shim is that is being imported under this name."""
    del sys.modules[name]
    install(name)
    importlib.import_module(name)


__dir__ = public_names(__name__)
