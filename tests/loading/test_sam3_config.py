"""Sizes of SAM 3 checkpoints: from metadata, else those of the release."""

import json
import struct
from dataclasses import asdict, replace

import pytest
import sam_rlx
from support import tiny_sam3

TINY, RELEASED = tiny_sam3.TINY, tiny_sam3.RELEASED


def save(path, config, metadata=None, tracker=False):
    """Write a checkpoint of zeros, which take no room on the disk."""
    begin, header = 0, {}
    for name, shape in tiny_sam3.config_shapes(config, tracker).items():
        size = 2
        for side in shape:
            size *= side
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [begin, begin + size]}
        begin += size
    if metadata is not None:
        header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + begin)
    return str(path)


def check(found, config):
    sizes = asdict(config)
    names = {"text": ("width", "heads", "layers")}
    for part in ("vision", "text", "detector"):
        told = {f"text_{key}" if key in names.get(part, ()) else key: key for key in found[part]}
        assert len(told.keys() & sizes.keys()) >= 5
        for name in told.keys() & sizes.keys():
            value, expected = found[part][told[name]], sizes[name]
            assert value == (list(expected) if isinstance(expected, tuple) else expected), name
    assert found["pixel_mean"] == found["pixel_std"] == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("tracker", [True, False])
def test_the_release_is_recognised(testing, tmp_path, tracker):
    path = save(tmp_path / "bare.safetensors", RELEASED, tracker=tracker)
    found = testing.sam3_config(path)
    assert found["variant"] == testing.sam3_config(path, "sam3")["variant"] == "sam3"
    check(found, RELEASED)
    expected = {
        "num_maskmem": 7,
        "mem_dim": 64,
        "memory_layers": 4,
        "memory_feedforward": 2048,
        "num_multimask_outputs": 3,
    }
    if tracker:
        assert expected.items() <= found["tracker"].items()
    else:
        assert found["tracker"] is None


def test_other_sizes_come_from_metadata(testing, tmp_path):
    config = replace(TINY, num_heads=4, window_size=2, text_heads=2, memory_layers=3)
    path = save(tmp_path / "tiny.safetensors", config, tiny_sam3.metadata(config), tracker=True)
    found = testing.sam3_config(path)
    assert found["variant"] == "tiny"
    check(found, config)
    assert found["tracker"]["memory_layers"] == 3


def test_other_sizes_without_metadata_are_refused(testing, tmp_path):
    path = save(tmp_path / "bare.safetensors", TINY)
    text = r"released SAM 3, or a config.*found trunk of width 64 with 2 blocks, text of width 64"
    with pytest.raises(sam_rlx.CheckpointError, match=text):
        testing.sam3_config(path)


def test_a_contradicting_variant_is_refused(testing, tmp_path):
    path = save(tmp_path / "tiny.safetensors", TINY, tiny_sam3.metadata(TINY))
    with pytest.raises(sam_rlx.CheckpointError, match=r"width 1024.*\(the file is tiny\)"):
        testing.sam3_config(path, "sam3")
    with pytest.raises(sam_rlx.UnsupportedError, match=r"expected sam3 or sam3\.1, found vit_b"):
        testing.sam3_config(path, "vit_b")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("img_size", 100),  # no multiple of 14
        ("img_size", 14 << 12),
        ("img_size", 0),
        ("pretrain_img_size", 7),
        ("embed_dim", 66),
        ("embed_dim", 1 << 21),
        ("embed_dim", "64"),
        ("depth", 1 << 19),
        ("num_heads", 3),
        ("num_heads", 32),  # heads of two channels
        ("mlp_ratio", -1.0),
        ("mlp_ratio", 1e300),
        ("mlp_ratio", 0.001),
        ("window_size", 0),
        ("window_size", 1 << 19),
        ("global_att_blocks", []),
        ("global_att_blocks", [2]),
        ("global_att_blocks", [1, 1]),
        ("global_att_blocks", [1, 0]),
        ("global_att_blocks", [-1]),
        ("scale_factors", [4.0, 2.0, 1.0, 3.0]),
        ("scale_factors", [2.0, 4.0, 1.0, 0.5]),
        ("scale_factors", [4.0, 2.0]),
        ("scalp", 0),
        ("scalp", -(1 << 63)),
        ("d_model", 60),
        ("d_model", 1 << 30),
        ("text_width", 65),
        ("text_heads", 3),
        ("text_layers", 1 << 19),
        ("context_length", 1 << 19),
        ("vocab_size", 0),
        ("nheads", 3),
        ("encoder_layers", 1 << 19),
        ("decoder_layers", 0),
        ("geometry_layers", 1 << 19),
        ("num_queries", 1 << 19),
        ("upsampling_stages", 1),
        ("image_mean", [0.5]),
    ],
    ids=str,
)
def test_sizes_that_do_not_fit_are_refused(testing, tmp_path, key, value):
    metadata = tiny_sam3.metadata(TINY)
    sizes = {**json.loads(metadata["config"]), key: value}
    metadata["config"] = json.dumps(sizes)
    path = save(tmp_path / "bad.safetensors", TINY, metadata)
    with pytest.raises(sam_rlx.CheckpointError, match=r"metadata\.config"):
        testing.sam3_config(path)


@pytest.mark.parametrize("key", ["img_size", "mlp_ratio", "text_width", "nheads", "scalp"])
def test_sizes_that_are_not_there(testing, tmp_path, key):
    metadata = tiny_sam3.metadata(TINY)
    sizes = json.loads(metadata["config"])
    del sizes[key]
    metadata["config"] = json.dumps(sizes)
    with pytest.raises(sam_rlx.CheckpointError, match=key):
        testing.sam3_config(save(tmp_path / "bad.safetensors", TINY, metadata))


@pytest.mark.parametrize("change", [{"mem_dim": 6}, {"memory_layers": 0}])
def test_a_tracker_that_does_not_fit(testing, tmp_path, change):
    config = replace(TINY, **change)
    path = save(tmp_path / "bad.safetensors", config, tiny_sam3.metadata(TINY), tracker=True)
    with pytest.raises(sam_rlx.CheckpointError):
        testing.sam3_config(path)
