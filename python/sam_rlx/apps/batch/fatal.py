"""Errors that end a batch, not one item: how they are told from others, and how they travel."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sam_rlx import errors
from sam_rlx.errors import InternalError

# A full disk or too many open files: of the machine, whichever file they are met with.
_OF_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class ResultsError(Exception):
    """The folder of results cannot be read or written; the cause is an `OSError`."""


@contextmanager
def results() -> Iterator[None]:
    """Raise `ResultsError` for errors of the disk in the block, which is about results alone."""
    try:
        yield
    except OSError as error:
        raise ResultsError(str(error)) from error


def ends_the_batch(error: Exception) -> bool:
    """Tell whether an error at an item would be met at others too."""
    if isinstance(error, OSError):
        return error.errno in _OF_MACHINE
    return isinstance(error, (errors.MissingExtraError, ResultsError))


def told(error: BaseException) -> dict[str, Any]:
    """Return an error as a dict that ``json`` can write."""
    if isinstance(error, ResultsError) and error.__cause__ is not None:
        error = error.__cause__
    answer: dict[str, Any] = {"fatal": type(error).__name__, "text": str(error)}
    if isinstance(error, OSError) and error.errno is not None:
        name = None if error.filename is None else str(error.filename)
        answer["system"] = [error.errno, error.strerror, name]
    return answer


def raised(answer: dict[str, Any]) -> Exception:
    """Return the error that a worker has told of."""
    if "system" in answer:
        return OSError(*answer["system"])
    kinds = {**vars(errors), "OSError": OSError, "MemoryError": MemoryError}
    kind = kinds.get(answer["fatal"])
    if isinstance(kind, type) and issubclass(kind, Exception):
        return kind(answer["text"])
    found = f"{answer['fatal']}: {answer['text']}"
    return InternalError(f"batch: expected a worker to go on, found {found}")
