"""Values of upstream's YAML configs and of Hydra's overrides, as Hydra reads them."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sam_rlx._packages import optional
from sam_rlx.errors import InvalidArgumentError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
_REFERENCE = re.compile(r"\$\{([\w.]+)\}$")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the fields below ``model``, by their names joined by dots."""
    yaml = optional(str(path), "yaml", "pyyaml")
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{path}: expected YAML, found {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("model"), dict):
        found = (
            sorted(map(str, document)) if isinstance(document, dict) else type(document).__name__
        )
        raise InvalidArgumentError(
            f"{path}: expected the fields of a model under model, found {found}"
        )
    return {name: _resolve(value, document, path) for name, value in flatten(document["model"])}


def flatten(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested dicts with their names, joined by dots."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _resolve(value: Any, document: Mapping[str, Any], path: Path, depth: int = 0) -> Any:
    """Return a value as upstream's reader gives it: numbers, and what ``${a.b}`` refers to."""
    if isinstance(value, list):
        return [_resolve(each, document, path, depth) for each in value]
    if not isinstance(value, str):
        return value
    reference = _REFERENCE.match(value)
    if reference is None:
        return _number(value)
    found: Any = document
    for part in reference[1].split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if found is None or isinstance(found, dict) or depth > 20:
        raise InvalidArgumentError(f"{path}: expected a value for {value}, found none")
    return _resolve(found, document, path, depth + 1)


def _number(text: str) -> Any:
    """Return the number that a text is, else the text: PyYAML takes 1e-6 for a text."""
    if not _NUMBER.match(text):
        return text
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
        except ValueError as error:
            raise InvalidArgumentError(
                f"hydra_overrides_extra: expected a list of numbers, found {text!r}"
            ) from error
    return _number(text.strip("'\""))
