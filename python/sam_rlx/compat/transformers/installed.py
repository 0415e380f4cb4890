"""The transformers that is installed, for what is not of the Segment Anything family."""

from __future__ import annotations

import importlib
from typing import Any

from sam_rlx._internal.public import public_names
from sam_rlx.errors import MissingExtraError

_PACKAGE = "transformers"
_OURS = "sam_rlx."


def of_installed(name: str) -> Any:
    """Return a name of the installed transformers.

    Raises
    ------
    ImportError
        It is not installed.
    AttributeError
        It has no such name.
    """
    try:
        module = importlib.import_module(_PACKAGE)
    except ImportError as error:
        raise _missing(name, error) from error
    if module.__name__.startswith(_OURS):
        raise _missing(name, "none")
    found = getattr(module, name)
    if not str(getattr(found, "__module__", "")).startswith(_OURS):
        return found
    # The names of the package are ours: `patch`. Its own way of loading one writes it there.
    original = type(module).__getattr__(module, name)
    setattr(module, name, found)
    return original


def _missing(name: str, found: object) -> MissingExtraError:
    return MissingExtraError(
        f"{name}: expected one of the classes that docs/compat.md lists, or an installed "
        f"transformers, which has the others (pip install transformers), found {found}"
    )


__dir__ = public_names(__name__)
