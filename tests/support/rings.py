"""Where Python modules of the package may go: rings around `_core`, and rooms inside of them.

Modules are named without ``sam_rlx.`` here; the package itself is "".
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = "sam_rlx"
Edge = tuple[str, str]

DOORS = ("batch", "parity", "pytest_plugin", "widget")
LIBRARY = (
    *("", "concept", "conversion", "frames", "generator", "image", "io", "model", "tokenizer"),
    *("video", "viz"),
)
# By the first parts of a name; the longest that fits counts.
RINGS = {
    **dict.fromkeys(("errors", "_core"), 0),
    "_internal": 1,
    **dict.fromkeys(LIBRARY, 2),
    **dict.fromkeys(("apps", "compat"), 3),
    **dict.fromkeys(DOORS, 4),
    **dict.fromkeys(("apps.cli", "__main__"), 5),
}

_ALONE = ("extension", "nearest", "packages", "printable", "public", "text")
_WORDS = {"packages", "printable"}
# What each room of `_internal` may import besides itself; a room is a folder, or a module beside
# them.
ROOMS: dict[str, set[str]] = {
    **{name: set() for name in _ALONE},
    "synonyms": {"printable"},
    "arrays": {"printable"},
    "progress": {"arrays", "printable"},
    "files": {"arrays", *_WORDS},
    "formats": {"files", "arrays", *_WORDS},
    "media": {"files", "arrays", *_WORDS},
    "drawing": {"media", "files", "arrays", *_WORDS},
    "weights": {"files", "arrays", "progress", "nearest", *_WORDS},
    "options": {"arrays", "weights", *_WORDS},
    "image_embeddings": {"options", "files", "arrays", *_WORDS},
    "results": {"drawing", "media", "formats", "files", "arrays", *_WORDS},
    "text_prompts": {"arrays", *_WORDS},
    "tiling": {"media", "files", "arrays", *_WORDS},
}


def modules(root: Path) -> dict[str, Path]:
    """Return the modules of a package by name."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(text: str, known: Iterable[str]) -> Iterator[str]:
    """Yield the modules of the package that a source imports, but for those of type checkers."""
    known = {*known, "_core", "_testing"}
    for node in _nodes(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            package, _, module = name.partition(".")
            if package == PACKAGE:
                yield module if module in known else module.rpartition(".")[0]


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from (other, *_nodes(other))
        else:
            yield node
            yield from _nodes(node)


def edges(root: Path) -> set[Edge]:
    """Return who imports whom."""
    found = modules(root)
    return {
        (name, target)
        for name, path in found.items()
        for target in imports(path.read_text(), found)
        if target != name
    }


def ring(module: str) -> int:
    """Return the number of a module's ring; KeyError for one at the root that has none."""
    parts = module.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        if name in RINGS:
            return RINGS[name]
    raise KeyError(f"{module}: expected a module of a ring, found one more at the root")


def fault(edge: Edge) -> str | None:
    """Return what is wrong with an import, if anything."""
    source, target = edge
    inner, outer = ring(target), ring(source)
    if inner > outer:
        return f"{source} -> {target}: outward, from ring {outer} to ring {inner}"
    if inner == outer == 0:
        return f"{source} -> {target}: ring 0 imports nothing of the package"
    if inner == outer == 1:
        here, there = source.split(".")[1:2], target.split(".")[1:2]
        if there and here != there and there[0] not in ROOMS[here[0]]:
            return f"{source} -> {target}: {here[0]} may import {sorted(ROOMS[here[0]])}"
    if inner == outer == 3 and not _may_meet(source, target):
        return f"{source} -> {target}: between apps or drop-in packages"
    return None


def _may_meet(source: str, target: str) -> bool:
    (kind, *here), (other, *there) = source.split(".")[:2], target.split(".")[:2]
    if kind != other:
        return False
    if here == there or not there:
        return True
    if kind == "apps":
        return (here, there) == (["serve"], ["annotator"])
    if (here, there) == (["segment_anything_hq"], ["segment_anything"]):
        return True  # as upstream's package, it is the other one and a little more
    return there == ["common"]


def circle(found: Iterable[Edge]) -> list[str]:
    """Return modules that import each other in a circle; none: an empty list."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for source, target in found:
        sorter.add(source, target)
    try:
        sorter.prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
