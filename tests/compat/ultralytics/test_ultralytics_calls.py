"""Calls of SAM in all of their forms, beside our own predictors."""

import inspect
import types
import warnings

import numpy as np
import pytest
import sam_rlx
import torch
from PIL import Image
from sam_rlx import io
from sam_rlx.compat.ultralytics import SAM
from sam_rlx.compat.ultralytics.arguments import PromptWarning
from sam_rlx.compat.ultralytics.engine.results import Results
from sam_rlx.compat.ultralytics.models.sam import Predictor, SAM2Predictor, SAM3Predictor

BOX = [15, 16, 66, 65]
OTHER = [90, 50, 140, 100]
POINT = {"point_coords": [[[40, 40]]], "point_labels": [[1]]}


@pytest.fixture(scope="module")
def own(sam, image):
    predictor = sam_rlx.ImagePredictor(sam.model)
    predictor.set_image(image)
    return predictor


def masks(results):
    (result,) = results
    assert isinstance(result, Results)
    return np.asarray(result.masks.data)


def expected(own, **prompts):
    found = own.predict(multimask_output=False, **prompts)
    return found.masks.reshape(-1, *found.masks.shape[-2:])


# ---------------------------------------------------------------- prompts


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ({"bboxes": BOX}, {"box": [BOX]}),
        ({"bboxes": [BOX, OTHER]}, {"box": [BOX, OTHER]}),
        ({"bboxes": torch.tensor([BOX, OTHER])}, {"box": [BOX, OTHER]}),
        ({"points": [40, 40], "labels": 1}, POINT),
        ({"points": [40, 40], "labels": [1]}, POINT),
        ({"points": [[40, 40]]}, POINT),
        (
            {"points": [[[40, 40], [115, 75]]], "labels": [[1, 0]]},
            {"point_coords": [[[40, 40], [115, 75]]], "point_labels": [[1, 0]]},
        ),
        (
            {
                "points": np.array([[[40, 40], [45, 44]], [[115, 75], [5, 5]]]),
                "labels": [[1, 1], [1, 0]],
            },
            {
                "point_coords": [[[40, 40], [45, 44]], [[115, 75], [5, 5]]],
                "point_labels": [[1, 1], [1, 0]],
            },
        ),
        (
            {"bboxes": [BOX, OTHER], "points": [[[40, 40]], [[115, 75]]]},
            {
                "box": [BOX, OTHER],
                "point_coords": [[[40, 40]], [[115, 75]]],
                "point_labels": [[1], [1]],
            },
        ),
    ],
)  # fmt: skip
def test_prompts_give_the_masks_of_our_predictor(sam, bgr, own, given, same):
    np.testing.assert_array_equal(masks(sam(bgr, conf=0.0, **given)), expected(own, **same))


def test_flat_points_are_one_object_each_with_one_warning(sam, bgr, own):
    with pytest.warns(PromptWarning, match="one more pair of brackets"):
        found = sam(bgr, points=[[40, 40], [115, 75]], labels=[1, 1], conf=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sam(bgr, points=[[40, 40], [115, 75]])
    same = {"point_coords": [[[40, 40]], [[115, 75]]], "point_labels": [[1], [1]]}
    np.testing.assert_array_equal(masks(found), expected(own, **same))


def test_one_point_and_nested_points_warn_of_nothing(sam, bgr):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sam(bgr, points=[40, 40])
        sam(bgr, points=[[40, 40]])
        sam(bgr, points=[[[40, 40], [115, 75]]])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bboxes": [1, 2, 3]}, "bboxes: expected shape"),
        ({"points": [1, 2, 3]}, "points: expected shape"),
        ({"points": [[1, 2], [3, 4]], "labels": [1]}, "labels: expected one for each"),
        ({"labels": [1]}, "labels: expected points"),
        ({"bboxes": [BOX, OTHER], "points": [1, 2]}, "of the same objects"),
        ({"bboxes": [BOX], "points_stride": 4}, "everything mode"),
        ({"conf": 2}, "conf: expected"),
        ({"max_det": 0}, "max_det: expected"),
        ({"verbose": "yes"}, "verbose: expected"),
    ],
)
@pytest.mark.filterwarnings("ignore::sam_rlx.compat.ultralytics.arguments.PromptWarning")
def test_wrong_prompts_and_settings_are_refused(sam, bgr, given, words):
    with pytest.raises(sam_rlx.InvalidArgumentError, match=words):
        sam(bgr, **given)


def test_unknown_arguments_have_near_names(sam, bgr):
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"'confi'.*did you mean conf\?"):
        sam(bgr, bboxes=BOX, confi=0.1)
    with pytest.raises(TypeError, match="did you mean bboxes"):
        sam.predictor(bgr, boxes=BOX)


def test_a_detector_that_found_nothing_gives_no_objects(sam, bgr):
    (found,) = sam(bgr, bboxes=np.zeros((0, 4)))
    assert len(found) == 0
    assert found.masks is None
    assert found.boxes.xyxy.shape == (0, 4)


def test_settings_limit_what_is_given_out(sam, bgr):
    both = {"bboxes": [BOX, OTHER]}
    (all_of_them,) = sam(bgr, conf=0.0, **both)
    scores = np.asarray(all_of_them.boxes.conf)
    assert len(scores) == 2
    (better,) = sam(bgr, conf=float(scores.min()), **both)
    assert np.asarray(better.boxes.cls).tolist() == [int(scores.argmax())]
    (second,) = sam(bgr, conf=0.0, classes=[1], **both)
    assert np.asarray(second.boxes.cls).tolist() == [1]
    assert second.names[1] == "1"
    (one,) = sam(bgr, conf=0.0, max_det=1, **both)
    assert len(one) == 2  # prompts are answered, all of them


def test_the_size_of_the_input_is_the_networks(sam, bgr):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sam(bgr, bboxes=BOX, imgsz=sam.model.img_size)
    with pytest.warns(PromptWarning, match="own side of 192"):
        sam(bgr, bboxes=BOX, imgsz=1024)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sam(bgr, bboxes=BOX, imgsz=640)


# ---------------------------------------------------------------- everything


def test_without_a_prompt_everything(sam, bgr, image):
    generator = sam_rlx.MaskGenerator(sam.model, points_per_side=6, pred_iou_thresh=0.5)
    records = generator.generate(image)
    assert len(records) > 1
    options = {"points_stride": 6, "conf_thres": 0.5, "conf": 0.0}
    (found,) = sam.predictor(bgr, **options)
    want = np.stack([record["segmentation"] for record in records])
    np.testing.assert_array_equal(np.asarray(found.masks.data), want)
    (one,) = sam.predictor(bgr, max_det=1, **options)
    best = int(np.argmax([record["predicted_iou"] for record in records]))
    np.testing.assert_array_equal(np.asarray(one.masks.data), want[best : best + 1])
    cropped = sam_rlx.MaskGenerator(sam.model, points_per_side=6, crop_n_layers=1)
    (again,) = sam.predictor(bgr, points_stride=6, crop_n_layers=1, conf=0.0)
    assert len(again) == len(cropped.generate(image))
    every = sam_rlx.MaskGenerator(
        sam.model, points_per_side=6, pred_iou_thresh=0.5, box_nms_thresh=1.0
    )
    (all_of_them,) = sam.predictor(bgr, iou=1.0, **options)
    assert len(all_of_them) == len(every.generate(image)) > len(records)


# ---------------------------------------------------------------- sources


def test_sources(sam, bgr, image, own, tmp_path, monkeypatch):
    want = expected(own, box=[BOX])
    folder = tmp_path / "images"
    io.write_image(folder / "b.png", image)
    io.write_image(folder / "a.png", image)
    tensor = torch.from_numpy(image.transpose(2, 0, 1).copy()).float() / 255
    for source in (
        folder / "a.png",
        str(folder / "a.png"),
        bgr,
        Image.fromarray(image),
        tensor[None],
        np.dstack([bgr, np.zeros((120, 161), np.uint8)]),
    ):
        found = sam(source, bboxes=BOX, conf=0.0)
        np.testing.assert_array_equal(masks(found), want)
        np.testing.assert_array_equal(found[0].orig_img, bgr)
    several = (folder, str(folder / "*.png"), [folder / "a.png", folder / "b.png"])
    for source in several:
        found = sam(source, bboxes=BOX)
        assert [result.path.rpartition("/")[2] for result in found] == ["a.png", "b.png"]
    mixed = sam([bgr, Image.fromarray(image)], bboxes=BOX)
    assert [result.path for result in mixed] == ["image0.jpg", "image1.jpg"]
    monkeypatch.chdir(tmp_path)
    address = (folder / "a.png").read_bytes()
    monkeypatch.setattr("sam_rlx.compat.ultralytics.sources._fetched", lambda _: address)
    (fetched,) = sam("https://example.org/some/street.png?x=1", bboxes=BOX, conf=0.0)
    assert fetched.path == "street.png"
    np.testing.assert_array_equal(masks([fetched]), want)


def test_addresses_are_read(tmp_path, image):
    import http.server
    import threading

    io.write_image(tmp_path / "a.png", image)
    handler = type(
        "Quiet",
        (http.server.SimpleHTTPRequestHandler,),
        {
            "__init__": lambda self, *a: http.server.SimpleHTTPRequestHandler.__init__(
                self, *a, directory=str(tmp_path)
            ),
            "log_message": lambda *_: None,
        },
    )
    from sam_rlx.compat.ultralytics.sources import items

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (item,) = items(f"http://127.0.0.1:{server.server_port}/a.png")
        server.shutdown()
    np.testing.assert_array_equal(item.pixels, image)


def test_each_frame_of_a_clip(sam, clip):
    found = sam(clip, points=[45, 60], stream=True, vid_stride=2)
    assert isinstance(found, types.GeneratorType)
    results = list(found)
    assert [result.path for result in results] == [str(clip)] * 2
    assert all(result.boxes.id is None for result in results)


def test_odd_sources(sam, tmp_path):
    for source in (None, 3, {"a": 1}, np.zeros((2, 3, 4, 5, 6))):
        with pytest.raises(sam_rlx.SamRlxError):
            sam(source, bboxes=BOX)
    for source in ("0", "rtsp://camera", "screen", "list.streams"):
        with pytest.raises(NotImplementedError, match="cameras"):
            sam(source, bboxes=BOX)
    for source in ("missing.jpg", str(tmp_path / "*.png"), tmp_path):
        with pytest.raises(FileNotFoundError):
            sam(source, bboxes=BOX)


# ---------------------------------------------------------------- predictors


def test_an_image_that_is_set(sam, bgr, own, tmp_path, image):
    predictor = Predictor(overrides={"conf": 0.0, "task": "segment", "model": sam.model})
    with pytest.raises(sam_rlx.StateError, match="set_image"):
        predictor(bboxes=BOX)
    io.write_image(tmp_path / "a.png", image)
    for source in (bgr, tmp_path / "a.png"):
        predictor.set_image(source)
        np.testing.assert_array_equal(masks(predictor(bboxes=BOX)), expected(own, box=[BOX]))
    # A source does not change the image that is set.
    predictor(np.zeros((30, 50, 3), np.uint8), points=[3, 4])
    assert masks(predictor(points=[40, 40])).shape == (1, 120, 161)
    everything = predictor(points_stride=5, conf_thres=0.3, stability_score_thresh=0.3)
    assert len(everything[0]) > 0
    assert masks(predictor(bboxes=BOX, multimask_output=True)).shape[0] == 3
    predictor.set_prompts({"bboxes": BOX})
    np.testing.assert_array_equal(masks(predictor()), expected(own, box=[BOX]))
    predictor.reset_image()
    with pytest.raises(sam_rlx.StateError):
        predictor(bboxes=BOX)


def test_features_serve_another_predictor(sam, bgr, own):
    options = {"conf": 0.0, "model": sam.model}
    first, second = Predictor(overrides=options), Predictor(overrides=options)
    assert first.features is None
    first.set_image(bgr)
    second.setup_model()
    found, boxes = second.inference_features(first.features, src_shape=(120, 161), bboxes=[BOX])
    np.testing.assert_array_equal(np.asarray(found), expected(own, box=[BOX]))
    assert boxes.shape == (1, 6)


def test_families(bgr):
    for name, kind, attribute in (
        ("sam2-nano", SAM2Predictor, "is_sam2"),
        ("sam3-nano", SAM3Predictor, "is_sam3"),
    ):
        model = SAM(name)
        assert getattr(model, attribute)
        assert isinstance(model.predictor, kind)
        own = sam_rlx.ImagePredictor(model.model)
        own.set_image(np.ascontiguousarray(bgr[:, :, ::-1]))
        found = masks(model(bgr, bboxes=[BOX], conf=0.0))
        np.testing.assert_array_equal(found, expected(own, box=[BOX]))


# ---------------------------------------------------------------- the model


def test_signatures():
    names = ["source", "stream", "bboxes", "points", "labels", "kwargs"]
    for function in (SAM.__call__, SAM.predict):
        assert list(inspect.signature(function).parameters) == ["self", *names]


def test_the_model_itself(sam, capsys):
    assert sam.to("cpu").device == "cpu"
    assert sam.task == "segment"
    assert sam.names == {}
    assert sam.eval().float().fuse() is sam
    _, parameters, _, _ = sam.info()
    assert parameters == sam.model.num_parameters
    assert "sam-nano" in capsys.readouterr().out
    sam.info(verbose=False)
    assert capsys.readouterr().out == ""
    with pytest.raises(NotImplementedError, match="cpu"):
        sam.to("cuda:0")
    for device in (0, "0", [0, 1], "mps", torch.device("cuda")):
        with pytest.raises(NotImplementedError, match="expected 'cpu'"):
            sam(np.zeros((9, 9, 3), np.uint8), points=[1, 1], device=device)
    for device in (None, "", "cpu", torch.device("cpu")):
        sam(np.zeros((9, 9, 3), np.uint8), points=[1, 1], device=device)


@pytest.mark.parametrize("name", ["train", "val", "export", "benchmark", "track", "tune", "embed"])
def test_what_is_refused_by_words(sam, name):
    with pytest.raises(NotImplementedError, match=rf"SAM\.{name}: expected predict"):
        getattr(sam, name)(data="coco8.yaml")


@pytest.mark.parametrize(
    ("name", "value"), [("augment", True), ("embed", [1]), ("visualize", True), ("task", "detect")]
)
def test_settings_that_are_refused(sam, bgr, name, value):
    with pytest.raises(NotImplementedError, match=name):
        sam(bgr, bboxes=BOX, **{name: value})


@pytest.mark.parametrize(
    ("name", "hub"),
    [
        ("sam_b.pt", "facebook/sam-vit-base"),
        ("sam_l.pt", "facebook/sam-vit-large"),
        ("sam2_t.pt", "facebook/sam2-hiera-tiny"),
        ("sam2.1_b.pt", "facebook/sam2.1-hiera-base-plus"),
        ("weights/sam2.1_l.pt", "facebook/sam2.1-hiera-large"),
        ("sam3.pt", "facebook/sam3"),
        ("mobile_sam.pt", "https://github.com/ChaoningZhang/MobileSAM"),
    ],
)
def test_names_that_are_not_on_the_disk(name, hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="Nothing is downloaded from") as error:
        SAM(name)
    assert hub in str(error.value)


def test_files(tiny_checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sam_b.pt").write_bytes(tiny_checkpoint.read_bytes())
    assert SAM("sam_b.pt").model.family == "sam"
    for name in ("yolo11n.pt", "FastSAM-s.pt", "rtdetr-l.pt"):
        with pytest.raises(NotImplementedError, match="another network"):
            SAM(name)
    with pytest.raises(sam_rlx.InvalidArgumentError):
        SAM(3)


def test_other_networks(monkeypatch):
    from sam_rlx.compat import ultralytics

    for name in ("YOLO", "FastSAM", "RTDETR", "YOLOE"):
        kind = getattr(ultralytics, name)
        with pytest.raises(NotImplementedError, match=f"{name}: expected SAM"):
            kind("x.pt")
    with pytest.raises(AttributeError, match="no attribute"):
        _ = ultralytics.nothing


def test_an_installed_package_gives_its_other_networks(tmp_path):
    import subprocess
    import sys

    (tmp_path / "ultralytics").mkdir()
    (tmp_path / "ultralytics" / "__init__.py").write_text("YOLO = 'theirs'\n")
    code = "import sys; sys.path.insert(0, sys.argv[1])\n"
    code += "from sam_rlx.compat.ultralytics import SAM, YOLO; print(YOLO, SAM.__name__)"
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
    assert done.stdout == "theirs SAM\n"


def test_nothing_imports_pytorch():
    import subprocess
    import sys

    code = (
        "import sys, numpy as np\n"
        "from sam_rlx.compat.ultralytics import SAM\n"
        "import sam_rlx.compat.ultralytics.models.sam, sam_rlx.compat.ultralytics.data.annotator\n"
        "(r,) = SAM('sam-nano')(np.zeros((20, 30, 3), np.uint8), points=[9, 9], conf=0)\n"
        "print('torch' in sys.modules, type(r.masks.data).__name__, r.masks.data.numpy().shape)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=90, check=True
    )
    assert done.stdout == "False TensorArray (1, 20, 30)\n"
