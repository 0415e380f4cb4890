"""SAM-HQ's mask decoder. Maps are channels last on our side; masks are (B, 1, H, W) on both."""

import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity

WIDTH = 64
CONFIG = {
    "depth": 2,
    "embedding_dim": WIDTH,
    "num_heads": 8,
    "mlp_dim": 128,
    "attention_downsample_rate": 2,
    "num_multimask_outputs": 3,
    "iou_head_depth": 3,
    "iou_head_hidden_dim": 64,
}
CASES = [(1, 2, 8, 96), (3, 4, 5, 40), (2, 0, 7, 64), (1, 18, 3, 160)]


def adapt(module, image_embeddings, early, image_pe, dense_prompt_embeddings, **others):
    image = upstream.channels_first(image_embeddings)
    masks, iou = module(
        image_embeddings=image,
        image_pe=upstream.channels_first(image_pe),
        dense_prompt_embeddings=upstream.channels_first(dense_prompt_embeddings),
        interm_embeddings=[early],
        **others,
    )
    features = module.embedding_encoder(image)
    features = features + module.compress_vit_feat(upstream.channels_first(early))
    return masks, iou, upstream.channels_last(features)[0]


@pytest.mark.parametrize("hq_token_only", [False, True])
@pytest.mark.parametrize("multimask_output", [True, False])
@pytest.mark.parametrize(("batch", "tokens", "grid", "vit_dim"), CASES)
def test_mask_decoder(parity, batch, tokens, grid, vit_dim, multimask_output, hq_token_only):
    sam_hq = pytest.importorskip("support.upstream_sam_hq", reason="needs segment-anything-hq")
    parity.check(
        "sam.MaskDecoderHQ",
        sam_hq.mask_decoder(WIDTH, vit_dim),
        {**CONFIG, "vit_dim": vit_dim},
        adapt=adapt,
        image_embeddings=(1, grid, grid, WIDTH),
        early=(1, grid, grid, vit_dim),
        image_pe=(1, grid, grid, WIDTH),
        sparse_prompt_embeddings=(batch, tokens, WIDTH),
        dense_prompt_embeddings=(batch, grid, grid, WIDTH),
        multimask_output=multimask_output,
        hq_token_only=hq_token_only,
    )
