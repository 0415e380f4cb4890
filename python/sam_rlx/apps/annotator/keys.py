"""The keys of a session: those of its gestures, and those of what only a view does."""

import re
from collections.abc import Mapping
from typing import Any

from sam_rlx.apps.annotator.gestures import Gesture

# By name: keys and a title. What a person sees but does not make has no gesture.
_VIEW = {
    "done_next": ("Ctrl+Enter", "Done, go on with the next image"),
    "previous": ("A, PageUp", "Previous image"),
    "next": ("D, PageDown", "Next image"),
    "next_object": ("J", "Next object"),
    "previous_object": ("Shift+J", "Previous object"),
    "tool_click": ("S", "Click, or drag a box"),
    "brush": ("B", "Brush: paint by hand"),
    "eraser": ("E", "Eraser: what does not belong to the object, and points"),
    "smaller": ("[", "A smaller brush"),
    "larger": ("]", "A larger brush"),
    "text_all": (
        "Shift+Enter",
        "Find these words, and more like the examples, in all images; in a clip follow the words",
    ),
    "hand": ("Space", "Move the view; on a clip play"),
    "hide": ("H", "Hide or show this object"),
    "hide_others": ("Alt+H", "Hide or show the others"),
    "outlines": ("O", "Outlines only"),
    "names": ("", "Names on the image"),
    "play": ("", "Play"),
    "next_check": ("N", "Next frame that is to be checked"),
    "frame_back": (",", "A frame back"),
    "frame_on": (".", "A frame on"),
    "frames_back": ("Shift+,", "10 frames back"),
    "frames_on": ("Shift+.", "10 frames on"),
    "first_frame": ("Home", "First frame"),
    "last_frame": ("End", "Last frame"),
    "track_back": ("", "Track from here to the beginning"),
    "zoom_in": ("+, =", "Larger"),
    "zoom_out": ("-", "Smaller"),
    "fit": ("0", "The whole image"),
    "one_to_one": ("Z", "One pixel of the image for one of the screen"),
    "full": ("F", "Full screen"),
    "pan_left": ("Left", "Move the view to the left"),
    "pan_right": ("Right", "Move the view to the right"),
    "pan_up": ("Up", "Move the view up"),
    "pan_down": ("Down", "Move the view down"),
    "aim_left": ("Shift+Left", "Aim without a mouse: to the left"),
    "aim_right": ("Shift+Right", "Aim: to the right"),
    "aim_up": ("Shift+Up", "Aim: up"),
    "aim_down": ("Shift+Down", "Aim: down"),
    "inside": ("I", "Where you aim is inside of the object"),
    "outside": ("U", "Where you aim is outside"),
    "help": ("?", "All keys"),
}
_MOUSE = re.compile(r"click|drag|over it")


def keys_of(table: Mapping[str, Gesture]) -> list[dict[str, Any]]:
    """Return a row for each thing that a key, the mouse or a button does.

    A key of a view's own is that alone. Each row has its `name`, a `title`, the `keys` ("Ctrl+Z",
    "Shift+1 to 3"), and what it is with the `mouse`.
    """
    own = {part for key, _ in _VIEW.values() for part in _parts(key)}
    rows = [
        (one.name, [part for part in _parts(one.key) if part not in own], one.title)
        for one in table.values()
        if one.of_views
    ]
    rows += [(name, _parts(key), title) for name, (key, title) in _VIEW.items()]
    return [
        {
            "name": name,
            "title": title[:1].upper() + title[1:],
            "keys": [part for part in parts if not _MOUSE.search(part)],
            "mouse": [part for part in parts if _MOUSE.search(part)],
        }
        for name, parts, title in rows
    ]


def _parts(key: str) -> list[str]:
    """Return the keys of a row: "+, =" has two."""
    return [part for part in key.split(", ") if part]
