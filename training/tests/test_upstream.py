"""The training model and the published implementation are the same function."""

from __future__ import annotations

import dataclasses
from functools import partial

import pytest
import torch

from training.model import NANO, Sam, SamConfig

pytest.importorskip("segment_anything", exc_type=ImportError)

from segment_anything.modeling import (
    ImageEncoderViT,
    MaskDecoder,
    PromptEncoder,
    TwoWayTransformer,
)
from segment_anything.modeling import Sam as UpstreamSam

SMALL = dataclasses.replace(NANO, img_size=160, depth=4, global_attn_indexes=(1, 3))


def build_upstream(config: SamConfig) -> UpstreamSam:
    """Build the published implementation at the sizes of `config`."""
    encoder = ImageEncoderViT(
        img_size=config.img_size,
        patch_size=config.patch_size,
        embed_dim=config.embed_dim,
        depth=config.depth,
        num_heads=config.num_heads,
        mlp_ratio=config.mlp_ratio,
        out_chans=config.out_chans,
        norm_layer=partial(torch.nn.LayerNorm, eps=1e-6),
        use_rel_pos=True,
        window_size=config.window_size,
        global_attn_indexes=config.global_attn_indexes,
    )
    prompts = PromptEncoder(
        embed_dim=config.prompt_embed_dim,
        image_embedding_size=(config.grid, config.grid),
        input_image_size=(config.img_size, config.img_size),
        mask_in_chans=config.mask_in_chans,
    )
    transformer = TwoWayTransformer(
        depth=config.decoder_depth,
        embedding_dim=config.prompt_embed_dim,
        mlp_dim=config.decoder_mlp_dim,
        num_heads=config.decoder_num_heads,
    )
    decoder = MaskDecoder(
        transformer_dim=config.prompt_embed_dim,
        transformer=transformer,
        num_multimask_outputs=config.num_multimask_outputs,
        iou_head_depth=config.iou_head_depth,
        iou_head_hidden_dim=config.iou_head_hidden_dim,
    )
    return UpstreamSam(encoder, prompts, decoder, config.pixel_mean, config.pixel_std).eval()


@pytest.fixture
def pair() -> tuple[Sam, UpstreamSam]:
    """Both implementations with the same random weights."""
    torch.manual_seed(0)
    own = Sam(SMALL).eval()
    for parameter in own.parameters():
        torch.nn.init.normal_(parameter, std=0.08)
    upstream = build_upstream(SMALL)
    upstream.load_state_dict(own.state_dict(), strict=True)
    return own, upstream


def test_nano_state_loads_strictly() -> None:
    """Names and shapes at the released sizes are upstream's."""
    build_upstream(NANO).load_state_dict(Sam(NANO).state_dict(), strict=True)


@torch.no_grad()
def test_encoder_agrees(pair: tuple[Sam, UpstreamSam]) -> None:
    """Windows with padding, global blocks and relative positions agree."""
    own, upstream = pair
    pixels = torch.randn(1, 3, SMALL.img_size, SMALL.img_size)
    torch.testing.assert_close(
        own.image_encoder(pixels), upstream.image_encoder(pixels), rtol=1e-4, atol=1e-4
    )


@torch.no_grad()
@pytest.mark.parametrize("kind", ["click", "box and mask"])
def test_decoder_agrees(pair: tuple[Sam, UpstreamSam], kind: str) -> None:
    """Prompts and masks agree."""
    own, upstream = pair
    embedding = torch.randn(1, SMALL.out_chans, SMALL.grid, SMALL.grid)
    if kind == "click":
        given = (torch.tensor([[[31.0, 40.0]]]), torch.tensor([[1]]))
        sparse, dense = upstream.prompt_encoder(points=given, boxes=None, masks=None)
        coords, labels, mask = torch.tensor([[[31.0, 40.0], [0, 0]]]), torch.tensor([[1, -1]]), None
    else:
        box = torch.tensor([[12.0, 20.0, 90.0, 80.0]])
        mask = torch.randn(1, 1, 4 * SMALL.grid, 4 * SMALL.grid)
        sparse, dense = upstream.prompt_encoder(points=None, boxes=box, masks=mask)
        coords, labels = box.reshape(1, 2, 2), torch.tensor([[2, 3]])
    wanted = upstream.mask_decoder.predict_masks(
        embedding, upstream.prompt_encoder.get_dense_pe(), sparse, dense
    )
    got = own.decode(embedding, coords, labels, mask)
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
