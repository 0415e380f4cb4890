"""Time the parts of a training step of `sam2-nano` on this machine, and count operations.

`python -m training.measure_steps --compile encoder --graphs` prints milliseconds a call, on every
GPU at once if started by `torchrun`. On a machine without a GPU it counts operations instead, at
sizes for a CPU: their number does not depend on the sizes, and without graphs it bounds the speed.
"""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from training import train_sam2
from training.clips import LIVELY, ClipMaker

VIEWS = {
    "view", "reshape", "_unsafe_view", "permute", "transpose", "expand", "slice", "select", "t",
    "unsqueeze", "squeeze", "detach", "alias", "as_strided", "split", "unbind", "split_with_sizes",
    "unfold", "empty", "empty_like", "chunk", "_reshape_alias", "lift_fresh", "empty_strided",
    "new_empty", "diagonal", "movedim", "scalar_tensor",
}  # fmt: skip
REPEATS = 10


class Count(TorchDispatchMode):
    """Count operations that would launch something on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.names: collections.Counter[str] = collections.Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name not in VIEWS:
            self.names[name] += 1
        return func(*args, **(kwargs or {}))


def count(name: str, call: Callable[[], object]) -> None:
    """Print how many operations a call is."""
    call()
    with Count() as found:
        call()
    print(f"{name}: {sum(found.names.values())} operations", flush=True)


def measure(name: str, call: Callable[[], object], say: Callable[[str], None]) -> None:
    """Print the time of the first call and the mean of later ones."""
    start = time.time()
    call()
    torch.cuda.synchronize()
    first = time.time() - start
    call()
    torch.cuda.synchronize()
    start = time.time()
    for _ in range(REPEATS):
        call()
    queued = time.time() - start
    torch.cuda.synchronize()
    each = (time.time() - start) / REPEATS * 1000
    memory = torch.cuda.max_memory_allocated() / 2**30
    say(
        f"{name}: {each:.1f} ms (queued in {queued / REPEATS * 1000:.1f}), "
        f"first {first:.1f} s, {memory:.1f} GiB"
    )


def main() -> None:
    """Measure all phases of a plan."""
    parser = train_sam2.arguments()
    parser.description = __doc__
    parser.set_defaults(seconds=0, total_seconds=1000)
    for action in parser._actions:
        action.required = False
        if action.dest == "output":
            action.nargs = "?"
    args = parser.parse_args()
    run, maker = train_sam2.prepare(args)
    cuda = run.device.type == "cuda"
    clips = ClipMaker(maker, LIVELY)
    stage = train_sam2.Stage(run, clips, args.graphs and cuda)

    def say(text: str) -> None:
        if run.team.rank == 0:
            print(text, flush=True)

    act = measure if cuda else count
    extra = (say,) if cuda else ()

    sizes = {dataclasses.replace(p, until=0, clip_share=1) for p in train_sam2.PLANS[args.plan]}
    for phase in sorted(sizes, key=lambda p: p.side):
        stage.prepare(phase)
        for kind, lesson in stage.lessons.items():
            act(f"{kind} at {phase.side} pixels, batch", lesson.next_batch, *extra)
            act(f"{kind} at {phase.side} pixels, gradients", lesson.learn, *extra)
            say(lesson.line())
        act("all-reduce", lambda: run.team.mean(run.grads), *extra)
        run.tell()
        act("update", stage.apply, *extra)


if __name__ == "__main__":
    main()
