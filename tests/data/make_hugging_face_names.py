"""Record the names and shapes of transformers' SAM 2.1 tiny: ``python make_hugging_face_names.py``.

Needs transformers 5.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


def main() -> None:
    from support import upstream

    upstream.prepare()
    import torch
    from transformers import Sam2VideoConfig, Sam2VideoModel

    with torch.device("meta"):
        model = Sam2VideoModel(Sam2VideoConfig())
    shapes = {name: list(value.shape) for name, value in model.state_dict().items()}
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(s)}" for name, s in shapes.items())
    (HERE / "hugging_face_sam2.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
