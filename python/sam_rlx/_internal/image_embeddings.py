"""What predictors of images share: the current image, others that are kept, their embeddings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx._core import Exclusive, Model
from sam_rlx._internal import options
from sam_rlx._internal.arrays.checks import as_integer, as_items, as_num_threads
from sam_rlx._internal.arrays.images import as_hw, as_images, as_rgb
from sam_rlx._internal.files import embeddings as embedding_file
from sam_rlx._internal.files import saved_tensors
from sam_rlx._internal.printable import shown, with_model
from sam_rlx.errors import CheckpointError, InvalidArgumentError, StateError

Encoded = tuple[list[NDArray[np.float32]], tuple[int, int]]


def as_encoded(embedding: ArrayLike | Sequence[ArrayLike], orig_hw: Any) -> Encoded:
    """Check the types and values of embeddings, and the size (H, W) of their image."""
    single = isinstance(embedding, np.ndarray) or not isinstance(embedding, Sequence)
    parts = [embedding] if single else as_items("embedding", embedding)
    arrays = [embedding_file.as_embedding(part) for part in parts]
    return arrays, as_hw("orig_hw", orig_hw)


def encoded_image(
    kind: embedding_file.Kind, identity: Mapping[str, str], embedding: Any, orig_hw: Any
) -> Encoded:
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
            raise InvalidArgumentError(
                f"orig_hw: expected none beside a file, found {shown(orig_hw)}"
            )
        return embedding_file.load(embedding, kind, identity)
    if embedding is None or orig_hw is None:
        absent, present = ("embedding", "orig_hw") if embedding is None else ("orig_hw", "arrays")
        raise InvalidArgumentError(f"{absent}: expected one beside {present}, found None")
    return as_encoded(embedding, orig_hw)


class ImageEmbeddings:
    """A predictor's images: the current one, those that are kept, and their embeddings."""

    _EMBEDDING_FILE: ClassVar[embedding_file.Kind]
    _CORE: ClassVar[type[Any]]  # the predictor of the core
    _core: Any

    def __init__(self, model: Model, source: str, num_threads: int | None, resize: str) -> None:
        checked = options.checked("image", model.family, {"resize": resize})
        self._weights = model
        self._source = source
        self._core = self._CORE(model, as_num_threads(num_threads), **checked)
        self._arguments = {"num_threads": num_threads, "resize": resize}
        self._exclusive = Exclusive(self._CORE.__name__)
        self._encoded: list[Any] = []  # what `_current` gives, of each image

    def __repr__(self) -> str:
        hw = self.orig_hw
        image = "no image" if hw is None else f"image of {hw[0]} x {hw[1]}"
        kept = [f"{self.num_images} images kept"] if self.num_images else []
        return with_model(self, self._weights, image, *kept)

    @property
    def _identity(self) -> Mapping[str, str]:
        return saved_tensors.identity(self._weights, self._source)

    @property
    def orig_hw(self) -> tuple[int, int] | None:
        """Height and width of the current image in pixels, or None."""
        orig_hw: tuple[int, int] | None = self._core.orig_hw
        return orig_hw

    @property
    def num_images(self) -> int:
        """Number of images that `set_images` keeps."""
        return len(self._encoded)

    def set_image(self, image: Any) -> None:
        """Encode one image and make it the current one.

        Parameters
        ----------
        image : ndarray or PIL image
            RGB uint8 (H, W, 3). Also: float in [0, 1] (0.001 beyond is taken for rounding),
            uint16, grey (H, W), RGBA (alpha is dropped), channels first, any strides. An EXIF
            orientation is not applied.

        Raises
        ------
        InvalidArgumentError
            The type, shape, dtype or range is another one.
        StateError
            The predictor is in use by another thread.
        """
        pixels = as_rgb(image)
        with self._exclusive:
            self._core.set_image(pixels)
            self._encoded = []

    def set_images(self, images: Sequence[Any]) -> None:
        """Encode several images, keep what the encoder gives, and make the first the current one.

        Parameters
        ----------
        images : sequence of images
            At least one; each as `set_image` takes it, sizes may differ. `select` changes the
            current one. Results equal those of `set_image` on each, bit for bit. A
            `ConceptPredictor` keeps 120 MB of an image at the released size.

        Raises
        ------
        InvalidArgumentError
            The sequence is empty, or one image is not valid. Nothing has changed then.
        StateError
            The predictor is in use by another thread.
        """
        pixels = as_images(images)
        with self._exclusive, self._restoring():
            encoded = []
            for image in pixels:
                self._core.set_image(image)
                encoded.append(self._current())
            self._restore(encoded[0])
            self._encoded = encoded

    def select(self, index: int) -> None:
        """Make image `index` of the last `set_images` the current one.

        Raises
        ------
        StateError
            `set_images` was not called, or a later call replaced its images.
        InvalidArgumentError
            There is no such image.
        """
        with self._exclusive:
            if not self._encoded:
                raise StateError("select: expected images from set_images, found none")
            count = len(self._encoded)
            if as_integer("index", index, 0) >= count:
                raise InvalidArgumentError(
                    f"index: expected 0 to {count - 1}, found {shown(index)}"
                )
            self._restore(self._encoded[index])

    def reset_image(self) -> None:
        """Forget all images. Texts stay known.

        Raises
        ------
        StateError
            The predictor is in use by another thread.
        """
        with self._exclusive:
            self._restore(None)
            self._encoded = []

    def _current(self) -> Any:
        """Return what brings the current image back, None without one."""
        raise NotImplementedError

    def _restore(self, encoded: Any) -> None:
        """Bring back an image of `_current`, or none."""
        raise NotImplementedError

    @contextmanager
    def _restoring(self) -> Iterator[None]:
        """Bring the current image back if the block fails."""
        before = self._current()
        try:
            yield
        except BaseException:
            self._restore(before)
            raise

    @property
    def image_embeddings(self) -> tuple[NDArray[np.float32], ...]:
        """Copies of all that prompts need of the current image, float32.

        `ImagePredictor`: the encoder's output (1, C, h, w); with SAM 2 and SAM 3 also the finer
        maps that the decoder takes, (1, C / 8, 4 h, 4 w) and (1, C / 4, 2 h, 2 w); with SAM-HQ the
        map of its finer features, (1, C / 8, 4 h, 4 w).

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
        embedding : array (1, C, h, w), or sequence of arrays, float32 or float16
            All of `image_embeddings` of a predictor of the same class with the same weights. Where
            that is one array, it may stand alone. Tensors of PyTorch are taken from any device,
            bfloat16 too.
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
        """Write the current image's embeddings as safetensors, for `load_embedding`.

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
        StateError
            No image is set, or the predictor is in use by another thread.
        """
        with self._exclusive:
            embeddings, orig_hw = self._embeddings(), self._core.orig_hw
        embedding_file.save(path, self._EMBEDDING_FILE, embeddings, orig_hw, self._identity)

    def load_embedding(self, path: str | os.PathLike[str]) -> None:
        """Make the image of a `save_embedding` file the current one.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        CheckpointError
            The file is damaged, of another kind of predictor, or made with other weights.
        StateError
            The predictor is in use by another thread.
        """
        embeddings, orig_hw = embedding_file.load(path, self._EMBEDDING_FILE, self._identity)
        try:
            self.set_image_embedding(embeddings, orig_hw)
        except InvalidArgumentError as error:
            raise CheckpointError(
                f"{path}: expected a complete embedding, found {error}"
            ) from error
