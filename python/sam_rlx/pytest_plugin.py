"""A pytest plug-in: a checkpoint against upstream, one test for each stage (extra ``parity``).

Ask for it in a ``conftest.py``: ``pytest_plugins = ["sam_rlx.pytest_plugin"]``, and mark a test
with the checkpoint::

    @pytest.mark.sam_rlx_parity("my_sam2.pt", images=["cup.jpg"])
    def test_parity(sam_rlx_parity):
        sam_rlx_parity().check()

It becomes a test for each stage, which may run in different processes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

__all__ = ["sam_rlx_parity"]

_MARKER = "sam_rlx_parity"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(checkpoint, images=None, **options): run the test for each stage of "
        "sam_rlx.parity.check",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a marked test a run for each stage."""
    marker = metafunc.definition.get_closest_marker(_MARKER)
    if _MARKER not in metafunc.fixturenames or marker is None:
        return
    from sam_rlx.apps.parity.choice import stages_of

    wanted = marker.kwargs.get("stages", "all")
    if wanted == "all":
        wanted = stages_of(marker.args[0], marker.kwargs.get("reference", "auto"))
    stages = [wanted] if isinstance(wanted, str) else wanted
    metafunc.parametrize(_MARKER, list(stages), indirect=True)


@pytest.fixture
def sam_rlx_parity(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Give `sam_rlx.parity.check`; with the marker, on its checkpoint and one stage.

    The test is skipped where PyTorch or upstream's package is not installed.

    Examples
    --------
    ``sam_rlx_parity("sam_vit_b_01ec64.pth", "image.jpg", stages=["image", "point"]).check()``
    """
    pytest.importorskip("torch", reason="needs PyTorch")
    from sam_rlx import parity

    marker = request.node.get_closest_marker(_MARKER)
    if marker is None:
        return parity.check
    options = {**marker.kwargs, "stages": [request.param]}
    return partial(parity.check, *marker.args, **options)
