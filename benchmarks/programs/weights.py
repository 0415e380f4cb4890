"""Files of the packaged models in the layout of Meta's."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRAINED = ROOT / "training" / "checkpoints"


def write(folder: Path) -> Path:
    """Write the weights that the drivers share, where they are not there yet.

    That of SAM is a file of ``torch.save``, which programs open themselves. Those of SAM 2 and
    SAM 3 have sizes that tensors do not tell, which safetensors has beside them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "sam-nano.pth").exists():
        import safetensors.torch
        import torch

        found = safetensors.torch.load_file(TRAINED / "sam-nano.safetensors")
        torch.save({k: v.float() for k, v in found.items()}, folder / "sam-nano.part")
        (folder / "sam-nano.part").rename(folder / "sam-nano.pth")
    for name in ("sam2-nano", "sam3-nano"):
        if not (folder / f"{name}.pt").exists():
            shutil.copy(TRAINED / f"{name}.safetensors", folder / f"{name}.pt")
    return folder
