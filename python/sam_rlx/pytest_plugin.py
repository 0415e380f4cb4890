"""A pytest plug-in: a fixture that compares a checkpoint with upstream (extra ``parity``).

Ask for it in a ``conftest.py``: ``pytest_plugins = ["sam_rlx.pytest_plugin"]``.
"""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def sam_rlx_parity() -> Callable[..., Any]:
    """Give `sam_rlx.parity.compare`; skip the test if PyTorch is not installed.

    Examples
    --------
    ``sam_rlx_parity("sam_vit_b_01ec64.pth", "image.jpg", point=(500, 375)).check()``
    """
    pytest.importorskip("torch", reason="needs PyTorch")
    from sam_rlx import parity

    return parity.compare
