"""EfficientSAM3: SAM 3's detector behind a student trunk, beside timm's networks."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sam_rlx
from support import tiny_sam3

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
pytest.importorskip("transformers", reason="needs transformers")
pytest.importorskip("timm", reason="needs timm")
torch = pytest.importorskip("torch", reason="needs the reference packages")
lite_text = pytest.importorskip("support.lite_text")
student = pytest.importorskip("support.upstream_student")
pytestmark = pytest.mark.parity

SHARED = {"img_size": 112, "patch_size": 14, "embed_dim": 64}
REP_VIT = {"embed_dim": (16, 24, 32, 40), "depth": (2, 2, 3, 2)}
TINY_VIT = {
    "embed_dims": (16, 24, 40, 64),
    "depths": (1, 2, 2, 1),
    "num_heads": (1, 2, 5, 4),
    "window_sizes": (7, 7, 14, 7),
}
# Depths without the block before each halving, as timm counts.
RELEASES: dict[str, dict[str, Any]] = {
    "m0.9": {"rep_vit": {"embed_dim": (48, 96, 192, 384), "depth": (2, 2, 14, 2)}},
    "m1.1": {"rep_vit": {"embed_dim": (64, 128, 256, 512), "depth": (2, 2, 12, 2)}},
    "m2.3": {"rep_vit": {"embed_dim": (80, 160, 320, 640), "depth": (6, 6, 34, 2)}},
    **{
        name: {
            "tiny_vit": {
                "embed_dims": dims,
                "depths": (2, 2, 6, 2),
                "num_heads": heads,
                "window_sizes": (7, 7, 14, 7),
            }
        }
        for name, dims, heads in (
            ("5m", (64, 128, 160, 320), (2, 4, 5, 10)),
            ("11m", (64, 128, 256, 448), (2, 4, 8, 14)),
            ("21m", (96, 192, 384, 576), (3, 6, 12, 18)),
        )
    },
}


def sizes_of(side=112, embed_dim=64, **network):
    sizes = {**SHARED, "img_size": side, "embed_dim": embed_dim, **network}
    if "rep_vit" in network:
        sizes["rep_vit"] = {**network["rep_vit"], "image_size": side}
    return sizes


def adapt(module, x):
    return upstream.channels_last(module(upstream.channels_first(x))[0])


@pytest.mark.parametrize("side", [112, 98, 70, 14])
@pytest.mark.parametrize(
    "network",
    [
        {"rep_vit": REP_VIT},
        {"rep_vit": {"embed_dim": (10, 16), "depth": (1, 3), "mlp_ratio": 3}},
        {"rep_vit": {"embed_dim": (12,), "depth": (3,)}},
        {"tiny_vit": TINY_VIT},
        # The widths behind which MobileSAM keeps the map.
        {"tiny_vit": {**TINY_VIT, "embed_dims": (8, 320, 16, 448), "num_heads": (1, 10, 2, 14)}},
        {"tiny_vit": {**TINY_VIT, "window_sizes": (4, 3, 4, 2), "local_conv_size": 5}},
    ],
    ids=str,
)
def test_trunk(parity, network, side):
    """Odd sides of the maps, and heads that shrink, enlarge or keep them."""
    sizes = sizes_of(side, **network)
    parity.check(
        "sam3.StudentTrunk", student.Student(sizes), sizes, adapt=adapt, x=(1, side, side, 3)
    )


@pytest.mark.parametrize("name", RELEASES)
def test_released_sizes(parity, name):
    """At a smaller side of the input and of the head."""
    sizes = sizes_of(140, 32, **RELEASES[name])
    parity.check(
        "sam3.StudentTrunk", student.Student(sizes), sizes, adapt=adapt, x=(1, 140, 140, 3)
    )


# What upstream's page gives for trunk and neck together, in millions, statistics of norms included.
@pytest.mark.parametrize(("name", "millions"), [("m1.1", 25.6), ("11m", 28.3)])
def test_numbers_are_those_that_upstream_gives(name, millions):
    module = student.Student(sizes_of(1008, 1024, **RELEASES[name]))
    neck = tiny_sam3.branch_shapes(replace(tiny_sam3.RELEASED, scale_factors=(4.0, 2.0, 1.0, 0.5)))
    numbers = sum(value.size for value in upstream.state_dict(module).values())
    found = numbers + sum(map(np.prod, neck.values()))
    assert round(found / 1e6, 1) == millions


TEXT = {
    "d_model": 64,
    "width": 64,
    "heads": 1,
    "layers": 3,
    "context_length": 16,
    "vocab_size": 49408,
    "mobile_clip": True,
    "repmixer_size": 11,
}
NETWORKS = {"rep_vit": {"rep_vit": REP_VIT}, "tiny_vit": {"tiny_vit": TINY_VIT}}
PREFIX = "detector.backbone.vision_backbone.trunk."
CONFIG = replace(
    concepts.CONFIG,
    text_width=64,
    text_heads=1,
    text_layers=3,
    context_length=16,
    mobile_clip=True,
    repmixer_size=11,
)


class Whole:
    """Upstream's image model with this trunk in front, and its weights as upstream names them."""

    def __init__(self, name):
        self.trunk = student.Student(sizes_of(**NETWORKS[name]))
        self.model = concepts.image_model()
        vision = self.model.backbone.vision_backbone
        vision.trunk = upstream.randomise(self.trunk, 3)
        text = lite_text.TextStudentEncoder(TEXT)
        upstream.randomise(text, 5)
        with torch.no_grad():
            text.projector.weight *= 4
        self.model.backbone.language_backbone = text
        self.model.eval()
        weights = self.trunk.renamed(upstream_sam3.meta_weights(self.model), PREFIX)
        self.weights = lite_text.TextStudentEncoder.renamed(
            weights, "detector.backbone.language_backbone."
        )


@pytest.fixture(scope="module", params=NETWORKS)
def whole(request):
    return Whole(request.param)


def save(path, weights):
    return tiny_sam3.save_safetensors(path, CONFIG, weights)


@pytest.fixture(scope="module")
def checkpoint(whole, tmp_path_factory):
    return save(tmp_path_factory.mktemp("student") / "model.safetensors", whole.weights)


def without_geometry(weights):
    return {k: v for k, v in weights.items() if ".geometry_encoder." not in k}


def set_image(checkpoint, image, **options):
    model = sam_rlx.load_model(checkpoint, **options)
    predictor = sam_rlx.ConceptPredictor(model, resize="integer")
    predictor.set_image(image)
    return predictor


@pytest.fixture(scope="module")
def judges(whole, images):
    judges = concepts.Judges(whole.model)
    judges.call("set_image", torch.from_numpy(images["odd 303x384"]).permute(2, 0, 1))
    return judges


@pytest.mark.parametrize("boxes", [[], [[50, 60, 200, 190]]], ids=["text", "box"])
def test_image_and_text(judges, checkpoint, images, boxes):
    predictor = set_image(checkpoint, images["odd 303x384"])
    labels = [1] * len(boxes)
    expected, threshold = concepts.ground(judges, "a cat", boxes, labels)
    given = {"boxes": np.array(boxes, float), "box_labels": labels} if boxes else {}
    found = predictor.predict(text="a cat", threshold=threshold, **given)
    concepts.check(expected, found.masks, found.boxes, found.scores)


def test_config_and_report(whole, checkpoint):
    model = sam_rlx.load_model(checkpoint)
    report = model.report()
    assert not report["missing"]
    assert not report["unexpected"]
    assert (model.family, model.supports_text, model.supports_video) == ("sam3", True, False)
    is_rep_vit = whole.trunk.depth is not None
    assert model.config["vision"]["student"] == {
        "network": "RepViT" if is_rep_vit else "TinyViT",
        "embed_dims": list(REP_VIT["embed_dim"] if is_rep_vit else TINY_VIT["embed_dims"]),
        "depths": list(REP_VIT["depth"] if is_rep_vit else TINY_VIT["depths"]),
    }


def spelled(weights, spelling):
    """Names as files have them: the detector's prefix, and what training has before the trunk."""
    prefix, inner = spelling
    return {
        name.removeprefix("" if prefix else "detector.").replace(
            ".trunk.model.", f".trunk.{inner}"
        ): value
        for name, value in weights.items()
    }


RELEASED_TEXT = {**TEXT, "d_model": 256, "width": 512, "heads": 8, "layers": 6}


def released_state(name, geometry):
    """All tensors of a published file, nearly all of them one zero, as its loader names them."""
    config = replace(tiny_sam3.RELEASED, geometry_layers=3)
    trunk = student.Student(sizes_of(1008, 1024, **RELEASES[name]))
    vision, language = "backbone.vision_backbone.", "backbone.language_backbone."
    modules = {
        "transformer.encoder.": upstream_sam3.fusion_encoder(config),
        "transformer.decoder.": upstream_sam3.decoder(config),
        "segmentation_head.": upstream_sam3.segmentation_head(config),
        "dot_prod_scoring.": upstream_sam3.scoring(config),
    }
    if geometry:
        modules["geometry_encoder."] = upstream_sam3.geometry_encoder(config)
    text = lite_text.TextStudentEncoder(RELEASED_TEXT)
    shapes = {
        **{f"{vision}{k}": v for k, v in tiny_sam3.branch_shapes(config).items()},
        **{
            f"{begin}{key}": value.shape
            for begin, module in modules.items()
            for key, value in upstream.state_dict(module).items()
        },
        **{
            key: value.shape
            for weights in (
                trunk.renamed(_prefixed(trunk, f"{vision}trunk."), f"{vision}trunk."),
                text.renamed(_prefixed(text, language), language),
            )
            for key, value in weights.items()
        },
    }
    zero = torch.zeros(1, dtype=torch.float16)
    state = {key: zero.expand(shape) for key, shape in shapes.items()}
    # Files may repeat 64 million numbers in all.
    for key, shape in shapes.items():
        if np.prod(shape) > 2e6:
            state[key] = torch.zeros(shape, dtype=torch.float16)
    for key in [key for key in state if key.endswith("running_var")]:
        state[key] = torch.ones(1).expand(shapes[key])
        state[key.replace("running_var", "num_batches_tracked")] = torch.tensor(3)
    return state


def _prefixed(module, prefix):
    state = module.state_dict().items()
    tracked = ("num_batches_tracked",)
    return {prefix + k: v.numpy() for k, v in state if not k.endswith(tracked)}


@pytest.mark.parametrize(("name", "geometry"), [("m1.1", False), ("11m", True)])
def test_files_as_published(tmp_path, name, geometry):
    """Weights beside an optimizer, with counters, at the released sizes, which nothing tells."""
    state = released_state(name, geometry)
    path = tmp_path / "efficientsam3.pt"
    content = {"model": state, "optimizer": {"state": {}}, "epoch": 3, "preserved_base_keys": ["x"]}
    torch.save(content, path)
    model = sam_rlx.load_model(path)
    assert (model.family, model.variant, model.img_size) == ("sam3", "efficientsam3", 1008)
    assert model.config["text"]["context_length"] == 16
    assert model.config["vision"]["student"]["depths"] == [
        *next(iter(RELEASES[name].values()))["depth" if name[0] == "m" else "depths"]
    ]
    report = model.report()
    assert not report["missing"]
    assert not report["unexpected"]
    assert all("num_batches_tracked" in key for key in report["ignored"])


@pytest.mark.parametrize("spelling", [("", "model."), ("detector.", "model.student_trunk.")])
def test_spellings(whole, checkpoint, tmp_path, spelling, images):
    path = save(tmp_path / "x.safetensors", spelled(whole.weights, spelling))
    found, expected = (
        set_image(p, images["odd 303x384"]).predict(text="a cat", raw=True).raw[0]
        for p in (path, checkpoint)
    )
    np.testing.assert_array_equal(found.pred_logits, expected.pred_logits)
    np.testing.assert_array_equal(found.pred_masks, expected.pred_masks)
    report = sam_rlx.load_model(path).report()
    assert not report["unexpected"]


def test_counters_and_classifiers_are_ignored(whole, tmp_path):
    weights = dict(whole.weights)
    for name in [n for n in weights if n.endswith("running_mean")]:
        weights[name.replace("running_mean", "num_batches_tracked")] = np.array(3.0, np.float32)
    backbone = f"{PREFIX}model.backbone.model."
    for name in ("norm_head.weight", "head.bias", "classifier.classifier.l.weight"):
        weights[backbone + name] = np.ones(5, np.float32)
    model = sam_rlx.load_model(save(tmp_path / "x.safetensors", weights))
    assert set(model.report()["ignored"]) == set(weights) - set(whole.weights)


class NoGeometry(torch.nn.Module):
    """No token of points and boxes."""

    def forward(self, geo_prompt, img_feats, img_sizes, img_pos_embeds):
        x = img_feats[-1]
        return x.new_zeros(0, *x.shape[1:]), torch.zeros(x.shape[1], 0, dtype=torch.bool)


def test_texts_alone(whole, tmp_path, images):
    """A file without the geometry encoder: its texts are prompts without the geometry's token."""
    image = images["odd 303x384"]
    path = save(tmp_path / "x.safetensors", without_geometry(whole.weights))
    model = sam_rlx.load_model(path)
    assert not model.report()["missing"]
    predictor = set_image(path, image)

    alone = copy.deepcopy(whole.model)
    alone.geometry_encoder = NoGeometry()
    judges = concepts.Judges(alone)
    judges.call("set_image", torch.from_numpy(image).permute(2, 0, 1))
    expected, threshold = concepts.ground(judges, "a cat")
    found = predictor.predict(text="a cat", threshold=threshold)
    concepts.check(expected, found.masks, found.boxes, found.scores)
    refused = r"boxes, points and examples: expected texts: .* no geometry_encoder\.\*"
    box = [[50, 60, 200, 190]]
    for prompt in (
        lambda: predictor.predict(text="a cat", boxes=box),
        lambda: predictor.predict(boxes=box),
        lambda: predictor.predict(text="a cat", point_coords=[[50, 60]]),
        lambda: predictor.encode_examples(image, box),
    ):
        with pytest.raises(sam_rlx.UnsupportedError, match=refused):
            prompt()
    again = predictor.predict(text="a cat", threshold=threshold)
    np.testing.assert_array_equal(again.scores, found.scores)


def test_clicks_and_videos_are_refused(checkpoint, images):
    model = sam_rlx.load_model(checkpoint)
    with pytest.raises(sam_rlx.UnsupportedError, match="tracker"):
        sam_rlx.ImagePredictor(model).set_image(images["odd 303x384"])
    with pytest.raises(sam_rlx.UnsupportedError, match="tracker"):
        sam_rlx.VideoPredictor(model)


def test_a_missing_tensor_is_named(whole, tmp_path):
    name = next(n for n in whole.weights if n.startswith(PREFIX) and n.endswith("running_var"))
    weights = {key: value for key, value in whole.weights.items() if key != name}
    with pytest.raises(sam_rlx.CheckpointError, match="1 missing") as caught:
        sam_rlx.load_model(save(tmp_path / "x.safetensors", weights))
    assert name in str(caught.value)


def image_map(checkpoint, image, **options):
    """What texts are looked for in, (grid, grid, d_model)."""
    return set_image(checkpoint, image, **options).image_embeddings[0]


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_precisions(checkpoint, images, precision):
    image = images["odd 303x384"]
    plain, found = image_map(checkpoint, image), image_map(checkpoint, image, precision=precision)
    assert np.abs(found - plain).max() < 0.1 * np.abs(plain).max()
    assert sam_rlx.load_model(checkpoint, precision=precision).precision == precision


@pytest.mark.parametrize("name", ["x.gguf", "x.safetensors"])
@pytest.mark.parametrize("dtype", ["F32", "F16", "Q8_0"])
def test_written_again(checkpoint, tmp_path, images, name, dtype):
    if name == "x.safetensors" and dtype == "Q8_0":
        pytest.skip("GGUF alone packs")
    written = tmp_path / name
    sam_rlx.conversion.convert(checkpoint, written, dtype=dtype)
    sizes = sam_rlx.load_model(checkpoint).config["vision"]["student"]
    assert sam_rlx.load_model(written).config["vision"]["student"] == sizes
    image = images["odd 303x384"]
    plain, found = image_map(checkpoint, image), image_map(written, image)
    bound = {"F32": 0.0, "F16": 0.02, "Q8_0": 0.1}[dtype]
    assert np.abs(found - plain).max() <= bound * np.abs(plain).max()
    predictor = set_image(written, image)
    assert len(predictor.predict(text="a cat", threshold=0.0).scores) == CONFIG.num_queries


def test_folders_of_transformers_are_refused(checkpoint, tmp_path):
    with pytest.raises(sam_rlx.UnsupportedError, match=r"EfficientSAM3"):
        sam_rlx.conversion.convert(checkpoint, tmp_path / "folder")


@pytest.mark.parametrize("side", [98, 140])
def test_another_side(whole, checkpoint, images, side):
    """Maps of the side's own grid, as upstream's modules give at that side."""
    model = sam_rlx.load_model(checkpoint, image_size=side)
    predictor = sam_rlx.ConceptPredictor(model)
    predictor.set_image(images["odd 303x384"])
    assert predictor.predict(text="a cat", raw=True).raw[0].pred_masks.shape[1:] == (
        side // 14 * 4,
        side // 14 * 4,
    )
