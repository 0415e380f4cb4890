"""Make the published packages importable beside any PyTorch, as for the package's own tests."""

import sys

import pytest
import support.upstream  # noqa: F401

# Compilers look for triton once: before the reference packages get a stand-in for it.
import torch._inductor.runtime.triton_compat  # noqa: F401


@pytest.fixture
def no_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the stand-in for triton, which compilers would take for the real one."""
    if not hasattr(sys.modules.get("triton"), "__version__"):
        for name in ("triton", "triton.language"):
            monkeypatch.delitem(sys.modules, name, raising=False)
