"""HQ-SAM 2's mask decoder. Maps are channels last on our side; masks are (B, K, H, W) on both."""

import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
hq_sam2 = pytest.importorskip("support.upstream_hq_sam2", reason="needs sam2")
pytestmark = pytest.mark.parity

WIDTH = 64
CONFIG = {
    "depth": 2,
    "embedding_dim": WIDTH,
    "num_heads": 8,
    "mlp_dim": 128,
    "num_multimask_outputs": 3,
    "iou_head_depth": 3,
    "iou_head_hidden_dim": 48,
    "hq": True,
}
# Every mask is less stable than 2 and more stable than -1: the test chooses the way taken.
STABLE = {"dynamic_multimask_stability_thresh": -1.0}
UNSTABLE = {"dynamic_multimask_stability_thresh": 2.0}
OFF = {"dynamic_multimask_via_stability": False}


@pytest.fixture(params=["facts", "public code"])
def decoder(request):
    if request.param == "facts":
        return hq_sam2.MaskDecoderHQ
    if hq_sam2.PUBLIC is None:
        pytest.skip("needs SysCV/sam-hq's sam-hq2 before sam2 on the path")
    return hq_sam2.PUBLIC


def adapt(module, image_embeddings, image_pe, dense_prompt_embeddings, level0, level1, **others):
    others.pop("share", None)  # ours alone: project the map once, as for several prompts
    first = upstream.channels_first
    return module(
        image_embeddings=first(image_embeddings),
        image_pe=first(image_pe),
        dense_prompt_embeddings=first(dense_prompt_embeddings),
        high_res_features=[
            module.conv_s0(first(level0[None])),
            module.conv_s1(first(level1[None])),
        ],
        repeat_image=True,
        **others,
    )


def check(parity, decoder, dynamic, batch=1, tokens=2, height=8, width=8, **options):
    parity.check(
        "sam2.MaskDecoder",
        hq_sam2.mask_decoder(decoder, WIDTH, mlp_dim=128, hidden=48, **dynamic),
        {**CONFIG, **dynamic},
        adapt=adapt,
        image_embeddings=(1, height, width, WIDTH),
        image_pe=(1, height, width, WIDTH),
        sparse_prompt_embeddings=(batch, tokens, WIDTH),
        dense_prompt_embeddings=(batch, height, width, WIDTH),
        level0=(4 * height, 4 * width, WIDTH),
        level1=(2 * height, 2 * width, WIDTH),
        **options,
    )


@pytest.mark.parametrize("hq_token_only", [False, True])
@pytest.mark.parametrize(("batch", "tokens", "height"), [(1, 2, 8), (3, 4, 5), (2, 0, 7)])
def test_multimask(parity, decoder, batch, tokens, height, hq_token_only):
    options = {"multimask_output": True, "hq_token_only": hq_token_only}
    check(parity, decoder, {}, batch, tokens, height, 9, **options)


@pytest.mark.parametrize("hq_token_only", [False, True])
@pytest.mark.parametrize("dynamic", [STABLE, UNSTABLE, OFF], ids=["stable", "unstable", "off"])
def test_single_mask(parity, decoder, dynamic, hq_token_only):
    options = {"multimask_output": False, "hq_token_only": hq_token_only}
    check(parity, decoder, dynamic, batch=2, **options)


def test_shared_projections_of_the_map(parity, decoder):
    options = {"multimask_output": True, "hq_token_only": False, "share": True}
    check(parity, decoder, {}, tokens=3, **options)
