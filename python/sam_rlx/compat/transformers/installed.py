"""The transformers that is installed, for what is not of the Segment Anything family."""

from __future__ import annotations

import importlib
from typing import Any

from sam_rlx._internal.public import public_names
from sam_rlx.errors import MissingExtraError

_PACKAGE = "transformers"


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
        raise MissingExtraError(
            f"{name}: expected one of the classes that docs/compat.md lists, or an installed "
            f"transformers, which has the others (pip install transformers), found {error}"
        ) from error
    return getattr(module, name)


__dir__ = public_names(__name__)
