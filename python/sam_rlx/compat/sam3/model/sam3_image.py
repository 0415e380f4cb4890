"""What upstream's processor takes: ``sam3.model.sam3_image``."""

from typing import Any

from sam_rlx.errors import UnsupportedError
from sam_rlx.model import Model


class Sam3Image:
    """A SAM 3 model for pictures. Made by `build_sam3_image_model`.

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

    def __init__(self, model: Model, enable_inst_interactivity: bool = False) -> None:
        if model.family != "sam3":
            raise UnsupportedError(f"model: expected family sam3, found {model.family}")
        self.model = model
        self.image_size = model.img_size

    def eval(self) -> "Sam3Image":
        """Return the model: it is always ready to run."""
        return self

    def to(self, device: Any = "cpu") -> "Sam3Image":
        """Return the model; another device than ``"cpu"`` is an `UnsupportedError`."""
        if device is not None and str(device) != "cpu":
            raise UnsupportedError(f"device: expected 'cpu', found {str(device)!r}")
        return self
