"""SAM 3's detector and tracker at any size, with upstream's parameter names."""

from training.sam3.config import NANO, TRACKING, Sam3Config
from training.sam3.model import Found, Sam3
from training.sam3.tracker import Sam3Video, Tracker, on_detector

__all__ = [
    "NANO", "TRACKING", "Found", "Sam3", "Sam3Config", "Sam3Video", "Tracker", "on_detector",
]  # fmt: skip
