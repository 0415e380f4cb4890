"""Upstream's SAM 2 video predictor at a small size, and the clips that both sides are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import sam_rlx
from numpy.typing import NDArray

from support import tiny, tiny_sam2, upstream, upstream_sam2

_torch: Any = vars(upstream)["torch"]
_ArgumentMode: Any = upstream.ArgumentMode
_MEAN = np.array([0.485, 0.456, 0.406])
_STD = np.array([0.229, 0.224, 0.225])


def clip(count: int, hw: tuple[int, int] = (72, 96), seed: int = 0) -> NDArray[np.uint8]:
    """Return frames (T, H, W, 3) of two bright shapes that move over a textured ground."""
    height, width = hw
    generator = np.random.default_rng([seed, 11])
    ground = generator.integers(0, 90, (height, width, 3))
    y, x = np.mgrid[:height, :width]
    frames = []
    for t in range(count):
        frame = ground + 8 * t
        disc = (x - 0.2 * width - 2.5 * t) ** 2 + (y - 0.4 * height) ** 2 < (0.16 * height) ** 2
        square = (abs(x - 0.75 * width + 2 * t) < 9) & (abs(y - 0.65 * height + t) < 11)
        frame[disc] = (230, 60 + 3 * t, 40)
        frame[square] = (40, 120, 240 - 2 * t)
        frames.append(np.clip(frame, 0, 255).astype(np.uint8))
    return np.stack(frames)


def components(mask: Any) -> tuple[Any, Any]:
    """Do what upstream's CUDA kernel does: labels of 8-connected positions, and their areas."""
    from scipy import ndimage

    torch = _torch
    labels, areas = torch.zeros(mask.shape, dtype=torch.int32), torch.zeros(mask.shape)
    for i, plane in enumerate(mask[:, 0].numpy()):
        found, count = ndimage.label(plane, structure=np.ones((3, 3)))
        sizes = np.bincount(found.ravel(), minlength=count + 1)
        labels[i, 0] = torch.from_numpy(found)
        areas[i, 0] = torch.from_numpy(np.where(found > 0, sizes[found], 0))
    return labels, areas


def fill_holes(mask: Any, max_area: int) -> Any:
    """Do what upstream does on a GPU with holes of at most `max_area` positions."""
    labels, areas = components(mask <= 0)
    return _torch.where((labels > 0) & (areas <= max_area), 0.1, mask)


def video_predictor(
    image_encoder: Any, memory_attention: Any, memory_encoder: Any, **rest: Any
) -> Any:
    """Make upstream's `SAM2VideoPredictor` with the arguments of `SAM2Base`."""
    return upstream.sam2.video_predictor.SAM2VideoPredictor(
        image_encoder=image_encoder,
        memory_attention=memory_attention,
        memory_encoder=memory_encoder,
        **rest,
    )


def build(
    weights: tiny.Weights, version: str = "2.1", fill_hole_area: int = 8, **switches: Any
) -> Any:
    """Build upstream's `SAM2VideoPredictor`, with the components of holes computed by SciPy."""
    upstream.sam2.video_predictor.fill_holes_in_mask_scores = fill_holes
    return upstream_sam2.build_sam2(
        tiny_sam2.TINY,
        weights,
        version,
        kind=video_predictor,
        fill_hole_area=fill_hole_area,
        **switches,
    )


def build_nano(**switches: Any) -> Any:
    """Build the same with the trained weights of the package."""
    upstream.sam2.video_predictor.fill_holes_in_mask_scores = fill_holes
    options = {"fill_hole_area": 8, **switches}
    return upstream_sam2.build_sam2_nano(kind=video_predictor, **options)


def input_images(frames: NDArray[np.uint8], side: int, dtype: Any) -> Any:
    """Resize and normalize frames to (T, 3, side, side), as SAM 2 does with single images."""
    torch = _torch
    x = torch.from_numpy(frames).permute(0, 3, 1, 2).to(dtype) / 255
    x = torch.nn.functional.interpolate(
        x, size=(side, side), mode="bilinear", align_corners=False, antialias=True
    )
    mean, std = (torch.from_numpy(v).to(torch.float32).to(dtype) for v in (_MEAN, _STD))
    return (x - mean[:, None, None]) / std[:, None, None]


def init_state(predictor: Any, images: Any, hw: tuple[int, int]) -> Any:
    """Start upstream's session on frames that are tensors already."""
    module = upstream.sam2.video_predictor
    before = module.load_video_frames
    module.load_video_frames = lambda **_: (images, *hw)
    try:
        return predictor.init_state(video_path="")
    finally:
        module.load_video_frames = before


class NoBFloat16(_ArgumentMode):  # type: ignore[misc]
    """Keep memories in float32 where upstream rounds them."""

    kinds = frozenset((_torch.dtype,))
    narrow: tuple[Any, ...] = (_torch.bfloat16,)

    def change(self, value: Any) -> Any:
        """Return the wider type."""
        return _torch.float32 if value in self.narrow else value


class NoHalf(NoBFloat16):
    """Keep frames in float32 too, which SAM 3's loaders round."""

    narrow = (_torch.bfloat16, _torch.float16)


@contextmanager
def precise(predictor: Any) -> Iterator[Any]:
    """Give a float64 copy of a predictor, its tables made anew."""
    double: Any = upstream.double(predictor)
    for child in double.modules():
        if isinstance(child, upstream.sam2.PositionEmbeddingSine):
            child.cache = {}
    with upstream.float64():
        upstream_sam2.refresh_rope(double, double.image_size // 16)
        yield double


Session = Callable[[Any, Any], list[Any]]
Step = tuple[Any, ...]  # what to do, and with what


def run(predictor: Any, frames: NDArray[np.uint8], script: Session) -> list[Any]:
    """Run a script (predictor, state) -> results in float32, memories included."""
    images = input_images(frames, predictor.image_size, _torch.float32)
    with NoBFloat16():
        return script(predictor, init_state(predictor, images, frames.shape[1:3]))


def run64(predictor: Any, frames: NDArray[np.uint8], script: Session) -> list[Any]:
    """Run the same in float64."""
    images = input_images(frames, predictor.image_size, _torch.float64)
    with precise(predictor) as double:
        return script(double, init_state(double, images, frames.shape[1:3]))


def score(state: Any, frame: int, obj: Any) -> float | None:
    """Find the object score that upstream has for a frame, if any."""
    index = state["obj_id_to_idx"][obj]
    for outputs in ("temp_output_dict_per_obj", "output_dict_per_obj"):
        for kind in ("cond_frame_outputs", "non_cond_frame_outputs"):
            group = state[outputs][index][kind]
            if frame in group:
                return float(group[frame]["object_score_logits"])
    return None


def _step(predictor: Any, state: Any, step: Step) -> list[Any]:
    """Do one step with upstream: a list of (frame, objects, logits)."""
    kind, *args = step
    if kind == "points":
        frame, obj, points, labels, *more = args
        clear = more[0] if more else True
        options = {"points": points, "labels": labels, "clear_old_points": clear}
        return [predictor.add_new_points_or_box(state, frame, obj, **options)]
    if kind == "box":
        frame, obj, box = args
        return [predictor.add_new_points_or_box(state, frame, obj, box=box)]
    if kind == "mask":
        return [predictor.add_new_mask(state, *args)]
    if kind == "track":
        (options,) = args
        most = options.get("max_frames")
        return predictor.propagate_in_video(  # type: ignore[no-any-return]
            state,
            start_frame_idx=options.get("start_frame"),
            max_frame_num_to_track=None if most is None else most - 1,
            reverse=options.get("reverse", False),
        )
    if kind == "clear":
        predictor.clear_all_prompts_in_frame(state, *args, need_output=False)
    elif kind == "remove":
        predictor.remove_object(state, *args, need_output=False)
    else:
        predictor.reset_state(state)
    return []


def play_upstream(steps: Sequence[Step]) -> Session:
    """Make a session of upstream's out of steps; returns (frame, logits and scores by object)."""

    def session(predictor: Any, state: Any) -> list[Any]:
        results = []
        for step in steps:
            for frame, obj_ids, logits in _step(predictor, state, step):
                scores = {obj: score(state, frame, obj) for obj in obj_ids}
                found = {obj: logits[i, 0].numpy() for i, obj in enumerate(obj_ids)}
                results.append((frame, found, scores))
        return results

    return session


def play_ours(session: sam_rlx.VideoPredictor, steps: Sequence[Step]) -> list[sam_rlx.VideoFrame]:
    """Do the steps with a session of ours."""
    results: list[sam_rlx.VideoFrame] = []
    for kind, *args in steps:
        if kind == "track":
            results += session.propagate(**args[0], return_logits=True)
        elif kind == "clear":
            session.clear_prompts(*args)
        elif kind == "remove":
            session.remove_object(*args)
        elif kind == "reset":
            session.reset()
        else:
            frame, obj, prompt, *more = args
            if kind == "points":
                labels, clear = more[0], more[1] if len(more) > 1 else True
                points = {"point_coords": prompt, "point_labels": labels}
                session.add_prompt(frame, obj, **points, clear_old_points=clear)
            else:
                session.add_prompt(frame, obj, **{kind: prompt})
            results.append(session.frame(frame, return_logits=True))
    return results


def iou(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    """Return the intersection over union of two masks, 1 if both are empty."""
    union = np.count_nonzero(a | b)
    return np.count_nonzero(a & b) / union if union else 1.0


def hold(
    parity: Any,
    ours: list[sam_rlx.VideoFrame],
    exact: list[Any],
    single: list[Any],
    more: Sequence[list[Any]] = (),
) -> list[sam_rlx.VideoFrame]:
    """Hold frames of ours to upstream's in float64, as good as upstream's own float32.

    `more` are further runs of it, see `parity.close`.
    """
    assert [r.frame_index for r in ours] == [r[0] for r in exact]
    for position, (found, right, rough) in enumerate(zip(ours, exact, single, strict=True)):
        assert list(found.masks) == [k for k, score in right[2].items() if score is not None]
        for obj, expected in right[2].items():
            if expected is None:
                assert (right[1][obj] == -1024).all()
                continue
            name = f"result {position}, frame {found.frame_index}, object {obj}"
            assert abs(expected) > 1e-3, f"{name}: choose another seed"
            assert found.scores[obj] == pytest.approx(expected, abs=1e-3), name
            assert found.logits is not None
            further = [run[position][1][obj] for run in more]
            parity.close(found.logits[obj], right[1][obj], rough[1][obj], name, further)
            assert iou(found.masks[obj], right[1][obj] > 0) >= 0.999, name
    return ours


def check(
    parity: Any,
    model: sam_rlx.Model,
    predictor: Any,
    frames: NDArray[np.uint8],
    steps: Sequence[Step],
    **options: Any,
) -> list[sam_rlx.VideoFrame]:
    """Hold every mask of a script to upstream."""
    session = play_upstream(steps)
    single = run(predictor, frames, session)
    exact = run64(predictor, frames, session)
    options = {"history": None, "resize": "float", **options}  # as `images`
    ours = play_ours(sam_rlx.VideoPredictor(model, frames, **options), steps)
    return hold(parity, ours, exact, single)
