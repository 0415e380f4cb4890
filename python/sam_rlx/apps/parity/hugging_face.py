"""transformers' networks in the sizes of a model of ours, with its weights."""

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx.apps.parity.networks import Weights
from sam_rlx.errors import UnsupportedError
from sam_rlx.model import Model

_MAPS = 3  # of features that the decoders of SAM 3 take
_PROJECTIONS = ("q_proj.", "k_proj.", "v_proj.")
_PERCEIVER = ("to_k.", "to_v.")  # of EdgeTAM: one tensor of Meta's
_POINTS = ".point_embed.weight"
_TABLE = "vision_backbone.trunk.pos_embed"  # of SAM 3: Meta's has a class token in front


def _network(package: SimpleNamespace, settings: dict[str, Any]) -> Any:
    """Build the class of transformers whose config.json holds these settings."""
    kind = getattr(package.transformers, _core.transformers_classes()[settings["model_type"]][0])
    return kind(kind.config_class(**settings))


def _sam(package: SimpleNamespace, checkpoint: _core.Checkpoint) -> Any:
    """Build `SamModel`, or `SamHQModel`."""
    settings = checkpoint.folder_config()
    network = _network(package, settings)
    if settings["model_type"] == "sam_hq":
        decode_what_the_transformer_gives(network.mask_decoder)
    return network


def decode_what_the_transformer_gives(decoder: Any) -> None:
    """Let the mask decoder of `SamHQModel` use the map behind its transformer, as SAM-HQ's does.

    transformers drops it: it decodes the map before the transformer, with rows and columns swapped.
    """

    def replace(_module: Any, _args: Any, named: dict[str, Any], out: Any) -> None:
        before = named["image_embeddings"]  # (B, C, H, W), which the decoder swaps afterwards
        before.copy_(out[1].transpose(2, 3).reshape(before.shape).transpose(2, 3))

    decoder.transformer.register_forward_hook(replace, with_kwargs=True)


def _sam2(package: SimpleNamespace, checkpoint: _core.Checkpoint) -> Any:
    """Build `Sam2VideoModel`, or EdgeTAM's; `clicks` is a `Sam2Model` that shares its parts."""
    video = _network(package, checkpoint.folder_config())
    clicks = _network(package, checkpoint.folder_config_of_clicks())
    for part in ("vision_encoder", "prompt_encoder", "mask_decoder", "shared_image_embedding"):
        setattr(clicks, part, getattr(video, part))
    clicks.no_memory_embedding = video.no_memory_embedding
    video.clicks = clicks
    return video


def _sam3(package: SimpleNamespace, checkpoint: _core.Checkpoint) -> Any:
    """Build a module of `Sam3Model` and `Sam3TrackerModel`, which share the trunk."""
    parts = package.torch.nn.Module()
    found = (checkpoint.folder_config_of_detector(), checkpoint.folder_config_of_clicks())
    for name, settings in zip(("detector_model", "tracker_model"), found, strict=True):
        scales = settings["vision_config"]["scale_factors"]
        if len(scales) == _MAPS:
            scales.append(0.5)  # the classes drop the last map, which Meta's then has not got
        setattr(parts, name, _network(package, settings))
    parts.tracker_model.vision_encoder.backbone = parts.detector_model.vision_encoder.backbone
    return parts


_BUILDERS = {"sam": _sam, "sam2": _sam2, "sam3": _sam3}


def build(package: SimpleNamespace, model: Model) -> Any:
    """Build the network of a model, without its weights."""
    checkpoint = _core.Checkpoint(model.source, model.key)
    return _BUILDERS[checkpoint.to_meta_names()](package, checkpoint)


class Names:
    """What the tensors and modules of a network of transformers are in Meta's checkpoint.

    Parameters
    ----------
    family : str
        Of the network.
    network : torch.nn.Module
        From `build`.
    weights : dict
        The tensors of the checkpoint, by Meta's names.
    """

    def __init__(self, family: str, network: Any, weights: Weights) -> None:
        self._family, self._weights = family, weights
        tensors = (
            *network.named_parameters(remove_duplicate=False),
            *network.named_buffers(remove_duplicate=False),
        )
        self.sources = {name: self._source(name) for name, _ in tensors}
        shared = {name: metas for name, (metas, _) in self.sources.items() if metas[0] in weights}
        theirs = _under(shared)
        ours = _under({meta: [meta] for metas in shared.values() for meta in metas})
        by_tensors: dict[frozenset[str], str] = {}
        for module, _ in network.named_modules():
            if module in theirs:
                by_tensors.setdefault(theirs[module], module)
        self._modules = {
            path: by_tensors[tensors] for path, tensors in ours.items() if tensors in by_tensors
        }

    def module(self, path: str) -> str | None:
        """Return the module that has the tensors of a layer of Meta's, None where none has."""
        return self._modules.get(path)

    def _source(self, name: str) -> tuple[list[str], tuple[int, int] | None]:
        """Return Meta's tensors of one, and which of how many parts of the rows it is, if any."""
        hub = name.removeprefix("clicks.")
        if hub.startswith("tracker_model.vision_encoder.neck."):
            hub = "tracker_neck." + hub.removeprefix("tracker_model.vision_encoder.neck.")
        meta = _core.meta_name(self._family, hub)
        if meta.endswith(_POINTS):
            begin = meta.removesuffix(_POINTS)
            return [f"{begin}.point_embeddings.{kind}.weight" for kind in range(4)], None
        if meta.startswith("detector."):
            for part, projection in enumerate(_PROJECTIONS):
                base, found, rest = meta.partition(projection)
                if found:
                    joined = base if base.endswith("qkv.") else f"{base}in_proj_"
                    return [joined + rest], (part, len(_PROJECTIONS))
        if meta.startswith("spatial_perceiver."):
            for part, projection in enumerate(_PERCEIVER):
                base, found, rest = meta.partition(projection)
                if found:
                    return [f"{base}to_kv.{rest}"], (part, len(_PERCEIVER))
        return [meta], None

    def value(self, name: str) -> NDArray[np.float32] | None:
        """Return the numbers of a tensor, None where the checkpoint has not got it."""
        metas, part = self.sources[name]
        if not all(meta in self._weights for meta in metas):
            return None
        if len(metas) > 1:
            return np.concatenate([self._weights[meta] for meta in metas])
        value = self._weights[metas[0]]
        if metas[0].endswith(_TABLE):
            value = value[:, -(math.isqrt(value.shape[1]) ** 2) :]
        if part is None:
            return value
        index, count = part
        return np.split(value, count)[index]


def _under(names: Mapping[str, list[str]]) -> Mapping[str, frozenset[str]]:
    """Return for each beginning of dotted names the tensors below it."""
    found: dict[str, set[str]] = {}
    for name, metas in names.items():
        parts = name.split(".")
        for end in range(1, len(parts)):
            found.setdefault(".".join(parts[:end]), set()).update(metas)
    return {begin: frozenset(tensors) for begin, tensors in found.items()}


# Parameters that need not be in a checkpoint: a level that is dropped, and what nothing reads.
_FREE = (".fpn_layers.3.", "text_encoder.text_projection.")


def fill(torch: Any, network: Any, names: Names, source: str) -> Any:
    """Give a network the weights of a checkpoint, and give it back ready to run."""
    parameters = dict(network.named_parameters())
    for name, target in (*parameters.items(), *network.named_buffers()):
        value = names.value(name)
        free = any(part in name for part in _FREE)
        if value is None or free:
            if name in parameters and not free:
                raise UnsupportedError(
                    f"weights of the reference: expected all parameters of the network of "
                    f"{source} in transformers' class, found none for {name}"
                )
            continue
        if value.size != target.numel():
            raise UnsupportedError(
                f"weights of the reference: expected shape {tuple(target.shape)} of {name} in "
                f"transformers' class, as in {source}, found {value.shape}"
            )
        target.data.copy_(torch.from_numpy(np.ascontiguousarray(value)).reshape(target.shape))
    return network.eval()
