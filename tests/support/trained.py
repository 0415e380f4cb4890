"""The small models as they were trained: the package has them packed."""

from pathlib import Path

CHECKPOINTS = Path(__file__).parents[2] / "training" / "checkpoints"


def trained(name: str) -> Path:
    """Return the float16 checkpoint of ``"sam-nano"``, ``"sam2-nano"`` or ``"sam3-nano"``."""
    return CHECKPOINTS / f"{name}.safetensors"
