"""Pack the trained checkpoints into the files that the package ships.

    python -m training.pack

Most numbers take 8.5 bits (GGUF's Q8_0), and each file at most 8 MB.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sam_rlx._gguf import conversion as gguf_conversion

TRAINED = Path(__file__).parent / "checkpoints"
ASSETS = Path(__file__).parents[1] / "python" / "sam_rlx" / "assets"

# Beside what `sam-rlx quantize` packs. Rows of 4 bits: the table of 49,408 tokens, of which the
# model was taught some hundred, and the projection of what example boxes show.
OVERRIDES = {
    "sam-nano": [(r"pos_embed|neck|mlp\.lin[12]\.weight", "Q8_0")],
    "sam2-nano": [],
    "sam3-nano": [
        ("token_embedding|boxes_pool_project", "Q4_0"),
        (r"^detector\.(transformer|geometry_encoder|segmentation_head|dot_prod)", "Q8_0"),
        (r"conv|encoder\.9\.weight|pos_embed|(presence_token|obj_score)_head", "Q8_0"),
    ],
}


def pack(name: str, output: Path) -> int:
    """Pack a checkpoint of `TRAINED` into a GGUF file and return the number of its bytes."""
    source = TRAINED / f"{name}.safetensors"
    gguf_conversion.to_gguf(source, output, "Q8_0", overrides=OVERRIDES[name])
    return output.stat().st_size


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ASSETS, help="folder")
    args = parser.parse_args()
    for name in OVERRIDES:
        print(f"{name}: {pack(name, args.output / f'{name}.gguf') / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
