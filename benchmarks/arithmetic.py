"""Arithmetic of the networks as upstream does it, in GFLOP: 2 for each multiply-add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.tiny import SamConfig
    from support.tiny_sam2 import ImageEncoderConfig
    from support.tiny_sam3 import Sam3Config


def vit_gflop(config: SamConfig) -> float:
    """Multiply-adds of the image encoder, padded window tokens included."""
    width, grid = config.embed_dim, config.img_size // config.patch_size
    tokens, head = grid * grid, config.embed_dim // config.num_heads
    total = tokens * width * 3 * config.patch_size**2
    for block in range(config.depth):
        whole = block in config.global_attn_indexes
        side = grid if whole else config.window_size
        windows = 1 if whole else (-(-grid // side)) ** 2
        seen = windows * side * side  # tokens, padding included
        total += seen * width * 4 * width  # qkv and proj
        total += 2 * seen * side * side * width  # scores, and values
        total += 2 * seen * side * config.num_heads * head  # relative positions
        total += tokens * 8 * width * width  # mlp
    out = config.out_chans
    total += tokens * (width * out + 9 * out * out)
    return 2e-9 * total


def decoder_gflop(config: SamConfig, sparse: int = 2) -> float:
    """Multiply-adds of SAM's mask decoder for one prompt of `sparse` tokens."""
    grid = config.img_size // config.patch_size
    return _decoder_gflop(config.out_chans, grid, config.mlp_dim, 5 + sparse)


def _decoder_gflop(width: int, grid: int, mlp_dim: int, tokens: int) -> float:
    positions, inner = grid * grid, width // 2
    cross = (positions + tokens) * 2 * width * inner + 2 * positions * tokens * inner
    layer = tokens * 4 * width * width + 2 * tokens * tokens * width
    layer += 2 * cross + 2 * tokens * width * mlp_dim
    total = 2 * layer + cross
    total += positions * width * width + 4 * positions * (width // 4) * (width // 2)  # upscaling
    total += 4 * (2 * width * width + width * width // 8)  # hypernetworks
    total += 16 * positions * 4 * width // 8  # masks
    return 2e-9 * total


def blocks(config: ImageEncoderConfig) -> list[dict[str, Any]]:
    """Sizes of each block of the trunk: the layer's config and `grid`, the side of its input."""
    width, heads, grid = config.embed_dim, config.num_heads, config.image_size // 4
    found: list[dict[str, Any]] = []
    for stage, count in enumerate(config.stages):
        for i in range(count):
            wider = stage > 0 and i == 0
            heads *= 2 if wider else 1
            window = config.window_spec[stage - 1 if wider else stage]
            sizes = {"dim": width, "dim_out": 2 * width if wider else width, "num_heads": heads}
            sizes["window_size"] = 0 if len(found) in config.global_att_blocks else window
            found.append({**sizes, "q_pool": wider, "grid": grid})
            width, grid = sizes["dim_out"], grid // 2 if wider else grid
    return found


def block_gflop(block: dict[str, Any]) -> float:
    """Arithmetic as upstream does it, padded positions of windows included."""
    dim, out, grid = block["dim"], block["dim_out"], block["grid"]
    side = block["window_size"] or grid
    seen = (-(-grid // side) * side) ** 2  # tokens of all windows
    queries, tokens = (seen // 4, grid * grid // 4) if block["q_pool"] else (seen, grid * grid)
    total = seen * dim * 3 * out + 2 * queries * side * side * out + queries * out * out
    total += tokens * 8 * out * out
    if block["q_pool"]:
        total += grid * grid * dim * out
    return 2e-9 * total


def neck_gflop(config: ImageEncoderConfig) -> float:
    grid = config.image_size // 4
    channels = reversed(config.backbone_channel_list)
    return 2e-9 * sum((grid >> i) ** 2 * c * config.d_model for i, c in enumerate(channels))


def hiera_gflop(config: ImageEncoderConfig) -> float:
    patches = 2e-9 * (config.image_size // 4) ** 2 * 147 * config.embed_dim
    return patches + sum(map(block_gflop, blocks(config))) + neck_gflop(config)


def sam2_encoder_gflop(config: ImageEncoderConfig) -> float:
    """All that an image needs: the image encoder, and the decoder's projections of two maps."""
    width, grid = config.d_model, config.image_size // 4
    maps = grid * grid * width * (width // 8) + (grid // 2) ** 2 * width * (width // 4)
    return hiera_gflop(config) + 2e-9 * maps


def memory_attention_gflop(config: ImageEncoderConfig, maps: int, tokens: int) -> float:
    """Four layers on one object's memory: `maps` maps, and `tokens` tokens of pointers."""
    width, mem_dim, positions = config.d_model, config.d_model // 4, (config.image_size // 16) ** 2
    keys = maps * positions + tokens
    own = 4 * positions * width * width + 2 * positions * positions * width
    cross = (
        2 * positions * width * width + 2 * keys * mem_dim * width + 2 * positions * keys * width
    )
    return 2e-9 * 4 * (own + cross + 2 * positions * width * 2048)


def memory_encoder_gflop(config: ImageEncoderConfig) -> float:
    """A mask and the image to one map of memory."""
    width, grid = config.d_model, config.image_size // 16
    total, side = 0, 16 * grid
    for n_in, n_out in ((1, 4), (4, 16), (16, 64), (64, 256)):
        side //= 2
        total += side * side * 9 * n_in * n_out
    positions = grid * grid
    total += positions * (256 * width + width * width + width * (width // 4))
    total += 2 * positions * width * (49 + 8 * width)  # fuser
    return 2e-9 * total


def tracking_gflop(config: ImageEncoderConfig, objects: int, maps: int, tokens: int) -> float:
    """One frame of a video; the image encoder runs once, the rest for each object."""
    decoder = _decoder_gflop(config.d_model, config.image_size // 16, 2048, 8)
    memory = memory_attention_gflop(config, maps, tokens) + memory_encoder_gflop(config)
    return sam2_encoder_gflop(config) + objects * (memory + decoder)


def sam3_encoder_gflop(config: Sam3Config) -> float:
    """An image: the trunk, and the neck with the level that is dropped."""
    width, grid, d_model = config.embed_dim, config.grid, config.d_model
    positions = grid * grid
    total = positions * width * 3 * config.patch_size**2
    for block in range(config.depth):
        side = grid if block in config.global_att_blocks else config.window_size
        seen = (-(-grid // side) * side) ** 2  # tokens of all windows, padding included
        total += seen * 4 * width * width + 2 * seen * side * side * width
        total += 2 * positions * width * int(width * config.mlp_ratio)
    for factor in config.scale_factors:
        inner, side = width, grid
        while factor > 1:
            total += side * side * inner * 2 * inner  # four positions of half the width
            inner, side, factor = inner // 2, 2 * side, factor / 2
        level = int(side * factor) ** 2
        total += level * (inner * d_model + 9 * d_model * d_model)
    return 2e-9 * total


def sam3_text_gflop(config: Sam3Config) -> float:
    """A text: every position of the context, also those that are padding.

    Upstream also projects them to 512 channels, which nothing reads.
    """
    width, tokens = config.text_width, config.context_length
    layer = tokens * 12 * width * width + 2 * tokens * tokens * width
    return 2e-9 * (config.text_layers * layer + tokens * width * (512 + config.d_model))


def sam3_prompt_gflop(config: Sam3Config) -> float:
    """A text without boxes on an image, features and text given; masks of all queries."""
    width, hidden, positions = config.d_model, config.dim_feedforward, config.grid**2
    prompt = config.context_length + 1  # the token of no geometry

    def attention(queries: int, keys: int) -> int:
        return 2 * (queries + keys) * width * width + 2 * queries * keys * width

    def layer(queries: int, *others: int) -> int:
        products = attention(queries, queries) + 2 * queries * width * hidden
        return products + sum(attention(queries, keys) for keys in others)

    total = config.geometry_layers * layer(1, positions)
    total += config.encoder_layers * layer(positions, prompt)
    queries = config.num_queries
    decoder = layer(queries + 1, prompt, positions)
    # Positions of boxes, their refinement, which upstream computes twice, and scores.
    decoder += queries * 8 * width * width + 8 * queries * width
    decoder += 2 * queries * config.grid * (2 + config.nheads) * width  # bias of distances
    decoder += 2 * width * width  # presence
    total += config.decoder_layers * decoder + 2 * prompt * width * hidden
    total += attention(positions, prompt)
    total += (4 + 16) * positions * 9 * width * width  # pixel decoder
    total += 16 * positions * (width * width + width + queries * width)  # masks
    return 2e-9 * (total + queries * 3 * width * width)
