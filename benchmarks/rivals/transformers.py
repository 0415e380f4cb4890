"""Hugging Face's models in PyTorch: their own code for the same networks, with huge pages."""

from __future__ import annotations

from typing import Any

from rivals import Task, pytorch_eager, pytorch_hugepages
from workloads import CONCEPTS, HIERA, Workload, normalised, sample_image, tiny_sam2

PACKAGES = ("transformers", *pytorch_eager.PACKAGES)
WORKLOADS = (*HIERA, *CONCEPTS)
EXTRA = pytorch_eager.EXTRA
environment = pytorch_hugepages.environment

# Meta's name of SAM 2 -> theirs, applied in this order.
RENAMED = (
    ("image_encoder.trunk.", "vision_encoder.backbone."),
    ("image_encoder.neck.", "vision_encoder.neck."),
    ("patch_embed.proj.", "patch_embed.projection."),
    (".conv.", "."),
    (".norm", ".layer_norm"),
    (".mlp.layers.0.", ".mlp.proj_in."),
    (".mlp.layers.1.", ".mlp.proj_out."),
    ("sam_mask_decoder.conv_s", "mask_decoder.conv_s"),
    ("no_mem_embed", "no_memory_embedding"),
)


def prepare(workload: Workload, threads: int) -> Task:
    import torch

    torch.set_num_threads(threads)
    if workload.family == "sam3":
        from rivals import transformers_sam3

        return transformers_sam3.prepare(workload)
    model = load(workload)
    image = torch.from_numpy(normalised(sample_image(workload.side, workload.side)))

    def call() -> Any:
        with torch.inference_mode():
            return model.get_image_embeddings(image)

    return Task(call, lambda out: out[-1].numpy())


def load(workload: Workload) -> Any:
    """Build their Sam2Model on the shared weights. Its decoder, which does not run, has its own."""
    import torch
    from support import upstream  # noqa: F401  # makes torchvision importable
    from transformers import Sam2Model

    model = Sam2Model(settings(workload.config)).eval()
    weights = torch.load(workload.weights, mmap=True, weights_only=True)["model"]
    stored = {theirs(name): value for name, value in weights.items()}
    used = {name: value for name, value in stored.items() if name in model.state_dict()}
    needed = [name for name in model.state_dict() if name.startswith(("vision", "no_memory"))]
    if missing := sorted({*needed, "mask_decoder.conv_s0.weight"} - used.keys()):
        raise KeyError(f"no weights for {missing}")
    model.load_state_dict(used, strict=False, assign=True)
    return model.requires_grad_(False)


def theirs(name: str) -> str:
    for old, new in RENAMED:
        name = name.replace(old, new)
    return name


def settings(config: tiny_sam2.ImageEncoderConfig) -> Any:
    from transformers import Sam2Config

    grid, doubled = config.image_size // 16, range(len(config.stages))
    backbone = {
        "hidden_size": config.embed_dim,
        "num_attention_heads": config.num_heads,
        "image_size": [config.image_size, config.image_size],
        "blocks_per_stage": list(config.stages),
        "embed_dim_per_stage": [config.embed_dim << i for i in doubled],
        "num_attention_heads_per_stage": [config.num_heads << i for i in doubled],
        "window_size_per_stage": list(config.window_spec),
        "global_attention_blocks": list(config.global_att_blocks),
        "window_positional_embedding_background_size": list(
            config.window_pos_embed_bkg_spatial_size
        ),
    }
    vision = {
        "backbone_config": {"model_type": "sam2_hiera_det_model", **backbone},
        "backbone_channel_list": list(config.backbone_channel_list),
        "backbone_feature_sizes": [[grid << i] * 2 for i in (2, 1, 0)],
        "fpn_hidden_size": config.d_model,
        "fpn_top_down_levels": list(config.fpn_top_down_levels),
    }
    width = {"hidden_size": config.d_model}
    return Sam2Config(
        vision_config={"model_type": "sam2_vision_model", **vision},
        prompt_encoder_config={**width, "image_size": config.image_size},
        mask_decoder_config=width,
    )
