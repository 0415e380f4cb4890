"""Calls of transformers' processors in many forms, and what they give: one table for both sides.

``python tests/support/processor_forms.py`` writes what transformers gives to `STORED`.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image

STORED = Path(__file__).parents[1] / "data" / "processor_forms.json"

# Arguments are written short: q is a point, x a box, t a tensor, n standard normal numbers; A and B
# are arrays, a and b their PIL images, G a grey array.
SHORT = {
    "p": "input_points",
    "l": "input_labels",
    "b": "input_boxes",
    "m": "input_masks",
    "o": "original_sizes",
    "r": "return_tensors",
    "s": "segmentation_maps",
}

_IMAGES = """
a
A
[a]
A.transpose(2, 0, 1)
A[..., :1]
a.convert("L")
a.convert("P")
a.convert("RGBA")
np.dstack([A, G])
A.astype(np.float32) / 255
A / 255.0, do_rescale=False
A.astype(np.uint16) * 256
A[:1, :1]
A[:3]
t(A)
t(A.transpose(2, 0, 1))
a, do_resize=False
a, do_normalize=False
a, do_rescale=False
a, resample=3
a, nonsense=1
[a, b]
np.stack([A, A])
[[a, b]]
a, s=G
a, s=[G]
a, s=a.convert("L")
a, s=b
G
A[..., :2]
"no_such_file.jpg"
[]
None
3
a, size={"height": 64, "width": 64}
"""

_SAM_IMAGES = """
a, size={"longest_edge": 64}
a, text="cat"
a, m=G
a, do_pad=False
[a, b], do_pad=False
"""

_SAM_POINTS = """
a, p=[[q]]
a, p=[[[q]]]
a, p=t([[q]])
a, p=t([[[q]]])
a, p=[[(40, 30)]]
a, p=[[np.array(q)]]
a, p=[[[nan, 30]]]
a, p=[[[-5, 400]]]
a, p=[[["40", "30"]]]
a, p=[q]
a, p=[[q, [10, 20]]]
a, p=[[[q, [10, 20]], [[1, 2], [3, 4]]]]
a, p=[[[40, 30, 1]]]
a, p=[[q], [[1, 2]]]
a, p=[[q]], l=[[1]]
a, p=[[q]], l=[[[1]]]
a, p=[[q]], l=t([[1]])
a, p=[[q]], l=[[True]]
a, p=[[q]], l=[[0.5]]
a, p=[[q, [10, 20]]], l=[[1, 0]]
a, l=[[1]]
a, p=[[[q], [[1, 2]]]], l=[[[1], [0]]]
[a, b], p=[[q], [[10, 20]]]
[a, b], p=[[q]]
[a, b], p=[[q, [1, 2]], [[10, 20]]], l=[[1, 1], [1]]
[a, b], p=[[q, [1, 2]], [[10, 20]]], l=[[1, 1], [1]], point_pad_value=-1
a, p=q
a, p=np.array([[q]])
a, p=((40, 30),)
a, p=[np.array(q)]
a, p=[[q]], l=[1]
a, p=[[q]], l=np.array([[1]])
a, p=[[[q, [5, 5]], [[1, 2]]]], l=[[[1, 1], [0]]]
[a, b], p=[[q, [1, 2], [3, 4]], [[10, 20]]], l=[[1, 1, 1], [1]]
[a, b], p=[[q, [1, 2]], [[10, 20]]]
a, p=[]
a, p=[[]]
a, p=[[[40]]]
[a, b], p=[[q], None]
"""

_SAM_BOXES = """
a, b=[[x]]
a, b=[[[x]]]
a, b=t([[x]])
a, b=[[x, [5, 6, 7, 8]]]
[a, b], b=[[x], [[5, 6, 7, 8]]]
[a, b], b=[[x]]
a, b=[[x]], p=[[q]]
a, b=[[x]], p=[[q]], l=[[1]], r="np"
a, b=[[x]], p=[[q]], l=[[1]], r=None
a, b=[x]
a, b=x
a, b=np.array([[x]])
a, b=[[(1, 2, 30, 40)]]
a, b=[[[1, 2, 30]]]
a, b=[[[1, 2, 30, 40, 0.9]]]
[a, b], b=[[x, [1, 1, 2, 2]], [[5, 6, 7, 8]]]
a, b=[[x]], r="tf"
a, b=[[]]
a, b=[]
"""

_SAM2_POINTS = """
a, p=[[[q]]]
a, p=np.array([[[q]]])
a, p=t([[[q]]])
a, p=[[[np.array(q)]]]
a, p=[[[[np.float64(40), 30.0]]]]
a, p=[[[[40]]]]
a, p=[[[[nan, 30]]]]
a, p=[[[[-10, -10]]]]
a, p=[[[[-10, 5]]]]
a, p=[[[q]]], o=[[10, 10]]
a, p=[[[q]]], r=None
None, p=[[[q]]], o=[[75, 100]]
None, p=[[[q]]], o=t([[75, 100]])
a, p=[[[q]]], l=[[[1]]]
a, p=[[[q]]], l=[[[True]]]
a, p=[[[q]]], l=[[[0.5]]]
a, p=[[[q]]], l=[[[1]]], r="np"
a, l=[[[1]]]
a, p=[[[q, [1, 2]], [[3, 4]]]], l=[[[1, 0], [1]]]
a, p=[[[q, [1, 2]], [[3, 4]]]], l=[[[1], [1, 1]]]
a, p=[[[[40, 30, 1]]]]
a, p=[[[q]], [[[1, 2]]]]
a, p="x"
a, p=([[q]],)
[a, b], p=[[[q]], [[[10, 20]]]], l=[[[1]], [[1]]]
[a, b], p=[[[q]]], l=[[[1]]]
[a, b], p=[[[q], [[1, 2]]], [[[10, 20]]]], l=[[[1], [1]], [[1]]]
a, p=[[q]]
a, p=[q]
a, p=q
a, p=[[[[q]]]]
a, p=[[[(40, 30)]]]
a, p=np.array([[q]])
a, p=np.array([[[[40, 30, 1]]]])
a, p=[]
a, p=[[[]]]
a, p=[None]
a, p=[[[q]]], l=[[1]]
a, p=[[[q, [1, 2]]]], l=[[[1]]]
a, p=[[[q], [[3, 4]]]], l=[[[1, 1]]]
None, p=[[[q]]]
a, p=[[[[np.int64(40), np.int64(30)]]]]
a, p=[[[["40", "30"]]]]
[a, b], p=[[[q]], None]
"""

_SAM2_BOXES = """
a, b=[[x]]
a, b=np.array([[x]])
a, b=t([[x]])
a, b=[np.array([x])]
a, b=[[[-10, -10, -10, -10]]]
a, b=[[x, [5, 6, 7, 8]]]
a, b=[[x, [5, 6, 7, 8]]], p=[[[q]]]
a, b=[[x]], p=[[[q]]], l=[[[1]]]
[a, b], b=[[x], [[5, 6, 7, 8]]]
[a, b], b=[[x]]
a, b=[x]
a, b=x
a, b=[[[x]]]
a, b=np.array([x])
a, b=[[(1, 2, 30, 40)]]
a, b=np.array([[[1, 2, 30]]])
a, b=[[]]
[a, b], b=[[x, [1, 1, 2, 2]], [[5, 6, 7, 8]]]
a, b=[[[1, 2, 30]]]
"""

_SAM_MASKS = """
[N], [[75, 100]], [[96, 128]]
t(N[None]), t([[75, 100]]), t([[96, 128]])
[N], [[75, 100]], [[96, 128]], mask_threshold=0.5
[N], [(75, 100)], [(96, 128)], pad_size={"height": 128, "width": 128}
[N], [[75, 100]], [[96, 128]], binarize=False
N[None], [[75, 100]], [[96, 128]]
[N[0]], [[75, 100]], [[96, 128]]
[N], [[75, 100]]
[[1]], [[75, 100]], [[96, 128]]
"""

_SAM2_MASKS = """
[N], [[75, 100]]
t(N[None]), t([[75, 100]])
[N], [[75, 100]], mask_threshold=0.5
[N], [(75, 100)], pad_size={"height": 128, "width": 128}
[N], [[75, 100]], binarize=False
[N], [[75, 100]], max_hole_area=8
[N], [[75, 100]], nonsense=1
[n(2, 1, 32, 32)], [[75, 100]], apply_non_overlapping_constraints=True, binarize=False
[N], [[75, 100]], [[96, 128]]
[N], [75, 100]
"""


def _lines(*texts: str) -> list[str]:
    return [line for text in texts for line in text.strip().splitlines()]


# By what is called, then the arguments.
FORMS = {
    "sam images": _lines(_IMAGES, _SAM_IMAGES),
    "sam2 images": _lines(_IMAGES),
    "sam points": _lines(_SAM_POINTS),
    "sam boxes": _lines(_SAM_BOXES),
    "sam2 points": _lines(_SAM2_POINTS),
    "sam2 boxes": _lines(_SAM2_BOXES),
    "sam masks": _lines(_SAM_MASKS),
    "sam2 masks": _lines(_SAM2_MASKS),
}

# Numbers of these are equal within 1e-5 of their range: PyTorch resizes them in float.
FLOAT = ("astype", "/ 255", "binarize=False")
TENSOR = re.compile(r"\bt\(")
# Refused by transformers, taken here.
TAKEN = {("sam masks", "N[None], [[75, 100]], [[96, 128]]")}


def material() -> dict[str, Any]:
    """Return what arguments are made of."""
    random = np.random.default_rng(0)
    big = random.integers(0, 256, (75, 100, 3), dtype=np.uint8)
    small = random.integers(0, 256, (60, 40, 3), dtype=np.uint8)

    def n(*shape: int) -> Any:
        return np.random.default_rng(2).standard_normal(shape, np.float32)

    def t(value: Any) -> Any:
        return sys.modules["torch"].tensor(value)

    return {
        "np": np,
        "nan": np.nan,
        "t": t,
        "n": n,
        "N": n(1, 3, 32, 32),
        "A": big,
        "B": small,
        "a": Image.fromarray(big),
        "b": Image.fromarray(small),
        "G": big[..., 0],
        "q": [40, 30],
        "x": [1, 2, 30, 40],
    }


def processors(module: ModuleType) -> dict[str, Any]:
    """Return small processors of one of the sides: side 128, masks of 32."""
    square, mask = {"height": 128, "width": 128}, {"height": 32, "width": 32}
    sam = module.SamImageProcessor(
        size={"longest_edge": 128},
        pad_size=square,
        mask_size={"longest_edge": 32},
        mask_pad_size=mask,
    )
    sam2 = module.Sam2ImageProcessor(size=square, mask_size=mask)
    return {"sam": module.SamProcessor(sam), "sam2": module.Sam2Processor(sam2)}


def runner(module: ModuleType) -> Callable[[str, str], dict[str, Any]]:
    """Return a function of a group and a form, which gives the outcome on one of the sides."""
    made, names = processors(module), material()

    def run(group: str, form: str) -> dict[str, Any]:
        family, what = group.split()
        processor = made[family]
        call = processor.post_process_masks if what == "masks" else _prepared(processor)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = eval(f"call({form})", {**names, "call": call})
        except Exception as error:
            return {"error": [kind.__name__ for kind in type(error).__mro__], "text": str(error)}
        fields = result.items() if hasattr(result, "items") else enumerate(result)
        return {"fields": {str(key): described(value) for key, value in fields}}

    return run


def _prepared(processor: Any) -> Callable[..., Any]:
    def call(images: Any, **kwargs: Any) -> Any:
        given = {SHORT.get(name, name): value for name, value in kwargs.items()}
        return processor(images, **{"return_tensors": "pt", **given})

    return call


def described(value: Any) -> Any:
    """Return type, shape and hash of an array or tensor; those of the parts of a list."""
    if isinstance(value, (list, tuple)):
        return [described(part) for part in value]
    if isinstance(value, int):
        return value
    array = np.ascontiguousarray(np.asarray(value))
    return [array.dtype.name, list(array.shape), hashlib.sha1(array.tobytes()).hexdigest()]


def without_bytes(outcome: Any) -> Any:
    """Return an outcome without hashes."""
    if isinstance(outcome, dict):
        return {key: without_bytes(value) for key, value in outcome.items()}
    if isinstance(outcome, list):
        if len(outcome) == 3 and isinstance(outcome[2], str):
            return outcome[:2]
        return [without_bytes(part) for part in outcome]
    return outcome


def difference(group: str, form: str, found: dict[str, Any], expected: dict[str, Any]) -> str:
    """Tell how an outcome of ours is not the one of upstream; empty if it is."""
    if (group, form) in TAKEN:
        return "" if "fields" in found else f"expected a result, found {found}"
    if "error" in expected:
        kinds = found.get("error", [])
        # A missing argument is Python's own error on both sides.
        ours = "SamRlxError" in kinds or "missing 1 required" in found.get("text", "")
        same = ours and expected["error"][0] in kinds
        return "" if same else f"expected {expected['error'][0]}, found {found}"
    if any(mark in form for mark in FLOAT):
        found, expected = without_bytes(found), without_bytes(expected)
    same = found == expected and list(found["fields"]) == list(expected["fields"])
    return "" if same else f"expected {expected}, found {found}"


def outcomes(module: ModuleType, *, tensors: bool = True) -> dict[str, dict[str, Any]]:
    """Return the outcomes of all forms on one of the sides; without `tensors` no form has any."""
    run = runner(module)
    return {
        group: {form: run(group, form) for form in forms if tensors or not TENSOR.search(form)}
        for group, forms in FORMS.items()
    }


def main() -> None:
    """Write what transformers gives."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    importlib.import_module("support.upstream")  # makes torchvision importable
    found = outcomes(importlib.import_module("transformers"))
    kept = {
        group: {
            form: {"error": outcome["error"][:1]} if "error" in outcome else outcome
            for form, outcome in forms.items()
        }
        for group, forms in found.items()
    }
    STORED.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
