"""Models by upstream's names: ``sam2.build_sam``."""

import os
import re
from typing import Any

from sam_rlx.errors import CheckpointError, UnsupportedError
from sam_rlx.model import Model, load_model

# sam2.1_hiera_b+.yaml -> 2.1, b+
_CONFIG = re.compile(r"sam2(?P<minor>\.1)?_(?P<variant>hiera_(?:t|s|b\+|l))\.yaml$")


class SAM2Base:
    """A SAM 2 model as upstream's predictors take it. Made by `build_sam2`.

    Attributes
    ----------
    model : sam_rlx.Model
        The weights.
    image_size : int
        Side of the square input in pixels.
    device : str
        Always ``"cpu"``.
    """

    device = "cpu"

    def __init__(self, model: Model) -> None:
        if model.family != "sam2":
            raise UnsupportedError(f"model: expected family sam2, found {model.family}")
        self.model = model
        self.image_size = model.img_size

    def eval(self) -> "SAM2Base":
        """Return the model: it is always ready to run."""
        return self

    def to(self, device: Any = "cpu") -> "SAM2Base":
        """Return the model; another device than ``"cpu"`` is an `UnsupportedError`."""
        _check_device(device)
        return self


def _check_device(device: Any) -> None:
    if device is not None and str(device) != "cpu":
        raise UnsupportedError(f"device: expected 'cpu', found {str(device)!r}")


def load_checkpoint(
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
        True: an unstable single mask gives way to the best of three. False is not offered.

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
    _check_device(device)
    if mode != "eval":
        raise UnsupportedError(f"mode: expected 'eval', found {mode!r}")
    if not apply_postprocessing:
        raise UnsupportedError("apply_postprocessing: expected True, found False")
    return SAM2Base(load_checkpoint(config_file, ckpt_path))


def build_sam2_hf(model_id: str, **kwargs: Any) -> SAM2Base:
    """Load a model from the hub (extra ``hub``); `kwargs` go to `build_sam2`."""
    return build_sam2(None, model_id, **kwargs)
