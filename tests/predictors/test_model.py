"""Loading a model: sizes from the tensors, contradictions, other input sides."""

import numpy as np
import pytest
import sam_rlx
from sam_rlx import _core
from support import tiny


def load(path, **options):
    return _core.load_model(str(path), **options)


def test_sizes_come_from_the_tensors(tmp_path, tiny_weights):
    from safetensors.numpy import save_file

    path = tmp_path / "bare.safetensors"
    save_file(dict(tiny_weights), path)
    encoder = load(path).config["image_encoder"]
    assert encoder["img_size"] == tiny.TINY.img_size
    assert encoder["num_heads"] == tiny.TINY.num_heads
    assert encoder["window_size"] == tiny.TINY.window_size
    assert tuple(encoder["global_attn_indexes"]) == tiny.TINY.global_attn_indexes


def test_the_number_of_parameters(tiny_checkpoint, tiny_weights):
    assert load(tiny_checkpoint).num_parameters == sum(w.size for w in tiny_weights.values())


def test_a_contradicting_variant_is_refused(tiny_checkpoint):
    with pytest.raises(sam_rlx.CheckpointError, match=r"patch_embed.*width 768.*width 64"):
        load(tiny_checkpoint, variant="vit_b")


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"variant": "vit_g"}, sam_rlx.UnsupportedError, "vit_b, vit_l or vit_h"),
        ({"precision": "int3"}, sam_rlx.UnsupportedError, "float32"),
        ({"isa": "sse9"}, sam_rlx.UnsupportedError, "generic"),
        ({"image_size": 100}, sam_rlx.InvalidArgumentError, "multiple of 16"),
        ({"image_size": 0}, sam_rlx.InvalidArgumentError, "multiple of 16"),
        ({"image_size": 1 << 20}, sam_rlx.InvalidArgumentError, "up to 4096"),
    ],
)
def test_wrong_options_are_refused(tiny_checkpoint, options, error, text):
    with pytest.raises(error, match=text):
        load(tiny_checkpoint, **options)


def test_every_problem_of_a_file_is_in_one_error(tmp_path, tiny_weights):
    weights = dict(tiny_weights)
    del weights["mask_decoder.iou_token.weight"]
    weights["mask_decoder.mask_tokens.weight"] = np.zeros((4, 3), np.float32)
    weights["surplus"] = np.zeros(1, np.float32)
    path = tiny.save_safetensors(tmp_path / "bad.safetensors", weights)
    with pytest.raises(sam_rlx.CheckpointError) as caught:
        load(path)
    for name in ("mask_decoder.iou_token.weight", "mask_decoder.mask_tokens.weight", "surplus"):
        assert name in str(caught.value)


def test_unexpected_tensors_are_reported_when_not_strict(tmp_path, tiny_weights):
    weights = {**tiny_weights, "surplus": np.zeros(1, np.float32)}
    path = tiny.save_safetensors(tmp_path / "more.safetensors", weights)
    assert load(path, strict=False).report["unexpected"] == ["surplus"]


@pytest.mark.parametrize("side", [64, 112, 256])
def test_other_input_sides(tiny_checkpoint, side):
    model = load(tiny_checkpoint, image_size=side)
    assert (model.img_size, model.mask_side) == (side, side // 4)
    predictor = _core.ImagePredictor(model, 1)
    predictor.set_image(np.full((40, 70, 3), 127, np.uint8))
    assert predictor.image_embeddings[0].shape == (1, 64, side // 16, side // 16)
    low_res, _ = predictor.decode(np.array([[[30.0, 20.0]]]), np.array([[1]], np.int32))
    assert low_res.shape == (1, 3, side // 4, side // 4)
    assert np.isfinite(low_res).all()
