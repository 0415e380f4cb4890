"""Packages that sam_rlx can do without, imported where they are needed."""

import importlib
from typing import Any

from sam_rlx.errors import MissingExtraError


def optional(where: str, module: str, package: str) -> Any:
    """Import a module of an optional package.

    Parameters
    ----------
    where : str
        What the text of the error begins with.
    module : str
        What is imported.
    package : str
        Its name on the index. The error names it, and not an extra of sam_rlx: an extra is
        installed otherwise from a checkout than from the index.

    Raises
    ------
    MissingExtraError
        It is not installed, or cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{where}: expected the package {package} (pip install {package}), found {error}"
        ) from error
