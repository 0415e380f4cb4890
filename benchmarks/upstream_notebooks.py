"""Runs upstream's notebooks and scripts as they are, but for imports, weights and devices.

    python benchmarks/upstream_notebooks.py FOLDER [--only NAME] [--frames 24]

FOLDER holds copies of Meta's notebooks (``*.ipynb``), ``amg.py`` and ``vos_inference.py``; nothing
of them is part of this project. Imports of these packages become those of
`sam_rlx.compat`, checkpoints the packaged models, ``cuda`` becomes ``cpu``; lines for the shell are
left out. Images are the packaged photograph, clips move over it or show discs, which the text of a
notebook names then. Prints a row for each program: the
cells with code, or the calls of a script, that ran, of how many. Needs PyTorch, OpenCV, matplotlib
and the extras ``image``, ``video`` and ``jupyter``.
"""

import argparse
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np
from PIL import Image
from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx.apps.cli import demo

# What is changed in a program, in this order.
_CHANGES = [
    (r"(?m)^(\s*)[!%].*$", r"\1pass"),
    (r"\bimport sam3\b(?!\.)", "import sam_rlx.compat.sam3 as sam3"),
    (r"\bfrom (segment_anything|sam2|sam3)\b", r"from sam_rlx.compat.\1"),
    (r"\{sam3_root\}", "{os.getcwd()}"),
    (r"(?m)^(\s*sam2?_checkpoint) = .*$", r"\1 = MODEL"),
    (r'model_type = "vit_h"', 'model_type = "nano"'),
    (r"model_cfg = .*", "model_cfg = None"),
    (r"config_file=args\.sam2_cfg", "config_file=None"),
    (r'device = "cuda"', 'device = "cpu"'),
    (r"\b(build_sam3_\w+_(?:model|predictor))\(", r"\1(checkpoint_path=MODEL, "),
    (r'prompt_text_str = "person"', 'prompt_text_str = "circle"'),
    (r"ann_frame_idx = 150", "ann_frame_idx = FRAMES - 2"),
]
_MODELS = {"segment_anything": "sam-nano", "sam2": "sam2-nano", "sam3": "sam3-nano"}


def _media(folder: Path, frames: int) -> None:
    """Write the images and clips that the notebooks open."""
    photo = Image.open(demo.IMAGE).convert("RGB").resize((1800, 1200))
    for name in ("images/truck.jpg", "images/groceries.jpg", "images/dog.jpg", "images/cars.jpg",
                 "assets/images/truck.jpg", "assets/images/groceries.jpg",
                 "assets/images/test_image.jpg"):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        photo.save(folder / name)
    (folder / "assets" / "videos").mkdir()
    with ClipWriter(folder / "assets" / "videos" / "bedroom.mp4", 24) as writer:
        for index in range(frames):
            view = photo.crop((8 * index, 4 * index, 8 * index + 1200, 4 * index + 800))
            view = view.resize((960, 540))
            writer.add(np.asarray(view))
            for part, frame in (("videos/bedroom", view), ("assets/videos/0001", _discs(index))):
                path = folder / part / f"{index:05d}.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                frame.save(path, quality=95)


def _discs(index: int) -> Image.Image:
    """Return a frame of moving discs, which the packaged model finds as circles."""
    y, x = np.mgrid[:540, :960]
    pixels = np.full((540, 960, 3), 90, np.uint8)
    for number, colour in enumerate(((220, 60, 40), (40, 90, 230), (60, 190, 80), (230, 200, 40))):
        center = 130 + 230 * number + 6 * index
        pixels[(x - center) ** 2 + (y - 270) ** 2 < 85**2] = colour
    return Image.fromarray(pixels)


def _changed(source: str) -> str:
    for pattern, replacement in _CHANGES:
        source = re.sub(pattern, replacement, source)
    return source


def _family(text: str) -> str:
    return next((name for name in ("sam3", "sam2") if f"from {name}" in text), "segment_anything")


def notebook(path: Path, folder: Path, frames: int) -> tuple[int, int, list[str]]:
    """Run the cells of a notebook; return how many ran, of how many, and the errors."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    sources = [source for source in sources if source.strip()]
    names = {"MODEL": _MODELS[_family("\n".join(sources))], "FRAMES": frames, "os": os}
    names["display"] = lambda *_: None
    ran, errors = 0, []
    for number, source in enumerate(sources, 1):
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.chdir(folder):
                exec(compile(_changed(source), f"{path.name}[{number}]", "exec"), names)
            ran += 1
        except Exception:
            errors.append(f"cell {number}: {traceback.format_exc(limit=-2)}")
        if "plt" in names:
            names["plt"].close("all")
    return ran, len(sources), errors


def script(path: Path, folder: Path, calls: list[list[str]]) -> tuple[int, int, list[str]]:
    """Call a script as its users do."""
    changed = folder / path.name
    changed.write_text(_changed(path.read_text(encoding="utf-8")), encoding="utf-8")
    errors = []
    for words in calls:
        done = subprocess.run(
            [sys.executable, changed, *words],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            errors.append(f"{' '.join(words)}: {done.stderr[-1500:]}")
    return len(calls) - len(errors), len(calls), errors


def _amg_calls() -> list[list[str]]:
    shared = ["--input", "images/dog.jpg", "--model-type", "nano", "--checkpoint", "sam-nano",
              "--device", "cpu", "--points-per-side", "6", "--pred-iou-thresh", "0.5",
              "--stability-score-thresh", "0.5"]  # fmt: skip
    return [
        [*shared, "--output", "masks"],
        [*shared, "--output", "rle", "--convert-to-rle"],
        [*shared, "--output", "crops", "--crop-n-layers", "1", "--min-mask-region-area", "30"],
    ]


def _vos_calls(folder: Path) -> list[list[str]]:
    given = np.zeros((540, 960), np.uint8)
    given[100:300, 100:300], given[250:450, 500:800] = 1, 2
    for part in ("given", "given_alone"):
        (folder / part / "bedroom").mkdir(parents=True)
    image = Image.fromarray(given, "P")
    image.putpalette(bytes(range(256)) * 3)
    image.save(folder / "given" / "bedroom" / "00000.png")
    for label in (1, 2):
        path = folder / "given_alone" / "bedroom" / f"{label:03d}" / "00000.png"
        path.parent.mkdir()
        Image.fromarray(np.uint8(255) * (given == label)).save(path)
    shared = ["--sam2_checkpoint", "sam2-nano", "--base_video_dir", "videos"]
    return [
        [*shared, "--input_mask_dir", "given", "--output_mask_dir", "together"],
        [*shared, "--input_mask_dir", "given_alone", "--output_mask_dir", "alone",
         "--per_obj_png_file"],
        [*shared, "--input_mask_dir", "given", "--output_mask_dir", "later",
         "--track_object_appearing_later_in_video"],
        [*shared, "--input_mask_dir", "given", "--output_mask_dir", "fast",
         "--use_vos_optimized_video_predictor"],
    ]  # fmt: skip


def main() -> int:
    """Run every program of a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="part of a name")
    parser.add_argument("--frames", type=int, default=24, help="of clips")
    args = parser.parse_args()
    os.environ["MPLBACKEND"] = "Agg"
    warnings.simplefilter("ignore")
    wrong = 0
    for path in sorted(args.folder.resolve().iterdir()):
        if args.only not in path.name or path.suffix not in (".ipynb", ".py"):
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _media(folder, args.frames)
            if path.suffix == ".ipynb":
                ran, total, errors = notebook(path, folder, args.frames)
            elif path.name == "amg.py":
                ran, total, errors = script(path, folder, _amg_calls())
            elif path.name == "vos_inference.py":
                ran, total, errors = script(path, folder, _vos_calls(folder))
            else:
                continue
        print(f"{path.name:<50} {ran} of {total}", flush=True)
        for error in errors:
            print(f"    {error}", flush=True)
        wrong += bool(errors)
    print(f"{wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
