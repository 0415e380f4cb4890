"""Pack the trained checkpoints into the files that the package ships.

    python -m training.pack
    python -m training.pack --check

The second command writes nothing: it tells which files are not those that the first one makes, bit
for bit. The checkpoints are the source and the package's files are made of them, not the other way
round: packing rounds. Most numbers take 8.5 bits (GGUF's Q8_0), and each file at most 8 MB.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sam_rlx._internal.weights.gguf import conversion as gguf_conversion

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


def is_packed(name: str, path: Path) -> bool:
    """Whether a file has the bytes that `pack` writes."""
    with tempfile.TemporaryDirectory() as folder:
        expected = Path(folder, path.name)
        pack(name, expected)
        return path.is_file() and path.read_bytes() == expected.read_bytes()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="MODEL", help=f"default: {', '.join(OVERRIDES)}"
    )
    parser.add_argument("--output", type=Path, default=ASSETS, help="folder")
    parser.add_argument("--check", action="store_true", help="compare with the files of the folder")
    args = parser.parse_args(arguments)
    for name in set(args.names) - set(OVERRIDES):
        parser.error(f"expected {', '.join(OVERRIDES)}, found {name}")
    status = 0
    for name in args.names or OVERRIDES:
        path = args.output / f"{name}.gguf"
        if not args.check:
            print(f"{name}: {pack(name, path) / 1e6:.2f} MB")
            continue
        same = is_packed(name, path)
        print(f"{name}: {'as packed' if same else f'{path} is another file'}")
        status |= not same
    return status


if __name__ == "__main__":
    sys.exit(main())
