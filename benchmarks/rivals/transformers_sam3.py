"""Hugging Face's Sam3Model on images. Imports PyTorch."""

from __future__ import annotations

import functools
from typing import Any
from unittest import mock

import torch
from support import hugging_face_sam3, upstream_sam3
from transformers import Sam3ImageProcessor, Sam3Model
from transformers.models.sam3 import modeling_sam3

from rivals import Task
from workloads import Workload, sample_image, sample_texts, scores_of, threshold_for

Renamed = tuple[tuple[str, str], ...]

TRUNK: Renamed = (
    ("pos_embed", "embeddings.position_embeddings"),
    ("patch_embed.proj.", "embeddings.patch_embeddings.projection."),
    ("ln_pre.", "layer_norm."),
    ("blocks.", "layers."),
    (".norm", ".layer_norm"),
    (".attn.proj.", ".attention.o_proj."),
    (".attn.", ".attention."),
)
NECK: Renamed = (
    ("dconv_2x2_0.", "scale_layers.0."),
    ("dconv_2x2_1.", "scale_layers.2."),
    ("dconv_2x2.", "scale_layers.0."),
    ("conv_1x1.", "proj1."),
    ("conv_3x3.", "proj2."),
)
TEXT: Renamed = (
    ("token_embedding.", "embeddings.token_embedding."),
    ("positional_embedding", "embeddings.position_embedding.weight"),
    ("transformer.resblocks.", "encoder.layers."),
    ("ln_final.", "final_layer_norm."),
    (".ln_", ".layer_norm"),
    (".attn.", ".self_attn."),
    (".c_fc.", ".fc1."),
    (".c_proj.", ".fc2."),
)
LAYERS: Renamed = (
    (".norm", ".layer_norm"),
    (".linear", ".mlp.fc"),
    (".cross_attn_image.", ".cross_attn."),
    (".out_proj.", ".o_proj."),
)
PERCEPTRON: Renamed = tuple((f".layers.{i}.", f".layer{i + 1}.") for i in range(3))
DECODER: Renamed = (
    (".catext_norm.", ".text_cross_attn_layer_norm."),
    (".norm1.", ".vision_cross_attn_layer_norm."),
    (".norm2.", ".self_attn_layer_norm."),
    (".norm3.", ".mlp_layer_norm."),
    (".cross_attn.", ".vision_cross_attn."),
    (".ca_text.", ".text_cross_attn."),
    ("presence_token_out_norm.", "presence_layer_norm."),
    ("presence_token_head.", "presence_head."),
    ("bbox_embed.", "box_head."),
    ("boxRPB_embed_", "box_rpb_embed_"),
    *LAYERS,
    *PERCEPTRON,
)
MASKS: Renamed = (
    ("mask_predictor.mask_embed.", "mask_embedder."),
    ("instance_seg_head.", "instance_projection."),
    ("semantic_seg_head.", "semantic_projection."),
    ("cross_attend_prompt.", "prompt_cross_attn."),
    ("cross_attn_norm.", "prompt_cross_attn_norm."),
    (".out_proj.", ".o_proj."),
)
SCORES: Renamed = (
    ("prompt_mlp.out_norm.", "text_mlp_out_norm."),
    ("prompt_mlp.", "text_mlp."),
    ("prompt_proj.", "text_proj."),
    ("hs_proj.", "query_proj."),
    *PERCEPTRON,
)
# How Meta's name begins -> how theirs does, and what is renamed behind it, in this order. The
# first that fits counts.
PARTS: tuple[tuple[str, str, Renamed], ...] = (
    ("backbone.vision_backbone.trunk.", "vision_encoder.backbone.", TRUNK),
    ("backbone.vision_backbone.convs.", "vision_encoder.neck.fpn_layers.", NECK),
    ("backbone.language_backbone.resizer.", "text_projection.", ()),
    (
        "backbone.language_backbone.encoder.text_projection",
        "text_encoder.text_projection.weight",
        (),
    ),
    ("backbone.language_backbone.encoder.", "text_encoder.text_model.", TEXT),
    ("geometry_encoder.img_pre_norm.", "geometry_encoder.vision_layer_norm.", ()),
    ("geometry_encoder.norm.", "geometry_encoder.prompt_layer_norm.", ()),
    ("geometry_encoder.encode_norm.", "geometry_encoder.output_layer_norm.", ()),
    ("geometry_encoder.encode.", "geometry_encoder.layers.", LAYERS),
    ("transformer.encoder.", "detr_encoder.", LAYERS),
    ("transformer.decoder.norm.", "detr_decoder.output_layer_norm.", ()),
    ("transformer.decoder.", "detr_decoder.", DECODER),
    ("segmentation_head.", "mask_decoder.", MASKS),
    ("dot_prod_scoring.", "dot_product_scoring.", SCORES),
)


def theirs(name: str) -> str:
    name = name.removeprefix("detector.")
    for begin, new_begin, renamed in PARTS:
        if name.startswith(begin):
            rest = name.removeprefix(begin)
            for old, new in renamed:
                rest = rest.replace(old, new)
            return new_begin + rest
    return name


def stored(name: str, value: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return a tensor of Meta's file as theirs: views of it, but for the smallest."""
    name = theirs(name)
    for joined in ("qkv.", "in_proj_"):
        if joined in name:
            names = [name.replace(joined, f"{part}_proj.") for part in "qkv"]
            return dict(zip(names, value.chunk(3), strict=True))
    if name.endswith("position_embeddings"):
        return {name: value[:, 1:]}  # the class token has no position
    if name.endswith("text_projection.weight") and name.startswith("text_encoder"):
        return {name: value.T.contiguous()}
    return {name: value}


def load(workload: Workload) -> Any:
    """Build their network on the weights that all engines share, mapped from the file."""
    with torch.device("meta"):
        model = Sam3Model(hugging_face_sam3.detector_config(workload.config))
    weights: dict[str, torch.Tensor] = {}
    for name, value in torch.load(workload.weights, mmap=True, weights_only=True).items():
        weights |= stored(name, value)
    # Points, which Meta's network takes too, have no position in theirs.
    positions = model.state_dict().keys()
    used = {name: value for name, value in weights.items() if name in positions}
    if unknown := sorted(n for n in weights.keys() - used.keys() if ".points_" not in n):
        raise KeyError(f"no position for {unknown}")
    model.load_state_dict(used, assign=True)
    # Tables that are computed stand beside the weights.
    for layer in model.vision_encoder.backbone.layers:
        layer.position_ids = layer.precompute_positions(layer.config, layer.window_size)
        rotary = layer.rotary_emb
        rotary.inv_freq, _ = rotary.compute_axial_rope_parameters(layer.config)
        rotary.original_inv_freq = rotary.inv_freq
    embeddings = model.text_encoder.text_model.embeddings
    embeddings.position_ids = torch.arange(embeddings.position_ids.shape[1])[None]
    if meta := [name for name, buffer in model.named_buffers() if buffer.is_meta]:
        raise KeyError(f"no values for {meta}")
    return model.eval().requires_grad_(False)


class Detector:
    """Their model and what stands before and behind it."""

    def __init__(self, workload: Workload) -> None:
        self.model = load(workload)
        self.sides = (workload.side, workload.side)
        size = dict(zip(("height", "width"), self.sides, strict=True))
        self.processor = Sam3ImageProcessor(size=size)
        self.tokenizer = upstream_sam3.tokenizer()
        self.context_length = workload.config.context_length

    def see(self, image: Any) -> Any:
        pixels = self.processor(image, return_tensors="pt").pixel_values
        with torch.inference_mode():
            return self.model.get_vision_features(pixels)

    def read(self, text: str) -> dict[str, Any]:
        """Return a text as the model takes it. It is padded, as their processor does it."""
        ids = self.tokenizer([text], context_length=self.context_length)
        mask = ids != 0
        with torch.inference_mode():
            return {
                "text_embeds": self.model.get_text_features(ids, mask),
                "attention_mask": mask,
            }

    def ground(self, vision: Any, text: dict[str, Any]) -> Any:
        """Find a text. A box that is padding makes the class token, which Meta has always.

        One sample is what torchvision's operator takes of an empty box. What stands in for it,
        where it cannot be loaded, goes over the whole map.
        """
        ops = modeling_sam3.torchvision.ops
        pooled = functools.partial(ops.roi_align, sampling_ratio=1)
        with torch.inference_mode(), mock.patch.object(ops, "roi_align", pooled):
            return self.model(
                vision_embeds=vision,
                **text,
                input_boxes=torch.zeros(1, 1, 4),
                input_boxes_labels=torch.full((1, 1), -10),
            )

    def scores(self, vision: Any, text: dict[str, Any]) -> Any:
        out = self.ground(vision, text)
        return scores_of(out.pred_logits[0].numpy(), out.presence_logits.item())

    def instances(self, vision: Any, text: dict[str, Any], threshold: float) -> Any:
        (found,) = self.processor.post_process_instance_segmentation(
            self.ground(vision, text), threshold, target_sizes=[self.sides]
        )
        # They have 8 bytes for each pixel, which nobody would keep.
        return found | {"masks": found["masks"].bool()}


def prepare(workload: Workload) -> Task:
    detector = Detector(workload)
    image = sample_image(workload.side, workload.side)
    words = sample_texts(max(1, workload.prompts))
    if workload.name == "sam3-encoder":
        return Task(
            lambda: detector.see(image),
            lambda vision: detector.scores(vision, detector.read(words[0])),
        )
    if workload.name == "sam3-text":
        return Task(
            lambda: detector.read(words[0]),
            lambda text: detector.scores(detector.see(image), text),
        )
    vision, texts = detector.see(image), [detector.read(text) for text in words]
    threshold = threshold_for(detector.scores(vision, texts[0]))
    return Task(
        lambda: [detector.instances(vision, text, threshold) for text in texts],
        lambda found: found[0]["scores"].numpy(),
    )
