"""Errors of the library that are also what upstream raises in the same place."""

from sam_rlx.errors import InvalidArgumentError


class ArgumentAssertionError(InvalidArgumentError, AssertionError):
    """Upstream asserts this about an argument."""


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """Upstream raises `TypeError` about an argument."""


class NoFramesError(InvalidArgumentError, RuntimeError):
    """Upstream raises `RuntimeError` for a folder without frames."""
