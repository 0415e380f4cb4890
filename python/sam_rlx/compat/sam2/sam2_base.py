"""What upstream's predictors take: ``sam2.modeling.sam2_base``."""

from typing import Any

from sam_rlx.errors import UnsupportedError
from sam_rlx.model import Model

__all__ = ["SAM2Base"]


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
        check_device(device)
        return self


def check_device(device: Any) -> None:
    """Raise `UnsupportedError` for any device but ``"cpu"``."""
    if device is not None and str(device) != "cpu":
        raise UnsupportedError(f"device: expected 'cpu', found {str(device)!r}")
