"""Models by upstream's names: ``sam2.build_sam``."""

from __future__ import annotations

import os
from typing import Any

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import check_device
from sam_rlx.compat.sam2.config_file import read_settings
from sam_rlx.compat.sam2.config_values import flatten
from sam_rlx.compat.sam2.loading import load_checkpoint
from sam_rlx.compat.sam2.sam2_base import SAM2Base
from sam_rlx.compat.sam2.sam2_video_predictor import SAM2VideoPredictor, built
from sam_rlx.errors import UnsupportedError


def build_sam2(
    config_file: str | os.PathLike[str] | None,
    ckpt_path: str | os.PathLike[str] | None = None,
    device: Any = "cpu",
    mode: str = "eval",
    hydra_overrides_extra: list[str] | None = None,
    apply_postprocessing: bool = True,
    **kwargs: Any,
) -> SAM2Base:
    """Load a SAM 2 or 2.1 model.

    Parameters
    ----------
    config_file : str, path or None
        Upstream's config name, such as ``"configs/sam2.1/sam2.1_hiera_t.yaml"``, which is compared
        with the checkpoint. Or a YAML file like upstream's (needs PyYAML): its values are used, and
        sizes that the weights tell are compared.
    ckpt_path : str or path, optional
        As for `sam_rlx.load_model`. None, with a config: the network waits for `load_state_dict`.
    device : str
        ``"cpu"``.
    mode : str
        ``"eval"``.
    hydra_overrides_extra : list of str, optional
        ``"++model.NAME=VALUE"`` for fields of the config.
    apply_postprocessing : bool
        True: an unstable single mask gives way to the best of three.
    **kwargs
        Ignored, as upstream.

    Returns
    -------
    SAM2Base
        For `SAM2ImagePredictor` and `SAM2AutomaticMaskGenerator`.

    Raises
    ------
    CheckpointError
        The file is damaged or does not fit `config_file`.
    InvalidArgumentError
        `config_file` is neither upstream's nor a file, or a field is unknown.
    UnsupportedError
        An argument asks for what is not offered.
    """
    check_device(device)
    if mode != "eval":
        raise UnsupportedError(f"mode: expected 'eval', found {mode!r}")
    settings = read_settings(
        config_file, hydra_overrides_extra or (), postprocessing=apply_postprocessing
    )
    return SAM2Base(load_checkpoint(settings, ckpt_path), settings)


def from_config(config_file: str, **fields: Any) -> SAM2Base:
    """Return the network of a config for `load_state_dict`, as ``hydra.utils.instantiate`` asks.

    `fields` are those of the config that Hydra's overrides have set.
    """
    overrides = [f"++model.{name}={value}" for name, value in flatten(fields)]
    return build_sam2(
        config_file, None, hydra_overrides_extra=overrides, apply_postprocessing=False
    )


def build_sam2_hf(model_id: str, **kwargs: Any) -> SAM2Base:
    """Load a model from the hub (extra ``hub``); `kwargs` go to `build_sam2`."""
    return build_sam2(None, model_id, **kwargs)


def build_sam2_video_predictor(
    config_file: str | os.PathLike[str] | None,
    ckpt_path: str | os.PathLike[str] | None = None,
    device: Any = "cpu",
    mode: str = "eval",
    hydra_overrides_extra: list[str] | None = None,
    apply_postprocessing: bool = True,
    vos_optimized: bool = False,
    **kwargs: Any,
) -> SAM2VideoPredictor:
    """Load a SAM 2 or 2.1 model for videos.

    Parameters
    ----------
    config_file, ckpt_path, device, mode
        As for `build_sam2`.
    hydra_overrides_extra : list of str, optional
        ``"++model.NAME=VALUE"`` for fields of the config and arguments of `SAM2VideoPredictor`.
        As upstream, `apply_postprocessing` has the last word about those that it sets, but for
        `fill_hole_area`, which upstream ignores on a CPU.
    apply_postprocessing : bool
        True: as for `build_sam2`, masks of clicks are memorized as they are seen, and holes of up
        to 8 positions are filled.
    vos_optimized : bool
        The predictor is of upstream's class for it; there is one way to compute.
    **kwargs
        Ignored, as upstream.

    Returns
    -------
    SAM2VideoPredictor

    Raises
    ------
    CheckpointError
        The file is damaged or does not fit `config_file`.
    InvalidArgumentError
        `config_file` is neither upstream's nor a file, or a field is unknown.
    UnsupportedError
        An argument asks for what is not offered.
    """
    return built(
        config_file,
        ckpt_path,
        device,
        mode,
        hydra_overrides_extra,
        apply_postprocessing,
        vos_optimized,
    )


def build_sam2_video_predictor_hf(model_id: str, **kwargs: Any) -> SAM2VideoPredictor:
    """Load a model from the hub (extra ``hub``)."""
    return build_sam2_video_predictor(None, model_id, **kwargs)


__dir__ = public_names(__name__)
