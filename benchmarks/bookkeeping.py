"""What a frame of a video costs beside the network: CPU time of keeping its results, as Markdown.

    python benchmarks/bookkeeping.py
    python benchmarks/bookkeeping.py --models sam3-nano --objects 10 --outputs 1000

All objects have a prompt on each of the frames that are timed: nothing is computed there, and no
mask is wanted. What is left is what every frame pays: the copy that undoes it if it fails, looking
for work, keeping what each object left behind, and forgetting what is too old. Earlier outputs are
those of one frame, repeated.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import sam_rlx
from numpy.typing import NDArray
from sam_rlx import _core

MODELS = ("sam2-nano", "sam3-nano")
HW = 96, 128
NOTHING = _core.Wants(masks=False)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--objects", type=int, default=10)
    parser.add_argument("--outputs", type=int, default=1000)
    parser.add_argument("--frames", type=int, default=50)
    options = parser.parse_args()
    if min(options.objects, options.outputs, options.frames) < 1:
        parser.error("expected at least one object, output and frame")
    return options


class OneImage:
    """A video that shows one image all the time."""

    def __init__(self, count: int) -> None:
        self.count = count

    def read(self, index: int, side: int | None) -> NDArray[np.uint8]:
        return np.full((*HW, 3), 90, np.uint8)


def new_session(model: sam_rlx.Model, count: int) -> Any:
    """Return a session that keeps all results."""
    return _core.VideoSession(model.core, 1, {"history": -1}, OneImage(count))


def repeated(state: dict[str, Any], outputs: int, frames: int) -> dict[str, Any]:
    """Give each object so many outputs of tracking, and prompts on the frames behind them."""
    longer = dict(state)
    for number in range(len(state["handles"])):
        for kind, numbers in (
            ("non_cond", np.arange(1, 1 + outputs)),
            ("cond", np.r_[0, np.arange(1 + outputs, 1 + outputs + frames)]),
        ):
            prefix = f"{number}.{kind}."
            for key in [key for key in state if key.startswith(prefix)]:
                longer[key] = np.repeat(state[key][:1], len(numbers), axis=0)
            longer[f"{prefix}frames"] = numbers
        tracked = np.arange(1 + outputs)
        longer[f"{number}.frames_tracked"] = tracked
        longer[f"{number}.frames_tracked.reverse"] = np.zeros_like(tracked)
    return longer


def seconds_per_frame(model: sam_rlx.Model, objects: int, outputs: int, frames: int) -> float:
    """Return the CPU time of a frame."""
    first = new_session(model, 2)
    for number in range(objects):
        box = np.array([[8.0, 8], [40 + 4 * number, 60]])
        first.add_points(0, number, str(number), box, np.array([2, 3], np.int32), wants=NOTHING)
    propagation = first.propagation(None, None, False)
    while first.next(propagation, NOTHING) is not None:
        pass
    state = first.export_state()
    names = state.pop("obj_ids")

    session = new_session(model, 1 + outputs + frames)
    state = repeated(state, outputs, frames)
    session.import_state(state, names, [str(name) for name in names])
    propagation = session.propagation(1 + outputs, frames, False)
    done, begin = 0, time.process_time()
    while session.next(propagation, NOTHING) is not None:
        done += 1
    if done != frames:
        raise RuntimeError(f"expected {frames} frames, found {done}")
    return (time.process_time() - begin) / frames


def main() -> None:
    options = arguments()
    print("| model | objects | earlier outputs of each | CPU of a frame |")
    print("| --- | --- | --- | --- |")
    for name in options.models:
        model = sam_rlx.load_model(name)
        seconds = seconds_per_frame(model, options.objects, options.outputs, options.frames)
        print(f"| {name} | {options.objects} | {options.outputs} | {1e3 * seconds:.2f} ms |")


if __name__ == "__main__":
    main()
