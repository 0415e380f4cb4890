"""SAM 3 with texts and boxes: the drop-in's classes beside transformers' on a small folder."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", exc_type=ImportError)

import torch
from sam_rlx.compat import transformers as ours
from sam_rlx.compat.transformers.results_sam3 import SemanticSegmentationPostProcessorOutput
from sam_rlx.errors import SamRlxError
from support import concept_folders, hugging_face_models, upstream

FIELDS = (
    *("pred_masks", "pred_boxes", "pred_logits", "presence_logits", "semantic_seg"),
    "decoder_reference_boxes",
)
A, B = concept_folders.two_images()
X, Y = [1, 2, 30, 40], [5, 6, 37, 58]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Our model and processor, and theirs."""
    theirs, processor = concept_folders.make(), concept_folders.processor()
    folder = concept_folders.save(tmp_path_factory.mktemp("sam3"), theirs, processor)
    return (
        (ours.Sam3Model.from_pretrained(folder), ours.Sam3Processor.from_pretrained(folder)),
        (theirs, processor),
    )


def arrays(output: Any, names: tuple[str, ...] = FIELDS) -> dict[str, Any]:
    return {name: np.asarray(torch.as_tensor(output[name])) for name in names}


def run(model: Any, inputs: dict[str, Any], wide: bool = False) -> Any:
    if not wide:
        with torch.no_grad():
            return model(**inputs)
    double = upstream.double(model)
    given = {
        name: value.double() if torch.is_tensor(value) and value.is_floating_point() else value
        for name, value in inputs.items()
    }
    with upstream.float64(), torch.no_grad():
        return double(**given)


def close(found: Any, single: Any, truth: Any, where: str) -> None:
    """Hold a result to four times the error of upstream's float32, plus 1e-6 of the range."""
    scale = np.abs(truth).max() or 1.0
    error, own = np.abs(found - truth).max(), np.abs(single - truth).max()
    assert found.shape == truth.shape, where
    assert found.dtype == np.float32, where
    assert error <= 4 * own + 1e-6 * scale, (where, error, own, scale)


def follow(found: Any, theirs: Any, given: dict[str, Any]) -> None:
    """Hold each field of an output of ours to what transformers computes of the same inputs."""
    single, truth = run(theirs, given), run(theirs, given, wide=True)
    assert list(found) == list(single)
    for field in FIELDS:
        close(*(arrays(each, (field,))[field] for each in (found, single, truth)), field)


CALLS: dict[str, dict[str, Any]] = {
    "text": {"images": A, "text": "cat"},
    "box": {"images": A, "input_boxes": [[X]]},
    "box beyond the image": {"images": A, "input_boxes": [[[-20, 2, 130, 90]]], "text": "a"},
    "negative box": {
        "images": A,
        "text": "yellow cat",
        "input_boxes": [[X, Y]],
        "input_boxes_labels": [[1, 0]],
    },
    "batch": {"images": [A, B], "text": ["cat", "a longer dog"]},
    "mixed": {"images": [A, B], "text": ["cat", None], "input_boxes": [None, [X, Y]]},
    "two lists of boxes, one text": {"images": [A, B], "input_boxes": [[X, Y], [Y]]},
    "empty text": {"images": B, "text": ""},
}


@pytest.mark.parametrize("name", CALLS)
def test_each_field_by_the_float64_rule(both, name):
    (model, processor), (theirs, upstreams) = both
    given = upstreams(return_tensors="pt", **CALLS[name])
    mine = processor(return_tensors="pt", **CALLS[name])
    assert list(mine) == list(given)
    for key, value in given.items():
        np.testing.assert_array_equal(np.asarray(mine[key]), np.asarray(value), key)
        assert mine[key].dtype == value.dtype
    follow(model(**mine), theirs, given)


def test_without_a_mask_padding_counts(both):
    (model, _), (theirs, upstreams) = both
    given = dict(upstreams(A, text="cat", return_tensors="pt"))
    del given["attention_mask"]
    found, masked = model(**given), model(**upstreams(A, text="cat", return_tensors="pt"))
    assert np.abs(np.asarray(masked.pred_logits - found.pred_logits)).max() > 1e-3
    follow(found, theirs, given)


@pytest.mark.parametrize("labels", [[[-10, 1]], [[-10, -10]], [[1, -10]], [[-10, 0]]])
def test_padded_labels_count_the_first_boxes_as_upstream(both, labels):
    """As many of the first boxes as have a label: an error of upstream's that is kept."""
    (model, _), (theirs, upstreams) = both
    given = upstreams(A, text="cat", input_boxes=[[X, Y]], return_tensors="pt")
    given["input_boxes_labels"] = torch.tensor(labels)
    follow(model(**given), theirs, given)


def loaded(folder: Path, theirs: Any) -> Any:
    return ours.Sam3Model.from_pretrained(hugging_face_models.save(theirs, folder))


@pytest.mark.parametrize("shift", [-40.0, 40.0])
def test_presence_is_at_most_ten(both, tmp_path, shift):
    _, (theirs, upstreams) = both
    network = copy.deepcopy(theirs)
    with torch.no_grad():
        network.detr_decoder.presence_head.layer3.bias += shift
    given = upstreams(A, text="cat", return_tensors="pt")
    found = loaded(tmp_path / "sam3", network)(**given)
    assert np.asarray(found.presence_logits).tolist() == [[10.0 if shift > 0 else -10.0]]
    follow(found, network, given)


@pytest.mark.parametrize("epsilons", [(1e-5, 1e-5), (1e-6, 1e-6)])
def test_epsilons_are_those_of_the_settings(both, tmp_path, epsilons):
    """Of the trunk and of texts, whose defaults are 1e-6 and 1e-5."""
    import transformers

    sizes = concept_folders.config()
    sizes.vision_config.backbone_config.layer_norm_eps = epsilons[0]
    sizes.text_config.layer_norm_eps = epsilons[1]
    network = hugging_face_models.fill(transformers.Sam3Model(sizes))
    given = both[1][1](A, text="cat", return_tensors="pt")
    follow(loaded(tmp_path / "sam3", network)(**given), network, given)


def test_vision_features_go_back_in(both):
    (model, processor), (theirs, _) = both
    pixels = processor([A, B], return_tensors="pt").pixel_values
    found = model.get_vision_features(pixels)
    with torch.no_grad():
        single = theirs.get_vision_features(pixels)
    with upstream.float64(), torch.no_grad():
        truth = upstream.double(theirs).get_vision_features(pixels.double())
    assert list(found) == list(single)
    close(*(np.asarray(x.last_hidden_state) for x in (found, single, truth)), "last_hidden_state")
    for name in ("fpn_hidden_states", "fpn_position_encoding"):
        assert len(found[name]) == len(single[name]) == 4
        for level in range(4):
            close(*(np.asarray(x[name][level]) for x in (found, single, truth)), f"{name} {level}")

    text = processor(text=["cat", "dog"], return_tensors="pt")
    again = model(vision_embeds=found, **text)
    plain = model(pixel_values=pixels, **text)
    for field in FIELDS:
        np.testing.assert_allclose(
            np.asarray(again[field]), np.asarray(plain[field]), rtol=1e-5, atol=1e-5
        )
    one = type(found)(
        last_hidden_state=found.last_hidden_state[1:],
        fpn_hidden_states=tuple(level[1:] for level in found.fpn_hidden_states),
        fpn_position_encoding=tuple(level[1:] for level in found.fpn_position_encoding),
    )
    second = model(vision_embeds=one, **processor(text="dog", return_tensors="pt"))
    np.testing.assert_array_equal(np.asarray(second.pred_masks[0]), np.asarray(again.pred_masks[1]))


@pytest.mark.parametrize("masked", [True, False])
def test_text_features_go_back_in(both, masked):
    (model, processor), (theirs, _) = both
    text = dict(processor(text=["cat", "a longer dog"], return_tensors="pt"))
    if not masked:
        del text["attention_mask"]
    found = model.get_text_features(**text)
    with torch.no_grad():
        single = theirs.get_text_features(**text)
    with upstream.float64(), torch.no_grad():
        truth = upstream.double(theirs).get_text_features(**text)
    assert list(found) == list(single)
    for name in ("text_embeds", "last_hidden_state", "pooler_output"):
        close(*(np.asarray(getattr(x, name)) for x in (found, single, truth)), name)

    images = processor([A, B], return_tensors="pt")
    mask = {"attention_mask": text["attention_mask"]} if masked else {}
    plain = model(pixel_values=images.pixel_values, **text)
    for embeds in (found, found.pooler_output, copy.deepcopy(found)):
        again = model(pixel_values=images.pixel_values, text_embeds=embeds, **mask)
        for field in FIELDS:
            np.testing.assert_array_equal(np.asarray(again[field]), np.asarray(plain[field]))


def test_results_beside_transformers(both):
    (model, processor), (_, upstreams) = both
    outputs = model(**processor([A, B], text=["cat", "dog"], return_tensors="pt"))
    sizes = [[75, 100], [60, 40]]
    scores = np.asarray(outputs.pred_logits.sigmoid() * outputs.presence_logits.sigmoid())
    middle = float(np.sort(scores.ravel())[[9, 10]].mean())  # far from both
    for options in ({}, {"threshold": middle}, {"threshold": middle, "target_sizes": sizes}):
        for name in ("post_process_instance_segmentation", "post_process_object_detection"):
            for holder in (processor, processor.image_processor):
                found = getattr(holder, name)(outputs, **options)
                expected = getattr(upstreams, name)(outputs, **options)
                assert len(found) == len(expected)
                for mine, their in zip(found, expected, strict=True):
                    assert list(mine) == list(their)
                    for key, value in their.items():
                        assert mine[key].dtype == value.dtype
                        assert mine[key].shape == value.shape
                        if key == "masks":
                            assert (mine[key] != value).sum() <= 1e-4 * value.numel()
                        else:
                            np.testing.assert_allclose(mine[key], value, rtol=1e-5, atol=1e-5)
    assert sum(len(each["scores"]) for each in found) == 2 * len(scores[0]) - 10


def test_semantic_maps_beside_transformers(both):
    (model, processor), (_, upstreams) = both
    outputs = model(**processor([A, B], text=["cat", "dog"], return_tensors="pt"))
    sizes = [[75, 100], [60, 40]]
    for options in ({}, {"target_sizes": sizes}, {"target_sizes": sizes, "threshold": 0.6}):
        found = processor.post_process_semantic_segmentation(outputs, **options)
        expected = upstreams.post_process_semantic_segmentation(outputs, **options)
        for mine, their in zip(found, expected, strict=True):
            assert mine.dtype == their.dtype
            assert mine.shape == their.shape
            assert (mine != their).float().mean() < 1e-3
    options["return_segmentation_scores"] = True
    found = processor.post_process_semantic_segmentation(outputs, **options)
    expected = upstreams.post_process_semantic_segmentation(outputs, **options)
    for mine, their in zip(found, expected, strict=True):
        assert isinstance(mine, SemanticSegmentationPostProcessorOutput)
        assert list(mine) == list(their)
        np.testing.assert_allclose(
            mine.segmentation_scores, their.segmentation_scores, rtol=1e-5, atol=1e-6
        )


BAD_RESULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "one size": ("post_process_instance_segmentation", {"target_sizes": [[75, 100]]}),
    "one size of boxes": ("post_process_object_detection", {"target_sizes": [[75, 100]]}),
    "sizes as a tensor": (
        "post_process_instance_segmentation",
        {"target_sizes": torch.tensor([[75, 100], [60, 40]]), "threshold": 0.0},
    ),
    "a number": ("post_process_object_detection", {"target_sizes": 5}),
    "one map": ("post_process_semantic_segmentation", {"target_sizes": [[75, 100]]}),
}


@pytest.mark.parametrize("name", BAD_RESULTS)
def test_results_that_are_refused(both, name):
    (model, processor), (_, upstreams) = both
    outputs = model(**processor([A, B], text=["cat", "dog"], return_tensors="pt"))
    method, options = BAD_RESULTS[name]
    refused(
        lambda: getattr(upstreams, method)(outputs, **options),
        lambda: getattr(processor, method)(outputs, **options),
    )


def refused(theirs: Any, mine: Any, kind: type[Exception] | None = None) -> None:
    """Hold our error to the type of theirs, or to a kind where theirs depends on the machine."""
    with pytest.raises(Exception) as expected:  # noqa: PT011
        theirs()
    with pytest.raises(kind or expected.type) as found:
        mine()
    assert isinstance(found.value, SamRlxError)


def changed(**changes: Any) -> Any:
    """Return a change of what a model is given."""

    def change(given: dict[str, Any]) -> dict[str, Any]:
        values = {**given, **changes}
        return {name: value for name, value in values.items() if value is not None}

    return change


BOX = torch.tensor([[[0.5, 0.5, 0.2, 0.3]]])
IDS = torch.tensor([[512, 66, 64, 339, 513] + [513] * 27])
BAD_CALLS = {
    "no image": changed(pixel_values=None),
    "no text": changed(input_ids=None),
    "another size": changed(pixel_values=torch.zeros(1, 3, 98, 98)),
    "another number of channels": changed(pixel_values=torch.zeros(1, 4, 112, 112)),
    "three axes": changed(pixel_values=torch.zeros(3, 112, 112)),
    "two texts on an image": changed(
        input_ids=IDS.repeat(2, 1), attention_mask=torch.ones(2, 32, dtype=torch.int64)
    ),
    "two images with a text": changed(pixel_values=torch.zeros(2, 3, 112, 112)),
    "a long text": changed(input_ids=torch.full((1, 42), 3), attention_mask=None),
    "an unknown id": changed(input_ids=torch.full((1, 32), 600)),
    "ids as floats": changed(input_ids=IDS.float()),
    "a short mask": changed(attention_mask=torch.ones(1, 5, dtype=torch.int64)),
    "boxes of two images": changed(input_boxes=BOX.repeat(2, 1, 1)),
    "wide boxes": changed(input_boxes=BOX.double()),
    "boxes without images": changed(input_boxes=BOX[0]),
    "label 2": changed(input_boxes=BOX, input_boxes_labels=torch.tensor([[2]])),
    "label -1": changed(input_boxes=BOX, input_boxes_labels=torch.tensor([[-1]])),
    "a tuple as features": changed(pixel_values=None, vision_embeds=(1, 2)),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_calls_that_are_refused(both, name):
    (model, _), (theirs, upstreams) = both
    given = dict(upstreams(A, text="cat", return_tensors="pt"))
    given = BAD_CALLS[name](given)
    # torchvision's operator, if it is there, lets upstream stop by an assertion that comes later.
    kind = IndexError if name == "boxes of two images" else None
    refused(lambda: run(theirs, given), lambda: model(**given), kind)


GOOD_CALLS = {
    "no labels": changed(input_boxes=BOX),
    "no boxes in a tensor": changed(input_boxes=torch.zeros(1, 0, 4)),
    "labels as floats": changed(input_boxes=BOX, input_boxes_labels=torch.tensor([[1.0]])),
    "a box with two labels": changed(input_boxes=BOX, input_boxes_labels=torch.tensor([[1, 0]])),
    "ids of one axis": changed(input_ids=IDS[0], attention_mask=None),
    "few ids": changed(input_ids=IDS[:, :5], attention_mask=None),
    "a mask of floats": changed(attention_mask=torch.tensor([[1.0] * 5 + [0.0] * 27])),
    "an unknown keyword": changed(nonsense=1),
}


@pytest.mark.parametrize("name", GOOD_CALLS)
def test_calls_that_are_taken(both, name):
    (model, _), (theirs, upstreams) = both
    given = GOOD_CALLS[name](dict(upstreams(A, text="cat", return_tensors="pt")))
    found, single = model(**given), run(theirs, given)
    for field in FIELDS:
        np.testing.assert_allclose(
            np.asarray(found[field]), np.asarray(single[field]), rtol=1e-4, atol=1e-4
        )


def test_a_tuple_an_array_and_what_is_not_kept(both):
    (model, processor), _ = both
    inputs = processor(A, text="cat", return_tensors="np")
    output = model(**inputs)
    parts = model(**inputs, return_dict=False)
    assert isinstance(parts, tuple)
    assert len(parts) == len(FIELDS)
    np.testing.assert_array_equal(np.asarray(parts[0]), np.asarray(output.pred_masks))
    with pytest.raises(NotImplementedError, match="are not kept here"):
        model(**inputs, output_attentions=True)


def test_another_side_by_the_settings(tmp_path):
    """Settings with another side of images, as the page of the model shows it."""
    folder = concept_folders.save(
        tmp_path / "sam3", concept_folders.make(), concept_folders.processor()
    )
    settings = ours.AutoConfig.from_pretrained(folder)
    settings.image_size = 70
    model = ours.Sam3Model.from_pretrained(folder, config=settings)
    processor = ours.Sam3Processor.from_pretrained(folder, size={"height": 70, "width": 70})

    import transformers

    small = transformers.AutoConfig.from_pretrained(folder)
    small.image_size = 70
    theirs = transformers.Sam3Model.from_pretrained(folder, config=small)
    inputs = processor(A, text="cat", return_tensors="pt")
    assert tuple(inputs.pixel_values.shape) == (1, 3, 70, 70)
    found, single = model(**inputs), run(theirs.eval(), inputs)
    truth = run(theirs, inputs, wide=True)
    for field in FIELDS:
        close(*(arrays(each, (field,))[field] for each in (found, single, truth)), field)


def test_copies_of_models_and_processors(both):
    (model, processor), _ = both
    inputs = processor(A, text="cat", return_tensors="pt")
    expected = np.asarray(model(**inputs).pred_masks)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(np.asarray(again(**inputs).pred_masks), expected)
    for other in (copy.deepcopy(processor), pickle.loads(pickle.dumps(processor))):
        assert (other(A, text="cat", return_tensors="pt").input_ids == inputs.input_ids).all()


def test_a_processor_writes_what_it_reads(both, tmp_path):
    (_, processor), (_, upstreams) = both
    processor.save_pretrained(tmp_path)
    for kind in (ours.Sam3Processor, type(upstreams)):
        again = kind.from_pretrained(tmp_path)
        assert again(text="cat", return_tensors="pt").input_ids[0, :5].tolist() == [
            *(512, 66, 64, 339, 513)
        ]
        assert dict(again.image_processor.size) == dict(processor.image_processor.size)


@pytest.mark.parametrize("text", ["circle", "ring", "a dark cup"])
def test_instances_of_the_trained_detector(tmp_path, text):
    """The detector of sam3-nano on a photograph: the same queries, boxes and masks."""
    import sam_rlx
    import transformers
    from PIL import Image

    folder = concept_folders.save_nano(tmp_path / "nano")
    theirs = transformers.Sam3Model.from_pretrained(folder).eval()
    model = ours.Sam3Model.from_pretrained(folder)
    length = {"height": model.model.img_size, "width": model.model.img_size}
    images = ours.Sam3ImageProcessor(size=length)
    coffee = Image.open(Path(sam_rlx.__file__).parent / "assets" / "coffee.jpg")
    ids = sam_rlx.Tokenizer()(text)
    given = {
        "pixel_values": images(coffee, return_tensors="pt").pixel_values,
        "input_ids": torch.tensor(ids),
        "attention_mask": torch.tensor(ids != 0),
    }
    outputs = [model(**given), run(theirs, given)]
    scores = np.asarray(outputs[1].pred_logits.sigmoid() * outputs[1].presence_logits.sigmoid())
    ordered = np.sort(scores.ravel())
    bound = float(ordered[-6:-4].mean())
    assert np.abs(scores - bound).min() > 1e-4
    found, expected = (
        holder.post_process_instance_segmentation(
            output, threshold=bound, target_sizes=[coffee.size[::-1]]
        )[0]
        for holder, output in zip((images, transformers.Sam3ImageProcessor()), outputs, strict=True)
    )
    assert len(found["scores"]) == len(expected["scores"]) == 5
    np.testing.assert_allclose(found["scores"], expected["scores"], atol=1e-4)
    np.testing.assert_allclose(found["boxes"], expected["boxes"], atol=1e-3)
    for mine, their in zip(found["masks"].bool(), expected["masks"].bool(), strict=True):
        shared = (mine & their).sum() / (mine | their).sum().clamp(min=1)
        assert shared >= 0.999 or not their.any()


WITHOUT = """
import sys
sys.modules["torch"] = sys.modules["transformers"] = None
import numpy as np
from PIL import Image
from sam_rlx.compat.transformers import Sam3Model, Sam3Processor
from sam_rlx.compat.common.tensor import TensorArray

folder, image, out = sys.argv[1:]
model, processor = Sam3Model.from_pretrained(folder), Sam3Processor.from_pretrained(folder)
picked = {"text": "cat", "input_boxes": [[[1, 2, 30, 40]]]}
inputs = processor(images=Image.open(image), return_tensors="pt", **picked).to("cpu")
outputs = model(**inputs)
size = inputs.get("original_sizes").tolist()
found = processor.post_process_instance_segmentation(outputs, target_sizes=size, threshold=0.0)[0]
assert all(isinstance(value, TensorArray) for value in (*inputs.values(), *found.values()))
features = model.get_vision_features(inputs.pixel_values)
assert isinstance(features.fpn_hidden_states[0], TensorArray)
np.savez(out, **{**{k: np.asarray(v) for k, v in outputs.items()}, **found})
"""


def test_the_same_without_torch(both, tmp_path):
    """In a process that has neither PyTorch nor transformers, results are arrays."""
    import subprocess
    import sys

    from PIL import Image

    (model, processor), _ = both
    image, out = tmp_path / "image.png", tmp_path / "out.npz"
    Image.fromarray(A).save(image)
    folder = model.name_or_path
    subprocess.run([sys.executable, "-c", WITHOUT, folder, image, out], check=True)
    expected = model(**processor(A, text="cat", input_boxes=[[X]], return_tensors="pt"))
    with np.load(out) as found:
        for field in FIELDS:
            np.testing.assert_array_equal(found[field], np.asarray(expected[field]))
        assert found["masks"].shape == (11, 75, 100)
