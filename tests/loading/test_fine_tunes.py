"""Fine-tuned models: files and folders of their layouts, and the rules of their pixels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from sam_rlx._internal.weights.fine_tunes import fine_tune
from support import checkpoint_files as files
from support import tiny, tiny_edgetam, tiny_mobile_sam, tiny_sam2
from support.checkpoint_files import Call, Global, Stored

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


@pytest.mark.parity
@pytest.mark.parametrize(("width", "mlp"), [(56, 232), (128, 512)], ids=["77", "50"])
def test_folders_of_slimsam(parity, tmp_path, width, mlp):
    """Heads of 14 and 32, and of the former MLPs that are no multiple of the width."""
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    torch = pytest.importorskip("torch", reason="needs transformers")
    from support import hugging_face_configs
    from support import hugging_face_models as hf

    sizes = hugging_face_configs.config("SamModel", 128)
    sizes.vision_config.hidden_size, sizes.vision_config.mlp_dim = width, mlp
    network = hf.fill(transformers.SamModel(sizes))
    folder = hf.save(network, tmp_path / "slimsam-77-uniform")
    photo = hf.image(128)
    pixels = torch.from_numpy(hf.pixel_values("SamModel", photo))
    results = []
    for dtype in (torch.float64, torch.float32):
        with torch.no_grad():
            found = hf._click(network.to(dtype), pixels.to(dtype))
        results.append({key: value.numpy() for key, value in found.items()})
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(folder))
    predictor.set_image(photo)
    ours = predictor.predict(point_coords=[hf.POINT], point_labels=[1])
    parity.close(ours.low_res_masks, results[0]["low_res"], results[1]["low_res"], "masks")


# ---------------------------------------------------------------- pixels


def stretched(pixels):
    return np.rint((pixels - pixels.min()) * (255 / np.ptp(pixels))).astype(np.uint8)


@pytest.mark.parity
@pytest.mark.parametrize("suffix", ["", ".gguf"])
def test_the_rule_of_medsam(tmp_path, tiny_checkpoint, suffix):
    """Its script: divided by the range, without mean and deviation; probabilities are resized."""
    upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
    torch = pytest.importorskip("torch", reason="needs the reference packages")
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    folder = tmp_path / "medsam"
    sam_rlx.convert(tiny_checkpoint, folder)
    settings = folder / "preprocessor_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"do_normalize": False}))
    if suffix:
        sam_rlx.convert(folder, tmp_path / "medsam.gguf", dtype="F32")
    model = sam_rlx.load_model(tmp_path / f"medsam{suffix}")
    side, (height, width) = model.img_size, (150, 201)
    # Their range is a third of 255: no value is rounded.
    square = np.random.default_rng(5).integers(20, 106, (side, side, 3)).astype(np.uint8)
    assert np.ptp(square) == 85
    box = np.array([30.0, 20.0, 110.0, 90.0])

    network = upstream.build_sam(tiny.TINY)
    shares = (square - square.min()) / np.clip(square.max() - square.min(), 1e-8, None)
    with torch.no_grad():
        embedding = network.image_encoder(torch.from_numpy(shares).float().permute(2, 0, 1)[None])
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
    predictor.set_image(stretched(square))
    found = predictor.predict(box=box, multimask_output=False)
    scale = float(logits.abs().max())
    np.testing.assert_allclose(predictor.image_embedding, embedding.numpy(), atol=1e-4)
    np.testing.assert_allclose(found.low_res_masks[None], logits.numpy(), atol=1e-4 * scale)
    ours = image.fromarray(0.5 + 0.5 * np.tanh(found.low_res_masks[0] / 2)).resize(
        (width, height), image.Resampling.BILINEAR
    )
    np.testing.assert_allclose(np.asarray(ours), resized.numpy()[0, 0], atol=1e-4)


def test_stretched_pixels_are_divided_pixels():
    """MedSAM and LiteMedSAM divide by the range; bytes lie at most half a grey level beside."""
    pixels = np.random.default_rng(6).integers(31, 198, (50, 70, 3)).astype(np.uint8)
    divided = (pixels - pixels.min()) / (pixels.max() - pixels.min())
    assert np.abs(stretched(pixels) - 255 * divided).max() <= 0.5


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("MedSAM2_latest.pt", "MedSAM2"),
        ("medsam_vit_b.pth", "MedSAM,"),
        ("lite_medsam.pth", "LiteMedSAM"),
        ("vit_b_lm.pt", "micro-sam"),
        ("vit_t_em_organelles", "micro-sam"),
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
