"""``ultralytics.models.sam``: the model and its predictors."""

from sam_rlx._internal.public import public_names
from sam_rlx.compat.ultralytics.models.sam.dynamic import SAM2DynamicInteractivePredictor
from sam_rlx.compat.ultralytics.models.sam.model import SAM
from sam_rlx.compat.ultralytics.models.sam.predict import Predictor, SAM2Predictor, SAM3Predictor
from sam_rlx.compat.ultralytics.models.sam.semantic import SAM3SemanticPredictor
from sam_rlx.compat.ultralytics.models.sam.video import (
    SAM2VideoPredictor,
    SAM3VideoPredictor,
    SAM3VideoSemanticPredictor,
)

__all__ = [
    "SAM",
    "Predictor",
    "SAM2DynamicInteractivePredictor",
    "SAM2Predictor",
    "SAM2VideoPredictor",
    "SAM3Predictor",
    "SAM3SemanticPredictor",
    "SAM3VideoPredictor",
    "SAM3VideoSemanticPredictor",
]

__dir__ = public_names(__name__)
