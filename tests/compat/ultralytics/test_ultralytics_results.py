"""``Results``, ``Masks`` and ``Boxes``: values by other libraries, files by their readers."""

import json

import cv2
import numpy as np
import pandas as pd
import pytest
import sam_rlx
import shapely
import torch
from PIL import Image
from pycocotools import mask as coco
from sam_rlx.compat.common.tensor import TensorArray
from sam_rlx.compat.ultralytics.engine.results import BaseTensor, Boxes, Masks, Results

HW = (45, 67)
# Of pycocotools.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def shapes():
    """A blob, one of two parts, one with a hole, an empty one."""
    masks = np.zeros((4, *HW), bool)
    y, x = np.mgrid[: HW[0], : HW[1]]
    masks[0] = (x - 20) ** 2 + (y - 18) ** 2 < 130
    masks[1, 3:9, 4:20] = masks[1, 30:44, 50:66] = True
    masks[2, 10:40, 22:60] = True
    masks[2, 20:29, 30:41] = False
    return masks


def corners(mask):
    x, y, w, h = coco.toBbox(coco.encode(np.asfortranarray(mask.astype(np.uint8))))
    return [x, y, x + w, y + h]


def filled(line):
    """Fill an outline by the even-odd rule."""
    (runs,) = coco.frPyObjects([np.ravel(line).tolist()], *HW)
    return coco.decode(runs) > 0


@pytest.fixture
def noise():
    rng = np.random.default_rng(4)
    return rng.integers(0, 255, (*HW, 3), np.uint8)


@pytest.fixture
def masks():
    return shapes()


@pytest.fixture
def rows(masks):
    boxes = np.array([corners(mask) for mask in masks])
    rest = np.array([[0.9, 0], [0.8, 1], [0.7, 0], [0.6, 2]])
    return np.concatenate([boxes, rest], axis=1).astype(np.float32)


@pytest.fixture
def result(noise, masks, rows):
    names = {0: "cup", 1: "plate", 2: "no/thing"}
    return Results(noise, "a/photo.jpg", names, torch.from_numpy(rows), torch.from_numpy(masks))


# ---------------------------------------------------------------- values


def test_boxes_of_calls_are_those_of_pycocotools(sam, bgr):
    (found,) = sam(bgr, bboxes=[[15, 16, 66, 65], [90, 50, 140, 100]], conf=0.0)
    want = [corners(mask) for mask in np.asarray(found.masks.data)]
    np.testing.assert_array_equal(np.asarray(found.boxes.xyxy), want)


def test_boxes(result, rows):
    boxes = result.boxes
    assert isinstance(boxes, Boxes)
    assert isinstance(boxes, BaseTensor)
    assert boxes.shape == (4, 6)
    assert len(boxes) == 4
    assert boxes.id is None
    assert not boxes.is_track
    for value in (boxes.xyxy, boxes.xywh, boxes.xyxyn, boxes.xywhn, boxes.conf, boxes.cls):
        assert isinstance(value, torch.Tensor)
        assert value.dtype == torch.float32
    x0, y0, x1, y1 = rows[:, :4].T
    want = np.stack([(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0], axis=1)
    np.testing.assert_array_equal(boxes.xywh.numpy(), want)
    sides = np.array([HW[1], HW[0]] * 2, np.float32)
    np.testing.assert_allclose(boxes.xyxyn.numpy() * sides, rows[:, :4], rtol=1e-6)
    np.testing.assert_allclose(boxes.xywhn.numpy() * sides, want, rtol=1e-6)
    assert boxes.cls.int().tolist() == [0, 1, 0, 2]
    assert boxes.conf.tolist() == pytest.approx([0.9, 0.8, 0.7, 0.6])
    track = Boxes(np.insert(rows, 4, [7, 8, 9, 3], axis=1), HW)
    assert track.is_track
    assert track.id.tolist() == [7, 8, 9, 3]
    np.testing.assert_array_equal(track.conf, rows[:, 4])
    assert Boxes(rows[0], HW).shape == (1, 6)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="boxes: expected shape"):
        Boxes(rows[:, :5], HW)


def test_outlines_cover_the_pixels_of_the_mask(result, masks):
    outlines = result.masks.xy
    assert [line.dtype for line in outlines] == [np.float32] * 4
    assert outlines[3].shape == (0, 2)
    assert shapely.Polygon(outlines[0]).is_valid
    for line, mask in zip(outlines[:3], masks, strict=False):
        np.testing.assert_array_equal(filled(line), mask)
        # The signed area counts a hole as less.
        x, y = line.astype(np.float64).T
        area = abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2
        assert area == mask.sum()
    for line, part in zip(outlines, result.masks.xyn, strict=True):
        np.testing.assert_allclose(part * [HW[1], HW[0]], line, rtol=1e-6)


def test_masks_of_another_size_have_outlines_in_pixels_of_the_image():
    small = np.zeros((1, 10, 20), bool)
    small[0, 2:5, 4:10] = True
    masks = Masks(small, (40, 60))
    assert masks.shape == (1, 10, 20)
    line = masks.xy[0]
    np.testing.assert_array_equal([line.min(axis=0), line.max(axis=0)], [[12, 8], [30, 20]])
    with pytest.raises(sam_rlx.InvalidArgumentError, match="masks: expected"):
        Masks(np.zeros(3), (40, 60))


def test_kinds(noise, masks, rows):
    plain = Results(noise, "a.jpg", {}, rows, masks)
    tensors = Results(noise, "a.jpg", {}, torch.from_numpy(rows), torch.from_numpy(masks))
    views = Results(noise, "a.jpg", {}, rows.view(TensorArray), masks.view(TensorArray))
    for found, kind in ((plain, np.ndarray), (tensors, torch.Tensor), (views, TensorArray)):
        assert type(found.boxes.data) is kind
        assert type(found.boxes.xywh) is kind
        assert type(found.cpu().masks.data) is kind
        assert type(found.numpy().masks.data) is np.ndarray
        assert type(found.numpy().boxes.xywhn) is np.ndarray
        assert "float64" in str(found.to(torch.float64).boxes.data.dtype)
        assert found.to("cpu").boxes.shape == (4, 6)
        for call in (found.cuda, lambda each=found: each.to("cuda")):
            with pytest.raises(NotImplementedError, match="cpu"):
                call()


def test_indexing_copies_and_updates(result, masks, rows, noise):
    assert len(result) == 4
    assert result.orig_shape == HW
    assert result.probs is result.keypoints is result.obb is None
    assert set(result.speed) == {"preprocess", "inference", "postprocess"}
    np.testing.assert_array_equal(result[1].masks.data.numpy(), masks[1:2])
    np.testing.assert_array_equal(result[1:3].boxes.data.numpy(), rows[1:3])
    chosen = result[result.boxes.conf > 0.65]
    assert len(chosen) == 3
    assert chosen.names == result.names
    assert [len(each) for each in (result[[0, 3]], result[torch.tensor([2])])] == [2, 1]
    with pytest.raises(IndexError):
        _ = result[4]
    assert [len(each) for each in result] == [1] * 4
    assert [box.cls.item() for box in result.boxes] == [0, 1, 0, 2]
    empty = result.new()
    assert len(empty) == 0
    assert list(empty) == []
    assert empty.masks is None
    assert empty.orig_img is noise
    wide = torch.tensor([[-5.0, 3, 900, 20, 0.5, 1]])
    empty.update(boxes=wide)
    assert empty.boxes.xyxy.tolist() == [[0, 3, HW[1], 20]]
    assert wide[0, 0] == -5
    empty.update(masks=torch.from_numpy(masks[:1]))
    assert len(empty.masks) == 1
    with pytest.raises(NotImplementedError):
        empty.update(probs=1)


# ---------------------------------------------------------------- drawing and files


def test_plot(result, noise, tmp_path, monkeypatch):
    drawn = result.plot()
    assert drawn.shape == noise.shape
    assert drawn.dtype == np.uint8
    assert (drawn != noise).any()
    pil = result.plot(pil=True)
    np.testing.assert_array_equal(np.asarray(pil)[:, :, ::-1], drawn)
    nothing = result.plot(boxes=False, masks=False, labels=False)
    np.testing.assert_array_equal(nothing, noise)
    # Without masks what lies inside of the boxes stays as it is.
    only_boxes = result.plot(masks=False, labels=False, line_width=1)
    np.testing.assert_array_equal(only_boxes[14:20, 13:19], noise[14:20, 13:19])
    other = np.zeros_like(noise)
    assert (result.plot(img=other) != drawn).any()
    assert not (result.plot(labels=False) == result.plot()).all()
    shown = []
    monkeypatch.setattr(Image.Image, "show", lambda self, **_: shown.append(self.size))
    result.show()
    assert shown == [(67, 45)]
    one = Results(noise, "a.jpg", {0: "x"}, result.boxes.data[:1])
    assert (one.plot() != noise).any()
    np.testing.assert_array_equal(Results(noise, "a.jpg", {}).plot(), noise)


def test_files(result, noise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert result.save() == "results_photo.jpg"
    assert result.save(tmp_path / "x.png", labels=False) == str(tmp_path / "x.png")
    np.testing.assert_array_equal(
        cv2.imread(str(tmp_path / "x.png")), result.plot(labels=False)
    )  # BGR, as OpenCV reads it
    result.save_crop(tmp_path / "crops", "photo.jpg")
    result.save_crop(tmp_path / "crops", "photo.jpg")
    found = sorted(path.relative_to(tmp_path / "crops") for path in tmp_path.rglob("crops/*/*"))
    assert len(found) == 6  # an empty mask has no box
    assert {str(path.parent) for path in found} == {"cup", "plate"}
    (x0, y0, x1, y1), *_ = result.boxes.xyxy.int().tolist()
    with Image.open(tmp_path / "crops" / "cup" / "photo.jpg") as crop:
        assert crop.size == (x1 - x0, y1 - y0)


def test_label_files(result, masks, tmp_path):
    path = tmp_path / "labels" / "photo.txt"
    assert result.save_txt(path) == str(path)
    lines = [line.split() for line in path.read_text().splitlines()]
    assert [line[0] for line in lines] == ["0", "1", "0"]
    for line, mask in zip(lines, masks, strict=False):
        points = np.array(line[1:], float).reshape(-1, 2) * [HW[1], HW[0]]
        np.testing.assert_array_equal(filled(points.round(3)), mask)
    result[0].save_txt(path, save_conf=True)  # one more line
    assert len(path.read_text().splitlines()) == 4
    assert path.read_text().split()[-1] == "0.9"
    boxes = Results(result.orig_img, "a.jpg", {}, result.boxes.data[:1])
    boxes.save_txt(tmp_path / "b.txt")
    numbers = np.array((tmp_path / "b.txt").read_text().split()[1:], float)
    np.testing.assert_allclose(numbers, result.boxes.xywhn[0].numpy(), rtol=1e-5)


def test_tables(result, rows):
    records = result.summary(decimals=3)
    assert json.loads(result.to_json(decimals=3)) == records
    assert result.tojson() == result.to_json()
    assert [record["name"] for record in records] == ["cup", "plate", "cup", "no/thing"]
    first = records[0]
    assert list(first) == ["name", "class", "confidence", "box", "segments"]
    assert first["class"] == 0
    assert first["confidence"] == 0.9
    assert list(first["box"].values()) == rows[0, :4].tolist()
    line = np.stack([first["segments"]["x"], first["segments"]["y"]], axis=1)
    np.testing.assert_array_equal(line, result.masks.xy[0])
    share = result.summary(normalize=True)[0]["box"]["x2"]
    assert share == pytest.approx(rows[0, 2] / HW[1], abs=1e-5)
    frame = result.to_df()
    assert isinstance(frame, pd.DataFrame)
    assert frame["name"].tolist() == ["cup", "plate", "cup", "no/thing"]
    assert frame["confidence"].tolist() == pytest.approx([0.9, 0.8, 0.7, 0.6])
    assert result.verbose() == "2 cups, 1 plate, 1 no/thing, "
    assert Results(result.orig_img, "a.jpg", {}).verbose() == "(no detections), "
    assert Results(result.orig_img, "a.jpg", {}).summary() == []
    track = Results(result.orig_img, "a.jpg", {}, np.insert(rows, 4, 5, axis=1))
    assert track.summary()[0]["track_id"] == 5


def test_a_table_without_pandas(result, monkeypatch):
    import sys

    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(sam_rlx.MissingExtraError, match="pip install pandas"):
        result.to_df()


def test_what_calls_save(sam, bgr, clip, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {"save": True, "save_txt": True, "save_crop": True, "save_conf": True, "conf": 0.0}
    (first,) = sam(bgr, bboxes=[15, 16, 66, 65], **options)
    (second,) = sam(bgr, bboxes=[15, 16, 66, 65], **options)
    assert first.save_dir == "runs/segment/predict"
    assert second.save_dir == "runs/segment/predict2"
    base = tmp_path / first.save_dir
    names = sorted(str(path.relative_to(base)) for path in base.rglob("*.*"))
    assert names == ["crops/0/image0.jpg", "image0.jpg", "labels/image0.txt"]
    assert len((base / "labels/image0.txt").read_text().splitlines()) == 1
    options = {"save": True, "project": tmp_path / "own", "name": "x", "exist_ok": True}
    found = sam(clip, points=[45, 60], **options)
    from sam_rlx.frames import open_frames

    written = open_frames(tmp_path / "own" / "x" / "disc.mp4")
    assert written.count == len(found) == 4
    difference = np.abs(written.read(0).astype(int) - found[0].plot()[:, :, ::-1])
    assert np.median(difference) < 8  # a lossy codec


def test_verbose_tells_by_logging(sam, bgr, caplog):
    with caplog.at_level("INFO"):
        sam(bgr, bboxes=[15, 16, 66, 65], conf=0.0)
        sam(bgr, bboxes=[15, 16, 66, 65], conf=0.0, verbose=False)
    (record,) = caplog.records
    assert record.getMessage().startswith("image0.jpg: 1 0, ")
