"""Rules of transformers' layout that Meta's has not: followed, or refused by name."""

import pytest
import sam_rlx
from sam_rlx import SamRlxError, UnsupportedError

transformers = pytest.importorskip("transformers", reason="needs transformers")
pytestmark = pytest.mark.parity

from support import hugging_face_configs as configs  # noqa: E402
from support import hugging_face_models as hf  # noqa: E402
from support import upstream  # noqa: E402
from support.parity import FEW, NUDGES  # noqa: E402

upstream.prepare()


def compare(parity, testing, name, model, folder):
    exact, single = hf.reference(model, "float64"), hf.reference(model, "float32")
    nudged = [hf.reference(model, "float32", seed) for seed in range(NUDGES)]
    found = hf.ours(testing, name, folder)
    assert found.keys() == exact.keys()
    for key, value in exact.items():
        more = [each[key] for each in nudged] if value.size < FEW else []
        parity.close(found[key], value, single[key], f"{name}: {key}", more)


def made(name, change):
    """Make a tiny model of a class from a changed config."""
    sizes = configs.config(name, hf.side(name))
    change(sizes)
    return hf.fill(getattr(transformers, name)(sizes))


# ---------------------------------------------------------------- the matrix of positions


@pytest.mark.parametrize(
    ("name", "changed"),
    [("SamModel", "image"), ("Sam2Model", "clicks"), ("Sam3VideoModel", "image")],
)
def test_two_matrices_of_positions_that_differ_are_refused(tmp_path, name, changed):
    import safetensors.numpy

    folder = hf.save(hf.make(name), tmp_path / "in")
    path = folder / "model.safetensors"
    weights = safetensors.numpy.load_file(path)
    inner = next(
        each for each in weights if each.endswith("shared_image_embedding.positional_embedding")
    )
    prefix = inner.removesuffix("shared_image_embedding.positional_embedding")
    clicks = prefix + "prompt_encoder.shared_embedding.positional_embedding"
    weights[clicks] = weights[inner].copy()  # SAM's file has one of the two
    safetensors.numpy.save_file(weights, path)
    equal = sam_rlx.load_model(folder)
    weights[inner if changed == "image" else clicks][0, 0] += 1e-3
    safetensors.numpy.save_file(weights, path)
    match = r"shared_image_embedding\.positional_embedding: expected the numbers of .*two position"
    with pytest.raises(UnsupportedError, match=match):
        sam_rlx.load_model(folder)
    with pytest.raises(UnsupportedError, match=match):
        sam_rlx.convert(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert equal.img_size == hf.side(name)


# ---------------------------------------------------------------- depths


def deep(depth):
    return lambda sizes: setattr(sizes.mask_decoder_config, "iou_head_depth", depth)


@pytest.mark.parametrize(
    ("name", "depth"), [("SamModel", 2), ("Sam2Model", 5), ("Sam3TrackerModel", 4)]
)
def test_the_depth_of_the_iou_head_is_that_of_the_config(parity, testing, tmp_path, name, depth):
    model = made(name, deep(depth))
    folder = hf.save(model, tmp_path / "in")
    compare(parity, testing, name, model, folder)
    # And back: the same names and numbers, for transformers too.
    sam_rlx.convert(folder, tmp_path / "out")
    _, told = getattr(transformers, name).from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    first, second = (sam_rlx.load_model(tmp_path / each) for each in ("in", "out"))
    assert first.core.weights_hash == second.core.weights_hash


def test_a_depth_that_the_tensors_do_not_have_is_an_error(tmp_path):
    folder = hf.save(hf.make("SamModel"), tmp_path / "x")
    path = folder / "config.json"
    path.write_text(path.read_text().replace('"iou_head_depth": 3', '"iou_head_depth": 4'))
    with pytest.raises(sam_rlx.CheckpointError, match=r"iou_head_depth: expected 3, .* found 4"):
        sam_rlx.load_model(folder)


@pytest.mark.parametrize("name", ["Sam2Model", "Sam3TrackerModel"])
def test_more_blocks_in_the_decoder_are_refused_by_name(tmp_path, name):
    model = made(name, lambda sizes: setattr(sizes.mask_decoder_config, "num_hidden_layers", 3))
    folder = hf.save(model, tmp_path / "x")
    with pytest.raises(UnsupportedError, match="num_hidden_layers: expected 1 or 2, found 3"):
        sam_rlx.load_model(folder)


@pytest.mark.parametrize("name", ["SamModel", "Sam2Model"])
def test_one_block_in_the_decoder(parity, testing, tmp_path, name):
    model = made(name, lambda sizes: setattr(sizes.mask_decoder_config, "num_hidden_layers", 1))
    compare(parity, testing, name, model, hf.save(model, tmp_path / "x"))


# ---------------------------------------------------------------- encoders


@pytest.mark.parametrize("field", ["use_rel_pos", "use_abs_pos", "qkv_bias", "window_size"])
def test_an_encoder_with_other_parts_is_refused_by_the_name_of_the_setting(tmp_path, field):
    value = 0 if field == "window_size" else False
    model = made("SamModel", lambda sizes: setattr(sizes.vision_config, field, value))
    folder = hf.save(model, tmp_path / "x")
    with pytest.raises(SamRlxError, match=field):
        sam_rlx.load_model(folder)


TRUNKS = [(4, [0, 2]), (2, []), (3, [0, 2])]


@pytest.mark.parametrize(("blocks", "global_blocks"), TRUNKS)
def test_the_output_of_sam3s_trunk_is_that_of_its_last_block(
    parity, testing, tmp_path, blocks, global_blocks
):
    def change(sizes):
        trunk = sizes.vision_config.backbone_config
        trunk.num_hidden_layers, trunk.global_attn_indexes = blocks, global_blocks

    name = "Sam3TrackerModel"
    model = made(name, change)
    folder = hf.save(model, tmp_path / "in")
    compare(parity, testing, name, model, folder)
    # A folder has the rule in its layout, a GGUF file as a setting.
    for output in ("out", "x.gguf"):
        sam_rlx.convert(folder, tmp_path / output)
        compare(parity, testing, name, model, tmp_path / output)
    # Meta's code would take the output of the last global block.
    if global_blocks[-1:] == [blocks - 1]:
        sam_rlx.convert(folder, tmp_path / "x.safetensors", names="meta")
        compare(parity, testing, name, model, tmp_path / "x.safetensors")
    else:
        with pytest.raises(UnsupportedError, match="a trunk that ends with a global block"):
            sam_rlx.convert(folder, tmp_path / "x.safetensors", names="meta")
