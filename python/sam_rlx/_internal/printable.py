"""Text from files and users, fit for a terminal."""

from typing import Any

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


def printable(text: str, keep: str = "") -> str:
    r"""Write what a terminal could obey or cannot show as backslash escapes.

    Control characters, characters that change the direction of text, and bytes of file names that
    are no UTF-8 become ``\\x1b``, ``\\u202e``, ``\\udcff``.

    Parameters
    ----------
    text : str
        Any text, such as the name of a tensor or a file.
    keep : str
        Characters that stay as they are, such as the line ends between several names.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )
