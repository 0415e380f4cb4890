"""The mask decoder. Maps are channels last on our side; masks are (B, K, H, W) on both."""

import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity

CONFIG = {
    "depth": 2,
    "embedding_dim": 64,
    "num_heads": 8,
    "mlp_dim": 128,
    "attention_downsample_rate": 2,
    "num_multimask_outputs": 3,
    "iou_head_depth": 3,
    "iou_head_hidden_dim": 48,
}
TRANSFORMER = ("depth", "embedding_dim", "num_heads", "mlp_dim", "attention_downsample_rate")


def reference():
    return upstream.sam.MaskDecoder(
        num_multimask_outputs=3,
        transformer=upstream.sam.TwoWayTransformer(**{key: CONFIG[key] for key in TRANSFORMER}),
        transformer_dim=64,
        iou_head_depth=3,
        iou_head_hidden_dim=48,
    )


def adapt(module, image_embeddings, image_pe, dense_prompt_embeddings, **others):
    return module(
        image_embeddings=upstream.channels_first(image_embeddings),
        image_pe=upstream.channels_first(image_pe),
        dense_prompt_embeddings=upstream.channels_first(dense_prompt_embeddings),
        **others,
    )


@pytest.mark.parametrize("multimask_output", [True, False])
@pytest.mark.parametrize(("batch", "tokens"), [(1, 2), (1, 0), (3, 4), (2, 18)])
def test_mask_decoder(parity, multimask_output, batch, tokens):
    parity.check(
        "sam.MaskDecoder",
        reference(),
        CONFIG,
        adapt=adapt,
        image_embeddings=(1, 8, 8, 64),
        image_pe=(1, 8, 8, 64),
        sparse_prompt_embeddings=(batch, tokens, 64),
        dense_prompt_embeddings=(batch, 8, 8, 64),
        multimask_output=multimask_output,
    )


def test_mask_decoder_at_another_grid(parity):
    parity.check(
        "sam.MaskDecoder",
        reference(),
        CONFIG,
        adapt=adapt,
        image_embeddings=(1, 5, 5, 64),
        image_pe=(1, 5, 5, 64),
        sparse_prompt_embeddings=(1, 3, 64),
        dense_prompt_embeddings=(1, 5, 5, 64),
        multimask_output=True,
    )
