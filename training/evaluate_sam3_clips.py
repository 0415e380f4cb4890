"""Measure how well a checkpoint of SAM 3 follows objects of held-out clips, with the package.

`python -m training.evaluate_sam3_clips FILE` prints J for clicks, boxes and masks on the first
frame, and for texts: J of the objects that were found on the first frame and keep their number,
how many were found, how often an object keeps its number, and how many texts about nothing in
the clip find nothing in any frame.
"""

from __future__ import annotations

import argparse
import collections
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from training.clip_figures import MIN_AREA, jaccard, measure_clips
from training.engines_sam2 import SamRlxClips
from training.evaluate import show
from training.named_clips import NamedClips
from training.texts import ANY, END, NOUNS, WORDS, TextMaker, text_maker

SEED = 567_891
SIDE = 384
FOUND = 0.5
COLOUR, NOUN = 1, 3


class NamedClip(NamedTuple):
    """A clip and what is in it.

    Attributes
    ----------
    frames : list of ndarray
        (H, W, 3) uint8 each.
    masks : ndarray
        (K, T, H, W) bool of all objects.
    attributes : Tensor
        (K, 4) numbers of size, colour, surface and noun.
    """

    frames: list[np.ndarray]
    masks: np.ndarray
    attributes: Tensor

    def seen(self) -> np.ndarray:
        """Objects (K,) that can be seen in the first frame."""
        return self.masks[:, 0].sum((1, 2)) >= MIN_AREA

    def meant(self, wanted: Tensor) -> list[int]:
        """Objects that have the attributes (4,) that are named."""
        same = (self.attributes == wanted) | (wanted == ANY)
        return same.all(1).nonzero()[:, 0].tolist()


def named_clips(maker: NamedClips, count: int, frames: int) -> list[NamedClip]:
    """Make clips of named objects."""
    out = []
    for _ in range(count):
        clips, attributes = maker.make_named(1, frames, SIDE, stretched=False)
        owner = clips.owner[0].numpy()
        masks = np.stack([owner == k + 1 for k in range(attributes.shape[1])])
        pixels = clips.pixels[0].permute(0, 2, 3, 1).numpy().astype(np.uint8)
        out.append(NamedClip(list(pixels), masks, attributes[0]))
    return out


def texts_of(clip: NamedClip) -> tuple[list[Tensor], Tensor | None]:
    """Colours with nouns that mean something in the first frame, and a pair that is not there.

    Texts that mean an object of which too little is seen at first are left out.
    """
    seen = clip.seen()
    pairs = {(int(a[COLOUR]), int(a[NOUN])) for a in clip.attributes}
    usual = []
    for colour, noun in sorted(pairs):
        wanted = torch.tensor([ANY, colour, ANY, noun])
        if seen[clip.meant(wanted)].all():
            usual.append(wanted)
    for colour, noun in sorted(pairs):
        for shift in range(1, len(NOUNS)):
            other = (noun + shift) % len(NOUNS)
            if (colour, other) not in pairs:
                return usual, torch.tensor([ANY, colour, ANY, other])
    return usual, None


def said(maker: TextMaker, wanted: Tensor) -> str:
    """The words for attributes (4,)."""
    words = {number: word for word, number in WORDS.items()}
    ids = maker.tokens(wanted[None, None])[0, 0].tolist()
    return " ".join(words[number] for number in ids[1 : ids.index(END)])


def follow(engine: SamRlxClips, clip: NamedClip, text: str) -> list[dict[Any, np.ndarray]]:
    """Masks of what a text names, by object, for each frame."""
    predictor = engine.open(clip.frames)
    predictor.add_text(text, frame_index=0)
    seen = {f.frame_index: f.masks for f in predictor.propagate()}
    return [seen.get(t, {}) for t in range(len(clip.frames))]


def best(masks: dict[Any, np.ndarray], wanted: np.ndarray) -> Any:
    """The object whose mask fits best, if one fits."""
    fits = {k: jaccard(m, wanted) for k, m in masks.items()}
    lead = max(fits, key=fits.get, default=None)
    return lead if lead is not None and fits[lead] >= FOUND else None


def judge(found: list[dict[Any, np.ndarray]], wanted: np.ndarray) -> dict[str, list[float]]:
    """Figures of one object with masks (T, H, W)."""
    name = best(found[0], wanted[0])
    figures: dict[str, list[float]] = {"found on the first frame": [float(name is not None)]}
    if name is None:
        return figures
    nothing = np.zeros_like(wanted[0])
    rest = range(1, len(wanted))
    figures["J of found objects"] = [
        float(np.mean([jaccard(found[t].get(name, nothing), wanted[t]) for t in rest]))
    ]
    leads = [best(found[t], wanted[t]) for t in rest if wanted[t].sum() >= MIN_AREA]
    figures["number kept, where followed"] = [float(k == name) for k in leads if k is not None]
    return figures


def measure_texts(
    engine: SamRlxClips, maker: TextMaker, clips: list[NamedClip], most: int
) -> dict[str, list[float]]:
    """Follow what up to `most` texts of each clip name, and what one about nothing finds."""
    figures: dict[str, list[float]] = collections.defaultdict(list)
    for clip in clips:
        usual, absent = texts_of(clip)
        for wanted in usual[:most]:
            found = follow(engine, clip, said(maker, wanted))
            for k in clip.meant(wanted):
                for name, values in judge(found, clip.masks[k]).items():
                    figures[name] += values
        if absent is not None:
            found = follow(engine, clip, said(maker, absent))
            empty = not any(m.any() for masks in found for m in masks.values())
            figures["texts about nothing left empty"].append(float(empty))
    return dict(figures)


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--clips", type=int, default=24)
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--objects", type=int, default=3, help="prompted objects per clip at most")
    args = parser.parse_args()
    named = text_maker(torch.device("cpu"), SEED, 400, 40, 1)
    clips = named_clips(NamedClips(named), args.clips, args.frames)
    engine = SamRlxClips(args.checkpoint)
    prompted = [(c.frames, list(c.masks[c.seen()][: args.objects])) for c in clips]
    show("prompts on the first frame", measure_clips(engine, prompted))
    show("texts", measure_texts(engine, named, clips, args.objects))


if __name__ == "__main__":
    main()
