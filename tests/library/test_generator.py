"""Everything mode: arguments, records and their forms."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest
import sam_rlx
from sam_rlx import InvalidArgumentError

# A model with random weights is unsure of everything: keep what it finds.
LOOSE = {"points_per_side": 4, "pred_iou_thresh": 0.0, "stability_score_thresh": 0.0}
KEYS = {
    "segmentation",
    "area",
    "bbox",
    "predicted_iou",
    "point_coords",
    "stability_score",
    "crop_box",
}


@pytest.fixture(scope="module")
def records(model: sam_rlx.Model, image: np.ndarray) -> list[sam_rlx.MaskRecord]:
    found = sam_rlx.MaskGenerator(model, **LOOSE).generate(image)
    assert found
    return found


def test_arguments_and_defaults_are_upstreams() -> None:
    upstream = {
        "points_per_side": 32,
        "points_per_batch": 64,
        "pred_iou_thresh": None,  # by family: 0.88, 0.8
        "stability_score_thresh": None,  # 0.95; lower for packaged models
        "stability_score_offset": 1.0,
        "box_nms_thresh": 0.7,
        "crop_n_layers": 0,
        "crop_nms_thresh": 0.7,
        "crop_overlap_ratio": 512 / 1500,
        "crop_n_points_downscale_factor": 1,
        "point_grids": None,
        "min_mask_region_area": 0,
        "multimask_output": True,
        "use_m2m": False,
        "mask_threshold": None,  # the model's, 0
        "output_mode": "binary_mask",
    }
    parameters = inspect.signature(sam_rlx.MaskGenerator).parameters
    found = {name: parameter.default for name, parameter in parameters.items()}
    assert list(found) == ["model", *upstream, "objects_only", "hq_token_only", "num_threads"]
    assert {name: found[name] for name in upstream} == upstream


def test_records_read_like_dicts_and_have_attributes(records: list[sam_rlx.MaskRecord]) -> None:
    for record in records:
        assert set(record) == KEYS
        assert len(record) == len(KEYS)
        assert dict(record).keys() == KEYS
        assert record["segmentation"] is record.segmentation
        assert record.segmentation.shape == (400, 600)
        assert record.segmentation.dtype == np.bool_
        assert record["area"] == record.area == int(record.segmentation.sum())
        x, y, w, h = record["bbox"]
        rows, columns = np.nonzero(record.segmentation)
        assert [x, y, w, h] == [
            columns.min(),
            rows.min(),
            columns.max() - columns.min(),
            rows.max() - rows.min(),
        ]
        assert record["crop_box"] == [0, 0, 600, 400]
        assert len(record["point_coords"]) == 1
        assert isinstance(record["predicted_iou"], float)
        assert isinstance(record["stability_score"], float)
        with pytest.raises(KeyError):
            record["counts"]


def test_output_modes_hold_the_same_masks(
    model: sam_rlx.Model, image: np.ndarray, records: list[sam_rlx.MaskRecord]
) -> None:
    def generate(mode: str) -> list[sam_rlx.MaskRecord]:
        return sam_rlx.MaskGenerator(model, **LOOSE, output_mode=mode).generate(image)

    plain, compressed = generate("uncompressed_rle"), generate("coco_rle")
    assert len(plain) == len(compressed) == len(records)
    for binary, counts, text in zip(records, plain, compressed, strict=True):
        assert counts["segmentation"]["size"] == [400, 600]
        assert sum(counts["segmentation"]["counts"]) == 400 * 600
        assert sum(counts["segmentation"]["counts"][1::2]) == binary.area
        assert text["segmentation"] == binary.to_coco()["segmentation"]
        np.testing.assert_array_equal(text.mask(), binary.segmentation)


def test_coco_form_is_json_and_decodes(records: list[sam_rlx.MaskRecord]) -> None:
    for record in records:
        restored = json.loads(json.dumps(record.to_coco()))
        assert set(restored) == KEYS
        assert isinstance(restored["segmentation"]["counts"], str)


def test_polygons_lie_in_the_image(records: list[sam_rlx.MaskRecord]) -> None:
    for record in records[:3]:
        for polygon in record.polygons():
            assert len(polygon) >= 6
            assert len(polygon) % 2 == 0
            assert min(polygon[::2]) >= 0
            assert max(polygon[::2]) <= 600
            assert min(polygon[1::2]) >= 0
            assert max(polygon[1::2]) <= 400


def test_progress_counts_up_to_the_total(model: sam_rlx.Model, image: np.ndarray) -> None:
    steps: list[tuple[int, int]] = []
    generator = sam_rlx.MaskGenerator(model, **LOOSE, points_per_batch=5)
    generator.generate(image, progress=lambda done, total: steps.append((done, total)))
    assert steps
    assert len({total for _, total in steps}) == 1
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[-1][0] == steps[-1][1]


def test_progress_shows_nothing_in_a_pipe(
    model: sam_rlx.Model, image: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    sam_rlx.MaskGenerator(model, **LOOSE).generate(image, progress=True)
    assert capfd.readouterr() == ("", "")


def test_thread_counts_give_the_same_records(model: sam_rlx.Model, image: np.ndarray) -> None:
    found = [
        [record.to_coco() for record in generator.generate(image)]
        for generator in (
            sam_rlx.MaskGenerator(model, **LOOSE, num_threads=1),
            sam_rlx.MaskGenerator(model, **LOOSE, num_threads=3),
        )
    ]
    assert found[0] == found[1]


def test_point_grids_replace_the_grid(model: sam_rlx.Model, image: np.ndarray) -> None:
    loose = {**LOOSE, "points_per_side": None}
    grids = [np.array([[0.5, 0.5], [0.25, 0.75]])]
    found = sam_rlx.MaskGenerator(model, **loose, point_grids=grids).generate(image)
    assert {tuple(record.point_coords[0]) for record in found} <= {(300.0, 200.0), (150.0, 300.0)}


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_coco_annotations_are_pycocotools(model: sam_rlx.Model, image: np.ndarray) -> None:
    coco = pytest.importorskip("pycocotools.mask", reason="needs pycocotools")
    records = sam_rlx.MaskGenerator(model, **LOOSE).generate(image)
    assert records
    for record in records:
        annotation = record.to_coco()
        assert annotation["bbox"] == coco.toBbox(annotation["segmentation"]).tolist()
        assert annotation["bbox"] == sam_rlx.io.coco_annotation(record.mask())["bbox"]
        assert annotation["area"] == coco.area(annotation["segmentation"])
        outline = coco.merge(coco.frPyObjects(record.polygons(), *record.size))
        np.testing.assert_array_equal(coco.decode(outline), record.mask())
        # Upstream's own record counts from the first to the last pixel.
        assert record.bbox[2:] == [side - 1 for side in annotation["bbox"][2:]]


def test_the_box_of_an_empty_mask() -> None:
    fields = {"counts": np.array([12], np.uint32), "size": (3, 4), "area": 0, "bbox": [0, 0, 0, 0]}
    others = {"predicted_iou": 1.0, "point_coords": [[0, 0]], "stability_score": 1.0}
    record = sam_rlx.MaskRecord({**fields, **others, "crop_box": [0, 0, 4, 3]})
    assert record.to_coco()["bbox"] == [0, 0, 0, 0]
    assert record.polygons() == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"points_per_side": None}, "exactly one of points_per_side and point_grids"),
        ({"point_grids": [np.zeros((1, 2))]}, "exactly one of points_per_side and point_grids"),
        ({"points_per_side": 0}, "points_per_side: expected an int >= 1, found 0"),
        ({"points_per_side": 2.5}, "points_per_side: expected an int"),
        ({"points_per_batch": 0}, "points_per_batch: expected an int >= 1, found 0"),
        ({"pred_iou_thresh": float("nan")}, "pred_iou_thresh: expected a number"),
        ({"stability_score_thresh": 1.5}, "stability_score_thresh: expected a number"),
        ({"stability_score_offset": -1}, "stability_score_offset: expected a number"),
        ({"box_nms_thresh": "0.5"}, "box_nms_thresh: expected a number"),
        ({"crop_n_layers": -1}, "crop_n_layers: expected an int from 0 to 8, found -1"),
        ({"crop_n_layers": 9}, "crop_n_layers: expected an int from 0 to 8, found 9"),
        ({"crop_nms_thresh": 2}, "crop_nms_thresh: expected a number"),
        ({"crop_overlap_ratio": -0.1}, "crop_overlap_ratio: expected a number"),
        ({"crop_n_points_downscale_factor": 0}, "crop_n_points_downscale_factor: expected an int"),
        ({"min_mask_region_area": -5}, "min_mask_region_area: expected an int"),
        ({"output_mode": "png"}, "output_mode: expected one of"),
        ({"num_threads": 0}, "num_threads: expected an int >= 1, found 0"),
        (
            {"points_per_side": None, "point_grids": [np.zeros((1, 2))], "crop_n_layers": 1},
            "point_grids: expected 2 grids",
        ),
        (
            {"points_per_side": None, "point_grids": [np.zeros((2, 3))]},
            r"point_grids\[0\]: expected shape",
        ),
        (
            {"points_per_side": None, "point_grids": [np.full((2, 2), 1.5)]},
            r"point_grids\[0\]: expected values in 0 to 1",
        ),
    ],
)
def test_wrong_arguments_are_refused(
    model: sam_rlx.Model, arguments: dict[str, object], text: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        sam_rlx.MaskGenerator(model, **arguments)  # type: ignore[arg-type]
