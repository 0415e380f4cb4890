"""The detector of SAM 3 at any size, with upstream's parameter names."""

from training.sam3.config import NANO, Sam3Config
from training.sam3.model import Found, Sam3

__all__ = ["NANO", "Found", "Sam3", "Sam3Config"]
