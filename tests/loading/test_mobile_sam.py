"""Checkpoints with MobileSAM's trunk: sizes from the tensors, other kinds of files, damage."""

from dataclasses import replace

import numpy as np
import pytest
import sam_rlx
from safetensors.numpy import save_file
from sam_rlx import CheckpointError, UnsupportedError
from support import tiny, tiny_mobile_sam

PATCH = "image_encoder.patch_embed.seq.0.c.weight"


def counters(weights):
    """What a file has beside the network's tensors: counters, and upstream's classifier."""
    extra = {
        name.replace("running_var", "num_batches_tracked"): np.zeros((), np.int64)
        for name in weights
        if name.endswith("running_var")
    }
    width = weights["image_encoder.neck.0.weight"].shape[1]
    extra["image_encoder.norm_head.weight"] = np.ones(width, np.float32)
    extra["image_encoder.norm_head.bias"] = np.ones(width, np.float32)
    extra["image_encoder.head.weight"] = np.ones((1000, width), np.float32)
    extra["image_encoder.head.bias"] = np.ones(1000, np.float32)
    return extra


@pytest.fixture(scope="module")
def weights():
    return tiny_mobile_sam.weights()


@pytest.fixture(scope="module")
def path(tmp_path_factory, weights):
    path = tmp_path_factory.mktemp("mobile_sam") / "x.safetensors"
    save_file({**weights, **counters(weights)}, path)
    return path


def masks(source, **options):
    options = {"image_size": 128, **options}
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(source, **options))
    image = np.random.default_rng(3).integers(0, 256, (90, 133, 3), np.uint8)
    predictor.set_image(image)
    found = predictor.predict(point_coords=[[60, 40]], point_labels=[1], return_logits=True)
    return predictor.image_embedding, found.masks


def test_sizes_are_those_of_the_tensors(path):
    model = sam_rlx.load_model(path)
    assert (model.family, model.variant, model.img_size) == ("sam", "custom", 1024)
    encoder = model.config["image_encoder"]
    assert encoder["patch_size"] == 16
    assert encoder["tiny_vit"] == {
        "patch_kernel": 3,
        **tiny_mobile_sam.TINY.sizes(),
        # Upstream does not use those of the first layer; ours are the second layer's.
        "num_heads": [1, 2, 5, 10],
        "mlp_ratio": 4,
        "mbconv_expand_ratio": 4,
        "local_conv_size": 3,
    }
    ignored = model.report()["ignored"]
    assert len(ignored) == len(counters(tiny_mobile_sam.weights()))
    assert all("num_batches_tracked" in name or "head." in name for name in ignored)


def save_zeros(path, shapes):
    """Write a file of half-precision zeros: the sizes alone count."""
    save_file({name: np.zeros(shape, np.float16) for name, shape in shapes.items()}, path)
    return path


def test_the_released_sizes_are_vit_t(tmp_path):
    shapes = tiny_mobile_sam.shapes_of(tiny_mobile_sam.VIT_T, tiny.VIT_B)
    # As published: 10,130,092 with a classifier of 321,640, and without buffers.
    weights = [n for n in shapes if "running" not in n and not n.endswith("gaussian_matrix")]
    numbers = sum(int(np.prod(shapes[name])) for name in weights)
    assert numbers == 10_130_092 - 321_640
    path = save_zeros(tmp_path / "x.safetensors", shapes)
    model = sam_rlx.load_model(path, variant="vit_t")
    assert (model.variant, model.img_size) == ("vit_t", 1024)
    with pytest.raises(CheckpointError, match=r"variant vit_b: .*TinyViT of widths"):
        sam_rlx.load_model(path, variant="vit_b")


def test_the_first_convolutions_tell_litemedsam(tmp_path, weights):
    config = replace(tiny_mobile_sam.TINY, patch_kernel=1)
    path = tmp_path / "x.safetensors"
    save_file(tiny_mobile_sam.weights(config), path)
    model = sam_rlx.load_model(path)
    assert model.img_size == 256
    assert model.config["image_encoder"]["patch_size"] == 4
    assert masks(path, image_size=36)[0].shape[-2:] == (9, 9)


def test_vit_b_is_not_vit_t(tiny_checkpoint):
    with pytest.raises(CheckpointError, match=r"variant vit_t: .*found width 64"):
        sam_rlx.load_model(tiny_checkpoint, variant="vit_t")


def test_the_side_is_a_multiple_of_the_strides(path):
    assert sam_rlx.load_model(path, image_size=208).img_size == 208
    with pytest.raises(sam_rlx.InvalidArgumentError, match="a multiple of 16"):
        sam_rlx.load_model(path, image_size=200)


@pytest.mark.parametrize("name", ["x.gguf", "x.safetensors"])
@pytest.mark.parametrize("dtype", ["F32", "F16", "Q8_0"])
def test_written_again(path, tmp_path, name, dtype):
    if name == "x.safetensors" and dtype == "Q8_0":
        pytest.skip("GGUF alone packs")
    written = tmp_path / name
    sam_rlx.conversion.convert(path, written, dtype=dtype)
    plain, found = masks(path), masks(written)
    bound = {"F32": 0.0, "F16": 0.02, "Q8_0": 0.1}[dtype]
    for a, b in zip(plain, found, strict=True):
        assert np.abs(a - b).max() <= bound * np.abs(a).max()


def test_packed_matrices_stay_packed(path, tmp_path):
    """With rows that blocks fit in: 256 divides the widths."""
    config = replace(
        tiny_mobile_sam.TINY,
        embed_dims=(32, 64, 96, 320),
        num_heads=(1, 2, 3, 10),
    )
    source = tmp_path / "x.safetensors"
    save_file(tiny_mobile_sam.weights(config), source)
    sam_rlx.conversion.convert(source, tmp_path / "x.gguf", dtype="Q8_0")
    packed = sam_rlx.load_model(tmp_path / "x.gguf", image_size=64)
    assert packed.precision == "Q8_0"
    # Unpacked while they are multiplied, which changes no bit.
    embedding = masks(tmp_path / "x.gguf", image_size=64)[0]
    wide = masks(tmp_path / "x.gguf", image_size=64, precision="float32")[0]
    np.testing.assert_array_equal(embedding, wide)


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_other_precisions(path, precision):
    plain, found = masks(path)[0], masks(path, precision=precision)[0]
    largest = np.abs(plain).max()
    assert 0 < np.abs(found - plain).max() < 0.1 * largest


def test_threads_change_nothing(path):
    image = np.random.default_rng(4).integers(0, 256, (133, 90, 3), np.uint8)
    model = sam_rlx.load_model(path, image_size=176)
    found = []
    for threads in (1, 2, 3):
        predictor = sam_rlx.ImagePredictor(model, num_threads=threads)
        predictor.set_image(image)
        found.append(predictor.image_embedding)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_transformers_has_no_such_class(path, tmp_path):
    with pytest.raises(UnsupportedError, match="TinyViT"):
        sam_rlx.conversion.convert(path, tmp_path / "folder")


def test_everything_mode(path):
    image = np.random.default_rng(5).integers(0, 256, (90, 133, 3), np.uint8)
    generator = sam_rlx.MaskGenerator(
        sam_rlx.load_model(path, image_size=128),
        points_per_side=2,
        pred_iou_thresh=0.0,
        stability_score_thresh=0.0,
    )
    for record in generator.generate(image):
        assert record.segmentation.shape == (90, 133)


DAMAGE = {
    "a block less": (".layers.1.blocks.1.", None, "custom"),
    "a tensor less": ("layers.2.blocks.0.attn.proj.bias", None, "proj.bias"),
    "no layer 1": (".layers.1.", None, "layers"),
    "another window": (
        "layers.2.blocks.0.attn.attention_biases",
        np.zeros((5, 24), np.float32),
        "attention_biases",
    ),
    "no heads": (
        "layers.2.blocks.0.attn.attention_biases",
        np.zeros((3, 25), np.float32),
        "sizes divide",
    ),
    "an even kernel": (PATCH, np.zeros((8, 3, 2, 2), np.float32), "divide"),
    "a flat kernel": (PATCH, np.zeros((8, 27), np.float32), "patch_kernel"),
    "no batch norm": ("layers.0.blocks.0.conv2.bn.running_var", None, "running_var"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_named(tmp_path, weights, case):
    part, value, message = DAMAGE[case]
    changed = {n: w for n, w in weights.items() if part not in n}
    if value is not None:
        name = next(n for n in weights if part in n)
        changed[name] = value
    save_file(changed, tmp_path / "x.safetensors")
    if message == "custom":  # a model with fewer blocks is one
        assert sam_rlx.load_model(tmp_path / "x.safetensors").variant == "custom"
        return
    with pytest.raises(CheckpointError, match=message):
        sam_rlx.load_model(tmp_path / "x.safetensors")
