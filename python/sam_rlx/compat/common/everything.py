"""What upstream's two generators of masks share: any arguments that upstream computes with."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.checks import as_integer
from sam_rlx.compat.common import amg
from sam_rlx.compat.common.errors import ArgumentAssertionError, require
from sam_rlx.compat.common.network import WithModel
from sam_rlx.compat.common.overrides import refuse_overrides
from sam_rlx.compat.common.turns import Turns
from sam_rlx.errors import InvalidArgumentError, UnsupportedError
from sam_rlx.generator import OUTPUT_MODES, MaskGenerator, MaskRecord, prepared
from sam_rlx.model import Model

_MAX_AREA = 2**53
# What upstream compares or computes with, in any size.
_NUMBERS = (
    "pred_iou_thresh",
    "stability_score_thresh",
    "stability_score_offset",
    "box_nms_thresh",
    "crop_nms_thresh",
    "crop_overlap_ratio",
)


_DROP_INS = "sam_rlx.compat."
# What upstream's generators call of themselves and of their predictor.
_INNER = (
    "_generate_masks",
    "_process_crop",
    "_process_batch",
    "refine_with_m2m",
    "postprocess_small_regions",
)
_INNER_OF_PREDICTOR = ("set_image", "set_torch_image", "predict_torch", "_predict", "reset_image")


class Everything(WithModel):
    """The attributes of a generator of upstream's, and masks by what they are at that time.

    Upstream's generators check two things of their arguments and compute with all others: real
    numbers of any size will do.
    """

    _PREDICTOR: ClassVar[type]
    _prepared: tuple[Any, MaskGenerator] | None = None

    @cached_property
    def _turns(self) -> Turns:
        return Turns()

    def _begin(
        self,
        points_per_side: Any,
        point_grids: Any,
        output_mode: str,
        arguments: dict[str, Any],
    ) -> None:
        """Check as upstream does, and set the attributes."""
        require(
            (points_per_side is None) != (point_grids is None),
            "expected points_per_side or point_grids, found both or neither",
        )
        require(
            output_mode in OUTPUT_MODES,
            f"output_mode: expected one of {OUTPUT_MODES}, found {output_mode!r}",
        )
        for name, value in arguments.items():
            setattr(self, name, value)
        self.output_mode = output_mode
        if points_per_side is not None:
            point_grids = amg.build_all_layer_point_grids(
                points_per_side,
                arguments["crop_n_layers"],
                arguments["crop_n_points_downscale_factor"],
            )
        self.point_grids = point_grids
        self._turns = Turns()
        self._options()  # whose types are checked at once

    def _options(self) -> dict[str, Any]:
        """Return the core's options of the attributes."""
        options: dict[str, Any] = {name: number(name, getattr(self, name)) for name in _NUMBERS}
        options["points_per_side"] = None
        for name, low in (("points_per_batch", 1), ("crop_n_layers", 0)):
            options[name] = as_integer(name, getattr(self, name), low)
        return options

    def _grids(self) -> list[NDArray[np.float64]]:
        grids = [np.ascontiguousarray(grid, dtype=np.float64) for grid in self.point_grids]
        for index, grid in enumerate(grids):
            if grid.ndim != 2 or grid.shape[1] != 2 or not np.isfinite(grid).all():
                raise InvalidArgumentError(
                    f"point_grids[{index}]: expected finite points (n, 2), found {grid.shape}"
                )
        return grids

    def refuse_own_methods(self) -> None:
        """Refuse methods that upstream's ``generate`` calls, where a program has its own."""
        instead = "everything mode runs in the core; override generate"
        own = next(base for base in type(self).__mro__ if base.__module__.startswith(_DROP_INS))
        refuse_overrides(self, own, _INNER, instead)
        predictor: Any = vars(self)["predictor"]
        if not isinstance(predictor, self._PREDICTOR):
            raise UnsupportedError(
                f"predictor: expected {self._PREDICTOR.__name__}, found {type(predictor).__name__}"
            )
        refuse_overrides(predictor, self._PREDICTOR, _INNER_OF_PREDICTOR, instead)

    def _records(
        self,
        model: Model,
        image: Any,
        options: dict[str, Any],
        switches: tuple[Any, ...],
        area: Any,
    ) -> list[MaskRecord]:
        """Find the masks of an image with the core's options and switches."""
        if self.output_mode not in OUTPUT_MODES:
            raise ArgumentAssertionError(
                f"output_mode: expected one of {OUTPUT_MODES}, found {self.output_mode!r}"
            )
        grids = self._grids()
        # By their digits, so that NaN equals itself.
        key = (
            id(model),
            self.output_mode,
            repr((options, switches, area)),
            [x.tobytes() for x in grids],
        )
        with self._turns:
            if self._prepared is None or self._prepared[0] != key:
                arguments = (0, options, grids, *switches, False)
                generator = prepared(model, self.output_mode, arguments, area)
                self._prepared = key, generator
            return list(self._prepared[1].generate(image))


def whole_area(area: Any) -> int:
    """Return the least whole area that no region has which is smaller than `area`."""
    value = number("min_mask_region_area", area)
    return 0 if not value > 0 else min(math.ceil(min(value, _MAX_AREA)), _MAX_AREA)


def number(name: str, value: Any) -> float:
    """Return any real number as a float, NaN and infinity too."""
    if isinstance(value, (str, bytes)):
        raise InvalidArgumentError(f"{name}: expected a number, found {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"{name}: expected a number, found {type(value).__name__}"
        ) from error
