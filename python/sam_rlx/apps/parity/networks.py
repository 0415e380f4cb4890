"""Meta's networks in the sizes of a model of ours, with its weights."""

import functools
import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx.apps.parity import packages
from sam_rlx.errors import UnsupportedError
from sam_rlx.model import Model

Config = Mapping[str, Any]
Weights = dict[str, NDArray[np.float32]]

# Parameters that Meta's networks have and never use.
_UNUSED = ("text_projection",)


def read_weights(source: str, key: str | None = None, lora: str | None = None) -> Weights:
    """Read the tensors of a checkpoint of any format as float32, under Meta's names."""
    checkpoint = _core.Checkpoint(source, key, lora)
    checkpoint.to_meta_names()
    return {
        name: checkpoint.encode(name, "F32").view(np.float32).reshape(shape)
        for name, _, shape in checkpoint.tensors
    }


def load_weights(torch: Any, network: Any, weights: Weights, source: str) -> Any:
    """Fill a network, and give it back ready to run. Tables that it has computed may stay."""
    state = {name: torch.from_numpy(value) for name, value in weights.items()}
    own = network.state_dict()
    for name in state.keys() & own.keys():
        if state[name].numel() != own[name].numel():
            raise UnsupportedError(
                f"weights of the reference: expected shape {tuple(own[name].shape)} of {name}, as "
                f"in {source}, found {tuple(state[name].shape)}"
            )
        state[name] = state[name].reshape(own[name].shape)
    found = network.load_state_dict(state, strict=False)
    needed = {name for name, _ in network.named_parameters()}
    missing = [n for n in found.missing_keys if n in needed and not n.endswith(_UNUSED)]
    if missing:
        raise UnsupportedError(
            f"weights of the reference: expected all parameters of the network of {source}, "
            f"found none for {missing[:3]}"
        )
    return network.eval()


def sam(model: Model, weights: Weights) -> tuple[SimpleNamespace, Any]:
    """Build `Sam`. Returns the package and the network."""
    package = packages.segment_anything()
    return package, _sam(package, _vit(package, model), model, weights)


def _vit(package: SimpleNamespace, model: Model) -> Any:
    encoder = model.config["image_encoder"]
    names = ["img_size", "patch_size", "embed_dim", "depth", "num_heads", "out_chans"]
    names += ["window_size", "global_attn_indexes"]
    return package.modeling.ImageEncoderViT(
        **{name: encoder[name] for name in names},
        mlp_ratio=encoder["mlp_dim"] / encoder["embed_dim"],
        norm_layer=functools.partial(package.torch.nn.LayerNorm, eps=1e-6),
        qkv_bias=True,
        use_rel_pos=True,
    )


# Of the embedding: MobileSAM's code writes it down.
_MOBILE_SAM_GRID = 64


def mobile_sam(model: Model, weights: Weights) -> tuple[SimpleNamespace, Any]:
    """Build `Sam` with TinyViT. Returns the package and the network."""
    package = packages.mobile_sam()
    return package, _sam(package, _tiny_vit(package, model), model, weights)


def sam_hq(model: Model, weights: Weights) -> tuple[SimpleNamespace, Any]:
    """Build SAM-HQ's `Sam`. Returns the package and the network."""
    package = packages.sam_hq()
    make = _tiny_vit if model.config["image_encoder"]["tiny_vit"] else _vit
    return package, _sam(package, make(package, model), model, weights)


def _tiny_vit(package: SimpleNamespace, model: Model) -> Any:
    encoder = model.config["image_encoder"]
    sizes, side = encoder["tiny_vit"], encoder["img_size"]
    if side // encoder["patch_size"] != _MOBILE_SAM_GRID or encoder["out_chans"] != 256:
        raise UnsupportedError(
            f"a reference with MobileSAM's trunk: expected an embedding of {_MOBILE_SAM_GRID} x "
            f"{_MOBILE_SAM_GRID} positions of 256 numbers, which its code has fixed, found a side "
            f"of {side} and {encoder['out_chans']} numbers"
        )
    names = ["embed_dims", "depths", "num_heads", "window_sizes", "mlp_ratio"]
    names += ["mbconv_expand_ratio", "local_conv_size"]
    trunk = package.tiny_vit.TinyViT(
        img_size=16 * _MOBILE_SAM_GRID,
        num_classes=0,
        drop_path_rate=0.0,
        **{name: sizes[name] for name in names},
    )
    del trunk.norm_head, trunk.head
    trunk.img_size = side
    if sizes["patch_kernel"] == 1:  # LiteMedSAM, whose first convolutions keep the side
        width = sizes["embed_dims"][0]
        for i, (n_in, n_out) in ((0, (3, width // 2)), (2, (width // 2, width))):
            trunk.patch_embed.seq[i] = package.tiny_vit.Conv2d_BN(n_in, n_out)
    return trunk


def _sam(package: SimpleNamespace, trunk: Any, model: Model, weights: Weights) -> Any:
    torch, modeling = package.torch, package.modeling
    encoder, prompt, decoder = (
        model.config[key] for key in ("image_encoder", "prompt_encoder", "mask_decoder")
    )
    grid = encoder["img_size"] // encoder["patch_size"]
    make_decoder = modeling.MaskDecoder
    if decoder["hq"]:
        make_decoder = functools.partial(package.decoder.MaskDecoderHQ, **decoder["hq"])
    network = modeling.Sam(
        trunk,
        modeling.PromptEncoder(
            embed_dim=prompt["embed_dim"],
            image_embedding_size=(grid, grid),
            input_image_size=(encoder["img_size"], encoder["img_size"]),
            mask_in_chans=prompt["mask_in_chans"],
        ),
        make_decoder(
            num_multimask_outputs=decoder["num_multimask_outputs"],
            transformer=_two_way(modeling.TwoWayTransformer, decoder),
            transformer_dim=decoder["embedding_dim"],
            iou_head_depth=decoder["iou_head_depth"],
            iou_head_hidden_dim=decoder["iou_head_hidden_dim"],
        ),
        pixel_mean=list(model.config["pixel_mean"]),
        pixel_std=list(model.config["pixel_std"]),
    )
    return load_weights(torch, network, weights, model.source)


def _two_way(kind: Any, config: Config) -> Any:
    depth = config.get("transformer_depth", config.get("depth"))
    names = ("embedding_dim", "num_heads", "mlp_dim")
    return kind(depth=depth, **{name: config[name] for name in names})


def _heads(base: Config, bank: Config) -> dict[str, Any]:
    """Arguments that the trackers of SAM 2 and SAM 3 share."""
    names = (
        "multimask_min_pt_num",
        "multimask_max_pt_num",
        "multimask_output_for_tracking",
        "backbone_stride",
    )
    shared = {name: base[name] for name in names}
    return shared | {"max_cond_frames_in_attn": bank["max_cond_frames_in_attn"]}


def sam2(model: Model, weights: Weights) -> tuple[SimpleNamespace, Any]:
    """Build `SAM2VideoPredictor`, which is the network of the image predictor too."""
    return _with_hiera(packages.sam2(), model, weights)


def hq_sam2(model: Model, weights: Weights) -> tuple[SimpleNamespace, Any]:
    """Build `SAM2VideoPredictor` with HQ-SAM 2's decoder, in which alone the two differ."""
    return _with_hiera(packages.hq_sam2(), model, weights)


def _with_hiera(
    package: SimpleNamespace, model: Model, weights: Weights
) -> tuple[SimpleNamespace, Any]:
    trunk = model.config["trunk"]
    names = ("embed_dim", "num_heads", "stages", "q_pool", "window_spec", "global_att_blocks")
    arguments = {name: trunk[name] for name in (*names, "window_pos_embed_bkg_spatial_size")}
    attention = _memory_attention(package, model.config["memory_attention"])
    return package, _sam2(package, package.hiera.Hiera(**arguments), attention, model, weights)


def edgetam(model: Model, weights: Weights) -> tuple[SimpleNamespace, Any]:
    """Build EdgeTAM's `SAM2VideoPredictor`."""
    package = packages.edgetam()
    config = model.config
    sizes, perceiver = config["image_encoder"]["rep_vit"], config["spatial_perceiver"]
    if sizes["fused"] or perceiver is None:
        raise UnsupportedError(
            "the reference edgetam-dimos: expected a checkpoint with batch norms and memory, as "
            f"Meta's, found {'fused ones' if sizes['fused'] else 'none'}"
        )
    trunk = package.torch.nn.Module()
    trunk.body = package.timm.create_model(
        "repvit_m1",
        features_only=True,
        out_indices=tuple(range(len(sizes["depth"]))),
        **{name: sizes[name] for name in ("embed_dim", "depth", "mlp_ratio")},
    )
    trunk.channel_list = sizes["embed_dim"][::-1]
    trunk.forward = trunk.body.forward
    names = ("dim", "depth", "num_latents", "num_latents_2d", "ff_mult")
    resampler = package.perceiver.PerceiverResampler(
        **{name: perceiver[name] for name in names},
        dim_head=perceiver["dim"],
        heads=1,
        hidden_dropout_p=0.0,
        attention_dropout_p=0.0,
        pos_enc_at_key_value=True,
        position_encoding=package.positions.PositionEmbeddingSine(num_pos_feats=perceiver["dim"]),
        use_self_attn=True,
    )
    attention = _memory_attention(package, config["memory_attention"])
    network = _sam2(package, trunk, attention, model, weights, spatial_perceiver=resampler)
    return package, network


def _sam2(
    package: SimpleNamespace,
    trunk: Any,
    attention: Any,
    model: Model,
    weights: Weights,
    **more: Any,
) -> Any:
    """Build `SAM2VideoPredictor` of its parts, and `more` arguments."""
    config, torch = model.config, package.torch
    neck, base, bank = (config[key] for key in ("neck", "base", "memory_bank"))
    sine = package.positions.PositionEmbeddingSine
    encoder = package.image_encoder.ImageEncoder(
        trunk=trunk,
        neck=package.image_encoder.FpnNeck(
            position_encoding=sine(num_pos_feats=neck["d_model"]),
            fpn_interp_model="nearest",
            **neck,
        ),
        scalp=config["image_encoder"]["scalp"],
    )
    signed = bank["use_signed_tpos_enc_to_obj_ptrs"]
    network = package.video.SAM2VideoPredictor(
        image_encoder=encoder,
        memory_attention=attention,
        memory_encoder=_memory_encoder(package, config),
        image_size=config["image_size"],
        num_maskmem=config["num_maskmem"],
        sigmoid_scale_for_mem_enc=base["sigmoid_scale_for_mem_enc"],
        sigmoid_bias_for_mem_enc=base["sigmoid_bias_for_mem_enc"],
        binarize_mask_from_pts_for_mem_enc=base["binarize_mask_from_pts_for_mem_enc"],
        no_obj_embed_spatial=base["no_obj_embed_spatial"],
        add_tpos_enc_to_obj_ptrs=base["add_tpos_enc_to_obj_ptrs"],
        proj_tpos_enc_in_obj_ptrs=base["add_tpos_enc_to_obj_ptrs"],
        use_signed_tpos_enc_to_obj_ptrs=signed,
        only_obj_ptrs_in_the_past_for_eval=bank["only_obj_ptrs_in_the_past_for_eval"],
        memory_temporal_stride_for_eval=bank["memory_temporal_stride_for_eval"],
        max_obj_ptrs_in_encoder=bank["max_obj_ptrs_in_encoder"],
        use_mask_input_as_output_without_sam=True,
        directly_add_no_mem_embed=True,
        use_high_res_features_in_sam=True,
        multimask_output_in_sam=True,
        use_multimask_token_for_obj_ptr=True,
        iou_prediction_use_sigmoid=True,
        use_obj_ptrs_in_encoder=True,
        pred_obj_scores=True,
        pred_obj_scores_mlp=True,
        fixed_no_obj_ptr=True,
        use_mlp_for_obj_ptr_proj=True,
        fill_hole_area=0,
        **_heads(base, bank),
        **more,
    )
    # SAM2Base fixes sizes of its decoder.
    decoder = config["mask_decoder"]
    network.sam_mask_decoder = _high_resolution_decoder(package.decoder, package, decoder)
    return load_weights(torch, network, weights, model.source)


def _high_resolution_decoder(module: Any, package: Any, config: Config) -> Any:
    transformer = config.get("transformer", config)
    names = (
        "iou_head_depth",
        "iou_head_hidden_dim",
        "dynamic_multimask_via_stability",
        "dynamic_multimask_stability_delta",
        "dynamic_multimask_stability_thresh",
    )
    make = module.MaskDecoderHQ if config.get("hq") else module.MaskDecoder
    return make(
        transformer_dim=transformer["embedding_dim"],
        transformer=_two_way(package.transformer.TwoWayTransformer, transformer),
        use_high_res_features=True,
        iou_prediction_use_sigmoid=True,
        pred_obj_scores=True,
        pred_obj_scores_mlp=True,
        use_multimask_token_for_obj_ptr=True,
        **{name: config[name] for name in names},
    )


def _memory_attention(package: Any, config: Config) -> Any:
    def attention(kv_in_dim: int, repeat: bool) -> Any:
        return package.transformer.RoPEAttention(
            embedding_dim=config["d_model"],
            num_heads=1,
            downsample_rate=1,
            rope_theta=config["rope_theta"],
            feat_sizes=[config["feat_size"], config["feat_size"]],
            rope_k_repeat=repeat,
            kv_in_dim=kv_in_dim,
        )

    def attention_to_memory() -> Any:
        if not config.get("key_size"):
            return attention(config["kv_in_dim"], True)
        return package.transformer.RoPEAttentionv2(  # EdgeTAM's
            embedding_dim=config["d_model"],
            num_heads=1,
            downsample_rate=1,
            rope_theta=config["rope_theta"],
            q_sizes=[config["feat_size"], config["feat_size"]],
            k_sizes=[config["key_size"], config["key_size"]],
            kv_in_dim=config["kv_in_dim"],
        )

    return package.attention.MemoryAttention(
        d_model=config["d_model"],
        pos_enc_at_input=True,
        num_layers=config["num_layers"],
        layer=package.attention.MemoryAttentionLayer(
            activation="relu",
            dim_feedforward=config["dim_feedforward"],
            dropout=0.1,
            pos_enc_at_attn=False,
            d_model=config["d_model"],
            pos_enc_at_cross_attn_keys=True,
            pos_enc_at_cross_attn_queries=False,
            self_attention=attention(config["d_model"], False),
            cross_attention=attention_to_memory(),
        ),
    )


def _memory_encoder(package: Any, config: Config) -> Any:
    sizes, width = config["memory_encoder"], config["mem_dim"]
    return package.memory.MemoryEncoder(
        out_dim=width,
        in_dim=sizes["in_dim"],
        position_encoding=package.positions.PositionEmbeddingSine(num_pos_feats=width),
        mask_downsampler=package.memory.MaskDownSampler(
            embed_dim=sizes["in_dim"], kernel_size=3, stride=2, padding=1
        ),
        fuser=package.memory.Fuser(
            package.memory.CXBlock(sizes["in_dim"]), num_layers=sizes["fuser_layers"]
        ),
    )


def refresh(network: Any, grid: int) -> None:
    """Make tables that are computed once anew, in the precision that runs now."""
    for child in network.modules():
        kind = type(child).__name__
        if kind == "PositionEmbeddingSine":
            child.cache = {}
        elif kind == "RoPEAttention":
            child.freqs_cis = child.compute_cis(end_x=grid, end_y=grid)
        elif kind == "RoPEAttentionv2":
            side = math.isqrt(len(child.freqs_cis_k))
            child.freqs_cis_q = child.compute_cis(end_x=grid, end_y=grid)
            child.freqs_cis_k = child.compute_cis(end_x=side, end_y=side)
        elif kind == "TransformerDecoder":
            child.coord_cache, child.compilable_cord_cache = {}, None
        elif hasattr(child, "_setup_rope_freqs"):
            child._setup_rope_freqs()
