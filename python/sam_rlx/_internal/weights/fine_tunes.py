"""Fine-tuned models by the names of their files, and what no tensor of theirs tells."""

import re
from pathlib import Path

# The first that fits is taken.
_KNOWN = (
    (r"medsam2", "MedSAM2, for images of side 512: load it with image_size=512"),
    (r"lite_?medsam", "LiteMedSAM, for images from 0 to 255: read them with stretch=True"),
    (r"medsam", "MedSAM, for squares from 0 to 255: load it with normalize=False"),
    (
        r"vit_[bhlt]_(lm|em_organelles|histopathology|medical_imaging)(?![a-z])",
        'micro-sam, for channels from 0 to 255 each: read them with stretch="channels"',
    ),
    (r"slim_?sam", "SlimSAM, for images as SAM's"),
)


def fine_tune(path: Path) -> str | None:
    """Return which fine-tuned model a file or folder is, going by its name, or None."""
    name = path.name.lower().replace("-", "_")
    return next((text for pattern, text in _KNOWN if re.search(pattern, name)), None)
