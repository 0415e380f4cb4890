"""Processors of the drop-in for transformers against transformers itself, by the table of forms."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import json
import pickle
import subprocess
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sam_rlx.compat.transformers import image_processors, notes, processors, video_processors
from sam_rlx.compat.transformers.processors import (
    Sam2Processor,
    Sam3TrackerProcessor,
    SamHQProcessor,
    SamProcessor,
)
from sam_rlx.errors import SamRlxError
from support import processor_forms as forms

HAS_UPSTREAM = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
needs_upstream = pytest.mark.skipif(not HAS_UPSTREAM, reason="needs PyTorch and transformers")

OURS = types.SimpleNamespace(
    **{**vars(image_processors), **vars(processors), **vars(video_processors)}
)
STORED = json.loads(forms.STORED.read_text(encoding="utf-8"))
KINDS_OF_CLICKS = [SamProcessor, SamHQProcessor, Sam2Processor, Sam3TrackerProcessor]
COUNTS = [40, 35, 39, 19, 44, 19, 9, 10]


@pytest.fixture(scope="module")
def upstream() -> types.ModuleType:
    """Return transformers, on a CPU whose instructions give PyTorch its vector path."""
    pytest.importorskip("torch", reason="needs PyTorch")
    pytest.importorskip("transformers", reason="needs transformers")
    torch = importlib.import_module("support.upstream").torch
    if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("PyTorch resizes bytes in float on a CPU without AVX2")
    return importlib.import_module("transformers")


def random_image(seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    height, width = random.integers(1, 200, 2)
    return random.integers(0, 256, (height, width, 3), dtype=np.uint8)


def quiet(call, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **kwargs)


def test_there_are_as_many_forms_as_were_counted():
    assert [len(table) for table in forms.FORMS.values()] == COUNTS
    assert [len(table) for table in STORED.values()] == COUNTS


@pytest.mark.parametrize("group", list(forms.FORMS))
def test_forms_give_what_transformers_gives(group):
    """By a stored copy of upstream's outcomes; tensors only where PyTorch is."""
    has_torch = importlib.util.find_spec("torch") is not None
    if has_torch:
        importlib.import_module("torch")
    run = forms.runner(OURS)
    for form in forms.FORMS[group]:
        if has_torch or not forms.TENSOR.search(form):
            assert not forms.difference(group, form, run(group, form), STORED[group][form]), form


@pytest.mark.parametrize("group", list(forms.FORMS))
def test_stored_outcomes_are_those_of_transformers(upstream, group):
    run = forms.runner(upstream)
    for form in forms.FORMS[group]:
        found, stored = run(group, form), STORED[group][form]
        if "error" in stored:
            assert found["error"][:1] == stored["error"], form
        else:
            is_float = any(mark in form for mark in forms.FLOAT)
            either = forms.without_bytes if is_float else copy.copy
            assert either(found) == either(stored), form


WITHOUT_TORCH = """
import json, sys, types
sys.modules["torch"] = sys.modules["transformers"] = None
from support import processor_forms as forms
from sam_rlx.compat.transformers import image_processors, processors
ours = types.SimpleNamespace(**{**vars(image_processors), **vars(processors)})
stored = json.loads(forms.STORED.read_text(encoding="utf-8"))
for group, found in forms.outcomes(ours, tensors=False).items():
    for form, outcome in found.items():
        assert not forms.difference(group, form, outcome, stored[group][form]), form
image = forms.material()["a"]
processor = forms.processors(ours)["sam2"]
batch = processor(image, input_points=[[[[40, 30]]]], return_tensors="pt")
print(type(batch.pixel_values).__name__, type(batch["input_points"]).__name__)
"""


def test_forms_without_torch():
    """The same code gives arrays with the methods of tensors, and imports neither package."""
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout.split() == ["TensorArray", "TensorArray"], found.stderr


# ---------------------------------------------------------------- beyond the forms


@pytest.mark.parametrize("family", ["Sam", "Sam2", "Sam3"])
def test_pixels_at_random_sizes(upstream, family):
    size = {"size": {"longest_edge": 97}, "pad_size": 97} if family == "Sam" else {"size": 97}
    for seed in range(12):
        images = [random_image(seed), random_image(100 + seed)]
        theirs, ours = (
            getattr(side, f"{family}ImageProcessor")(**size)(
                images, return_tensors="pt", resample=2 + seed % 2
            )
            for side in (upstream, OURS)
        )
        assert list(ours) == list(theirs)
        for name, value in theirs.items():
            assert np.array_equal(np.asarray(ours[name]), value.numpy()), (seed, name)


@pytest.mark.parametrize("name", ["SamImageProcessor", "Sam2ImageProcessor", "Sam3ImageProcessor"])
def test_defaults_at_full_size(upstream, name):
    image = Image.fromarray(np.random.default_rng(5).integers(0, 256, (480, 640, 3), np.uint8))
    theirs = getattr(upstream, name)()(image, return_tensors="np")
    ours = getattr(OURS, name)()(image, return_tensors="np")
    assert {k: v.tobytes() for k, v in ours.items()} == {k: v.tobytes() for k, v in theirs.items()}
    assert ours["pixel_values"].shape == theirs["pixel_values"].shape


SETTINGS = [
    {"do_center_crop": True, "crop_size": 50},
    {"do_center_crop": True, "crop_size": {"height": 151, "width": 20}},
    {"do_center_crop": True, "crop_size": 50, "default_to_square": False},
    {"image_mean": 0.5, "image_std": 0.25},
    {"image_mean": [0.1, 0.2, 0.3]},
    {"rescale_factor": 1 / 128},
    {"do_rescale": False},
    {"do_normalize": False, "do_rescale": False},
    {"resample": 0},
    {"size": {"shortest_edge": 40}},
    {"size": {"shortest_edge": 40, "longest_edge": 45}},
    {"size": {"max_height": 40, "max_width": 90}},
    {"size": (40, 60)},
    {"size": 40, "default_to_square": False},
    {"do_pad": True, "pad_size": 200},
    {"do_resize": False, "do_pad": True},
    {"input_data_format": "channels_last"},
    {"do_convert_rgb": False},
]


# Pillow's processor is SAM's, whose size is the longest edge; it has one more way to crop.
CASES = [("Sam2ImageProcessor", {"size": 128}, settings) for settings in SETTINGS]
CASES += [
    ("SamImageProcessorPil", {"size": {"longest_edge": 90}, "pad_size": 200}, settings)
    for settings in SETTINGS
    if "size" not in settings
]


@pytest.mark.parametrize(("name", "own", "settings"), CASES)
def test_settings(upstream, name, own, settings):
    image = random_image(7)
    expected = getattr(upstream, name)(**own)(image, return_tensors="np", **settings)
    found = getattr(OURS, name)(**own)(image, return_tensors="np", **settings)
    assert {k: v.shape for k, v in found.items()} == {k: v.shape for k, v in expected.items()}
    for key, value in expected.items():
        assert found[key].dtype == value.dtype
        assert found[key].tobytes() == value.tobytes(), key


KINDS = ["float32", "float64", "uint16", "int32", "float16"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("resample", [2, 3])
def test_other_numbers_within_their_range(upstream, kind, resample):
    """PyTorch resizes them in float: equal within 1e-5 of the range."""
    image = random_image(3)
    image = (image / 255).astype(kind) if kind.startswith("float") else image.astype(kind) * 250
    settings = {"size": 64, "resample": resample}
    if kind.startswith("float"):
        settings["do_rescale"] = False
    expected = upstream.Sam2ImageProcessor()(image, return_tensors="np", **settings)["pixel_values"]
    found = OURS.Sam2ImageProcessor()(image, return_tensors="np", **settings)["pixel_values"]
    assert found.dtype == expected.dtype == np.float32
    limit = (1e-5 if kind != "float16" else 2e-3) * np.ptp(expected)
    if kind in ("uint16", "int32"):  # a value between two integers may become the other
        limit += 1.01 / 255 / 0.2
    assert np.abs(found - expected).max() <= limit


@pytest.mark.parametrize("alpha", [np.uint8, np.uint16, np.float32])
def test_transparent_arrays_lie_over_white(upstream, alpha):
    image = np.random.default_rng(1).integers(0, 256, (31, 47, 4))
    image = image.astype(np.uint8) if alpha == np.uint8 else image.astype(alpha) / 255
    image = (image * 65535).astype(np.uint16) if alpha == np.uint16 else image
    settings = {"do_resize": False, "do_rescale": False, "do_normalize": False}
    expected = upstream.Sam2ImageProcessor()(image, return_tensors="np", **settings)
    found = OURS.Sam2ImageProcessor()(image, return_tensors="np", **settings)
    assert found["pixel_values"].tobytes() == expected["pixel_values"].tobytes()
    if alpha == np.float32:
        with pytest.raises(ValueError, match="0 to 1") as caught:
            OURS.Sam2ImageProcessor()(image * 2)
        assert isinstance(caught.value, SamRlxError)


@pytest.mark.parametrize("family", ["Sam", "Sam2"])
def test_label_maps_at_random_sizes(upstream, family):
    size = {} if family == "Sam" else {"mask_size": {"height": 61, "width": 61}}
    theirs, ours = (getattr(side, f"{family}ImageProcessor")() for side in (upstream, OURS))
    for seed in range(20):
        image = random_image(seed)
        given = image[..., 0] if seed % 2 else Image.fromarray(image).convert("P")
        expected = theirs(image, given, return_tensors="pt", **size)["labels"]
        found = ours(image, given, return_tensors="pt", **size)["labels"]
        assert np.array_equal(np.asarray(found), expected.numpy()), seed


def ragged(random, depth):
    """Return nested lists of points: images, objects, points, of different lengths."""
    if depth == 0:
        return [float(random.integers(0, 100)), float(random.integers(0, 80)) + 0.5]
    return [ragged(random, depth - 1) for _ in range(random.integers(1, 4))]


def labels_of(points):
    return 1 if isinstance(points[0], float) else [labels_of(each) for each in points]


def test_ragged_points(upstream):
    random = np.random.default_rng(0)
    theirs, ours = (forms.processors(side)["sam2"] for side in (upstream, OURS))
    image = Image.fromarray(random_image(1))
    for _ in range(40):
        points = ragged(random, 3)
        given = {"input_points": points, "input_labels": labels_of(points)}
        images = [image] * len(points)
        expected = theirs(images, return_tensors="pt", **copy.deepcopy(given))
        found = ours(images, return_tensors="pt", **given)
        for name in ("input_points", "input_labels"):
            assert np.array_equal(np.asarray(found[name]), expected[name].numpy()), points
        assert given["input_points"] == points  # what was given stays


def test_prompts_of_sam_at_random_sizes(upstream):
    random = np.random.default_rng(0)
    for seed in range(20):
        image = random_image(seed)
        points = random.uniform(-5, 200, (1, 3, 2)).tolist()
        boxes = random.uniform(0, 200, (1, 2, 4)).tolist()
        theirs, ours = (
            side.SamProcessor(side.SamImageProcessor())(
                image, input_points=points, input_boxes=boxes, return_tensors="pt"
            )
            for side in (upstream, OURS)
        )
        for name in ("input_points", "input_boxes"):
            assert np.array_equal(np.asarray(ours[name]), theirs[name].numpy()), (seed, name)


def test_points_of_sam_hq_have_no_pad():
    processor = SamHQProcessor(OURS.SamImageProcessor())
    images = [random_image(0), random_image(1)]
    points, labels = [[[1, 2], [3, 4]], [[5, 6]]], [[1, 1], [1]]
    with pytest.raises(TypeError) as caught:
        processor(images, input_points=points, input_labels=labels, return_tensors="pt")
    assert isinstance(caught.value, SamRlxError)
    found = processor(
        images, input_points=points, input_labels=labels, point_pad_value=-10, return_tensors="pt"
    )
    assert np.asarray(found["input_labels"]).tolist() == [[[1, 1]], [[1, -10]]]


def test_masks_at_random_sizes(upstream):
    """Floats within 1e-5 of the range; bools equal where the logit is farther from 0."""
    random = np.random.default_rng(0)
    theirs, ours = (
        {"sam": side.SamImageProcessor(), "sam2": side.Sam2ImageProcessor()}
        for side in (upstream, OURS)
    )
    for _ in range(6):
        height, width = (int(side) for side in random.integers(20, 300, 2))
        scale = 1024 / max(height, width)
        logits = 20 * random.standard_normal((2, 3, 64, 64), np.float32)
        sizes = {
            "sam": ([[height, width]], [[int(height * scale + 0.5), int(width * scale + 0.5)]]),
            "sam2": ([[height, width]],),
        }
        for family, arguments in sizes.items():
            call = theirs[family].post_process_masks
            expected = call([logits.copy()], *arguments, binarize=False)[0].numpy()
            found = ours[family].post_process_masks([logits], *arguments, binarize=False)[0]
            limit = 1e-5 * np.ptp(expected)
            assert np.abs(np.asarray(found) - expected).max() <= limit
            inside = np.asarray(ours[family].post_process_masks([logits], *arguments)[0])
            assert np.array_equal(
                inside[np.abs(expected) > limit], (expected > 0)[np.abs(expected) > limit]
            )


def test_frames_of_videos(upstream):
    frames = [random_image(4)] * 3
    videos = [frames, [Image.fromarray(frame) for frame in frames], np.stack(frames)]
    theirs, ours = (side.Sam2VideoVideoProcessor(size=64) for side in (upstream, OURS))
    for video in videos:
        expected, found = theirs(video, return_tensors="np"), ours(video, return_tensors="np")
        assert list(found) == list(expected)
        for name, value in expected.items():
            assert found[name].dtype == value.dtype
            assert found[name].tobytes() == value.tobytes(), name
    with pytest.raises(ValueError, match="one size"):
        ours([random_image(1), random_image(2)])


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("kind", KINDS_OF_CLICKS)
def test_settings_survive_a_folder(tmp_path, kind):
    part = kind.parts["image_processor"]
    edge = {"longest_edge": 100} if issubclass(kind, SamProcessor) else 100
    processor = kind(part(size=edge, image_mean=[0.1, 0.2, 0.3]))
    assert processor.save_pretrained(tmp_path) == [str(tmp_path / "processor_config.json")]
    again = kind.from_pretrained(tmp_path)
    assert again.to_dict() == processor.to_dict()
    assert again.target_size == 100
    assert type(again.image_processor) is part
    assert pickle.loads(pickle.dumps(again)).to_dict() == processor.to_dict()


def test_settings_of_the_older_spelling(tmp_path):
    part = OURS.Sam2ImageProcessor(size=100)
    assert part.save_pretrained(tmp_path) == [str(tmp_path / "preprocessor_config.json")]
    assert Sam2Processor.from_pretrained(tmp_path).target_size == 100
    assert OURS.Sam2ImageProcessor.from_pretrained(tmp_path).to_dict() == part.to_dict()
    file = tmp_path / "preprocessor_config.json"
    assert OURS.Sam2ImageProcessor.from_pretrained(file).to_dict() == part.to_dict()
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "image_processor_type": "Sam3ImageProcessorFast"}))
    assert isinstance(
        Sam2Processor.from_pretrained(tmp_path).image_processor, OURS.Sam3ImageProcessor
    )


def test_size_leaves_the_target_size_of_a_folder(tmp_path):
    """Upstream's defect: points are scaled for the size of the file."""
    Sam2Processor(OURS.Sam2ImageProcessor(size=128)).save_pretrained(tmp_path)
    again = Sam2Processor.from_pretrained(tmp_path, size=64)
    assert again.target_size == 128
    assert again.image_processor.size == {"height": 64, "width": 64}
    found, rest = Sam2Processor.from_pretrained(
        tmp_path, point_pad_value=-3, nonsense=1, return_unused_kwargs=True
    )
    assert found.point_pad_value == -3
    assert rest == {"nonsense": 1}


def test_what_is_not_there_is_an_os_error(tmp_path):
    for source in (tmp_path, tmp_path / "none"):
        with pytest.raises(OSError, match="expected"):
            Sam2Processor.from_pretrained(source)
    (tmp_path / "processor_config.json").write_text("[]")
    with pytest.raises(OSError, match="JSON object"):
        Sam2Processor.from_pretrained(tmp_path)


@pytest.mark.parametrize("kind", KINDS_OF_CLICKS)
def test_files_are_those_of_transformers(upstream, tmp_path, kind):
    """Each side writes what the other does, and reads what the other wrote."""
    name, part, made = kind.__name__, kind.parts["image_processor"].__name__, {}
    for side, module in (("theirs", upstream), ("ours", OURS)):
        made[side] = getattr(module, name)(getattr(module, part)())
        made[side].save_pretrained(tmp_path / side)
        made[side].image_processor.save_pretrained(tmp_path / side / "part")
    for file in ("processor_config.json", "part/preprocessor_config.json"):
        theirs, ours = ((tmp_path / side / file).read_text() for side in ("theirs", "ours"))
        assert ours == theirs
    again = kind.from_pretrained(tmp_path / "theirs")
    assert again.to_dict() == made["ours"].to_dict()


def test_a_processor_wants_its_part():
    for wrong in ("sam", None, SamProcessor(OURS.SamImageProcessor())):
        with pytest.raises(TypeError, match="expected a ImageProcessor") as caught:
            Sam2Processor(wrong)
        assert isinstance(caught.value, SamRlxError)


def test_what_is_ignored_is_told_once(monkeypatch):
    monkeypatch.setattr(notes, "_told", set())
    processor, image = forms.processors(OURS)["sam"], random_image(0)
    with pytest.warns(notes.IgnoredWarning, match="points_per_side"):
        processor(image, points_per_side=3)
    processor(image, points_per_side=3)
    with pytest.warns(notes.IgnoredWarning, match="found tuple"):
        forms.processors(OURS)["sam2"](image, input_points=([[1, 2]],))
