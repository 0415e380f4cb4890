"""Adds weights, model cards and licence, which lie elsewhere in the checkout.

A source distribution holds them beside the package's ``__init__.py``, and a wheel is built from
there.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "sam_rlx_nano"
NAMES = ("sam-nano", "sam2-nano", "sam3-nano")


class CustomBuildHook(BuildHookInterface):
    """Names the files that a distribution takes from the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add each file to the folder of the package, unless it is there."""
        folder = Path(self.root)
        checkout = folder.parents[1]
        sources = {"LICENSE": checkout / "LICENSE"}
        for name in NAMES:
            sources[f"{name}.gguf"] = checkout / "python" / "sam_rlx" / "assets" / f"{name}.gguf"
            sources[f"{name}.md"] = checkout / "docs" / "model_cards" / f"{name}.md"
        for name, source in sources.items():
            if (folder / PACKAGE / name).is_file():
                continue
            if not source.is_file():
                raise FileNotFoundError(f"sam-rlx-nano: expected {source}, found no such file")
            build_data["force_include"][str(source)] = f"{PACKAGE}/{name}"
