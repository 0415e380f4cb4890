"""The training model of SAM 3 and the published implementation are the same function."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from training.export import load, save
from training.sam3 import NANO, Sam3, Sam3Config

support = pytest.importorskip("support.upstream_sam3", reason="needs the reference packages")
tiny = pytest.importorskip("support.tiny_sam3")

SMALL = dataclasses.replace(
    NANO,
    img_size=112,
    pretrain_img_size=56,
    embed_dim=32,
    depth=2,
    num_heads=2,
    window_size=2,
    global_att_blocks=(1,),
    d_model=32,
    text_width=16,
    nheads=2,
    dim_feedforward=24,
    geometry_layers=2,
    encoder_layers=2,
    decoder_layers=2,
    num_queries=7,
)


def upstream_of(config: Sam3Config):
    """Build the published detector at the sizes of `config`, with its initial weights."""
    sizes = {f.name for f in dataclasses.fields(tiny.Sam3Config)}
    fields = {k: v for k, v in dataclasses.asdict(config).items() if k in sizes}
    return support.image_model(tiny.Sam3Config(**fields), seed=None)


def agreeing(own: Sam3, upstream) -> None:
    """Load the weights of our model into upstream's; only rotation tables are computed there."""
    missing, unexpected = upstream.load_state_dict(own.state_dict(), strict=False)
    assert not unexpected, unexpected
    computed = ("freqs_cis", "attn_mask", "coord_cache")
    assert all(name.endswith(computed) for name in missing), missing


def test_nano_state_loads() -> None:
    """Names and shapes at the released sizes are upstream's."""
    agreeing(Sam3(NANO), upstream_of(NANO))


def close(a: Tensor, b: Tensor) -> None:
    """Compare results of float32 that were computed in another order."""
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("examples", [0, 2])
def test_answers_agree(examples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores, boxes, presence and masks of a text agree, with examples as well.

    Upstream chooses how often it looks at a part of a box; here it is once for such boxes.
    """
    monkeypatch.setattr("training.sam3.model.SAMPLES", 1)
    torch.manual_seed(0)
    own = Sam3(SMALL).eval()
    for parameter in own.parameters():
        torch.nn.init.normal_(parameter, std=0.15)
    upstream = upstream_of(SMALL)
    agreeing(own, upstream)
    support.refresh(upstream)
    pixels = torch.randn(1, 3, SMALL.img_size, SMALL.img_size)
    ids = torch.zeros(1, SMALL.context_length, dtype=torch.long)
    ids[0, :5] = torch.tensor([49406, 736, 22192, 7117, 49407])
    boxes = torch.tensor([[[0.4, 0.5, 0.5, 0.3], [0.7, 0.2, 0.3, 0.35]]])[:, :examples]
    labels = torch.tensor([[1, 0]])[:, :examples]
    unused = torch.full((1, 1), -1)
    got = own(
        pixels, ids, torch.cat([boxes, boxes.new_ones(1, 1, 4)], 1), torch.cat([labels, unused], 1)
    )
    with support.on_cpu():
        processor = support.processor(upstream, SMALL.img_size)
        seen = upstream.backbone.forward_image(pixels)
        seen.update(upstream.backbone.forward_text(["red striped circle"], device="cpu"))
        prompt = upstream._get_dummy_prompt()
        if examples:
            prompt.append_boxes(boxes.transpose(0, 1), labels.bool().transpose(0, 1))
        wanted = upstream.forward_grounding(
            backbone_out=seen,
            find_input=processor.find_stage,
            geometric_prompt=prompt,
            find_target=None,
        )

    close(got.scores[-1], wanted["pred_logits"][..., 0])
    close(got.boxes[-1], wanted["pred_boxes"])
    close(got.presence[-1], wanted["presence_logit_dec"].reshape(1, 1))
    close(got.masks(), wanted["pred_masks"])
    close(got.semantic, wanted["semantic_seg"])


@torch.no_grad()
def test_the_package_reads_an_export(tmp_path: Path) -> None:
    """Sizes come from the metadata; the float16 weights give the answers of the model."""
    testing = pytest.importorskip("sam_rlx._testing", reason="needs an editable install")
    torch.manual_seed(0)
    own = Sam3(SMALL)
    for parameter in own.parameters():
        torch.nn.init.normal_(parameter, std=0.15)
    path = tmp_path / "small.safetensors"
    save(own.state_dict(), SMALL, path)
    own = load(path)
    pixels = torch.randn(1, 3, SMALL.img_size, SMALL.img_size)
    ids = torch.zeros(1, SMALL.context_length, dtype=torch.long)
    ids[0, :5] = torch.tensor([49406, 736, 22192, 7117, 49407])
    wanted = own(pixels, ids)
    image = pixels.permute(0, 2, 3, 1).contiguous().numpy()
    kept = list(range(SMALL.num_queries))
    logits, boxes, presence, masks, semantic = map(
        torch.from_numpy, testing.sam3_detect(str(path), image, ids.numpy(), kept)
    )
    close(logits, wanted.scores[-1])
    close(boxes, wanted.boxes[-1])
    close(presence[:, None], wanted.presence[-1])
    close(masks, wanted.masks())
    close(semantic, wanted.semantic)
