"""Sizes of SAM 2 checkpoints: from metadata, else from the tensors."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import sam_rlx
from support import tiny_sam2


def save(path, config, metadata=None, version="2.1"):
    """Write a checkpoint whose tensors have the right shapes."""
    shapes = {
        **tiny_sam2.image_encoder_shapes(config),
        **tiny_sam2.heads_shapes(config, version),
    }
    header, begin = {"__metadata__": metadata} if metadata else {}, 0
    for name, shape in shapes.items():
        end = begin + 2 * math.prod(shape)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + begin)  # zeros, which are not written
    return str(path)


def check(found, config):
    expected = {**config.layer, "q_pool": len(config.stages) - 1, "mlp_ratio": 4.0}
    assert {key: found[key] for key in expected} == expected
    np.testing.assert_allclose(found["pixel_mean"], (0.485, 0.456, 0.406), rtol=1e-6)
    np.testing.assert_allclose(found["pixel_std"], (0.229, 0.224, 0.225), rtol=1e-6)


@pytest.mark.parametrize("variant", tiny_sam2.VARIANTS)
@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_released_sizes_come_from_the_tensors(testing, tmp_path, variant, version):
    config = tiny_sam2.VARIANTS[variant]
    path = save(tmp_path / "bare.safetensors", config, version=version)
    found = testing.sam2_config(path)
    assert (found["variant"], found["version"]) == (variant, version)
    check(found, config)
    assert testing.sam2_config(path, variant)["variant"] == variant


def test_other_sizes_come_from_metadata(testing, tmp_path):
    config = replace(tiny_sam2.TINY, num_heads=2, window_spec=(8, 4, 6, 3))
    path = save(tmp_path / "tiny.safetensors", config, tiny_sam2.metadata(config))
    found = testing.sam2_config(path)
    assert (found["variant"], found["version"]) == ("tiny", "2.1")
    check(found, config)


def test_other_sizes_without_metadata_are_refused(testing, tmp_path):
    path = save(tmp_path / "bare.safetensors", tiny_sam2.TINY)
    text = r"released SAM 2, or a config.*found width 16, blocks per stage \(1, 1, 2, 1\)"
    with pytest.raises(sam_rlx.CheckpointError, match=text):
        testing.sam2_config(path)


def test_a_contradicting_variant_is_refused(testing, tmp_path):
    path = save(tmp_path / "bare.safetensors", tiny_sam2.VARIANTS["hiera_t"])
    with pytest.raises(sam_rlx.CheckpointError, match=r"width 112.*\(the file is hiera_t\)"):
        testing.sam2_config(path, "hiera_b+")
    with pytest.raises(sam_rlx.UnsupportedError, match=r"hiera_t, hiera_s, hiera_b\+ or hiera_l"):
        testing.sam2_config(path, "hiera_g")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("image_size", 1000),  # no multiple of 32
        ("image_size", 1 << 13),
        ("stages", []),
        ("stages", [1, 1, 1 << 19, 1]),
        ("stages", [1, 0, 2, 1]),
        ("window_spec", [8, 4, 14]),
        ("window_spec", [8, 4, 13, 7]),  # pooled: even
        ("num_heads", 3),
        ("num_heads", 0),
        ("embed_dim", 1 << 20),
        ("embed_dim", "96"),
        ("global_att_blocks", [1]),  # a block that pools
        ("q_pool", 4),
        ("q_pool", 2),  # levels 2 and 3 would be equally large
        ("mlp_ratio", -1.0),
        ("window_pos_embed_bkg_spatial_size", [7]),
        ("d_model", 30),
        ("scalp", 4),
        ("scalp", -1),
        ("image_mean", [0.5]),
    ],
    ids=str,
)
def test_sizes_that_do_not_fit_are_refused(testing, tmp_path, key, value):
    metadata = tiny_sam2.metadata(tiny_sam2.TINY)
    sizes = json.loads(metadata["config"])
    sizes[key] = value
    metadata["config"] = json.dumps(sizes)
    path = save(tmp_path / "bad.safetensors", tiny_sam2.TINY, metadata)
    with pytest.raises(sam_rlx.CheckpointError, match=r"metadata\.config"):
        testing.sam2_config(path)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("depth_of", None, None),
        ("stages", [1, 0, 2, 1], r"metadata\.config\.stages: expected 1 to 1024, found 0"),
        ("image_mean", [0.5], r"metadata\.config\.image_mean: expected 3 numbers, found 1"),
        ("mlp_ratio", 65, r"metadata\.config\.mlp_ratio: expected 0 to 64, found 65"),
        ("num_maskmem", 1, r"metadata\.config\.num_maskmem: expected 2 to 1048576, found 1"),
        ("no_obj_embed_spatial", 1, r"metadata\.config\.no_obj_embed_spatial"),
    ],
)
def test_errors_name_the_field(testing, tmp_path, key, value, text):
    metadata = tiny_sam2.metadata(tiny_sam2.TINY)
    metadata["config"] = json.dumps({**json.loads(metadata["config"]), key: value})
    path = save(tmp_path / "tiny.safetensors", tiny_sam2.TINY, metadata)
    if text is None:  # names that nothing reads do no harm
        assert testing.sam2_config(path)["variant"] == "tiny"
        return
    with pytest.raises(sam_rlx.CheckpointError, match=text):
        testing.sam2_config(path)


def test_switches_of_the_memory_come_from_metadata(tmp_path):
    config, metadata = tiny_sam2.TINY, tiny_sam2.metadata(tiny_sam2.TINY)
    switches = {
        "sigmoid_scale_for_mem_enc": 10.0,
        "max_obj_ptrs_in_encoder": 5,
        "dynamic_multimask_stability_thresh": 0.5,
        "binarize_mask_from_pts_for_mem_enc": False,
    }
    metadata["config"] = json.dumps({**json.loads(metadata["config"]), **switches})
    found = sam_rlx.load_model(save(tmp_path / "tiny.safetensors", config, metadata)).config
    parts = found["base"] | found["memory_bank"] | found["mask_decoder"]
    assert {key: parts[key] for key in switches} == switches
