"""Mean, deviation and side of images from the settings that transformers' processors write."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sam_rlx
from sam_rlx import CheckpointError

pytest.importorskip("transformers", reason="needs transformers")
pytestmark = pytest.mark.parity

from support import hugging_face_models as hf  # noqa: E402
from support import upstream  # noqa: E402

upstream.prepare()

MEAN, STD = (0.4, 0.5, 0.25), (0.2, 0.3, 0.125)
NAMES = ["SamModel", "Sam2VideoModel", "Sam3TrackerVideoModel"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Models and their folders by class, made when a test asks for one."""
    return hf.folders(tmp_path_factory.mktemp("transformers"))


@pytest.fixture
def folder(saved, tmp_path):
    """Copy the folder of a class, to add settings to."""

    def copy(name):
        target = tmp_path / "folder"
        target.mkdir()
        for path in saved(name)[1].iterdir():
            (target / path.name).write_bytes(path.read_bytes())
        return target

    return copy


def processors(name, side, **options):
    """Return transformers' image processor and processor of a family."""
    import transformers

    family = hf.family(name)
    square = {"height": side, "width": side}
    size = {"longest_edge": side} if family == "Sam" else square
    more = {"pad_size": square} if family == "Sam" else {}
    images = getattr(transformers, f"{family}ImageProcessor")(size=size, **more, **options)
    kind = {"Sam3": None}.get(family, f"{family}Processor")
    return images, None if kind is None else getattr(transformers, kind)(images)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["preprocessor_config.json", "processor_config.json"])
def test_mean_and_deviation_are_those_of_the_processor(parity, saved, folder, name, form):
    """transformers with its own processor's pixels is the judge."""
    import torch

    model, _ = saved(name)
    side = hf.model_side(model)
    images, processor = processors(name, side, image_mean=MEAN, image_std=STD)
    target = folder(name)
    if form == "preprocessor_config.json":
        images.save_pretrained(target)
    elif processor is not None:
        processor.save_pretrained(target)
    else:
        pytest.skip("the processor of SAM 3 needs the files of a tokenizer")
    assert (target / form).is_file()
    photo = hf.image(side)
    values = (photo / 255.0 - np.array(MEAN)) / np.array(STD)
    values = values.transpose(2, 0, 1)[None]
    theirs = images(photo, return_tensors="np")["pixel_values"]
    np.testing.assert_allclose(theirs, values, atol=1e-5)
    results = []
    for dtype in (torch.float64, torch.float32):
        with torch.no_grad():
            found = hf._click(hf.click_model(model).to(dtype), torch.from_numpy(values).to(dtype))
        results.append({key: value.numpy() for key, value in found.items()})
        model.float()
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(target))
    predictor.set_image(photo)
    result = predictor.predict(point_coords=[hf.POINT], point_labels=[1])
    parity.close(result.low_res_masks, results[0]["low_res"], results[1]["low_res"], name)
    parity.close(result.iou_predictions, results[0]["iou"], results[1]["iou"], name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("suffix", [".gguf", ".safetensors", ""])
def test_they_survive_a_conversion(saved, folder, tmp_path, name, suffix):
    target, output = folder(name), tmp_path / f"converted{suffix}"
    side = hf.model_side(saved(name)[0])
    processors(name, side, image_mean=MEAN, image_std=STD)[0].save_pretrained(target)
    before = sam_rlx.load_model(target).config
    sam_rlx.convert(target, output, names="meta" if suffix == ".safetensors" else None)
    after = sam_rlx.load_model(output).config
    scale = 255 if name == "SamModel" else 1
    assert before["pixel_mean"] == pytest.approx([scale * each for each in MEAN], rel=1e-6)
    assert before["pixel_std"] == pytest.approx([scale * each for each in STD], rel=1e-6)
    assert (after["pixel_mean"], after["pixel_std"]) == (before["pixel_mean"], before["pixel_std"])


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_of_the_release_change_no_bit(saved, folder, name):
    target = folder(name)
    processors(name, hf.model_side(saved(name)[0]))[0].save_pretrained(target)
    assert sam_rlx.load_model(target).config == sam_rlx.load_model(saved(name)[1]).config


@pytest.mark.parametrize("name", NAMES)
def test_another_side_is_an_error_that_names_both(saved, folder, name):
    target, side = folder(name), hf.model_side(saved(name)[0])
    processors(name, side + 16)[0].save_pretrained(target)
    text = rf"preprocessor_config.json: size\.\w+: expected {side}, .*found {side + 16}"
    with pytest.raises(CheckpointError, match=text):
        sam_rlx.load_model(target)


@pytest.mark.parametrize(
    ("changes", "mean", "std"),
    [
        ({"do_normalize": False}, (0, 0, 0), (1, 1, 1)),
        ({"do_rescale": False, "image_mean": [127.5] * 3, "image_std": [51.0] * 3}, 0.5, 0.2),
        ({"rescale_factor": 1 / 127.5, "image_mean": [1.0] * 3, "image_std": [2.0] * 3}, 0.5, 1),
        ({"image_mean": None, "image_std": None}, None, None),
        ({"size": 128}, None, None),
    ],
)
def test_other_settings(saved, folder, changes, mean, std):
    target = folder("Sam2VideoModel")
    (target / "preprocessor_config.json").write_text(json.dumps(changes))
    found = sam_rlx.load_model(target).config
    usual = sam_rlx.load_model(saved("Sam2VideoModel")[1]).config
    for key, value in (("pixel_mean", mean), ("pixel_std", std)):
        expected = usual[key] if value is None else np.broadcast_to(value, 3)
        np.testing.assert_allclose(found[key], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "preprocessor_config"),
        ('{"image_mean": 3}', "image_mean"),
        ('{"image_mean": [1, 2]}', "image_mean"),
        ('{"image_std": [0, 1, 1]}', "image_std from"),
        ('{"do_normalize": 3}', "do_normalize"),
        ('{"rescale_factor": "x"}', "rescale_factor"),
        ('{"rescale_factor": 0}', "image_std from"),
        ('{"size": {"height": "x"}}', "size.height"),
        ('{"image_mean": [1e30, 0, 0]}', "image_mean up to"),
    ],
)
def test_damaged_settings(folder, text, error):
    target = folder("Sam2VideoModel")
    (target / "preprocessor_config.json").write_text(text)
    with pytest.raises(CheckpointError, match=error):
        sam_rlx.load_model(target)


def test_beside_metas_weights_they_are_not_read(saved, tmp_path):
    """As config.json: a folder with a file of Meta's is not transformers'."""
    sam_rlx.convert(saved("SamModel")[1], tmp_path / "model.safetensors", names="meta")
    (tmp_path / "preprocessor_config.json").write_text('{"size": {"longest_edge": 3}}')
    assert sam_rlx.load_model(tmp_path).family == "sam"
