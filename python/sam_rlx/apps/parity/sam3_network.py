"""Meta's SAM 3 in the sizes of a model of ours, with its weights."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sam_rlx._internal.packages import missing
from sam_rlx.apps.parity import packages
from sam_rlx.apps.parity.networks import (
    Config,
    Weights,
    _heads,
    _high_resolution_decoder,
    load_weights,
)
from sam_rlx.errors import UnsupportedError
from sam_rlx.model import Model

# Arguments of Meta's class for texts on videos, as its builder of the release gives them.
VIDEO_OPTIONS = {
    "det_nms_thresh": 0.1,
    "assoc_iou_thresh": 0.1,
    "trk_assoc_iou_thresh": 0.5,
    "suppress_overlapping_based_on_recent_occlusion_threshold": 0.7,
    "suppress_unmatched_only_within_hotstart": True,
    "min_trk_keep_alive": -1,
    "max_trk_keep_alive": 30,
    "init_trk_keep_alive": 30,
    "recondition_every_nth_frame": 16,
    "image_mean": (0.5, 0.5, 0.5),
    "image_std": (0.5, 0.5, 0.5),
}

TRACKER = "inst_interactive_predictor.model."
# SAM 3.1's heads for clicks are SAM 3's under other names; a name may begin with several.
_CLICKS_3_1 = {
    "tracker.model.interactivity_": TRACKER,
    "tracker.model.interactive_": TRACKER,
    "detector.backbone.vision_backbone.interactive_convs.": "backbone.vision_backbone.sam2_convs.",
}


def reference_name(name: str) -> str:
    """Return the name that `Sam3Image` has for a tensor or layer of Meta's checkpoint."""
    for begin, other in _CLICKS_3_1.items():
        if name.startswith(begin):
            return other + name.removeprefix(begin)
    if name.startswith("tracker."):
        return TRACKER + name.removeprefix("tracker.")
    return name.removeprefix("detector.")


def vocabulary() -> Path:
    """Return the file of CLIP's vocabulary, which the package open_clip carries."""
    spec = importlib.util.find_spec("open_clip")
    if spec is None or spec.origin is None:
        # It has the vocabulary of SAM 3's tokenizer.
        raise missing("parity", "open_clip_torch", "none")
    return Path(spec.origin).parent / "bpe_simple_vocab_16e6.txt.gz"


def sam3(model: Model, weights: Weights, *, video: bool = False) -> tuple[SimpleNamespace, Any]:
    """Build `Sam3Image` with its predictor for clicks; with `video` the class for videos too."""
    package = packages.sam3()
    with packages.running(package.torch):
        network = _image_model(package, model.config, video)
        if "multiplex" in model.config:
            _as_in_3_1(network.inst_interactive_predictor.model)
    renamed = {reference_name(name): value for name, value in weights.items()}
    return package, load_weights(package.torch, network, renamed, model.source)


def _image_model(package: Any, config: Config, video: bool) -> Any:
    sizes, vision = config["detector"], config["vision"]
    detector = _Detector(package, sizes)
    image = package.sam3_image
    kind = image.Sam3ImageOnVideoMultiGPU if video else image.Sam3Image
    return kind(
        backbone=package.vl_combiner.SAM3VLBackbone(
            visual=_neck(package, vision),
            text=_text(package, config["text"]),
            scalp=vision["scalp"],
        ),
        transformer=package.model_misc.TransformerWrapper(
            encoder=detector.fusion_encoder(),
            decoder=detector.decoder(vision["img_size"], vision["patch_size"]),
            d_model=sizes["d_model"],
        ),
        input_geometry_encoder=detector.geometry_encoder(),
        segmentation_head=detector.segmentation_head(),
        num_feature_levels=1,
        o2m_mask_predict=True,
        dot_prod_scoring=detector.scoring(),
        use_instance_query=False,
        multimask_output=True,
        inst_interactive_predictor=_clicks(package, config["tracker"]),
    ).eval()


def _sine(package: Any, num_pos_feats: int) -> Any:
    return package.position_encoding.PositionEmbeddingSine(num_pos_feats, 10000, True, None)


def _neck(package: Any, vision: Config) -> Any:
    if "student" in vision:
        raise UnsupportedError("reference: expected SAM 3's trunk, found a student of it")
    names = ["img_size", "pretrain_img_size", "patch_size", "embed_dim", "depth", "num_heads"]
    names += ["mlp_ratio", "window_size", "global_att_blocks"]
    trunk = package.vitdet.ViT(
        norm_layer="LayerNorm",
        qkv_bias=True,
        use_abs_pos=True,
        tile_abs_pos=True,
        rel_pos_blocks=(),
        use_rope=True,
        use_interp_rope=True,
        pretrain_use_cls_token=True,
        retain_cls_token=False,
        ln_pre=True,
        ln_post=False,
        return_interm_layers=False,
        bias_patch_embed=False,
        **{name: vision[name] for name in names},
    )
    return package.necks.Sam3DualViTDetNeck(
        trunk=trunk,
        position_encoding=_sine(package, vision["d_model"]),
        d_model=vision["d_model"],
        scale_factors=list(vision["scale_factors"]),
        add_sam2_neck=vision["add_sam2_neck"],
    )


def _text(package: Any, text: Config) -> Any:
    if text.get("mobile_clip"):
        raise UnsupportedError("reference: expected SAM 3's text encoder, found MobileCLIP's")
    tokenizer = package.tokenizer_ve.SimpleTokenizer(bpe_path=str(vocabulary()))
    names = ("d_model", "width", "heads", "layers", "context_length", "vocab_size")
    sizes = {name: text[name] for name in names if name in text}
    return package.text_encoder_ve.VETextEncoder(tokenizer=tokenizer, **sizes)


class _Detector:
    """Parts of the detector, which have the same sizes."""

    def __init__(self, package: Any, config: Config) -> None:
        self.package, self.config = package, config
        self.widths = {name: config[name] for name in ("d_model", "dim_feedforward")}

    def attention(self, batch_first: bool = False, dropout: float = 0.1) -> Any:
        return self.package.model_misc.MultiheadAttentionWrapper(
            num_heads=self.config["nheads"],
            dropout=dropout,
            embed_dim=self.config["d_model"],
            batch_first=batch_first,
        )

    def layer(self, geometry: bool) -> Any:
        return self.package.encoder.TransformerEncoderLayer(
            activation="relu",
            dropout=0.1,
            pos_enc_at_attn=not geometry,
            pos_enc_at_cross_attn_keys=geometry,
            pos_enc_at_cross_attn_queries=False,
            pre_norm=True,
            self_attention=self.attention(batch_first=not geometry),
            cross_attention=self.attention(batch_first=not geometry),
            **self.widths,
        )

    def geometry_encoder(self) -> Any:
        return self.package.geometry_encoders.SequenceGeometryEncoder(
            pos_enc=_sine(self.package, self.config["d_model"]),
            encode_boxes_as_points=False,
            points_direct_project=True,
            points_pool=True,
            points_pos_enc=True,
            boxes_direct_project=True,
            boxes_pool=True,
            boxes_pos_enc=True,
            d_model=self.config["d_model"],
            num_layers=self.config["geometry_layers"],
            layer=self.layer(geometry=True),
            add_cls=True,
            add_post_encode_proj=True,
        )

    def fusion_encoder(self) -> Any:
        return self.package.encoder.TransformerEncoderFusion(
            layer=self.layer(geometry=False),
            num_layers=self.config["encoder_layers"],
            d_model=self.config["d_model"],
            num_feature_levels=1,
            frozen=False,
            add_pooled_text_to_img_feat=False,
            pool_text_with_mask=True,
        )

    def decoder(self, img_size: int, patch_size: int) -> Any:
        layer = self.package.decoder.TransformerDecoderLayer(
            activation="relu",
            dropout=0.1,
            cross_attention=self.attention(),
            n_heads=self.config["nheads"],
            use_text_cross_attention=True,
            **self.widths,
        )
        return self.package.decoder.TransformerDecoder(
            layer=layer,
            num_layers=self.config["decoder_layers"],
            num_queries=self.config["num_queries"],
            return_intermediate=True,
            box_refine=True,
            num_o2m_queries=0,
            dac=True,
            boxRPB="log",
            d_model=self.config["d_model"],
            frozen=False,
            interaction_layer=None,
            dac_use_selfatt_ln=True,
            resolution=img_size,
            stride=patch_size,
            presence_token=True,
        )

    def scoring(self) -> Any:
        d_model = self.config["d_model"]
        prompt_mlp = self.package.model_misc.MLP(
            input_dim=d_model,
            hidden_dim=self.config["dim_feedforward"],
            output_dim=d_model,
            num_layers=2,
            dropout=0.1,
            residual=True,
            out_norm=self.package.torch.nn.LayerNorm(d_model),
        )
        return self.package.model_misc.DotProductScoring(
            d_model=d_model, d_proj=d_model, prompt_mlp=prompt_mlp
        )

    def segmentation_head(self) -> Any:
        d_model, stages = self.config["d_model"], self.config["upsampling_stages"]
        return self.package.maskformer_segmentation.UniversalSegmentationHead(
            hidden_dim=d_model,
            upsampling_stages=stages,
            aux_masks=False,
            presence_head=False,
            dot_product_scorer=None,
            cross_attend_prompt=self.attention(dropout=0.0),
            pixel_decoder=self.package.maskformer_segmentation.PixelDecoder(
                num_upsampling_stages=stages, interpolation_mode="nearest", hidden_dim=d_model
            ),
        )


def _clicks(package: Any, config: Config) -> Any:
    predictor = package.sam1_task_predictor.SAM3InteractiveImagePredictor(_tracker(package, config))
    grid = config["memory_attention"]["feat_size"]
    predictor._bb_feat_sizes = [(n * grid, n * grid) for n in (4, 2, 1)]
    return predictor


def _as_in_3_1(tracker: Any) -> None:
    """Leave of a tracker what SAM 3.1 takes clicks with: another network follows objects."""
    tracker.sam_mask_decoder.iou_prediction_head.sigmoid_output = False
    for name in ("transformer", "maskmem_backbone", "obj_ptr_tpos_proj"):
        setattr(tracker, name, None)
    for name in ("maskmem_tpos_enc", "no_mem_pos_enc", "no_obj_ptr", "no_obj_embed_spatial"):
        setattr(tracker, name, None)


def _tracker(package: Any, config: Config) -> Any:
    encoder = _memory_attention(package, config)
    d_model = config["memory_attention"]["d_model"]
    tracker = package.sam3_tracking_predictor.Sam3TrackerPredictor(
        backbone=None,
        transformer=package.model_misc.TransformerWrapper(
            encoder=encoder, decoder=None, d_model=d_model
        ),
        maskmem_backbone=_memory_encoder(package, config),
        image_size=config["base"]["image_size"],
        num_maskmem=config["num_maskmem"],
        multimask_output_in_sam=True,
        forward_backbone_per_frame_for_eval=True,
        always_start_from_first_ann_frame=False,
        non_overlap_masks_for_mem_enc=False,
        non_overlap_masks_for_output=False,
        clear_non_cond_mem_around_input=True,
        fill_hole_area=0,
        use_memory_selection=True,
        **_heads(config["base"], config["memory_bank"]),
    )
    # Meta turns autocast on for good. Without a GPU it does nothing, but is left open.
    tracker.bf16_context.__exit__(None, None, None)
    tracker.sam_mask_decoder = _high_resolution_decoder(
        package.mask_decoder, package, config["mask_decoder"]
    )
    return tracker


def _memory_attention(package: Any, config: Config) -> Any:
    sizes = config["memory_attention"]

    def rope(**options: Any) -> Any:
        return package.transformer.RoPEAttention(
            embedding_dim=sizes["d_model"],
            num_heads=1,
            downsample_rate=1,
            dropout=0.1,
            rope_theta=sizes["rope_theta"],
            feat_sizes=[sizes["feat_size"], sizes["feat_size"]],
            **options,
        )

    layer = package.decoder.TransformerDecoderLayerv2(
        cross_attention_first=False,
        activation="relu",
        dim_feedforward=config["memory_feedforward"],
        dropout=0.1,
        pos_enc_at_attn=False,
        pre_norm=True,
        self_attention=rope(),
        d_model=sizes["d_model"],
        pos_enc_at_cross_attn_keys=True,
        pos_enc_at_cross_attn_queries=False,
        cross_attention=rope(kv_in_dim=sizes["kv_in_dim"], rope_k_repeat=True),
    )
    return package.decoder.TransformerEncoderCrossAttention(
        remove_cross_attention_layers=[],
        batch_first=True,
        d_model=sizes["d_model"],
        frozen=False,
        pos_enc_at_input=True,
        layer=layer,
        num_layers=config["memory_layers"],
    )


def _memory_encoder(package: Any, config: Config) -> Any:
    d_model, side = config["memory_encoder"]["in_dim"], 16 * config["memory_attention"]["feat_size"]
    block = package.memory.CXBlock(d_model, kernel_size=7, padding=3)
    return package.memory.SimpleMaskEncoder(
        out_dim=config["mem_dim"],
        in_dim=d_model,
        position_encoding=_sine(package, config["mem_dim"]),
        mask_downsampler=package.memory.SimpleMaskDownSampler(
            embed_dim=d_model, kernel_size=3, stride=2, padding=1, interpol_size=[side, side]
        ),
        fuser=package.memory.SimpleFuser(block, config["memory_encoder"]["fuser_layers"]),
    )
