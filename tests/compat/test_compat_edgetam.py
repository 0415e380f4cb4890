"""EdgeTAM through the names of its package, which are those of ``sam2``."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from sam_rlx.compat.sam2.build_sam import build_sam2, build_sam2_video_predictor
from sam_rlx.compat.sam2.config_file import read_settings
from sam_rlx.compat.sam2.sam2_image_predictor import SAM2ImagePredictor
from sam_rlx.errors import CheckpointError, UnsupportedError
from support import tiny_edgetam

# The trunk of the release, which a config names; what follows is small.
CONFIG = replace(tiny_edgetam.TINY, embed_dim=(48, 96, 192, 384), depth=(2, 2, 14, 2))
SETTINGS = {
    "image_size": CONFIG.image_size,
    "image_encoder.scalp": 1,
    "image_encoder.trunk._target_": "sam2.modeling.backbones.timm.TimmBackbone",
    "image_encoder.trunk.name": "repvit_m1.dist_in1k",
    "image_encoder.trunk.features": ["layer0", "layer1", "layer2", "layer3"],
    "image_encoder.neck.d_model": CONFIG.d_model,
    "image_encoder.neck.backbone_channel_list": [384, 192, 96, 48],
    "image_encoder.neck.fpn_top_down_levels": [2, 3],
    "memory_attention.num_layers": 2,
    "memory_attention.layer.dim_feedforward": CONFIG.dim_feedforward,
    "memory_attention.layer.self_attention.rope_theta": 10000.0,
    "memory_attention.layer.cross_attention.rope_theta": 10000.0,
    "memory_attention.layer.cross_attention.q_sizes": [64, 64],
    "memory_attention.layer.cross_attention.k_sizes": [2, 2],
    "memory_encoder.out_dim": CONFIG.mem_dim,
    "spatial_perceiver._target_": "sam2.modeling.perceiver.PerceiverResampler",
    "spatial_perceiver.depth": 2,
    "spatial_perceiver.dim": CONFIG.mem_dim,
    "spatial_perceiver.dim_head": CONFIG.mem_dim,
    "spatial_perceiver.heads": 1,
    "spatial_perceiver.ff_mult": 4,
    "spatial_perceiver.hidden_dropout_p": 0.0,
    "spatial_perceiver.num_latents": CONFIG.num_latents,
    "spatial_perceiver.num_latents_2d": CONFIG.num_latents_2d,
    "spatial_perceiver.position_encoding.num_pos_feats": CONFIG.mem_dim,
    "spatial_perceiver.use_self_attn": True,
    "sigmoid_scale_for_mem_enc": 20.0,
    "sigmoid_bias_for_mem_enc": -10.0,
    "use_mask_input_as_output_without_sam": True,
    "directly_add_no_mem_embed": True,
    "use_high_res_features_in_sam": True,
    "multimask_output_in_sam": True,
    "iou_prediction_use_sigmoid": True,
    "use_obj_ptrs_in_encoder": True,
    "add_tpos_enc_to_obj_ptrs": False,
    "only_obj_ptrs_in_the_past_for_eval": True,
    "pred_obj_scores": True,
    "pred_obj_scores_mlp": True,
    "fixed_no_obj_ptr": True,
    "multimask_output_for_tracking": True,
    "use_multimask_token_for_obj_ptr": True,
    "multimask_min_pt_num": 0,
    "multimask_max_pt_num": 1,
    "use_mlp_for_obj_ptr_proj": True,
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("edgetam") / "edgetam.safetensors"
    save_file(tiny_edgetam.weights(CONFIG, presence=4), path)
    return path


def write(path: Path, **changes) -> Path:
    """Write a YAML file of upstream's layout; "__" in the name of a change is a dot."""
    yaml = pytest.importorskip("yaml", reason="reads and writes the config")
    tree: dict = {}
    changed = {name.replace("__", "."): value for name, value in changes.items()}
    for name, value in {**SETTINGS, **changed}.items():
        *parts, last = name.split(".")
        branch = tree
        for part in parts:
            branch = branch.setdefault(part, {})
        branch[last] = value
    path.write_text(yaml.safe_dump({"model": tree}))
    return path


def test_images_and_videos(tmp_path, checkpoint):
    config = write(tmp_path / "edgetam.yaml")
    predictor = SAM2ImagePredictor(build_sam2(config, checkpoint))
    image = np.random.default_rng(0).integers(0, 256, (90, 133, 3), np.uint8)
    predictor.set_image(image)
    masks, _, _ = predictor.predict(np.array([[60, 40]]), np.array([1]))
    assert masks.shape == (3, 90, 133)
    video = build_sam2_video_predictor(str(config), checkpoint)
    assert video.image_size == CONFIG.image_size


def test_the_name_of_its_config():
    for name in ("edgetam", "edgetam.yaml", "configs/edgetam.yaml"):
        settings = read_settings(name)
        assert (settings.variant, settings.version) == ("edgetam", "1.0")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"image_encoder__trunk__name": "repvit_m2"}, UnsupportedError, "expected repvit_m1"),
        ({"spatial_perceiver__heads": 2}, UnsupportedError, "heads: expected 1, found 2"),
        ({"spatial_perceiver__dim_head": 8}, UnsupportedError, "dim_head: expected 16"),
        ({"spatial_perceiver__num_latents": 7}, CheckpointError, "num_latents 7 as in the config"),
        (
            {"memory_attention__layer__cross_attention__k_sizes": [4, 4]},
            CheckpointError,
            "k_sizes 4 as in the config, found 2",
        ),
        (
            {"memory_attention__layer__cross_attention__k_sizes": [4, 2]},
            UnsupportedError,
            "two equal sides",
        ),
    ],
)
def test_another_config(tmp_path, checkpoint, change, error, message):
    with pytest.raises(error, match=message):
        build_sam2(write(tmp_path / "edgetam.yaml", **change), checkpoint)


def test_a_checkpoint_of_another_network(tmp_path, checkpoint):
    config = write(tmp_path / "edgetam.yaml")
    with pytest.raises(CheckpointError, match="as in the config, found"):
        build_sam2(config, "sam2-nano")
    with pytest.raises(CheckpointError, match=r"expected hiera_t of SAM 2\.1"):
        build_sam2("configs/sam2.1/sam2.1_hiera_t.yaml", checkpoint)


def test_upstreams_own_file(tmp_path):
    """Its sizes are those of the release."""
    perceiver = pytest.importorskip(
        "sam2.modeling.perceiver", reason="needs edgetam-dimos before sam2 on the path"
    )
    config = Path(perceiver.__file__).parents[1] / "configs" / "edgetam.yaml"
    shapes = tiny_edgetam.shapes_of(tiny_edgetam.EDGETAM)
    path = tmp_path / "x.safetensors"
    save_file({name: np.zeros(shape, np.float16) for name, shape in shapes.items()}, path)
    assert build_sam2_video_predictor(config, path).image_size == 1024
