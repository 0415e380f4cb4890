"""SAM 2.1 at any size, with upstream's parameter names."""

from training.sam2.config import NANO, Sam2Config
from training.sam2.decoder import Decoded
from training.sam2.sam2 import Features, Heads, Memory, Pointers, Sam2

__all__ = ["NANO", "Decoded", "Features", "Heads", "Memory", "Pointers", "Sam2", "Sam2Config"]
