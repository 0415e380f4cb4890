"""The packaged models beside the trained ones."""

from __future__ import annotations

import pytest
import torch

from training import export, pack


@pytest.mark.parametrize("name", pack.OVERRIDES)
def test_a_packed_model_is_close_to_the_trained_one(name: str) -> None:
    """No weight is further off than its format's step."""
    trained = export.load(pack.TRAINED / f"{name}.safetensors")
    packed = export.load(pack.ASSETS / f"{name}.gguf")
    assert packed.config == trained.config
    expected = trained.state_dict()
    for key, found in packed.state_dict().items():
        error = (found - expected[key]).abs().max()
        coarse = "token_embedding" in key or "boxes_pool_project" in key
        assert error <= expected[key].abs().max() * (0.13 if coarse else 0.005), key
    assert not all(torch.equal(packed.state_dict()[key], expected[key]) for key in expected)
    assert all(torch.isfinite(value).all() for value in packed.state_dict().values())
