"""The two-way transformer. Maps are (B, M, C) tokens on our side."""

import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity


@pytest.mark.parametrize("rate", [1, 2])
@pytest.mark.parametrize(("heads", "tokens"), [(1, 3), (4, 7), (8, 1)])
def test_attention_among_tokens(parity, rate, heads, tokens):
    config = {"embedding_dim": 32, "num_heads": heads, "downsample_rate": rate}
    shape = (2, tokens, 32)
    module = upstream.sam.DecoderAttention(**config)
    parity.check("sam.DecoderAttention", module, config, q=shape, k=shape, v=shape)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("batch", "tokens", "places", "width", "heads"),
    [(1, 7, 64, 64, 8), (3, 5, 16, 32, 4), (2, 1, 9, 48, 1), (1, 22, 35, 64, 8)],
)
def test_two_way_attention_block(parity, first, batch, tokens, places, width, heads):
    sizes = {"embedding_dim": width, "num_heads": heads, "mlp_dim": 3 * width}
    config = {**sizes, "attention_downsample_rate": 2, "skip_first_layer_pe": first}
    queries, keys = (batch, tokens, width), (batch, places, width)
    module = upstream.sam.TwoWayAttentionBlock(**config)
    parity.check(
        "sam.TwoWayAttentionBlock",
        module,
        config,
        queries=queries,
        keys=keys,
        query_pe=queries,
        key_pe=keys,
    )


def test_two_way_attention_block_of_released_width(parity):
    config = {"embedding_dim": 256, "num_heads": 8, "mlp_dim": 2048, "skip_first_layer_pe": False}
    queries, keys = (1, 7, 256), (1, 529, 256)
    module = upstream.sam.TwoWayAttentionBlock(**config)
    config["attention_downsample_rate"] = 2
    parity.check(
        "sam.TwoWayAttentionBlock",
        module,
        config,
        seeds=(0,),
        queries=queries,
        keys=keys,
        query_pe=queries,
        key_pe=keys,
    )


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize(("batch", "tokens", "hw"), [(1, 7, (8, 8)), (3, 5, (3, 5))])
def test_two_way_transformer(parity, depth, batch, tokens, hw):
    def adapt(module, image_embedding, image_pe, point_embedding):
        def as_map(x):
            return upstream.channels_first(x.reshape(batch, *hw, 64))

        return module(as_map(image_embedding), as_map(image_pe), point_embedding)

    config = {
        "depth": depth,
        "embedding_dim": 64,
        "num_heads": 8,
        "mlp_dim": 128,
        "attention_downsample_rate": 2,
    }
    places = (batch, hw[0] * hw[1], 64)
    parity.check(
        "sam.TwoWayTransformer",
        upstream.sam.TwoWayTransformer(**config),
        config,
        adapt=adapt,
        image_embedding=places,
        image_pe=places,
        point_embedding=(batch, tokens, 64),
    )
