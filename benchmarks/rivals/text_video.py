"""The processes of `text_video.py`: ``python -m rivals.text_video TASK ORDER``.

Tasks are "weights", "threshold", and the engines. The order is JSON; each prints a JSON object.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import Any

import numpy as np

import resident
from rivals import export
from workloads import BUILD, SEED, Workload, sample_image, sample_texts, scores_of, threshold_for

TEXT = sample_texts(1)[0]


def options(order: dict[str, Any]) -> dict[str, Any]:
    """So many of the findings are followed for good, whatever becomes of them."""
    return {
        "score_threshold_detection": order["threshold"],
        "new_det_thresh": order["threshold"],
        "det_nms_thresh": 1.0,
        "hotstart_delay": 0,
        "hotstart_unmatch_thresh": 1_000_000,
        "hotstart_dup_thresh": 1_000_000,
        "max_num_objects": order["workload"]["objects"],
        "fill_hole_area": 16,
        "recondition_every_nth_frame": 16,
    }


def clip(workload: Workload, count: int) -> Any:
    return np.repeat(sample_image(workload.side, workload.side)[None], count, axis=0)


def weights(order: dict[str, Any]) -> dict[str, Any]:
    """Write the checkpoint; objects are there on every frame."""
    import torch
    from support import upstream_sam3

    workload = Workload.from_json(order["workload"])
    if workload.ours.exists():
        return {}
    BUILD.mkdir(parents=True, exist_ok=True)
    model = upstream_sam3.image_model(workload.config, SEED, clicks=True)
    head = model.inst_interactive_predictor.model.sam_mask_decoder.pred_obj_score_head
    with torch.no_grad():
        head.layers[-1].bias += 8
    export.save_sam3(workload, model)
    return {}


def threshold(order: dict[str, Any]) -> dict[str, Any]:
    """A score that a few queries reach."""
    import sam_rlx

    workload = Workload.from_json(order["workload"])
    predictor = sam_rlx.ConceptPredictor(
        sam_rlx.load_model(workload.ours), order["threads"], resize="integer"
    )
    image = sample_image(workload.side, workload.side)
    (raw,) = predictor.predict(image, text=TEXT, threshold=1.0, raw=True).raw
    return {"threshold": threshold_for(scores_of(raw.pred_logits, raw.presence_logit_dec))}


def ours(order: dict[str, Any]) -> dict[str, Any]:
    import sam_rlx

    workload = Workload.from_json(order["workload"])
    session = sam_rlx.VideoPredictor(
        sam_rlx.load_model(workload.ours),
        num_threads=order["threads"],
        resize="integer",
        text_options={"new_det_thresh_without_masklets": False, **options(order)},
    )
    session.add_text(TEXT)
    *frames, last = clip(workload, order["warmup"] + 1)
    for frame in frames:
        session.push(frame)
    start = time.perf_counter()
    session.push(last)
    seconds = time.perf_counter() - start
    parts = session._core.texts[0].seconds
    encoder = {"image encoder": seconds - sum(parts.values())}  # with resizing and the results
    figures = {"seconds": seconds, "objects": len(session.obj_ids), "parts": encoder | parts}
    return figures | {"peak_rss": resident.peak()}


def upstream_model(workload: Workload, order: dict[str, Any]) -> Any:
    import torch
    from support import upstream_sam3, upstream_sam3_masklets, upstream_sam3_nano

    from rivals import sam3_models

    torch.set_num_threads(order["threads"])
    detector = upstream_sam3.image_model(
        workload.config,
        seed=None,
        clicks=True,
        kind=upstream_sam3.sam3.Sam3ImageOnVideoMultiGPU,
        supervise_joint_box_scores=True,
    )
    stored = torch.load(workload.weights, mmap=True, weights_only=True)
    named = {upstream_sam3_nano.upstream_name(name): value for name, value in stored.items()}
    sam3_models.fill(detector, named)
    upstream_sam3.refresh(detector)
    return upstream_sam3_masklets.video_model(
        detector.eval().requires_grad_(False), **options(order)
    )


def upstream(order: dict[str, Any]) -> dict[str, Any]:
    import torch
    from support import upstream_sam3_masklets, upstream_sam3_video, upstream_video

    workload = Workload.from_json(order["workload"])
    model = upstream_model(workload, order)
    backbone = model.detector.backbone
    encode, known, encoded = backbone.forward_image, [], []

    def once(*args: Any, **kwargs: Any) -> Any:
        if not known:
            known.append(encode(*args, **kwargs))
        return dict(known[0])

    def counted(*args: Any, **kwargs: Any) -> Any:
        encoded.append(True)
        return encode(*args, **kwargs)

    # Upstream searches a frame while it is asked for the one before: one more has to follow.
    frames = clip(workload, order["warmup"] + 2)
    images = upstream_sam3_video.input_images(frames[:1], model.image_size, torch.float32)
    images = images.expand(len(frames), *images.shape[1:])
    with (
        upstream_sam3_video.stand_ins(),
        upstream_video.NoBFloat16(),
        upstream_sam3_masklets._frames(images, frames.shape[1:3]),
        contextlib.redirect_stdout(sys.stderr),
        torch.inference_mode(),
    ):
        state = model.init_state("clip.mp4")
        backbone.forward_image = once
        model.add_prompt(state, 0, text_str=TEXT)
        tracked = model.propagate_in_video(state, start_frame_idx=0)
        for _ in range(order["warmup"]):
            next(tracked)
        backbone.forward_image = counted
        start = time.perf_counter()
        next(tracked)
        seconds = time.perf_counter() - start
    if len(encoded) != 1:
        raise RuntimeError(f"expected one image encoded in the timed frame, found {len(encoded)}")
    objects = sum(len(s["obj_ids"]) for s in state["tracker_inference_states"])
    return {"seconds": seconds, "objects": objects, "peak_rss": resident.peak()}


TASKS = {"weights": weights, "threshold": threshold, "sam_rlx": ours, "pytorch": upstream}


def main() -> None:
    print(json.dumps(TASKS[sys.argv[1]](json.loads(sys.argv[2]))))


if __name__ == "__main__":
    main()
