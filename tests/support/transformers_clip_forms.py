"""Calls of transformers' processors and models of clips in many forms, for both sides.

``python tests/support/transformers_clip_forms.py`` writes what transformers gives to `STORED`.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from support.processor_forms import described, material, without_bytes

STORED = Path(__file__).parents[1] / "data" / "transformers_clip_forms.json"

# S(video) makes a session. D(frame, names, ...) gives a session of three frames prompts, with the
# short names of processor_forms. M(steps) runs steps on a session of four frames: c(frame,
# names) gives clicks, r(frame) runs a frame, g(...) runs through the clip, s(n) is a stream.
FORMS = {
    "session": """
S([A] * 3)
S([a] * 3)
S(np.stack([A] * 3))
S(np.stack([A] * 3).transpose(0, 3, 1, 2))
S([[a] * 3])
S(t(np.stack([A] * 3)))
S(None)
S(A)
S([a, b])
S([A] * 3, dtype="float32")
S([a.convert("L")] * 2)
""",
    "prompts": """
D(0, 1, p=[[[q]]], l=[[[1]]])
D(0, "x", p=[[[q]]], l=[[[1]]])
D(9, 1, p=[[[q]]], l=[[[1]]])
D(0, [1, 2], p=[[[q], [[1, 2]]]], l=[[[1], [0]]])
D(0, 1, b=[[x]])
D(0, 1, b=[[x]], p=[[[q]]], l=[[[1]]])
D(0, [1, 2], b=[[x, [5, 6, 7, 8]]])
D(0, 1, m=G > 99)
D(0, 1, m=[G > 99])
D(0, 1, m=G)
D(0, [1, 2], p=[[[q]]], l=[[[1]]])
D(0, [1, 2], m=G > 99)
D(0, 1, p=[[q]], l=[[1]])
D(0, 1, p=[[[q]]])
D(0, 1, l=[[[1]]])
D(0, 1)
D(0, 1, b=[[x]], clear_old_inputs=False)
D(0, 1, m=G > 99, b=[[x]])
D(0, 1, m=G[0] > 99)
""",
    "model": """
c(0, 1), r(0), g()
D(0, 1, b=[[x]]), r(0), g()
D(0, 1, m=G > 99), r(0), g()
c(0, [1, 2]), r(0), g()
c(1, 1), r(1), g(start_frame_idx=1)
c(2, 1), r(2), g()
c(2, 1), r(2), g(reverse=True)
c(0, 1), r(0), g(max_frame_num_to_track=0)
c(0, 1), g(start_frame_idx=0)
c(2, 1), r(2), r(3)
c(0, 1), r(0), g(), c(2, 1), r(2), g()
c(0, 1), s(4)
g()
c(0, 1), g()
s(1)
c(0, 1), r(0), session.reset_tracking_data(), g()
c(0, 1), r(0), session.reset_inference_session(), g()
c(9, 1), r(9)
""",
}
# Refused by transformers, taken here.
TAKEN = {'S([A] * 3, dtype="float32")', 'S([a.convert("L")] * 2)'}
_SHORT = {"p": "input_points", "l": "input_labels", "b": "input_boxes", "m": "input_masks"}


def lines(group: str) -> list[str]:
    """Return the forms of a group."""
    return FORMS[group].strip().splitlines()


def processor(image: Any, video: Any, whole: Any) -> Any:
    """Return a small processor of one of the sides: side 128."""
    size = {"height": 128, "width": 128}
    made = image(size=size, mask_size={"height": 32, "width": 32})
    return whole(image_processor=made, video_processor=video(size=size))


def run(form: str, processor: Any, model: Any = None) -> dict[str, Any]:
    """Return the outcome of a form on one of the sides."""
    names = material()
    session = processor.init_video_session([names["A"]] * (4 if model is not None else 3))
    shown: list[Any] = []
    click: dict[str, list[Any]] = {"input_points": [[[[40, 30]]]], "input_labels": [[[1]]]}

    def prompts(frame: int, objects: Any, **given: Any) -> None:
        inputs = {_SHORT.get(name, name): value for name, value in given.items()}
        processor.add_inputs_to_inference_session(session, frame, objects, **inputs)

    def clicks(frame: int, objects: Any) -> None:
        count = len(objects) if isinstance(objects, list) else 1
        many = {name: [value[0] * count] for name, value in click.items()}
        processor.add_inputs_to_inference_session(session, frame, objects, **many)

    def stream(count: int) -> None:
        other = processor.init_video_session()
        for number, name in enumerate(session.obj_ids):
            other.obj_id_to_idx(name)
            other.point_inputs_per_obj[number] = dict(session.point_inputs_per_obj[number])
        other.obj_with_new_inputs = list(session.obj_ids)
        for index in range(count):
            shown.append(model(other, frame=session.get_frame(index)))

    calls: dict[str, Callable[..., Any]] = {
        "S": processor.init_video_session,
        "D": prompts,
        "c": clicks,
        "r": lambda frame: shown.append(model(session, frame_idx=frame)),
        "g": lambda **given: shown.extend(model.propagate_in_video_iterator(session, **given)),
        "s": stream,
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = eval(form, {**names, **calls, "session": session})
    except Exception as error:
        return {"error": [kind.__name__ for kind in type(error).__mro__], "text": str(error)}
    if model is not None:
        return {"frames": [_output(each) for each in shown]}
    return _session(found) if form.startswith("S") else _prompts(session)


def _session(session: Any) -> dict[str, Any]:
    count = session.num_frames
    size = [None if side is None else int(side) for side in _hw(session)]
    first = described(session.get_frame(0)) if count else None
    return {"frames": count, "size": size, "first": first}


def _hw(session: Any) -> tuple[Any, Any]:
    return session.video_height, session.video_width


def _prompts(session: Any) -> dict[str, Any]:
    points = {
        f"{number} {frame} {name}": described(value)
        for number, frames in session.point_inputs_per_obj.items()
        for frame, inputs in frames.items()
        for name, value in inputs.items()
    }
    masks = {
        f"{number} {frame}": described(value)
        for number, frames in session.mask_inputs_per_obj.items()
        for frame, value in frames.items()
    }
    new = list(session.obj_with_new_inputs)
    return {"points": points, "masks": masks, "names": list(session.obj_ids), "new": new}


def _output(output: Any) -> Any:
    values = [output.pred_masks, output.object_score_logits]
    kinds = [[array.dtype.name, list(array.shape)] for array in map(np.asarray, values)]
    return [output.frame_idx, list(output.object_ids), *kinds]


def difference(form: str, found: dict[str, Any], expected: dict[str, Any]) -> str:
    """Tell how an outcome of ours is not the one of upstream; empty if it is."""
    if form in TAKEN:
        return "" if "error" not in found else f"expected a result, found {found}"
    if "error" in expected:
        kinds = found.get("error", [])
        same = "SamRlxError" in kinds and expected["error"][0] in kinds
        return "" if same else f"expected {expected['error'][0]}, found {found}"
    if " m=G" in form:  # resized in float
        found, expected = without_bytes(found), without_bytes(expected)
    return "" if found == expected else f"expected {expected}, found {found}"


def theirs() -> dict[str, dict[str, Any]]:
    """Return what transformers gives for all forms."""
    import transformers

    from support import transformers_clips as clips

    made = processor(
        transformers.Sam2ImageProcessor,
        transformers.Sam2VideoVideoProcessor,
        transformers.Sam2VideoProcessor,
    )
    model = clips.theirs("Sam2VideoModel").model
    return {
        group: {form: run(form, made, model if group == "model" else None) for form in lines(group)}
        for group in FORMS
    }


def main() -> None:
    """Write what transformers gives."""
    upstream = importlib.import_module("support.upstream")
    upstream.prepare()
    kept = {
        group: {
            form: {"error": outcome["error"][:1]} if "error" in outcome else outcome
            for form, outcome in forms.items()
        }
        for group, forms in theirs().items()
    }
    STORED.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
