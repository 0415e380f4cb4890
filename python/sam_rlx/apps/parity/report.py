"""A parity report: what was compared, as a table, as JSON, as JUnit and as a page."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field
from typing import Any

from numpy.typing import NDArray

from sam_rlx._internal.files.atomic import as_path, atomic_write
from sam_rlx._internal.files.targets import check_target
from sam_rlx.apps.parity.measure import Layer, Masks
from sam_rlx.apps.parity.pages import html_page, junit_text
from sam_rlx.apps.parity.schema import FORMAT


@dataclass(frozen=True)
class Report:
    """Layers and masks of both sides, compared in the order of computation.

    Attributes
    ----------
    checkpoint : str
        The file.
    family, variant : str
        What it holds.
    reference : str
        The package that it was compared with, and its version.
    precision : str
        In which ours computed: ``"float32"``, ``"bfloat16"``, ``"int8"``, or the format of packed
        weights, such as ``"Q8_0"``, which the reference gets unpacked.
    exact : bool
        Whether the reference was run in float64 too.
    layers : tuple of Layer
        Every layer that both sides have.
    skipped : tuple of str
        Layers of ours that the reference has in another form.
    masks : tuple of Masks
        Masks and scores of every call.
    notes : tuple of str
        Where the reference differs by design from Meta's code, which we follow, and what was not
        compared for that.
    images : dict
        For pages: by image and stage, our and the reference's first mask and the image.
    """

    checkpoint: str
    family: str
    variant: str
    reference: str
    precision: str
    exact: bool
    layers: tuple[Layer, ...]
    skipped: tuple[str, ...]
    masks: tuple[Masks, ...]
    notes: tuple[str, ...]
    images: dict[tuple[str, str], tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = field(
        repr=False
    )

    @property
    def first_difference(self) -> str | None:
        """Path of the first layer that is out of its bounds, or None."""
        return next((layer.path for layer in self.layers if not layer.same), None)

    @property
    def entries(self) -> tuple[Layer | Masks, ...]:
        """All layers, then masks of all calls."""
        return (*self.layers, *self.masks)

    @property
    def same(self) -> bool:
        """Whether all layers, masks and scores are within their bounds."""
        return all(entry.same for entry in self.entries)

    def __repr__(self) -> str:
        return f"<Report {self.family} {self.variant}, {self.reference}: {self.verdict}>"

    def __str__(self) -> str:
        lines = [
            f"{self.checkpoint}: {self.family} {self.variant}, {self.precision}, against "
            f"{self.reference}" + ("" if self.exact else " (float32 alone)"),
            f"{'stage':<11} {'layer':<58} {'relative':>9} {'allowed':>9} {'PyTorch':>9} "
            f"{'cosine':>11}",
        ]
        for layer in self.layers:
            own = "" if math.isnan(layer.reference_error) else f"{layer.reference_error:9.2e}"
            lines.append(
                f"{layer.stage:<11} {layer.path[-58:]:<58} {layer.relative:9.2e} "
                f"{layer.allowed:9.2e} {own:>9} {layer.cosine:11.8f}"
                + ("" if layer.same else "  DIFFERS")
            )
        lines.append(f"{'stage':<11} {'masks of':<36} {'ours':>5} {'theirs':>6} {'IoU':>9} score")
        for entry in self.masks:
            score = "-" if math.isnan(entry.score) else f"{entry.score:.2e}"
            lines.append(
                f"{entry.stage:<11} {entry.item[-36:]:<36} {entry.count:5} "
                f"{entry.reference_count:6} {entry.iou:9.6f} {score}"
                + ("" if entry.same else "  DIFFERS")
            )
        lines += [f"note: {note}" for note in self.notes]
        lines.append(self.verdict)
        return "\n".join(lines)

    @property
    def verdict(self) -> str:
        """One line: ``same``, or what differs first."""
        if self.same:
            return f"same: {len(self.layers)} layers, {len(self.masks)} calls"
        if self.first_difference is not None:
            return f"differs: first in layer {self.first_difference}"
        first = next(entry for entry in self.masks if not entry.same)
        return f"differs: first in the masks of {first.stage} on {first.item}"

    def check(self) -> None:
        """Raise ``AssertionError`` with the table if anything differs."""
        if not self.same:
            raise AssertionError(f"{self.verdict}\n{self}")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it, by `sam_rlx.parity.SCHEMA`: NaN becomes None."""

        def plain(entry: Layer | Masks) -> dict[str, Any]:
            return {
                key: None if isinstance(value, float) and not math.isfinite(value) else value
                for key, value in asdict(entry).items()
            }

        return {
            "format": FORMAT,
            "checkpoint": self.checkpoint,
            "family": self.family,
            "variant": self.variant,
            "reference": self.reference,
            "precision": self.precision,
            "exact": self.exact,
            "same": self.same,
            "verdict": self.verdict,
            "first_difference": self.first_difference,
            "notes": list(self.notes),
            "layers": [plain(layer) for layer in self.layers],
            "skipped": list(self.skipped),
            "masks": [plain(entry) for entry in self.masks],
        }

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict` as a JSON file."""
        check_target(as_path(path), ("JSON",))
        with atomic_write(path) as file:
            file.write(json.dumps(self.to_dict(), indent=1, allow_nan=False).encode() + b"\n")

    def write_junit(self, path: str | os.PathLike[str]) -> None:
        """Write a JUnit file: one test case for each layer and each call."""
        check_target(as_path(path), ("XML",))
        with atomic_write(path) as file:
            file.write(junit_text(self.to_dict()).encode())

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write one page with the table, and both masks and their difference as inputs."""
        check_target(as_path(path), ("HTML",))
        with atomic_write(path) as file:
            file.write(html_page(self.to_dict(), self.images).encode())
