"""Fine-tuned models: files and folders of their layouts, and the rules of their pixels."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from sam_rlx._internal.weights.fine_tunes import fine_tune
from support import checkpoint_files as files
from support import tiny, tiny_edgetam, tiny_mobile_sam, tiny_sam2
from support.checkpoint_files import Call, Global, Stored
from support.parity import FEW, NUDGES

FLOATS = {"step": 3, "loss": 0.25}


def save(path, value):
    """Write nested dicts of arrays as PyTorch does."""
    storages = files.Storages()

    def convert(value):
        if isinstance(value, dict):
            return {key: convert(item) for key, item in value.items()}
        if isinstance(value, np.ndarray):
            return storages.tensor(files.stored(value))
        return storages.tensor(value) if isinstance(value, Stored) else value

    path.write_bytes(files.zip_bytes(files.torch_entries(convert(value), storages)))
    return path


def one_number(shapes):
    """Tensors of these shapes, all of whose numbers are the same one in the file."""
    return {
        name: Stored("F32", bytes(4), shape, (0,) * len(shape)) for name, shape in shapes.items()
    }


def prefixed(weights):
    return {f"sam.{name}": value for name, value in weights.items()}


# ---------------------------------------------------------------- layouts


DECODER = {
    "base.block.0.weight": np.ones((2, 2), np.float32),
    "deconv_out.weight": np.ones((2, 2), np.float32),
    "out_conv.bias": np.ones(3, np.float32),
}
MICRO_SAM = {
    "bare": lambda weights: weights,
    "training": lambda weights: {
        "model_state": prefixed(weights),
        "optimizer_state": {"state": {0: {"exp_avg": np.ones(3, np.float32)}}},
        "init": {"name": "vit_b_lm", "mixed_precision": True},
        "epoch": 3,
    },
    "export with a decoder": lambda weights: {"model_state": weights, "decoder_state": DECODER},
}


@pytest.mark.parametrize("network", ["sam", "mobile_sam"])
@pytest.mark.parametrize("layout", MICRO_SAM)
def test_files_of_micro_sam(tmp_path, tiny_weights, layout, network):
    weights = tiny_weights if network == "sam" else tiny_mobile_sam.weights()
    model = sam_rlx.load_model(save(tmp_path / "vit_b_lm.pt", MICRO_SAM[layout](weights)))
    plain = sam_rlx.load_model(save(tmp_path / "plain.pt", weights))
    assert model.core.weights_hash == plain.core.weights_hash


def test_a_decoder_of_micro_sam_is_named(tmp_path):
    path = save(tmp_path / "vit_b_lm_decoder.pt", DECODER)
    with pytest.raises(sam_rlx.UnsupportedError, match="found a decoder of micro-sam"):
        sam_rlx.load_model(path)


def test_objects_of_torch_em_are_left_out(tmp_path, tiny_weights):
    """No code of theirs runs; the weights beside them are read."""
    loss = Call(Global("torch_em.loss", "DiceLoss"))
    value = {"model_state": prefixed(tiny_weights), "init": {"loss": loss}}
    model = sam_rlx.load_model(save(tmp_path / "best.pt", value))
    assert model.num_parameters == sum(each.size for each in tiny_weights.values())


@pytest.fixture(scope="module")
def hiera_t():
    """Tensors of SAM 2.1 T."""
    config = tiny_sam2.VARIANTS["hiera_t"]
    return one_number({**tiny_sam2.image_encoder_shapes(config), **tiny_sam2.heads_shapes(config)})


def test_medsam2_needs_its_side(tmp_path, hiera_t):
    path = save(tmp_path / "MedSAM2_latest.pt", {"model": hiera_t})
    model = sam_rlx.load_model(path, image_size=512)
    assert (model.variant, model.version, model.img_size) == ("hiera_t", "2.1", 512)
    assert model.supports_video


def test_a_checkpoint_of_sam_2s_training(tmp_path, hiera_t):
    value = {
        "model": hiera_t,
        "optimizer": {"state": {0: {"exp_avg": np.ones(3, np.float32)}}, "param_groups": [FLOATS]},
        "epoch": 3,
        "loss": FLOATS,
        "steps": {"train": 9, "val": 2},
        "time_elapsed": 12.5,
        "best_meter_values": {},
        "scaler": {"scale": 65536.0, "growth_factor": 2.0},
    }
    model = sam_rlx.load_model(save(tmp_path / "checkpoint.pt", value))
    assert (model.variant, model.version, model.img_size) == ("hiera_t", "2.1", 1024)


SLIM_SAM = {"slimsam-50-uniform": (384, 1536), "slimsam-77-uniform": (168, 696)}


def slim_config(width, mlp):
    """config.json as it is published: two sizes, and empty names of its parts."""
    parts = ("vision_config", "prompt_encoder_config", "mask_decoder_config")
    config = {part: {"model_type": ""} for part in parts}
    config["vision_config"] |= {"hidden_size": width, "mlp_dim": mlp}
    return {"architectures": ["SamModel"], "model_type": "sam", "torch_dtype": "float32", **config}


@pytest.mark.parametrize("name", SLIM_SAM)
def test_folders_of_slimsam(tmp_path, name):
    """Of their sizes: heads of 32 and 14, and an MLP that is no multiple of the width."""
    width, mlp = SLIM_SAM[name]
    shapes = dict(tiny.sam_shapes(replace(tiny.VIT_B, embed_dim=width)))
    for key, shape in shapes.items():
        if ".blocks." in key and ".mlp." in key:
            shapes[key] = tuple(mlp if side == 4 * width else side for side in shape)
    folder = tmp_path / name
    sam_rlx.convert(save(tmp_path / "x.pt", one_number(shapes)), folder, dtype="F16")
    (folder / "config.json").write_text(json.dumps(slim_config(width, mlp)))
    model = sam_rlx.load_model(folder)
    encoder = model.config["image_encoder"]
    found = {key: encoder[key] for key in ("embed_dim", "mlp_dim", "num_heads", "img_size")}
    assert found == {"embed_dim": width, "mlp_dim": mlp, "num_heads": 12, "img_size": 1024}
    assert encoder["global_attn_indexes"] == [2, 5, 8, 11]
    (folder / "config.json").write_text(json.dumps(slim_config(width, 4 * width + 1)))
    with pytest.raises(sam_rlx.CheckpointError, match=f"mlp_dim.*{4 * width + 1}"):
        sam_rlx.load_model(folder)


@pytest.mark.parity
def test_a_pruned_vit_computes_what_transformers_computes(parity, testing, tmp_path):
    """Heads of 14, which fill no vector, and an MLP of 232 for a width of 56."""
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    pytest.importorskip("support.upstream", reason="needs PyTorch").prepare()
    from support import hugging_face_configs
    from support import hugging_face_models as hf

    sizes = hugging_face_configs.config("SamModel", 128)
    sizes.vision_config.hidden_size, sizes.vision_config.mlp_dim = 56, 232
    network = hf.fill(transformers.SamModel(sizes))
    folder = hf.save(network, tmp_path / "slimsam-77-uniform")
    exact, single = hf.reference(network, "float64"), hf.reference(network, "float32")
    nudged = [hf.reference(network, "float32", seed) for seed in range(NUDGES)]
    found = hf.ours(testing, "SamModel", folder)
    for key, value in exact.items():
        more = [each[key] for each in nudged] if value.size < FEW else []
        parity.close(found[key], value, single[key], key, more)


# ---------------------------------------------------------------- pixels


@pytest.mark.parametrize("suffix", [".safetensors", ".gguf", ""])
def test_pixels_without_mean_and_deviation(tmp_path, tiny_checkpoint, suffix):
    """The option says what `do_normalize` says in a folder, which a GGUF file of it keeps."""
    folder = tmp_path / "medsam"
    sam_rlx.convert(tiny_checkpoint, folder)
    settings = folder / "preprocessor_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"do_normalize": False}))
    sam_rlx.convert(folder, tmp_path / "medsam.gguf", dtype="F32")
    kept = suffix != ".safetensors"
    source = tmp_path / f"medsam{suffix}" if kept else tiny_checkpoint
    for options in [{}, {"normalize": False}] if kept else [{"normalize": False}]:
        model = sam_rlx.load_model(source, **options)
        assert model.config["pixel_mean"] == [0, 0, 0]
        assert model.config["pixel_std"] == [255, 255, 255]
        assert pickle.loads(pickle.dumps(model)).config == model.config


@pytest.mark.parametrize("name", ["sam2-nano", "sam3-nano"])
def test_pixels_without_mean_and_deviation_in_other_families(name):
    model = sam_rlx.load_model(name, normalize=False)
    assert model.config["pixel_mean"] == [0, 0, 0]
    assert model.config["pixel_std"] == [1, 1, 1]


@pytest.mark.parity
def test_the_rule_of_medsam(tiny_checkpoint):
    """Its script: divided by the range, without mean and deviation; probabilities are resized."""
    upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
    torch = pytest.importorskip("torch", reason="needs the reference packages")
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    model = sam_rlx.load_model(tiny_checkpoint, normalize=False)
    side, (height, width) = model.img_size, (150, 201)
    # Their range is a third of 255: no value is rounded.
    square = np.random.default_rng(5).integers(20, 106, (side, side, 3)).astype(np.uint8)
    assert np.ptp(square) == 85
    shares = (square - square.min()) / np.float32(np.ptp(square))
    box = np.array([30.0, 20.0, 110.0, 90.0])

    network = upstream.build_sam(tiny.TINY)
    with torch.no_grad():
        embedding = network.image_encoder(torch.from_numpy(shares).permute(2, 0, 1)[None])
        sparse, dense = network.prompt_encoder(
            points=None, boxes=torch.from_numpy(box).float()[None, None], masks=None
        )
        logits, _ = network.mask_decoder(
            image_embeddings=embedding,
            image_pe=network.prompt_encoder.get_dense_pe(),
            sparse_prompt_embeddings=sparse,
            dense_prompt_embeddings=dense,
            multimask_output=False,
        )
        resized = torch.nn.functional.interpolate(
            torch.sigmoid(logits), size=(height, width), mode="bilinear", align_corners=False
        )

    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(shares)
    found = predictor.predict(box=box, multimask_output=False)
    scale = float(logits.abs().max())
    np.testing.assert_allclose(predictor.image_embedding, embedding.numpy(), atol=1e-4)
    np.testing.assert_allclose(found.low_res_masks[None], logits.numpy(), atol=1e-4 * scale)
    ours = image.fromarray(0.5 + 0.5 * np.tanh(found.low_res_masks[0] / 2)).resize(
        (width, height), image.Resampling.BILINEAR
    )
    np.testing.assert_allclose(np.asarray(ours), resized.numpy()[0, 0], atol=1e-4)


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("MedSAM2_latest.pt", "MedSAM2"),
        ("medsam_vit_b.pth", "MedSAM,"),
        ("lite_medsam.pth", "LiteMedSAM"),
        ("vit_b_lm.pt", "micro-sam"),
        ("vit_t_em_organelles", "micro-sam"),
        ("vit_b_ema.pt", None),
        ("slimsam-77-uniform", "SlimSAM"),
        ("sam_vit_b_01ec64.pth", None),
        ("sam2.1_hiera_tiny.pt", None),
    ],
)
def test_they_are_known_by_name(name, known):
    found = fine_tune(Path("medsam") / name)
    assert found is None if known is None else found.startswith(known)


def test_info_names_them(run_cli, tmp_path, tiny_weights):
    path = save(tmp_path / "vit_b_lm.pt", tiny_weights)
    code, told, _ = run_cli("info", path)
    assert code == 0
    assert "by its name micro-sam" in told
    path = save(tmp_path / "mine.pt", tiny_edgetam.weights())
    assert "by its name" not in run_cli("info", path)[1]
