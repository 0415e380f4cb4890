"""Values of upstream's YAML configs and of Hydra's overrides, as Hydra reads them."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sam_rlx._internal.packages import optional
from sam_rlx.errors import InvalidArgumentError

_MAX_BYTES = 1 << 16  # of a config; upstream's have 4 kB
_MAX_VALUES = 10_000  # of a config, each as often as it is referred to
_MAX_DEPTH = 100  # of brackets: PyYAML's time grows with its square
_MAX_DIGITS = 300
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
_REFERENCE = re.compile(r"\$\{([\w.]+)\}$")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the fields below ``model``, by their names joined by dots."""
    yaml = optional(str(path), "yaml", "pyyaml")
    document = _document(yaml, path)
    if not isinstance(document, dict) or not isinstance(document.get("model"), dict):
        found = (
            sorted(map(str, document)) if isinstance(document, dict) else type(document).__name__
        )
        raise InvalidArgumentError(
            f"{path}: expected the fields of a model under model, found {found}"
        )
    resolver = _Resolver(document, path)
    return {name: resolver.value(value) for name, value in flatten(document["model"])}


def _document(yaml: Any, path: Path) -> Any:
    """Read YAML of strangers: what refers to other parts is counted before it is made."""
    with path.open("rb") as file:
        text = file.read(_MAX_BYTES + 1)
    if len(text) > _MAX_BYTES:
        raise InvalidArgumentError(f"{path}: expected at most {_MAX_BYTES} bytes, found more")
    try:
        _check_depth(text)
        loader = yaml.SafeLoader(text.decode("utf-8"))
        node = loader.get_single_node()
        if node is None:
            return None
        if _count(node, {}) > _MAX_VALUES:
            raise ValueError(f"more than {_MAX_VALUES} values")
        return loader.construct_document(node)
    # PyYAML leaves to Python what is wrong in numbers, dates and tags.
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(f"{path}: expected YAML, found {error}") from error
    except (RecursionError, OverflowError) as error:
        raise InvalidArgumentError(
            f"{path}: expected YAML, found {type(error).__name__}"
        ) from error


def _check_depth(text: bytes) -> None:
    depth = 0
    for bracket in re.findall(rb"[\[\]{}]", text):
        depth = depth + 1 if bracket in b"[{" else max(depth - 1, 0)
        if depth > _MAX_DEPTH:
            raise ValueError(f"more than {_MAX_DEPTH} brackets in each other")


def _count(node: Any, known: dict[int, int | None]) -> int:
    """Count the values of a node of YAML, those of an alias each time; ValueError in a circle."""
    if id(node) not in known:
        known[id(node)] = None
        children = node.value if isinstance(node.value, list) else []
        known[id(node)] = 1 + sum(
            _count(part, known)
            for child in children
            for part in (child if isinstance(child, tuple) else (child,))
        )
    count = known[id(node)]
    if count is None:
        raise ValueError("a value that has itself as a part")
    return count


def flatten(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested dicts with their names, joined by dots."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


class _Resolver:
    """Gives values as upstream's reader does: numbers, and what ``${a.b}`` refers to."""

    def __init__(self, document: Mapping[str, Any], path: Path) -> None:
        self._document = document
        self._path = path
        self._left = _MAX_VALUES

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return a value with all that it refers to."""
        self._left -= 1
        if self._left < 0:
            raise InvalidArgumentError(
                f"{self._path}: expected at most {_MAX_VALUES} values, found more"
            )
        if isinstance(value, list):
            return [self.value(each, depth) for each in value]
        if not isinstance(value, str):
            return value
        reference = _REFERENCE.match(value)
        if reference is None:
            return _number(value)
        found: Any = self._document
        for part in reference[1].split("."):
            found = found.get(part) if isinstance(found, dict) else None
        if found is None or isinstance(found, dict) or depth > 20:
            raise InvalidArgumentError(
                f"{self._path}: expected a value for {value[:100]}, found none"
            )
        return self.value(found, depth + 1)


def _number(text: str) -> Any:
    """Return the number that a text is, else the text: PyYAML takes 1e-6 for a text."""
    if not _NUMBER.match(text):
        return text
    if len(text) > _MAX_DIGITS:
        raise InvalidArgumentError(
            f"config: expected numbers of at most {_MAX_DIGITS} digits, found {len(text)}"
        )
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def parse_override(override: str) -> tuple[str, Any]:
    """Read one of Hydra's overrides: the field below ``model`` and its value."""
    name, equals, text = override.lstrip("+").partition("=")
    if not equals or not name.startswith("model."):
        raise InvalidArgumentError(
            "hydra_overrides_extra: expected fields of the model, such as "
            f"'++model.image_size=512', found {override!r}"
        )
    return name.removeprefix("model."), _parse_value(text.strip())


def _parse_value(text: str) -> Any:
    """Read a value as Hydra does: numbers, booleans in any case, null, lists, texts."""
    words = {"true": True, "false": False, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    if text.startswith("["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentError(
                f"hydra_overrides_extra: expected a list of numbers, found {text[:100]!r}"
            ) from error
    return _number(text.strip("'\""))
