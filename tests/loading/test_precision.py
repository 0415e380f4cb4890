"""Models in other precisions than float32: which layers, how close, and that nothing else moves."""

import importlib
import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from sam_rlx.model import find_checkpoint
from support import tiny_edgetam, tiny_mobile_sam, tiny_sam3, tiny_sam3_1
from support.cases import quick
from support.ops import ISAS, THREADS, WIDENED_ISAS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def judge():
    folder = str(ROOT / "benchmarks")
    sys.path.insert(0, folder)
    yield importlib.import_module("precision")
    sys.path.remove(folder)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_the_model_tells_its_precision(tiny_checkpoint, precision):
    model = sam_rlx.load_model(tiny_checkpoint, precision=precision)
    assert model.precision == precision
    assert precision in repr(model)
    assert precision in sam_rlx.build_info()["precisions"]


def test_an_unknown_precision_is_refused(tiny_checkpoint):
    with pytest.raises(sam_rlx.UnsupportedError, match="float32, bfloat16 or int8, found int4"):
        sam_rlx.load_model(tiny_checkpoint, precision="int4")


# The least that a mean IoU may be.
BOUNDS = {"int8": 0.98, "bfloat16": 0.99, "packaged": 0.98}


@pytest.mark.parity  # the scenes are made with PyTorch
@pytest.mark.parametrize(
    ("name", "precision"),
    quick(itertools.product(("sam-nano", "sam2-nano", "sam3-nano"), BOUNDS), 0, 4, 8),
)
def test_masks_are_those_of_float32(judge, tmp_path, name, precision):
    images = [*judge.photographs(["coins"]), *judge.scenes(3)]
    trained = judge.TRAINED / f"{name}.safetensors"
    variants = {v.label: v for v in judge.variants(trained, ["int8", "bfloat16"], tmp_path)}
    found = judge.compare(variants["float32"], variants[precision], images)
    assert set(found) == {"clicks", "boxes"} | ({"text"} if name == "sam3-nano" else set())
    for kind, (ious, scores, alone) in found.items():
        assert len(ious) >= 10, kind
        assert BOUNDS[precision] <= np.mean(ious) < 1, kind  # 1: nothing was rounded
        assert 0 < np.mean(scores) < 0.01
        assert alone < len(ious) / 10, kind


def test_instances_are_matched_one_to_one(judge):
    def strip(begin, end):
        return (np.arange(100) >= begin) & (np.arange(100) < end)

    first = np.array([strip(0, 10), strip(50, 90), strip(51, 91)])
    second = np.array([strip(50, 91), strip(0, 8), strip(95, 99), strip(9, 30)])
    scores = np.array([0.5, 0.6, 0.7]), np.array([0.8, 0.9, 0.1, 0.2])
    found = judge.matched(first, second, *scores)
    assert found.ious == pytest.approx([40 / 41, 0.8])
    assert found.scores == pytest.approx([0.1, 0.4])
    assert found.alone == 3
    assert judge.matched(first, second[:0], scores[0], scores[1][:0]) == ([], [], 3)


def embedding(path, precision, isa=None, threads=1):
    model = sam_rlx.load_model(path, precision=precision, isa=isa)
    predictor = sam_rlx.ImagePredictor(model, num_threads=threads)
    predictor.set_image(np.random.default_rng(1).integers(0, 256, (70, 90, 3), np.uint8))
    return predictor.image_embedding


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_threads_change_nothing(tiny_checkpoint, precision):
    first, *others = (embedding(tiny_checkpoint, precision, threads=n) for n in THREADS)
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_instruction_sets_round_alike(tiny_checkpoint, precision):
    exact = embedding(tiny_checkpoint, "float32", "generic")
    plain = embedding(tiny_checkpoint, precision, "generic")
    error = np.abs(plain - exact).max() / np.abs(exact).max()
    assert 1e-4 < error < 0.2
    for isa in ISAS:  # roundings of float32 tip some integers over
        assert np.abs(embedding(tiny_checkpoint, precision, isa) - plain).max() < 0.1


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_a_third_call_allocates_nothing(tiny_checkpoint, testing, precision):
    image = np.random.default_rng(0).integers(0, 256, (97, 150, 3), np.uint8)
    counts = testing.allocations(str(tiny_checkpoint), image, 1, 2, 4, precision)
    assert counts[2:] == [0, 0], counts


PATTERNS = {
    "sam-nano": ROOT / "cpp/models/sam/config.cpp",
    "sam2-nano": ROOT / "cpp/models/sam2/config.cpp",
    "sam3-nano": ROOT / "cpp/models/sam3/config.cpp",
}


def student_names():
    """Names of EfficientSAM3's trunks: of TinyViT, of a block of RepViT, and of the head."""
    trunk = "detector.backbone.vision_backbone.trunk.model."
    backbone = f"{trunk}backbone.model."
    tiny_vit = [name.replace("image_encoder.", backbone) for name in tiny_mobile_sam.shapes_of()]
    return [*tiny_vit, f"{backbone}features.1.channel_mixer.m.0.c.weight", f"{trunk}head.0.weight"]


@pytest.mark.parametrize("name", PATTERNS)
def test_every_pattern_means_layers(name):
    """A name that does not exist would leave its layers float32 without a word."""
    blocks = re.findall(
        r"string_view k(?:Layers|Exact)\[\]\{(.*?)\}", PATTERNS[name].read_text(), re.S
    )
    patterns = re.findall(r'"([^"]+)"', "".join(blocks))
    assert patterns
    tensors = [tensor for tensor, *_ in sam_rlx.model.list_tensors(sam_rlx.load_model(name).source)]
    others = {
        "sam-nano": tiny_mobile_sam.shapes_of,
        "sam2-nano": tiny_edgetam.shapes_of,
        "sam3-nano": lambda: [
            *tiny_sam3_1.tracker_shapes(32),
            *tiny_sam3_1.neck_shapes(tiny_sam3.TINY),
            *student_names(),
        ],
    }
    tensors += others[name]()
    for pattern in patterns:
        expression = re.compile(re.escape(pattern).replace(r"\*", r"[^.]+") + r"\..*weight$")
        assert any(map(expression.match, tensors)), pattern


FORMATS = {
    ("sam-nano", "image_encoder.blocks.3.attn.qkv"): ("int8", "int8"),
    ("sam-nano", "image_encoder.layers.1.blocks.0.mlp.fc2"): ("float32", "float32"),
    ("sam-nano", "image_encoder.neck.2"): ("float32", "bfloat16"),
    ("sam-nano", "mask_decoder.transformer.layers.0.mlp.lin1"): ("float32", "float32"),
    ("sam2-nano", "image_encoder.trunk.blocks.0.mlp.layers.0"): ("float32", "bfloat16"),
    ("sam2-nano", "image_encoder.trunk.blocks.5.attn.proj"): ("int8", "int8"),
    ("sam2-nano", "memory_encoder.out_proj"): ("float32", "float32"),
    ("sam3-nano", "detector.backbone.vision_backbone.trunk.blocks.1.attn.qkv"): (
        "float32",
        "bfloat16",
    ),
    ("sam3-nano", "detector.backbone.vision_backbone.trunk.blocks.2.attn.qkv"): ("int8", "int8"),
    ("sam3-nano", "detector.transformer.encoder.layers.4.self_attn"): ("float32", "bfloat16"),
    ("sam3-nano", "detector.transformer.encoder.layers.4.cross_attn_image"): ("float32", "float32"),
}


@pytest.mark.parametrize("isa", ISAS)
def test_what_int8_leaves_has_16_bits_where_these_are_multiplied_faster(testing, isa):
    for name in PATTERNS:
        checkpoint = str(find_checkpoint(name))
        expected = {p: f[isa not in WIDENED_ISAS] for (n, p), f in FORMATS.items() if n == name}
        found = testing.weight_formats(checkpoint, "int8", isa, list(expected))
        assert dict(zip(expected, found, strict=True)) == expected
        assert set(testing.weight_formats(checkpoint, "float32", isa, list(expected))) == {
            "float32"
        }
