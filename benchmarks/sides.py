"""What does a smaller side of SAM 3's input cost and give?

    python benchmarks/sides.py                       # sam3-nano: agreement, layers, time, memory
    python benchmarks/sides.py --released            # SAM 3 of full size: time and memory
    python benchmarks/sides.py --sides 336 504 1008 --rounds 3

Seconds are of the clock, one image and one text on it, the sides in turn, each in a process of its
own; memory is the largest of that process. `agreement` is with what the same model finds at the
largest side: of all instances of both, the part that has a partner with an IoU of one half, and the
mean IoU of the partners; on photographs of scikit-image. `layers` is the largest error of a layer
beside PyTorch's network built at that side, as a part of what `sam_rlx.parity` allows, which needs
the reference packages. The weights of full size are random: their masks mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any, NamedTuple

import numpy as np

import client
import resident
import rivals
import run
from workloads import TEXT_VIDEO, Workload, sample_image, sample_texts

SIDES = (336, 672, 1008)
# Photographs that scikit-image carries, and words of sam3-nano.
IMAGES = ("astronaut", "cat", "coffee", "coins", "page", "rocket")
TEXTS = ("white object", "brown circle", "creature", "small black letter")
THRESHOLD = 0.3


class Cost(NamedTuple):
    """Of one image and one text: seconds, and bytes."""

    image: float
    text: float
    memory: int


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", type=int, nargs="+", default=list(SIDES))
    parser.add_argument(
        "--released", action="store_true", help="SAM 3 of full size, random weights"
    )
    parser.add_argument("--precision", choices=("float32", "bfloat16", "int8"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--one", help=argparse.SUPPRESS)  # what a process of its own does
    return parser.parse_args()


def model_of(order: dict[str, Any], side: int) -> Any:
    import sam_rlx

    return sam_rlx.load_model(order["model"], precision=order["precision"], image_size=side)


def cost(order: dict[str, Any]) -> Cost:
    """Encode an image and find one text on it."""
    import sam_rlx

    predictor = sam_rlx.ConceptPredictor(model_of(order, order["side"]), order["threads"])
    (text,) = sample_texts(1)
    image = sample_image(720, 960)
    for _ in range(2):  # the first pass of a process allocates and touches all
        start = time.perf_counter()
        predictor.set_image(image)
        encoded = time.perf_counter()
        predictor.predict(text=text, threshold=1.0)
        end = time.perf_counter()
    return Cost(encoded - start, end - encoded, resident.peak())


def found_at(order: dict[str, Any], side: int) -> list[Any]:
    """Return masks (N, H, W) for each text on each photograph."""
    import sam_rlx
    import skimage.data

    predictor = sam_rlx.ConceptPredictor(model_of(order, side), order["threads"])
    found = []
    for name in IMAGES:
        image = getattr(skimage.data, name)()
        predictor.set_image(image if image.ndim == 3 else np.repeat(image[..., None], 3, -1))
        found += [predictor.predict(text=text, threshold=THRESHOLD).masks for text in TEXTS]
    return found


def agreement(ours: list[Any], theirs: list[Any]) -> tuple[float, float, int]:
    """Return the part of instances with a partner, the mean IoU of partners, and how many are."""
    partners: list[float] = []
    count = 0
    for left, right in zip(ours, theirs, strict=True):
        count += len(left) + len(right)
        if not len(left) or not len(right):
            continue
        a, b = (masks.reshape(len(masks), -1).astype(np.float32) for masks in (left, right))
        both = a @ b.T
        iou = both / np.maximum(a.sum(1)[:, None] + b.sum(1) - both, 1)
        while iou.size and iou.max() >= 0.5:
            at = np.unravel_index(iou.argmax(), iou.shape)
            partners.append(float(iou[at]))
            iou = np.delete(np.delete(iou, at[0], 0), at[1], 1)
    part = 2 * len(partners) / count if count else 1.0
    return part, statistics.fmean(partners) if partners else 0.0, count


def layers(order: dict[str, Any], side: int) -> tuple[float, str]:
    """Return the largest error of a layer, in parts of its bound, and the layer's name."""
    from sam_rlx import parity

    report = parity.check(model_of(order, side), stages=("image", "text", "point"))
    worst = max(report.layers, key=lambda layer: layer.relative / layer.allowed)
    return worst.relative / worst.allowed, worst.path


def in_process(task: str, order: dict[str, Any]) -> Any:
    words = [__file__, "--one", json.dumps({**order, "task": task})]
    with client.python(words, {}, stdout=-1, text=True) as process:
        answer, _ = process.communicate()
    if process.returncode:
        sys.exit(f"sides.py: {task} at side {order.get('side')} failed")
    return json.loads(answer)


def one(order: dict[str, Any]) -> Any:
    """Do what a process of its own is for."""
    return {"cost": cost, "layers": lambda it: layers(it, it["side"])}[order["task"]](order)


def released(threads: int) -> str:
    """Write SAM 3 of full size with random weights, where it is not yet."""
    if missing := rivals.missing_packages("pytorch"):
        sys.exit(f"sides.py: the weights are made with PyTorch, missing {missing}")
    workload = Workload(TEXT_VIDEO, "sam3", objects=1)
    order = {"workload": workload.to_json(), "threads": threads}
    client.answer_of("rivals.text_video", ["weights", json.dumps(order)], "pytorch", threads)
    return str(workload.ours)


def main() -> None:
    options = arguments()
    if options.one:
        print(json.dumps(one(json.loads(options.one))))
        return
    order: dict[str, Any] = {
        "model": released(options.threads) if options.released else "sam3-nano",
        "precision": options.precision,
        "threads": options.threads,
    }
    sides = sorted(options.sides)
    costs: dict[int, list[Cost]] = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side in sides:
            costs[side].append(Cost(*in_process("cost", {**order, "side": side})))
    print(run.heading("Sides of SAM 3's input", options.threads) + "\n")
    judged = not options.released
    more = " partners | IoU | instances | error of layers |" if judged else ""
    print("| side | image, s | text, s | both, of the largest side | memory, MB |" + more)
    print("| --- " * (9 if judged else 5) + "|")
    largest = statistics.median(each.image + each.text for each in costs[sides[-1]])
    reference = found_at(order, sides[-1]) if judged else []
    for side in sides:
        median = [statistics.median(column) for column in zip(*costs[side], strict=True)]
        row = f"| {side} | {median[0]:.3f} | {median[1]:.3f} "
        row += f"| {(median[0] + median[1]) / largest:.2f} | {median[2] / 1e6:.0f} |"
        if judged:
            part, iou, count = agreement(found_at(order, side), reference)
            error, layer = in_process("layers", {**order, "side": side})
            row += f" {part:.2f} | {iou:.3f} | {count} | {error:.2f} ({layer}) |"
        print(row, flush=True)


if __name__ == "__main__":
    main()
