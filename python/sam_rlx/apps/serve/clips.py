"""Clips on the page: which files are some, and the model that follows objects in them."""

import io as streams
from functools import lru_cache

from sam_rlx._internal.media.frames import open_frames
from sam_rlx._internal.media.image_files import open_image
from sam_rlx._internal.media.image_frames import is_gif
from sam_rlx.apps.annotator.values import Kind
from sam_rlx.apps.serve.engine import Engine
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.model import Model, load_model

_PACKAGED = "sam2-nano"
# What follows the length of the first box of an MP4 or MOV file.
_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")


def kind_of(contents: bytes) -> Kind:
    """Tell whether a file is a clip, by its first bytes; a GIF is one if it moves.

    No other container is opened: some of them name further files.
    """
    if contents[4:8] in _BOXES or contents.startswith(b"\x1a\x45\xdf\xa3"):  # MP4, MOV; WebM
        return "clip"
    if contents.startswith(b"RIFF") and contents[8:12] == b"AVI ":
        return "clip"
    if not is_gif(contents):
        return "image"
    try:
        with open_image(streams.BytesIO(contents)) as image:
            return "clip" if getattr(image, "n_frames", 1) > 1 else "image"
    except InvalidArgumentError:  # a broken one
        return "image"


def check_clip(contents: bytes, most_pixels: int) -> None:
    """Refuse a clip that has no frame, or frames with more pixels."""
    source = open_frames(contents)
    height, width = source.read(0).shape[:2]
    if height * width > most_pixels:
        raise InvalidArgumentError(
            f"clip: expected at most {most_pixels} pixels, found {width} x {height}"
        )


def tracker(engine: Engine, name: str) -> Model:
    """Return a model that follows objects: the chosen one, another one of the server's, or ours."""
    models = [engine.models[name], *engine.models.values()]
    return next((model for model in models if model.supports_video), None) or _packaged()


@lru_cache(maxsize=1)
def _packaged() -> Model:
    return load_model(_PACKAGED)
