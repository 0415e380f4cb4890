"""What holds for a concept predictor beside parity: independence, memory, refusals."""

from __future__ import annotations

import threading
import warnings
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from sam_rlx import (
    CheckpointError,
    InvalidArgumentError,
    StateError,
    TruncationWarning,
    UnsupportedError,
)
from support import saved_files

pytest.importorskip("support.upstream", reason="needs the reference packages")
concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
pytestmark = pytest.mark.parity

BOX = [20.0, 30.0, 200.0, 190.5]
LOW = 0.3  # a threshold that keeps some of each text


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return concepts.save(
        tmp_path_factory.mktemp("sam3") / "tiny.safetensors", concepts.image_model()
    )


@pytest.fixture(scope="module")
def model(path: Path) -> sam_rlx.Model:
    return sam_rlx.load_model(path)


@pytest.fixture(scope="module")
def image(images: dict[str, np.ndarray]) -> np.ndarray:
    return images["odd 303x384"]


@pytest.fixture
def predictor(model: sam_rlx.Model, image: np.ndarray) -> sam_rlx.ConceptPredictor:
    predictor = sam_rlx.ConceptPredictor(model, num_threads=2)
    predictor.set_image(image)
    return predictor


def same(a: sam_rlx.ConceptPrediction, b: sam_rlx.ConceptPrediction) -> None:
    for field in fields(a):
        one, other = getattr(a, field.name), getattr(b, field.name)
        if isinstance(one, np.ndarray):
            assert one.shape == other.shape, field.name
            assert one.tobytes() == other.tobytes(), field.name


def part(found: sam_rlx.ConceptPrediction, label: int) -> sam_rlx.ConceptPrediction:
    """Return the instances of one text, as a call with this text alone gives them."""
    rows = found.labels == label
    return sam_rlx.ConceptPrediction(
        masks=found.masks[rows],
        boxes=found.boxes[rows],
        scores=found.scores[rows],
        labels=np.zeros(rows.sum(), np.int64),
        texts=(found.texts[label],),
        low_res_masks=found.low_res_masks[rows],
    )


def test_types_and_shapes(predictor: sam_rlx.ConceptPredictor) -> None:
    found = predictor.predict(text=["a cat", "cat 1"], threshold=LOW)
    count, side = len(found.scores), predictor.model.mask_side
    assert count > 4
    assert (found.masks.dtype, found.masks.shape) == (np.bool_, (count, 303, 384))
    assert (found.boxes.dtype, found.boxes.shape) == (np.float32, (count, 4))
    assert (found.scores.dtype, found.scores.shape) == (np.float32, (count,))
    assert (found.labels.dtype, found.labels.shape) == (np.int64, (count,))
    assert found.low_res_masks.shape == (count, side, side)
    assert set(found.labels.tolist()) == {0, 1}
    assert found.names == tuple(("a cat", "cat 1")[label] for label in found.labels)
    assert (found.scores > LOW).all()
    logits = predictor.predict(text=["a cat", "cat 1"], threshold=LOW, return_logits=True)
    assert logits.masks.dtype == np.float32
    np.testing.assert_array_equal(logits.masks > 0, found.masks)


def test_nothing_found(predictor: sam_rlx.ConceptPredictor) -> None:
    found = predictor.predict(text=["a cat", "cat 1"], threshold=1.0)
    side = predictor.model.mask_side
    assert found.masks.shape == (0, 303, 384)
    assert found.boxes.shape == (0, 4)
    assert found.low_res_masks.shape == (0, side, side)
    assert found.names == ()


def test_scores_without_presence(predictor: sam_rlx.ConceptPredictor) -> None:
    prompts = {"text": "a cat", "threshold": 0.0, "raw": True}
    found = predictor.predict(**prompts, presence=False)
    raw = found.raw[0]
    probabilities = 1 / (1 + np.exp(-raw.pred_logits.astype(np.float64)))
    np.testing.assert_allclose(found.scores, probabilities.ravel(), rtol=0, atol=1e-6)
    whole = predictor.predict(**prompts)
    presence = 1 / (1 + np.exp(-np.float64(raw.presence_logit_dec)))
    np.testing.assert_allclose(whole.scores, found.scores * presence, rtol=0, atol=1e-6)
    threshold = float(np.median(found.scores))
    kept = predictor.predict(text="a cat", threshold=threshold, presence=False)
    np.testing.assert_array_equal(kept.scores, found.scores[found.scores > threshold])


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_no_bit(
    model: sam_rlx.Model, predictor: sam_rlx.ConceptPredictor, image: np.ndarray, threads: int
) -> None:
    prompts = {"text": ["a cat", "cat 1"], "boxes": BOX, "threshold": LOW}
    other = sam_rlx.ConceptPredictor(model, threads)
    same(other.predict(image, **prompts), predictor.predict(**prompts))


def test_texts_do_not_meet(predictor: sam_rlx.ConceptPredictor, model: sam_rlx.Model) -> None:
    """One call with many texts is the loop over them, on a fresh predictor too."""
    texts = [f"{word} {i}" for i in range(12) for word in ("cat", "a small dog", "x")]
    prompts = {"boxes": [BOX], "box_labels": [0], "threshold": LOW}
    found = predictor.predict(text=[*texts, texts[3]], **prompts)
    assert len(found.scores) > len(texts)
    fresh = sam_rlx.ConceptPredictor(model, 1)
    fresh._core.set_concept_image(predictor._core.concept_image)
    for label in (0, 3, 31, 32, 35, 36):
        same(part(found, label), fresh.predict(text=found.texts[label], **prompts))


def test_image_here_or_before(
    predictor: sam_rlx.ConceptPredictor, images: dict[str, np.ndarray]
) -> None:
    prompts = {"text": "cat 1", "threshold": LOW}
    first = predictor.predict(**prompts)
    tall = predictor.predict(images["tall 451x300"], **prompts)
    assert predictor.orig_hw == (451, 300)
    same(predictor.predict(**prompts), tall)
    same(predictor.predict(images["odd 303x384"], **prompts), first)


def test_images(predictor: sam_rlx.ConceptPredictor, images: dict[str, np.ndarray]) -> None:
    names = ["tall 451x300", "odd 303x384", "tiny 7x5"]
    single = [predictor.predict(images[name], text="cat 1", threshold=LOW) for name in names]
    predictor.set_images([images[name] for name in names])
    assert predictor.num_images == 3
    assert predictor.orig_hw == (451, 300)
    for index in (2, 0, 1):
        predictor.select(index)
        same(predictor.predict(text="cat 1", threshold=LOW), single[index])
    with pytest.raises(InvalidArgumentError, match="expected 0 to 2, found 3"):
        predictor.select(3)
    predictor.reset_image()
    assert predictor.orig_hw is None
    with pytest.raises(StateError, match="expected an image"):
        predictor.predict(text="cat 1")
    with pytest.raises(StateError, match="expected images from set_images"):
        predictor.select(0)


def test_an_embedding_moves_between_predictors_and_files(
    predictor: sam_rlx.ConceptPredictor, model: sam_rlx.Model, tmp_path: Path
) -> None:
    prompts = {"text": ["a cat", "cat 1"], "boxes": [BOX], "threshold": LOW, "raw": True}
    expected = predictor.predict(**prompts)
    embeddings = predictor.image_embeddings
    other = sam_rlx.ConceptPredictor(model, 1)
    other.set_image_embedding(embeddings, (303, 384))
    same(other.predict(**prompts), expected)
    for part_of_it in embeddings:  # copies: both predictors keep their own
        part_of_it[...] = 0
    same(predictor.predict(**prompts), expected)
    same(other.predict(**prompts), expected)
    predictor.save_embedding(tmp_path / "street.safetensors")
    loaded = sam_rlx.ConceptPredictor(model, 2)
    loaded.load_embedding(tmp_path / "street.safetensors")
    assert loaded.orig_hw == (303, 384)
    same(loaded.predict(**prompts), expected)


def test_an_embedding_of_another_kind_is_refused(
    predictor: sam_rlx.ConceptPredictor, image: np.ndarray, tmp_path: Path
) -> None:
    clicks = sam_rlx.ImagePredictor(sam_rlx.load_model("sam3-nano"), num_threads=2)
    clicks.set_image(image)
    found, other = tmp_path / "concept.safetensors", tmp_path / "clicks.safetensors"
    predictor.save_embedding(found)
    clicks.save_embedding(other)
    before = predictor._core.concept_image
    with pytest.raises(CheckpointError, match=r"expected format 'sam_rlx.concept_embedding.1'"):
        predictor.load_embedding(other)
    with pytest.raises(CheckpointError, match=r"expected format 'sam_rlx.image_embedding.1'"):
        clicks.load_embedding(found)
    nano = sam_rlx.ConceptPredictor(sam_rlx.load_model("sam3-nano"))
    with pytest.raises(CheckpointError, match=r"concept.safetensors: expected (variant|img_size)"):
        nano.load_embedding(found)
    parts = saved_files.read(found)
    del parts["fusion_encoder"]
    saved_files.write(found, parts)
    with pytest.raises(CheckpointError, match="expected 5 arrays, found 4"):
        predictor.load_embedding(found)
    other.write_bytes(found.read_bytes()[:3000])
    with pytest.raises(CheckpointError, match=r"clicks.safetensors: "):
        predictor.load_embedding(other)
    assert predictor._core.concept_image is before
    empty = sam_rlx.ConceptPredictor(predictor.model)
    with pytest.raises(StateError, match="expected an image from set_image"):
        empty.save_embedding(tmp_path / "x.safetensors")
    assert not (tmp_path / "x.safetensors").exists()


@pytest.mark.parametrize("index", range(5))
def test_an_embedding_that_is_none(predictor: sam_rlx.ConceptPredictor, index: int) -> None:
    embeddings = list(predictor.image_embeddings)
    embeddings[index] = embeddings[index][..., :-1]
    with pytest.raises(InvalidArgumentError, match="image_embedding: expected shape"):
        predictor.set_image_embedding(embeddings, (303, 384))
    embeddings = list(predictor.image_embeddings)
    embeddings[index][0] = np.nan
    with pytest.raises(InvalidArgumentError, match="expected finite values"):
        predictor.set_image_embedding(embeddings, (303, 384))
    with pytest.raises(InvalidArgumentError, match=r"orig_hw\[0\]"):
        predictor.set_image_embedding(predictor.image_embeddings, (0, 384))


def test_ids_in_place_of_words(predictor: sam_rlx.ConceptPredictor) -> None:
    ids = sam_rlx.Tokenizer()(["a cat", "cat 1"])
    words = predictor.predict(text=["a cat", "cat 1"], threshold=LOW)
    found = predictor.predict(text=ids, threshold=LOW)
    same(found, words)
    assert found.texts == tuple(tuple(row) for row in ids.tolist())
    alone = predictor.predict(text=[49406, 320, 2368, 49407], threshold=LOW)
    same(alone, part(words, 0))


def test_points_and_boxes_alone_are_the_word_visual(predictor: sam_rlx.ConceptPredictor) -> None:
    for prompts in ({"boxes": BOX}, {"point_coords": [30, 40], "point_labels": 0}):
        found = predictor.predict(**prompts, threshold=LOW)
        same(found, predictor.predict(text="visual", **prompts, threshold=LOW))
        assert found.texts == ("visual",)


def test_labels_are_positive_by_default(predictor: sam_rlx.ConceptPredictor) -> None:
    default = predictor.predict(text="cat 1", boxes=[BOX], point_coords=[[3, 4]], threshold=LOW)
    marks = {"box_labels": [True], "point_labels": np.array([1])}
    prompts = {"text": "cat 1", "boxes": [BOX], "point_coords": [[3, 4]], "threshold": LOW}
    same(default, predictor.predict(**prompts, **marks))
    negative = predictor.predict(**prompts, box_labels=[0])
    assert not np.array_equal(negative.scores, default.scores)


def test_progress(predictor: sam_rlx.ConceptPredictor) -> None:
    seen = []
    predictor.predict(text=["a", "b", "c"], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_long_texts_are_cut(predictor: sam_rlx.ConceptPredictor) -> None:
    with pytest.warns(TruncationWarning, match="expected at most 32 tokens"):
        long = predictor.predict(text="word " * 40, threshold=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(long, predictor.predict(text="word " * 30, threshold=0.0))


# ---------------------------------------------------------------- refusals


REFUSED = {
    "no prompt": ({}, "expected text, boxes or point_coords"),
    "no text": ({"text": []}, "text: expected"),
    "no word": ({"text": ["cat", 3]}, r"text\[1\]: expected a text"),
    "a number": ({"text": 1.5}, "text: expected"),
    "ids of float": ({"text": [[1.0, 2.0]]}, "text: expected"),
    "an id that there is not": ({"text": [49406, 49408, 49407]}, "found 49408"),
    "a negative id": ({"text": [49406, -1, 49407]}, "found -1"),
    "padding alone": ({"text": [0, 0]}, "an id other than 0"),
    "too many ids": ({"text": [49406] * 33}, "1 <= L <= 32"),
    "a box of three": ({"boxes": [[1, 2, 3]]}, r"boxes: expected shape \(N, 4\)"),
    "no box": ({"boxes": np.zeros((0, 4))}, r"N > 0, found \(0, 4\)"),
    "an empty box": ({"boxes": [[5, 5, 5, 9]]}, "x0 < x1"),
    "exchanged corners": ({"boxes": [[9, 9, 5, 5]]}, "x0 < x1"),
    "a box outside": ({"boxes": [[385, 1, 399, 9]]}, "an image of 384 x 303"),
    "a point outside": ({"point_coords": [[-1, 1]]}, "point_coords: expected pixels"),
    "nan": ({"boxes": [[1, 1, np.nan, 9]]}, "boxes: expected finite"),
    "words as a box": ({"boxes": "left"}, "boxes: expected numbers"),
    "labels alone": ({"text": "a", "box_labels": [1]}, "boxes: expected an array beside"),
    "another label": ({"boxes": [BOX], "box_labels": [2]}, "box_labels: expected 1"),
    "two labels": ({"boxes": [BOX], "box_labels": [1, 0]}, "expected 1 labels"),
    "a high threshold": ({"text": "a", "threshold": 1.5}, "threshold: expected"),
    "no threshold": ({"text": "a", "threshold": np.nan}, "threshold: expected"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("with_image", [False, True])
def test_refused(
    predictor: sam_rlx.ConceptPredictor, image: np.ndarray, case: str, with_image: bool
) -> None:
    prompts, message = REFUSED[case]
    before = predictor._core.concept_image
    with pytest.raises(InvalidArgumentError, match=message):
        predictor.predict(image if with_image else None, **prompts)
    assert predictor._core.concept_image is before


def test_another_family(tiny_checkpoint: Path) -> None:
    with pytest.raises(UnsupportedError, match="expected a model of SAM 3, found sam"):
        sam_rlx.ConceptPredictor(sam_rlx.load_model(tiny_checkpoint))
    with pytest.raises(InvalidArgumentError, match=r"expected sam_rlx\.Model"):
        sam_rlx.ConceptPredictor("sam3.pt")  # type: ignore[arg-type]


def test_constructor(model: sam_rlx.Model) -> None:
    with pytest.raises(InvalidArgumentError, match="num_threads"):
        sam_rlx.ConceptPredictor(model, 0)
    with pytest.raises(InvalidArgumentError, match=r'resize: expected "float" or "integer"'):
        sam_rlx.ConceptPredictor(model, resize="pil")  # type: ignore[arg-type]


class Stop(Exception):
    """Raised from within a call."""


def test_a_stopped_call_leaves_the_image(
    predictor: sam_rlx.ConceptPredictor, images: dict[str, np.ndarray]
) -> None:
    prompts = {"text": ["a cat", "cat 1"], "threshold": LOW}
    before = predictor.predict(**prompts)

    def stop(done: int, total: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        predictor.predict(images["tall 451x300"], progress=stop, **prompts)
    assert predictor.orig_hw == (303, 384)
    same(predictor.predict(**prompts), before)


def test_one_call_at_a_time(predictor: sam_rlx.ConceptPredictor) -> None:
    refused = []

    def second(done: int, total: int) -> None:
        def call() -> None:
            with pytest.raises(StateError, match="in use"):
                predictor.predict(text="cat 1")
            refused.append(done)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    predictor.predict(text="a cat", progress=second)
    assert refused == [1]


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_third_call_allocates_its_results_alone(
    testing, path: Path, image: np.ndarray, threads: int
) -> None:
    ids = sam_rlx.Tokenizer()(["a cat", "cat 1", "nothing of this"])
    counts = testing.concept_allocations(str(path), image, ids, LOW, threads, 4)
    # The first call grows the scratch memory, the second may take it as one block.
    for taken, results in counts[2:]:
        assert taken == results
        assert results > 0


def test_texts_that_were_used_last_are_known(predictor: sam_rlx.ConceptPredictor) -> None:
    """More texts than are kept: the first one is computed anew, with the same result."""
    first = predictor.predict(text="a cat", threshold=LOW)
    ids = np.full((4200, 4), 49407)
    ids[:, 0], ids[:, 1], ids[:, 2] = 49406, np.arange(4200) + 300, 320
    for begin in range(0, len(ids), 600):
        predictor._core.encode_text(ids[begin : begin + 600])
    same(predictor.predict(text="a cat", threshold=LOW), first)
