"""Which names are public, and where each has its page."""

import argparse
import importlib
import inspect
import pkgutil
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import sam_rlx
from sam_rlx.apps.cli import build_parser

# Modules without a page: the apps (the command line has pages of its own), and those of the drop-in
# packages that upstream has not.
_INNER = {
    "sam_rlx.apps",
    "sam_rlx.compat.common",
    "sam_rlx.compat.sam2.config_file",
    "sam_rlx.compat.sam2.config_values",
    "sam_rlx.compat.sam2.video_frames",
    "sam_rlx.compat.sam3.model.video_frames",
}


@dataclass(frozen=True)
class Entry:
    """A public name of a module, and what it stands for.

    `path` is the name that has the page: the shortest under which the object can be had.
    """

    name: str
    path: str
    value: Any

    @property
    def module(self) -> str:
        """The module of the page."""
        return self.path.rpartition(".")[0]

    @property
    def kind(self) -> str:
        """Directive of autodoc."""
        if inspect.isclass(self.value):
            return "autoexception" if issubclass(self.value, BaseException) else "autoclass"
        return "autofunction" if callable(self.value) else "autodata"


def module_names() -> list[str]:
    """Return the names of the public modules, the package first."""
    found = ["sam_rlx"]
    for entry in pkgutil.walk_packages(sam_rlx.__path__, "sam_rlx."):
        parts = entry.name.split(".")
        inner = any(entry.name == name or entry.name.startswith(f"{name}.") for name in _INNER)
        if not inner and not any(part.startswith("_") for part in parts):
            found.append(entry.name)
    return found


def public_names(module: ModuleType) -> list[str]:
    """Return `__all__`, or what a module without it defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


def entries() -> dict[str, list[Entry]]:
    """Return the public names of each public module; what several have has one page."""
    found: dict[str, list[Entry]] = {}
    pages: dict[int, tuple[str, str]] = {}  # module and name of what has a page
    modules = [importlib.import_module(name) for name in module_names()]
    for module in sorted(modules, key=lambda module: module.__name__.count(".")):
        own = module.__name__
        for name in public_names(module):
            value = getattr(module, name)
            if inspect.ismodule(value):
                continue
            home = own, name
            if callable(value):
                first = pages.setdefault(id(value), home)
                home = home if first[0] == own else first
            found.setdefault(own, []).append(Entry(name, ".".join(home), value))
    return {name: found[name] for name in module_names() if name in found}


def commands() -> tuple[argparse.ArgumentParser, argparse._SubParsersAction]:
    """Return the parser of ``sam-rlx`` and those of its commands."""
    parser = build_parser()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return parser, action
    raise LookupError("sam-rlx: expected commands, found none")


def command_names() -> list[str]:
    """Return the names of the commands."""
    return list(commands()[1].choices)
