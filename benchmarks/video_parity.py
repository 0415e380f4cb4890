"""Are the masks of a video upstream's? Tracks two objects with both and prints IoU as Markdown.

    python benchmarks/video_parity.py
    python benchmarks/video_parity.py --models sam2-nano sam3-nano --frames 24
    python benchmarks/video_parity.py --models sam2.1_hiera_b+ --size 720 1280

Ours runs with its defaults, upstream in float32 with the frames of its own loader: of a folder of
JPEG files, and, for SAM 3, of images in memory. Holes are left, then filled, as upstream does on a
GPU. The last column is ours with frames resized as its image predictor does. "sam2.1_hiera_t",
"sam2.1_hiera_b+" and "sam3" have the released sizes and random weights, whose objects are mostly
there. "sam3" takes about 10 GB of memory and a minute for each frame on two cores.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import sam_rlx

import rivals
from workloads import tiny_sam2, tiny_sam3

SAM2 = {
    "sam2-tiny": tiny_sam2.TINY,
    "sam2.1_hiera_t": tiny_sam2.VARIANTS["hiera_t"],
    "sam2.1_hiera_b+": tiny_sam2.VARIANTS["hiera_b+"],
}
SAM3 = {"sam3-tiny": tiny_sam3.TINY, "sam3": tiny_sam3.RELEASED}
MODELS = ("sam2-nano", "sam3-nano", *SAM2, *SAM3)
USUAL = ("sam2-nano", "sam3-nano", "sam2.1_hiera_t", "sam2.1_hiera_b+", "sam3-tiny")
AREAS = {"sam2": 8, "sam3": 16}
HEAD = ("model", "frames", "holes", "lowest IoU", "mean IoU", 'lowest with resize="float"')


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(USUAL))
    parser.add_argument("--frames", type=int, default=8)
    parser.add_argument("--size", type=int, nargs=2, default=(360, 480), metavar=("H", "W"))
    options = parser.parse_args()
    if options.frames < 1 or min(options.size) < 64:
        parser.error("expected at least one frame, and sides of 64 at least")
    return options


def sam2_pair(name: str, folder: Path) -> tuple[sam_rlx.Model, Any]:
    """Return our model, and a function that builds upstream's predictor for an area of holes."""
    from support import upstream_sam2, upstream_video
    from support.trained import trained

    if name == "sam2-nano":  # with the weights that upstream gets: the package's are packed
        model = sam_rlx.load_model(trained(name))
        return model, lambda area: upstream_video.build_nano(fill_hole_area=area)
    config = SAM2[name]
    weights = tiny_sam2.weights(config, 0)
    weights["sam_mask_decoder.pred_obj_score_head.layers.2.bias"] += np.float32(1.0)
    path = tiny_sam2.save_safetensors(folder / f"{name}.safetensors", config, weights)

    def build(area: int) -> Any:
        from support import upstream

        upstream.sam2.video_predictor.fill_holes_in_mask_scores = upstream_video.fill_holes
        return upstream_sam2.build_sam2(
            config, weights, "2.1", kind=upstream_video.video_predictor, fill_hole_area=area
        )

    return sam_rlx.load_model(path), build


def sam3_pair(name: str, folder: Path) -> tuple[sam_rlx.Model, Any]:
    """Do the same for SAM 3's tracker."""
    from support import upstream_sam3, upstream_sam3_nano, upstream_sam3_video
    from support.trained import trained

    if name == "sam3-nano":
        network = upstream_sam3_nano.image_model()
        model = sam_rlx.load_model(trained(name))
    else:
        network = upstream_sam3_video.network(SAM3[name])
        path = folder / f"{name}.safetensors"
        weights = upstream_sam3.meta_weights(network)
        model = sam_rlx.load_model(tiny_sam3.save_safetensors(path, SAM3[name], weights))
    return model, lambda area: upstream_sam3_video.tracker(
        network, use_memory_selection=True, fill_hole_area=area
    )


def rows(name: str, options: argparse.Namespace, folder: Path) -> list[tuple[str, ...]]:
    from support import video_parity

    family, hw = name[:4], tuple(options.size)
    frames = video_parity.write_folder(folder / "frames", options.frames, hw)
    model, build = (sam2_pair if family == "sam2" else sam3_pair)(name, folder)
    images = video_parity.images(frames)
    sources: dict[str, Any] = (
        {"folder": frames}
        if family == "sam2"
        else {
            "folder": frames,
            "images": images,
        }
    )
    found = []
    for source, ours in sources.items():
        for area in (0, AREAS[family]):
            upstreams = build(area)
            if family == "sam2":
                right = video_parity.sam2_logits(upstreams, frames, hw)
            else:
                right = video_parity.sam3_logits(
                    upstreams, str(frames) if source == "folder" else images
                )

            def compare(area: int = area, ours: Any = ours, right: Any = right, **how: Any) -> Any:
                session = sam_rlx.VideoPredictor(model, ours, fill_hole_area=area, **how)
                return video_parity.ious(video_parity.track(session, hw), right)

            ious, as_images = compare(), compare(resize="float")
            figures = (f"{x:.5f}" for x in (min(ious), np.mean(ious), min(as_images)))
            found.append((name, source, f"filled to {area}" if area else "left", *figures))
            print("| " + " | ".join(found[-1]) + " |", flush=True)
    return found


def main() -> int:
    options = arguments()
    if missing := rivals.missing_packages("pytorch"):
        sys.exit(f"video_parity.py: upstream runs on PyTorch, missing {missing}")
    print(f"{options.frames} frames of {options.size[0]} x {options.size[1]}, two objects.\n")
    print("| " + " | ".join(HEAD) + " |\n|" + " --- |" * len(HEAD))
    lowest = 1.0
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            lowest = min([lowest, *(float(row[3]) for row in rows(name, options, Path(folder)))])
    return 0 if lowest >= 0.999 else 1


if __name__ == "__main__":
    sys.exit(main())
