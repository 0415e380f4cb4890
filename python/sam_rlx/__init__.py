"""Segment Anything on ordinary CPUs."""

from sam_rlx.errors import (
    CheckpointError,
    InternalError,
    InvalidArgumentError,
    SamRlxError,
    StateError,
    UnsupportedError,
)

__all__ = [
    "CheckpointError",
    "InternalError",
    "InvalidArgumentError",
    "SamRlxError",
    "StateError",
    "UnsupportedError",
]
