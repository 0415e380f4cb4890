"""Classes of programs that override methods which upstream calls and the core does not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sam_rlx.errors import UnsupportedError


def refuse_overrides(instance: Any, base: type, names: Iterable[str], instead: str) -> None:
    """Raise `UnsupportedError` for the first method that is not that of `base`.

    Parameters
    ----------
    instance : object
        Of `base`, or of a class of the program.
    base : type
        Whose methods, or missing ones, are taken.
    names : iterable of str
        Methods of upstream's that nothing here calls.
    instead : str
        What the program can do.
    """
    own = getattr(instance, "__dict__", {})
    for name in names:
        if name in own or getattr(type(instance), name, None) is not getattr(base, name, None):
            raise UnsupportedError(
                f"{type(instance).__name__}.{name}: expected the method of {base.__name__}, found "
                f"another one, which would not be called: {instead}"
            )
