"""Loading a model: sizes from the tensors, contradictions, other input sides."""

import dataclasses

import numpy as np
import pytest
import sam_rlx
from sam_rlx import _core
from support import nudged, tiny


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
    low_res = predictor.decode(np.array([[[30.0, 20.0]]]), np.array([[1]], np.int32)).low_res_masks
    assert low_res.shape == (1, 3, side // 4, side // 4)


def upstream_predictor(upstream, side, dtype):
    """Upstream's predictor for another input side, with the weights of `tiny_checkpoint`.

    Upstream interpolates tables of relative positions itself. That of absolute positions is
    interpolated as in ViTDet.
    """
    torch = upstream.torch
    network = upstream.build_sam(dataclasses.replace(tiny.TINY, img_size=side), seed=None).to(dtype)
    shapes = {name: value.shape for name, value in network.state_dict().items()}
    weights = {n: torch.from_numpy(v) for n, v in tiny.sam_weights(tiny.TINY, seed=0).items()}
    tables = {name: value for name, value in weights.items() if value.shape != shapes[name]}
    assert {name.rpartition(".")[2] for name in tables} == {"pos_embed", "rel_pos_h", "rel_pos_w"}
    found = network.load_state_dict(
        {name: value for name, value in weights.items() if name not in tables}, strict=False
    )
    assert set(found.missing_keys) - set(tables) <= {"pixel_mean", "pixel_std"}
    for name, table in tables.items():
        table = table.to(dtype)
        parent, _, leaf = name.rpartition(".")
        if leaf == "pos_embed":
            planes = table.permute(0, 3, 1, 2)
            planes = torch.nn.functional.interpolate(planes, size=side // 16, mode="bicubic")
            table = planes.permute(0, 2, 3, 1)
        setattr(network.get_submodule(parent), leaf, torch.nn.Parameter(table))
    return upstream.sam.SamPredictor(network)


@pytest.mark.parity
@pytest.mark.parametrize("side", [64, 112, 256])
def test_other_input_sides_are_upstreams(tiny_checkpoint, images, side):
    upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
    image = images["wide 400x600"]
    prompts = {"point_coords": np.array([[300.0, 200.0]]), "point_labels": np.array([1])}
    single = upstream_predictor(upstream, side, upstream.torch.float32)
    single.set_image(image)
    rounded = nudged.results(
        single, upstream.torch, lambda predictor: predictor.predict(**prompts, return_logits=True)
    )
    with upstream.float64():
        exact = upstream_predictor(upstream, side, upstream.torch.float64)
        exact.set_image(image)
        truth = exact.predict(**prompts, return_logits=True)
    ours = sam_rlx.ImagePredictor(sam_rlx.load_model(tiny_checkpoint, image_size=side))
    ours.set_image(image)
    found = ours.predict(**prompts)
    nudged.hold((found.masks, found.iou_predictions, found.low_res_masks), truth, rounded)
