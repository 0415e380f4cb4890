"""Errors and warnings of the library. The text has the form ``where: expected X, found Y``."""

__all__ = [
    "CheckpointError",
    "HubError",
    "InternalError",
    "InvalidArgumentError",
    "MediaWarning",
    "MissingExtraError",
    "SamRlxError",
    "StateError",
    "TruncationWarning",
    "UnsupportedError",
]


def printable(text: str, keep: str = "") -> str:
    r"""Write what a terminal could obey or cannot show as backslash escapes.

    Control characters, characters that change the direction of text, and bytes of file names that
    are no UTF-8 become ``\\x1b``, ``\\u202e``, ``\\udcff``.

    Parameters
    ----------
    text : str
        Any text, such as the name of a tensor or a file.
    keep : str
        Characters that stay as they are, such as the line ends between several names.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


class SamRlxError(Exception):
    """Base of every error of this package."""

    def __str__(self) -> str:
        """Return the text; what a terminal could obey in names from files is escaped."""
        # KeyError, which a subclass may be too, would show its text in quotation marks.
        text = str(self.args[0]) if len(self.args) == 1 else super().__str__()
        return printable(text, keep="\n")


class InvalidArgumentError(SamRlxError, ValueError):
    """A shape, dtype, range or combination of arguments is wrong."""


class CheckpointError(SamRlxError, ValueError):
    """A checkpoint file is damaged, or its tensors are not those of the model."""


class UnsupportedError(SamRlxError, NotImplementedError):
    """Well formed, but not supported here: a variant, dtype or instruction set."""


class StateError(SamRlxError, RuntimeError):
    """Wrong order of calls (predict before ``set_image``), or the object is in use."""


class InternalError(SamRlxError, RuntimeError):
    """The library broke a promise of its own. Please report it."""


class MissingExtraError(SamRlxError, ImportError):
    """An optional dependency is not installed. The text names the extra that brings it."""


class HubError(SamRlxError, OSError):
    """A model on the hub cannot be had: it is unknown, gated, or neither cached nor reachable."""


class TruncationWarning(UserWarning):
    """A text has more tokens than the text encoder takes; the rest of it has no effect."""


class MediaWarning(UserWarning):
    """An image or video is read in a way that may not be meant: its range, pages or end."""


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
