"""Results in the forms that other tools read, each read back by the tool that owns the form."""

from __future__ import annotations

import csv
import json
import warnings
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import _core, io, viz

HW = (37, 53)
# Of pycocotools.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def _masks(count: int = 4) -> np.ndarray:
    """Masks (K, H, W): a disc, a ring in two parts, corners that touch, and an empty one."""
    rows, columns = np.ogrid[: HW[0], : HW[1]]
    masks = np.zeros((4, *HW), bool)
    masks[0] = (columns - 20) ** 2 + (rows - 15) ** 2 < 9**2
    distance = (columns - 36) ** 2 + (rows - 22) ** 2
    masks[1] = (distance < 12**2) & (distance > 5**2)
    masks[1, 2:5, 2:6] = True
    masks[2, 10:12, 5:9] = masks[2, 12:14, 9:12] = True
    return masks[:count]


def _image() -> np.ndarray:
    return np.random.default_rng(5).integers(0, 256, (*HW, 3), np.uint8)


def _clicks(batch: bool = False) -> sam_rlx.MaskPrediction:
    masks = _masks(3)
    low = np.zeros((3, 8, 8), np.float32)
    if not batch:
        return sam_rlx.MaskPrediction(masks, np.array([0.5, 0.9, 0.7], np.float32), low)
    scores = np.array([[0.5, 0.9, 0.7], [0.8, 0.2, 0.1]], np.float32)
    return sam_rlx.MaskPrediction(np.stack([masks, masks]), scores, np.stack([low, low]))


def _concepts(logits: bool = False) -> sam_rlx.ConceptPrediction:
    masks = _masks()
    return sam_rlx.ConceptPrediction(
        masks=np.where(masks, 3.0, -2.0).astype(np.float32) if logits else masks,
        boxes=np.zeros((4, 4), np.float32),
        scores=np.array([0.9, 0.8, 0.7, 0.6], np.float32),
        labels=np.array([0, 1, 1, 0]),
        texts=("cat", 'a "red" dog'),
        low_res_masks=np.zeros((4, 8, 8), np.float32),
    )


def _frame(names: tuple[Any, ...] = (7, 3, 12, 1)) -> sam_rlx.VideoFrame:
    masks = dict(zip(names, _masks(), strict=True))
    scores = dict(zip(names, (5.0, 4.0, 3.0, -1.0), strict=True))
    return sam_rlx.VideoFrame(4, masks, scores, texts={names[0]: "cat"})


def _records() -> sam_rlx.MaskRecords:
    records = []
    for mask in _masks():
        counts = _core.rle_encode(mask)
        fields = {"counts": counts, "size": HW, "area": int(mask.sum()), "bbox": [0, 0, 0, 0]}
        known = {"predicted_iou": 0.9, "point_coords": [[1.0, 2.0]], "stability_score": 0.8}
        records.append(sam_rlx.MaskRecord({**fields, **known, "crop_box": [0, 0, *HW[::-1]]}))
    return sam_rlx.MaskRecords(records, HW)


RESULTS = {
    "concepts": (_concepts, _masks()),
    "logits": (lambda: _concepts(True), _masks()),
    "frame": (_frame, _masks()),
    "records": (_records, _masks()),
    "clicks": (_clicks, _masks()[1:2]),
    "batch": (lambda: _clicks(True), _masks()[[1, 0]]),
}
every_result = pytest.mark.parametrize("kind", RESULTS)


@every_result
def test_coco_is_read_by_pycocotools(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("pycocotools", reason="pycocotools judges COCO")
    from pycocotools.coco import COCO

    make, masks = RESULTS[kind]
    filled = [mask for mask in masks if mask.any()]
    for polygons in (False, True):
        document = make().to_coco("a.jpg", image_id=9, polygons=polygons)
        path = tmp_path / "a.json"
        io.write_json(path, document)
        coco = COCO(path)
        assert coco.loadImgs([9])[0]["file_name"] == "a.jpg"
        found = coco.loadAnns(coco.getAnnIds(imgIds=[9]))
        assert len(found) == len(filled)
        for entry, mask in zip(found, filled, strict=True):
            assert isinstance(entry["segmentation"], list) == polygons
            np.testing.assert_array_equal(coco.annToMask(entry), mask)
            assert entry["area"] == mask.sum()
            rows, columns = np.nonzero(mask)
            sides = (np.ptp(columns) + 1, np.ptp(rows) + 1)
            assert entry["bbox"] == [columns.min(), rows.min(), *sides]


def test_coco_keeps_names_ids_and_tracks() -> None:
    given = [{"id": 40, "name": 'a "red" dog', "supercategory": "x"}, {"id": 18, "name": "cat"}]
    document = _concepts().to_coco(categories=given, ids=[5, 9, 2, 1])
    assert document["categories"] == given
    found = [(entry["id"], entry["category_id"]) for entry in document["annotations"]]
    assert found == [(5, 18), (9, 40), (2, 40)]  # the last mask is empty
    np.testing.assert_allclose([one["score"] for one in document["annotations"]], [0.9, 0.8, 0.7])
    frame = _frame().to_coco()
    assert [entry["track_id"] for entry in frame["annotations"]] == [7, 3, 12]
    assert frame["images"][0]["frame_index"] == 4
    assert frame["categories"] == [{"id": 1, "name": "cat"}, {"id": 2, "name": "object"}]
    both = io.coco_joined([frame, _frame().to_coco()])
    assert [image["id"] for image in both["images"]] == [1, 2]
    assert [entry["track_id"] for entry in both["annotations"]] == [7, 3, 12] * 2
    with pytest.raises(sam_rlx.InvalidArgumentError, match="categories: expected 'cat' among"):
        _concepts().to_coco(categories=["dog"])
    with pytest.raises(sam_rlx.InvalidArgumentError, match="ids: expected 4, found 1"):
        _concepts().to_coco(ids=[1])
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"documents\[1\]: expected a list of"):
        io.coco_joined([frame, {"images": []}])


@every_result
def test_yolo_follows_the_rules_of_its_documentation(kind: str) -> None:
    make, masks = RESULTS[kind]
    judge = pytest.importorskip("pycocotools.mask", reason="fills the outlines")
    filled = [mask for mask in masks if mask.any()]
    lines = make().to_yolo().splitlines()
    assert len(lines) == len(filled)  # "one row per object"
    for line, mask in zip(lines, filled, strict=True):
        number, *values = line.split(" ")
        assert int(number) in (0, 1)
        corners = np.array(values, float).reshape(-1, 2)
        assert len(corners) >= 3
        assert ((corners >= 0) & (corners <= 1)).all()
        pixels = np.rint(corners * HW[::-1]).ravel().tolist()
        filled_again = judge.decode(judge.merge(judge.frPyObjects([pixels], *HW)))
        np.testing.assert_array_equal(filled_again, mask)
    for line, mask in zip(make().to_yolo(box=True).splitlines(), filled, strict=True):
        cx, cy, w, h = np.array(line.split(" ")[1:], float) * [*HW[::-1], *HW[::-1]]
        rows, columns = np.nonzero(mask)
        expected = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        np.testing.assert_allclose(
            (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2), expected, atol=1e-3
        )


def test_a_folder_for_yolo(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="reads data.yaml")
    files = {"a.png": _concepts(), "b.png": _clicks().select(0)}
    for name in files:
        io.write_image(tmp_path / name, _image())
    results = {tmp_path / name: result for name, result in files.items()}
    assert io.write_yolo(tmp_path / "set", results) == ['a "red" dog', "cat", "object"]
    data = yaml.safe_load((tmp_path / "set/data.yaml").read_text())
    assert data["names"] == {0: 'a "red" dog', 1: "cat", 2: "object"}
    for kind in ("train", "val"):
        images = sorted((tmp_path / "set" / data["path"] / data[kind]).iterdir())
        assert [path.name for path in images] == ["a.png", "b.png"]
        for path in images:  # as ultralytics finds labels: /images/ becomes /labels/
            label = Path(str(path).replace("/images/", "/labels/")).with_suffix(".txt")
            assert {line.split()[0] for line in label.read_text().splitlines()} <= {"0", "1", "2"}
    with pytest.raises(sam_rlx.InvalidArgumentError, match="names that differ without"):
        io.write_yolo(tmp_path, {"x/a.png": _clicks(), "a.jpg": _clicks()})


@pytest.mark.parametrize("scale", [(1, 0, 0, 0, 1, 0), (0.5, 0, 4e5, 0, -0.5, 5.2e6)])
def test_geojson_is_read_by_shapely(scale: tuple[float, ...]) -> None:
    shapely = pytest.importorskip("shapely", reason="shapely judges GeoJSON")
    from shapely.geometry import shape

    a, _, c, _, e, f = scale
    document = json.loads(json.dumps(_concepts().to_geojson(transform=scale, crs="epsg:32633")))
    assert document["crs"]["properties"]["name"] == "urn:ogc:def:crs:EPSG::32633"
    assert [feature["id"] for feature in document["features"]] == [0, 1, 2]
    for feature, mask in zip(document["features"], _masks(3), strict=True):
        found = shape(feature["geometry"])
        assert found.is_valid
        assert found.area == pytest.approx(mask.sum() * abs(a * e))
        assert feature["properties"]["area"] == mask.sum()
        parts = getattr(found, "geoms", [found])
        assert all(part.exterior.is_ccw for part in parts)
        assert not any(ring.is_ccw for part in parts for ring in part.interiors)
        rows, columns = np.mgrid[: HW[0], : HW[1]]
        x, y = a * (columns + 0.5) + c, e * (rows + 0.5) + f
        np.testing.assert_array_equal(shapely.contains_xy(found, x, y), mask)


def test_the_reference_system_is_one_that_pyproj_knows() -> None:
    pyproj = pytest.importorskip("pyproj", reason="pyproj reads names of reference systems")
    name = _concepts().to_geojson(crs="EPSG:32633")["crs"]["properties"]["name"]
    assert pyproj.CRS.from_user_input(name) == pyproj.CRS.from_epsg(32633)


def test_odd_transforms_are_refused() -> None:
    for transform, found in (((1, 2, 3), "found 3"), ((1, 2, 0, 2, 4, 0), "one with an inverse")):
        with pytest.raises(sam_rlx.InvalidArgumentError, match=f"transform: .*{found}"):
            _concepts().to_geojson(transform=transform)


@every_result
def test_tables_are_what_scikit_image_measures(kind: str) -> None:
    measure = pytest.importorskip("skimage.measure", reason="scikit-image judges measures")
    make, masks = RESULTS[kind]
    image = _image()
    rows = list(csv.DictReader(StringIO(make().to_csv(image=image))))
    assert len(rows) == len(masks)
    for row, mask in zip(rows, masks, strict=True):
        assert int(row["area"]) == mask.sum()
        if not mask.any():
            assert row["centroid_x"] == row["red"] == ""
            continue
        [region] = measure.regionprops(mask.astype(np.uint8), image)
        y0, x0, y1, x1 = region.bbox
        found = [int(row[name]) for name in ("x", "y", "width", "height")]
        assert found == [x0, y0, x1 - x0, y1 - y0]
        centroid = [float(row["centroid_y"]), float(row["centroid_x"])]
        np.testing.assert_allclose(centroid, region.centroid, rtol=1e-12)
        color = [float(row[name]) for name in ("red", "green", "blue")]
        np.testing.assert_allclose(color, region.intensity_mean, rtol=1e-12)


def test_pandas_reads_tables(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas judges tables")
    image = _image()
    path = tmp_path / "objects.csv"
    _frame().to_csv(path, image=image)
    table = _frame().to_pandas(image=image)
    pandas.testing.assert_frame_equal(pandas.read_csv(path), table, check_dtype=False)
    assert table["object"].tolist() == [7, 3, 12, 1]
    assert table["frame"].tolist() == [4] * 4
    assert table["name"].tolist() == ["cat", "object", "object", "object"]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, call in (("pandas", "to_pandas"), ("supervision", "to_supervision")):
        monkeypatch.setitem(__import__("sys").modules, module, None)
        with pytest.raises(sam_rlx.MissingExtraError, match=f"pip install {module}"):
            getattr(_concepts(), call)()


@every_result
def test_supervision_takes_detections(kind: str) -> None:
    sv = pytest.importorskip("supervision", reason="supervision judges its own class")
    make, masks = RESULTS[kind]
    filled = np.array([mask for mask in masks if mask.any()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = make().to_supervision()
    np.testing.assert_array_equal(found.mask, filled)
    np.testing.assert_array_equal(found.xyxy, sv.mask_to_xyxy(filled))
    assert len(found.data["class_name"]) == len(found) == len(filled)
    if kind == "frame":
        assert found.tracker_id.tolist() == [7, 3, 12]


def test_label_images_have_the_smaller_mask_on_top() -> None:
    labels = _concepts().label_image()
    assert labels.dtype == np.uint16
    masks = _masks()
    order = sorted(range(4), key=lambda index: -masks[index].sum())
    expected = np.zeros(HW, int)
    for index in order:
        expected[masks[index]] = index + 1
    np.testing.assert_array_equal(labels, expected)
    assert (sam_rlx.MaskRecords([], HW).label_image() == np.zeros(HW)).all()
    with pytest.raises(sam_rlx.InvalidArgumentError, match="size of its image"):
        sam_rlx.MaskRecords().label_image()


def test_cutouts() -> None:
    image, masks = _image(), _masks()
    whole = _concepts().cutout(image, crop=False)
    assert whole.shape == (*HW, 4)
    covered = masks.any(axis=0)
    np.testing.assert_array_equal(whole[..., 3], covered * 255)
    np.testing.assert_array_equal(whole[..., :3], image * covered[..., None])
    rows, columns = np.nonzero(masks[1])
    box = np.s_[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    one = _concepts().cutout(image, index=1)
    np.testing.assert_array_equal(one[..., 3], masks[1][box] * 255)
    np.testing.assert_array_equal(one[..., :3], (image * masks[1][..., None])[box])
    np.testing.assert_array_equal(_clicks().cutout(Image.fromarray(image)), one)
    assert _concepts().cutout(image, index=3).shape == (0, 0, 4)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="index: expected an int from 0 to 3"):
        _concepts().cutout(image, index=4)
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"image: expected shape \(37, 53\)"):
        _concepts().cutout(image[:5])


def test_soft_edges_are_a_gaussian_filter() -> None:
    ndimage = pytest.importorskip("scipy.ndimage", reason="scipy judges the filter")
    mask = _masks()[0]
    for sigma in (0.6, 2.5):
        found = _concepts().cutout(_image(), index=0, crop=False, soft_edge=sigma)[..., 3]
        radius = int(np.ceil(3 * sigma))
        expected = ndimage.gaussian_filter(mask * 255.0, sigma, mode="nearest", radius=radius)
        assert np.abs(found - expected).max() <= 1
        cropped = _concepts().cutout(_image(), index=0, soft_edge=sigma)
        assert cropped[..., 3].astype(int).sum() == found.astype(int).sum()


def test_plots_are_overlays() -> None:
    image = _image()
    found = _clicks().plot(image)
    np.testing.assert_array_equal(found, viz.overlay(image, _clicks()))
    with_words = _concepts().plot(image)
    assert (with_words != _concepts().plot(image, captions=False)).any()
    assert (found != _clicks().plot(image, names="cup")).any()


@every_result
def test_helpers_take_results(kind: str, tmp_path: Path) -> None:
    make, masks = RESULTS[kind]
    image = _image()
    np.testing.assert_array_equal(viz.overlay(image, make()), viz.overlay(image, masks))
    written = io.write_masks(tmp_path / "masks", make())
    assert [path.name for path in written] == [f"mask_{i:03d}.png" for i in range(len(masks))]
    for path, mask in zip(written, masks, strict=True):
        np.testing.assert_array_equal(np.asarray(Image.open(path)), mask * 255)


def test_helpers_take_all_axes(tmp_path: Path) -> None:
    stack = np.stack([_masks(3), _masks(3)])
    assert len(io.write_masks(tmp_path, stack)) == 6
    assert len(io.write_masks(tmp_path, [_clicks(), _masks(2), _masks()[0]])) == 4
    image = _image()
    np.testing.assert_array_equal(
        viz.overlay(image, stack), viz.overlay(image, stack.reshape(-1, *HW))
    )


def test_files_of_a_result(tmp_path: Path) -> None:
    image = _image()
    every = ("coco", "masks", "overlay", "cutouts", "labels", "csv", "geojson", "yolo")
    written = _concepts().save(tmp_path, every, image=image, name="street.jpg")
    names = [path.relative_to(tmp_path).as_posix() for path in written]
    masks = [f"mask_00{i}.png" for i in range(4)]
    cut = [f"cutout_00{i}.png" for i in range(3)]
    others = ["labels.png", "masks.csv", "masks.geojson", "masks.txt"]
    assert names == [
        f"street.jpg/{name}" for name in ["masks.json", *masks, "overlay.png", *cut, *others]
    ]
    folder = tmp_path / "street.jpg"
    assert json.loads((folder / "masks.json").read_text())["images"][0]["file_name"] == "street.jpg"
    labels = np.asarray(Image.open(folder / "labels.png"))
    np.testing.assert_array_equal(labels, _concepts().label_image())
    opened = np.asarray(Image.open(folder / "cutout_001.png"))
    np.testing.assert_array_equal(opened, _concepts().cutout(image, index=1))
    assert (folder / "masks.txt").read_text() == _concepts().to_yolo()
    _concepts().save(tmp_path, every, image=image, name="street.jpg")  # written again
    assert [path.name for path in _clicks().save(tmp_path, "csv")] == ["masks.csv"]
    on_map = {"transform": (0.5, 0, 4e5, 0, -0.5, 5.2e6), "crs": "EPSG:32633"}
    (path,) = _concepts().save(tmp_path, "geojson", **on_map)
    assert json.loads(path.read_text()) == _concepts().to_geojson(**on_map)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="image: expected the image for"):
        _clicks().save(tmp_path, ["overlay"])
    with pytest.raises(sam_rlx.InvalidArgumentError, match="formats: expected one of"):
        _clicks().save(tmp_path, ["jpeg"])


def test_candidates_are_selected() -> None:
    result = _clicks(batch=True)
    chosen = result.select([2, 0])
    assert chosen.masks.shape == (2, 1, *HW)
    np.testing.assert_array_equal(chosen.masks[:, 0], _masks()[[2, 0]])
    np.testing.assert_array_equal(chosen.iou_predictions.ravel(), np.float32([0.7, 0.8]))
    np.testing.assert_array_equal(_clicks().select(2).masks, _masks()[2:3])
    for wrong in (3, -1, [0], 1.5):
        with pytest.raises(sam_rlx.InvalidArgumentError, match="index: expected"):
            _clicks().select(wrong)


def test_records_are_a_list() -> None:
    records = _records()
    assert isinstance(records, list)
    assert isinstance(records[:2], sam_rlx.MaskRecords)
    assert records[:0].size == HW
    assert isinstance(records[0], sam_rlx.MaskRecord)
    assert len(records.polygons()) == 4
    assert [len(parts) for parts in records.polygons()] == [1, 2, 2, 0]
    assert records[0].polygons() == records.to_coco(polygons=True)["annotations"][0]["segmentation"]


def test_names_must_fit() -> None:
    assert _clicks().to_yolo(names="cup", categories=["plate", "cup"]).startswith("1 ")
    with pytest.raises(sam_rlx.InvalidArgumentError, match="names: expected 4, found 2"):
        _concepts().to_csv(names=["a", "b"])
