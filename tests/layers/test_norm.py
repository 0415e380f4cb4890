import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity


@pytest.mark.parametrize("shape", [(1, 5, 7, 64), (3, 1, 1, 13), (2, 4, 4, 256), (1, 1, 9, 1)])
def test_layer_norm_2d(parity, shape):
    def adapt(module, x):
        return upstream.channels_last(module(upstream.channels_first(x)))

    config = {"num_channels": shape[-1], "eps": 1e-6}
    module = upstream.sam.LayerNorm2d(**config)
    parity.check("layers.LayerNorm2d", module, config, adapt=adapt, x=shape)
