"""A whole SAM 3 from a checkpoint: image and texts to logits, boxes and masks."""

from dataclasses import replace

import numpy as np
import pytest
import sam_rlx
from support import tiny_sam3

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
parts = pytest.importorskip("support.sam3_detector", reason="needs sam3")
pytestmark = pytest.mark.parity

TINY = tiny_sam3.TINY
TEXT_PROJECTION = "detector.backbone.language_backbone.encoder.text_projection"
SECOND_NECK = "detector.backbone.vision_backbone.sam2_convs."
TEXTS = ["a cat", "yellow school bus", "it's 3 dogs!"]


@pytest.fixture(scope="module")
def weights():
    return upstream_sam3.meta_weights(upstream_sam3.image_model(clicks=True))


def save(path, weights, config=TINY):
    return tiny_sam3.save_safetensors(path, config, weights)


def check(parity, path, module, config=TINY, seed=0):
    side = config.img_size
    image = np.random.default_rng([seed, 3]).standard_normal((1, side, side, 3), np.float32)
    inputs = {"image": image, "texts": TEXTS, "kept": [0, 7, 3]}
    single = upstream.run(module, inputs, parts.ground_image)
    exact = upstream.run64(upstream.double(module), inputs, parts.ground_image)
    ids = upstream_sam3.tokenizer()(TEXTS, context_length=config.context_length).numpy()

    def run(isa, threads, arrays):
        return parity.testing.sam3_detect(
            str(path), arrays["image"], ids, arrays["kept"], isa=isa, num_threads=threads
        )

    parity._compare(f"sam3 seed {seed}", run, inputs, exact, [single])


@pytest.mark.parametrize("clicks", [True, False])
def test_image_to_masks(parity, tmp_path, clicks):
    """The second neck and the tracker change nothing of what the detector finds."""
    module = upstream_sam3.image_model(clicks=clicks)
    path = save(tmp_path / "sam3.safetensors", upstream_sam3.meta_weights(module))
    check(parity, path, module)


def test_other_sizes(parity, tmp_path):
    """Windows that do not divide the map, a level more, one layer each."""
    config = replace(
        TINY,
        img_size=98,
        mlp_ratio=3.5,
        d_model=32,
        depth=3,
        global_att_blocks=(0, 2),
        text_heads=2,
        text_layers=1,
        encoder_layers=1,
        decoder_layers=1,
        scale_factors=(4.0, 2.0, 1.0),
        scalp=0,
        upsampling_stages=2,
    )
    module = upstream_sam3.image_model(config, seed=1)
    path = save(tmp_path / "sam3.safetensors", upstream_sam3.meta_weights(module), config)
    check(parity, path, module, config, seed=1)


# ---------------------------------------------------------------- checkpoints


def test_what_the_model_says(tmp_path, weights):
    model = sam_rlx.load_model(save(tmp_path / "sam3.safetensors", weights))
    assert (model.family, model.variant, model.version) == ("sam3", "tiny", "3.0")
    assert (model.img_size, model.mask_side, model.mask_threshold) == (112, 32, 0.0)
    read = {name: w for name, w in weights.items() if name != TEXT_PROJECTION}
    assert model.num_parameters == sum(w.size for w in read.values())
    report = model.report()
    assert report.pop("ignored") == [TEXT_PROJECTION]
    assert not any(report.values())
    config = model.config
    assert config["image_size"] == 112
    for part in ("vision", "text", "detector", "tracker"):
        assert config[part]
    assert config["tracker"]["mem_dim"] == TINY.mem_dim
    assert "sam3" in sam_rlx.build_info()["families"]


def without(weights, *prefixes):
    return {name: w for name, w in weights.items() if not name.startswith(prefixes)}


@pytest.mark.parametrize("neck", [True, False])
def test_a_file_of_the_detector_alone(tmp_path, weights, neck):
    """Nothing reads the second neck then; files may have it all the same."""
    prefixes = ("tracker.",) if neck else ("tracker.", SECOND_NECK)
    kept = without(weights, *prefixes)
    model = sam_rlx.load_model(save(tmp_path / "sam3.safetensors", kept))
    assert model.config["tracker"] is None
    ignored = {n for n in kept if n.startswith(SECOND_NECK)} | {TEXT_PROJECTION}
    assert set(model.report()["ignored"]) == ignored
    assert not model.report()["unexpected"]


@pytest.mark.parametrize("clicks", [True, False])
def test_names_of_the_image_model(testing, parity, tmp_path, weights, clicks):
    """Training saves the detector without its prefix, upstream's image model the tracker too."""
    tracker = "inst_interactive_predictor.model."
    kept = weights if clicks else without(weights, "tracker.", SECOND_NECK)
    renamed = {
        n.replace("tracker.", tracker, 1) if n.startswith("tracker.") else n[len("detector.") :]: w
        for n, w in kept.items()
    }
    arguments = (np.ones((1, 112, 112, 3), np.float32), np.array([[49406, 2368, 49407]]), [0])
    found = [
        testing.sam3_detect(str(save(tmp_path / name, values)), *arguments)
        for name, values in (("meta", kept), ("image", renamed))
    ]
    parity.same_bits(*found, "names")
    model = sam_rlx.load_model(tmp_path / "image")
    assert (model.config["tracker"] is not None) == clicks


def test_every_problem_of_a_file_is_in_one_error(tmp_path, weights):
    changed = dict(weights)
    missing = "detector.geometry_encoder.points_pool_project.bias"
    misshaped = "detector.dot_prod_scoring.hs_proj.weight"
    del changed[missing]
    changed[misshaped] = np.zeros((3, 3), np.float32)
    changed["detector.surplus"] = np.zeros(1, np.float32)
    with pytest.raises(sam_rlx.CheckpointError) as caught:
        sam_rlx.load_model(save(tmp_path / "bad.safetensors", changed))
    text = str(caught.value)
    assert "1 missing, 1 misshaped, 1 unexpected" in text
    for line in (
        f"{missing}: expected shape (64,), found no tensor",
        f"{misshaped}: expected shape (64, 64), found (3, 3)",
        "detector.surplus: expected no tensor, found shape (1,)",
    ):
        assert line in text


def test_a_tracker_without_its_neck(tmp_path, weights):
    path = save(tmp_path / "bad.safetensors", without(weights, SECOND_NECK))
    with pytest.raises(sam_rlx.CheckpointError, match=r"sam2_convs\.0\.conv_1x1\.weight"):
        sam_rlx.load_model(path)


@pytest.mark.parametrize("side", [56, 98, 336])
def test_other_input_sides(tmp_path, weights, side):
    path = save(tmp_path / "sam3.safetensors", weights)
    model = sam_rlx.load_model(path, image_size=side)
    assert (model.img_size, model.mask_side) == (side, side // 14 * 4)
    for wrong in (13, 100, 14 * 300):
        with pytest.raises(sam_rlx.InvalidArgumentError, match="image_size: expected a multiple"):
            sam_rlx.load_model(path, image_size=wrong)


def test_steady_state(testing, tmp_path, weights):
    path = save(tmp_path / "sam3.safetensors", weights)
    assert testing.sam3_allocations(str(path), 4)[2:] == [0, 0]
