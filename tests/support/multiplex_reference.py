"""SAM 3.1's tracker in PyTorch, written from what its checkpoint's names and its users tell.

Meta's code of SAM 3.1 is on no package index. Where it stands before the package sam3 on the path,
`PUBLIC` has its modules, else None.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from support import upstream, upstream_sam3

_sam3 = upstream_sam3.sam3
_ABSENT = -1024.0


class _Module(nn.Module):
    """A module whose parts have no types."""

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name)


def _public() -> Any:
    if importlib.util.find_spec("sam3.model.multiplex_utils") is None:
        return None
    names = ("decoder", "memory", "multiplex_mask_decoder", "multiplex_utils")
    with upstream_sam3.on_cpu(), upstream.uncompiled():
        modules = {name: importlib.import_module(f"sam3.model.{name}") for name in names}
        demo = importlib.import_module("sam3.model.video_tracking_multiplex_demo")
        tracking = importlib.import_module("sam3.model.video_tracking_multiplex")
    return SimpleNamespace(**modules, demo=demo, tracking=tracking)


PUBLIC: Any = _public()


@dataclass(frozen=True)
class Sizes:
    """Sizes of the tracker."""

    d_model: int = 64
    grid: int = 6
    slots: int = 16
    num_heads: int = 8
    num_layers: int = 2
    dim_feedforward: int = 96
    decoder_mlp_dim: int = 80
    fuser_layers: int = 2

    @property
    def config(self) -> dict[str, int]:
        """What our layers take."""
        names = ("d_model", "grid", "num_heads", "num_layers", "dim_feedforward")
        more = ("decoder_mlp_dim", "fuser_layers")
        return {
            **{name: getattr(self, name) for name in (*names, *more)},
            "multiplex_count": self.slots,
        }


def angles(side: int, dim: int, like: Any) -> Any:
    """Return the turns of a head's pairs of channels (side * side, dim / 2), complex."""
    exponents = torch.arange(0, dim, 4, dtype=torch.float64)[: dim // 4] / dim
    speeds = 10000.0**-exponents
    position = torch.arange(side * side, dtype=torch.float64)
    x, y = position % side, torch.div(position, side, rounding_mode="floor")
    turns = torch.cat([torch.outer(x, speeds), torch.outer(y, speeds)], 1)
    return torch.polar(torch.ones_like(turns), turns).to(
        torch.complex128 if like.dtype == torch.float64 else torch.complex64
    )


def turned(x: Any, turns: Any) -> Any:
    """Turn heads (B, heads, n * positions, dim)."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    count = x.shape[-2] // len(turns)
    return torch.view_as_real(pairs * turns.repeat(count, 1)).flatten(-2)


def sine(side: int, dim: int, like: Any) -> Any:
    """Return the encoding of the positions of a map, (side * side, dim)."""
    half = dim // 2
    k = torch.arange(half, dtype=torch.float64)
    periods = 10000.0 ** (2 * torch.div(k, 2, rounding_mode="floor") / half)
    at = torch.arange(1, side + 1, dtype=torch.float64) / (side + 1e-6) * 2 * math.pi
    codes = at[:, None] / periods
    codes = torch.where(k.long() % 2 == 0, codes.sin(), codes.cos())
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    return torch.cat([codes[y.flatten()], codes[x.flatten()]], 1).to(like.dtype)


def time_sine(distances: Any, dim: int) -> Any:
    """Return sines, then cosines of numbers: (n,) to (n, dim)."""
    half = dim // 2
    k = torch.arange(half)
    codes = distances[:, None] / 10000.0 ** (
        2 * torch.div(k, 2, rounding_mode="floor").to(distances.dtype) / half
    )
    return torch.cat([codes.sin(), codes.cos()], 1)


class AttentionLayer(_Module):
    """Queries and keys of the cross-attention are an image's part and an object's part."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.d_model
        for kind, parts in (("self", "qkv"), ("cross", "qkv"), ("image_cross", "qk")):
            for part in parts:
                setattr(self, f"{kind}_attn_{part}_proj", nn.Linear(width, width))
        self.self_attn_out_proj = nn.Linear(width, width)
        self.cross_attn_out_proj = nn.Linear(width, width)
        self.linear1 = nn.Linear(width, sizes.dim_feedforward)
        self.linear2 = nn.Linear(sizes.dim_feedforward, width)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.heads = sizes.num_heads
        self.grid = sizes.grid

    def attend(self, q: Any, k: Any, v: Any, exclude: int) -> Any:
        """Attend with all heads; the last `exclude` keys have no position."""
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (q, k, v))
        turns = angles(self.grid, q.shape[-1], q)
        count = k.shape[2] - exclude
        k = torch.cat([turned(k[:, :, :count], turns), k[:, :, count:]], 2)
        scores = turned(q, turns) @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)

    def forward(self, x: Any, image: Any, memory_image: Any, memory: Any, pos: Any) -> Any:
        """x (B, N, C); image (1, N, C); memory_image, pos (1, M, C); memory (B, M, C)."""
        y = self.norm1(x)
        q, k, v = (getattr(self, f"self_attn_{part}_proj")(y) for part in "qkv")
        x = x + self.self_attn_out_proj(self.attend(q, k, v, 0))
        q = self.image_cross_attn_q_proj(image) + self.cross_attn_q_proj(self.norm2(x))
        exclude = memory.shape[1] - memory_image.shape[1]
        padded = functional.pad(memory_image, (0, 0, 0, exclude))
        k = self.image_cross_attn_k_proj(padded) + self.cross_attn_k_proj(memory) + pos
        v = self.cross_attn_v_proj(memory)
        x = x + self.cross_attn_out_proj(self.attend(q, k, v, exclude))
        return x + self.linear2(functional.gelu(self.linear1(self.norm3(x))))


class Attention(_Module):
    """What fuses a map with memories, for all buckets."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.layers = nn.ModuleList(AttentionLayer(sizes) for _ in range(sizes.num_layers))
        self.norm = nn.LayerNorm(sizes.d_model)

    def forward(self, image: Any, image_pos: Any, memory_image: Any, memory: Any, pos: Any) -> Any:
        """As an `AttentionLayer`; image_pos (1, N, C)."""
        x = (image + 0.1 * image_pos).expand(len(memory), -1, -1)
        for layer in self.layers:
            x = layer(x, image, memory_image, memory, pos)
        return self.norm(x)


def _mlp(*widths: int) -> Any:
    """Make upstream's MLP, with one hidden width."""
    kind = type(_two_way_decoder(32, 64).iou_prediction_head)
    return kind(widths[0], widths[1], widths[-1], len(widths) - 1)


def _two_way(width: int, mlp_dim: int) -> Any:
    return _sam3.TwoWayTransformer(depth=2, embedding_dim=width, num_heads=8, mlp_dim=mlp_dim)


def _two_way_decoder(width: int, mlp_dim: int) -> Any:
    return _sam3.MaskDecoder(
        transformer=_two_way(width, mlp_dim),
        transformer_dim=width,
        use_high_res_features=True,
        iou_prediction_use_sigmoid=False,
        dynamic_multimask_via_stability=True,
        pred_obj_scores=True,
        pred_obj_scores_mlp=True,
        use_multimask_token_for_obj_ptr=True,
    )


class BucketDecoder(_Module):
    """Masks of all slots of a bucket."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width, slots = sizes.d_model, sizes.slots
        other = _two_way_decoder(width, sizes.decoder_mlp_dim)
        self.slots = slots
        self.transformer = other.transformer
        self.iou_token = nn.Embedding(slots, width)
        self.obj_score_token = nn.Embedding(slots, width)
        self.mask_tokens = nn.Embedding(3 * slots, width)
        self.output_upscaling = other.output_upscaling
        self.conv_s0, self.conv_s1 = other.conv_s0, other.conv_s1
        self.output_hypernetworks_mlps = other.output_hypernetworks_mlps[:3]
        self.iou_prediction_head = _mlp(width, 256, 256, 3)
        self.pred_obj_score_head = other.pred_obj_score_head

    def forward(self, map_: Any, pe: Any, s0: Any, s1: Any, slot_embed: Any) -> Any:
        """map_ (B, C, g, g), pe (1, C, g, g), slot_embed (B, slots, C).

        Returns masks (B, slots, 3, 4g, 4g), IoUs (B, slots, 3), tokens (B, slots, 3, C) and
        object scores (B, slots, 1).
        """
        batch = len(map_)
        own = torch.cat([self.obj_score_token.weight, self.iou_token.weight]).expand(batch, -1, -1)
        masks = self.mask_tokens.weight.unflatten(0, (self.slots, 3)) + slot_embed[:, :, None]
        tokens = torch.cat([own, masks.flatten(1, 2)], 1)
        tokens, src = self.transformer(map_, pe.expand(batch, -1, -1, -1), tokens)
        score, iou, masks = tokens.split([self.slots, self.slots, 3 * self.slots], 1)
        masks = masks.unflatten(1, (self.slots, 3))
        conv1, norm, act1, conv2, act2 = self.output_upscaling
        up = act1(norm(conv1(src.transpose(1, 2).reshape(map_.shape)) + s1))
        up = act2(conv2(up) + s0)
        hyper = torch.stack(
            [mlp(masks[:, :, i]) for i, mlp in enumerate(self.output_hypernetworks_mlps)], 2
        )
        logits = torch.einsum("bskc,bchw->bskhw", hyper, up)
        return logits, self.iou_prediction_head(iou), masks, self.pred_obj_score_head(score)


class MemoryBackbone(_Module):
    """A mask and a flag of each slot, and a map, become a memory."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.d_model
        norm = type(_two_way_decoder(32, 64).output_upscaling[1])
        parts: list[Any] = []
        channels = 2 * sizes.slots
        for out in (16, 64, 256, 1024):
            parts += [nn.Conv2d(channels, out, 3, 2, 1), norm(out), nn.GELU()]
            channels = out
        self.mask_downsampler = _Module()
        self.mask_downsampler.encoder = nn.Sequential(*parts, nn.Conv2d(channels, width, 1))
        self.pix_feat_proj = nn.Conv2d(width, width, 1)
        block = _sam3.memory.CXBlock(width, kernel_size=7, padding=3)
        self.fuser = _sam3.memory.SimpleFuser(block, sizes.fuser_layers)

    def forward(self, map_: Any, masks: Any) -> Any:
        """map_ (1, C, g, g); masks (B, 2 slots, S, S) of any side."""
        side = 16 * map_.shape[-1]
        masks = _resized(masks, side, antialias=True)
        return self.fuser(self.pix_feat_proj(map_) + self.mask_downsampler.encoder(masks))


def _resized(x: Any, side: int, antialias: bool) -> Any:
    if x.shape[-1] == side:
        return x
    return functional.interpolate(x, (side, side), mode="bilinear", antialias=antialias)


@dataclass
class Outputs:
    """What a frame gives for objects."""

    masks: Any  # (K, 4g, 4g) logits
    pointers: Any  # (K, C)
    scores: Any  # (K,)
    ious: Any = None  # (K,)


@dataclass
class Left:
    """What a frame leaves behind for a bucket."""

    image: Any  # (C, g, g)
    memory: Any  # (C, g, g)
    pointers: Any  # (slots, C)


@dataclass
class Past:
    """What all frames left behind for a bucket."""

    prompted: dict[int, Left] = field(default_factory=dict)
    tracked: dict[int, Left] = field(default_factory=dict)


class Tracker(_Module):
    """All of `tracker.model`."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width, slots = sizes.d_model, sizes.slots
        self.sizes = sizes
        self.maskmem_tpos_enc = nn.Parameter(torch.zeros(7, 1, 1, width))
        self.interactivity_no_mem_embed = nn.Parameter(torch.zeros(1, 1, width))
        for name in ("no_obj_embed_spatial", "output_valid_embed", "output_invalid_embed"):
            setattr(self, name, nn.Parameter(torch.zeros(slots, width)))
        self.interactive_mask_downsample = nn.Conv2d(1, 1, 4, 4)
        self.no_obj_ptr_linear = nn.Linear(width, width)
        self.obj_ptr_tpos_proj = nn.Linear(width, width)
        self.obj_ptr_proj = _mlp(width, width, width, width)
        self.interactive_obj_ptr_proj = _mlp(width, width, width, width)
        side = 14 * sizes.grid
        self.interactive_sam_prompt_encoder = _sam3.PromptEncoder(
            embed_dim=width,
            image_embedding_size=(sizes.grid, sizes.grid),
            input_image_size=(side, side),
            mask_in_chans=16,
        )
        self.image_pe_layer = type(self.interactive_sam_prompt_encoder.pe_layer)(width // 2)
        self.transformer = _Module()
        self.transformer.encoder = Attention(sizes)
        self.maskmem_backbone = MemoryBackbone(sizes)
        self.interactive_sam_mask_decoder = _two_way_decoder(width, sizes.decoder_mlp_dim)
        self.sam_mask_decoder = BucketDecoder(sizes)

    # ---- objects of prompts

    def _pointer(self, token: Any, scores: Any, projection: Any) -> Any:
        return self.gated(projection(token), scores)

    def gated(self, pointers: Any, scores: Any) -> Any:
        """Replace pointers of objects that are not there."""
        return torch.where(scores[:, None] > 0, pointers, self.no_obj_ptr_linear(pointers))

    def click(self, map_: Any, levels: Any, points: Any, labels: Any, mask: Any = None) -> Outputs:
        """One object; points (N, 2) in pixels of the input, or none with a mask."""
        none = points is None
        coords = torch.zeros(1, 1, 2).to(map_) if none else points[None].to(map_)
        kinds = -torch.ones(1, 1, dtype=torch.int32) if none else labels[None]
        if mask is not None:
            mask = _resized(mask[None, None], 4 * map_.shape[-1], antialias=True)
        encoder = self.interactive_sam_prompt_encoder
        sparse, dense = encoder(points=(coords, kinds), boxes=None, masks=mask)
        several = not none and kinds.shape[1] <= 1
        embedded = map_[None] + self.interactivity_no_mem_embed.reshape(1, -1, 1, 1)
        masks, ious, tokens, score = self.interactive_sam_mask_decoder(
            image_embeddings=embedded,
            image_pe=encoder.get_dense_pe(),
            sparse_prompt_embeddings=sparse,
            dense_prompt_embeddings=dense,
            multimask_output=several,
            repeat_image=True,
            high_res_features=levels,
        )
        best = int(ious[0].argmax())
        token = tokens[:, best if tokens.shape[1] > 1 else 0]
        score = score[:, 0]
        masks = torch.where(score[:, None, None] > 0, masks[:, best], _ABSENT)
        pointer = self._pointer(token, score, self.interactive_obj_ptr_proj)
        return Outputs(masks, pointer, score, ious[:, best])

    def mask(self, map_: Any, levels: Any, mask: Any) -> Outputs:
        """One object, whose mask (16g, 16g) of zeros and ones is given."""
        logits = _resized((20 * mask - 10)[None, None], mask.shape[-1] // 4, antialias=True)
        prompt = self.interactive_mask_downsample(mask[None, None])[0, 0]
        found = self.click(map_, levels, None, None, prompt)
        score = torch.tensor([10.0 if (mask > 0).any() else -10.0]).to(map_)
        return Outputs(logits[0], self.gated(found.pointers, score), score, torch.ones(1).to(map_))

    # ---- a bucket

    def remember(
        self, map_: Any, slots: Sequence[int], masks: Any, scores: Any, prompted: Sequence[bool]
    ) -> Any:
        """Make a memory (C, g, g) of masks (K, S, S) of logits in slots."""
        sizes = self.sizes
        side = masks.shape[-1]
        if side != 16 * sizes.grid:
            side = 14 * sizes.grid
            masks = _resized(masks[None], side, antialias=False)[0]
        stack = torch.zeros(1, 2 * sizes.slots, side, side).to(map_)
        absent = torch.ones(sizes.slots, 1).to(map_)
        for k, slot in enumerate(slots):
            stack[0, slot] = 2 * masks[k].sigmoid() - 1
            stack[0, sizes.slots + slot] = float(prompted[k])
            absent[slot] = float(scores[k] <= 0)
        memory = self.maskmem_backbone(map_[None], stack)[0]
        return memory + (absent * self.no_obj_embed_spatial).sum(0)[:, None, None]

    def condition(self, map_: Any, frame: int, frames: int, past: Past, reverse: bool) -> Any:
        """Fuse a map (C, g, g) with what other frames left behind."""
        sizes, sign = self.sizes, -1 if reverse else 1
        chosen = self._closest(frame, list(past.prompted))
        rest = {t: left for t, left in past.prompted.items() if t not in chosen}
        tracked = {**rest, **past.tracked}
        maps = []
        for t in chosen:
            distance = (frame - t) * sign
            maps.append((past.prompted[t], 6 - distance if 0 < distance < 7 else 6))
        maps += [
            (tracked[frame - sign * back], back - 1)
            for back in range(6, 0, -1)
            if frame - sign * back in tracked
        ]
        most = min(frames, 16)
        pointers = [(past.prompted[t], abs(frame - t)) for t in chosen]
        for back in range(1, most):
            t = frame - sign * back
            if not 0 <= t < frames:
                break
            if t in tracked:
                pointers.append((tracked[t], back))
        flat = [left.image.flatten(1).T for left, _ in maps]
        positions = sine(sizes.grid, sizes.d_model, map_)
        pos = [positions + self.maskmem_tpos_enc[row, 0] for _, row in maps]
        times = torch.tensor([t for _, t in pointers]).to(map_) / max(most - 1, 1)
        times = self.obj_ptr_tpos_proj(time_sine(times, sizes.d_model))
        pos.append(times.repeat_interleave(sizes.slots, 0))
        memory = [left.memory.flatten(1).T for left, _ in maps]
        memory += [left.pointers for left, _ in pointers]
        fused = self.transformer.encoder(
            map_.flatten(1).T[None],
            positions[None],
            torch.cat(flat)[None],
            torch.cat(memory)[None],
            torch.cat(pos)[None],
        )
        return fused[0].T.reshape(map_.shape)

    @staticmethod
    def _closest(frame: int, prompted: Sequence[int], most: int = 4) -> list[int]:
        if len(prompted) <= most:
            return list(prompted)
        before = [t for t in prompted if t < frame]
        after = [t for t in prompted if t >= frame]
        chosen = [*([max(before)] if before else []), *([min(after)] if after else [])]
        rest = sorted((t for t in prompted if t not in chosen), key=lambda t: abs(t - frame))
        return [*chosen, *rest[: most - len(chosen)]]

    def decode(self, conditioned: Any, levels: Any, slots: Sequence[int]) -> Outputs:
        """Make the masks of the slots that hold an object."""
        held = torch.zeros(self.sizes.slots, 1, dtype=torch.bool)
        held[list(slots)] = True
        embed = torch.where(held, self.output_valid_embed, self.output_invalid_embed)
        side = self.sizes.grid
        pe = self.image_pe_layer((side, side))[None]
        masks, ious, tokens, scores = self.sam_mask_decoder(
            conditioned[None], pe, *levels, embed[None]
        )
        at = list(slots)
        best = ious[0, at].argmax(-1)
        scores = scores[0, at, 0]
        masks = torch.where(scores[:, None, None] > 0, masks[0, at, best], _ABSENT)
        pointers = self._pointer(tokens[0, at, best], scores, self.obj_ptr_proj)
        return Outputs(masks, pointers, scores, ious[0, at, best])

    def in_slots(self, slots: Sequence[int], pointers: Any) -> Any:
        """Lay pointers (K, C) out by slot, zeros elsewhere."""
        out = torch.zeros(self.sizes.slots, self.sizes.d_model).to(pointers)
        out[list(slots)] = pointers
        return out


def tracker(sizes: Sizes, seed: int = 0, presence: float = 1.0) -> Any:
    """Make a tracker with random weights, whose objects are mostly there."""
    model: Any = upstream.randomise(Tracker(sizes), seed)
    with torch.no_grad():
        for decoder in (model.sam_mask_decoder, model.interactive_sam_mask_decoder):
            decoder.pred_obj_score_head.layers[-1].bias += presence
    return model


def names(model: Any) -> dict[str, Any]:
    """Return the weights as a layer of ours takes them."""
    return {f"model.{name}": value for name, value in upstream.state_dict(model).items()}
