import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity


@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("rows", [0, 1, 3, 17])
def test_mlp(parity, num_layers, rows):
    config = {"input_dim": 24, "hidden_dim": 40, "output_dim": 5, "num_layers": num_layers}
    parity.check("layers.MLP", upstream.sam.MLP(**config), config, x=(rows, 24))
