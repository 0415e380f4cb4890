"""What do examples of another image give, beside a text and beside a box on the image itself?

    python benchmarks/examples.py                  # sam3-nano on 150 scenes
    python benchmarks/examples.py --scenes 20

Held-out scenes of `training`, which need PyTorch. What is asked for is a colour and a noun, such as
"red circle", that means something on the scene and on others; examples are boxes around one object
of each of those. Masks are right with an IoU of one half. The model was trained with examples of
the same image alone, as SAM 3 was.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import run
from precision import ROOT, SEED, SIDE, box_around, mask_iou

POOL = 400  # scenes that are looked through
OTHERS = 4  # scenes with examples
THRESHOLD = 0.5


class Shown(NamedTuple):
    """A scene, and the masks of what is asked for on it."""

    pixels: NDArray[np.uint8]
    masks: list[NDArray[np.bool_]]


class Asked(NamedTuple):
    """A text, a scene, other scenes with examples, and which object of each is the example."""

    text: str
    scene: Shown
    others: list[Shown]
    chosen: list[int]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=int, default=150)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def scenes_by_text() -> dict[str, list[Shown]]:
    """Return the scenes on which a text means something, for each colour and noun."""
    sys.path.insert(0, str(ROOT))
    import torch

    from training.texts import ANY, COLOURS, NOUNS, text_maker

    pairs = [(i, j) for i in range(len(COLOURS)) for j in range(len(NOUNS))]
    wanted = torch.tensor([[ANY, colour, ANY, noun] for colour, noun in pairs])
    names = [f"{list(COLOURS)[colour]} {NOUNS[noun]}" for colour, noun in pairs]
    maker = text_maker(torch.device("cpu"), SEED, POOL, 40, 1)
    maker.texts = lambda attributes, _seen, _count: wanted.expand(len(attributes), -1, -1)
    found: dict[str, list[Shown]] = {name: [] for name in names}
    for _ in range(POOL):
        scene = maker.make(1, SIDE, len(pairs), examples=False)
        pixels = scene.pixels[0].permute(1, 2, 0).contiguous().numpy().astype(np.uint8)
        owner = scene.owner[0].numpy()
        for text, objects in enumerate(scene.meant[0]):
            if objects.any():
                masks = [owner == number + 1 for number in objects.nonzero()[:, 0].tolist()]
                found[names[text]].append(Shown(pixels, masks))
    return found


def asked(count: int) -> Iterator[Asked]:
    """Draw texts with a scene and other scenes."""
    rng = np.random.default_rng(SEED)
    found = {text: shown for text, shown in scenes_by_text().items() if len(shown) > OTHERS}
    texts = sorted(found)
    for _ in range(count):
        text = texts[rng.integers(len(texts))]
        shown = found[text]
        scene, *others = (shown[i] for i in rng.permutation(len(shown))[: OTHERS + 1])
        chosen = [int(rng.integers(len(each.masks))) for each in (scene, *others)]
        yield Asked(text, scene, others, chosen)


def ways(predictor: Any) -> dict[str, Callable[[Asked], dict[str, Any]]]:
    """Return the prompts that are compared, by their names in the table."""

    def box(shown: Shown, chosen: int) -> list[list[int]]:
        return [box_around(shown.masks[chosen])]

    def examples(it: Asked, images: int, **options: Any) -> list[Any]:
        pairs = zip(it.others[:images], it.chosen[1:], strict=False)
        return [
            predictor.encode_examples(shown.pixels, box(shown, chosen), **options)
            for shown, chosen in pairs
        ]

    plain = {"positions": False}
    return {
        "text": lambda it: {"text": it.text},
        "box on the image": lambda it: {"boxes": box(it.scene, it.chosen[0])},
        "example of 1 other image": lambda it: {"examples": examples(it, 1)},
        "the same without positions": lambda it: {"examples": examples(it, 1, **plain)},
        f"examples of {OTHERS}": lambda it: {"examples": examples(it, OTHERS)},
        "the same without positions ": lambda it: {"examples": examples(it, OTHERS, **plain)},
        "text, example of 1": lambda it: {"text": it.text, "examples": examples(it, 1)},
        f"text, examples of {OTHERS}": lambda it: {
            "text": it.text,
            "examples": examples(it, OTHERS),
        },
    }


def judge(found: Any, masks: list[NDArray[np.bool_]]) -> list[tuple[float, bool]]:
    """Return the score of each instance, and whether it is right; each object is found once."""
    free, judged = list(masks), []
    for index in np.argsort(-found.scores, kind="stable"):
        fits = [i for i, mask in enumerate(free) if mask_iou(found.masks[index], mask) >= 0.5]
        judged.append((float(found.scores[index]), bool(fits)))
        for i in fits[:1]:
            free.pop(i)
    return judged


def main() -> None:
    options = arguments()
    import sam_rlx

    sys.path.insert(0, str(ROOT))
    from training.evaluate_sam3 import average_precision

    predictor = sam_rlx.ConceptPredictor(sam_rlx.load_model("sam3-nano"), options.threads)
    compared = ways(predictor)
    judged: dict[str, list[tuple[float, bool]]] = {name: [] for name in compared}
    objects = 0
    for it in asked(options.scenes):
        objects += len(it.scene.masks)
        for name, prompts in compared.items():
            found = predictor.predict(it.scene.pixels, threshold=0.0, **prompts(it))
            judged[name] += judge(found, it.scene.masks)
    print(run.heading("Examples of other images, sam3-nano", options.threads) + "\n")
    print(f"{options.scenes} scenes, {objects} objects\n")
    print("| prompt | mask AP at IoU 0.5 | found | of what is found, right | median score, right |")
    print("| --- " * 5 + "|")
    for name, pairs in judged.items():
        scores, right = np.array([s for s, _ in pairs]), np.array([r for _, r in pairs], bool)
        kept = scores > THRESHOLD
        hits = int((kept & right).sum())
        print(
            f"| {name.strip()} | {average_precision(scores, right, objects):.3f} "
            f"| {hits / objects:.2f} | {hits / max(int(kept.sum()), 1):.2f} "
            f"| {np.median(scores[right]) if right.any() else 0:.2f} |"
        )


if __name__ == "__main__":
    main()
