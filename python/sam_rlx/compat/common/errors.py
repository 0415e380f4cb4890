"""Errors of the library that are also what upstream raises there."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sam_rlx.errors import InvalidArgumentError, SamRlxError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class ArgumentAssertionError(InvalidArgumentError, AssertionError):
    """Upstream asserts this about an argument."""


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """Upstream raises `TypeError` about an argument."""


class ArgumentIndexError(InvalidArgumentError, IndexError):
    """Upstream raises `IndexError` about an argument."""


class ArgumentKeyError(InvalidArgumentError, KeyError):
    """Upstream raises `KeyError` about an argument."""


class ArgumentAttributeError(InvalidArgumentError, AttributeError):
    """Upstream raises `AttributeError` about an argument."""


class ArgumentArithmeticError(InvalidArgumentError, OverflowError, ZeroDivisionError):
    """Upstream raises `OverflowError` or `ZeroDivisionError` about an argument."""


class ArgumentRuntimeError(InvalidArgumentError, RuntimeError):
    """Upstream raises `RuntimeError` about an argument: shapes that do not fit together."""


class NoFramesError(InvalidArgumentError, RuntimeError):
    """Upstream raises `RuntimeError` for a folder without frames."""


_ERRORS: dict[type[Exception], type[InvalidArgumentError]] = {
    AssertionError: ArgumentAssertionError,
    TypeError: ArgumentTypeError,
    IndexError: ArgumentIndexError,
    KeyError: ArgumentKeyError,
    AttributeError: ArgumentAttributeError,
    ArithmeticError: ArgumentArithmeticError,
    ValueError: InvalidArgumentError,
}


def require(condition: bool, text: str) -> None:
    """Raise an `AssertionError` of ours where upstream asserts, also under ``python -O``."""
    if not condition:
        raise ArgumentAssertionError(text)


def expects(
    expected: str,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Tell errors about the arguments of a helper as ours; their types stay what they were.

    Upstream's helpers check nothing and fail somewhere inside, and programs may catch what they
    raise there.

    Parameters
    ----------
    expected : str
        The arguments that the helper takes.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @functools.wraps(function)
        def told(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            try:
                return function(*args, **kwargs)
            except SamRlxError:
                raise
            except tuple(_ERRORS) as error:
                kind = next(_ERRORS[base] for base in type(error).__mro__ if base in _ERRORS)
                where, words = function.__name__, str(error) or type(error).__name__
                raise kind(f"{where}: expected {expected}, found {words}") from error

        return told

    return decorate
