"""SAM3-LiteText's text encoder beside transformers' modules, which get upstream's padding."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import sam_rlx
from support import tiny_sam3
from support.cases import quick

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
pytest.importorskip("transformers", reason="needs transformers")
torch = pytest.importorskip("torch", reason="needs the reference packages")
lite_text = pytest.importorskip("support.lite_text")
pytestmark = pytest.mark.parity

SMALL = {
    "d_model": 64,
    "width": 64,
    "heads": 4,
    "layers": 3,
    "context_length": 16,
    "vocab_size": 97,
    "mobile_clip": True,
    "repmixer_size": 11,
}
# The three releases, at a vocabulary that makes a small table.
RELEASES = {
    "S0": {"width": 512, "heads": 8, "layers": 6, "d_model": 256},
    "S1": {"width": 512, "heads": 8, "layers": 12, "d_model": 256, "repmixer_size": 0},
    "L": {"width": 768, "heads": 12, "layers": 12, "d_model": 256, "repmixer_size": 0},
}


@cache
def reference(sizes):
    return lite_text.TextStudentEncoder(dict(sizes)).eval()


def texts(lengths, seed=0):
    """Ids (N, longest): no padding inside a text but in the last one, which has the byte "!"."""
    rng = np.random.default_rng([seed, len(lengths)])
    ids = np.zeros((len(lengths), max(lengths)), np.int64)
    for row, length in zip(ids, lengths, strict=True):
        row[:length] = rng.integers(1, 97, length)
    if lengths[-1] > 3:
        ids[-1, 2] = 0
    return ids


def adapt(module, ids):
    """Our rows are the tokens of each text up to its last id."""
    tokens, ids = module.tokens(ids), ids.numpy()
    rows = [(i, slice(0, int(np.flatnonzero(row)[-1]) + 1)) for i, row in enumerate(ids)]
    padding = [ids[row] == 0 for row in rows]
    return torch.cat([tokens[row] for row in rows]), torch.from_numpy(np.concatenate(padding)).to(
        tokens.dtype
    )


def check(parity, sizes, ids, **options):
    parity.check(
        "sam3.VETextEncoder",
        reference(tuple(sizes.items())),
        sizes,
        adapt=adapt,
        ids=ids,
        **options,
    )


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"repmixer_size": 3, "context_length": 32},
        {"repmixer_size": 0},
        {"layers": 2, "context_length": 77},
        {"width": 40, "heads": 5, "layers": 4, "d_model": 24},
    ],
)
@pytest.mark.parametrize("lengths", [[4], [16, 1, 9, 7]])
def test_text_encoder(parity, changed, lengths):
    check(parity, {**SMALL, **changed}, texts(lengths))


@pytest.mark.parametrize("name", quick(list(RELEASES), 0))
@pytest.mark.parametrize("length", [16, 32])
def test_released_sizes(parity, name, length):
    """Texts of 1 to 30 ids, cut at what the encoder sees."""
    lengths = sorted({min(n, length) for n in (1, 2, 5, 11, 16, 23, 30)})
    sizes = {**SMALL, **RELEASES[name], "context_length": length}
    check(parity, sizes, texts(lengths), seeds=(3,))


def network(sizes):
    """Upstream's image model with this text encoder, that finds some of what it is asked for."""
    model = concepts.image_model()
    text = lite_text.TextStudentEncoder(sizes)
    upstream.randomise(text, 5)
    with torch.no_grad():
        text.projector.weight *= 4
    model.backbone.language_backbone = text
    return model.eval()


WHOLE = {**SMALL, "vocab_size": 49408}


@pytest.fixture(scope="module")
def module():
    return network(WHOLE)


@pytest.fixture(scope="module")
def checkpoint(module, tmp_path_factory):
    path = tmp_path_factory.mktemp("lite_text") / "model.safetensors"
    text = {f"text_{name}": WHOLE[name] for name in ("width", "heads", "layers")}
    shared = {name: WHOLE[name] for name in ("context_length", "mobile_clip", "repmixer_size")}
    config = replace(concepts.CONFIG, **text, **shared)
    weights = lite_text.TextStudentEncoder.renamed(
        upstream_sam3.meta_weights(module), "detector.backbone.language_backbone."
    )
    return tiny_sam3.save_safetensors(path, config, weights)


@pytest.mark.parametrize("text", ["a cat", "yellow school bus!", "it's 3 dogs"])
def test_image_and_text(module, checkpoint, images, text):
    image = images["odd 303x384"]
    judges = concepts.Judges(module)
    judges.call("set_image", torch.from_numpy(image).permute(2, 0, 1))
    predictor = sam_rlx.ConceptPredictor(sam_rlx.load_model(checkpoint), resize="integer")
    predictor.set_image(image)
    expected, threshold = concepts.ground(judges, text)
    found = predictor.predict(text=text, threshold=threshold)
    concepts.check(expected, found.masks, found.boxes, found.scores)


@pytest.mark.parametrize("repmixer_size", [11, 0])
def test_folder_of_transformers(testing, tmp_path, repmixer_size):
    """Its processor masks the padding; we pad as upstream does: its detector gets such tokens."""
    import transformers
    from support import hugging_face_models, hugging_face_sam3, parity

    sizes = {**WHOLE, "repmixer_size": repmixer_size}
    text = {f"text_{name}": sizes[name] for name in ("width", "heads", "layers")}
    config = replace(
        tiny_sam3.TINY, **text, context_length=16, mobile_clip=True, repmixer_size=repmixer_size
    )
    model = hugging_face_models.fill(
        transformers.Sam3LiteTextModel(hugging_face_sam3.lite_text_config(config))
    )
    folder = hugging_face_models.save(model, tmp_path / "folder")
    loaded = sam_rlx.load_model(folder)
    assert (loaded.variant, loaded.config["text"]["repmixer_size"]) == ("custom", repmixer_size)
    report = loaded.report()
    assert not report["missing"]
    assert not report["unexpected"]
    found = hugging_face_models.ours(testing, "Sam3Model", folder)
    encoder = lite_text.TextStudentEncoder(sizes).eval()
    ids = torch.tensor([hugging_face_models.IDS])

    def reference(dtype):
        wide = model.to(dtype)
        encoder.text, encoder.projector = wide.text_encoder, wide.text_projection
        pixels = hugging_face_models.pixel_values(
            "Sam3Model", hugging_face_models.image(config.img_size)
        )
        with torch.no_grad():
            out = wide(
                pixel_values=torch.from_numpy(pixels).to(dtype),
                attention_mask=torch.ones_like(ids),
                text_embeds=SimpleNamespace(pooler_output=encoder.tokens(ids)[:, : ids.shape[1]]),
                input_boxes=torch.zeros(1, 1, 4, dtype=dtype),
                input_boxes_labels=torch.full((1, 1), -10),
            )
        return {"logits": out.pred_logits[0].numpy(), "boxes": out.pred_boxes[0].numpy()}

    single, exact = reference(torch.float32), reference(torch.float64)
    for key, value in exact.items():
        parity.close(found[key], value, single[key], key)
