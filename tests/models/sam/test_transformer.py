"""The two-way transformer. Maps are channels last on our side."""

import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity


def adapt(module, share=False, **tensors):
    """`share` is ours alone: project the map once, as for several prompts of one image."""
    return module(**tensors)


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("batch", "tokens", "positions", "width", "heads"),
    [(1, 7, 64, 64, 8), (3, 5, 16, 32, 4), (2, 1, 9, 48, 1), (1, 22, 35, 64, 8)],
)
def test_two_way_attention_block(parity, share, first, batch, tokens, positions, width, heads):
    sizes = {"embedding_dim": width, "num_heads": heads, "mlp_dim": 3 * width}
    config = {**sizes, "attention_downsample_rate": 2, "skip_first_layer_pe": first}
    queries, keys = (batch, tokens, width), (batch, positions, width)
    module = upstream.sam.TwoWayAttentionBlock(**config)
    parity.check(
        "sam.TwoWayAttentionBlock",
        module,
        config,
        adapt=adapt,
        share=share,
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
        maps = [upstream.channels_first(x) for x in (image_embedding, image_pe)]
        return module(*maps, point_embedding)

    config = {
        "depth": depth,
        "embedding_dim": 64,
        "num_heads": 8,
        "mlp_dim": 128,
        "attention_downsample_rate": 2,
    }
    positions = (batch, *hw, 64)
    parity.check(
        "sam.TwoWayTransformer",
        upstream.sam.TwoWayTransformer(**config),
        config,
        adapt=adapt,
        image_embedding=positions,
        image_pe=positions,
        point_embedding=(batch, tokens, 64),
    )
