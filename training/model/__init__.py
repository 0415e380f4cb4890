"""SAM v1 in PyTorch at any size, with the parameter names of the published checkpoints."""

from training.model.config import NANO, SamConfig
from training.model.sam import Sam

__all__ = ["NANO", "Sam", "SamConfig"]
