"""Everything that a text names on an image, with SAM 3."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx import _core
from sam_rlx._internal import options as _options
from sam_rlx._internal.arrays.checks import as_flag, as_items, as_texts, holds_texts
from sam_rlx._internal.arrays.foreign import as_array
from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx._internal.arrays.masks import as_region_area, clean_
from sam_rlx._internal.arrays.prompts import as_marks, clipped
from sam_rlx._internal.files import embeddings as _embedding_file
from sam_rlx._internal.files import saved_tensors as _saved_tensors
from sam_rlx._internal.formats.instances import Instance
from sam_rlx._internal.image_embeddings import Encoded, ImageEmbeddings, encoded_image
from sam_rlx._internal.media.windows import WindowReader, as_windows
from sam_rlx._internal.printable import shown
from sam_rlx._internal.progress import Progress, reporter
from sam_rlx._internal.public import public_names
from sam_rlx._internal.results import ResultForms, counts_of
from sam_rlx._internal.synonyms import also
from sam_rlx._internal.text_prompts import VISUAL
from sam_rlx._internal.tiling import Report, TileMasks, Tiling, as_tiling, of_tile
from sam_rlx.errors import CheckpointError, InvalidArgumentError, StateError
from sam_rlx.image import RunLengthMasks
from sam_rlx.model import Model, as_model
from sam_rlx.tokenizer import Tokenizer

# A text, or its ids.
Text: TypeAlias = str | tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RawDetections:
    """What the network gives for one text, for all of its Q queries, under upstream's names.

    Attributes
    ----------
    pred_logits : ndarray (Q,), float32
        Of the query being an instance, if there is any.
    pred_boxes : ndarray (Q, 4), float32
        (cx, cy, w, h) as fractions of the image's sides; not clipped.
    presence_logit_dec : float
        Logit of there being any instance. A score is
        ``sigmoid(pred_logits) * sigmoid(presence_logit_dec)``.
    pred_masks : ndarray (Q, S, S), float32
        Logits; S = `Model.mask_side`.
    semantic_seg : ndarray (S, S), float32
        Logits of a pixel being what the text names, instances aside.
    """

    pred_logits: NDArray[np.float32]
    pred_boxes: NDArray[np.float32]
    presence_logit_dec: float
    pred_masks: NDArray[np.float32]
    semantic_seg: NDArray[np.float32]

    def __repr__(self) -> str:
        queries, height, width = self.pred_masks.shape
        return (
            f"<RawDetections {queries} queries, masks of {height} x {width}, "
            f"presence {self.presence_logit_dec:.2f}>"
        )


@dataclass(frozen=True, eq=False)
class ConceptExamples:
    """What boxes on an image show, for `ConceptPredictor.predict` on other images.

    `ConceptPredictor.encode_examples` makes them, `save` and `ConceptPredictor.load_examples` keep
    them in a file. They hold no pixels, and mean something to the weights alone that made them.

    Attributes
    ----------
    tokens : ndarray (B + 1, C), float32
        What the network's geometry encoder makes of B boxes, one token each, and its class token.
    identity : mapping
        What identifies the model that made them, as in files of embeddings.
    """

    tokens: NDArray[np.float32]
    identity: Mapping[str, str]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the examples as safetensors, for `ConceptPredictor.load_examples`.

        Parameters
        ----------
        path : str or path
            Ends in ``.safetensors``, or in nothing that says another kind of file. No suffix is
            added. The file appears complete or not at all.

        Raises
        ------
        InvalidArgumentError
            The suffix is one of another kind, or there is a file of another kind that this library
            has not written, or weights.
        """
        _embedding_file.save_examples(path, self.tokens, self.identity)

    def __repr__(self) -> str:
        return f"<ConceptExamples {len(self.tokens) - 1} boxes>"


# What `predict` takes as one image's examples.
Examples: TypeAlias = ConceptExamples | str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class ConceptPrediction(ResultForms):
    """N instances: those of the first text, then those of the second, and so on.

    Within a text they are in the order of the network's queries, as upstream: not by score.

    Attributes
    ----------
    masks : ndarray (N, H, W), or RunLengthMasks
        bool at the size of the image; float32 logits with `return_logits`. With `tile` they are
        `sam_rlx.image.RunLengthMasks`, which are decoded one at a time.
    boxes : ndarray (N, 4), float32
        (x0, y0, x1, y1) in pixels, by the network; not clipped to the image, as upstream.
    scores : ndarray (N,), float32
        0 to 1, above the threshold.
    labels : ndarray (N,), int64
        Index of the instance's text in `texts`.
    texts : tuple
        The texts of the call as they were given: str, or tuples of ids. ``"visual"`` where
        there was none.
    low_res_masks : ndarray (N, S, S), float32
        Logits at the network's resolution, S = `Model.mask_side`; (0, S, S) with `tile`.
    raw : tuple of RawDetections, or None
        All that the network gave, one a text, if `raw` was asked for.
    """

    masks: NDArray[Any] | RunLengthMasks
    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    labels: NDArray[np.int64]
    texts: tuple[Text, ...]
    low_res_masks: NDArray[np.float32]
    raw: tuple[RawDetections, ...] | None = None

    @property
    def names(self) -> tuple[Text, ...]:
        """The text of each instance."""
        return tuple(self.texts[label] for label in self.labels)

    def _instances(self) -> list[Instance]:
        found = zip(counts_of(self.masks), self.names, self.scores.tolist(), strict=True)
        return [Instance(counts, self._hw(), str(name), score) for counts, name, score in found]

    def _hw(self) -> tuple[int, int]:
        return self.masks.shape[1], self.masks.shape[2]

    def __repr__(self) -> str:
        height, width = self.masks.shape[1:]
        counts = ", ".join(
            f"{int((self.labels == label).sum())} {shown(text)}"
            for label, text in enumerate(self.texts[:6])
        )
        more = ", ..." if len(self.texts) > 6 else ""
        return f"<ConceptPrediction {len(self.scores)} masks of {height} x {width}: {counts}{more}>"

    def _repr_png_(self) -> bytes | None:
        """Show a notebook the masks, with their texts and scores."""
        from sam_rlx._internal.drawing.previews import png

        captions = [
            f"{name} {score:.2f}" for name, score in zip(self.names, self.scores, strict=True)
        ]
        return png(self.masks, self._hw(), captions)


class ConceptPredictor(ImageEmbeddings):
    """Find all instances of what texts, example boxes and points describe, with SAM 3.

    The image is encoded once, by `set_image` or by `predict` with an image; what follows on the
    same image is cheaper by far. A text is encoded once for all images. A
    predictor serves one call at a time: a second thread gets a `StateError`. Make one predictor
    for each thread; they may share the model.

    Parameters
    ----------
    model : Model
        Of SAM 3, from `sam_rlx.load_model`.
    num_threads : int, optional
        Threads for computing, at least 1. Default: the cores this process may use. Results do not
        depend on it.
    resize : {"float", "integer"}
        How an image gets the size of the network's input: as upstream does on a GPU (default), or
        as it does on a CPU. Some pixels differ by one grey level.

    Raises
    ------
    InvalidArgumentError
        An argument has the wrong type or range.
    UnsupportedError
        The model is of another family.

    Examples
    --------
    >>> import sam_rlx
    >>> model = sam_rlx.load_model("sam3.pt")  # doctest: +SKIP
    >>> predictor = sam_rlx.ConceptPredictor(model)  # doctest: +SKIP
    >>> found = predictor.predict(image, text=["cat", "dog"])  # doctest: +SKIP
    >>> found.masks.shape, found.names  # doctest: +SKIP
    ((2, 480, 640), ('cat', 'dog'))
    """

    _EMBEDDING_FILE = _embedding_file.CONCEPT
    _CORE = _core.ConceptPredictor

    def __init__(
        self,
        model: Model,
        num_threads: int | None = None,
        *,
        resize: Literal["float", "integer"] = "float",
    ) -> None:
        self._model = as_model(model)
        super().__init__(model.core, model.source, num_threads, resize)
        self._tokenizer = Tokenizer(model.config["text"]["context_length"])

    @property
    def model(self) -> Model:
        """The model that this predictor runs."""
        return self._model

    def __reduce__(self) -> tuple[Any, ...]:
        with self._exclusive:
            current = self._core.concept_image
            images: list[Encoded | None] = []
            try:
                for image in (current, *self._encoded):
                    self._core.set_concept_image(image)
                    hw = self._core.orig_hw
                    images.append(None if hw is None else (list(self._core.image_embeddings), hw))
            finally:
                self._core.set_concept_image(current)
        return _restored, (type(self), self._model, self._arguments, images)

    def _current(self) -> _core.ConceptImage | None:
        image: _core.ConceptImage | None = self._core.concept_image
        return image

    def _restore(self, encoded: _core.ConceptImage | None) -> None:
        self._core.set_concept_image(encoded)

    @also(box="boxes")
    def encode_examples(
        self,
        image: Any,
        boxes: ArrayLike,
        box_labels: ArrayLike | None = None,
        *,
        positions: bool = True,
    ) -> ConceptExamples:
        """Encode what boxes on an image show, as examples for other images.

        Upstream's network was not trained for examples of another image. Its modules take them,
        since no token of a prompt is tied to the image that is searched; scores are lower than
        with examples of the same image. A text that fits beside them, and examples of several
        images, help.

        Parameters
        ----------
        image : ndarray or PIL image, or None
            The image with the boxes, as `set_image` takes it; None: the current one. The current
            image stays what it is.
        boxes : array (B, 4)
            (x0, y0, x1, y1) in pixels of this image, not empty. What reaches out of it is cut off.
        box_labels : array (B,), optional
            1: an example of what is meant (default for all), 0: of what is not.
        positions : bool
            False: leave out where a box is and how large, which says nothing about another image:
            its token is then made of its pixels and its label. True: all that upstream's modules
            make of a box.

        Returns
        -------
        ConceptExamples
            For `predict` with the `examples` argument, in any predictor of the same weights. With
            `positions` the result on the same image is that of its `boxes`, bit for bit.

        Raises
        ------
        StateError
            `image` is None and no image is set, or the predictor is in use by another thread.
        InvalidArgumentError
            A shape, label or value is wrong, or a box is empty or out of the image. The current
            image is as it was before.
        """
        examples = as_marks(("boxes", "box_labels"), boxes, box_labels, 4)
        if examples is None:
            raise InvalidArgumentError("boxes: expected an array (N, 4), found None")
        with_positions = as_flag("positions", positions)
        pixels = None if image is None else as_rgb(image)
        with self._exclusive:
            hw = self.orig_hw if pixels is None else pixels.shape[:2]
            if hw is None:
                raise StateError(
                    "encode_examples: expected an image, here or by set_image, found none"
                )
            examples = clipped(examples, (hw[0], hw[1]))
            before = self._current()
            try:
                if pixels is not None:
                    self._core.set_image(pixels)
                tokens = self._core.encode_examples(
                    examples.values, examples.labels, positions=with_positions
                )
            finally:
                self._restore(before)
        return self._examples(tokens)

    def load_examples(self, path: str | os.PathLike[str]) -> ConceptExamples:
        """Read a file of `ConceptExamples.save`.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        CheckpointError
            The file is damaged, of another kind, or made with other weights.
        """
        tokens = _embedding_file.load_examples(path, self._identity)
        try:
            self._core.check_examples([tokens])
        except InvalidArgumentError as error:
            raise CheckpointError(f"{path}: expected examples, found {error}") from error
        return self._examples(tokens)

    def _examples(self, tokens: NDArray[np.float32]) -> ConceptExamples:
        tokens.setflags(write=False)
        return ConceptExamples(tokens, self._identity)

    def _as_tokens(self, examples: Any) -> list[NDArray[np.float32]]:
        """Return the tokens of each image's examples; none for None."""
        if examples is None:
            return []
        alone = isinstance(examples, (ConceptExamples, str, os.PathLike))
        given = [examples] if alone else as_items("examples", examples)
        if not given:
            raise InvalidArgumentError("examples: expected those of an image or more, found none")
        return [self._tokens_of(f"examples[{i}]", each) for i, each in enumerate(given)]

    def _tokens_of(self, name: str, examples: Any) -> NDArray[np.float32]:
        if isinstance(examples, (str, os.PathLike)):
            return self.load_examples(examples).tokens
        if not isinstance(examples, ConceptExamples):
            raise InvalidArgumentError(
                f"{name}: expected ConceptExamples or the path of a file, found "
                f"{type(examples).__name__}"
            )
        differ = _saved_tensors.difference("examples", examples.identity, self._identity)
        if differ is not None:
            raise InvalidArgumentError(f"{name}: {differ}")
        self._core.check_examples([examples.tokens])
        return examples.tokens

    @also(box="boxes")
    def predict(
        self,
        image: Any = None,
        *,
        embedding: Sequence[ArrayLike] | str | os.PathLike[str] | None = None,
        orig_hw: tuple[int, int] | None = None,
        text: str | Sequence[str] | ArrayLike | None = None,
        boxes: ArrayLike | None = None,
        box_labels: ArrayLike | None = None,
        point_coords: ArrayLike | None = None,
        point_labels: ArrayLike | None = None,
        examples: Examples | Sequence[Examples] | None = None,
        threshold: float = 0.5,
        presence: bool = True,
        return_logits: bool = False,
        min_mask_region_area: int = 0,
        raw: bool = False,
        tile: int | None = None,
        overlap: int | None = None,
        progress: bool | Progress = False,
    ) -> ConceptPrediction:
        """Find all instances of what the prompts describe.

        Each text is a prompt of its own: instances are found for it as if it were the only one.
        Boxes and points are examples of what is meant, or of what is not; with texts, they
        belong to each of them, which refines a result that words alone gave.

        With `tile` the texts are looked for in each tile of `image`, and the current image stays.
        Instances of one text that the edges of tiles cut are put together by the rule of
        `MaskGenerator.generate`. Memory holds one tile, and the run lengths of all masks.

        Parameters
        ----------
        image : ndarray or PIL image, optional
            Becomes the current image, as by `set_image`. Default: the current image, so that
            several calls on one image encode it once.
        embedding : sequence of arrays, or path, optional
            Instead of `image`: what the encoder gave for it, which are the `image_embeddings` of a
            `ConceptPredictor` with the same weights, or a file of its `save_embedding`.
        orig_hw : (int, int), optional
            Height and width of the image, beside arrays; a file knows them.
        text : str, sequence of str, or array of int (L,) or (N, L), optional
            Texts, or the ids that `sam_rlx.Tokenizer` gives for them (L at most 32, zeros behind
            a text). Default: boxes and points alone, with the text "visual", as upstream.
        boxes : array (B, 4), optional
            (x0, y0, x1, y1) in pixels of the original image, not empty. What reaches out of it, as
            found boxes may, is cut off.
        box_labels : array (B,), optional
            1: an example of what is meant (default for all), 0: of what is not.
        point_coords : array (P, 2), optional
            (x, y) in pixels of the original image, within it. Upstream's network takes points,
            but its processor does not offer them.
        point_labels : array (P,), optional
            As `box_labels`.
        examples : ConceptExamples, path, or sequence of them, optional
            Examples on other images, one entry an image, of `encode_examples`, or files of
            `ConceptExamples.save`. As boxes and points they belong to each text.
        threshold : float
            0 to 1. Instances with a score above it are kept.
        presence : bool
            Scores are the product of two probabilities: that a query is an instance, and that the
            image has any. False leaves out the second, as users of EfficientSAM3's small models do.
        return_logits : bool
            True: `masks` holds float32 logits instead of bool.
        min_mask_region_area : int
            With a value > 0, holes and islands of a mask smaller than this many pixels are removed,
            as `MaskGenerator` does; `low_res_masks` stay. Not with `return_logits`.
        raw : bool
            True: also give all that the network computes, in `ConceptPrediction.raw`.
        tile, overlap : int, optional
            As for `MaskGenerator.generate`, with texts and `examples` alone: not with `embedding`,
            boxes, points, `return_logits` or `raw`.
        progress : bool or callable
            A callable gets (texts done, texts in all) after each text, with `tile` those of all
            tiles. True shows a bar on a
            terminal and in Jupyter if ``tqdm`` is installed, else nothing.

        Returns
        -------
        ConceptPrediction
            Masks, boxes, scores and labels; none may have been found.

        Raises
        ------
        StateError
            No image is set, or the predictor is in use by another thread.
        InvalidArgumentError
            No prompt is given; a shape, label or value is wrong; a box is empty or out of the
            image; an id is not in the vocabulary; examples are another model's. The current image
            is as it was before.
        CheckpointError
            The file of the embedding or of examples is damaged, or another model's.

        Warns
        -----
        TruncationWarning
            A text is too long; its end has no effect.
        """
        points = as_marks(("point_coords", "point_labels"), point_coords, point_labels, 2)
        marked = as_marks(("boxes", "box_labels"), boxes, box_labels, 4)
        tokens = self._as_tokens(examples)
        chosen = {"threshold": threshold, "presence": presence}
        options = _options.checked("concept", self._model.family, chosen)
        with_raw, logits = as_flag("raw", raw), as_flag("return_logits", return_logits)
        area = as_region_area(min_mask_region_area, logits)
        if text is None and points is None and marked is None and not tokens:
            raise InvalidArgumentError(
                "predict: expected text, boxes or point_coords, or examples, found None for all"
            )
        ids, texts = self._as_ids(VISUAL if text is None else text)
        tiling = as_tiling(tile, overlap)
        if tiling is not None:
            others = (embedding, orig_hw, points, marked, logits or None, with_raw or None)
            if image is None or any(each is not None for each in others):
                raise InvalidArgumentError(
                    "tile: expected an image and texts, without embedding, boxes, point_coords, "
                    "return_logits and raw, found others"
                )
            windows = as_windows(image)
            with self._exclusive, reporter(progress, "text", text="encoding") as report:
                find = {"examples": tokens, **options}
                return self._in_tiles(windows, tiling, (ids, texts), (find, area), report)
        pixels = None if image is None else as_rgb(image)
        given = self._given(image, embedding, orig_hw)
        bar = reporter(progress, "text", text="encoding")
        with self._exclusive, self._restoring(), bar as report:
            hw = self.orig_hw if pixels is None else pixels.shape[:2]
            hw = hw if given is None else given[1]
            if hw is None:
                raise StateError("predict: expected an image, here or by set_image, found none")
            size = (hw[0], hw[1])
            if points is not None:
                where = "point_coords"
                _core.check_points(where, points.values, points.labels, size, "an image")
            marked = None if marked is None else clipped(marked, size)
            # Ids are checked before the longest part of the work.
            self._core.encode_text(ids)
            if pixels is not None:
                self._core.set_image(pixels)
            if given is not None:
                self._core.set_image_embeddings(*given)
            found = self._core.find(
                ids,
                points=None if points is None else points.values,
                point_labels=None if points is None else points.labels,
                boxes=None if marked is None else marked.values,
                box_labels=None if marked is None else marked.labels,
                examples=tokens,
                raw=with_raw,
                progress=report,
                **options,
            )
            result = self._result(found, texts, hw, logits)
            if pixels is not None or given is not None:
                self._encoded = []
        clean_(np.asarray(result.masks), area)
        return result

    def _in_tiles(
        self,
        image: WindowReader,
        tiling: Tiling,
        prompts: tuple[NDArray[np.int64], tuple[Text, ...]],
        rules: tuple[dict[str, Any], int],
        report: Report | None,
    ) -> ConceptPrediction:
        (ids, texts), (options, area) = prompts, rules
        tiles = tiling.tiles(image.shape)
        masks = TileMasks(image.shape, tiles, self._weights.mask_side)
        boxes: list[NDArray[np.float32]] = []
        before = self._current()
        self._core.encode_text(ids)
        try:
            for index, tile in enumerate(tiles):
                self._core.set_image(image.read(*tile))
                part = of_tile(report, index, len(tiles))
                for label, found in enumerate(self._core.find(ids, progress=part, **options)):
                    boxes.extend(found.boxes + np.array([tile.x0, tile.y0] * 2, np.float32))
                    mask = np.empty((1, *tile.hw), np.bool_)
                    for low_res, score in zip(found.low_res_masks, found.scores, strict=True):
                        self._core.binarize(low_res[None], mask)
                        clean_(mask, area)
                        masks.add(index, _core.rle_encode(mask[0]), float(score), label)
        finally:
            self._restore(before)
        merged = sorted(masks.merged(), key=lambda each: masks.labels[each.members[0]])
        side = self._weights.mask_side
        return ConceptPrediction(
            masks=RunLengthMasks([each.counts for each in merged], (len(merged), *masks.hw)),
            boxes=np.array([_around(each.members, boxes) for each in merged]).reshape(-1, 4),
            scores=np.array([masks.scores[each.members[0]] for each in merged], np.float32),
            labels=np.array([masks.labels[each.members[0]] for each in merged], np.int64),
            texts=texts,
            low_res_masks=np.empty((0, side, side), np.float32),
        )

    def _given(self, image: Any, embedding: Any, orig_hw: Any) -> Encoded | None:
        if embedding is None and orig_hw is None:
            return None
        if image is not None:
            raise InvalidArgumentError("predict: expected image or embedding, found both")
        return encoded_image(self._EMBEDDING_FILE, self._identity, embedding, orig_hw)

    def _as_ids(self, text: Any) -> tuple[NDArray[np.int64], tuple[Text, ...]]:
        """Return ids (N, L), and the texts as they were given."""
        if holds_texts(text):
            texts = as_texts("text", text)
            return self._tokenizer(texts), tuple(texts)
        ids = as_array("text", text)
        is_ids = ids.dtype.kind in "iu" and ids.ndim in (1, 2) and ids.size > 0
        if not is_ids or ids.dtype.itemsize == 1:  # ids have more bits; letters have not
            raise InvalidArgumentError(
                "text: expected a str, str in a sequence, or ids (L,) or (N, L) of int, found "
                f"{type(text).__name__} of shape {np.shape(ids)} and dtype {ids.dtype}"
            )
        rows = np.ascontiguousarray(np.atleast_2d(ids), np.int64)
        return rows, tuple(tuple(row) for row in rows.tolist())

    def _result(
        self,
        found: list[_core.ConceptFindings],
        texts: tuple[Text, ...],
        hw: tuple[int, ...],
        return_logits: bool,
    ) -> ConceptPrediction:
        counts = [len(part.scores) for part in found]
        low_res = _joined(found, "low_res_masks")
        masks: NDArray[Any] = np.empty(
            (len(low_res), *hw), np.float32 if return_logits else np.bool_
        )
        if return_logits:
            self._core.upscale(low_res, masks)
        else:
            self._core.binarize(low_res, masks)
        raw = tuple(_raw(part.raw) for part in found if part.raw is not None)
        return ConceptPrediction(
            masks=masks,
            boxes=_joined(found, "boxes"),
            scores=_joined(found, "scores"),
            labels=np.repeat(np.arange(len(found)), counts),
            texts=texts,
            low_res_masks=low_res,
            raw=raw or None,
        )


def _restored(
    kind: type[ConceptPredictor],
    model: Model,
    arguments: dict[str, Any],
    images: list[Encoded | None],
) -> ConceptPredictor:
    """Return the predictor of a pickle or a copy, with its images."""
    predictor = kind(model, **arguments)
    handles: list[_core.ConceptImage | None] = []
    for image in images:
        if image is None:
            predictor._core.set_concept_image(None)
        else:
            predictor._core.set_image_embeddings(*image)
        handles.append(predictor._core.concept_image)
    current, *predictor._encoded = handles
    predictor._core.set_concept_image(current)
    return predictor


def _around(members: Sequence[int], boxes: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the smallest box around some."""
    some = np.stack([boxes[member] for member in members])
    return np.concatenate([some[:, :2].min(axis=0), some[:, 2:].max(axis=0)])


def _joined(found: list[_core.ConceptFindings], name: str) -> NDArray[Any]:
    """Move an array out of each part into one; those that are copied go at once."""
    parts: list[NDArray[Any]] = [getattr(part, name) for part in found]
    for part in found:
        setattr(part, name, None)
    if len(parts) == 1:
        return parts[0]
    counts = [len(part) for part in parts]
    joined = np.empty((sum(counts), *parts[0].shape[1:]), parts[0].dtype)
    for end in reversed(np.cumsum(counts).tolist()):
        values = parts.pop()
        joined[end - len(values) : end] = values
    return joined


def _raw(raw: _core.RawDetections) -> RawDetections:
    return RawDetections(
        pred_logits=raw.pred_logits,
        pred_boxes=raw.pred_boxes,
        presence_logit_dec=raw.presence_logit_dec,
        pred_masks=raw.pred_masks,
        semantic_seg=raw.semantic_seg[0],
    )


__dir__ = public_names(__name__)
