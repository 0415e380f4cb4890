"""Objects that were exported are loaded again, and those of other programs' COCO documents."""

from __future__ import annotations

import contextlib
import io as streams
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.saved import OpenImages
from sam_rlx.apps.annotator.saved_documents import read_saved
from sam_rlx.errors import InvalidArgumentError
from support.odd_json import ODD, changed

from .test_image_session import View

SHAPES = {"a.png": (41, 57), "b.png": (41, 57), "c.png": (30, 44)}
# pycocotools answers an older NumPy.
OLD_COCO = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three images, two of one size."""
    folder = tmp_path_factory.mktemp("images")
    random = np.random.default_rng(3)
    for name, (height, width) in SHAPES.items():
        pixels = random.integers(0, 255, (height, width, 3), np.uint8)
        Image.fromarray(pixels).save(folder / name)
    return folder


def made(model: sam_rlx.Model, images: Any, **options: Any) -> ImageSession:
    return ImageSession(model, images, num_threads=1, **options)


@pytest.fixture
def session(model: sam_rlx.Model, folder: Path) -> Iterator[ImageSession]:
    session = made(model, folder)
    yield session
    session.close()


def annotate(session: ImageSession, overlap: bool) -> None:
    """Make objects with holes, islands, odd names and colours on the current image."""
    height, width = session.hw
    y, x = np.mgrid[:height, :width]
    ring = np.hypot(x - 15, y - 15)
    first = (ring < 12) & (ring > 4) | (x > width - 6) & (y % 7 < 3)
    second = (x > 12) & (x < 30) & (y > 10) & (y < 37) & (overlap | ~first)
    session.call("start", mask=first, name="ring")
    session.call("commit")
    session.call("start", mask=second, name="ring")
    session.call("rename", object=2, name='ü "2"\n')
    session.call("recolor", object=2, color=(1, 2, 254))
    session.call("start", mask=(x == 0) & (y == 0))
    session.call("commit")


def described(session: ImageSession) -> list[Any]:
    return [(one.name, one.color, one.score) for one in session.document.objects]


@pytest.mark.parametrize("form", ["coco", "polygons", "labels", "npz"])
def test_an_export_is_loaded_bit_for_bit(
    session: ImageSession, model: sam_rlx.Model, folder: Path, form: str
) -> None:
    annotate(session, overlap=form != "labels")
    file = session.call("export", format=form)
    other = made(model, folder / "a.png")
    assert other.call("load", name=file.name, contents=file.contents) == []
    assert described(other) == described(session)
    pairs = zip(other.document.objects, session.document.objects, strict=True)
    assert all((a.mask == b.mask).all() for a, b in pairs)
    assert other.current is None
    assert other.call("export", format=form).contents == file.contents
    other.call("undo")
    assert described(other) == []
    other.close()


def test_a_loaded_object_is_corrected_as_before(
    session: ImageSession, model: sam_rlx.Model, folder: Path
) -> None:
    annotate(session, overlap=True)
    file = session.call("export", format="coco")
    other = made(model, folder / "a.png")
    other.call("load", name="objects.json", contents=file.contents)
    for each in (session, other):
        each.call("select", object=1)
        each.call("click", x=8, y=15)
    assert other.document.objects[0].score == session.document.objects[0].score
    assert (other.document.objects[0].mask == session.document.objects[0].mask).all()
    other.close()


def test_objects_of_a_folder_go_to_their_images(
    session: ImageSession, model: sam_rlx.Model, folder: Path
) -> None:
    for index in (0, 2):
        session.call("image", index=index)
        annotate(session, overlap=True)
    file = session.call("export", format="coco")
    other = made(model, [folder / "c.png", folder / "b.png"])
    assert other.call("load", name="objects.json", contents=file.contents) == ["a.png"]
    assert described(other) == described(session)
    assert other.annotated_indices() == [0]
    other.close()


def test_categories_are_classes(model: sam_rlx.Model, folder: Path, session: ImageSession) -> None:
    said = {"name": "disc 1", "text": "a disc", "category_id": "d", **counts([0, 2])}
    session.call("load", name="f.json", contents=coco([said], [("d", "disc")]))
    (one,) = session.document.objects
    assert (one.name, one.text) == ("disc 1", "a disc")
    assert session.project.history.project.class_of(one).name == "disc"
    written = json.loads(session.call("export", format="coco").contents)
    assert [entry["name"] for entry in written["categories"]] == ["object", "disc"]
    (entry,) = written["annotations"]
    assert (entry["name"], entry["text"], entry["category_id"]) == ("disc 1", "a disc", 2)


def counts(codes: Any, hw: tuple[int, int] = SHAPES["a.png"]) -> dict[str, Any]:
    """Return a segmentation: run lengths that are filled up to the size."""
    filled = [*codes, hw[0] * hw[1] - sum(codes)]
    return {"segmentation": {"size": list(hw), "counts": filled}}


def coco(annotations: Any, categories: Any = ((5, "cat"),), images: Any = None) -> bytes:
    listed = images or [{"id": 9, "file_name": "x/a.png", "height": 41, "width": 57}]
    document = {
        "images": listed,
        "categories": [{"id": key, "name": name} for key, name in categories],
        "annotations": [{"image_id": listed[0]["id"], "category_id": 5, **a} for a in annotations],
    }
    return json.dumps(document).encode()


def test_run_lengths_row_after_row(session: ImageSession) -> None:
    """kwimage writes the order: C is row after row."""
    mask = np.zeros(SHAPES["a.png"], bool)
    mask[3:20, 30:50] = mask[30, 2] = True
    for order in ("C", "F"):
        values = mask.ravel(order=order).astype(np.int8)
        ends = np.r_[0, np.flatnonzero(np.diff(values)) + 1, values.size]
        size = list(mask.shape)
        segmentation: dict[str, Any] = {"size": size, "shape": size, "binary": True}
        segmentation |= {"counts": np.diff(ends).tolist(), "order": order}
        session.call("load", name="f.json", contents=coco([{"segmentation": segmentation}]))
        np.testing.assert_array_equal(session.document.objects[-1].mask, mask)
    segmentation["order"] = "K"
    with pytest.raises(sam_rlx.InvalidArgumentError, match="order: expected F or C, found 'K'"):
        session.call("load", name="f.json", contents=coco([{"segmentation": segmentation}]))


@OLD_COCO
def test_foreign_coco_is_what_pycocotools_decodes(session: ImageSession) -> None:
    judge = pytest.importorskip("pycocotools.mask")
    random = np.random.default_rng(0)
    mask = random.random((41, 57)) < 0.3
    code = judge.encode(np.asfortranarray(mask))
    lines = [(random.random(10) * 40).tolist(), [3.2, 4, 20.7, 6, 9, 30.5]]
    compressed = {"size": [41, 57], "counts": code["counts"].decode()}
    contents = coco(
        [
            {"segmentation": lines, "iscrowd": 0, "image_id": 70},
            {"segmentation": compressed, "category_id": "k9", "image_id": 70},
            {**counts([5, 11, 400, 90]), "iscrowd": 1, "image_id": 70, "score": 0.25},
            {"segmentation": [[0, 0, 9, 0, 9, 9]], "image_id": "far"},
        ],
        [(5, "cat"), ("k9", "dog")],
        [
            {"id": "far", "file_name": "z.png", "height": 4, "width": 4},
            {"id": 70, "file_name": r"data\b.png", "height": 41, "width": 57},
        ],
    )
    session.call("image", index=1)
    assert session.call("load", name="f.json", contents=contents) == ["z.png"]
    objects = session.document.objects
    assert [(one.name, one.score) for one in objects] == [("cat", 1), ("dog", 1), ("cat", 0.25)]
    codes = counts([5, 11, 400, 90])["segmentation"]
    wanted = [
        judge.decode(judge.merge(judge.frPyObjects(lines, 41, 57))),
        mask,
        judge.decode(judge.frPyObjects(codes, 41, 57)),
    ]
    for one, other in zip(objects, wanted, strict=True):
        np.testing.assert_array_equal(one.mask, other.astype(bool))


def test_palettes_and_16_bits_are_labels(session: ImageSession) -> None:
    labels = np.zeros((41, 57), np.uint16)
    labels[3:9, 4:8], labels[20:, 30:] = 300, 7
    small = Image.fromarray(np.minimum(labels, 255).astype(np.uint8))
    small.putpalette([value // 3 for value in range(768)])
    for image, form in ((Image.fromarray(labels), "PNG"), (small, "PNG"), (small, "TIFF")):
        file = streams.BytesIO()
        image.save(file, form)
        session.call("load", name="labels", contents=file.getvalue())
        first, second = session.document.objects
        assert (first.mask == (labels == 7)).all()
        assert (second.mask == (labels == 300)).all()
        session.call("undo")


def _file(image: Image.Image, form: str, **options: Any) -> bytes:
    file = streams.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def test_label_files_are_read_as_masks_are(session: ImageSession) -> None:
    """What is one object for `io.read_mask` is the same one object here."""
    mask = np.zeros((41, 57), bool)
    mask[8:30, 16:40] = True
    grey = Image.fromarray(mask.astype(np.uint8) * 255)
    turned = Image.Exif()
    turned[0x0112] = 6  # what is stored is turned to the left
    stored = Image.fromarray(np.ascontiguousarray(np.rot90(mask)).astype(np.uint8))
    colours = np.where(mask[..., None], np.uint8([9, 0, 7]), np.uint8(0))
    cut_out = np.dstack([np.full((41, 57, 3), 9, np.uint8), np.asarray(grey)])
    files = {
        "lossy": _file(grey, "JPEG", quality=60),
        "turned": _file(stored, "PNG", exif=turned),
        "float": _file(Image.fromarray(mask.astype(np.float32) * 3), "TIFF"),
        "colours": _file(Image.fromarray(colours), "PNG"),
        "cut-out": _file(Image.fromarray(cut_out), "PNG"),
    }
    for name, contents in files.items():
        assert (sam_rlx.io.read_mask(streams.BytesIO(contents)) == mask).all(), name
        session.call("load", name=name, contents=contents)
        (one,) = session.document.objects
        assert (one.mask == mask).all(), name
        session.call("undo")


def test_label_arrays_are_loaded(session: ImageSession) -> None:
    labels = np.zeros((41, 57), np.int64, order="F")
    labels[3:9, 4:8], labels[20:, 30:] = 300, 7
    for array, count in ((labels, 2), (labels > 0, 1), (labels.astype(np.float32), 2)):
        session.call("load", name="labels.npy", contents=npy(array))
        assert len(session.document.objects) == count
        assert (session.document.objects[0].mask == ((labels == 7) | (array == 1))).all()
        session.call("undo")


def test_of_a_stack_of_labels_the_first_page_is_read_with_a_warning(session: ImageSession) -> None:
    pages = [Image.fromarray(np.full((41, 57), k, np.uint8)) for k in (1, 2)]
    contents = _file(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    with pytest.raises(sam_rlx.MediaWarning, match="2 pages"):
        session.call("load", name="labels.tif", contents=contents)


def test_annotations_without_a_mask_are_passed_over(session: ImageSession) -> None:
    box = {"bbox": [1, 2, 3, 4]}
    contents = coco([box, MASK, {**box, "segmentation": []}])
    with pytest.warns(sam_rlx.MediaWarning, match=r"2 annotations.*annotations\[0\], .*\[2\]"):
        session.call("load", name="f.json", contents=contents)
    assert len(session.document.objects) == 1
    with pytest.raises(InvalidArgumentError, match=r"annotations\[0\]: expected a segmentation"):
        session.call("load", name="f.json", contents=coco([box, box]))


def bomb() -> bytes:
    """Return a small archive that says to be large."""
    file = streams.BytesIO()
    np.savez_compressed(file, masks=np.zeros((1, 41, 57), bool))
    contents = bytearray(file.getvalue())
    at = contents.rindex(b"PK\1\2") + 24  # the length in the list of contents
    contents[at : at + 4] = (0xFFFFFFF0).to_bytes(4, "little")
    return bytes(contents)


def png(pixels: np.ndarray) -> bytes:
    file = streams.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def npy(array: np.ndarray) -> bytes:
    file = streams.BytesIO()
    np.save(file, array)
    return file.getvalue()


PHOTOGRAPH = np.random.default_rng(1).permutation(41 * 57).reshape(41, 57, 1) * np.ones(3, int)
PHOTOGRAPH = (PHOTOGRAPH >> [8, 0, 0] & 255).astype(np.uint8)
A = {"id": 9, "file_name": "a.png"}
MASK = counts([0, 3])
WRONG = {
    "nothing": (b"", "nothing in it"),
    "half": (coco([MASK])[:-30], "expected JSON"),
    "bytes": (b"{\xff\xfe", "expected JSON"),
    "deep": (b"[" * 100_000, "expected JSON"),
    "results": (b"[]", "COCO document with images, annotations and categories, found a list"),
    "other": (b'{"a": 1}', "found none of these"),
    "size": (coco([counts([0, 3], (41, 58))]), "57 x 41 pixels for a.png, found 58 x 41"),
    "turned": (coco([counts([0, 3], (57, 41))]), "EXIF"),
    "sum": (coco([{"segmentation": {"size": [41, 57], "counts": [1]}}]), r"annotations\[0\]"),
    "minus": (coco([{"segmentation": {"size": [41, 57], "counts": [-1]}}]), "counts"),
    "code": (coco([{"segmentation": {"size": [41, 57], "counts": "ü!"}}]), r"annotations\[0\]"),
    "line": (coco([MASK, {"segmentation": [[1, 2, 3, 4]]}]), r"annotations\[1\].*3 corners"),
    "words": (coco([{"segmentation": [["a"] * 6]}]), "expected numbers"),
    "far": (coco([{"segmentation": [[0, 0, 1e8, 0, 0, 5]]}]), "near the image"),
    "box": (coco([{"bbox": [1, 2, 3, 4]}]), "polygons or run lengths, found None"),
    "category": (coco([{**MASK, "category_id": 6}]), "category_id"),
    "image": (coco([{**MASK, "image_id": 6}]), "image_id"),
    "color": (coco([{**MASK, "color": [1, 2, 300]}]), r"annotations\[0\]: color"),
    "name": (coco([{**MASK, "name": 3}]), "name: expected a text"),
    "entry": (coco([MASK], images=[A, 3]), r"images\[1\]"),
    "absent": (coco([], images=[{**A, "file_name": k} for k in "xyzuvw"]), "x, y, z, u, v, ..."),
    "photograph": (png(PHOTOGRAPH), "found 2336.*photograph"),
    "negative": (npy(np.array([[-1, 1]] * 41).repeat(57, 1)[:, :57]), "labels from 0 on, found -1"),
    "fractions": (npy(np.full((41, 57), 0.5)), "integers"),
    "cut": (npy(np.ones((41, 57), np.uint8))[:-9], "2328 bytes"),
    "labels": (png(np.zeros((41, 58), np.uint8)), "found 58 x 41"),
    "many": (png(np.arange(41 * 57, dtype=np.uint16).reshape(41, 57)), "photograph"),
    "text": (b"words", "expected an image"),
    "zip": (b"PK\3\4", "NumPy arrays"),
    "bomb": (bomb(), "4294967280 bytes"),
}


def test_what_cannot_be_loaded_changes_nothing(session: ImageSession) -> None:
    annotate(session, overlap=True)
    before = session.document
    for contents, message in WRONG.values():
        with pytest.raises(InvalidArgumentError, match=message) as caught:
            session.call("load", name="given", contents=contents)
        assert len(str(caught.value)) < 400
        assert session.document is before


def test_a_view_is_told(model: sam_rlx.Model, folder: Path) -> None:
    view = View()
    session = made(model, folder, send=view.send)
    load = {"type": "load", "view": "page", "name": "f.json"}
    session.receive({**load, "seq": 1}, [memoryview(coco([MASK, MASK]))])
    head, _ = view.wait("loaded", 1)
    assert (head["objects"], head["absent"], head["to"]) == (2, [], "page")
    session.receive({**load, "seq": 2}, [b"{"])
    assert "f.json: expected JSON" in view.wait("error", 2)[0]["text"]
    session.receive({**load, "seq": 3}, [])
    assert "expected a file" in view.wait("error", 3)[0]["text"]
    session.close()


@pytest.mark.parametrize("odd", [ODD[::5], pytest.param(ODD, marks=pytest.mark.slow)])
def test_documents_with_odd_values_are_refused(odd: list[Any]) -> None:
    images = OpenImages(["a.png"], 0, lambda _: SHAPES["a.png"])
    one = {"name": "a", "color": [1, 2, 3], "score": 0.5}
    lines = {"segmentation": [[1, 1, 9, 1, 9, 9]]}
    outlines = {**one, "polygons": lines["segmentation"]}
    documents = [
        json.loads(coco([{**one, **counts([0, 3])}, lines, lines])),
        {"file_name": "a.png", "height": 41, "width": 57, "objects": [outlines]},
    ]
    for document in documents:
        assert read_saved("f", json.dumps(document).encode(), images).objects[0]
        for other in changed(document, odd):
            with contextlib.suppress(InvalidArgumentError):
                read_saved("f", json.dumps(other).encode(), images)
