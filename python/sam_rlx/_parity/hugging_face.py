"""transformers' networks in the sizes of a model of ours, with its weights."""

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._parity.networks import Config, Weights
from sam_rlx.errors import UnsupportedError

# transformers takes both numbers for the norms of its decoders; Meta's have this one.
_METAS_EPS = {"layer_norm_eps": 1e-5}
_PROJECTIONS = ("q_proj.", "k_proj.", "v_proj.")
_POINTS = ".point_embed.weight"
_TABLE = "vision_backbone.trunk.pos_embed"  # of SAM 3: Meta's has a class token in front
_ROPE_THETA = 10000.0  # transformers' default


def sam(package: SimpleNamespace, config: Config) -> Any:
    """Build `SamModel`."""
    classes = package.transformers
    encoder, prompt, decoder = (
        config[name] for name in ("image_encoder", "prompt_encoder", "mask_decoder")
    )
    vision = classes.SamVisionConfig(
        hidden_size=encoder["embed_dim"],
        output_channels=encoder["out_chans"],
        num_hidden_layers=encoder["depth"],
        num_attention_heads=encoder["num_heads"],
        image_size=encoder["img_size"],
        patch_size=encoder["patch_size"],
        window_size=encoder["window_size"],
        global_attn_indexes=list(encoder["global_attn_indexes"]),
        mlp_dim=encoder["mlp_dim"],
        num_pos_feats=prompt["embed_dim"] // 2,
        layer_norm_eps=1e-6,
    )
    sizes = classes.SamConfig(
        vision_config=vision,
        prompt_encoder_config=_prompts(prompt["embed_dim"], encoder, prompt["mask_in_chans"]),
        mask_decoder_config={**_decoder(decoder, decoder), **_METAS_EPS},
    )
    return classes.SamModel(sizes)


def _prompts(width: int, trunk: Config, channels: int) -> dict[str, Any]:
    side = trunk.get("img_size", trunk.get("image_size"))
    return {
        "hidden_size": width,
        "image_size": side,
        "patch_size": trunk.get("patch_size", 16),
        "mask_input_channels": channels,
    }


def _decoder(config: Config, transformer: Config) -> dict[str, Any]:
    """Return the settings of a mask decoder that the families share."""
    depth = transformer.get("transformer_depth", transformer.get("depth"))
    return {
        "hidden_size": transformer["embedding_dim"],
        "mlp_dim": transformer["mlp_dim"],
        "num_hidden_layers": depth,
        "num_attention_heads": transformer["num_heads"],
        "attention_downsample_rate": transformer["attention_downsample_rate"],
        "iou_head_depth": config["iou_head_depth"],
        "iou_head_hidden_dim": config["iou_head_hidden_dim"],
    }


def _stability(config: Config) -> dict[str, Any]:
    names = ("via_stability", "stability_delta", "stability_thresh")
    return {f"dynamic_multimask_{name}": config[f"dynamic_multimask_{name}"] for name in names}


def sam2(package: SimpleNamespace, config: Config) -> Any:
    """Build `Sam2VideoModel`; its attribute `clicks` is a `Sam2Model` that shares its parts."""
    classes = package.transformers
    trunk, neck, base = (config[name] for name in ("trunk", "neck", "base"))
    grid = config["image_size"] // base["backbone_stride"]
    levels = len(trunk["stages"])
    vision = classes.Sam2VisionConfig(
        backbone_config=classes.Sam2HieraDetConfig(
            hidden_size=trunk["embed_dim"],
            num_attention_heads=trunk["num_heads"],
            image_size=[config["image_size"]] * 2,
            patch_stride=[trunk["patch_stride"]] * 2,
            window_positional_embedding_background_size=list(
                trunk["window_pos_embed_bkg_spatial_size"]
            ),
            num_query_pool_stages=trunk["q_pool"],
            blocks_per_stage=list(trunk["stages"]),
            embed_dim_per_stage=[trunk["embed_dim"] * 2**level for level in range(levels)],
            num_attention_heads_per_stage=list(trunk["stage_heads"]),
            window_size_per_stage=list(trunk["window_spec"]),
            global_attention_blocks=list(trunk["global_att_blocks"]),
            mlp_ratio=trunk["mlp_ratio"],
        ),
        backbone_channel_list=list(neck["backbone_channel_list"]),
        backbone_feature_sizes=[[scale * grid] * 2 for scale in (4, 2, 1)],
        fpn_hidden_size=neck["d_model"],
        fpn_top_down_levels=list(neck["fpn_top_down_levels"]),
        num_feature_levels=levels - config["image_encoder"]["scalp"],
    )
    decoder = config["mask_decoder"]
    heads = {
        "prompt_encoder_config": _prompts(neck["d_model"], trunk, base["mask_in_chans"]),
        "mask_decoder_config": {
            **_decoder(decoder, decoder),
            **_stability(decoder),
            "num_multimask_outputs": decoder["num_multimask_outputs"],
        },
    }
    video = classes.Sam2VideoModel(
        classes.Sam2VideoConfig(vision_config=vision, **heads, **_memory(config, grid))
    )
    clicks = classes.Sam2Model(classes.Sam2Config(vision_config=vision, **heads))
    for part in ("vision_encoder", "prompt_encoder", "mask_decoder", "shared_image_embedding"):
        setattr(clicks, part, getattr(video, part))
    clicks.no_memory_embedding = video.no_memory_embedding
    video.clicks = clicks
    return video


def _memory(config: Config, grid: int) -> dict[str, Any]:
    """Return the settings of SAM 2's memory."""
    base, bank, attention = (config[name] for name in ("base", "memory_bank", "memory_attention"))
    if attention["rope_theta"] != _ROPE_THETA:
        raise UnsupportedError(
            f"parity: expected rope_theta {_ROPE_THETA} for transformers, found "
            f"{attention['rope_theta']}"
        )
    width = config["memory_encoder"]["in_dim"]
    names = ("sigmoid_scale_for_mem_enc", "sigmoid_bias_for_mem_enc", "multimask_min_pt_num")
    names += ("multimask_max_pt_num", "multimask_output_for_tracking")  # type: ignore[assignment]
    return {
        **{name: base[name] for name in names},
        "image_size": config["image_size"],
        "num_maskmem": config["num_maskmem"],
        "max_cond_frame_num": bank["max_cond_frames_in_attn"],
        "max_object_pointers_in_encoder": bank["max_obj_ptrs_in_encoder"],
        "enable_occlusion_spatial_embedding": base["no_obj_embed_spatial"],
        "enable_temporal_pos_encoding_for_object_pointers": base["add_tpos_enc_to_obj_ptrs"],
        "memory_attention_hidden_size": attention["d_model"],
        "memory_attention_num_layers": attention["num_layers"],
        "memory_attention_feed_forward_hidden_size": attention["dim_feedforward"],
        "memory_attention_rope_feat_sizes": [grid, grid],
        "memory_encoder_hidden_size": width,
        "memory_encoder_output_channels": config["mem_dim"],
        "mask_downsampler_embed_dim": width,
        "memory_fuser_num_layers": config["memory_encoder"]["fuser_layers"],
        "memory_fuser_embed_dim": width,
        "memory_fuser_intermediate_dim": 4 * width,
    }


def sam3(package: SimpleNamespace, config: Config) -> Any:
    """Build a module of `Sam3Model` and `Sam3TrackerModel`, which share the trunk."""
    classes = package.transformers
    parts = package.torch.nn.Module()
    parts.detector_model = classes.Sam3Model(_detector(classes, config))
    tracker, side = config["tracker"], config["image_size"]
    decoder, width = tracker["mask_decoder"], config["vision"]["d_model"]
    trunk = {"image_size": side, "patch_size": config["vision"]["patch_size"]}
    parts.tracker_model = classes.Sam3TrackerModel(
        classes.Sam3TrackerConfig(
            vision_config=_vision(classes, config),
            prompt_encoder_config=_prompts(width, trunk, tracker["base"]["mask_in_chans"]),
            mask_decoder_config={
                **_decoder(decoder, decoder["transformer"]),
                **_stability(decoder),
                "num_multimask_outputs": tracker["num_multimask_outputs"],
            },
        )
    )
    parts.tracker_model.vision_encoder.backbone = parts.detector_model.vision_encoder.backbone
    return parts


def _vision(classes: Any, config: Config) -> Any:
    vision = config["vision"]
    # The detector always drops the last level. Where there is none to drop, one is added.
    scales = list(vision["scale_factors"]) + ([] if vision["scalp"] else [0.5])
    grid = vision["img_size"] // vision["patch_size"]
    return classes.Sam3VisionConfig(
        backbone_config=classes.Sam3ViTConfig(
            hidden_size=vision["embed_dim"],
            intermediate_size=vision["mlp_dim"],
            num_hidden_layers=vision["depth"],
            num_attention_heads=vision["num_heads"],
            image_size=vision["img_size"],
            patch_size=vision["patch_size"],
            window_size=vision["window_size"],
            global_attn_indexes=list(vision["global_att_blocks"]),
            pretrain_image_size=vision["pretrain_img_size"],
            **_METAS_EPS,
        ),
        fpn_hidden_size=vision["d_model"],
        backbone_feature_sizes=[[scale * grid] * 2 for scale in (4, 2, 1)],
        scale_factors=scales,
    )


def _detector(classes: Any, config: Config) -> Any:
    sizes, text = config["detector"], config["text"]
    part = {
        "hidden_size": sizes["d_model"],
        "num_attention_heads": sizes["nheads"],
        **_METAS_EPS,
    }
    layers = {**part, "intermediate_size": sizes["dim_feedforward"]}
    return classes.Sam3Config(
        vision_config=_vision(classes, config),
        text_config=classes.CLIPTextConfig(
            vocab_size=text["vocab_size"],
            hidden_size=text["width"],
            intermediate_size=4 * text["width"],
            projection_dim=512,  # of a pooled text, which nothing reads
            num_hidden_layers=text["layers"],
            num_attention_heads=text["heads"],
            max_position_embeddings=text["context_length"],
            hidden_act="gelu",
        ),
        geometry_encoder_config={
            **layers,
            "num_layers": sizes["geometry_layers"],
            "roi_size": sizes["roi_size"],
        },
        detr_encoder_config={**layers, "num_layers": sizes["encoder_layers"]},
        detr_decoder_config={
            **layers,
            "num_layers": sizes["decoder_layers"],
            "num_queries": sizes["num_queries"],
        },
        mask_decoder_config={**part, "num_upsampling_stages": sizes["upsampling_stages"]},
    )


BUILDERS = {"sam": sam, "sam2": sam2, "sam3": sam3}


class Names:
    """What the tensors and modules of a network of transformers are in Meta's checkpoint.

    Parameters
    ----------
    family : str
        Of the network.
    network : torch.nn.Module
        From `BUILDERS`.
    weights : dict
        The tensors of the checkpoint, by Meta's names.
    """

    def __init__(self, family: str, network: Any, weights: Weights) -> None:
        self._family, self._weights = family, weights
        tensors = (
            *network.named_parameters(remove_duplicate=False),
            *network.named_buffers(remove_duplicate=False),
        )
        self.sources = {name: self._source(name) for name, _ in tensors}
        shared = {name: metas for name, (metas, _) in self.sources.items() if metas[0] in weights}
        theirs = _under(shared)
        ours = _under({meta: [meta] for metas in shared.values() for meta in metas})
        by_tensors: dict[frozenset[str], str] = {}
        for module, _ in network.named_modules():
            if module in theirs:
                by_tensors.setdefault(theirs[module], module)
        self._modules = {
            path: by_tensors[tensors] for path, tensors in ours.items() if tensors in by_tensors
        }

    def module(self, path: str) -> str | None:
        """Return the module that has the tensors of a layer of Meta's, None where none has."""
        return self._modules.get(path)

    def _source(self, name: str) -> tuple[list[str], int | None]:
        """Return Meta's tensors of one, and which third of the rows it is where there are three."""
        hub = name.removeprefix("clicks.")
        if hub.startswith("tracker_model.vision_encoder.neck."):
            hub = "tracker_neck." + hub.removeprefix("tracker_model.vision_encoder.neck.")
        meta = _core.meta_name(self._family, hub)
        if meta.endswith(_POINTS):
            begin = meta.removesuffix(_POINTS)
            return [f"{begin}.point_embeddings.{kind}.weight" for kind in range(4)], None
        if meta.startswith("detector."):
            for part, projection in enumerate(_PROJECTIONS):
                base, found, rest = meta.partition(projection)
                if found:
                    joined = base if base.endswith("qkv.") else f"{base}in_proj_"
                    return [joined + rest], part
        return [meta], None

    def value(self, name: str) -> NDArray[np.float32] | None:
        """Return the numbers of a tensor, None where the checkpoint has not got it."""
        metas, part = self.sources[name]
        if not all(meta in self._weights for meta in metas):
            return None
        if len(metas) > 1:
            return np.concatenate([self._weights[meta] for meta in metas])
        value = self._weights[metas[0]]
        if metas[0].endswith(_TABLE):
            value = value[:, -(math.isqrt(value.shape[1]) ** 2) :]
        return value if part is None else np.split(value, 3)[part]


def _under(names: Mapping[str, list[str]]) -> Mapping[str, frozenset[str]]:
    """Return for each beginning of dotted names the tensors below it."""
    found: dict[str, set[str]] = {}
    for name, metas in names.items():
        parts = name.split(".")
        for end in range(1, len(parts)):
            found.setdefault(".".join(parts[:end]), set()).update(metas)
    return {begin: frozenset(tensors) for begin, tensors in found.items()}


# Parameters that need not be in a checkpoint: a level that is dropped, and what nothing reads.
_FREE = (".fpn_layers.3.", "text_encoder.text_projection.")


def fill(torch: Any, network: Any, names: Names, source: str) -> Any:
    """Give a network the weights of a checkpoint, and give it back ready to run."""
    parameters = dict(network.named_parameters())
    for name, target in (*parameters.items(), *network.named_buffers()):
        value = names.value(name)
        free = any(part in name for part in _FREE)
        if value is None or free:
            if name in parameters and not free:
                raise UnsupportedError(
                    f"weights of the reference: expected all parameters of the network of "
                    f"{source} in transformers' class, found none for {name}"
                )
            continue
        if value.size != target.numel():
            raise UnsupportedError(
                f"weights of the reference: expected shape {tuple(target.shape)} of {name} in "
                f"transformers' class, as in {source}, found {value.shape}"
            )
        target.data.copy_(torch.from_numpy(np.ascontiguousarray(value)).reshape(target.shape))
    return network.eval()
