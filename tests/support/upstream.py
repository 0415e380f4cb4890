"""The reference packages. Only this file and `upstream_sam3_package` import upstream.

Importing it prepares the process, so import it before anything that imports torchvision.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import sys
import unittest.mock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch.overrides import TorchFunctionMode

from support import tiny, tiny_sam2
from support.roi_align import within_the_map
from support.trained import trained

# The declarations of torchvision's operators, if we had to make them: they end with the object.
_declared: list[torch.library.Library] = []


def _declare_torchvision_operators() -> bool:
    """Make torchvision importable beside a PyTorch that its C++ library was not built for.

    torchvision describes two operators to PyTorch at import, which fails when the library that
    defines them cannot be loaded. Names alone are enough for the import; returns whether there are
    only these. `sam-rlx parity` in this process may have declared them.
    """
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return False
    for binary in sorted(Path(spec.origin).parent.glob("_C*.so")):
        try:
            torch.ops.load_library(str(binary))
        except OSError:
            continue
        return False
    if not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _declared.append(library)
    return True


def greedy_nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Non-maximum suppression whose ties keep the order of the input."""
    corners = boxes.detach().double().numpy()
    order = np.argsort(-scores.detach().double().numpy(), kind="stable")
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    kept: list[int] = []
    while order.size:
        best, order = int(order[0]), order[1:]
        kept.append(best)
        low = np.maximum(corners[best, :2], corners[order, :2])
        high = np.minimum(corners[best, 2:], corners[order, 2:])
        shared = np.prod(np.clip(high - low, 0, None), axis=1)
        with np.errstate(invalid="ignore"):  # two empty boxes: 0 / 0 suppresses nothing
            overlap = shared / (areas[best] + areas[order] - shared)
        order = order[~(overlap > iou_threshold)]
    return torch.tensor(kept, dtype=torch.int64)


def prepare() -> None:
    """Make the reference packages importable and runnable on this machine. Safe to repeat."""
    names_alone = _declare_torchvision_operators()
    import torchvision

    if names_alone:
        torchvision.ops.nms = greedy_nms
        torchvision.ops.boxes.nms = greedy_nms
        # What torchvision has instead of its operator compiles itself, unless it is unwrapped.
        module = sys.modules["torchvision.ops.roi_align"]
        plain = getattr(module._roi_align, "__wrapped__", module._roi_align)
        module._roi_align = plain  # type: ignore[attr-defined]
        interpolate = module._bilinear_interpolate
        module._bilinear_interpolate = within_the_map(  # type: ignore[attr-defined]
            interpolate
        )


@contextmanager
def stable_nms() -> Iterator[None]:
    """Give upstream the greedy suppression: torchvision leaves the order of ties open."""
    import torchvision

    before = torchvision.ops.boxes.nms
    torchvision.ops.boxes.nms = greedy_nms
    try:
        yield
    finally:
        torchvision.ops.boxes.nms = before


prepare()


def _load_segment_anything() -> SimpleNamespace:
    from segment_anything import SamAutomaticMaskGenerator, SamPredictor, sam_model_registry
    from segment_anything.modeling import common, image_encoder, mask_decoder
    from segment_anything.modeling import transformer as two_way
    from segment_anything.modeling.prompt_encoder import PositionEmbeddingRandom, PromptEncoder
    from segment_anything.modeling.sam import Sam
    from segment_anything.utils import amg
    from segment_anything.utils.onnx import SamOnnxModel
    from segment_anything.utils.transforms import ResizeLongestSide

    return SimpleNamespace(
        Attention=image_encoder.Attention,
        Block=image_encoder.Block,
        DecoderAttention=two_way.Attention,
        ImageEncoderViT=image_encoder.ImageEncoderViT,
        LayerNorm2d=common.LayerNorm2d,
        MLP=mask_decoder.MLP,
        MLPBlock=common.MLPBlock,
        MaskDecoder=mask_decoder.MaskDecoder,
        PatchEmbed=image_encoder.PatchEmbed,
        PositionEmbeddingRandom=PositionEmbeddingRandom,
        PromptEncoder=PromptEncoder,
        ResizeLongestSide=ResizeLongestSide,
        Sam=Sam,
        SamAutomaticMaskGenerator=SamAutomaticMaskGenerator,
        SamOnnxModel=SamOnnxModel,
        SamPredictor=SamPredictor,
        TwoWayAttentionBlock=two_way.TwoWayAttentionBlock,
        TwoWayTransformer=two_way.TwoWayTransformer,
        amg=amg,
        registry=sam_model_registry,
        window_partition=image_encoder.window_partition,
        window_unpartition=image_encoder.window_unpartition,
    )


sam = _load_segment_anything()


def _load_sam2() -> SimpleNamespace:
    from sam2 import sam2_video_predictor as video_predictor
    from sam2.automatic_mask_generator import SAM2AutomaticMaskGenerator
    from sam2.modeling import memory_attention, memory_encoder, sam2_base, sam2_utils
    from sam2.modeling.backbones import hieradet, image_encoder
    from sam2.modeling.backbones import utils as backbones
    from sam2.modeling.position_encoding import PositionEmbeddingSine
    from sam2.modeling.sam import mask_decoder, prompt_encoder
    from sam2.modeling.sam import transformer as two_way
    from sam2.sam2_image_predictor import SAM2ImagePredictor

    return SimpleNamespace(
        SAM2AutomaticMaskGenerator=SAM2AutomaticMaskGenerator,
        SAM2ImagePredictor=SAM2ImagePredictor,
        CXBlock=memory_encoder.CXBlock,
        FpnNeck=image_encoder.FpnNeck,
        Fuser=memory_encoder.Fuser,
        Hiera=hieradet.Hiera,
        ImageEncoder=image_encoder.ImageEncoder,
        MaskDecoder=mask_decoder.MaskDecoder,
        MaskDownSampler=memory_encoder.MaskDownSampler,
        MemoryAttention=memory_attention.MemoryAttention,
        MemoryAttentionLayer=memory_attention.MemoryAttentionLayer,
        MemoryEncoder=memory_encoder.MemoryEncoder,
        MultiScaleBlock=hieradet.MultiScaleBlock,
        PatchEmbed=backbones.PatchEmbed,
        Module=torch.nn.Module,
        PositionEmbeddingSine=PositionEmbeddingSine,
        PromptEncoder=prompt_encoder.PromptEncoder,
        RoPEAttention=two_way.RoPEAttention,
        SAM2Base=sam2_base.SAM2Base,
        base=sam2_base,
        TwoWayTransformer=two_way.TwoWayTransformer,
        get_1d_sine_pe=sam2_utils.get_1d_sine_pe,
        select_closest_cond_frames=sam2_utils.select_closest_cond_frames,
        video_predictor=video_predictor,
    )


sam2 = _load_sam2()


def randomise(module: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Give every weight of a module, buffers that act as weights included, a random value.

    The values depend on the names, the shapes and the seed alone.
    """
    shapes = {name: tuple(value.shape) for name, value in _weights(module).items()}
    load_state_dict(module, tiny.random_state_dict(shapes, seed))
    return module.eval()


def load_state_dict(module: torch.nn.Module, values: Mapping[str, NDArray[np.float32]]) -> None:
    """Load NumPy weights; names and shapes must match. What are no weights stays."""
    rest = {name: t for name, t in module.state_dict().items() if not _is_weight(name, t)}
    weights = {name: torch.from_numpy(value) for name, value in values.items()}
    module.load_state_dict({**weights, **rest})


def _is_weight(name: str, tensor: torch.Tensor) -> bool:
    """Tell weights from SAM 3's tables of rotations, complex numbers, and counters of training."""
    return not tensor.is_complex() and not name.endswith("num_batches_tracked")


def state_dict(module: torch.nn.Module) -> dict[str, NDArray[np.float32]]:
    """Return the weights of a module as float32 arrays, under the names of the package it follows.

    A module of another package has `renamed`, which gives them.
    """
    weights = _weights(module)
    renamed = getattr(module, "renamed", None)
    return weights if renamed is None else renamed(weights)


def _weights(module: torch.nn.Module) -> dict[str, NDArray[np.float32]]:
    return {
        name: tensor.detach().to(torch.float32).numpy()
        for name, tensor in module.state_dict().items()
        if _is_weight(name, tensor)
    }


class ArgumentMode(TorchFunctionMode):
    """Change arguments of PyTorch's functions.

    Every call of a network passes through here, so arguments are looked at one by one only where
    one of them has a type of `kinds`. A function of `instead` is not called: that one is, with its
    first argument.
    """

    kinds: frozenset[type]
    instead: Mapping[Any, Callable[[Any], Any]] = {}

    def change(self, value: Any) -> Any:
        """Return what to pass instead of a value of such a type."""
        raise NotImplementedError

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in self.instead:
            return self.instead[func](args[0])
        kinds, change = self.kinds, self.change
        if not kinds.isdisjoint(map(type, args)):
            args = [change(value) if type(value) in kinds else value for value in args]
        if not kwargs:
            return func(*args)
        named = {k: change(v) if type(v) in kinds else v for k, v in kwargs.items()}
        return func(*args, **named)


class _Float64(ArgumentMode):
    """Turn each request for a smaller float into one for float64."""

    kinds = frozenset((torch.dtype,))
    instead = dict.fromkeys(
        (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16), torch.Tensor.double
    )
    _SMALL = (torch.float32, torch.float16, torch.bfloat16)

    def change(self, value: Any) -> Any:
        return torch.float64 if value in self._SMALL else value


@contextmanager
def uncompiled() -> Iterator[None]:
    """Keep upstream from compiling modules such as image transforms: float64 needs them plain."""
    with unittest.mock.patch.object(torch.jit, "script", lambda module: module):
        yield


@contextmanager
def float64() -> Iterator[None]:
    """Make upstream code compute in float64, where its modules are float64 already."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Float64():
            yield
    finally:
        torch.set_default_dtype(before)


def double(module: torch.nn.Module) -> torch.nn.Module:
    """Return a float64 copy of a module. Tables of words, which SAM 3 has, are not copied."""
    tables = (getattr(child, "tokenizer", None) for child in module.modules())
    return copy.deepcopy(module, {id(table): table for table in tables}).double()


def tensor(value: Any, dtype: torch.dtype = torch.float32) -> Any:
    """Turn a NumPy array into a tensor, floats into `dtype`; anything else is returned as it is."""
    if not isinstance(value, np.ndarray):
        return value
    result = torch.from_numpy(np.array(value, order="C"))
    return result.to(dtype) if result.is_floating_point() else result


def array(value: Any) -> Any:
    """Turn tensors, and tuples and lists of tensors, into NumPy arrays."""
    if isinstance(value, torch.Tensor):
        return value.detach().numpy()
    if isinstance(value, tuple | list):
        return tuple(array(part) for part in value)
    return value


Adapter = Callable[..., Any]


def run(module: torch.nn.Module, inputs: Mapping[str, Any], adapt: Adapter | None = None) -> Any:
    """Run a float32 module on NumPy inputs and return NumPy outputs."""
    call = functools.partial(adapt, module) if adapt is not None else module
    with torch.no_grad():
        return array(call(**{name: tensor(value) for name, value in inputs.items()}))


def run64(module: torch.nn.Module, inputs: Mapping[str, Any], adapt: Adapter | None = None) -> Any:
    """Run a float64 module in float64 on the same inputs."""
    call = functools.partial(adapt, module) if adapt is not None else module
    wide = {name: tensor(value, torch.float64) for name, value in inputs.items()}
    with float64(), torch.no_grad():
        return array(call(**wide))


def channels_first(x: torch.Tensor) -> torch.Tensor:
    """Reorder (B, H, W, C) to (B, C, H, W)."""
    return x.permute(0, 3, 1, 2)


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """Reorder (B, C, H, W) to (B, H, W, C)."""
    return x.permute(0, 2, 3, 1)


def record(module: torch.nn.Module, call: Callable[[], Any]) -> list[tuple[str, Any]]:
    """Run `call` and return (path, output) of each submodule of `module`, in order of finishing.

    The input of the first encoder block, which upstream makes between modules, is recorded as
    ``image_encoder.pos_embed``.
    """
    taps: list[tuple[str, Any]] = []

    def after(path: str, _module: Any, _args: Any, output: Any) -> None:
        taps.append((path, array(output)))

    def before(path: str, _module: Any, args: Any) -> None:
        taps.append((path, array(args[0])))

    handles = []
    for path, child in module.named_modules():
        handles.append(child.register_forward_hook(functools.partial(after, path)))
        if path == "image_encoder.blocks.0":
            hook = functools.partial(before, "image_encoder.pos_embed")
            handles.append(child.register_forward_pre_hook(hook))
    try:
        with torch.no_grad():
            call()
    finally:
        for handle in handles:
            handle.remove()
    return taps


def image_encoder(kind: Any, config: tiny.SamConfig) -> Any:
    """Build the class `ImageEncoderViT` of a package that has upstream's arguments."""
    return kind(
        img_size=config.img_size,
        patch_size=config.patch_size,
        embed_dim=config.embed_dim,
        depth=config.depth,
        num_heads=config.num_heads,
        mlp_ratio=4,
        out_chans=config.out_chans,
        qkv_bias=True,
        norm_layer=functools.partial(torch.nn.LayerNorm, eps=1e-6),
        use_rel_pos=True,
        window_size=config.window_size,
        global_attn_indexes=config.global_attn_indexes,
    )


def build_sam(config: tiny.SamConfig, seed: int | None = 0) -> Any:
    """Build upstream's `Sam` of any size, with random weights unless `seed` is None."""
    grid = config.img_size // config.patch_size
    encoder = image_encoder(sam.ImageEncoderViT, config)
    prompts = sam.PromptEncoder(
        embed_dim=config.out_chans,
        image_embedding_size=(grid, grid),
        input_image_size=(config.img_size, config.img_size),
        mask_in_chans=config.mask_in_chans,
    )
    decoder = sam.MaskDecoder(
        num_multimask_outputs=3,
        transformer=sam.TwoWayTransformer(
            depth=2, embedding_dim=config.out_chans, mlp_dim=config.mlp_dim, num_heads=8
        ),
        transformer_dim=config.out_chans,
        iou_head_depth=3,
        iou_head_hidden_dim=config.iou_head_hidden_dim,
    )
    model = sam.Sam(encoder, prompts, decoder, list(tiny.PIXEL_MEAN), list(tiny.PIXEL_STD)).eval()
    if seed is not None:
        load_state_dict(model, tiny.sam_weights(config, seed))
    return model


def build_sam_nano() -> Any:
    """Build upstream's `Sam` with its trained weights."""
    model = build_sam(tiny.NANO, seed=None)
    load_state_dict(model, trained_weights("sam-nano"))
    return model


def trained_weights(name: str) -> dict[str, NDArray[np.float32]]:
    """Return the weights of a small model as it was trained."""
    found = safetensors.torch.load_file(trained(name))
    return {name: t.float().numpy() for name, t in found.items()}


def build_sam2_image_encoder(config: tiny_sam2.ImageEncoderConfig) -> Any:
    """Build upstream's SAM 2 `ImageEncoder` of any size, with upstream's initial weights."""
    encoding = sam2.PositionEmbeddingSine(num_pos_feats=config.d_model)
    neck = sam2.FpnNeck(position_encoding=encoding, fpn_interp_model="nearest", **config.neck)
    return sam2.ImageEncoder(sam2.Hiera(**config.trunk), neck, scalp=config.scalp).eval()


def save_pth(
    path: Path, weights: Mapping[str, NDArray[np.float32]], key: str | None = None
) -> Path:
    """Write a state_dict the way Meta's checkpoints are written; SAM 2's stand under a key."""
    state = {name: torch.from_numpy(value) for name, value in weights.items()}
    torch.save(state if key is None else {key: state}, path)
    return path
