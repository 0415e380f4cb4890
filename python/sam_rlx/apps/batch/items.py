"""What a batch works on: images and clips, each with its prompts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Prompt:
    """One object: points, a box or both, in pixels (x, y) of the image.

    Attributes
    ----------
    name : str
        Of the object; of its PNG file too.
    points, labels
        (x, y) and 1 or 0 for each point.
    box : (x0, y0, x1, y1) or None
    frame : int
        Of a clip, from 0.
    """

    name: str
    points: tuple[tuple[float, float], ...] = ()
    labels: tuple[int, ...] = ()
    box: tuple[float, float, float, float] | None = None
    frame: int = 0

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Prompt":
        """Return the prompt of a dict of its attributes."""
        points = tuple((x, y) for x, y in fields["points"])
        box = None if fields["box"] is None else tuple(fields["box"])
        return cls(**{**fields, "points": points, "labels": tuple(fields["labels"]), "box": box})


@dataclass(frozen=True)
class Item:
    """One image or clip.

    Attributes
    ----------
    index : int
        Position in the plan.
    name : str
        Unique in the plan.
    path : str
        Absolute path of the file; of the Parquet file for an image whose bytes are in one.
    row : (int, int, str) or None
        Row group, row and column of a Parquet file with bytes.
    is_clip : bool
        Whether it is a video.
    hw : (H, W) or None
        The size that the prompts were made for.
    prompts : tuple of Prompt or None
        What to segment; None if its source says nothing about that.
    texts : tuple of str or None
        What to look for; None if its source says nothing about that.
    error : str or None
        What is wrong with its prompts: it gets a row with this error.
    folder : str
        Of its masks, if that is not its name: for a name that differs from another in capitals.
    """

    index: int
    name: str
    path: str
    row: tuple[int, int, str] | None = None
    is_clip: bool = False
    hw: tuple[int, int] | None = None
    prompts: tuple[Prompt, ...] | None = None
    texts: tuple[str, ...] | None = None
    error: str | None = None
    folder: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return a dict that ``json`` can write."""
        prompts = None if self.prompts is None else [vars(prompt) for prompt in self.prompts]
        return {**vars(self), "prompts": prompts}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Item":
        """Return the item of a dict of `to_json`."""
        others = {
            key: None if fields[key] is None else tuple(fields[key])
            for key in ("row", "hw", "texts")
        }
        given = fields["prompts"]
        prompts = None if given is None else tuple(map(Prompt.from_json, given))
        return cls(**{**fields, **others, "prompts": prompts})
