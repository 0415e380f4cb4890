"""Predictors of texts and clips beside our own, label files, and the two programs."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import io
from sam_rlx.compat.ultralytics import SAM
from sam_rlx.compat.ultralytics.data.annotator import auto_annotate
from sam_rlx.compat.ultralytics.models.sam import (
    SAM2DynamicInteractivePredictor,
    SAM2VideoPredictor,
    SAM3SemanticPredictor,
    SAM3VideoPredictor,
    SAM3VideoSemanticPredictor,
)
from support.cases import quick
from support.discs import disc

BOX = [18, 38, 62, 82]
PROGRAMS = Path(__file__).parents[3] / "benchmarks" / "programs" / "ultralytics"


def bgr(pixels):
    return np.ascontiguousarray(pixels[:, :, ::-1])


@pytest.fixture(scope="module")
def sam2():
    return sam_rlx.load_model("sam2-nano")


@pytest.fixture(scope="module")
def sam3():
    return sam_rlx.load_model("sam3-nano")


def overrides(model, **more):
    return {"conf": 0.25, "task": "segment", "mode": "predict", "model": model, **more}


# ---------------------------------------------------------------- clips


@pytest.mark.parametrize("kind", [SAM2VideoPredictor, SAM3VideoPredictor])
def test_a_clip_is_followed_as_by_our_predictor(kind, sam2, sam3, clip):
    model = sam2 if kind is SAM2VideoPredictor else sam3
    own = sam_rlx.VideoPredictor(model, clip)
    own.add_prompt(0, 0, box=BOX)
    want = list(own.propagate())
    found = kind(overrides=overrides(model))(source=clip, bboxes=BOX, stream=True)
    for frame, result in zip(want, found, strict=True):
        np.testing.assert_array_equal(np.asarray(result.masks.data)[0], frame.masks[0])
        assert np.asarray(result.boxes.id).tolist() == [0]
        score = 1 / (1 + np.exp(-frame.scores[0]))
        assert np.asarray(result.boxes.conf)[0] == pytest.approx(score, rel=1e-6)
        assert result.path == str(clip)


def test_prompts_of_clips(sam2, clip):
    predictor = SAM2VideoPredictor(overrides=overrides(sam2))
    own = sam_rlx.VideoPredictor(sam2, clip)
    own.add_prompt(0, 0, point_coords=[[40, 60], [5, 5]], point_labels=[1, 0])
    want = [frame.masks[0] for frame in own.propagate()]
    found = predictor(clip, points=[[[40, 60], [5, 5]]], labels=[[1, 0]])
    np.testing.assert_array_equal([np.asarray(r.masks.data)[0] for r in found], want)
    mask = np.asarray(found[0].masks.data)
    own.reset()
    own.add_prompt(0, 0, mask=mask[0])
    want = [frame.masks[0] for frame in own.propagate()]
    found = predictor(clip, masks=mask)
    np.testing.assert_array_equal([np.asarray(r.masks.data)[0] for r in found], want)
    assert len(predictor(clip, masks=mask, vid_stride=2)) == 2
    with pytest.raises(sam_rlx.InvalidArgumentError, match="of the first frame"):
        predictor(clip)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="expected a clip"):
        predictor(bboxes=BOX)


def test_clips_of_images(sam2, tmp_path):
    frames = [disc(40 + 6 * index, 60) for index in range(3)]
    for index, frame in enumerate(frames):
        io.write_image(tmp_path / f"{index:03d}.png", frame)
    predictor = SAM2VideoPredictor(overrides=overrides(sam2))
    for source in (tmp_path, [bgr(frame) for frame in frames]):
        found = predictor(source, bboxes=BOX)
        np.testing.assert_array_equal(found[2].orig_img, bgr(frames[2]))
        centre = np.asarray(found[2].boxes.xywh)[0, 0]
        assert centre == pytest.approx(52, abs=3)


def test_texts_in_clips(sam3, clip):
    own = sam_rlx.VideoPredictor(sam3, clip)
    own.add_text(["yellow circle", "green square"])
    want = list(own.propagate())
    predictor = SAM3VideoSemanticPredictor(overrides=overrides(sam3))
    found = predictor(clip, text=["yellow circle", "green square"], stream=True)
    seen = 0
    for frame, result in zip(want, found, strict=True):
        kept = [name for name, mask in frame.masks.items() if mask.any()]
        seen += len(kept)
        assert np.asarray(result.boxes.id).tolist() == kept
        words = [result.names[int(number)] for number in np.asarray(result.boxes.cls)]
        assert words == [frame.texts[name] for name in kept]
        for index, name in enumerate(kept):
            np.testing.assert_array_equal(np.asarray(result.masks.data)[index], frame.masks[name])
    assert seen >= len(want)
    by_example = predictor(clip, bboxes=[BOX], labels=[1])
    assert [len(result) for result in by_example] == [1] * len(want)


# ---------------------------------------------------------------- texts


def test_texts(sam3, image):
    own = sam_rlx.ConceptPredictor(sam3)
    want = own.predict(image, text=["yellow circle", "green square"], threshold=0.3)
    assert len(want.scores) >= 2
    predictor = SAM3SemanticPredictor(overrides=overrides(sam3, conf=0.3))
    with pytest.raises(sam_rlx.StateError, match="set_image"):
        predictor(text="yellow circle")
    predictor.set_image(bgr(image))
    (found,) = predictor(text=["yellow circle", "green square"])
    np.testing.assert_array_equal(np.asarray(found.masks.data), want.masks)
    np.testing.assert_array_equal(np.asarray(found.boxes.xyxy), want.boxes)
    np.testing.assert_array_equal(np.asarray(found.boxes.conf), want.scores)
    np.testing.assert_array_equal(np.asarray(found.boxes.cls), want.labels)
    assert found.names == {0: "yellow circle", 1: "green square"}
    (same,) = predictor(bgr(image), text=["yellow circle", "green square"])
    np.testing.assert_array_equal(np.asarray(same.boxes.data), np.asarray(found.boxes.data))
    (one,) = predictor(text="yellow circle", max_det=1)
    assert len(one) == 1
    for given, words in (({}, "text or bboxes"), ({"text": "x", "labels": [1]}, "labels")):
        with pytest.raises(sam_rlx.InvalidArgumentError, match=words):
            predictor(**given)


def test_example_boxes_and_features(sam3, image):
    own = sam_rlx.ConceptPredictor(sam3)
    boxes, labels = [[18, 18, 62, 62], [93, 53, 137, 97]], [1, 0]
    want = own.predict(image, boxes=boxes, box_labels=labels, threshold=0.3)
    first = SAM3SemanticPredictor(overrides=overrides(sam3, conf=0.3))
    assert first.features is None
    first.set_image(bgr(image))
    (found,) = first(bboxes=boxes, labels=labels)
    np.testing.assert_array_equal(np.asarray(found.boxes.conf), want.scores)
    second = SAM3SemanticPredictor(overrides=overrides(sam3, conf=0.3))
    second.setup_model()
    masks, rows = second.inference_features(
        first.features, src_shape=image.shape, bboxes=boxes, labels=labels
    )
    np.testing.assert_array_equal(np.asarray(masks), want.masks)
    np.testing.assert_array_equal(np.asarray(rows)[:, :4], want.boxes)
    strict = SAM3SemanticPredictor(overrides=overrides(sam3, conf=1.0))
    assert strict.inference_features(first.features, (120, 161), text="dog") == (None, None)
    first.reset_image()
    with pytest.raises(sam_rlx.StateError):
        first(text="dog")


# ---------------------------------------------------------------- objects that are remembered


@pytest.fixture
def dynamic(sam2):
    return SAM2DynamicInteractivePredictor(overrides=overrides(sam2, conf=0.01), max_obj_num=2)


def ids(results):
    return np.asarray(results[0].boxes.id).tolist()


def test_objects_are_remembered(dynamic, sam2):
    with pytest.raises(sam_rlx.StateError, match="update_memory=True first"):
        dynamic(bgr(disc(40, 60)))
    first = dynamic(bgr(disc(40, 60)), bboxes=[BOX], obj_ids=[4], update_memory=True)
    assert ids(first) == [4]
    # The same as a stream of our own, whose second frame is the same image.
    own = sam_rlx.VideoPredictor(sam2)
    own.push(disc(40, 60))
    own.add_prompt(0, 4, box=BOX)
    np.testing.assert_array_equal(np.asarray(first[0].masks.data)[0], own.frame(0).masks[4])
    want = own.push(disc(52, 60)).masks[4]
    for _ in range(2):  # nothing is remembered of an image without prompts
        again = dynamic(bgr(disc(52, 60)))
        np.testing.assert_array_equal(np.asarray(again[0].masks.data)[0], want)
    assert dynamic.obj_ids == [4]
    # Prompts without update_memory count for their image alone.
    assert 9 in ids(dynamic(bgr(disc(52, 60)), points=[[52, 60]], labels=[1], obj_ids=[9]))
    assert dynamic.obj_ids == [4]
    # An image of another size: prompts and masks are in its pixels.
    large = np.asarray(Image.fromarray(disc(52, 60)).resize((322, 240)))
    (found,) = dynamic(bgr(large))
    assert found.masks.shape == (1, 240, 322)
    np.testing.assert_allclose(np.asarray(found.boxes.xywh)[0, :2], [104, 120], atol=6)
    (found,) = dynamic(bgr(large), points=[[104, 120]], labels=[1], obj_ids=[7], update_memory=True)
    assert dynamic.obj_ids == [4, 7]
    assert {4, 7} >= set(ids([found])) >= {7}
    assert found.names[7] == "7"
    with pytest.raises(sam_rlx.InvalidArgumentError, match="max_obj_num=2"):
        dynamic(bgr(large), points=[[1, 1]], obj_ids=[8], update_memory=True)
    (by_mask,) = dynamic(bgr(disc(52, 60)), masks=want, obj_ids=[4], update_memory=True)
    np.testing.assert_array_equal(np.asarray(by_mask.masks.data)[0], want)


def test_memories_that_cannot_be(dynamic, sam3):
    for given, words in (
        ({"bboxes": [BOX], "update_memory": True}, "update_memory: expected prompts and obj_ids"),
        ({"obj_ids": [1], "update_memory": True}, "update_memory: expected prompts"),
        ({"bboxes": [BOX], "obj_ids": [1, 2]}, "obj_ids: expected one for each"),
    ):
        with pytest.raises(sam_rlx.InvalidArgumentError, match=words):
            dynamic(bgr(disc(40, 60)), **given)
    with pytest.raises(NotImplementedError, match="expected SAM 2"):
        SAM2DynamicInteractivePredictor(overrides=overrides(sam3))(bgr(disc(1, 1)))


# ---------------------------------------------------------------- label files


class Detected:
    """As a result of a detector: three boxes with scores and classes."""

    class boxes:
        xyxy = np.array([[18, 18, 62, 62], [93, 53, 137, 97], [0, 0, 5, 5]], np.float32)
        conf = np.array([0.5, 0.9, 0.1], np.float32)
        cls = np.array([2, 6, 1], np.float32)


def rows(_):
    return np.column_stack([Detected.boxes.xyxy, Detected.boxes.conf, Detected.boxes.cls])


@pytest.mark.parametrize("detector", [lambda _: [Detected], rows])
def test_label_files(detector, image, sam, tmp_path):
    io.write_image(tmp_path / "images" / "a.png", image)
    assert auto_annotate(tmp_path / "images", detector, sam) is None
    path = tmp_path / "images_auto_annotate_labels" / "a.txt"
    lines = [line.split() for line in path.read_text().splitlines()]
    assert [line[0] for line in lines] == ["6", "2"]  # by score; a box below conf is left out
    (found,) = sam(bgr(image), bboxes=Detected.boxes.xyxy[[1, 0]], conf=0.0)
    for line, outline in zip(lines, found.masks.xyn, strict=True):
        np.testing.assert_allclose(np.array(line[1:], float).reshape(-1, 2), outline, atol=1e-6)
    auto_annotate(tmp_path / "images", detector, sam, classes=[2], output_dir=tmp_path / "own")
    assert (tmp_path / "own" / "a.txt").read_text().split()[0] == "2"


def test_detectors_that_are_none(image, sam, tmp_path):
    io.write_image(tmp_path / "a.png", image)
    with pytest.raises(NotImplementedError, match="no detector is part"):
        auto_annotate(tmp_path, sam_model=sam)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="expected boxes"):
        auto_annotate(tmp_path, lambda _: np.zeros((3, 5)), sam)
    auto_annotate(tmp_path, lambda _: np.zeros((0, 4)), sam, output_dir=tmp_path / "none")
    assert list((tmp_path / "none").iterdir()) == []


# ---------------------------------------------------------------- programs


@pytest.mark.source_tree
@pytest.mark.parametrize("name", quick(["images", "texts_and_clips"], 1))
def test_programs_run_without_a_changed_line(name, clip, tmp_path, image):
    photo = Path(sam_rlx.__file__).parent / "assets" / "coffee.jpg"
    io.write_image(tmp_path / "disc.png", disc(40, 60, size=(160, 120)))
    words = {
        "images": [photo, "sam-nano", tmp_path],
        "texts_and_clips": [tmp_path / "disc.png", clip, "sam2-nano", "sam3-nano"],
    }[name]
    program = PROGRAMS / f"{name}.py"
    done = subprocess.run(
        [sys.executable, "-m", "sam_rlx.compat", "--with", "ultralytics", program, *words],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert len(lines) == 9
    if name == "images":
        assert lines["points_of_two_objects"] == "2"
        assert lines["points_of_one_object"] == "(True, False)"
        assert lines["label_files"] == "('3', 1)"
        assert "one more pair of brackets" in done.stderr
    else:
        assert lines["a_clip_by_texts"].count("[") == 5
        assert lines["a_clip_by_boxes"] == "[1, 1, 1, 1]"
        assert lines["features_for_another_predictor"].startswith("((1, 120, 160)")


def test_a_subclass_of_the_model():
    class Mine(SAM):
        def predict(self, *args, **kwargs):
            return "mine"

    assert Mine("sam-nano")("a.jpg") == "mine"
