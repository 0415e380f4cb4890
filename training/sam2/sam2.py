"""The whole model: images, prompts and memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.model.layers import Mlp
from training.model.prompt_encoder import PromptEncoder
from training.sam2.config import Sam2Config
from training.sam2.decoder import Decoded, MaskDecoder
from training.sam2.hiera import ImageEncoder
from training.sam2.memory import MemoryAttention, MemoryEncoder, Stored
from training.sam2.positions import sine_positions, sine_times

PADDING, NOTHING = -1, -2
"""Labels of points: a padding token, and no token at all (to batch unequal numbers)."""
NO_OBJECT = -1024.0
FOURIER_SCALE = 2.0


class Features(NamedTuple):
    """Encoded images: (B, C / 8, 4g, 4g), (B, C / 4, 2g, 2g) and (B, C, g, g)."""

    s0: Tensor
    s1: Tensor
    top: Tensor

    def spread(self, times: int) -> Features:
        """Repeat the coarsest map for so many objects of each image; the others serve all."""
        top = self.top.permute(0, 2, 3, 1)[:, None].expand(-1, times, -1, -1, -1)
        return self._replace(top=top.flatten(0, 1).permute(0, 3, 1, 2))

    def frames(self, count: int) -> list[Features]:
        """Take apart frames that were encoded one after the other, all clips of each."""
        maps = (m.unflatten(0, (count, -1)).unbind(0) for m in self)
        return [Features(*each) for each in zip(*maps, strict=True)]


class Memory(NamedTuple):
    """What is kept of one frame: (N, mem_dim, g, g) memory and (N, C) object pointer."""

    spatial: Tensor
    pointer: Tensor


class Pointers(NamedTuple):
    """Object pointers (N, P, C) and how far back each is (P,), as a share of the longest time."""

    tokens: Tensor
    back: Tensor


class Heads(nn.Module):
    """Everything but the image encoder.

    `memory_attention` and `memory_encoder`, which have other names in SAM 3, and `encode` and
    `normalize`, are the subclass's.
    """

    memory_attention: MemoryAttention
    memory_encoder: MemoryEncoder

    def __init__(self, config: Sam2Config) -> None:
        super().__init__()
        self.config = config
        dim = config.d_model
        self.mask_downsample = nn.Conv2d(1, 1, 4, 4)
        self.maskmem_tpos_enc = nn.Parameter(torch.zeros(config.num_maskmem, 1, 1, config.mem_dim))
        self.no_mem_embed = nn.Parameter(torch.zeros(1, 1, dim))
        self.no_mem_pos_enc = nn.Parameter(torch.zeros(1, 1, dim))
        self.no_obj_ptr = nn.Parameter(torch.zeros(1, dim))
        self.no_obj_embed_spatial = nn.Parameter(torch.zeros(1, config.mem_dim))
        self.sam_prompt_encoder = PromptEncoder(_PromptSizes(dim, config.mask_in_chans))
        self.sam_mask_decoder = MaskDecoder(config)
        self.obj_ptr_proj = Mlp(dim, dim, dim, 3)
        self.obj_ptr_tpos_proj = nn.Linear(dim, config.mem_dim)

    def initialise(self) -> None:
        """Draw the first weights, once all parts are there."""
        self.apply(_initialise)
        for name in ("maskmem_tpos_enc", "no_mem_embed", "no_obj_ptr", "no_obj_embed_spatial"):
            nn.init.trunc_normal_(getattr(self, name), std=0.02)
        self.sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix.mul_(FOURIER_SCALE)

    def features(self, s0: Tensor, s1: Tensor, top: Tensor) -> Features:
        """Project the finer two of the maps (B, C, ., .) of the image encoder."""
        decoder = self.sam_mask_decoder
        return Features(decoder.conv_s0(s0), decoder.conv_s1(s1), top)

    def without_memory(self, top: Tensor) -> Tensor:
        """Features of an image, or of a frame that starts a track."""
        return top + self.no_mem_embed.reshape(1, -1, 1, 1).to(top.dtype)

    def decode(
        self,
        source: Tensor,
        features: Features,
        coords: Tensor,
        labels: Tensor,
        mask: Tensor | None = None,
        slots: bool = False,
        given: Tensor | None = None,
    ) -> Decoded:
        """Answer prompts.

        Parameters
        ----------
        source : Tensor
            (N, C, g, g) features of the frame, with or without memory.
        features : Features
            High-resolution maps of the frame: N of each, or one for so many prompts in a row.
        coords, labels : Tensor
            (N, P, 2) in pixels of the input image and (N, P): 0 and 1 for clicks, 2 and 3 for
            the corners of a box, `PADDING` (upstream always appends one), `NOTHING`.
        mask : Tensor, optional
            (N, 1, 4g, 4g) logits.
        slots : bool
            Whether `labels` may hold `NOTHING`.
        given : Tensor, optional
            (N,) bool: which of the masks count.
        """
        n, _, grid, _ = source.shape
        prompts = self.sam_prompt_encoder
        sparse = prompts.sparse(coords, labels, grid * self.config.backbone_stride)
        source = source + prompts.dense(mask, n, grid, given).to(source.dtype)
        keep = labels != NOTHING if slots else None
        position = prompts.pe_layer.grid(grid)
        return self.sam_mask_decoder(source, position, features.s0, features.s1, sparse, keep)

    def pointer(self, token: Tensor, present: Tensor) -> Tensor:
        """Turn the token (N, C) of the chosen mask into an object pointer."""
        share = present.reshape(-1, 1).to(token.dtype)
        return share * self.obj_ptr_proj(token) + (1 - share) * self.no_obj_ptr

    def remember(self, top: Tensor, mask: Tensor, present: Tensor) -> Tensor:
        """Encode a memory of one frame.

        Parameters
        ----------
        top : Tensor
            (N, C, g, g) features of the frame, without memory.
        mask : Tensor
            (N, 1, S, S) in 0..1.
        present : Tensor
            (N,) bool.
        """
        config = self.config
        mask = mask * config.sigmoid_scale_for_mem_enc + config.sigmoid_bias_for_mem_enc
        memory = self.memory_encoder(top, mask.to(top.dtype))
        absent = (~present).reshape(-1, 1, 1, 1).to(memory.dtype)
        return memory + absent * self.no_obj_embed_spatial[..., None, None]

    def mask_token(self, features: Features, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Token (N, C) and presence logit (N, 1) of objects given as masks (N, 1, S, S) in 0..1."""
        grid = features.top.shape[-1]
        prompt = self.mask_downsample(mask.to(self.mask_downsample.weight.dtype))
        side = (4 * grid, 4 * grid)
        if prompt.shape[-2:] != side:
            prompt = F.interpolate(prompt.float(), side, mode="bilinear", antialias=True)
        coords, labels = no_points(len(mask), mask.device)
        got = self.decode(features.top, features, coords, labels, prompt)
        return got.tokens[:, 0], got.presence

    def store(self, spatial: Tensor) -> list[Stored]:
        """Prepare a memory (N, mem_dim, g, g) for all layers; its time is left open."""
        position = sine_positions(self.config.mem_dim, spatial.shape[-1], spatial.device)
        tokens = spatial.flatten(2).transpose(1, 2)
        return [layer.store(tokens, position) for layer in self.memory_attention.layers]

    def times(self, grid: int) -> list[Tensor]:
        """What the times of memories add to the keys of each layer: (num_maskmem, heads, hw, d).

        Row 0 is for the frame before, the last row for prompted frames.
        """
        table = self.maskmem_tpos_enc[:, 0, 0]
        return [layer.times(table, grid * grid) for layer in self.memory_attention.layers]

    def condition(
        self,
        top: Tensor,
        memories: Sequence[tuple[Sequence[Stored], Sequence[Tensor]]],
        pointers: Pointers,
    ) -> Tensor:
        """Let a frame look at memories.

        Parameters
        ----------
        top : Tensor
            (N, C, g, g) features of the frame.
        memories : sequence of (sequence of Stored, sequence of Tensor)
            Outcomes of `store` for the remembered frames, each with the row of `times` for it.
        pointers : Pointers
            Object pointers of prompted and of earlier frames.
        """
        config = self.config
        n, c, h, w = top.shape
        pieces = c // config.mem_dim
        time = self.obj_ptr_tpos_proj(sine_times(pointers.back, c))
        position = time[:, None].expand(-1, pieces, -1).flatten(0, 1)
        tokens = pointers.tokens.reshape(n, -1, config.mem_dim)
        x = top.flatten(2).transpose(1, 2)
        x = x + 0.1 * sine_positions(c, h, top.device).to(x.dtype)
        layers = self.memory_attention.layers
        stored = [layer.store_pointers(tokens.to(x.dtype), position) for layer in layers]
        x = self.memory_attention(x, memories, stored)
        return x.transpose(1, 2).unflatten(2, (h, w))


class Sam2(Heads):
    """SAM 2.1: `state_dict` has the names and shapes of the published checkpoints."""

    def __init__(self, config: Sam2Config) -> None:
        super().__init__(config)
        self.image_encoder = ImageEncoder(config)
        self.memory_attention = MemoryAttention(config)
        self.memory_encoder = MemoryEncoder(config)
        mean = torch.tensor(config.image_mean).reshape(3, 1, 1) * 255
        std = torch.tensor(config.image_std).reshape(3, 1, 1) * 255
        self.register_buffer("pixel_mean", mean, persistent=False)
        self.register_buffer("pixel_std", std, persistent=False)
        self.initialise()
        trunk = self.image_encoder.trunk
        for table in (trunk.pos_embed, trunk.pos_embed_window):
            nn.init.trunc_normal_(table, std=0.02)

    def normalise(self, pixels: Tensor) -> Tensor:
        """Normalize (B, 3, S, S) pixels in 0..255."""
        return (pixels - self.pixel_mean) / self.pixel_std

    def encode(self, pixels: Tensor) -> Features:
        """Encode normalized images (B, 3, S, S)."""
        return self.features(*self.image_encoder(pixels))


class _PromptSizes(NamedTuple):
    """The two sizes that the prompt encoder of `training.model` asks for."""

    prompt_embed_dim: int
    mask_in_chans: int


def no_points(n: int, device: torch.device, slots: int = 2) -> tuple[Tensor, Tensor]:
    """Prompt of a tracked frame: a dummy point and the padding point, both mere padding."""
    labels = torch.full((n, slots), NOTHING, device=device)
    labels[:, :2].fill_(PADDING)
    return torch.zeros(n, slots, 2, device=device), labels


def _initialise(module: nn.Module) -> None:
    """Truncated normal for linear layers and tables' owners, PyTorch's choice for the rest."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02 if module.in_features > 128 else 0.05)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.5)
