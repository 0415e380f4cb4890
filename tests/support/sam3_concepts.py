"""What the tests of SAM 3's texts share: a model that finds some things, and upstream's way."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from support import parity, tiny_sam3, upstream, upstream_sam3

CONFIG = replace(tiny_sam3.TINY, num_queries=40)


def image_model(
    seed: int = 0, clicks: bool = False, config: tiny_sam3.Sam3Config = CONFIG, **options: Any
) -> Any:
    """Build upstream's model with random weights that finds some of what it is asked for."""
    model = upstream_sam3.image_model(config, seed=seed, clicks=clicks, **options)
    with torch.no_grad():
        model.dot_prod_scoring.hs_proj.weight *= 10
        decoder = model.transformer.decoder
        decoder.query_embed.weight *= 20
        decoder.reference_points.weight *= 10
        decoder.presence_token_head.layers[-1].bias += 4
    return model


def save(path: Path, model: Any) -> Path:
    """Write a model of `image_model` as ours loads it."""
    return tiny_sam3.save_safetensors(path, CONFIG, upstream_sam3.meta_weights(model))


def processor(model: Any, threshold: float = 0.5) -> Any:
    return upstream_sam3.processor(model, CONFIG.img_size, threshold)


def center_size(box: Sequence[float], hw: tuple[int, int]) -> list[float]:
    """Turn pixels (x0, y0, x1, y1) into upstream's fractions (cx, cy, w, h)."""
    (x0, y0, x1, y1), (height, width) = box, hw
    return [(x0 + x1) / 2 / width, (y0 + y1) / 2 / height, (x1 - x0) / width, (y1 - y0) / height]


@functools.lru_cache(maxsize=2)
def _precisions(model: Any) -> tuple[Any, ...]:
    """Return a model in float64, in float32, and with weights that differ in their last bit."""
    nudged = [copy.deepcopy(model) for _ in range(parity.NUDGES)]
    for seed, one in enumerate(nudged):
        for weight in one.parameters():
            weight.data = torch.from_numpy(parity.last_bits(weight.detach().numpy(), seed))
    with upstream.float64():
        double = upstream_sam3.refresh(upstream.double(model))
    return double, model, *nudged


@dataclass(frozen=True)
class Expected:
    """Upstream's results in float64, and several in float32."""

    exact: dict[str, NDArray[Any]]
    single: list[dict[str, NDArray[Any]]]

    def hold(self, key: str, found: Any) -> None:
        """Hold an array to the one in float64, by the error of float32."""
        first, *more = (single[key] for single in self.single)
        parity.close(found, self.exact[key], first, key, more)

    def hold_masks(self, found: Any) -> None:
        """Hold masks (N, H, W); upstream's are where a probability is over one half."""
        parity.masks_agree(found, self.exact["masks_logits"][:, 0] - 0.5)


class Judges:
    """Upstream's processors in float64 and float32, each with a state."""

    def __init__(self, model: Any, side: int = CONFIG.img_size, threshold: float = 0.5) -> None:
        self.models = _precisions(model)
        self.processors = [upstream_sam3.processor(one, side, threshold) for one in self.models]
        self.states: list[dict[str, Any]] = [{} for _ in self.models]

    def each(self, call: Callable[[Any, Any, dict[str, Any]], Any]) -> list[Any]:
        """Return what a call (model, processor, state) gives, first in float64."""
        found = []
        trios = list(zip(self.models, self.processors, self.states, strict=True))
        with upstream_sam3.on_cpu():
            with upstream.float64():
                found.append(call(*trios[0]))
            found += [call(*trio) for trio in trios[1:]]
        return found

    def call(self, name: str, *args: Any) -> None:
        """Call a method of all processors, which changes their states."""
        self.each(lambda _, processor, state: getattr(processor, name)(*args, state))

    def begin(self) -> None:
        """Forget prompts and threshold, not the image."""
        for processor in self.processors:
            processor.confidence_threshold = 0.0
        self.call("reset_all_prompts")

    @property
    def hw(self) -> tuple[int, int]:
        """Height and width of the image."""
        return self.state["original_height"], self.state["original_width"]

    @property
    def state(self) -> dict[str, Any]:
        """The state in float32."""
        return self.states[1]

    def expected(self) -> Expected:
        """Return the results of all states."""
        exact, *single = map(results, self.states)
        return Expected(exact, single)

    def filtered(self) -> tuple[Expected, float]:
        """Set a threshold with scores on both sides, none near it -> results, and the threshold."""
        threshold = gap(upstream.array(self.states[0]["scores"]))
        self.call("set_confidence_threshold", threshold)
        assert 0 < len(self.state["scores"]) < CONFIG.num_queries
        return self.expected(), threshold


def ground(
    judges: Judges,
    text: str | None = None,
    boxes: Sequence[Sequence[float]] = (),
    box_labels: Sequence[int] = (),
) -> tuple[Expected, float]:
    """Run upstream's processors on one text, then with one more box at a time.

    The processors have an image. Returns results, and the threshold, which is set last.
    """
    judges.begin()
    if text is not None:
        judges.call("set_text_prompt", text)
    for box, label in zip(boxes, box_labels, strict=True):
        judges.call("add_geometric_prompt", center_size(box, judges.hw), bool(label))
    return judges.filtered()


def ground_at(judges: Judges, text: str, threshold: float) -> Expected:
    """Run upstream's processors on one text at a threshold."""
    judges.begin()
    judges.call("set_text_prompt", text)
    judges.call("set_confidence_threshold", threshold)
    return judges.expected()


def ground_points(judges: Judges, text: str, points: Any, labels: Any) -> tuple[Expected, float]:
    """Give points to upstream's processors, which have no method for them; as `ground`."""
    judges.begin()

    def prompt(model: Any, processor: Any, state: dict[str, Any]) -> None:
        fractions = torch.tensor(points, dtype=torch.float32) / torch.tensor(judges.hw[::-1])
        state["geometric_prompt"] = model._get_dummy_prompt()
        state["geometric_prompt"].append_points(fractions[:, None], torch.tensor(labels)[:, None])
        processor.set_text_prompt(text, state)

    judges.each(prompt)
    return judges.filtered()


def gap(scores: NDArray[Any]) -> float:
    """Return the middle of the widest gap between scores, not among the highest or lowest."""
    ordered = np.sort(scores.astype(np.float64))[len(scores) // 5 : -len(scores) // 5]
    widest = int(np.diff(ordered).argmax())
    return float(ordered[widest : widest + 2].mean())


def results(state: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the results of a state of upstream's."""
    names = ("masks_logits", "masks", "boxes", "scores")
    return {name: upstream.array(state[name]) for name in names}


def check(expected: Expected, masks: Any, boxes: Any, scores: Any) -> None:
    """Hold masks (N, H, W), boxes and scores to upstream's results, in the order of the queries."""
    assert len(expected.exact["scores"]) == len(scores)
    expected.hold("scores", scores)
    expected.hold("boxes", boxes)
    expected.hold_masks(masks)


def check_promise(expected: dict[str, NDArray[Any]], masks: Any, boxes: Any, scores: Any) -> None:
    """Hold results to those of one run in float32 by what is promised end to end.

    Scores and the fractions that boxes are made of within 1e-3, masks with an IoU of 0.999.
    """
    np.testing.assert_allclose(scores, expected["scores"], rtol=0, atol=1e-3)
    other = expected["masks"][:, 0]
    sides = np.array([*other.shape[:0:-1]] * 2)
    np.testing.assert_allclose(boxes / sides, expected["boxes"] / sides, rtol=0, atol=1e-3)
    shared, union = (masks & other).sum((1, 2)), (masks | other).sum((1, 2))
    assert (shared >= 0.999 * union).all(), shared / union
