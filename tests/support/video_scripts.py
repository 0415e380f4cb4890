"""Sessions that every video predictor goes through beside upstream's: scripts, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

Step = tuple[Any, ...]

HW = (72, 96)
CLICK: Step = ("points", 0, "disc", [[20, 28]], [1])
MASK = np.zeros(HW, np.bool_)
MASK[36:60, 58:84] = True
ALL: Step = ("track", {})
BACK: Step = ("track", {"reverse": True})

# Those whose prompts are all on the first frame need few others.
FEW_FRAMES = {
    *("two clicks", "clicks added one by one", "clicks replaced", "box", "box, then clicks"),
    *("mask", "empty mask", "click replaces mask", "mask replaces click"),
    *("correction of a prompt", "object removed", "reset"),
}
SCRIPTS: dict[str, list[Step]] = {
    "one click": [CLICK, ALL],
    "two clicks": [("points", 0, 1, [[20, 28], [70, 50]], [1, 0]), ALL],
    "clicks added one by one": [CLICK, ("points", 0, "disc", [[60, 8]], [0], False), ALL],
    "clicks replaced": [CLICK, ("points", 0, "disc", [[60, 8]], [1]), ALL],
    "box": [("box", 0, 7, [10, 15, 32, 42]), ALL],
    "box, then clicks": [
        ("box", 0, 7, [10, 15, 32, 42]),
        ("points", 0, 7, [[22, 30]], [1], False),
        ALL,
    ],
    "mask": [("mask", 0, 1, MASK), ALL],
    "empty mask": [("mask", 0, 1, np.zeros(HW, np.bool_)), ALL],
    "click replaces mask": [("mask", 0, "disc", MASK), CLICK, ALL],
    "mask replaces click": [CLICK, ("mask", 0, "disc", MASK), ALL],
    "correction by a mask": [CLICK, ALL, ("mask", 4, "disc", MASK), ("track", {"start_frame": 2})],
    "correction of a prompt": [CLICK, ALL, ("points", 0, "disc", [[24, 30]], [1], False), ALL],
    "correction backwards": [
        ("points", 5, "disc", [[32, 28]], [1]),
        BACK,
        ("points", 2, "disc", [[25, 28]], [1]),
        BACK,
    ],
    "forwards, then backwards": [("points", 3, "disc", [[27, 28]], [1]), ALL, BACK],
    "start and end": [CLICK, ("track", {"start_frame": 2, "max_frames": 3})],
    "object removed": [CLICK, ("mask", 0, 5, MASK), ALL, ("remove", "disc"), ALL],
    "reset": [("mask", 0, 5, MASK), ALL, ("reset",), CLICK, ALL],
}
