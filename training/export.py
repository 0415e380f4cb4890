"""Write and read checkpoints as safetensors with the sizes in the metadata."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from training.model import Sam, SamConfig
from training.sam2 import Sam2, Sam2Config
from training.sam3 import Sam3, Sam3Config, Sam3Video

FAMILIES = {"sam": (SamConfig, Sam), "sam2": (Sam2Config, Sam2), "sam3": (Sam3Config, Sam3)}


def save(
    state: dict[str, torch.Tensor], config: SamConfig | Sam2Config | Sam3Config, path: Path
) -> None:
    """Write float16 weights with `family`, `variant` and `config` in the metadata."""
    half = {k: v.detach().cpu().half().contiguous() for k, v in state.items()}
    metadata = {
        "family": config.family,
        "variant": config.variant,
        "config": config.to_json(),
        "license": "Apache-2.0",
    }
    save_file(half, path, metadata)


def read(path: Path) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    """Return metadata and float32 tensors of a checkpoint; a packed one needs the package."""
    if path.suffix != ".gguf":
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
        return metadata, {k: v.float() for k, v in load_file(path).items()}
    from sam_rlx import _core

    packed = _core.Checkpoint(str(path))
    tensors = {
        name: torch.from_numpy(packed.encode(name, "F32", 0).view(np.float32)).reshape(shape)
        for name, _, shape in packed.tensors
    }
    return dict(packed.metadata), tensors


def load(path: Path) -> Sam | Sam2 | Sam3 | Sam3Video:
    """Read a checkpoint into the PyTorch model, as float32."""
    metadata, tensors = read(path)
    config_class, model_class = FAMILIES[metadata["family"]]
    config = config_class.from_json(metadata["config"])
    if isinstance(config, Sam3Config) and config.mem_dim:
        model_class = Sam3Video
    model = model_class(config)
    model.load_state_dict(tensors, strict=True)
    return model.eval()


def main() -> None:
    """Turn the averaged weights of a run into a checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder written by training.train")
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    model = load(args.run / "average.safetensors")
    save(model.state_dict(), model.config, args.output)


if __name__ == "__main__":
    main()
