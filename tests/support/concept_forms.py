"""Calls of ``Sam3Processor`` in many forms, and what transformers gives for them.

``python tests/support/concept_forms.py`` writes what transformers gives to `STORED`.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

STORED = Path(__file__).parents[1] / "data" / "transformers_text_forms.json"
SIDE = 112
START, END = 512, 513
_VISIBLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))


def vocabulary() -> dict[str, int]:
    """Return the ids of CLIP's bytes, of bytes that end a word, and of start and end."""
    symbols = [*map(chr, _VISIBLE), *map(chr, range(0x100, 0x100 + 256 - len(_VISIBLE)))]
    parts = [*symbols, *(symbol + "</w>" for symbol in symbols)]
    return {part: i for i, part in enumerate((*parts, "<|startoftext|>", "<|endoftext|>"))}


def two_images() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return two images of other sizes."""
    generator = np.random.default_rng(0)
    return (
        generator.integers(0, 256, (75, 100, 3), np.uint8),
        generator.integers(0, 256, (60, 40, 3), np.uint8),
    )


def _tensor(value: Any) -> Any:
    """Return a tensor, or None where PyTorch is not imported."""
    torch = sys.modules.get("torch")
    return None if torch is None else torch.tensor(value)


IMAGE, OTHER = map(Image.fromarray, two_images())
X, Y = [1, 2, 30, 40], [5, 6, 7, 8]
ALONE: dict[str, Any] = {"images": None}
TWO: dict[str, Any] = {"images": [IMAGE, OTHER]}

FORMS: dict[str, dict[str, Any]] = {
    "text": {"text": "cat"},
    "list of a text": {"text": ["cat"]},
    "tuple of a text": {"text": ("cat",)},
    "empty text": {"text": ""},
    "odd text": {"text": "\u201ccat\u201d  &amp; Dog"},
    "arrays": {"text": "cat", "return_tensors": "np"},
    "text without image": {**ALONE, "text": "cat"},
    "two images with a text": {**TWO, "text": "cat"},
    "two texts on an image": {"text": ["cat", "dog"]},
    "two texts": {**TWO, "text": ["cat", "dog"]},
    "a long text": {"text": "a " * 40},
    "lists": {"text": "cat", "return_tensors": None},
    "lists of texts": {"text": ["cat", "dog"], "return_tensors": None},
    "pixels": {},
    "labels alone": {"input_boxes_labels": [[1]]},
    "nothing": {**ALONE},
    "box": {"input_boxes": [[X]]},
    "box with text": {"input_boxes": [[X]], "text": "cat"},
    "box with label": {"input_boxes": [[X]], "input_boxes_labels": [[1]]},
    "array in a list": {"input_boxes": [np.array([X])]},
    "tensor in a list": {"input_boxes": [_tensor([X])]},
    "a short box": {"input_boxes": [[[1, 2, 30]]]},
    "text and sizes": {
        **ALONE,
        "text": "cat",
        "original_sizes": [[75, 100]],
        "input_boxes": [[X]],
    },
    "sizes as a tensor": {**ALONE, "original_sizes": _tensor([[75, 100]])},
    "two boxes": {"input_boxes": [[X, Y]], "input_boxes_labels": [[1, 0]]},
    "boxes of one of two images": {**TWO, "input_boxes": [[X], None], "text": ["cat", "dog"]},
    "no text where boxes are": {**TWO, "input_boxes": [[X], None], "text": [None, "dog"]},
    "ragged": {**TWO, "input_boxes": [[X, [1, 1, 2, 2]], [Y]]},
    "ragged labels": {
        **TWO,
        "input_boxes": [[X, [1, 1, 2, 2]], [Y]],
        "input_boxes_labels": [[1, 0], [1]],
    },
    "a box of padding": {"input_boxes": [[[-10, -10, -10, -10], X]]},
    "a box with one padding number": {"input_boxes": [[[-10, 5, 20, 30]]]},
    "boxes beyond the images": {"input_boxes": [[X], [Y]]},
    "fractions of pixels": {"input_boxes": [[[1.5, 2.25, 30.75, 40.1]]]},
    "labels as fractions": {"input_boxes": [[X]], "input_boxes_labels": [[0.5]]},
}
BAD: dict[str, dict[str, Any]] = {
    "None as text": {"text": [None]},
    "a number as text": {"text": 5},
    "no texts": {"text": []},
    "a list of lists": {"text": [["a"]]},
    "flat box": {"input_boxes": [X]},
    "array": {"input_boxes": np.array([[X]])},
    "tuple of numbers": {"input_boxes": [[tuple(X)]]},
    "None alone": {"input_boxes": [None]},
    "no boxes": {"input_boxes": []},
    "a label for two boxes": {"input_boxes": [[X, Y]], "input_boxes_labels": [[1]]},
    "two lists with a text": {"input_boxes": [[X], [Y]], "text": ["cat"], **TWO},
    "text and boxes without image": {**ALONE, "text": "cat", "input_boxes": [[X]]},
    "tensor": {"input_boxes": _tensor([[X]])},
    "points": {"input_points": [[[1, 2]]]},
    "another kind": {"text": "cat", "return_tensors": "tf"},
    "deep boxes": {"input_boxes": [[[X]]]},
}
# Forms with tensors, which need PyTorch.
TENSORS = ("tensor in a list", "sizes as a tensor", "tensor")


def call(processor: Any, form: dict[str, Any]) -> Any:
    """Call a processor on an image, with what a form says besides or otherwise."""
    return processor(**{"images": IMAGE, "return_tensors": "pt", **form})


def outcome(processor: Any, form: dict[str, Any]) -> dict[str, Any]:
    """Return the types, shapes and hashes of what a call gives, or the names of its error."""
    from support.processor_forms import described

    try:
        found = call(processor, form)
    except Exception as error:
        return {"error": [kind.__name__ for kind in type(error).__mro__]}
    if found is None:
        return {"fields": None}
    return {"fields": {key: described(value) for key, value in found.items()}}


def main() -> None:
    """Write what transformers gives."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    importlib.import_module("torch")
    forms = importlib.import_module("support.concept_forms")  # again, with PyTorch
    theirs = importlib.import_module("support.concept_folders").processor()
    kept = {name: outcome(theirs, form) for name, form in (forms.FORMS | forms.BAD).items()}
    for each in kept.values():
        if "error" in each:
            each["error"] = each["error"][:1]
    STORED.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
