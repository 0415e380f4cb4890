"""Files of examples: images with boxes around what is to be found on other images.

A COCO document, or what `ConceptExamples.save` has written.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sam_rlx import io
from sam_rlx._internal.files import marks
from sam_rlx.apps.batch import documents
from sam_rlx.concept import ConceptExamples, ConceptPredictor
from sam_rlx.errors import InvalidArgumentError


def read(path: Path) -> list[documents.Named]:
    """Return the images of a document of examples that have boxes; none for saved examples.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    InvalidArgumentError
        It is something else, has no boxes, an empty box, or boxes of several categories.
    """
    if marks.safetensors_format(path) is not None:
        return []
    document = documents.read(path, None)
    images = [image for image in document.images if image.prompts]
    wrong = next((f"{each.path}: {each.error}" for each in document.images if each.error), None)
    found = wrong or document.left_out
    if document.are_views or not images:
        found = found or "none"
    elif len(document.categories) > 1:
        found = found or f"those of the categories {', '.join(document.categories)}"
    if found:
        raise InvalidArgumentError(
            f"{path}: expected a COCO document with boxes of one category, found {found}"
        )
    return images


def digests(path: Path) -> list[str]:
    """Return a hash of a file of examples, and of each image that it names; errors as `read`."""
    return [marks.digest(path), *(marks.digest(Path(image.path)) for image in read(path))]


def encode(
    predictor: ConceptPredictor, paths: Iterable[Path], *, positions: bool
) -> list[ConceptExamples]:
    """Return the examples of files, one entry an image; `positions` is for documents.

    Raises
    ------
    FileNotFoundError
        The file, or one of its images, does not exist.
    InvalidArgumentError
        See `read`; or an image has another size than the document says, or a box is not on it.
    CheckpointError
        Saved examples are damaged, or of another model.
    """
    found = []
    for path in paths:
        images = read(path)
        if not images:
            found.append(predictor.load_examples(path))
        for named in images:
            image = io.read_image(named.path)
            if named.hw is not None and named.hw != image.shape[:2]:
                raise InvalidArgumentError(
                    f"{named.path}: expected {named.hw[1]} x {named.hw[0]} pixels, as {path} says, "
                    f"found {image.shape[1]} x {image.shape[0]}"
                )
            boxes: Any = [prompt.box for prompt in named.prompts or ()]
            try:
                found.append(predictor.encode_examples(image, boxes, positions=positions))
            except InvalidArgumentError as error:
                raise InvalidArgumentError(f"{named.path}: {error}") from error
    return found
