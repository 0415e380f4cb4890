"""Exports: each form is read by its owner, or by its documented rules, and read back here."""

from __future__ import annotations

import base64
import csv
import io as streams
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import cv2
import numpy as np
import pytest
import sam_rlx
from numpy.typing import NDArray
from PIL import Image
from sam_rlx.apps.annotator.exports import FORMS, names_of
from sam_rlx.apps.annotator.exports.images_form import label_array, voc_palette
from sam_rlx.apps.annotator.imports import READERS
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.widget import SegmentWidget, VideoWidget

HW = (61, 87)
FRAMES = 5


pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def pixels_of(file: Any) -> NDArray[Any]:
    with Image.open(file) as image:
        return np.array(image)


def shapes() -> list[NDArray[np.bool_]]:
    """Return a part with a hole and a crumb, a triangle, and a part at the border."""
    holed = np.zeros(HW, np.bool_)
    holed[5:25, 8:30] = True
    holed[12:16, 14:20] = False
    holed[30:33, 9:12] = True
    y, x = np.mgrid[: HW[0], : HW[1]]
    return [holed, (x > 40) & (y > 10) & (x + y < 80), y > 50]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return three images, two of equal name in two folders."""
    random = np.random.default_rng(3)
    made = tmp_path / "images"
    for name in ("cam0/a.png", "cam1/a.png", "cam1/b.png"):
        file = made / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 255, (*HW, 3), np.uint8)).save(file)
    return made


@pytest.fixture
def widget(model: sam_rlx.Model, folder: Path) -> Iterator[SegmentWidget]:
    """Two of the images have objects of two classes; a third class has none."""
    files = sorted(folder.rglob("*.png"))
    made = SegmentWidget(model, files, project=False)
    made.class_add('größte <cell> & "co"', digit="2")
    cell = made.class_add("nucleus")
    made.class_add("empty")
    made.set_class(1)
    for mask in shapes()[:2]:
        made.start(mask)
        made.commit()
    made.set_class(cell, 2)
    made.note("an <odd> one", 1)
    made.show(1)
    made.set_class(2)
    made.start(shapes()[2])
    yield made
    made.close()


@pytest.fixture
def video() -> Iterator[VideoWidget]:
    clip = np.random.default_rng(0).integers(0, 255, (FRAMES, *HW, 3), np.uint8)
    made = VideoWidget(sam_rlx.load_model("sam2-nano"), clip, project=False)
    ball = made.class_add("ball")
    for frame, mask in ((0, shapes()[0]), (2, shapes()[1])):
        made.start(frame, mask)
        made.commit()
    made.set_class(1, 1)
    assert ball == 2
    made.select(1)
    for frame in (1, 3):
        made.stroke(frame, [(20 + frame, 20)], 6, number=1)
    yield made
    made.close()


def by_image(widget: SegmentWidget) -> dict[str, set[tuple[str, bytes]]]:
    """Return classes and masks by path of the image."""
    session = widget._session
    found: dict[str, set[tuple[str, bytes]]] = {}
    for at in session.annotated_indices():
        image = session.annotated(at)
        found[image.name] = {
            (session.project.history.project.class_of(one).name, one.mask.tobytes())
            for one in image.objects
        }
    return found


def by_frame(widget: VideoWidget) -> dict[int, set[bytes]]:
    return {
        frame: {mask.tobytes() for mask in widget.masks(frame).values()}
        for frame in range(FRAMES)
        if widget.masks(frame)
    }


def test_coco_is_read_by_pycocotools(widget: SegmentWidget, tmp_path: Path) -> None:
    from pycocotools.coco import COCO

    widget.export(tmp_path / "out", "coco")
    coco = COCO(tmp_path / "out" / "annotations.json")
    names = {one["id"]: one["name"] for one in coco.dataset["categories"]}
    assert list(names.values()) == ["object", 'größte <cell> & "co"', "nucleus", "empty"]
    found: dict[str, set[tuple[str, bytes]]] = {}
    for one in coco.dataset["annotations"]:
        mask = coco.annToMask(one).astype(np.bool_)
        assert one["area"] == mask.sum()
        name = coco.imgs[one["image_id"]]["file_name"]
        found.setdefault(name, set()).add((names[one["category_id"]], mask.tobytes()))
    assert found == by_image(widget)
    widget.export(tmp_path / "polygons", "coco", tolerance=0.0)
    coco = COCO(tmp_path / "polygons" / "annotations.json")
    masks = {coco.annToMask(one).astype(np.bool_).tobytes() for one in coco.dataset["annotations"]}
    assert masks == {mask.tobytes() for mask in shapes()}


def test_panoptic_segments_are_the_masks(widget: SegmentWidget, tmp_path: Path) -> None:
    widget.export(tmp_path / "out", "panoptic")
    document = json.loads((tmp_path / "out" / "panoptic.json").read_text())
    assert all(one["isthing"] == 1 for one in document["categories"])
    for one in document["annotations"]:
        pixels = pixels_of(tmp_path / "out" / "panoptic" / one["file_name"]).astype(np.uint32)
        segments = pixels[..., 0] + 256 * pixels[..., 1] + 65536 * pixels[..., 2]
        assert set(np.unique(segments)) - {0} == {each["id"] for each in one["segments_info"]}
        for each in one["segments_info"]:
            rows, columns = np.nonzero(segments == each["id"])
            assert each["area"] == len(rows)
            x, y, w, h = each["bbox"]
            assert (x, y) == (columns.min(), rows.min())
            assert (w, h) == (np.ptp(columns) + 1, np.ptp(rows) + 1)


def test_yolo_lines_fill_to_the_masks(widget: SegmentWidget, tmp_path: Path) -> None:
    widget.export(tmp_path / "out", "yolo", images="all", split=0.5)
    files = sorted((tmp_path / "out" / "labels").rglob("*.txt"))
    assert len(files) == 3
    assert len(list((tmp_path / "out" / "images").rglob("*.png"))) == 3
    text = (tmp_path / "out" / "data.yaml").read_text("utf-8")
    assert "val: images/val" in text
    masks = []
    for file in files:
        for line in file.read_text().splitlines():
            kind, *values = line.split()
            assert 0 <= int(kind) < 4
            corners = np.array(values, np.float64).reshape(-1, 2) * HW[::-1]
            scale = 16  # fillPoly fills the border too: it is one sixteenth of a pixel here
            big = np.zeros((HW[0] * scale, HW[1] * scale), np.uint8)
            cv2.fillPoly(big, [np.rint(corners * scale).astype(np.int32)], 1)
            masks.append(cv2.resize(big, HW[::-1], interpolation=cv2.INTER_AREA) > 0)
            middle = big[scale // 2 :: scale, scale // 2 :: scale].astype(np.bool_)
            assert any((middle == mask).all() for mask in shapes())
    assert len(masks) == 3
    widget.export(tmp_path / "boxes", "yolo", task="detect")
    line = (
        next(iter((tmp_path / "boxes" / "labels").rglob("cam0_a.txt"))).read_text().split("\n")[0]
    )
    assert len(line.split()) == 5


def test_label_studio_decodes_equal(widget: SegmentWidget, tmp_path: Path) -> None:
    brush = pytest.importorskip(
        "label_studio_sdk.converter.brush", reason="the owner's decoder of brush codes"
    )
    widget.export(tmp_path / "out", "label_studio")
    for task in json.loads((tmp_path / "out" / "tasks.json").read_text("utf-8")):
        for one in task["annotations"][0]["result"]:
            pixels = brush.decode_rle(one["value"]["rle"])
            mask = np.reshape(pixels, (*HW, 4))[..., 3] > 0
            assert any((mask == known).all() for known in shapes())


def test_cvat_masks_are_runs_of_rows(widget: SegmentWidget, tmp_path: Path) -> None:
    widget.export(tmp_path / "out", "cvat")
    root = ElementTree.parse(tmp_path / "out" / "annotations.xml").getroot()
    assert root.findtext("version") == "1.1"
    labels = [one.findtext("name") for one in root.iter("label")]
    assert labels[1] == 'größte <cell> & "co"'
    masks = list(root.iter("mask"))
    assert len(masks) == 3
    for one in masks:
        assert one.get("label") in labels
        left, top, width, height = (
            int(one.get(key, "")) for key in ("left", "top", "width", "height")
        )
        values = []
        for at, count in enumerate(map(int, one.get("rle", "").split(","))):
            values += [at % 2] * count
        mask = np.zeros(HW, np.bool_)
        mask[top : top + height, left : left + width] = np.reshape(values, (height, width))
        assert any((mask == known).all() for known in shapes())


def test_labelme_masks_are_png_of_their_box(widget: SegmentWidget, tmp_path: Path) -> None:
    widget.export(tmp_path / "out", "labelme")
    files = sorted((tmp_path / "out").rglob("*.json"))
    assert len(files) == 2
    for file in files:
        document = json.loads(file.read_text("utf-8"))
        assert (file.parent / document["imagePath"]).is_file()
        for one in document["shapes"]:
            assert one["shape_type"] == "mask"
            (x0, y0), (x1, y1) = one["points"]
            part = pixels_of(streams.BytesIO(base64.b64decode(one["mask"])))
            assert part.shape == (y1 - y0 + 1, x1 - x0 + 1)
            mask = np.zeros(HW, np.bool_)
            mask[y0 : y1 + 1, x0 : x1 + 1] = part.astype(np.bool_)
            assert any((mask == known).all() for known in shapes())


def test_isat_polygons_fill_to_the_masks(widget: SegmentWidget, tmp_path: Path) -> None:
    widget.export(tmp_path / "out", "isat")
    assert "__background__" in (tmp_path / "out" / "isat.yaml").read_text()
    for file in sorted((tmp_path / "out").rglob("*.json")):
        document = json.loads(file.read_text("utf-8"))
        assert document["info"]["description"] == "ISAT"
        filled: dict[int, NDArray[Any]] = {}
        assert [one["layer"] for one in document["objects"]] == list(
            range(1, len(document["objects"]) + 1)
        )
        for one in document["objects"]:
            corners = np.array(one["segmentation"], np.int32)
            mask = filled.setdefault(one["group"], np.zeros(HW, np.uint8))
            cv2.fillPoly(mask, [corners], int(one["category"] != "__background__"))
        for mask in filled.values():
            assert any((mask == known).all() for known in shapes())
        for one in document["objects"]:
            assert set(one) == {
                *("category", "group", "segmentation", "area", "layer", "bbox", "iscrowd", "note")
            }


def test_voc_has_classes_and_objects(widget: SegmentWidget, tmp_path: Path) -> None:
    widget.export(tmp_path / "out", "voc")
    assert voc_palette()[:12] == bytes([0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0])
    names = (tmp_path / "out" / "labels.txt").read_text("utf-8").splitlines()
    assert names[0] == "object"
    stems = (tmp_path / "out" / "ImageSets/Segmentation/train.txt").read_text().split()
    assert stems == ["cam0_a", "cam1_a"]
    with Image.open(tmp_path / "out" / "SegmentationClass" / "cam0_a.png") as image:
        assert image.mode == "P"
        classes = np.array(image)
    objects = pixels_of(tmp_path / "out" / "SegmentationObject" / "cam0_a.png")
    first, second = shapes()[:2]
    assert (objects == 1)[first].all()
    assert (classes[first] == 1).all()
    assert (classes[second & ~first] == 3).all()
    root = ElementTree.parse(tmp_path / "out" / "Annotations" / "cam0_a.xml").getroot()
    box = root.find("object/bndbox")
    assert box is not None
    assert [int(one.text or "") for one in box] == [9, 6, 30, 33]


def test_tables_images_and_arrays(widget: SegmentWidget, tmp_path: Path) -> None:
    widget.export(tmp_path / "csv", "csv")
    with (tmp_path / "csv" / "objects.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["area"]) for row in rows] == [int(mask.sum()) for mask in shapes()]
    assert rows[0]["note"] == "an <odd> one"
    widget.export(tmp_path / "npz", "npz")
    with np.load(tmp_path / "npz" / "cam0" / "a.npz") as arrays:
        assert (arrays["masks"] == np.stack(shapes()[:2])).all()
        assert arrays["classes"].tolist() == ["object", "nucleus"]
    widget.export(tmp_path / "masks", "masks")
    one = pixels_of(tmp_path / "masks" / "cam0" / "a" / "001_object.png")
    assert (one == 255 * shapes()[0]).all()
    widget.export(tmp_path / "cut", "cutouts")
    assert pixels_of(tmp_path / "cut" / "cam0" / "a" / "001_object.png").shape == (28, 22, 4)
    widget.export(tmp_path / "over", "overlay")
    assert pixels_of(tmp_path / "over" / "cam0" / "a.png").shape == (*HW, 3)
    shapely = pytest.importorskip("shapely", reason="the judge of GeoJSON")
    widget.export(tmp_path / "geo", "geojson")
    found = json.loads((tmp_path / "geo" / "cam0" / "a.geojson").read_text())
    for feature, mask in zip(found["features"], shapes(), strict=False):
        shape = shapely.from_geojson(json.dumps(feature["geometry"]))
        assert shape.is_valid
        assert shape.area == mask.sum()


def test_labels_take_as_many_bits_as_their_numbers(widget: SegmentWidget, tmp_path: Path) -> None:
    widget.export(tmp_path / "out", "labels")
    with Image.open(tmp_path / "out" / "cam0" / "a.png") as image:
        assert image.mode == "L"
    still = next(iter(widget._session.work("all", None).stills))
    first, *others = still.objects
    for number, dtype in ((255, np.uint8), (256, np.uint16)):
        renumbered = replace(first, one=replace(first.one, number=number))
        labels = label_array(replace(still, objects=(renumbered, *others)))
        assert (labels.dtype, labels.max()) == (dtype, number)


@pytest.mark.parametrize("form", [form for form in READERS if form in names_of("image")])
def test_what_was_written_is_read(
    widget: SegmentWidget, model: sam_rlx.Model, folder: Path, tmp_path: Path, form: str
) -> None:
    widget.export(tmp_path / "out", form)  # type: ignore[arg-type]
    other = SegmentWidget(model, sorted(folder.rglob("*.png")), project=False)
    assert other.import_from(tmp_path / "out", form) == []  # type: ignore[arg-type]
    found, wanted = by_image(other), by_image(widget)
    if form in ("labels", "panoptic", "voc"):  # pixels belong to one object
        assert {k: len(v) for k, v in found.items()} == {k: len(v) for k, v in wanted.items()}
    elif form == "masks":  # names of files have no odd letters
        assert {m for v in found.values() for _, m in v} == {
            m for v in wanted.values() for _, m in v
        }
    else:
        assert found == wanted
    other.undo()
    assert by_image(other) == {}
    other.close()


@pytest.mark.parametrize("form", [form for form in READERS if form in names_of("clip")])
def test_a_clip_that_was_written_is_read(video: VideoWidget, tmp_path: Path, form: str) -> None:
    if form in ("labelme", "isat", "voc", "yolo", "panoptic", "labels", "masks", "label_studio"):
        pytest.skip("images alone are read")
    video.export(tmp_path / "out", form)  # type: ignore[arg-type]
    wanted = by_frame(video)
    other = VideoWidget(
        sam_rlx.load_model("sam2-nano"),
        np.zeros((FRAMES, *HW, 3), np.uint8),
        project=False,
    )
    other.import_from(tmp_path / "out", form)  # type: ignore[arg-type]
    assert by_frame(other) == wanted
    assert len(other.objects) == 2
    other.close()


def test_object_1000_is_not_of_the_next_class(video: VideoWidget, tmp_path: Path) -> None:
    documents = video._session.project.history.documents
    ((key, document),) = documents.items()
    documents[key] = replace(document, next_number=1000)
    video.start(0, shapes()[2])
    video.commit()
    with pytest.raises(
        InvalidArgumentError, match="objects: expected numbers up to 999, found 1000"
    ):
        video.export(tmp_path / "mots", "mots")
    assert not (tmp_path / "mots").exists()


def test_clips_by_their_rules(video: VideoWidget, tmp_path: Path) -> None:
    from pycocotools import mask as coco_mask

    wanted = by_frame(video)
    video.export(tmp_path / "mots", "mots")
    for line in next((tmp_path / "mots").glob("*.txt")).read_text().splitlines():
        frame, number, kind, height, width, text = line.split(" ")
        assert int(number) // 1000 == int(kind)
        rle = {"size": [int(height), int(width)], "counts": text.encode()}
        assert coco_mask.decode(rle).astype(np.bool_).tobytes() in wanted[int(frame)]
    video.export(tmp_path / "vis", "youtube_vis")
    document = json.loads((tmp_path / "vis" / "instances.json").read_text())
    for one in document["annotations"]:
        assert len(one["segmentations"]) == len(one["bboxes"]) == FRAMES
        for frame, rle in enumerate(one["segmentations"]):
            if rle is not None:
                assert coco_mask.area(rle) == one["areas"][frame]
    video.export(tmp_path / "davis", "davis")
    files = sorted((tmp_path / "davis").rglob("*.png"))
    assert len(files) == FRAMES
    assert set(np.unique(pixels_of(files[0]))) == {0, 1}
    video.export(tmp_path / "cvat", "cvat")
    root = ElementTree.parse(tmp_path / "cvat" / "annotations.xml").getroot()
    tracks = {
        one.get("id"): [(s.get("frame"), s.get("outside")) for s in one]
        for one in root.iter("track")
    }
    assert tracks["2"] == [("2", "0"), ("3", "1")]
    video.export(tmp_path / "frames", "alpha_frames")
    alpha = pixels_of(tmp_path / "frames" / "000000.png")[..., 3] > 0
    assert alpha.tobytes() in wanted[0]
    video.export(tmp_path / "studio", "label_studio")
    task = json.loads((tmp_path / "studio" / "tasks.json").read_text())[0]
    assert task["annotations"][0]["result"][0]["value"]["framesCount"] == FRAMES


def test_a_clip_with_masks_is_a_film(video: VideoWidget, tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="writes and reads films")
    video.export(tmp_path / "film", "overlay_clip")
    with av.open(str(tmp_path / "film" / "overlay.mp4")) as file:
        assert len(list(file.decode(video=0))) == FRAMES


def test_a_clip_with_opacity_loses_nothing(video: VideoWidget, tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="writes and reads films")
    wanted = by_frame(video)
    video.export(tmp_path / "film", "alpha_clip")
    with av.open(str(tmp_path / "film" / "alpha.mov")) as file:
        frames = [frame.to_ndarray() for frame in file.decode(video=0)]
    assert len(frames) == FRAMES
    for at, frame in enumerate(frames):
        assert frame.shape == (*HW, 4)
        assert (frame[..., 1:] == video._session.read(at)).all()
        opaque = frame[..., 0] == 255
        assert (opaque | (frame[..., 0] == 0)).all()
        assert opaque.any() == (at in wanted)
        if len(wanted.get(at, ())) == 1:
            assert opaque.tobytes() in wanted[at]


def test_cvat_is_read_by_datumaro(widget: SegmentWidget, folder: Path, tmp_path: Path) -> None:
    datumaro = pytest.importorskip("datumaro", reason="reads the XML of CVAT")
    out = tmp_path / "out"
    widget.export(out, "cvat")
    folder.rename(out / "images")
    found: dict[str, set[tuple[str, bytes]]] = {}
    dataset = datumaro.Dataset.import_from(str(out), "cvat")
    names = [one.name for one in dataset.categories()[datumaro.AnnotationType.label].items]
    assert names == ["object", 'größte <cell> & "co"', "nucleus", "empty"]
    for item in dataset:
        found[f"{item.id}.png"] = {
            (names[one.label], np.asarray(one.image, np.bool_).tobytes())
            for one in item.annotations
        }
    assert found == by_image(widget)


def test_an_export_is_whole_or_not_there(
    widget: SegmentWidget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    widget.export(out, "coco")
    with pytest.raises(InvalidArgumentError, match="free name, or overwrite"):
        widget.export(out, "coco")
    widget.export(out, "csv", overwrite=True)
    assert sorted(one.name for one in out.iterdir()) == [".sam_rlx_export", "objects.csv"]
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match="expected a free name, found"):
        widget.export(foreign, "coco", overwrite=True)
    assert (foreign / "thesis.txt").read_text() == "mine"

    def broken(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sam_rlx.apps.annotator.exports.text_forms.put_image", broken)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match="No space"):
        widget.export(tmp_path / "yolo", "yolo")
    assert sorted(tmp_path.iterdir()) == before
    widget.export(tmp_path / "a.zip", "masks")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert "cam0/a/001_object.png" in archive.namelist()


def test_which_images_and_classes(widget: SegmentWidget, tmp_path: Path) -> None:
    widget.done()
    widget.export(tmp_path / "a", "csv", images="done", classes=["nucleus"])
    assert len((tmp_path / "a" / "objects.csv").read_text().splitlines()) == 1
    widget.export(tmp_path / "b", "csv", classes=["nucleus"])
    assert len((tmp_path / "b" / "objects.csv").read_text().splitlines()) == 2
    widget.leave_out()
    with pytest.raises(InvalidArgumentError, match="images: expected some that are 'done'"):
        widget.export(tmp_path / "c", "csv", images="done")
    for wrong in ({"form": "tiff"}, {"classes": ["dog"]}, {"images": "few"}, {"task": "count"}):
        with pytest.raises(InvalidArgumentError):
            widget.export(tmp_path / "d", **{"form": "csv", **wrong})  # type: ignore[arg-type]
    assert not (tmp_path / "d").exists()


def test_each_form_says_what_it_is() -> None:
    for form in FORMS.values():
        assert form.title
        assert set(form.kinds) <= {"image", "clip"}


def test_a_folder_project_has_its_exports_in_it(model: sam_rlx.Model, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    Image.fromarray(np.full((*HW, 3), 90, np.uint8)).save(folder / "a.png")
    made = SegmentWidget(model, folder)
    sent: list[dict[str, Any]] = []
    session = made._session
    session._send_to_host = lambda head, buffers, view: sent.append(head)
    made.start(shapes()[0])
    session.receive({"type": "ready", "view": "v", "seq": 1}, [])

    def asked(**given: Any) -> dict[str, Any]:
        sent.clear()
        session.receive({"type": "export_as", "view": "v", "seq": 2, "form": "csv", **given}, [])
        session.call("select", object=None)  # behind it
        return next(one for one in sent if one["type"] in ("note", "error", "file"))

    assert asked()["type"] == "file"
    assert not (folder / "exports").exists()
    note = asked(name="week 1")
    assert (note["type"], note["about"]) == ("note", "export")
    assert note["text"] == "Wrote exports/week 1: 1 image."
    assert (folder / "exports" / "week 1" / "objects.csv").is_file()
    assert "overwrite" in asked(name="week 1")["text"]
    assert asked(name="week 1", overwrite=True)["type"] == "note"
    paths = ("", ".", "..", "../out", "a/b", "a\\b", ".hidden", "nul", "a:b", "a.")
    for name in (*paths, "\0", "\ud800", "é" * 101, 3, ["a"]):
        assert asked(name=name)["text"].startswith("name: expected"), name
    (folder / "exports").rename(tmp_path / "elsewhere")
    (folder / "exports").symlink_to(tmp_path / "elsewhere")
    assert asked(name="week 2")["text"].startswith("name: expected a folder")
    assert sorted(one.name for one in (tmp_path / "elsewhere").iterdir()) == ["week 1"]
    made.close()


def test_other_projects_have_no_folder_of_exports(widget: SegmentWidget) -> None:
    with pytest.raises(InvalidArgumentError, match="expected the project of a folder"):
        widget._session.call("export_as", form="csv", name="a")


def test_class_10_is_no_region_that_is_not_judged(video: VideoWidget, tmp_path: Path) -> None:
    while (number := video.class_add(f"class {len(video.classes) + 1}")) < 10:
        pass
    video.set_class(number, 1)
    with pytest.raises(InvalidArgumentError, match=r"another number than 10.*found .*'class 10'"):
        video.export(tmp_path / "mots", "mots")
    assert not (tmp_path / "mots").exists()
