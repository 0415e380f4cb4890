"""Results that we write, read by other tools: the table behind ``docs/other_tools.md``.

Example: ``python tests/nightly read_by_others``. Each row is what a tool makes of a mask with a
hole and a second part, and what it is known to make of it; tools that are not installed are left
out, and named. Weights are the job `weights_read_back`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import io as streams
import json
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sam_rlx import _core, batch, io
from sam_rlx.generator import MaskRecord

HW = (60, 80)
MASK = np.zeros(HW, np.bool_)
MASK[10:50, 10:60] = True
MASK[20:40, 20:50] = False  # a hole
MASK[2:6, 70:76] = True  # a second part
WHOLE = int(MASK.sum())
Row = tuple[str, str, str]  # what is read, what is found, what is known
ROWS: dict[str, Callable[[Path], Iterator[Row]]] = {}
Reader = Callable[[Path], Iterator[Row]]


def tool(package: str) -> Callable[[Reader], Reader]:
    """Register the rows of a tool by the name of its package on the index."""

    def register(rows: Reader) -> Reader:
        ROWS[package] = rows
        return rows

    return register


def record() -> MaskRecord:
    """Return the mask as everything mode gives it."""
    flat = MASK.T.ravel()
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    counts = np.diff(np.concatenate([[0], edges, [flat.size]])).astype(np.uint32)
    rows, columns = np.flatnonzero(MASK.any(1)), np.flatnonzero(MASK.any(0))
    box = [columns[0], rows[0], columns[-1] - columns[0], rows[-1] - rows[0]]
    fields = {"counts": counts, "size": HW, "area": WHOLE, "bbox": [int(v) for v in box]}
    more = {"predicted_iou": 0.9, "point_coords": [[15.0, 15.0]], "stability_score": 0.95}
    return MaskRecord({**fields, **more, "crop_box": [0, 0, HW[1], HW[0]]})


def document(folder: Path, *, polygons: bool = False) -> Path:
    """Write COCO JSON as ``--json`` does, or with polygons instead of run lengths."""
    annotation = io.coco_annotation(MASK, score=0.9)
    if polygons:
        annotation["segmentation"] = record().polygons()
    image = {"file_name": "a.png", "height": HW[0], "width": HW[1]}
    path = folder / "result.json"
    path.unlink(missing_ok=True)
    io.write_json(path, io.coco_document(image, [annotation]))
    io.write_image(folder / "a.png", np.full((*HW, 3), 90, np.uint8))
    return path


def lines() -> list[np.ndarray]:
    """Return the polygons as (N, 2)."""
    return [np.reshape(one, (-1, 2)) for one in record().polygons()]


def said(mask: Any) -> str:
    """Say how a mask differs from ours."""
    found = np.asarray(mask) > 0
    if found.shape != HW:
        return f"shape {found.shape}"
    more, fewer = int((found & ~MASK).sum()), int((MASK & ~found).sum())
    return "equal" if not more + fewer else f"+{more} -{fewer} pixels"


@tool("pycocotools")
def by_pycocotools(folder: Path) -> Iterator[Row]:
    """Run lengths and polygons."""
    from pycocotools.coco import COCO

    for name, polygons in (("run lengths", False), ("polygons", True)):
        with contextlib.redirect_stdout(streams.StringIO()):
            coco = COCO(str(document(folder, polygons=polygons)))
        yield name, said(coco.annToMask(coco.loadAnns([1])[0])), "equal"
    yield from _evaluated(folder, "pycocotools.coco", "AP 1.000", "KeyError")


@tool("hotcoco")
def by_hotcoco(folder: Path) -> Iterator[Row]:
    """Evaluate the document against itself, as detections without scores."""
    yield from _evaluated(folder, "hotcoco", "AP 1.000", "AP 1.000")


@tool("faster-coco-eval")
def by_faster(folder: Path) -> Iterator[Row]:
    """Evaluate the document against itself, as detections without scores."""
    yield from _evaluated(folder, "faster_coco_eval", "AP 1.000", "KeyError")


def _evaluated(folder: Path, module: str, scored: str, plain: str) -> Iterator[Row]:
    package = importlib.import_module(module)
    judges = importlib.import_module(module.replace(".coco", ".cocoeval"))
    eval_class = getattr(judges, "COCOeval", None) or judges.COCOeval_faster
    path = document(folder)
    found = json.loads(path.read_text())["annotations"]
    for name, score, known in (("with scores", True, scored), ("without scores", False, plain)):
        detections = [{k: v for k, v in one.items() if score or k != "score"} for one in found]
        (folder / "dt.json").write_text(json.dumps(detections))
        try:
            with contextlib.redirect_stdout(streams.StringIO()):
                truth = package.COCO(str(path))
                judged = eval_class(truth, truth.loadRes(str(folder / "dt.json")), "segm")
                judged.evaluate()
                judged.accumulate()
                judged.summarize()
            yield f"detections {name}", f"AP {float(judged.stats[0]):.3f}", known
        except Exception as error:
            yield f"detections {name}", type(error).__name__, known


@tool("opencv-python-headless")
def by_opencv(folder: Path) -> Iterator[Row]:
    """Polygons, files of masks, clips."""
    import cv2

    found = np.zeros(HW, np.uint8)
    cv2.fillPoly(found, [np.rint(one).astype(np.int32) for one in lines()], 1)
    yield "polygons by fillPoly", said(found), "+151 -0 pixels"
    io.write_image(folder / "m.png", MASK)
    back = cv2.imread(str(folder / "m.png"), cv2.IMREAD_UNCHANGED)
    yield (
        "mask PNG",
        f"{said(back)}, {back.dtype} {sorted(set(back.ravel().tolist()))}",
        ("equal, uint8 [0, 255]"),
    )


@tool("pillow")
def by_pillow(folder: Path) -> Iterator[Row]:
    """Polygons drawn one by one, and the file of a mask."""
    from PIL import Image, ImageDraw

    canvas = Image.new("1", HW[::-1])
    for one in lines():
        ImageDraw.Draw(canvas).polygon([tuple(p) for p in one], fill=1)
    yield "polygons by ImageDraw", said(np.asarray(canvas)), "+151 -0 pixels"
    io.write_image(folder / "m.png", MASK)
    yield "mask PNG", said(np.asarray(Image.open(folder / "m.png"))), "equal"


@tool("scikit-image")
def by_skimage(folder: Path) -> Iterator[Row]:
    """Polygons."""
    from skimage.draw import polygon2mask

    found = np.any([polygon2mask(HW, one[:, ::-1]) for one in lines()], axis=0)
    yield "polygons by polygon2mask", said(found), "+151 -0 pixels"


@tool("rasterio")
def by_rasterio(folder: Path) -> Iterator[Row]:
    """Polygons, as GDAL burns them; and the other way."""
    from rasterio import features

    shapes = [{"type": "Polygon", "coordinates": [one.tolist()]} for one in lines()]
    yield "polygons by rasterize", said(features.rasterize(shapes, HW)), "equal"


@tool("shapely")
def by_shapely(folder: Path) -> Iterator[Row]:
    """Areas of polygons, whose seams touch themselves."""
    import shapely

    shapes = [shapely.Polygon(one) for one in lines()]
    valid = sum(shape.is_valid for shape in shapes)
    yield "polygons", f"{valid} of {len(shapes)} valid", "1 of 2 valid"
    for name, mend in (
        ("buffer(0)", lambda s: s.buffer(0)),
        ("make_valid", shapely.make_valid),
        ("make_valid, structure", lambda s: shapely.make_valid(s, method="structure")),
    ):
        area = sum(mend(shape).area for shape in shapes)
        yield f"polygons, {name}", f"area {area:g} for {WHOLE}", f"area {WHOLE} for {WHOLE}"


@tool("supervision")
def by_supervision(folder: Path) -> Iterator[Row]:
    """COCO JSON, polygons, and our masks in its detections."""
    import supervision as sv

    for name, polygons in (("run lengths", False), ("polygons", True)):
        path = document(folder, polygons=polygons)
        try:
            data = sv.DetectionDataset.from_coco(str(folder), str(path), force_masks=True)
            (_, _, detections) = next(iter(data))
            known = "+151 -0 pixels" if polygons else "equal"
            yield f"COCO, {name}", said(detections.mask[0]), known
        except Exception as error:
            yield f"COCO, {name}", type(error).__name__, ""
    drawn = np.any(
        [sv.polygon_to_mask(np.rint(one).astype(int), HW[::-1]) > 0 for one in lines()], axis=0
    )
    yield "polygons by polygon_to_mask", said(drawn), "+151 -0 pixels"


@tool("datumaro")
def by_datumaro(folder: Path) -> Iterator[Row]:
    """COCO JSON as a data set."""
    import datumaro
    from datumaro.components.annotation import AnnotationType

    for name, polygons in (("run lengths", False), ("polygons", True)):
        target = folder / name
        (target / "annotations").mkdir(parents=True)
        (target / "images" / "train").mkdir(parents=True)
        path = document(folder, polygons=polygons)
        (target / "annotations" / "instances_train.json").write_bytes(path.read_bytes())
        (target / "images" / "train" / "a.png").write_bytes((folder / "a.png").read_bytes())
        data = datumaro.Dataset.import_from(str(target), "coco_instances")
        found = np.zeros(HW, bool)
        kinds = []
        for item in data:
            for one in item.annotations:
                kinds.append(one.type.name)
                if one.type == AnnotationType.mask:
                    found |= np.asarray(one.image).astype(bool)
                elif one.type == AnnotationType.polygon:
                    from pycocotools import mask as masks

                    found |= masks.decode(masks.frPyObjects([one.points], *HW))[..., 0] > 0
        known = "polygon, polygon, bbox" if polygons else "mask, bbox"
        yield f"COCO, {name}", f"{said(found)} as {', '.join(kinds)}", f"equal as {known}"
        data.export(str(folder / "out"), "coco_instances", save_media=True)
        (written,) = (folder / "out" / "annotations").glob("*.json")
        known = "equal" if polygons else "+600 -98 pixels"
        yield f"COCO, {name}, exported again", said(_of_coco(written)), known
        shutil.rmtree(folder / "out")


def _of_coco(path: Path) -> np.ndarray:
    """Return the mask of all annotations of a COCO document, by pycocotools."""
    from pycocotools.coco import COCO

    with contextlib.redirect_stdout(streams.StringIO()):
        coco = COCO(str(path))
    return np.any([coco.annToMask(one) for one in coco.loadAnns(coco.getAnnIds())], axis=0)


@tool("sahi")
def by_sahi(folder: Path) -> Iterator[Row]:
    """COCO JSON."""
    from sahi.utils.coco import Coco

    for name, polygons in (("run lengths", False), ("polygons", True)):
        path = document(folder, polygons=polygons)
        with contextlib.redirect_stdout(streams.StringIO()):
            coco = Coco.from_coco_dict_or_path(str(path))
        (image,) = coco.images
        count = len(image.annotations)
        points = [len(one.segmentation) for one in image.annotations]
        known = f"1 annotations, polygons [{2 * polygons}]"
        yield f"COCO, {name}", f"{count} annotations, polygons {points}", known


@tool("kwimage")
def by_kwimage(folder: Path) -> Iterator[Row]:
    """Run lengths and polygons."""
    import kwimage

    annotation = io.coco_annotation(MASK)
    mask = kwimage.Segmentation.coerce(annotation["segmentation"], dims=HW).to_mask(dims=HW)
    yield "run lengths", said(mask.to_c_mask().data), "equal"


@tool("label-studio-sdk")
def by_label_studio(folder: Path) -> Iterator[Row]:
    """Predictions of the server by its own check, and its converter of brushes."""
    from label_studio_sdk.converter import brush
    from label_studio_sdk.label_interface import LabelInterface

    config = (
        '<View><Image name="image" value="$image"/>'
        '<BrushLabels name="tag" toName="image"><Label value="a"/></BrushLabels></View>'
    )
    packed = np.frombuffer(_core.brush_code(MASK), np.uint8).tolist()
    prediction = {
        "model_version": "a",
        "score": 0.9,
        "result": [
            {
                "from_name": "tag",
                "to_name": "image",
                "type": "brushlabels",
                "id": "a",
                "original_width": HW[1],
                "original_height": HW[0],
                "image_rotation": 0,
                "value": {"format": "rle", "rle": packed, "brushlabels": ["a"]},
            }
        ],
    }
    found = LabelInterface(config).validate_prediction(prediction)
    yield "a brush of the server", f"valid: {found}", "valid: True"
    decoded = brush.decode_rle(packed).reshape(*HW, 4)[..., 3]
    yield "its run lengths by the converter", said(decoded), "equal"


@tool("SimpleITK")
def by_simpleitk(folder: Path) -> Iterator[Row]:
    """The file of a mask."""
    import SimpleITK as sitk

    io.write_image(folder / "m.png", MASK)
    yield "mask PNG", said(sitk.GetArrayFromImage(sitk.ReadImage(str(folder / "m.png")))), "equal"


@tool("tifffile")
def by_tifffile(folder: Path) -> Iterator[Row]:
    """A mask that goes through it and comes back."""
    import tifffile

    tifffile.imwrite(folder / "m.tif", MASK)
    yield "a bool mask, written by it, in read_mask", said(io.read_mask(folder / "m.tif")), "equal"


def rows_of_a_batch(folder: Path) -> Path:
    """Run a batch of three images, one without a mask, and return the file of its rows."""
    photos = folder / "photos"
    photos.mkdir()
    for number in range(3):
        io.write_image(photos / f"{number}.png", np.full((40, 60, 3), 60 + number, np.uint8))
    batch.run(str(photos), folder / "out", boxes=[[5, 5, 30, 30]], workers=1, num_threads=1)
    return folder / "out" / "parts" / "part-0000000.parquet"


@tool("pandas")
def by_pandas(folder: Path) -> Iterator[Row]:
    """Rows of a batch."""
    import pandas

    frame = pandas.read_parquet(rows_of_a_batch(folder))
    yield "rows of a batch", _counts(frame["masks"].iloc[0][0]["counts"], folder), "mask equal"


@tool("polars")
def by_polars(folder: Path) -> Iterator[Row]:
    """Rows of a batch."""
    import polars

    frame = polars.read_parquet(rows_of_a_batch(folder))
    yield "rows of a batch", _counts(frame["masks"][0][0]["counts"], folder), "mask equal"
    none = polars.DataFrame({"index": [0, 1], "masks": [[1, 2], []]})
    yield "explode of an empty list", f"{len(none.explode('masks'))} rows of 3", "2 rows of 3"


@tool("duckdb")
def by_duckdb(folder: Path) -> Iterator[Row]:
    """Rows of a batch."""
    import duckdb

    path = rows_of_a_batch(folder)
    found = duckdb.sql(f"SELECT masks[1].counts FROM '{path}' ORDER BY index").fetchall()
    yield "rows of a batch", _counts(found[0][0], folder), "mask equal"


@tool("fastparquet")
def by_fastparquet(folder: Path) -> Iterator[Row]:
    """Rows of a batch."""
    import fastparquet

    frame = fastparquet.ParquetFile(str(rows_of_a_batch(folder))).to_pandas()
    columns = [name for name in frame.columns if name.startswith("masks")]
    yield "rows of a batch", f"{columns} {frame[columns[0]].iloc[0]!r}"[:120], "['masks'] None"


@tool("daft")
def by_daft(folder: Path) -> Iterator[Row]:
    """Rows of a batch."""
    import daft

    table = daft.read_parquet(str(rows_of_a_batch(folder))).sort("index").to_pydict()
    yield "rows of a batch", _counts(table["masks"][0][0]["counts"], folder), "mask equal"


def _counts(counts: str, folder: Path) -> str:
    """Compare run lengths with those of the first row, and with its area by pycocotools."""
    from pycocotools import mask as masks

    first = next(iter(batch.read(folder / "out")))
    own = first["masks"][0]
    decoded = masks.decode({"size": [first["height"], first["width"]], "counts": counts})
    return "mask equal" if counts == own["counts"] and decoded.sum() == own["area"] else "another"


def main(amount: int = 1, seed: int = 0) -> int:
    """Print all rows; return how many are not as they are known."""
    del amount, seed
    problems, absent = 0, []
    for package, rows in sorted(ROWS.items()):
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            absent.append(package)
            continue
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                for what, found, known in rows(Path(folder)):
                    other = bool(known) and found != known
                    problems += other
                    note = f"  (known: {known})" if other else ""
                    print(f"{package} {version} | {what} | {found}{note}", flush=True)
            except Exception as error:
                problems += 1
                print(f"{package} {version} | {type(error).__name__}: {error}"[:300], flush=True)
    print(f"not installed: {', '.join(absent) or 'none'}")
    return problems


if __name__ == "__main__":
    raise SystemExit(main() > 0)
