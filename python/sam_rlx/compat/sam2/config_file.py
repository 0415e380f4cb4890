"""Upstream's YAML configs and overrides of them: which of a model's settings they change."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sam_rlx import _core
from sam_rlx.compat.sam2.config_values import parse_override, read_yaml
from sam_rlx.errors import CheckpointError, InvalidArgumentError, UnsupportedError

# sam2.1_hiera_b+ -> hiera_b+, 2.1. EdgeTAM's config has the name of the variant.
_RELEASED = {
    row["variant"]
    if row["version"] == "1.0"
    else f"sam{row['version'].removesuffix('.0')}_{row['variant']}": (
        row["variant"],
        row["version"],
    )
    for row in _core.releases()
    if row["family"] == "sam2"
}
# Files that programs look for beside the modules; what they say is in the checkpoints.
_CONFIGS = Path(__file__).resolve().parent / "configs"
_EXTRA_ARGS = "sam_mask_decoder_extra_args"
_ROPE_THETA = "memory_attention.layer.self_attention.rope_theta"
# Parts of `Model.config` -> where upstream has their settings, below ``model``.
_PARTS = {
    "memory_bank": "",
    "base": "",
    "mask_decoder": f"{_EXTRA_ARGS}.",
    "memory_attention": _ROPE_THETA.removesuffix("rope_theta"),
}
# Upstream's names -> those of `Model.config`. These are no weights: they are set.
_SET = {
    _PARTS[part] + name: f"{part}.{name}"
    for part, name in (path.split(".") for path in _core.settings("sam2"))
}
# Sizes, which the weights tell: they are compared.
_TOLD = {
    "image_encoder.scalp": "image_encoder.scalp",
    **{
        f"image_encoder.trunk.{name}": f"trunk.{name}"
        for name in (
            "embed_dim",
            "global_att_blocks",
            "num_heads",
            "q_pool",
            "stages",
            "window_pos_embed_bkg_spatial_size",
            "window_spec",
        )
    },
    **{
        f"image_encoder.neck.{name}": f"neck.{name}"
        for name in ("backbone_channel_list", "d_model", "fpn_top_down_levels")
    },
    "memory_attention.d_model": "memory_attention.d_model",
    "memory_attention.num_layers": "memory_attention.num_layers",
    "memory_attention.layer.dim_feedforward": "memory_attention.dim_feedforward",
    "memory_attention.layer.cross_attention.kv_in_dim": "memory_attention.kv_in_dim",
    "memory_encoder.out_dim": "mem_dim",
    **{
        f"spatial_perceiver.{name}": f"spatial_perceiver.{name}"
        for name in ("depth", "dim", "ff_mult", "num_latents", "num_latents_2d")
    },
    "memory_encoder.fuser.num_layers": "memory_encoder.fuser_layers",
    "num_maskmem": "num_maskmem",
    "backbone_stride": "base.backbone_stride",
    "no_obj_embed_spatial": "base.no_obj_embed_spatial",
    "add_tpos_enc_to_obj_ptrs": "base.add_tpos_enc_to_obj_ptrs",
    "pred_obj_scores_mlp": "mask_decoder.pred_obj_scores_mlp",
    "use_mlp_for_obj_ptr_proj": "base.use_mlp_for_obj_ptr_proj",
}
# What a config can say, and this library does in one way only.
_ONLY: dict[str, Any] = {
    "directly_add_no_mem_embed": True,
    "fixed_no_obj_ptr": True,
    "iou_prediction_use_sigmoid": True,
    "non_overlap_masks_for_mem_enc": False,
    "pred_obj_scores": True,
    "soft_no_obj_ptr": False,
    "use_high_res_features_in_sam": True,
    "use_mask_input_as_output_without_sam": True,
    "use_multimask_token_for_obj_ptr": True,
    "use_obj_ptrs_in_encoder": True,
    "image_encoder.trunk.q_stride": [2, 2],
    "image_encoder.trunk.dim_mul": 2.0,
    "image_encoder.trunk.head_mul": 2.0,
    "image_encoder.trunk.return_interm_layers": True,
    "image_encoder.neck.kernel_size": 1,
    "image_encoder.neck.stride": 1,
    "image_encoder.neck.padding": 0,
    "image_encoder.neck.fpn_interp_model": "nearest",
    "image_encoder.neck.fuse_type": "sum",
    "memory_attention.batch_first": True,
    "memory_attention.pos_enc_at_input": True,
    "memory_attention.layer.activation": "relu",
    "memory_attention.layer.pos_enc_at_attn": False,
    "memory_attention.layer.pos_enc_at_cross_attn_keys": True,
    "memory_attention.layer.pos_enc_at_cross_attn_queries": False,
    "memory_attention.layer.cross_attention.rope_k_repeat": True,
    "memory_encoder.fuser.layer.kernel_size": 7,
    "memory_encoder.fuser.layer.padding": 3,
    "memory_encoder.fuser.layer.use_dwconv": True,
    "memory_encoder.mask_downsampler.kernel_size": 3,
    "memory_encoder.mask_downsampler.stride": 2,
    "memory_encoder.mask_downsampler.padding": 1,
    "memory_encoder.mask_downsampler.total_stride": 16,
    "image_encoder.trunk.features": ["layer0", "layer1", "layer2", "layer3"],
    "spatial_perceiver.heads": 1,
    "spatial_perceiver.concat_kv_latents": False,
    "spatial_perceiver.pos_enc_at_key_value": True,
    "spatial_perceiver.use_self_attn": True,
}
# Attributes of upstream's networks, which are settings of the weights here.
ATTRIBUTES = frozenset(
    name
    for name in (*_SET, *_TOLD, *_ONLY, "image_size", "multimask_output_in_sam", "mem_dim")
    if "." not in name
)
# Networks of timm that a trunk can be, by their names without what they were trained on.
_TIMM = {"repvit_m1": {"embed_dim": [48, 96, 192, 384], "depth": [2, 2, 14, 2]}}
for _attention in ("self_attention", "cross_attention"):
    _ONLY[f"memory_attention.layer.{_attention}.num_heads"] = 1
    _ONLY[f"memory_attention.layer.{_attention}.downsample_rate"] = 1
for _encoding in ("image_encoder.neck", "memory_encoder", "spatial_perceiver"):
    _ONLY[f"{_encoding}.position_encoding.normalize"] = True
    _ONLY[f"{_encoding}.position_encoding.scale"] = None
    _ONLY[f"{_encoding}.position_encoding.temperature"] = 10000
# What changes no result here: it is for training or speed, or follows from other values.
_IGNORED = re.compile(
    r"compile_image_encoder|image_encoder\.trunk\.(drop_path_rate|weights_path)"
    r"|(.*\.)?position_encoding\.(num_pos_feats|warmup_cache|image_size|strides)"
    r"|memory_attention\.(layer\.)?(d_model|dropout)"
    r"|memory_attention\.layer\.(self|cross)_attention\.(feat_sizes|q_sizes|embedding_dim|dropout)"
    r"|spatial_perceiver\.(hidden|attention)_dropout_p"
    r"|memory_encoder\.(in_dim|fuser\.(input_projection|layer\.(dim|drop_path"
    r"|layer_scale_init_value)))"
)
_TARGETS = {
    "SAM2Base", "SAM2VideoPredictor", "SAM2VideoPredictorVOS", "ImageEncoder", "Hiera", "FpnNeck",
    "PositionEmbeddingSine", "MemoryAttention", "MemoryAttentionLayer", "RoPEAttention",
    "MemoryEncoder", "MaskDownSampler", "Fuser", "CXBlock",
    "TimmBackbone", "RoPEAttentionv2", "PerceiverResampler",
}  # fmt: skip
_PREDICTOR = {
    "fill_hole_area": int,
    "non_overlap_masks": bool,
    "clear_non_cond_mem_around_input": bool,
    "add_all_frames_to_correct_as_cond": bool,
}
# What upstream's constructors take where a config is silent.
_SILENT: dict[str, Any] = {
    "image_size": 512,
    "backbone_stride": 16,
    "sigmoid_scale_for_mem_enc": 1.0,
    "sigmoid_bias_for_mem_enc": 0.0,
    "binarize_mask_from_pts_for_mem_enc": False,
    "use_mask_input_as_output_without_sam": False,
    "max_cond_frames_in_attn": -1,
    "directly_add_no_mem_embed": False,
    "use_high_res_features_in_sam": False,
    "multimask_output_in_sam": False,
    "multimask_min_pt_num": 1,
    "multimask_max_pt_num": 1,
    "multimask_output_for_tracking": False,
    "use_multimask_token_for_obj_ptr": False,
    "iou_prediction_use_sigmoid": False,
    "memory_temporal_stride_for_eval": 1,
    "use_obj_ptrs_in_encoder": False,
    "max_obj_ptrs_in_encoder": 16,
    "add_tpos_enc_to_obj_ptrs": True,
    "proj_tpos_enc_in_obj_ptrs": False,
    "use_signed_tpos_enc_to_obj_ptrs": False,
    "only_obj_ptrs_in_the_past_for_eval": False,
    "pred_obj_scores": False,
    "pred_obj_scores_mlp": False,
    "fixed_no_obj_ptr": False,
    "use_mlp_for_obj_ptr_proj": False,
    "no_obj_embed_spatial": False,
    "sam_mask_decoder_extra_args.dynamic_multimask_via_stability": False,
    _ROPE_THETA: 10000.0,
}
_TRUNK = "image_encoder.trunk."
_SILENT_TRUNK: dict[str, Any] = {
    f"{_TRUNK}embed_dim": 96,
    f"{_TRUNK}num_heads": 1,
    f"{_TRUNK}q_pool": 3,
    f"{_TRUNK}stages": [2, 3, 16, 3],
    f"{_TRUNK}window_pos_embed_bkg_spatial_size": [14, 14],
    f"{_TRUNK}window_spec": [8, 4, 14, 7],
    f"{_TRUNK}global_att_blocks": [12, 16, 20],
}
_POSTPROCESSING = {
    f"{_EXTRA_ARGS}.dynamic_multimask_via_stability": True,
    f"{_EXTRA_ARGS}.dynamic_multimask_stability_delta": 0.05,
    f"{_EXTRA_ARGS}.dynamic_multimask_stability_thresh": 0.98,
}
_HOLES = "fill_hole_area"
_VIDEO_POSTPROCESSING = {"binarize_mask_from_pts_for_mem_enc": True, _HOLES: 8}


@dataclass(frozen=True)
class ModelSettings:
    """What a config and its overrides ask for.

    Attributes
    ----------
    variant, version : str or None
        Of the release that the config names, such as ``"hiera_t"`` and ``"2.1"``.
    image_size : int or None
        Side of the input; None: as the checkpoint says.
    fields : dict of str to value
        What is set, by its name in `Model.config`.
    told : dict of str to (str, value)
        What the weights tell: name in `Model.config` -> upstream's name and its value.
    predictor : dict of str to value
        Arguments of `SAM2VideoPredictor`.
    """

    variant: str | None = None
    version: str | None = None
    image_size: int | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    told: dict[str, tuple[str, Any]] = field(default_factory=dict)
    predictor: dict[str, Any] = field(default_factory=dict)

    def compare(self, config: Mapping[str, Any], where: str) -> None:
        """Hold the sizes to those of a model: `CheckpointError` for the first that differs."""
        for name, (upstream, expected) in self.told.items():
            found: Any = config
            for part in name.split("."):
                found = None if found is None else found.get(part)
            if _plain(found) != _plain(expected):
                raise CheckpointError(
                    f"{where}: expected {upstream} {expected} as in the config, found {found}"
                )


def read_settings(
    config_file: str | os.PathLike[str] | None,
    overrides: Sequence[str] = (),
    *,
    postprocessing: bool = True,
    video: bool = False,
) -> ModelSettings:
    """Read a config of upstream and the overrides of its fields.

    Parameters
    ----------
    config_file : str, path or None
        Upstream's name of a config, or a YAML file. None: what the checkpoint says.
    overrides : sequence of str
        Hydra's: ``"++model.image_size=512"``.
    postprocessing, video : bool
        Whether upstream adds its own overrides, and those for videos.

    Raises
    ------
    InvalidArgumentError
        `config_file` is neither upstream's nor a file, or a field is unknown.
    UnsupportedError
        A field has a value that this library does not offer.
    MissingExtraError
        The file needs PyYAML.
    """
    name = "" if config_file is None else os.fspath(config_file)
    release = _RELEASED.get(name.rsplit("/", 1)[-1].removesuffix(".yaml"))
    values: dict[str, Any] = {}
    is_own = Path(name).resolve().is_relative_to(_CONFIGS)
    if config_file is not None and Path(name).is_file() and not (is_own and release):
        read = read_yaml(Path(name))
        has_trunk = any(each.startswith(_TRUNK) for each in read) and f"{_TRUNK}name" not in read
        values = _SILENT | (_SILENT_TRUNK if has_trunk else {}) | read
        release = None
    elif config_file is not None and release is None:
        raise InvalidArgumentError(
            "config_file: expected a config of upstream, such as "
            f"'configs/sam2.1/sam2.1_hiera_t.yaml', or a YAML file, found {name!r}"
        )
    given = dict(map(parse_override, overrides))
    values |= given
    if postprocessing:
        values |= _POSTPROCESSING | (_VIDEO_POSTPROCESSING if video else {})
        # Upstream's own 8 has the last word but no effect on a CPU; ours has one, so that what the
        # caller asks for counts.
        if _HOLES in given:
            values[_HOLES] = given[_HOLES]
    else:
        values.setdefault(f"{_EXTRA_ARGS}.dynamic_multimask_via_stability", False)
        if video:
            values.setdefault("binarize_mask_from_pts_for_mem_enc", False)
    return _sort_out(values, release)


def _sort_out(values: dict[str, Any], release: tuple[str, str] | None) -> ModelSettings:
    """Tell what each value is for."""
    fields: dict[str, Any] = {}
    told: dict[str, tuple[str, Any]] = {}
    predictor: dict[str, Any] = {}
    image_size = values.pop("image_size", None)
    if values.pop("multimask_output_in_sam", True) is False:  # never for any number of points
        values |= {"multimask_min_pt_num": 1, "multimask_max_pt_num": 0}
    pointers = values.get("add_tpos_enc_to_obj_ptrs", False)
    projected = values.pop("proj_tpos_enc_in_obj_ptrs", pointers)
    if pointers and not projected:
        _refuse("proj_tpos_enc_in_obj_ptrs", True, projected)
    theta = values.pop("memory_attention.layer.cross_attention.rope_theta", None)
    if theta is not None and theta != values.get(_ROPE_THETA, theta):
        _refuse("memory_attention.layer.cross_attention.rope_theta", values[_ROPE_THETA], theta)
    told |= _told_of_edgetam(values)
    for name, value in values.items():
        if name in _SET:
            fields[_SET[name]] = value
        elif name in _TOLD:
            told[_TOLD[name]] = (name, value)
        elif name in _PREDICTOR:
            predictor[name] = _predictor_value(name, value)
        elif name in _ONLY:
            if _plain(value) != _plain(_ONLY[name]):
                _refuse(name, _ONLY[name], value)
        elif name.rpartition(".")[2] == "_target_":
            if str(value).rpartition(".")[2] not in _TARGETS:
                _refuse(name, "a class of sam2", value)
        elif not _IGNORED.fullmatch(name) and not (name == _EXTRA_ARGS and value is None):
            raise InvalidArgumentError(f"model.{name}: expected a field of upstream's configs")
    if image_size is not None and (type(image_size) is not int or image_size < 1):
        raise InvalidArgumentError(f"model.image_size: expected an int > 0, found {image_size!r}")
    variant, version = release or (None, None)
    return ModelSettings(
        variant=variant,
        version=version,
        image_size=image_size,
        fields=fields,
        told=told,
        predictor=predictor,
    )


def _told_of_edgetam(values: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    """Take what EdgeTAM's config says in its own way."""
    told: dict[str, tuple[str, Any]] = {}
    name = f"{_TRUNK}name"
    trunk = values.pop(name, None)
    if trunk is not None:
        sizes = _TIMM.get(str(trunk).partition(".")[0])
        if sizes is None:
            _refuse(name, "repvit_m1", trunk)
        else:
            told |= {f"image_encoder.rep_vit.{key}": (name, each) for key, each in sizes.items()}
    name = "memory_attention.layer.cross_attention.k_sizes"
    sides = values.pop(name, None)
    if sides is not None:
        if not (isinstance(sides, list) and len(sides) == 2 and sides[0] == sides[1]):
            _refuse(name, "two equal sides", sides)
        told["memory_attention.key_size"] = (name, sides[0])
    name = "spatial_perceiver.dim_head"
    width = values.pop(name, None)
    if width is not None and width != values.get("spatial_perceiver.dim", width):
        _refuse(name, values["spatial_perceiver.dim"], width)
    return told


def _refuse(name: str, expected: Any, found: Any) -> None:
    raise UnsupportedError(f"model.{name}: expected {expected}, found {found!r}")


def _predictor_value(name: str, value: Any) -> Any:
    if type(value) is not _PREDICTOR[name]:
        expected = _PREDICTOR[name].__name__
        raise InvalidArgumentError(f"model.{name}: expected {expected}, found {value!r}")
    return value


def _plain(value: Any) -> Any:
    """Return a value that compares with others of its kind: tuples as lists, all numbers alike."""
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value
