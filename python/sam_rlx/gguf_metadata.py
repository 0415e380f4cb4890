"""What a GGUF file of a model says about it besides its tensors."""

from collections.abc import Mapping
from typing import Any

# general.file_type: what most matrices are.
_FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 7, "Q2_K": 10, "Q3_K": 12}
_FILE_TYPES |= {"Q4_K": 15, "Q5_K": 17, "Q6_K": 18, "BF16": 32}
_GUESSED = 1024
_QUANTIZATION_VERSION = 2

_SOURCES = {
    "sam": "https://github.com/facebookresearch/segment-anything",
    "sam2": "https://github.com/facebookresearch/sam2",
    "sam3": "https://github.com/facebookresearch/sam3",
}
_SAM_LICENSE = "https://github.com/facebookresearch/sam3/blob/main/LICENSE"
_RESIZE = {
    "sam": "longest-pil",
    "sam2": "square-float-antialias",
    "sam3": "square-uint8-antialias",
}
_HIERA = {"hiera_t": "tiny", "hiera_s": "small", "hiera_b+": "base_plus", "hiera_l": "large"}


def build(
    family: str, found: Mapping[str, Any], source: Mapping[str, str], dtype: str
) -> dict[str, Any]:
    """Return the keys and values of a file, but for those about its tensors.

    Parameters
    ----------
    family : str
        ``"sam"``, ``"sam2"`` or ``"sam3"``.
    found : mapping
        ``variant``, ``version`` and ``config`` of the network.
    source : mapping
        Metadata of the file that the tensors come from. A ``config`` in it is copied: other sizes
        than the released ones are told by nothing else.
    dtype : str
        The format of the matrices.
    """
    config = found["config"]
    values: dict[str, Any] = {
        "general.architecture": family,
        "general.name": source.get("variant", found["variant"]),
        "general.version": found["version"],
        **_license(family, source),
        "general.file_type": _FILE_TYPES.get(dtype, _GUESSED),
        "general.quantization_version": _QUANTIZATION_VERSION,
        "general.alignment": 32,
        f"{family}.variant": _variant(family, found, source),
        f"{family}.naming": "short-1",
        f"{family}.resize": _RESIZE[family],
    }
    if "config" in source:
        values[f"{family}.config"] = source["config"]
    sizes = {"sam": _sam, "sam2": _sam2, "sam3": _sam3}[family](config)
    scale = 255.0 if family == "sam" else 1.0  # SAM's are grey levels
    sizes["image_mean"] = [value / scale for value in config["pixel_mean"]]
    sizes["image_std"] = [value / scale for value in config["pixel_std"]]
    return values | {f"{family}.{key}": value for key, value in sizes.items()}


def _license(family: str, source: Mapping[str, str]) -> dict[str, str]:
    if "general.license" in source:
        kept = ("general.license", "general.license.name", "general.license.link")
        return {key: source[key] for key in (*kept, "general.source.url") if key in source}
    if "license" in source:
        return {"general.license": source["license"].lower()}
    if family == "sam3":
        found = {"general.license": "other", "general.license.name": "SAM License"}
        found["general.license.link"] = _SAM_LICENSE
    else:
        found = {"general.license": "apache-2.0"}
    return {**found, "general.source.url": _SOURCES[family]}


def _variant(family: str, found: Mapping[str, Any], source: Mapping[str, str]) -> str:
    name = str(found["variant"])
    if "config" in source or family == "sam":
        return name
    if family == "sam3":
        return "image" if found["config"]["tracker"] is None else "video"
    return f"{found['version']}/{_HIERA.get(name, name)}"


def _sam(config: Mapping[str, Any]) -> dict[str, Any]:
    encoder = config["image_encoder"]
    return {
        "image_size": encoder["img_size"],
        "patch_size": encoder["patch_size"],
        "vision.embedding_length": encoder["embed_dim"],
        "vision.block_count": encoder["depth"],
        "vision.feed_forward_length": encoder["mlp_dim"],
        "vision.attention.head_count": encoder["num_heads"],
        "vision.attention.layer_norm_epsilon": 1e-6,
        "vision.window_size": encoder["window_size"],
        "vision.global_blocks": list(encoder["global_attn_indexes"]),
    }


def _sam2(config: Mapping[str, Any]) -> dict[str, Any]:
    trunk = config["trunk"]
    stages = trunk["stages"]
    return {
        "image_size": config["image_size"],
        "patch_size": 4,
        "vision.embedding_length": trunk["embed_dim"],
        "vision.stage_blocks": list(stages),
        "vision.stage_heads": [trunk["num_heads"] * 2**i for i in range(len(stages))],
        "vision.window_sizes": list(trunk["window_spec"]),
        "vision.global_blocks": list(trunk["global_att_blocks"]),
        "vision.pos_background": list(trunk["window_pos_embed_bkg_spatial_size"]),
        "memory.count": config["num_maskmem"],
    }


def _sam3(config: Mapping[str, Any]) -> dict[str, Any]:
    trunk, text, detector = config["vision"], config["text"], config["detector"]
    sizes = {
        "image_size": config["image_size"],
        "patch_size": trunk["patch_size"],
        "vision.embedding_length": trunk["embed_dim"],
        "vision.block_count": trunk["depth"],
        "vision.feed_forward_length": int(trunk["embed_dim"] * trunk["mlp_ratio"]),
        "vision.attention.head_count": trunk["num_heads"],
        "vision.attention.layer_norm_epsilon": 1e-5,
        "vision.window_size": trunk["window_size"],
        "vision.global_blocks": list(trunk["global_att_blocks"]),
        "vision.pretrain_image_size": trunk["pretrain_img_size"],
        "vision.rope.theta": 10000.0,
        "vision.norm_pre": True,
        "text.embedding_length": text["width"],
        "text.block_count": text["layers"],
        "text.attention.head_count": text["heads"],
        "text.context_length": text["context_length"],
        "text.vocab_size": text["vocab_size"],
        "detector.query_count": detector["num_queries"],
        "detector.encoder_blocks": detector["encoder_layers"],
        "detector.decoder_blocks": detector["decoder_layers"],
        "detector.geometry_blocks": detector["geometry_layers"],
        "detector.head_count": detector["nheads"],
        "detector.feed_forward_length": detector["dim_feedforward"],
    }
    if config["tracker"] is not None:
        sizes["tracker.count"] = config["tracker"]["num_maskmem"]
    return sizes
