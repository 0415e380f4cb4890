"""A whole tiny SAM, layer by layer: the first layer that differs is named."""

import numpy as np
import pytest
from support import tiny
from support.cases import quick
from support.trained import trained

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity

REQUIRED = (
    "image_encoder.patch_embed",
    "image_encoder.blocks.0",
    "image_encoder.blocks.1",
    "image_encoder.neck",
    "mask_decoder.transformer.layers.0.queries",
    "mask_decoder.transformer.layers.0.keys",
    "mask_decoder.transformer.layers.1.queries",
    "mask_decoder.transformer.layers.1.keys",
    "mask_decoder.transformer.queries",
    "mask_decoder.iou_prediction_head",
    "mask_decoder.low_res_masks",
)
# Names for the parts of results that are tuples.
PARTS = {
    "TwoWayAttentionBlock": ("queries", "keys"),
    "TwoWayTransformer": ("queries", "keys"),
    "PromptEncoder": ("sparse_embeddings", "dense_embeddings"),
    "MaskDecoder": ("low_res_masks", "iou_predictions"),
}
CHANNELS_FIRST = (
    "Conv2d",
    "ConvTranspose2d",
    "GELU",
    "ImageEncoderViT",
    "LayerNorm2d",
    "Sequential",
    "dense_embeddings",
)


def canonical(value):
    """Drop leading axes of one: ours handle one image and one prompt at a time."""
    value = np.asarray(value)
    while value.ndim > 1 and value.shape[0] == 1:
        value = value[0]
    return value


def reference_taps(model, call, multimask):
    """Upstream's results by path, in our layout."""
    kinds = {path: type(module).__name__ for path, module in model.named_modules()}
    taps = {}

    def keep(path, kind, value):
        maps = kind in CHANNELS_FIRST and value.ndim == 4 and not path.endswith(".mlp.act")
        taps[path] = canonical(np.moveaxis(value, 1, -1) if maps else value)

    for path, output in upstream.record(model, call):
        kind = kinds.get(path, "")
        if kind in PARTS:
            for part, value in zip(PARTS[kind], output, strict=True):
                keep(f"{path}.{part}", part, value)
        elif kind == "PositionEmbeddingRandom":
            keep(path, "dense_embeddings", output[None])
        else:
            keep(path, kind, output)
    # Ours adds the position table in the pass that makes the patches.
    taps["image_encoder.patch_embed"] = taps.pop("image_encoder.pos_embed")
    # Of the tokens, ours finishes those that are read: IoU, and masks that are asked for.
    queries = "mask_decoder.transformer.queries"
    masks = range(1, model.mask_decoder.num_mask_tokens) if multimask else (0,)
    taps[queries] = taps[queries][[0, *(1 + mask for mask in masks)]]
    return taps


def reference(model, image, prompts, multimask):
    def call():
        predictor = upstream.sam.SamPredictor(model)
        predictor.set_image(image)
        predictor.predict(**prompts, multimask_output=multimask)

    return reference_taps(model, call, multimask)


PROMPTS = {
    "point": {"point_coords": np.array([[100.0, 60.0]]), "point_labels": np.array([1])},
    "points and box": {
        "point_coords": np.array([[100.0, 60.5], [20.25, 200.0]]),
        "point_labels": np.array([1, 0]),
        "box": np.array([30.0, 40.0, 250.0, 260.0]),
    },
    "mask": {"mask_input": 5 * np.random.default_rng(3).standard_normal((1, 32, 32), np.float32)},
}


def check(parity, testing, model, checkpoint, image, prompts, multimask):
    single = reference(model, image, prompts, multimask)
    with upstream.float64():
        exact = reference(upstream.double(model), image, prompts, multimask)
    for isa in parity.isas:
        records = testing.trace(
            str(checkpoint), image, multimask_output=multimask, isa=isa, **prompts
        )
        ours = {path: canonical(value) for path, value in dict(records).items()}
        parity.trace(ours, exact, single, required=REQUIRED)


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("name", ["square 512x512", "tall 451x300", "one column 120x1"])
def test_trace(parity, testing, tiny_checkpoint, images, name, prompt):
    model = upstream.build_sam(tiny.TINY, seed=0)
    image, multimask = images[name], prompt == "point"
    check(parity, testing, model, tiny_checkpoint, image, PROMPTS[prompt], multimask)


@pytest.mark.parametrize("prompt", quick(["point", "points and box"]))
def test_trace_of_trained_weights(parity, testing, images, prompt):
    checkpoint = trained("sam-nano")
    image, multimask = images["wide 400x600"], prompt == "point"
    model = upstream.build_sam_nano()
    check(parity, testing, model, checkpoint, image, PROMPTS[prompt], multimask)
