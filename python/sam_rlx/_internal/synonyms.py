"""Other names of arguments, which another class or an earlier version has for the same thing."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from sam_rlx.errors import InvalidArgumentError

_Target = TypeVar("_Target", bound=Callable[..., Any])


def also(**names: str) -> Callable[[_Target], _Target]:
    """Let a function, or the constructor of a class, take arguments by other names too.

    Parameters
    ----------
    **names : str
        By other name: the name that the signature has. `docs/coming_from.md` lists them all.

    Examples
    --------
    >>> @also(colour="color")
    ... def paint(color):
    ...     return color
    >>> paint(colour="red")
    'red'
    """

    def decorate(target: _Target) -> _Target:
        if inspect.isclass(target):
            target.__init__ = decorate(target.__init__)  # type: ignore[method-assign]
            return target

        @functools.wraps(target)
        def call(*args: Any, **kwargs: Any) -> Any:
            for other in names.keys() & kwargs.keys():
                if names[other] in kwargs:
                    raise InvalidArgumentError(
                        f"{names[other]}: expected it once, found it as {other} too"
                    )
                kwargs[names[other]] = kwargs.pop(other)
            return target(*args, **kwargs)

        call.__synonyms__ = names  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate
