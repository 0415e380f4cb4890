"""Checksums of archives, beside zlib's."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from sam_rlx import _testing

BYTES = np.random.default_rng(0).integers(0, 256, 100_003, np.uint8).tobytes()


@pytest.mark.parametrize("by_tables", [True, False], ids=["tables", "products"])
def test_checksums_are_zlibs(by_tables: bool) -> None:
    pieces = [BYTES[begin : begin + size] for size in range(400) for begin in (0, 1, 7, 4099)]
    pieces += [BYTES, BYTES[3:], bytes(1000), b"\xff" * 1000]
    for piece in pieces:
        found = _testing.crc32(piece, by_tables=by_tables)
        assert found == zlib.crc32(piece), len(piece)
