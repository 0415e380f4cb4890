"""What systems differ in, for marks of tests."""

from __future__ import annotations

import os

import pytest

# Root reads and writes what others may not. Windows has no such user.
IS_ROOT = getattr(os, "geteuid", lambda: -1)() == 0
posix_only = pytest.mark.skipif(
    os.name != "posix", reason="named pipes, signals, mode bits or links of POSIX"
)
# AddressSanitizer keeps memory beside every block, and reserves much of the address space.
without_asan = pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer takes more memory"
)
