"""Arguments of ``from_pretrained``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sam_rlx._internal.public import public_names
from sam_rlx.compat.transformers.refusals import RefusedError
from sam_rlx.compat.transformers.targets import precision_of, require_cpu

# Without effect: one arithmetic on one device.
_IGNORED = (
    *("trust_remote_code", "low_cpu_mem_usage", "use_safetensors", "attn_implementation"),
    *("max_memory", "offload_folder", "offload_state_dict", "offload_buffers", "weights_only"),
    *("variant", "use_kernels", "ignore_mismatched_sizes", "tp_plan", "experts_implementation"),
    *("state_dict", "_fast_init", "_commit_hash", "_from_pipeline", "commit_hash", "key_mapping"),
)
_QUANTIZED = ("quantization_config", "load_in_8bit", "load_in_4bit")
_ANYWHERE = (None, "auto", "cpu", "balanced", "sequential")


@dataclass
class LoadOptions:
    """What a ``from_pretrained`` asks for besides a source.

    Attributes
    ----------
    precision : str or None
        As for `load_model`.
    output_loading_info : bool
        Whether names of weights are asked for, too.
    rest : dict
        Where to look, settings by name, and what a class has of its own.
    """

    precision: str | None = None
    output_loading_info: bool = False
    rest: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, called: str, kwargs: Mapping[str, Any]) -> Self:
        """Take arguments apart.

        Raises
        ------
        RefusedError
            Quantization, or another device than the CPU.
        """
        rest = {name: value for name, value in kwargs.items() if name not in _IGNORED}
        for name in _QUANTIZED:
            if rest.pop(name, None):
                raise RefusedError(
                    f"{called}({name}=): weights are not quantized by transformers' rules here. "
                    'Use precision="int8", or a GGUF file that sam-rlx quantize wrote.'
                )
        _check_device_map(called, rest.pop("device_map", None))
        named = [rest.pop(name, None) for name in ("dtype", "torch_dtype")]
        precision = rest.pop("precision", None)
        for dtype in named:
            asked = precision_of(f"{called}(dtype=)", dtype)
            precision = asked if precision is None else precision
        return cls(precision, bool(rest.pop("output_loading_info", False)), rest)


def _check_device_map(called: str, device_map: Any) -> None:
    devices = device_map.values() if isinstance(device_map, dict) else [device_map]
    for device in devices:
        if device not in _ANYWHERE:
            require_cpu(f"{called}(device_map={device_map!r})", device)


__dir__ = public_names(__name__)
