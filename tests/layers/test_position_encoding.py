import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity


def table(module, x):
    module.cache = {}  # tables of another precision
    return module(upstream.channels_first(x))[0].permute(1, 2, 0)


@pytest.mark.parametrize("features", [4, 12, 64, 256])
@pytest.mark.parametrize("hw", [(1, 1), (8, 8), (5, 9), (64, 64)])
def test_position_embedding_sine(parity, features, hw):
    module = upstream.sam2.PositionEmbeddingSine(num_pos_feats=features)
    config = {"num_pos_feats": features}
    parity.check(
        "layers.PositionEmbeddingSine", module, config, adapt=table, seeds=(0,), x=(1, *hw, 2)
    )


def test_width_is_a_multiple_of_four(testing):
    import numpy as np

    layer = testing.layer("layers.PositionEmbeddingSine", {"num_pos_feats": 6}, {})
    with pytest.raises(ValueError, match="num_pos_feats: expected a multiple of 4, found 6"):
        layer.forward(x=np.zeros((1, 2, 2, 1), np.float32))
