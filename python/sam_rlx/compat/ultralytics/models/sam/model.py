"""``SAM``: a model behind one call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import OnCpu, check_device
from sam_rlx.compat.ultralytics import refusals
from sam_rlx.compat.ultralytics.models.sam.predict import Predictor, SAM2Predictor, SAM3Predictor
from sam_rlx.compat.ultralytics.weights import load

_PREDICTORS = {"sam": Predictor, "sam2": SAM2Predictor, "sam3": SAM3Predictor}


class SAM(OnCpu):
    """A model of Segment Anything, as ultralytics' class of this name.

    Parameters
    ----------
    model : str or path
        A file: Meta's, or one that ultralytics offers (``sam_b.pt``, ``mobile_sam.pt``,
        ``sam2.1_t.pt``, ``sam3.pt``, ...). Or a packaged name, or a hub id. Nothing is downloaded
        from ultralytics.

    Attributes
    ----------
    model : sam_rlx.Model
        The weights.
    predictor : Predictor
        What calls run.
    model_name : str
        As given.
    task : str
        ``"segment"``.
    overrides : dict
        Settings for all calls.

    Raises
    ------
    FileNotFoundError
        There is no such file; the text says which hub id has the weights.
    UnsupportedError
        It is another network.
    """

    task = "segment"

    def __init__(self, model: str | os.PathLike[str] = "sam_b.pt") -> None:
        self.model_name = os.fspath(model) if isinstance(model, (str, os.PathLike)) else ""
        self.model = load(model)
        self.overrides: dict[str, Any] = {}
        self.predictor = _PREDICTORS[self.model.family]()
        self.predictor.setup_model(self.model)

    for _name in refusals.METHODS:
        locals()[_name] = refusals.refused_method(_name)
    del _name

    def __repr__(self) -> str:
        return f"<SAM {self.model}>"

    def __call__(
        self,
        source: Any = None,
        stream: bool = False,
        bboxes: Any = None,
        points: Any = None,
        labels: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Call `predict`."""
        return self.predict(source, stream, bboxes, points, labels, **kwargs)

    def predict(
        self,
        source: Any = None,
        stream: bool = False,
        bboxes: Any = None,
        points: Any = None,
        labels: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Segment the images of a source by prompts, or everything without them.

        Parameters
        ----------
        source : path, address, PIL image, array, tensor, or list of these
            A folder, a pattern or a clip gives several images. Arrays are BGR.
        stream : bool
            Give a generator, which holds one result at a time.
        bboxes : (4,) or (N, 4), optional
            (x0, y0, x1, y1) in pixels, one object each.
        points : (2,), (N, 2) or (N, P, 2), optional
            (x, y) in pixels. Flat points are one object each, with one warning.
        labels : int, (N,) or (N, P), optional
            1 foreground (default), 0 background.
        **kwargs
            Settings: ``conf=0.25``, ``iou=0.7``, ``max_det=300``, ``classes``, ``save``, ``show``,
            ``project``, ``name`` and others. ``imgsz`` has no effect, which is told once.

        Returns
        -------
        list of Results, or generator of them
            One for each image, objects in the order of their prompts.

        Raises
        ------
        InvalidArgumentError
            A prompt has another shape, or an argument is unknown.
        """
        given = {"bboxes": bboxes, "points": points, "labels": labels}
        return self.predictor(source, stream=stream, **{**self.overrides, **given, **kwargs})

    @property
    def names(self) -> Mapping[int, str]:
        """Empty: each object is a class of its own, which `Results.names` lists."""
        return {}

    @property
    def is_sam2(self) -> bool:
        """Whether it is SAM 2."""
        return self.model.family == "sam2"

    @property
    def is_sam3(self) -> bool:
        """Whether it is SAM 3."""
        return self.model.family == "sam3"

    def info(self, detailed: bool = False, verbose: bool = True) -> tuple[int, int, int, float]:
        """Print what the model is.

        Returns its numbers of layers and of parameters, of gradients, and of operations; what is
        not known is 0.
        """
        if verbose:
            print(f"{self.model_name or 'SAM'}: {self.model}")
        return 0, self.model.num_parameters, 0, 0.0

    def to(self, device: Any) -> Self:
        """Return the model; another device than the CPU is an `UnsupportedError`."""
        check_device(device)
        return self

    def eval(self) -> Self:
        """Return the model: it is always ready to run."""
        return self

    def float(self) -> Self:
        """Return the model: it computes in float32."""
        return self

    def fuse(self) -> Self:
        """Return the model: layers that can be joined are."""
        return self


__dir__ = public_names(__name__)
