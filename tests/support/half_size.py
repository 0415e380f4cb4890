"""The packaged models at half of their side: an image is encoded in a fifth of the time.

For tests that hold what they see to the same model's predictors. Those of exactness take the model
as it is. sam3-nano is as quick as it is, and would lose the words that it knows.
"""

from __future__ import annotations

import sam_rlx

SIDES = {"sam-nano": 192, "sam2-nano": 256}


def half_size(name: str) -> sam_rlx.Model:
    """Load a packaged model."""
    return sam_rlx.load_model(name, image_size=SIDES.get(name))
