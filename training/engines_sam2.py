"""Images and clips with the PyTorch modules of SAM 2.1, and clips with the package."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from training import export
from training.engines import TRAINED, Answer
from training.sam2 import Decoded, Features, Memory, Pointers, Sam2
from training.sam2.sam2 import NO_OBJECT, PADDING, no_points

CHECKPOINT = TRAINED / "sam2-nano.safetensors"


@dataclasses.dataclass
class Frame:
    """Masks of one frame by object number, bool (H, W)."""

    frame_index: int
    masks: dict[int, np.ndarray]


class ClipEngine(Protocol):
    """What the evaluation needs of a video predictor; one per clip."""

    def add_prompt(
        self,
        frame_index: int,
        obj_id: int,
        point_coords: np.ndarray | None = None,
        point_labels: np.ndarray | None = None,
        box: np.ndarray | None = None,
        mask: np.ndarray | None = None,
    ) -> object:
        """Prompt for an object on a frame, in pixels of the clip."""

    def propagate(self) -> Iterator[Frame]:
        """Yield the masks of all objects, frame by frame."""


class Tracked(NamedTuple):
    """Mask logits (1, 1, 4g, 4g) after the object gate, and the object score (1, 1)."""

    low: Tensor
    presence: Tensor


def resize_pixels(image: np.ndarray, side: int) -> Tensor:
    """Stretch an RGB image (H, W, 3) uint8 to (1, 3, side, side) float in 0..255."""
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float()
    return F.interpolate(pixels, (side, side), mode="bilinear", antialias=True)


def single_answer(got: Decoded, config) -> tuple[Tensor, Tensor]:
    """The mask (N, 1, h, w) and IoU (N, 1) given where one answer is wanted.

    The first mask if it is stable around its threshold, else the most promising alternative.
    """
    delta = config.dynamic_multimask_stability_delta
    first = got.logits[:, :1].flatten(2)
    inner, outer = (first > delta).sum(-1).float(), (first > -delta).sum(-1).float()
    stability = torch.where(outer > 0, inner / outer, 1.0)
    stable = stability >= config.dynamic_multimask_stability_thresh
    index = torch.where(stable[:, 0], 0, got.iou[:, 1:].argmax(1) + 1)
    n = torch.arange(len(index))
    return got.logits[n, index][:, None], got.iou[n, index][:, None]


class TorchTracker:
    """One object in one clip: the memory bank and the rules of upstream's video predictor.

    Parameters
    ----------
    model : Sam2
        The model.
    frames : int
        Length of the clip.
    """

    def __init__(self, model: Sam2, frames: int) -> None:
        self.model = model
        self.frames = frames
        self.prompted: set[int] = set()
        self.memories: dict[int, Memory] = {}

    def start_points(self, t: int, features: Features, coords: Tensor, labels: Tensor) -> Tracked:
        """Begin with points (P, 2) and labels (P,), boxes as two points in front."""
        coords = torch.cat([coords, torch.zeros(1, 2)])[None]
        labels = torch.cat([labels, torch.tensor([PADDING])])[None]
        source = self.model.without_memory(features.top)
        got = self.model.decode(source, features, coords, labels)
        self.prompted.add(t)
        return self._finish(t, features, got, labels.shape[1] - 1 < 2, binary=True)

    def start_mask(self, t: int, features: Features, mask: Tensor) -> Tracked:
        """Begin with a mask (1, 1, S, S) of zeros and ones."""
        token, presence = self.model.mask_token(features, mask)
        seen = mask.flatten(1).any(1)
        pointer = self.model.pointer(token, presence[:, 0] > 0)
        pointer = seen * pointer + ~seen * self.model.no_obj_ptr
        self.prompted.add(t)
        logits = mask * 20 - 10
        side = (mask.shape[-2] // 4, mask.shape[-1] // 4)
        low = F.interpolate(logits, side, mode="bilinear", antialias=True)
        spatial = self.model.remember(features.top, logits.sigmoid(), seen)
        self.memories[t] = Memory(spatial, pointer)
        return Tracked(low, (20.0 * seen - 10)[:, None])

    def track(self, t: int, features: Features) -> Tracked:
        """Follow the object into frame `t`."""
        config = self.model.config
        first = sorted(self.prompted)
        spatial = [(k, 0) for k in first]
        for back in range(config.num_maskmem - 1, 0, -1):
            if t - back in self.memories and t - back not in self.prompted:
                spatial.append((t - back, back))
        pointers = [(k, t - k) for k in first if k <= t]
        longest = min(self.frames, config.max_obj_ptrs_in_encoder)
        for back in range(1, longest):
            if t - back in self.memories and t - back not in self.prompted:
                pointers.append((t - back, back))
        times = self.model.times(features.top.shape[-1])
        memories = [
            (self.model.store(self.memories[k].spatial), [rows[back - 1] for rows in times])
            for k, back in spatial
        ]
        tokens = torch.stack([self.memories[k].pointer for k, _ in pointers], 1)
        share = torch.tensor([float(back) for _, back in pointers]) / max(longest - 1, 1)
        source = self.model.condition(features.top, memories, Pointers(tokens, share))
        got = self.model.decode(source, features, *no_points(1, source.device))
        return self._finish(t, features, got, multimask=True, binary=False)

    def _finish(
        self, t: int, features: Features, got: Decoded, multimask: bool, binary: bool
    ) -> Tracked:
        """Choose a mask, apply the object gate and remember the frame."""
        present = got.presence[:, 0] > 0
        index = int(got.iou[0, 1:].argmax()) + 1 if multimask else 0
        low = got.logits[:, index][:, None]
        if not multimask:
            low, _ = single_answer(got, self.model.config)
        low = torch.where(present[:, None, None, None], low, NO_OBJECT)
        pointer = self.model.pointer(got.tokens[:, index], present)
        side = features.top.shape[-1] * self.model.config.backbone_stride
        high = F.interpolate(low, (side, side), mode="bilinear")
        value = (high > 0).float() if binary else high.sigmoid()
        self.memories[t] = Memory(self.model.remember(features.top, value, present), pointer)
        return Tracked(low, got.presence)


class TorchSam2Engine:
    """Images, with upstream's pre- and post-processing."""

    def __init__(self, checkpoint: Path) -> None:
        self.model = export.load(checkpoint)
        self.side = self.model.config.image_size

    @torch.no_grad()
    def set_image(self, image: np.ndarray) -> None:
        """Stretch, normalize and encode an image."""
        self.shape = image.shape[:2]
        pixels = self.model.normalise(resize_pixels(image, self.side))
        self.features = self.model.encode(pixels)

    @torch.no_grad()
    def predict(
        self,
        points: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        box: np.ndarray | None = None,
        mask_input: np.ndarray | None = None,
        multimask: bool = True,
    ) -> Answer:
        """Answer a prompt in pixels of the image."""
        coords, kinds = prompt_points(points, labels, box, self.shape, self.side)
        coords = torch.cat([coords, torch.zeros(1, 2)])[None]
        kinds = torch.cat([kinds, torch.tensor([PADDING])])[None]
        mask = None
        if mask_input is not None:
            mask = torch.from_numpy(mask_input).reshape(1, 1, *mask_input.shape[-2:])
        source = self.model.without_memory(self.features.top)
        got = self.model.decode(source, self.features, coords, kinds, mask)
        low, iou = got.logits[:, 1:], got.iou[:, 1:]
        if not multimask:
            low, iou = single_answer(got, self.model.config)
        full = F.interpolate(low, self.shape, mode="bilinear")
        low = low.clamp(-32, 32)
        return Answer((full[0] > 0).numpy(), iou[0].numpy(), low[0].numpy())


def prompt_points(
    points: np.ndarray | None,
    labels: np.ndarray | None,
    box: np.ndarray | None,
    shape: Sequence[int],
    side: int,
) -> tuple[Tensor, Tensor]:
    """Points and the corners of a box, in pixels of the network's input: (P, 2) and (P,)."""
    coords, kinds = [], []
    if box is not None:
        coords.append(np.asarray(box, np.float64).reshape(2, 2))
        kinds += [2, 3]
    if points is not None:
        coords.append(np.asarray(points, np.float64).reshape(-1, 2))
        kinds += np.asarray(labels).ravel().tolist()
    zoom = side / np.array(shape[::-1], np.float64)
    positions = torch.from_numpy(np.concatenate(coords) * zoom).float()
    return positions, torch.tensor(kinds, dtype=torch.long)


class TorchClipEngine:
    """Clips, with the PyTorch modules; prompts on the first frame of each object only."""

    def __init__(self, model: Sam2, frames: Sequence[np.ndarray]) -> None:
        self.model = model
        self.images = frames
        self.shape = frames[0].shape[:2]
        self.prompts: dict[int, tuple[int, dict[str, np.ndarray | None]]] = {}

    def add_prompt(
        self,
        frame_index: int,
        obj_id: int,
        point_coords: np.ndarray | None = None,
        point_labels: np.ndarray | None = None,
        box: np.ndarray | None = None,
        mask: np.ndarray | None = None,
    ) -> None:
        """Keep the prompt for `propagate`."""
        self.prompts[obj_id] = (
            frame_index,
            {"points": point_coords, "labels": point_labels, "box": box, "mask": mask},
        )

    @torch.no_grad()
    def propagate(self) -> Iterator[Frame]:
        """Yield the masks of all objects, frame by frame."""
        trackers = {k: TorchTracker(self.model, len(self.images)) for k in self.prompts}
        side = self.model.config.image_size
        for t, image in enumerate(self.images):
            features = self.model.encode(self.model.normalise(resize_pixels(image, side)))
            masks = {}
            for k, tracker in trackers.items():
                start, prompt = self.prompts[k]
                if t < start:
                    continue
                got = self._start(tracker, t, features, prompt) if t == start else None
                got = got or tracker.track(t, features)
                high = F.interpolate(got.low, self.shape, mode="bilinear")
                masks[k] = (high[0, 0] > 0).numpy()
            yield Frame(t, masks)

    def _start(
        self,
        tracker: TorchTracker,
        t: int,
        features: Features,
        prompt: dict[str, np.ndarray | None],
    ) -> Tracked:
        side = self.model.config.image_size
        if prompt["mask"] is not None:
            mask = torch.from_numpy(np.asarray(prompt["mask"], np.float32))[None, None]
            mask = F.interpolate(mask, (side, side), mode="bilinear", antialias=True)
            return tracker.start_mask(t, features, (mask >= 0.5).float())
        coords, kinds = prompt_points(
            prompt["points"], prompt["labels"], prompt["box"], self.shape, side
        )
        return tracker.start_points(t, features, coords, kinds)


class TorchClips:
    """Make a `TorchClipEngine` per clip."""

    def __init__(self, checkpoint: Path) -> None:
        self.model = export.load(checkpoint)

    def open(self, frames: Sequence[np.ndarray]) -> ClipEngine:
        """Begin with a clip of (H, W, 3) uint8 frames."""
        return TorchClipEngine(self.model, frames)


class SamRlxClips:
    """Make a video predictor of the package per clip."""

    def __init__(self, checkpoint: Path) -> None:
        import sam_rlx

        self.module = sam_rlx
        self.model = sam_rlx.load_model(checkpoint)

    def open(self, frames: Sequence[np.ndarray]) -> ClipEngine:
        """Begin with a clip of (H, W, 3) uint8 frames."""
        return self.module.VideoPredictor(self.model, frames)


CLIP_ENGINES = {"sam_rlx": SamRlxClips, "torch": TorchClips}
