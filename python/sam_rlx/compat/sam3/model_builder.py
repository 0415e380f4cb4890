"""Models by upstream's names: ``sam3.model_builder``."""

from __future__ import annotations

import os
from typing import Any

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import check_device
from sam_rlx.compat.common.state_dicts import EmptyModel
from sam_rlx.compat.common.unoffered import unoffered
from sam_rlx.compat.sam3.model.sam3_image import Sam3Image
from sam_rlx.compat.sam3.model.sam3_video_inference import (
    Sam3VideoInferenceWithInstanceInteractivity,
    ablation_options,
)
from sam_rlx.compat.sam3.model.sam3_video_predictor import Sam3VideoPredictor
from sam_rlx.compat.sam3.model.state_dicts import empty_model
from sam_rlx.errors import UnsupportedError
from sam_rlx.model import Model, load_model

_HUB_ID = "facebook/sam3"
download_ckpt_from_hf = unoffered("sam3.model_builder", "download_ckpt_from_hf")
build_tracker = unoffered("sam3.model_builder", "build_tracker")
build_sam3_multiplex_video_predictor = unoffered(
    "sam3.model_builder", "build_sam3_multiplex_video_predictor"
)


def build_sam3_image_model(
    bpe_path: str | None = None,
    device: Any = "cpu",
    eval_mode: bool = True,
    checkpoint_path: str | os.PathLike[str] | None = None,
    load_from_HF: bool = True,
    enable_segmentation: bool = True,
    enable_inst_interactivity: bool = False,
    compile: bool = False,
) -> Sam3Image:
    """Load a SAM 3 model for images.

    Parameters
    ----------
    bpe_path : str, optional
        Without effect: the vocabulary is part of the package.
    device : str
        ``"cpu"``.
    eval_mode : bool
        True.
    checkpoint_path : str or path, optional
        As for `sam_rlx.load_model`. Default: ``"facebook/sam3"`` on the hub (extra ``hub``).
    load_from_HF : bool
        Whether there is that default. False, without a checkpoint: a network that waits for
        `load_state_dict`.
    enable_segmentation : bool
        True.
    enable_inst_interactivity : bool
        Also prepare images for `Sam3Image.predict_inst`.
    compile : bool
        Without effect: there is one way to compute.

    Returns
    -------
    Sam3Image
        For `Sam3Processor`.

    Raises
    ------
    CheckpointError
        The file is damaged.
    UnsupportedError
        An argument asks for what is not offered, or the model is not SAM 3.
    """
    check_device(device)
    if not (eval_mode and enable_segmentation):
        raise UnsupportedError(
            "build_sam3_image_model: expected eval_mode and enable_segmentation, found "
            f"{eval_mode} and {enable_segmentation}"
        )
    model = _model(checkpoint_path, load_from_HF)
    return Sam3Image(model, enable_inst_interactivity)


def build_sam3_video_model(
    checkpoint_path: str | os.PathLike[str] | None = None,
    load_from_HF: bool = True,
    bpe_path: str | None = None,
    has_presence_token: bool = True,
    geo_encoder_use_img_cross_attn: bool = True,
    strict_state_dict_loading: bool = True,
    apply_temporal_disambiguation: bool = True,
    device: Any = "cpu",
    compile: bool = False,
) -> Sam3VideoInferenceWithInstanceInteractivity:
    """Load a SAM 3 model for videos, without requests.

    Parameters
    ----------
    checkpoint_path : str or path, optional
        As for `sam_rlx.load_model`. Default: ``"facebook/sam3"`` on the hub (extra ``hub``).
    load_from_HF : bool
        Whether there is that default. False, without a checkpoint: a network that waits for
        `load_state_dict`.
    bpe_path, compile
        Without effect.
    has_presence_token, geo_encoder_use_img_cross_attn : bool
        True.
    strict_state_dict_loading : bool
        As `strict` of `sam_rlx.load_model`.
    apply_temporal_disambiguation : bool
        False: without the rules against errors of the detector.
    device : str
        ``"cpu"``.

    Returns
    -------
    Sam3VideoInferenceWithInstanceInteractivity
        Texts by its own methods, clicks by those of its ``tracker``.

    Raises
    ------
    UnsupportedError
        An argument asks for what is not offered, or the model is not SAM 3.
    """
    check_device(device)
    if not (has_presence_token and geo_encoder_use_img_cross_attn):
        raise UnsupportedError(
            "build_sam3_video_model: expected has_presence_token and geo_encoder_use_img_cross_attn"
            f", found {has_presence_token} and {geo_encoder_use_img_cross_attn}"
        )
    options = {} if apply_temporal_disambiguation else ablation_options()
    model = _model(checkpoint_path, load_from_HF, strict=bool(strict_state_dict_loading))
    return Sam3VideoInferenceWithInstanceInteractivity(model, **options)


def _model(
    path: str | os.PathLike[str] | None, from_hub: bool, strict: bool = True
) -> Model | EmptyModel:
    """Return the model of a checkpoint, that of the hub, or one without weights."""
    if path is None and not from_hub:
        return empty_model()
    return load_model(_HUB_ID if path is None else path, strict=strict)


def build_sam3_video_predictor(
    *model_args: Any, gpus_to_use: Any = None, **model_kwargs: Any
) -> Sam3VideoPredictor:
    """Load a SAM 3 model for videos.

    Parameters
    ----------
    *model_args, **model_kwargs
        As for `Sam3VideoPredictor`.
    gpus_to_use
        None or an empty sequence, as ``range(torch.cuda.device_count())`` is where there is none.

    Returns
    -------
    Sam3VideoPredictor
        It answers requests.

    Raises
    ------
    UnsupportedError
        An argument asks for what is not offered, or the model is not SAM 3.
    """
    if gpus_to_use is not None and len(gpus_to_use) > 0:
        raise UnsupportedError(
            f"gpus_to_use: expected None or an empty sequence, found {gpus_to_use!r}"
        )
    return Sam3VideoPredictor(*model_args, **model_kwargs)


__dir__ = public_names(__name__)
