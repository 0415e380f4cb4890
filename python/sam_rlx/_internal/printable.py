"""Text from files and users, fit for a terminal."""

from typing import Any

from sam_rlx.errors import printable as printable

_MAX_SHOWN = 500  # characters


def shown(value: Any) -> str:
    """Return a value as an error shows it, also one that has no text, such as a huge integer."""
    try:
        text = repr(value)
    except Exception:
        return f"a value of {type(value).__name__} without a text"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def with_model(owner: object, model: Any, *parts: str) -> str:
    """Return the text of an object that runs a model, and what it works on."""
    name = f"{type(owner).__name__} {model.family} {model.variant}"
    return f"<{', '.join([name, *parts])}>"
