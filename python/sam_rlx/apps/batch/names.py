"""Names of files that are apart on every file system."""

from collections.abc import Sequence

from sam_rlx._internal.files.inputs import unique


def apart(names: Sequence[str]) -> list[str]:
    """Return names no two of which are equal, also where capitals make no difference.

    The first of equal ones stays as it is.
    """
    folded = [name.casefold() for name in names]
    return [
        name if free == plain else free
        for name, plain, free in zip(names, folded, unique(folded), strict=True)
    ]
