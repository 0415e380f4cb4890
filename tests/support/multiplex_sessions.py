"""Sessions of SAM 3.1 in PyTorch: objects in buckets, which `multiplex_reference` follows."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sam_rlx
import torch
from numpy.typing import NDArray
from torch.nn import functional

from support import multiplex_reference as reference
from support import (
    tiny,
    tiny_sam3,
    tiny_sam3_1,
    upstream,
    upstream_sam3,
    upstream_sam3_1,
    upstream_video,
)
from support import upstream_sam3_video as video
from support.video_scripts import Step

_PREFIX = tiny_sam3_1.TRACKER
_NECK = tiny_sam3_1.NECK


def weights(
    seed: int, presence: float = 1.0, config: tiny_sam3.Sam3Config = tiny_sam3_1.TINY
) -> tuple[Any, tiny.Weights]:
    """Make upstream's image model and the weights of a file whose objects are mostly there."""
    model = upstream_sam3_1.image_model(config, seed)
    values = {
        **upstream_sam3_1.meta_weights(model, config),
        **tiny_sam3_1.tracker_weights(config, seed),
    }
    for name in ("sam_mask_decoder", "interactive_sam_mask_decoder"):
        values[f"{_PREFIX}{name}.pred_obj_score_head.layers.2.bias"] += np.float32(presence)
    return model, values


def save(path: Path, values: tiny.Weights) -> Path:
    """Write a file of SAM 3.1."""
    queries = len(values["detector.transformer.decoder.query_embed.weight"])
    return tiny_sam3.save_safetensors(path, tiny_sam3_1.with_queries(queries), values)


class Network(torch.nn.Module):
    """Trunk, the two necks of the tracker, and the tracker."""

    def __init__(self, model: Any, values: tiny.Weights) -> None:
        super().__init__()
        config = tiny_sam3_1.TINY
        neck = copy.deepcopy(model.backbone.vision_backbone)
        self.trunk = neck.trunk
        self.interactive, self.propagation = neck.sam2_convs, copy.deepcopy(neck.sam2_convs)
        for part, convs in (
            ("interactive_convs", self.interactive),
            ("propagation_convs", self.propagation),
        ):
            upstream.load_state_dict(convs, _below(values, f"{_NECK}{part}."))
        self.tracker = reference.Tracker(
            reference.Sizes(
                d_model=config.d_model,
                grid=config.grid,
                num_layers=4,
                dim_feedforward=2048,
                decoder_mlp_dim=2048,
            )
        )
        upstream.load_state_dict(self.tracker, _below(values, _PREFIX))
        self.eval()

    @property
    def side(self) -> int:
        return 14 * self.tracker.sizes.grid

    def encode(self, image: Any) -> tuple[Any, Any, Any, Any]:
        """Give the map (C, g, g) and the two finer levels for clicks, and those for buckets."""
        upstream_sam3.refresh(self)
        trunk = self.trunk(image[None])[-1]
        clicks = [conv(trunk) for conv in self.interactive[:3]]
        buckets = [conv(trunk) for conv in self.propagation[:3]]
        mine = self.tracker.interactive_sam_mask_decoder
        other = self.tracker.sam_mask_decoder
        return (
            clicks[2][0],
            [mine.conv_s0(clicks[0]), mine.conv_s1(clicks[1])],
            buckets[2][0],
            [other.conv_s0(buckets[0]), other.conv_s1(buckets[1])],
        )


def _below(values: tiny.Weights, prefix: str) -> tiny.Weights:
    return {n.removeprefix(prefix): w for n, w in values.items() if n.startswith(prefix)}


@dataclass
class _Batch:
    """Objects that came on one frame, by slot, and the past of each bucket."""

    slots: dict[Any, int] = field(default_factory=dict)
    pasts: dict[int, reference.Past] = field(default_factory=dict)
    end: int = 0


class Session:
    """Prompts and tracking with upstream's rules, as ours gives them to objects."""

    def __init__(self, network: Any, frames: Any, hw: tuple[int, int], tie: float = 0.0) -> None:
        self.network, self.frames, self.hw = network, frames, hw
        # Logits that differ by less belong to the second object; the least difference of all.
        self.tie, self.least = tie, np.inf
        self.batches: list[_Batch] = []
        self.new: dict[int, dict[Any, Any]] = {}  # by frame and object: outputs, mask of the video
        self.shown: dict[int, dict[Any, Any]] = {}  # by frame and object, after tracking
        self.prompted: dict[int, set[Any]] = {}
        self.points: dict[tuple[int, Any], Any] = {}
        self.tracked: set[int] = set()
        self.encoded = functools.lru_cache(2)(lambda t: network.encode(frames[t]))

    @property
    def slots(self) -> int:
        return int(self.network.tracker.sizes.slots)

    def _find(self, obj: Any) -> _Batch | None:
        return next((batch for batch in self.batches if obj in batch.slots), None)

    def _join(self, obj: Any, frame: int) -> None:
        if self._find(obj) is not None:
            return
        batch = next(
            (
                batch
                for batch in self.batches
                if not any(past.prompted for past in batch.pasts.values())
                and any(o in batch.slots for o in self.new.get(frame, {}))
            ),
            None,
        )
        if batch is None:
            batch = _Batch()
            self.batches.append(batch)
        batch.slots[obj] = batch.end
        batch.end += 1

    # ---- prompts

    def add_points(self, frame: int, obj: Any, points: Any, labels: Any, clear: bool) -> None:
        """Click on an object, with points in pixels of the video."""
        fractions = np.asarray(points, np.float32) / np.array(self.hw[::-1], np.float32)
        scaled = torch.from_numpy(fractions * np.float32(self.network.side))
        kinds = torch.tensor(labels, dtype=torch.int32)
        if not clear and (frame, obj) in self.points:
            before = self.points[frame, obj]
            scaled = torch.cat([before[0], scaled])
            kinds = torch.cat([before[1], kinds])
        self.points[frame, obj] = (scaled, kinds)
        map_, levels, _, _ = self.encoded(frame)
        mask = None
        last = self.new.get(frame, {}).get(obj)
        if frame in self.tracked and last is not None and last[1] is None:
            mask = last[0].masks[0].clamp(-32, 32)
        found = self.network.tracker.click(map_, levels, scaled, kinds, mask)
        self._prompt(frame, obj, (found, None))

    def add_mask(self, frame: int, obj: Any, mask: Any) -> None:
        """Give the mask (H, W) of an object."""
        map_, levels, _, _ = self.encoded(frame)
        side = 16 * self.network.tracker.sizes.grid
        wide = torch.from_numpy(mask).to(map_)
        fitting = functional.interpolate(
            wide[None, None], (side, side), mode="bilinear", antialias=True
        )[0, 0]
        found = self.network.tracker.mask(map_, levels, fitting)
        self.points.pop((frame, obj), None)
        self._prompt(frame, obj, (found, wide > 0.5))

    def _prompt(self, frame: int, obj: Any, output: Any) -> None:
        self._join(obj, frame)
        group = self.new.setdefault(frame, {})
        if output[1] is not None:
            batch = self._find(obj)
            for other, (found, mask) in group.items():
                if other != obj and mask is not None and self._find(other) is batch:
                    group[other] = (found, mask & ~output[1])
        group[obj] = output
        self.prompted.setdefault(frame, set()).add(obj)

    def remove(self, obj: Any) -> None:
        """Take an object out; its slot stays empty."""
        batch = self._find(obj)
        assert batch is not None
        for frame in [t for t, objs in self.prompted.items() if obj in objs]:
            self.prompted[frame].discard(obj)
            self.new.get(frame, {}).pop(obj, None)
            if not any(o in batch.slots for o in self.prompted[frame]):
                for past in batch.pasts.values():
                    if frame in past.prompted:
                        past.tracked[frame] = past.prompted.pop(frame)
        del batch.slots[obj]
        for group in self.shown.values():
            group.pop(obj, None)

    # ---- tracking

    def _low(self, output: Any) -> Any:
        found, mask = output
        if mask is None:
            return found.masks[0]
        low = 4 * self.network.tracker.sizes.grid
        wide = torch.where(mask, 1024.0, -1024.0).to(found.masks)
        return functional.interpolate(
            wide[None, None], (low, low), mode="bilinear", antialias=True
        )[0, 0]

    def _preflight(self) -> None:
        for frame in sorted(self.new):
            for batch in self.batches:
                if any(obj in batch.slots for obj in self.new[frame]):
                    self._condition(frame, batch)
        self.new.clear()

    def _condition(self, frame: int, batch: _Batch) -> None:
        group = {**self.shown.get(frame, {}), **self.new[frame]}
        members = [obj for obj in batch.slots if obj in group]
        low = torch.stack([self._low(group[obj]) for obj in members])
        side = self.network.side
        high = functional.interpolate(low[None], (side, side), mode="bilinear")[0]
        if len(members) > 1:
            (first, second), (best, next_best) = high.topk(2, dim=0)
            self.least = min(self.least, float((first - second).min()))
            best = torch.where(first - second < self.tie, next_best, best)
            mine = torch.arange(len(members))[:, None, None] == best
            high = torch.where(mine, high, high.clamp(max=-10))
        _, _, map_, _ = self.encoded(frame)
        outputs = {obj: group[obj][0] for obj in members}
        for bucket, objs in self._buckets(batch, members).items():
            at = [members.index(obj) for obj in objs]
            slots = [batch.slots[obj] % self.slots for obj in objs]
            past = batch.pasts.setdefault(bucket, reference.Past())
            past.tracked.pop(frame, None)
            tracker = self.network.tracker
            past.prompted[frame] = reference.Left(
                map_,
                tracker.remember(
                    map_,
                    slots,
                    high[at],
                    [float(outputs[obj].scores) for obj in objs],
                    [obj in self.prompted[frame] for obj in objs],
                ),
                tracker.in_slots(slots, torch.cat([outputs[obj].pointers for obj in objs])),
            )
        shown = self.shown.setdefault(frame, {})
        for i, obj in enumerate(members):
            found = outputs[obj]
            shown[obj] = (reference.Outputs(low[i][None], found.pointers, found.scores), None)

    def _buckets(self, batch: _Batch, members: Sequence[Any]) -> dict[int, list[Any]]:
        buckets: dict[int, list[Any]] = {}
        for obj in members:
            buckets.setdefault(batch.slots[obj] // self.slots, []).append(obj)
        return buckets

    def track(
        self, start: int | None = None, last: int | None = None, reverse: bool = False
    ) -> Any:
        """Track from a frame on; gives frames."""
        self._preflight()
        first = min(t for b in self.batches for p in b.pasts.values() for t in p.prompted)
        start = first if start is None else start
        end = (0 if reverse else len(self.frames) - 1) if last is None else last
        for frame in range(start, end + (-1 if reverse else 1), -1 if reverse else 1):
            for batch in self.batches:
                for bucket, objs in self._buckets(batch, list(batch.slots)).items():
                    self._follow(frame, batch, bucket, objs, reverse)
            self.tracked.add(frame)
            yield frame

    def _follow(
        self, frame: int, batch: _Batch, bucket: int, objs: Sequence[Any], reverse: bool
    ) -> None:
        past = batch.pasts[bucket]
        if frame in past.prompted:
            return
        _, _, map_, levels = self.encoded(frame)
        slots = [batch.slots[obj] % self.slots for obj in objs]
        tracker = self.network.tracker
        fused = tracker.condition(map_, frame, len(self.frames), past, reverse)
        found = tracker.decode(fused, levels, slots)
        memory = tracker.remember(
            map_, slots, found.masks, found.scores.tolist(), [False] * len(objs)
        )
        past.tracked[frame] = reference.Left(map_, memory, tracker.in_slots(slots, found.pointers))
        shown = self.shown.setdefault(frame, {})
        for k, obj in enumerate(objs):
            one = reference.Outputs(
                found.masks[k][None], found.pointers[k][None], found.scores[k][None]
            )
            shown[obj] = (one, None)

    # ---- results

    def logits(self, frame: int) -> tuple[int, dict[Any, Any], dict[Any, Any]]:
        """Give what is shown of a frame: logits at the size of the video, and scores."""
        group = {**self.shown.get(frame, {}), **self.new.get(frame, {})}
        order = [obj for batch in self.batches for obj in batch.slots if obj in group]
        logits = {}
        for obj in order:
            found, mask = group[obj]
            if mask is None:
                wide = functional.interpolate(
                    found.masks[:1][None], self.hw, mode="bilinear", align_corners=False
                )[0, 0]
            else:
                wide = torch.where(mask, 1024.0, -1024.0)
            logits[obj] = wide.numpy()
        return frame, logits, {obj: float(group[obj][0].scores) for obj in order}


TIE = 1e-4  # of logits; rounding to float32 changes them by less


def play(session: Session, steps: Sequence[Step]) -> list[Any]:
    """Do the steps; gives a frame's results after each prompt, and for each tracked frame."""
    results: list[Any] = []
    with torch.no_grad():
        for kind, *args in steps:
            if kind == "track":
                start = args[0].get("start_frame")
                most = args[0].get("max_frames")
                reverse = args[0].get("reverse", False)
                last = None if most is None else start + (1 - most if reverse else most - 1)
                results += [session.logits(t) for t in session.track(start, last, reverse)]
                continue
            if kind == "remove":
                session.remove(*args)
                continue
            frame, obj, prompt, *more = args
            if kind == "mask":
                session.add_mask(frame, obj, prompt)
            elif kind == "box":
                session.add_points(frame, obj, np.reshape(prompt, (2, 2)), [2, 3], True)
            else:
                session.add_points(frame, obj, prompt, more[0], more[1] if len(more) > 1 else True)
            results.append(session.logits(frame))
    return results


def check(
    parity: Any,
    model: sam_rlx.Model,
    network: Any,
    frames: NDArray[np.uint8],
    steps: Sequence[Step],
    **options: Any,
) -> list[sam_rlx.VideoFrame]:
    """Hold every mask of a script to the reference."""
    images = video.input_images(frames, network.side, torch.float32)
    hw = frames.shape[1:3]
    single = play(Session(network, images, hw), steps)
    double: Any = upstream.double(network)
    with upstream.float64():
        wide = Session(double, video.input_images(frames, network.side, torch.float64), hw)
        exact = play(wide, steps)
    # Where two objects claim a pixel equally, another rounding gives it to the other one.
    ties = [play(Session(network, images, hw, TIE), steps)] if wide.least < TIE else []
    options = {"history": None, "resize": "integer", **options}
    session = sam_rlx.VideoPredictor(model, frames, **options)
    found = upstream_video.play_ours(session, steps)
    return upstream_video.hold(parity, found, exact, single, ties)
