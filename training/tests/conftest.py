"""Make the published packages importable beside any PyTorch, as for the package's own tests."""

import sys
import zlib

import pytest
import support.upstream  # noqa: F401
import torch

# Compilers look for triton once: before the reference packages get a stand-in for it.
import torch._inductor.runtime.triton_compat


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """Seed PyTorch's numbers by the test's name, so that no other test changes them."""
    torch.manual_seed(zlib.crc32(request.node.name.encode()))


@pytest.fixture
def no_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the stand-in for triton, which compilers would take for the real one."""
    if not hasattr(sys.modules.get("triton"), "__version__"):
        for name in ("triton", "triton.language"):
            monkeypatch.delitem(sys.modules, name, raising=False)
