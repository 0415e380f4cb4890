"""Examples from another image: beside upstream's modules called in that order, and on disk."""

from __future__ import annotations

import contextlib
import copy
import functools
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import sam_rlx
from sam_rlx import CheckpointError, InvalidArgumentError, StateError

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
parts = pytest.importorskip("support.sam3_detector", reason="needs sam3")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity

SEARCHED = "odd 303x384"
THRESHOLD = 0.02  # some of the scores of random weights are above it
# Images with boxes on them, in fractions of their sides, and labels.
SHOWN = {
    "tall 451x300": ([[0.1, 0.2, 0.45, 0.9], [0.5, 0.05, 0.98, 0.4]], [1, 0]),
    "square 512x512": ([[0.02, 0.6, 0.3, 1.0]], [1]),
}


@pytest.fixture(scope="module")
def module() -> Any:
    return concepts.image_model()


@pytest.fixture(scope="module")
def path(module: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return concepts.save(tmp_path_factory.mktemp("sam3") / "tiny.safetensors", module)


@pytest.fixture(scope="module")
def model(path: Path) -> sam_rlx.Model:
    return sam_rlx.load_model(path)


@pytest.fixture
def predictor(model: sam_rlx.Model) -> sam_rlx.ConceptPredictor:
    return sam_rlx.ConceptPredictor(model, num_threads=2, resize="integer")


def in_pixels(boxes: list[list[float]], image: np.ndarray) -> list[list[float]]:
    height, width = image.shape[:2]
    return (np.array(boxes) * [width, height, width, height]).tolist()


def encoded(
    predictor: sam_rlx.ConceptPredictor, image: np.ndarray, name: str, **options: Any
) -> sam_rlx.ConceptExamples:
    boxes, labels = SHOWN[name]
    return predictor.encode_examples(image, in_pixels(boxes, image), labels, **options)


def same(one: sam_rlx.ConceptPrediction, other: sam_rlx.ConceptPrediction) -> None:
    assert len(one.scores) > 0
    for name in ("masks", "boxes", "scores", "labels", "low_res_masks"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


# ---------------------------------------------------------------- beside upstream


@pytest.fixture(scope="module")
def judges(module: Any, images: dict[str, np.ndarray]) -> Any:
    """Upstream's processors by the image that they have."""

    @functools.cache
    def made(name: str) -> Any:
        made = concepts.Judges(module)
        made.call("set_image", torch.from_numpy(images[name]).permute(2, 0, 1))
        return made

    return made


def shown_tokens(judges: Any, name: str, positions: bool) -> list[Any]:
    """Return what the geometry encoder of each of upstream's models makes of an image's boxes."""
    boxes, labels = SHOWN[name]
    judges.begin()
    for box, label in zip(in_pixels(boxes, np.empty((*judges.hw, 3))), labels, strict=True):
        judges.call("add_geometric_prompt", concepts.center_size(box, judges.hw), bool(label))

    def encode(network: Any, processor: Any, state: dict[str, Any]) -> Any:
        with parts.box_positions(network.geometry_encoder, positions), torch.inference_mode():
            return network._encode_prompt(
                state["backbone_out"],
                processor.find_stage,
                state["geometric_prompt"],
                encode_text=False,
            )[0]

    return judges.each(encode)


def ground(judges: Any, text: str, tokens: list[list[Any]], box: list[float] | None) -> Any:
    """Run upstream's processors on a text, with tokens of other images for each of the models.

    Without an own box the tokens stand where those of the image's geometry do; beside one, in
    the position that upstream has behind the geometry.
    """
    judges.begin()
    given = iter(tokens)

    def find(network: Any, processor: Any, state: dict[str, Any]) -> None:
        encode, examples = network._encode_prompt, torch.cat(next(given))
        mask = torch.zeros((1, len(examples)), dtype=torch.bool)

        def with_examples(backbone_out: Any, find_input: Any, prompt: Any) -> Any:
            if box is not None:
                return encode(backbone_out, find_input, prompt, examples, mask)
            found, found_mask, out = encode(backbone_out, find_input, prompt, examples, mask)
            own = len(found) - len(examples) - 1
            keep = [i for i in range(len(found)) if i != own]
            return found[keep], found_mask[:, keep], out

        patched.enter_context(mock.patch.object(network, "_encode_prompt", with_examples))
        processor.set_text_prompt(text, state)
        if box is not None:
            processor.add_geometric_prompt(concepts.center_size(box, judges.hw), True, state)

    with contextlib.ExitStack() as patched:
        judges.each(find)
        return judges.filtered()  # with another threshold upstream runs it again


CASES = {
    "one image": (["square 512x512"], "visual", True, None),
    "a text, two images": ([*SHOWN], "a cat", True, None),
    "without positions": ([*SHOWN], "a cat", False, None),
    "beside an own box": (["tall 451x300"], "person", True, [0.3, 0.2, 0.7, 0.8]),
}


@pytest.mark.parametrize("case", CASES)
def test_another_image(
    judges: Any,
    predictor: sam_rlx.ConceptPredictor,
    images: dict[str, np.ndarray],
    case: str,
) -> None:
    names, text, positions, fractions = CASES[case]
    image = images[SEARCHED]
    box = None if fractions is None else in_pixels([fractions], image)[0]
    tokens = [shown_tokens(judges(name), name, positions) for name in names]
    by_model = [list(each) for each in zip(*tokens, strict=True)]
    expected, threshold = ground(judges(SEARCHED), text, by_model, box)
    examples = [encoded(predictor, images[name], name, positions=positions) for name in names]
    found = predictor.predict(
        image,
        text=None if text == "visual" else text,
        boxes=None if box is None else [box],
        examples=examples,
        threshold=threshold,
    )
    concepts.check(expected, found.masks, found.boxes, found.scores)
    assert found.texts == (text,)


def test_cases_differ(predictor: sam_rlx.ConceptPredictor, images: dict[str, np.ndarray]) -> None:
    """What is compared above depends on each part of the prompt."""
    predictor.set_image(images[SEARCHED])
    calls: list[dict[str, Any]] = [{"text": "a cat"}]
    for positions in (True, False):
        every = [encoded(predictor, images[name], name, positions=positions) for name in SHOWN]
        calls += [{"text": "a cat", "examples": every}, {"text": "a cat", "examples": every[:1]}]
    calls.append({"examples": every})
    scores = [predictor.predict(threshold=0.0, **call).scores for call in calls]
    for i, one in enumerate(scores):
        for other in scores[:i]:
            assert np.abs(one - other).max() > 1e-3


# ---------------------------------------------------------------- the same image


@pytest.mark.parametrize("text", [None, "a cat", ["a cat", "dog"]])
def test_the_same_image(
    predictor: sam_rlx.ConceptPredictor, images: dict[str, np.ndarray], text: Any
) -> None:
    """Examples of the image itself are its boxes, bit for bit."""
    image, (boxes, labels) = images[SEARCHED], SHOWN["tall 451x300"]
    boxes = in_pixels(boxes, image)
    options = {"text": text, "threshold": THRESHOLD}
    by_box = predictor.predict(image, boxes=boxes, box_labels=labels, **options)
    examples = predictor.encode_examples(None, boxes, labels)
    same(by_box, predictor.predict(examples=examples, **options))
    other = predictor.encode_examples(image, boxes, labels)
    assert other.tokens.tobytes() == examples.tokens.tobytes()


def test_threads(model: sam_rlx.Model, images: dict[str, np.ndarray]) -> None:
    tokens = [
        encoded(sam_rlx.ConceptPredictor(model, threads), images[SEARCHED], "tall 451x300").tokens
        for threads in (1, 3)
    ]
    assert tokens[0].tobytes() == tokens[1].tobytes()


def test_the_current_image_stays(
    predictor: sam_rlx.ConceptPredictor, images: dict[str, np.ndarray]
) -> None:
    names = list(SHOWN)
    predictor.set_images([images[SEARCHED], images[names[0]]])
    before = predictor.predict(text="a cat", threshold=THRESHOLD)
    current = predictor._core.concept_image
    encoded(predictor, images[names[1]], names[1])
    assert predictor._core.concept_image is current
    same(before, predictor.predict(text="a cat", threshold=THRESHOLD))
    predictor.select(1)
    assert predictor.orig_hw == images[names[0]].shape[:2]


def test_texts_and_tiles(
    predictor: sam_rlx.ConceptPredictor, images: dict[str, np.ndarray]
) -> None:
    """Each text has the examples; an image in one tile gives what it gives whole."""
    image, name = images[SEARCHED], "square 512x512"
    examples = encoded(predictor, images[name], name)
    both = predictor.predict(image, text=["a cat", "dog"], examples=examples, threshold=THRESHOLD)
    for label, text in enumerate(both.texts):
        alone = predictor.predict(text=text, examples=examples, threshold=THRESHOLD)
        rows = both.labels == label
        assert both.low_res_masks[rows].tobytes() == alone.low_res_masks.tobytes()
    tiles = predictor.predict(image, examples=examples, threshold=THRESHOLD, tile=512)
    whole = predictor.predict(image, examples=examples, threshold=THRESHOLD)
    assert 0 < len(tiles.scores) <= len(whole.scores)
    assert set(tiles.scores.tolist()) <= set(whole.scores.tolist())


# ---------------------------------------------------------------- the object


def test_what_examples_hold(
    predictor: sam_rlx.ConceptPredictor, images: dict[str, np.ndarray]
) -> None:
    examples = encoded(predictor, images[SEARCHED], "tall 451x300")
    width = predictor.model.config["detector"]["d_model"]
    assert (examples.tokens.dtype, examples.tokens.shape) == (np.float32, (3, width))
    assert not examples.tokens.flags.writeable
    assert repr(examples) == "<ConceptExamples 2 boxes>"


def test_on_disk(
    predictor: sam_rlx.ConceptPredictor, images: dict[str, np.ndarray], tmp_path: Path
) -> None:
    examples = [encoded(predictor, images[name], name) for name in SHOWN]
    expected = predictor.predict(images[SEARCHED], examples=examples, threshold=THRESHOLD)
    paths = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for each, file in zip(examples, paths, strict=True):
        each.save(file)
    loaded = [predictor.load_examples(file) for file in paths]
    for before, after in zip(examples, loaded, strict=True):
        assert before.tokens.tobytes() == after.tokens.tobytes()
    same(expected, predictor.predict(examples=loaded, threshold=THRESHOLD))
    same(expected, predictor.predict(examples=[examples[0], str(paths[1])], threshold=THRESHOLD))
    copies = pickle.loads(pickle.dumps(examples)), copy.deepcopy(examples)
    for each in copies:
        same(expected, predictor.predict(examples=each, threshold=THRESHOLD))


@pytest.fixture(scope="module")
def saved(
    model: sam_rlx.Model, images: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    file: Path = tmp_path_factory.mktemp("examples") / "x.safetensors"
    predictor = sam_rlx.ConceptPredictor(model)
    predictor.encode_examples(images[SEARCHED], [[20, 30, 120, 90]]).save(file)
    return file


def test_another_model(
    saved: Path, model: sam_rlx.Model, images: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """Tokens mean something to the weights alone that made them."""
    weights = concepts.save(tmp_path / "other.safetensors", concepts.image_model(seed=1))
    other = sam_rlx.ConceptPredictor(sam_rlx.load_model(weights))
    with pytest.raises(CheckpointError, match="expected a file made with the weights of other"):
        other.load_examples(saved)
    examples = sam_rlx.ConceptPredictor(model).load_examples(saved)
    with pytest.raises(InvalidArgumentError, match="expected examples made with the weights of"):
        other.predict(images[SEARCHED], examples=[examples])
    assert other.orig_hw is None


def test_damaged_files(saved: Path, predictor: sam_rlx.ConceptPredictor, tmp_path: Path) -> None:
    contents, file = saved.read_bytes(), tmp_path / "x.safetensors"
    for length in (0, 7, 100, len(contents) // 2, len(contents) - 1):
        file.write_bytes(contents[:length])
        with pytest.raises(CheckpointError):
            predictor.load_examples(file)
    file.write_bytes(contents[:-4] + np.float32(np.nan).tobytes())
    with pytest.raises(CheckpointError, match="damaged"):
        predictor.load_examples(file)
    examples = predictor.load_examples(saved)
    replace(examples, tokens=np.full_like(examples.tokens, np.nan)).save(file)
    with pytest.raises(CheckpointError, match="finite"):
        predictor.load_examples(file)
    with pytest.raises(FileNotFoundError):
        predictor.load_examples(tmp_path / "none.safetensors")
    predictor.set_image(np.zeros((20, 30, 3), np.uint8))
    predictor.save_embedding(file)
    with pytest.raises(CheckpointError, match=r"expected format 'sam_rlx.concept_examples.1'"):
        predictor.load_examples(file)
    with pytest.raises(CheckpointError, match=r"found 'sam_rlx.concept_examples.1'"):
        predictor.load_embedding(saved)


# ---------------------------------------------------------------- refusals


def test_refused(
    saved: Path, predictor: sam_rlx.ConceptPredictor, images: dict[str, np.ndarray]
) -> None:
    image = images[SEARCHED]
    with pytest.raises(StateError, match="encode_examples: expected an image"):
        predictor.encode_examples(None, [[1, 2, 30, 40]])
    for boxes, message in (
        (None, "boxes: expected an array"),
        (np.zeros((0, 4)), "N > 0"),
        ([[5, 5, 5, 9]], "x0 < x1"),
        ([[400, 1, 420, 9]], "an image of 384 x 303"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            predictor.encode_examples(image, boxes)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="box_labels"):
        predictor.encode_examples(image, [[1, 2, 30, 40]], [2])
    with pytest.raises(InvalidArgumentError, match="positions"):
        predictor.encode_examples(image, [[1, 2, 30, 40]], positions="no")  # type: ignore[arg-type]
    assert predictor.orig_hw is None
    for examples, message in (
        ([], "examples: expected"),
        (3, "examples: expected"),
        ([np.zeros((2, 64), np.float32)], r"examples\[0\]: expected"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            predictor.predict(image, examples=examples)
    with pytest.raises(StateError, match="predict: expected an image"):
        predictor.predict(examples=predictor.load_examples(saved))
    assert predictor.orig_hw is None
