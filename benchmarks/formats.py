"""Each form of results, who reads it back, and the largest difference.

Run ``python benchmarks/formats.py``. Judges that are not installed are named. Masks are those of
everything mode on the coins of scikit-image and 200 random ones with holes and touching corners.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import sam_rlx
from numpy.typing import NDArray
from sam_rlx import _core, io

Masks = list[NDArray[np.bool_]]


def random_masks(count: int, side: int = 64) -> Masks:
    """Return masks of blocks and discs, from empty to full."""
    rng = np.random.default_rng(66)
    rows, columns = np.ogrid[:side, :side]
    masks = []
    for _ in range(count):
        step = int(rng.integers(1, 7))
        coarse = rng.random((side // step + 1,) * 2) < rng.uniform(0.05, 0.95)
        mask = np.kron(coarse, np.ones((step, step), bool))[:side, :side]
        for x, y, radius in rng.uniform(0, side, (int(rng.integers(0, 4)), 3)):
            mask = mask ^ ((columns - x) ** 2 + (rows - y) ** 2 < (radius / 2) ** 2)
        masks.append(np.ascontiguousarray(mask))
    return masks


def result_of(masks: Masks) -> sam_rlx.ConceptPrediction:
    """Return masks as a result."""
    count = len(masks)
    return sam_rlx.ConceptPrediction(
        masks=np.array(masks),
        boxes=np.zeros((count, 4), np.float32),
        scores=np.linspace(1, 0.5, count, dtype=np.float32),
        labels=np.zeros(count, np.int64),
        texts=("coin",),
        low_res_masks=np.zeros((count, 4, 4), np.float32),
    )


def pixels(pairs: list[tuple[NDArray[Any], NDArray[Any]]]) -> str:
    """Say how many pixels of masks differ at most."""
    return f"{max(int((a != b).sum()) for a, b in pairs)} pixels of a mask"


def coco(masks: Masks, polygons: bool = False) -> str:
    """Documents, read by pycocotools."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        io.write_json(path, result_of(masks).to_coco("a.jpg", polygons=polygons))
        with redirect_stdout(StringIO()):  # it prints what it does
            read = importlib.import_module("pycocotools.coco").COCO(path)
    filled = [mask for mask in masks if mask.any()]
    found = [read.annToMask(entry) for entry in read.loadAnns(read.getAnnIds())]
    return pixels(list(zip(found, filled, strict=True)))


def yolo(masks: Masks) -> str:
    """Label files by ultralytics' rules, filled by pycocotools."""
    judge = importlib.import_module("pycocotools.mask")
    height, width = masks[0].shape
    filled = [mask for mask in masks if mask.any()]
    pairs = []
    for line, mask in zip(result_of(masks).to_yolo().splitlines(), filled, strict=True):
        corners = np.array(line.split()[1:], float).reshape(-1, 2)
        assert len(corners) >= 3
        assert ((corners >= 0) & (corners <= 1)).all()
        flat = (corners * (width, height)).round().ravel().tolist()
        pairs.append((judge.decode(judge.merge(judge.frPyObjects([flat], height, width))), mask))
    return pixels(pairs)


def outlines(masks: Masks, tolerance: float = 0.0) -> str:
    """Polygons, by shapely: validity, and IoU of what they cover with the mask."""
    shapely = importlib.import_module("shapely")
    rows, columns = np.mgrid[: masks[0].shape[0], : masks[0].shape[1]]
    invalid, ious, corners = 0, [1.0], [0, 0]
    for mask, parts, full in zip(
        masks, result_of(masks).polygons(tolerance), result_of(masks).polygons(), strict=True
    ):
        shape = shapely.MultiPolygon([(part[0], part[1:]) for part in parts])
        invalid += not shape.is_valid
        covered = shapely.contains_xy(shape, columns + 0.5, rows + 0.5)
        if mask.any():
            ious.append((covered & mask).sum() / (covered | mask).sum())
        for position, rings in enumerate((parts, full)):
            corners[position] += sum(len(ring) for part in rings for ring in part)
    few = f", {corners[0] / max(corners[1], 1):.2f} of the corners" if tolerance else ""
    worst, mean = min(ious), np.mean(ious)
    return f"{invalid} of {len(masks)} invalid, IoU at least {worst:.4f}, mean {mean:.4f}{few}"


def geojson(masks: Masks) -> str:
    """Features on a map, by shapely: area against pixels."""
    shape = importlib.import_module("shapely.geometry").shape
    document = result_of(masks).to_geojson(transform=(0.5, 0, 4e5, 0, -0.5, 5e6))
    features = json.loads(json.dumps(document))["features"]
    areas = [mask.sum() * 0.25 for mask in masks if mask.any()]
    errors = [
        abs(shape(feature["geometry"]).area - area)
        for feature, area in zip(features, areas, strict=True)
    ]
    return f"{max(errors):.1e} of an area"


def tables(masks: Masks) -> str:
    """CSV, by scikit-image's measures."""
    measure = importlib.import_module("skimage.measure")
    image = np.random.default_rng(0).integers(0, 256, (*masks[0].shape, 3), np.uint8)
    worst = 0.0
    rows = csv.DictReader(StringIO(result_of(masks).to_csv(image=image)))
    for row, mask in zip(rows, masks, strict=True):
        if mask.any():
            [region] = measure.regionprops(mask.astype(np.uint8), image)
            y0, x0, y1, x1 = region.bbox
            right = [region.area, x0, y0, x1 - x0, y1 - y0, *region.centroid[::-1]]
            found = [float(value) for value in list(row.values())[5:]]
            errors = np.subtract(found, [*right, *region.intensity_mean])
            worst = max(worst, float(np.abs(errors).max()))
    return f"{worst:.1e} of area, box, centroid, colour"


def pandas(masks: Masks) -> str:
    """CSV, read by pandas, against `to_pandas`."""
    library = importlib.import_module("pandas")
    result = result_of(masks)
    read = library.read_csv(StringIO(result.to_csv())).select_dtypes("number")
    return f"{np.nanmax(np.abs(read - result.to_pandas()[read.columns]).to_numpy(float)):.1e}"


def soft_edge(masks: Masks) -> str:
    """Cut-outs with a soft edge, by SciPy's Gaussian filter."""
    filtered = importlib.import_module("scipy.ndimage").gaussian_filter
    image = np.zeros((*masks[0].shape, 3), np.uint8)
    worst = 0.0
    for index, mask in enumerate(masks[:20]):
        cut = result_of(masks).cutout(image, index=index, crop=False, soft_edge=2.0)
        right = filtered(mask * 255.0, 2.0, mode="nearest", radius=6)
        worst = max(worst, float(np.abs(cut[..., 3] - right).max()))
    return f"{worst:.2f} of 255"


def supervision(masks: Masks) -> str:
    """Detections, by supervision's boxes of masks."""
    library = importlib.import_module("supervision")
    found = result_of(masks).to_supervision()
    right = library.mask_to_xyxy(np.array([mask for mask in masks if mask.any()]))
    return f"{np.abs(found.xyxy - right).max():g} pixels of a box"


ROWS: list[tuple[str, str, Callable[[Masks], str]]] = [
    ("COCO, run lengths", "pycocotools", coco),
    ("COCO, polygons", "pycocotools", lambda masks: coco(masks, polygons=True)),
    ("YOLO segments", "pycocotools", yolo),
    ("polygons", "shapely", outlines),
    ("polygons(tolerance=1)", "shapely", lambda masks: outlines(masks, 1.0)),
    ("GeoJSON", "shapely", geojson),
    ("CSV", "scikit-image", tables),
    ("CSV and DataFrame", "pandas", pandas),
    ("cut-outs", "scipy", soft_edge),
    ("Detections", "supervision", supervision),
]


def coins() -> Masks:
    """Return the masks of everything mode on scikit-image's coins."""
    image = importlib.import_module("skimage.data").coins()
    generator = sam_rlx.MaskGenerator(sam_rlx.load_model("sam-nano"), points_per_side=12)
    records = generator.generate(np.stack([image] * 3, axis=-1))
    return [_core.rle_decode(record.counts, record.size) for record in records]


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for title, masks in (("random masks", random_masks(200)), ("masks of coins", coins())):
        print(f"{len(masks)} {title}")
        for form, judge, compare in ROWS:
            start = time.process_time()
            try:
                found = compare(masks)
            except ModuleNotFoundError as error:
                found = f"not compared: {error}"
            print(f"  {form:22} {judge:13} {found}  ({time.process_time() - start:.1f} s)")


if __name__ == "__main__":
    main()
