"""Odd values in every argument of `viz`, `io` and the helpers of `compat`: errors of the library.

Where upstream raises an error of a built-in type, ours has that type too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx import io, viz
from sam_rlx.compat.common import errors, tensor
from sam_rlx.compat.segment_anything.utils import amg
from sam_rlx.compat.segment_anything.utils.transforms import ResizeLongestSide

IMAGE = np.zeros((8, 9, 3), np.uint8)
MASK = np.zeros((8, 9), bool)
MASK[2:4, 3:5] = True
COUNTS = amg.mask_to_rle_pytorch(MASK[None])[0]["counts"]
BOX = [0, 0, 9, 8]
RESIZE = ResizeLongestSide(64)


class NoText:
    def __repr__(self) -> str:
        raise RuntimeError


def odd_values() -> dict[str, Any]:
    return {
        "none": None,
        "text": "x",
        "bytes": b"x",
        "ragged": [[1], [1, 2]],
        "10**400": 10**400,
        "10**5000": 10**5000,
        "2**63": 2**63,
        "nan": float("nan"),
        "infinity": float("inf"),
        "-1": -1,
        "0": 0,
        "1e-300": 1e-300,
        "1e300": 1e300,
        "true": True,
        "no list": [],
        "a list": [1, 2],
        "size": (8, 9),
        "size of floats": (8.5, 9),
        "size below 0": (-8, 9),
        "size of 0": (0, 0),
        "dict": {},
        "set": {1},
        "object": object(),
        "no text": NoText(),
        "generator": (i for i in range(2)),
        "0-d": np.array(1.0),
        "0-d object": np.array(None),
        "rank 1": np.zeros(3),
        "rank 4": np.zeros((1, 2, 3, 4)),
        "empty": np.zeros((0, 4)),
        "objects": np.array([None, "a"], object),
        "texts": np.array(["a"]),
        "complex": np.zeros((4, 4), complex),
        "dates": np.array(["2020-01-01"], "datetime64[D]"),
        "records": np.zeros(2, [("a", "i4")]),
        "nan (1, 4)": np.full((1, 4), np.nan),
        "1e300 (1, 4)": np.full((1, 4), 1e300),
        "infinity (1, 2)": np.full((1, 2), np.inf),
        "uint64": np.full((1, 4), 2**64 - 1, np.uint64),
        "image": IMAGE,
        "mask": MASK,
        "float16": np.zeros((8, 9, 3), np.float16),
        "no pixels": np.zeros((0, 9, 3), np.uint8),
        "int64 image": np.zeros((8, 9, 3), np.int64),
        "two channels": np.zeros((8, 9, 2), np.uint8),
    }


CALLS: dict[str, Callable[[Any, Path], object]] = {
    "viz.color": lambda x, folder: viz.color(x),
    "viz.image": lambda x, folder: viz.overlay(x, MASK),
    "viz.masks": lambda x, folder: viz.overlay(IMAGE, x),
    "viz.masks1": lambda x, folder: viz.overlay(IMAGE, [x]),
    "viz.ident": lambda x, folder: viz.overlay(IMAGE, MASK, identities=x),
    "viz.ident1": lambda x, folder: viz.overlay(IMAGE, MASK, identities=[x]),
    "viz.points": lambda x, folder: viz.overlay(IMAGE, MASK, point_coords=x),
    "viz.labels": lambda x, folder: viz.overlay(IMAGE, MASK, point_coords=[[1, 2]], point_labels=x),
    "viz.boxes": lambda x, folder: viz.overlay(IMAGE, MASK, boxes=x),
    "viz.blabels": lambda x, folder: viz.overlay(IMAGE, MASK, boxes=[1, 2, 3, 4], box_labels=x),
    "viz.captions": lambda x, folder: viz.overlay(IMAGE, MASK, captions=x),
    "viz.captions1": lambda x, folder: viz.overlay(IMAGE, MASK, captions=[x]),
    "viz.opacity": lambda x, folder: viz.overlay(IMAGE, MASK, opacity=x),
    "viz.records": lambda x, folder: viz.overlay_records(IMAGE, x),
    "viz.records1": lambda x, folder: viz.overlay_records(IMAGE, [x]),
    "viz.concepts": lambda x, folder: viz.overlay_concepts(IMAGE, x),
    "io.read": lambda x, folder: io.read_image(x),
    "io.write_path": lambda x, folder: io.write_image(x, IMAGE),
    "io.write": lambda x, folder: io.write_image(folder / "x.png", x),
    "io.write_masks": lambda x, folder: io.write_masks(folder, x),
    "io.write_masks1": lambda x, folder: io.write_masks(folder, [x]),
    "io.masks_dir": lambda x, folder: io.write_masks(x, [MASK]),
    "io.ann": lambda x, folder: io.coco_annotation(x),
    "io.doc": lambda x, folder: io.coco_document(x, []),
    "io.doc2": lambda x, folder: io.coco_document({}, x),
    "io.doc2b": lambda x, folder: io.coco_document({}, [x]),
    "io.doc3": lambda x, folder: io.coco_document({}, [], x),
    "io.json": lambda x, folder: io.write_json(folder / "x.json", x),
    "io.json_path": lambda x, folder: io.write_json(x, []),
    "io.npz": lambda x, folder: io.write_npz(folder / "x.npz", a=x),
    "io.npz_path": lambda x, folder: io.write_npz(x, a=IMAGE),
    "amg.rle": lambda x, folder: amg.rle_to_mask(x),
    "amg.counts": lambda x, folder: amg.rle_to_mask({"size": [8, 9], "counts": x}),
    "amg.counts1": lambda x, folder: amg.rle_to_mask({"size": [8, 9], "counts": [x]}),
    "amg.size": lambda x, folder: amg.rle_to_mask({"size": x, "counts": COUNTS}),
    "amg.size1": lambda x, folder: amg.rle_to_mask({"size": [x, 9], "counts": COUNTS}),
    "amg.area": lambda x, folder: amg.area_from_rle(x),
    "amg.area2": lambda x, folder: amg.area_from_rle({"counts": x}),
    "amg.area3": lambda x, folder: amg.area_from_rle({"counts": [1, x]}),
    "amg.coco": lambda x, folder: amg.coco_encode_rle(x),
    "amg.coco2": lambda x, folder: amg.coco_encode_rle({"size": [8, 9], "counts": x}),
    "amg.coco3": lambda x, folder: amg.coco_encode_rle({"size": [8, 9], "counts": [x]}),
    "amg.coco4": lambda x, folder: amg.coco_encode_rle({"size": x, "counts": [1, 2]}),
    "amg.mrle": lambda x, folder: amg.mask_to_rle_pytorch(x),
    "amg.maskdata": lambda x, folder: amg.MaskData(a=x),
    "amg.filter": lambda x, folder: amg.MaskData(a=[1, 2]).filter(x),
    "amg.cat": lambda x, folder: amg.MaskData(a=[1]).cat(x),
    "amg.near": lambda x, folder: amg.is_box_near_crop_edge(x, BOX, BOX),
    "amg.near2": lambda x, folder: amg.is_box_near_crop_edge([[1, 2, 3, 4]], x, BOX),
    "amg.near3": lambda x, folder: amg.is_box_near_crop_edge([[1, 2, 3, 4]], BOX, BOX, x),
    "amg.near4": lambda x, folder: amg.is_box_near_crop_edge([[1, 2, 3, 4]], BOX, x),
    "amg.xywh": lambda x, folder: amg.box_xyxy_to_xywh(x),
    "amg.batch": lambda x, folder: list(amg.batch_iterator(x, [1, 2])),
    "amg.batch2": lambda x, folder: list(amg.batch_iterator(2, x)),
    "amg.stab": lambda x, folder: amg.calculate_stability_score(x, 0, 1),
    "amg.stab2": lambda x, folder: amg.calculate_stability_score(np.zeros((1, 4, 4)), x, 1),
    "amg.stab3": lambda x, folder: amg.calculate_stability_score(np.zeros((1, 4, 4)), 0, x),
    "amg.grid": lambda x, folder: amg.build_point_grid(x),
    "amg.grids": lambda x, folder: amg.build_all_layer_point_grids(x, 1, 1),
    "amg.grids2": lambda x, folder: amg.build_all_layer_point_grids(4, x, 1),
    "amg.grids3": lambda x, folder: amg.build_all_layer_point_grids(4, 1, x),
    "amg.crop": lambda x, folder: amg.generate_crop_boxes(x, 1, 0.3),
    "amg.crop2": lambda x, folder: amg.generate_crop_boxes((8, 9), x, 0.3),
    "amg.crop3": lambda x, folder: amg.generate_crop_boxes((8, 9), 1, x),
    "amg.ub": lambda x, folder: amg.uncrop_boxes_xyxy(x, BOX),
    "amg.ub2": lambda x, folder: amg.uncrop_boxes_xyxy([[1, 2, 3, 4]], x),
    "amg.up": lambda x, folder: amg.uncrop_points(x, BOX),
    "amg.up2": lambda x, folder: amg.uncrop_points([[1, 2]], x),
    "amg.um": lambda x, folder: amg.uncrop_masks(x, BOX, 8, 9),
    "amg.um2": lambda x, folder: amg.uncrop_masks(MASK[None], x, 8, 9),
    "amg.um3": lambda x, folder: amg.uncrop_masks(MASK[None], BOX, x, 9),
    "amg.small": lambda x, folder: amg.remove_small_regions(x, 1, "holes"),
    "amg.small2": lambda x, folder: amg.remove_small_regions(MASK, x, "holes"),
    "amg.small3": lambda x, folder: amg.remove_small_regions(MASK, 1, x),
    "amg.box": lambda x, folder: amg.batched_mask_to_box(x),
    "tr.init": lambda x, folder: ResizeLongestSide(x).apply_image(IMAGE),
    "tr.img": lambda x, folder: RESIZE.apply_image(x),
    "tr.coords": lambda x, folder: RESIZE.apply_coords(x, (8, 9)),
    "tr.coords2": lambda x, folder: RESIZE.apply_coords(np.zeros((1, 2)), x),
    "tr.boxes": lambda x, folder: RESIZE.apply_boxes(x, (8, 9)),
    "tr.boxes2": lambda x, folder: RESIZE.apply_boxes(np.zeros((1, 4)), x),
    "tr.ct": lambda x, folder: RESIZE.apply_coords_torch(x, (8, 9)),
    "tr.ct2": lambda x, folder: RESIZE.apply_coords_torch(np.zeros((1, 2)), x),
    "tr.bt": lambda x, folder: RESIZE.apply_boxes_torch(x, (8, 9)),
    "tr.shape": lambda x, folder: RESIZE.get_preprocess_shape(x, 9, 64),
    "tr.shape2": lambda x, folder: RESIZE.get_preprocess_shape(8, 9, x),
    "tensor.as": lambda x, folder: tensor.as_tensor(x),
    "tensor.to": lambda x, folder: tensor.to_array(x, np.float32),
}


@pytest.mark.filterwarnings("ignore")  # NumPy's, of infinity and NaN where those are allowed
@pytest.mark.parametrize("name", CALLS)
def test_odd_values(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a text is the name of a folder too
    bare = []
    for kind, value in odd_values().items():
        try:
            CALLS[name](value, tmp_path)
        except sam_rlx.SamRlxError as error:
            if "expected" not in str(error):
                bare.append(f"{kind}: {error}")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            pass  # a text is the name of a file
        except Exception as error:
            bare.append(f"{kind}: {type(error).__name__}: {error}")
    assert not bare
    assert not list(tmp_path.rglob("*.tmp"))


def _upstream_calls() -> Iterator[tuple[type[Exception], Callable[[], object]]]:
    yield TypeError, lambda: amg.rle_to_mask(None)  # type: ignore[arg-type]
    yield KeyError, lambda: amg.rle_to_mask({})
    yield IndexError, lambda: amg.box_xyxy_to_xywh([1])
    yield AssertionError, lambda: amg.MaskData(a=3)
    yield AssertionError, lambda: amg.remove_small_regions(MASK, 1, "other")
    yield AttributeError, lambda: amg.MaskData(a=[1]).cat(None)  # type: ignore[arg-type]
    yield ValueError, lambda: RESIZE.apply_coords(np.zeros((2, 3)), (8, 9))
    yield ZeroDivisionError, lambda: RESIZE.get_preprocess_shape(0, 0, 64)
    yield OverflowError, lambda: RESIZE.get_preprocess_shape(1, 1, 10**400)


@pytest.mark.parametrize(("kind", "call"), list(_upstream_calls()))
def test_errors_have_the_type_of_upstream(
    kind: type[Exception], call: Callable[[], object]
) -> None:
    with pytest.raises(kind, match=r"expected .*, found") as caught:
        call()
    assert isinstance(caught.value, sam_rlx.InvalidArgumentError)


def test_what_is_asserted_is_checked_without_assertions_too() -> None:
    with pytest.raises(errors.ArgumentAssertionError, match="words"):
        errors.require(False, "words")


def test_arrays_that_numpy_would_pickle_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(sam_rlx.InvalidArgumentError, match="a: expected numbers or text"):
        io.write_npz(tmp_path / "a.npz", a=np.array([None]))
    assert not list(tmp_path.iterdir())


def test_an_annotation_counts_pixels_not_values() -> None:
    expected = io.coco_annotation(MASK)
    assert io.coco_annotation(MASK.astype(np.uint8) * 255) == expected
    assert expected["area"] == 4


def test_overlays_tell_what_is_wrong() -> None:
    for arguments, words in (
        ({"opacity": 2}, "opacity: expected a number from 0"),
        ({"boxes": [[1, 2, 3]]}, r"boxes: expected numbers of shape \(N, 4\)"),
        ({"boxes": [1, 2, 3, np.nan]}, "boxes: expected finite pixels"),
        ({"captions": [3]}, "captions: expected str, found"),
        ({"identities": [1.5]}, "identity: expected an int"),
    ):
        with pytest.raises(sam_rlx.InvalidArgumentError, match=words):
            viz.overlay(IMAGE, MASK, **arguments)  # type: ignore[arg-type]
