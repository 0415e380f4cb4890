"""Models by upstream's names: ``sam2.build_sam``."""

import os
import re
from typing import Any

from sam_rlx.compat.sam2.sam2_base import SAM2Base, check_device
from sam_rlx.compat.sam2.sam2_video_predictor import SAM2VideoPredictor, SAM2VideoPredictorVOS
from sam_rlx.errors import CheckpointError, UnsupportedError
from sam_rlx.model import Model, load_model, with_switches

# sam2.1_hiera_b+.yaml -> 2.1, b+
_CONFIG = re.compile(r"sam2(?P<minor>\.1)?_(?P<variant>hiera_(?:t|s|b\+|l))\.yaml$")


def _load_checkpoint(
    config_file: str | os.PathLike[str] | None, ckpt_path: str | os.PathLike[str] | None
) -> Model:
    """Load a SAM 2 checkpoint and hold upstream's config name, if it is one, to its contents.

    Raises
    ------
    CheckpointError
        `config_file` names another variant or version than the checkpoint holds.
    UnsupportedError
        There is no checkpoint: random weights are not offered.
    """
    if ckpt_path is None:
        raise UnsupportedError("build_sam2: expected a checkpoint, found None (no random weights)")
    model = load_model(ckpt_path)
    config_name = "" if config_file is None else os.fspath(config_file)
    if match := _CONFIG.search(config_name):
        version = "2.1" if match["minor"] else "2.0"
        if (match["variant"], version) != (model.variant, model.version):
            raise CheckpointError(
                f"{os.fspath(ckpt_path)}: expected {match['variant']} of SAM {version} as in "
                f"{config_name}, found {model.variant} of SAM {model.version}"
            )
    return model


def _postprocessed(model: Model, apply_postprocessing: bool, video: bool = False) -> Model:
    """Return the model with upstream's switches of `apply_postprocessing`."""
    if apply_postprocessing:
        return model
    off = {"dynamic_multimask_via_stability": False}
    if video:
        off["binarize_mask_from_pts_for_mem_enc"] = False
    return with_switches(model, **off)


def build_sam2(
    config_file: str | os.PathLike[str] | None,
    ckpt_path: str | os.PathLike[str] | None = None,
    device: Any = "cpu",
    mode: str = "eval",
    apply_postprocessing: bool = True,
) -> SAM2Base:
    """Load a SAM 2 or 2.1 model.

    Parameters
    ----------
    config_file : str, path or None
        Upstream's config name, such as ``"configs/sam2.1/sam2.1_hiera_t.yaml"``. Only compared
        with the checkpoint, which tells its own sizes.
    ckpt_path : str or path
        As for `sam_rlx.load_model`.
    device : str
        ``"cpu"``.
    mode : str
        ``"eval"``.
    apply_postprocessing : bool
        True: an unstable single mask gives way to the best of three.

    Returns
    -------
    SAM2Base
        For `SAM2ImagePredictor` and `SAM2AutomaticMaskGenerator`.

    Raises
    ------
    CheckpointError
        The file is damaged or does not fit `config_file`.
    UnsupportedError
        An argument asks for what is not offered.
    """
    check_device(device)
    if mode != "eval":
        raise UnsupportedError(f"mode: expected 'eval', found {mode!r}")
    return SAM2Base(_postprocessed(_load_checkpoint(config_file, ckpt_path), apply_postprocessing))


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
        Of upstream's, those of the form ``"++model.NAME=VALUE"`` for `fill_hole_area`,
        `non_overlap_masks` and `add_all_frames_to_correct_as_cond`.
    apply_postprocessing : bool
        True: holes of up to 8 positions are filled, an unstable single mask gives way to the best
        of three, and the mask of a click is binary where it is remembered.
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
    UnsupportedError
        An argument asks for what is not offered.
    """
    if str(device) != "cpu" or mode != "eval":
        raise UnsupportedError(
            "build_sam2_video_predictor: expected device 'cpu' and mode 'eval', found "
            f"{str(device)!r} and {mode!r}"
        )
    options: dict[str, Any] = {"fill_hole_area": 8 if apply_postprocessing else 0}
    for override in hydra_overrides_extra or []:
        name, _, value = override.removeprefix("++model.").partition("=")
        if name == "fill_hole_area" and value.isdigit():
            options[name] = int(value)
        elif name in ("non_overlap_masks", "add_all_frames_to_correct_as_cond"):
            options[name] = value == "true"
        else:
            raise UnsupportedError(f"hydra_overrides_extra: expected known names, found {override}")
    kind = SAM2VideoPredictorVOS if vos_optimized else SAM2VideoPredictor
    model = _postprocessed(_load_checkpoint(config_file, ckpt_path), apply_postprocessing, True)
    return kind(model, **options)


def build_sam2_video_predictor_hf(model_id: str, **kwargs: Any) -> SAM2VideoPredictor:
    """Load a model from the hub (extra ``hub``)."""
    return build_sam2_video_predictor(None, model_id, **kwargs)
