"""The known name that a wrong one was probably meant to be."""

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: a question, or nothing if none is near."""
    import difflib  # for errors alone

    names = {_plain(name): name for name in known}
    found = difflib.get_close_matches(_plain(word), names, 1)
    return f": did you mean {names[found[0]]}?" if found else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")
