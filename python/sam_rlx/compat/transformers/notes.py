"""Warnings about what a program gives and what has no effect: each is told once."""

from __future__ import annotations

import warnings

from sam_rlx._internal.public import public_names


class IgnoredWarning(UserWarning):
    """An argument has no effect, or less than its name says."""


_told: set[str] = set()


def warn_once(words: str, stacklevel: int = 3) -> None:
    """Warn about something that is ignored, at the first time in a process."""
    if words not in _told:
        _told.add(words)
        warnings.warn(words, IgnoredWarning, stacklevel=stacklevel)


__dir__ = public_names(__name__)
