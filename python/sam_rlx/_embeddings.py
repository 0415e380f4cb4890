"""What a predictor has computed of its image, as arrays and as files."""

import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx import _embedding_file as embedding_file
from sam_rlx import _saved_arrays as saved_arrays
from sam_rlx._arrays import as_hw
from sam_rlx._core import Exclusive
from sam_rlx.errors import CheckpointError, InvalidArgumentError, StateError
from sam_rlx.model import Model

Encoded = tuple[list[NDArray[np.float32]], tuple[int, int]]


def as_encoded(embedding: ArrayLike | Sequence[ArrayLike], orig_hw: Any) -> Encoded:
    """Check the types and values of embeddings, and the size (H, W) of their image."""
    single = isinstance(embedding, np.ndarray) or not isinstance(embedding, Sequence)
    parts: Sequence[Any] = [embedding] if single else embedding  # type: ignore[assignment]
    arrays = [embedding_file.as_embedding(part) for part in parts]
    return arrays, as_hw("orig_hw", orig_hw)


def encoded_image(kind: embedding_file.Kind, model: Model, embedding: Any, orig_hw: Any) -> Encoded:
    """Return embeddings that are given as arrays with `orig_hw`, or as the path of a file.

    Raises
    ------
    InvalidArgumentError
        One of the two is missing, a path comes with a size, or an array is wrong.
    FileNotFoundError, CheckpointError
        Of the file.
    """
    if isinstance(embedding, (str, os.PathLike)):
        if orig_hw is not None:
            raise InvalidArgumentError(f"orig_hw: expected none beside a file, found {orig_hw!r}")
        return embedding_file.load(embedding, kind, saved_arrays.identity(model))
    if embedding is None or orig_hw is None:
        absent, present = ("embedding", "orig_hw") if embedding is None else ("orig_hw", "arrays")
        raise InvalidArgumentError(f"{absent}: expected one beside {present}, found None")
    return as_encoded(embedding, orig_hw)


class ImageEmbeddings:
    """The part of a predictor that gives and takes embeddings of its current image."""

    _EMBEDDING_FILE: ClassVar[embedding_file.Kind]
    _model: Model
    _core: Any
    _exclusive: Exclusive
    _encoded: list[Any]

    @property
    def image_embeddings(self) -> tuple[NDArray[np.float32], ...]:
        """Copies of all that prompts need of the current image, float32.

        `ImagePredictor`: the encoder's output (1, C, h, w); with SAM 2 and SAM 3 also the finer
        maps that the decoder takes, (1, C / 8, 4 h, 4 w) and (1, C / 4, 2 h, 2 w).

        `ConceptPredictor`: the coarsest map (h, w, C), the fusion encoder up to where the prompt
        comes in (h w, C), the token of a prompt without examples (1, C), and the finer maps behind
        the pixel decoder's convolutions, a quarter of the positions each, (4, h, w, C) and
        (4, 2 h, 2 w, C).

        Raises `StateError` if no image is set.
        """
        with self._exclusive:
            return self._embeddings()

    def _embeddings(self) -> tuple[NDArray[np.float32], ...]:
        if self._core.orig_hw is None:
            raise StateError("image_embedding: expected an image from set_image, found none")
        embeddings: tuple[NDArray[np.float32], ...] = self._core.image_embeddings
        return embeddings

    def set_image_embedding(
        self, embedding: ArrayLike | Sequence[ArrayLike], orig_hw: tuple[int, int]
    ) -> None:
        """Set the current image by the encoder output of an earlier run.

        Parameters
        ----------
        embedding : array (1, C, h, w), or sequence of arrays, float32
            All of `image_embeddings` of a predictor of the same class with the same weights. Where
            that is one array, it may stand alone.
        orig_hw : (int, int)
            Height and width of the original image in pixels.

        Raises
        ------
        InvalidArgumentError
            A shape or dtype is wrong, a value is not finite, or a size is not positive.
        StateError
            The predictor is in use by another thread.
        """
        arrays, (height, width) = as_encoded(embedding, orig_hw)
        with self._exclusive:
            self._core.set_image_embeddings(arrays, (height, width))
            self._encoded = []

    def save_embedding(self, path: str | os.PathLike[str]) -> None:
        """Write the current image's embeddings as NPZ, for `load_embedding`.

        Parameters
        ----------
        path : str or path
            Used as it is; no suffix is added. The file appears complete or not at all.

        Raises
        ------
        StateError
            No image is set, or the predictor is in use by another thread.
        """
        with self._exclusive:
            embeddings, orig_hw = self._embeddings(), self._core.orig_hw
        embedding_file.save(
            path, self._EMBEDDING_FILE, embeddings, orig_hw, saved_arrays.identity(self._model)
        )

    def load_embedding(self, path: str | os.PathLike[str]) -> None:
        """Make the image of a `save_embedding` file the current one.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        CheckpointError
            The file is damaged, of another kind of predictor, or made by another kind of model.
            Weights of equal structure cannot be told apart.
        StateError
            The predictor is in use by another thread.
        """
        embeddings, orig_hw = embedding_file.load(
            path, self._EMBEDDING_FILE, saved_arrays.identity(self._model)
        )
        try:
            self.set_image_embedding(embeddings, orig_hw)
        except InvalidArgumentError as error:
            raise CheckpointError(
                f"{path}: expected a complete embedding, found {error}"
            ) from error
