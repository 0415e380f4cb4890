"""Files of sam3.cpp and its forks as bytes: `.ggml` and GGUF. Needs no package."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support import tiny_sam2
from support.gguf_files import TYPES, Tensor, Value, gguf_bytes
from support.tiny import Weights
from support.tiny_edgetam import EdgeTamConfig

# Settings in the order of a .ggml file, with how many numbers each has.
_SAM2 = """
    img_size backbone_type hiera_embed_dim hiera_num_heads hiera_num_stages hiera_stages:4
    hiera_global_n hiera_global_idx:8 hiera_q_pool hiera_window_spec:4 hiera_pos_embed_bkg_h
    hiera_pos_embed_bkg_w scalp neck_dim fpn_top_down_n fpn_top_down_levels:4 sam_embed_dim
    sam_dec_depth sam_n_multimask sam_iou_head_depth mem_out_dim mem_attn_layers num_maskmem
    max_obj_ptrs sigmoid_scale_x100 sigmoid_bias_x100 use_high_res_features use_obj_ptrs_in_encoder
    pred_obj_scores use_multimask_token_for_obj_ptr directly_add_no_mem_embed
    non_overlap_masks_for_mem_enc binarize_mask_from_pts multimask_output_for_tracking
    multimask_min_pt_num multimask_max_pt_num fixed_no_obj_ptr iou_prediction_use_sigmoid
    use_mask_input_as_output multimask_output_in_sam is_sam2_1
"""
_EDGETAM = """
    repvit_num_stages repvit_stages:4 repvit_channels:4 repvit_se_ratio has_spatial_perceiver
    perceiver_depth perceiver_dim perceiver_n_latents_1d perceiver_n_latents_2d perceiver_ff_mult
    mem_attn_ca_type mem_attn_ca_q_size mem_attn_ca_k_size
"""
_SAM3 = """
    img_size patch_size vit_embed_dim vit_depth vit_num_heads vit_mlp_ratio_x1000 vit_window_size
    n_global_attn global_attn_idx:4 text_width text_heads text_layers text_ctx_len text_vocab_size
    text_out_dim neck_dim fenc_layers fenc_heads fenc_ffn_dim ddec_layers ddec_heads ddec_ffn_dim
    ddec_num_queries geom_layers n_presence_tokens n_geom_queries sam_embed_dim sam_dec_depth
    sam_n_multimask sam_iou_head_depth mem_out_dim mem_attn_layers num_maskmem max_obj_ptrs
    n_amb_experts visual_only
"""
Settings = dict[str, int | list[int]]
MAGIC = {"sam2": 0x73616D32, "sam3": 0x73616D33}
VERSION = {"sam2": 1, "sam3": 3}
TOKENIZER = 0x746F6B00
ALIGNMENT = 32

# (Meta's text, theirs), one replacement after the other as their converters work.
_HEADS = (
    ("sam_prompt_encoder.", "sam_pe."),
    ("pe_layer.positional_encoding_gaussian_matrix", "pe_gaussian"),
    ("mask_downscaling.", "mask_ds."),
    ("sam_mask_decoder.", "sam_dec."),
    ("sam_dec.transformer.layers.", "sam_dec.twoway."),
    ("sam_dec.transformer.final_attn_token_to_image.", "sam_dec.final_attn."),
    ("sam_dec.transformer.norm_final_attn.", "sam_dec.final_norm."),
    ("output_upscaling.", "upscale."),
    ("output_hypernetworks_mlps.", "hyper."),
    (".self_attn.", ".sa."),
    (".cross_attn_image.", ".ca."),
    ("maskmem_tpos_enc", "mem_enc.tpos_enc"),
    ("mask_downsample.", "trk_mask_ds."),
)
_MEMORY = (
    ("mem_enc.mask_downsampler.encoder.", "mem_enc.ds."),
    ("mem_enc.fuser.layers.", "mem_enc.fuser."),
)
_SAM2_NAMES = (
    ("image_encoder.trunk.", "hiera."),
    ("hiera.patch_embed.proj.", "hiera.patch_embed."),
    ("image_encoder.neck.convs.", "fpn.convs."),
    (".conv.", "."),
    ("memory_encoder.", "mem_enc."),
    ("memory_attention.", "mem_attn."),
    *_HEADS,
    *_MEMORY,
)
# Of EdgeTAM, before and after those of SAM 2.
_EDGETAM_TRUNK = (
    ("image_encoder.trunk.body.stages_", "repvit.stages."),
    ("image_encoder.trunk.body.", "repvit."),
    (".token_mixer.", ".tm."),
    (".channel_mixer.", ".cm."),
    (".downsample.pre_block.", ".ds.pre."),
    (".downsample.spatial_downsample.", ".ds.spatial."),
    (".downsample.channel_downsample.", ".ds.channel."),
    (".downsample.", ".ds."),
)
_PERCEIVER = (
    ("spatial_perceiver.", "perceiver."),
    (".attn.to_", ".ca."),
    (".attn.norm_", ".ca.norm_"),
    (".sa.to_", ".sa."),
    (".self_ff.", ".sa_ff."),
    ("ff.0.", "ff.norm."),
    ("ff.1.", "ff.fc1."),
    ("ff.3.", "ff.fc2."),
)
_SAM3_NAMES = (
    ("detector.backbone.vision_backbone.trunk.", "vit."),
    (".mlp.fc", ".mlp.lin"),
    ("detector.backbone.vision_backbone.convs.", "neck.det."),
    ("detector.backbone.vision_backbone.sam2_convs.", "neck.trk."),
    ("detector.backbone.language_backbone.encoder.", "text."),
    ("detector.backbone.language_backbone.", "text."),
    ("text.transformer.resblocks.", "text.blocks."),
    ("text.token_embedding.", "text.token_embed."),
    ("text.positional_embedding", "text.pos_embed"),
    (".attn.in_proj_", ".attn.in_proj."),
    (".mlp.c_fc.", ".mlp.fc1."),
    (".mlp.c_proj.", ".mlp.fc2."),
    ("detector.transformer.encoder.", "fenc."),
    ("detector.transformer.decoder.", "ddec."),
    (".cross_attn.", ".ca."),
    (".catext_norm.", ".norm_ca_text."),
    ("detector.geometry_encoder.", "geom."),
    ("geom.encode.", "geom.layers."),
    ("detector.segmentation_head.", "seg."),
    ("detector.dot_prod_scoring.", "scoring."),
    ("tracker.transformer.encoder.", "mem_attn."),
    ("tracker.maskmem_backbone.", "mem_enc."),
    ("tracker.", ""),
    *_HEADS,
    *_MEMORY,
)
# What the files of SAM 3 for clicks and videos alone leave out.
DETECTOR = ("text.", "fenc.", "ddec.", "seg.", "geom.", "scoring.", "neck.det.")
# Tensors that stay F32, besides those of one axis.
_FLOAT = re.compile("embed|tpos|pe_gaussian|freqs_cis|token|no_obj|no_mem|gamma|latents")


def _counts(text: str) -> Iterable[tuple[str, int]]:
    for item in text.split():
        name, _, count = item.partition(":")
        yield name, int(count or 1)


def layout(family: str, settings: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Names of the settings in a .ggml file, with their counts."""
    if family == "sam3":
        return list(_counts(_SAM3))
    edgetam = settings.get("backbone_type") == 2
    return [*_counts(_SAM2), *(_counts(_EDGETAM) if edgetam else ())]


def _replaced(name: str, pairs: Iterable[tuple[str, str]]) -> str:
    for old, new in pairs:
        name = name.replace(old, new)
    return name


def sam2_name(name: str) -> str:
    """Return their name for Meta's name of a tensor of SAM 2."""
    name = _replaced(name, _SAM2_NAMES)
    for part, mlp in (("hiera.blocks.", "fc"), ("sam_dec.twoway.", "lin")):
        if name.startswith(part):
            name = name.replace(".mlp.layers.0.", f".mlp.{mlp}1.")
            name = name.replace(".mlp.layers.1.", f".mlp.{mlp}2.")
    return name


def sam3_name(name: str) -> str:
    """Return their name for Meta's name of a tensor of SAM 3."""
    return _replaced(name, _SAM3_NAMES)


def sam2_weights(weights: Weights) -> Weights:
    """Give weights their names, in the order of the file."""
    return dict(sorted((sam2_name(name), value) for name, value in weights.items()))


def edgetam_name(name: str) -> str:
    """Return their name for Meta's name of a tensor of EdgeTAM, whose batch norms are fused."""
    if name.startswith("image_encoder.trunk."):
        return _replaced(name, _EDGETAM_TRUNK)
    if name.startswith("spatial_perceiver."):
        return _replaced(_replaced(name, _HEADS), _PERCEIVER)
    return sam2_name(name)


def _fused(weights: Weights, conv: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return weight and bias of a convolution with its batch norm."""
    norm = {
        part: weights[f"{conv}.bn.{part}"].astype(np.float64)
        for part in ("weight", "bias", "running_mean", "running_var")
    }
    scale = norm["weight"] / np.sqrt(norm["running_var"] + 1e-5)
    weight = weights[f"{conv}.c.weight"] * scale[:, None, None, None]
    return weight, norm["bias"] - norm["running_mean"] * scale


def fused_weights(weights: Weights) -> Weights:
    """Make batch norms of EdgeTAM's trunk a part of its convolutions, under timm's names."""
    result: dict[str, NDArray[Any]] = {}
    for name, value in weights.items():
        conv, is_conv, _ = name.partition(".c.weight")
        if not name.startswith("image_encoder.trunk."):
            result[name] = value
        elif not is_conv:
            if ".bn." not in name:
                result[name] = value
        elif conv.endswith("token_mixer.conv"):
            weight, bias = _fused(weights, conv)
            middle, more = _fused(weights, f"{conv}1")
            weight[..., 1, 1] += middle[..., 0, 0] + 1
            conv, bias = conv.removesuffix(".conv"), bias + more
            result |= {f"{conv}.weight": weight, f"{conv}.bias": bias}
        elif not conv.endswith("token_mixer.conv1"):
            weight, bias = _fused(weights, conv)
            result |= {f"{conv}.weight": weight, f"{conv}.bias": bias}
    return {name: np.asarray(value, np.float32) for name, value in result.items()}


def edgetam_weights(weights: Weights) -> Weights:
    """Give EdgeTAM's weights their layout and names."""
    fused = fused_weights(weights)
    return dict(sorted((edgetam_name(name), value) for name, value in fused.items()))


def edgetam_settings(config: EdgeTamConfig, **others: Any) -> Settings:
    """Settings of an EdgeTAM."""
    settings: Settings = {
        name: 0 if count == 1 else [0] * count for name, count in _counts(_SAM2 + _EDGETAM)
    }
    settings |= {name: 1 for name, _ in _counts(_SAM2) if not name.startswith(("hiera_", "is_"))}
    settings |= {
        "img_size": config.image_size,
        "backbone_type": 2,
        "neck_dim": config.d_model,
        "fpn_top_down_n": 2,
        "fpn_top_down_levels": [2, 3, 0, 0],
        "mem_out_dim": config.mem_dim,
        "mem_attn_layers": config.num_layers,
        "num_maskmem": 7,
        "max_obj_ptrs": 16,
        "sigmoid_scale_x100": 2000,
        "sigmoid_bias_x100": -1000,
        "binarize_mask_from_pts": 0,
        "multimask_min_pt_num": 0,
        "repvit_num_stages": len(config.depth),
        "repvit_stages": list(config.depth),
        "repvit_channels": list(config.embed_dim),
        "repvit_se_ratio": 25,
        "has_spatial_perceiver": 1,
        "perceiver_depth": config.perceiver_depth,
        "perceiver_dim": config.mem_dim,
        "perceiver_n_latents_1d": config.num_latents,
        "perceiver_n_latents_2d": config.num_latents_2d,
        "perceiver_ff_mult": 4,
        "mem_attn_ca_type": 1,
        "mem_attn_ca_q_size": config.grid,
        "mem_attn_ca_k_size": round(config.num_latents_2d**0.5),
    }
    return {**settings, **others}


def sam3_weights(weights: Weights, visual_only: bool = False) -> Weights:
    """Give weights their names, and leave out what they do."""
    result = {}
    for name, value in weights.items():
        theirs = sam3_name(name)
        if name.endswith("text_projection") or (visual_only and theirs.startswith(DETECTOR)):
            continue
        if theirs == "vit.pos_embed":
            side = int((value.shape[1]) ** 0.5)
            value = value[:, -side * side :].reshape(side, side, -1)
        result[theirs] = value
    return result


def _padded(values: Sequence[int], count: int) -> list[int]:
    return [*values, *(0,) * (count - len(values))]


def sam2_settings(config: Mapping[str, Any], version: str = "2.1", **others: Any) -> Settings:
    """Settings of a SAM 2, from a config with upstream's names."""
    stages, blocks = config["stages"], config["global_att_blocks"]
    levels, table = config["fpn_top_down_levels"], config["window_pos_embed_bkg_spatial_size"]
    settings: Settings = {name: 1 for name, _ in _counts(_SAM2)}
    settings |= {
        "img_size": config["image_size"],
        "hiera_embed_dim": config["embed_dim"],
        "hiera_num_heads": config["num_heads"],
        "hiera_num_stages": len(stages),
        "hiera_stages": _padded(stages, 4),
        "hiera_global_n": len(blocks),
        "hiera_global_idx": _padded(blocks, 8),
        "hiera_q_pool": config.get("q_pool", len(stages) - 1),
        "hiera_window_spec": _padded(config["window_spec"], 4),
        "hiera_pos_embed_bkg_h": table[0],
        "hiera_pos_embed_bkg_w": table[1],
        "scalp": config.get("scalp", 1),
        "neck_dim": config["d_model"],
        "fpn_top_down_n": len(levels),
        "fpn_top_down_levels": _padded(levels, 4),
        "max_obj_ptrs": 16,
        "sigmoid_scale_x100": 2000,
        "sigmoid_bias_x100": -1000,
        "binarize_mask_from_pts": 0,
        "multimask_min_pt_num": 0,
        "is_sam2_1": int(version == "2.1"),
    }
    return {**settings, **others}


def sam3_settings(config: Mapping[str, Any], **others: Any) -> Settings:
    """Settings of a SAM 3, from a config with the names of `support.tiny_sam3`."""
    blocks = list(config["global_att_blocks"])
    settings: Settings = {name: 1 for name, _ in _counts(_SAM3)}
    settings |= {
        "img_size": config["img_size"],
        "patch_size": config["patch_size"],
        "vit_embed_dim": config["embed_dim"],
        "vit_depth": config["depth"],
        "vit_num_heads": config["num_heads"],
        "vit_mlp_ratio_x1000": round(config["mlp_ratio"] * 1000),
        "vit_window_size": config["window_size"],
        "n_global_attn": len(blocks),
        "global_attn_idx": blocks,
        "text_width": config["text_width"],
        "text_heads": config["text_heads"],
        "text_layers": config["text_layers"],
        "text_ctx_len": config["context_length"],
        "text_vocab_size": config["vocab_size"],
        "neck_dim": config["d_model"],
        "fenc_layers": config["encoder_layers"],
        "ddec_layers": config["decoder_layers"],
        "ddec_heads": config["nheads"],
        "ddec_ffn_dim": config["dim_feedforward"],
        "ddec_num_queries": config["num_queries"],
        "geom_layers": config["geometry_layers"],
        "visual_only": 0,
    }
    return {**settings, **others}


def tokenizer_bytes(
    words: Sequence[str] = (), merges: Sequence[tuple[str, str]] = (), *, magic: int = TOKENIZER
) -> bytes:
    """Write the tokenizer that stands behind the tensors of a SAM 3."""
    out = bytearray(struct.pack("<Ii", magic, len(words)))
    for number, word in enumerate(words):
        data = word.encode()
        out += struct.pack("<i", len(data)) + data + struct.pack("<i", number)
    out += struct.pack("<i", len(merges))
    for merge in merges:
        for part in merge:
            out += struct.pack("<i", len(part.encode())) + part.encode()
    return bytes(out)


def ggml_header(
    family: str, settings: Mapping[str, Any], count: int, *, version: int | None = None
) -> bytes:
    """Write what stands before the tensors; every number may lie."""
    number = VERSION[family] if version is None else version
    out = bytearray(struct.pack("<Iiii", MAGIC[family], number, 0, count))
    for name, length in layout(family, settings):
        value = settings.get(name, [0] * length)
        values = value if isinstance(value, list) else [value]
        out += struct.pack(f"<{len(values)}i", *values)
    return bytes(out)


def ggml_bytes(
    family: str,
    settings: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    tail: bytes = b"",
    **header: int,
) -> bytes:
    """Write a .ggml file. `count`, `version` and ranks of tensors may lie."""
    out = bytearray(ggml_header(family, settings, header.pop("count", len(tensors)), **header))
    for name, tensor in tensors.items():
        number = TYPES[tensor.type][0] if isinstance(tensor.type, str) else tensor.type
        rank = len(tensor.shape) if tensor.rank is None else tensor.rank
        data = name.encode()
        out += struct.pack("<iii", rank, len(data), number)
        out += struct.pack(f"<{len(tensor.shape)}i", *reversed(tensor.shape)) + data
        out += bytes(-len(out) % ALIGNMENT) + tensor.data
    return bytes(out) + tail


def tiny_sam2_bytes() -> bytes:
    """Write a small SAM 2.1 with random weights as a .ggml file."""
    config = json.loads(tiny_sam2.metadata(tiny_sam2.TINY)["config"])
    weights = sam2_weights(tiny_sam2.weights())
    return ggml_bytes("sam2", sam2_settings(config), packed(weights, "F32", lambda value: value))


def fork_bytes(
    family: str,
    settings: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    words: Sequence[str] = (),
    without_ones: bool = False,
    architecture: str | None = None,
) -> bytes:
    """Write the fork's GGUF file; `without_ones` as ggml's own writer leaves out outermost axes."""
    tag = architecture or family
    metadata: dict[str, Any] = {"general.architecture": tag, "sam3.arch": tag}
    for name, value in {"version": VERSION[family], "ftype": 0}.items():
        metadata[f"sam3.{name}"] = Value(5, struct.pack("<i", value))
    for name, value in settings.items():
        if isinstance(value, list):
            data = struct.pack(f"<IQ{len(value)}i", 5, len(value), *value)
            metadata[f"sam3.hparams.{name}"] = Value(9, data)
        else:
            metadata[f"sam3.hparams.{name}"] = Value(5, struct.pack("<i", value))
    if words:
        metadata["sam3.tokenizer.vocab"] = list(words)
        metadata["sam3.tokenizer.merges"] = ["a b"]
    if without_ones:
        tensors = {name: _without_ones(tensor) for name, tensor in tensors.items()}
    return gguf_bytes(tensors, metadata)


def _without_ones(tensor: Tensor) -> Tensor:
    shape = list(tensor.shape)
    while len(shape) > 1 and shape[0] == 1:
        del shape[0]
    return Tensor(tensor.type, shape, tensor.data)


def packed(
    weights: Weights, kind: str, quantize: Callable[[NDArray[np.float32]], NDArray[Any]]
) -> dict[str, Tensor]:
    """Store weights as their converters do: matrices of whole blocks in `kind`, the rest F32.

    `quantize` turns rows of whole blocks into bytes; with F16, and F32, it has no use.
    """
    block, result = TYPES[kind][1], {}
    for name, value in weights.items():
        value = np.ascontiguousarray(value, np.float32)
        stays = value.ndim < 2 or _FLOAT.search(name) or value.shape[-1] % block != 0
        if stays or kind == "F32":
            result[name] = Tensor("F32", value.shape, value.tobytes())
        elif kind == "F16":
            result[name] = Tensor(kind, value.shape, value.astype(np.float16).tobytes())
        else:
            result[name] = Tensor(kind, value.shape, quantize(value).tobytes())
    return result
