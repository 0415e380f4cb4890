"""The objects of a clip as files, and back."""

import io as streams
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io
from sam_rlx._internal.formats import coco
from sam_rlx.apps.annotator.export import ExportedFile
from sam_rlx.apps.annotator.limits import MAX_OBJECTS
from sam_rlx.apps.annotator.saved import described, parsed
from sam_rlx.apps.annotator.saved_documents import mask_of
from sam_rlx.apps.annotator.session import UNCOLORED
from sam_rlx.apps.annotator.sources import encoded
from sam_rlx.apps.annotator.tracks import unique_names
from sam_rlx.apps.annotator.values import Document, Mask, Object, PackedMask, Project, Start
from sam_rlx.errors import InvalidArgumentError

ClipFormat: TypeAlias = Literal["coco", "png", "labels", "npz"]

_MAX_ENTRIES = 10_000_000


@dataclass(frozen=True, eq=False)
class AnnotatedClip:
    """A clip of a session: its name, key, size (H, W), number of frames, and objects."""

    name: str
    key: str
    hw: tuple[int, int]
    count: int
    document: Document
    project: Project = field(default_factory=Project)

    def masks(self, frame: int) -> dict[int, PackedMask]:
        """Return the masks of a frame, by number of the object."""
        return {o.number: o.masks[frame].packed for o in self.document.objects if frame in o.masks}

    def frames(self) -> list[int]:
        """Return the frames with masks."""
        return sorted({frame for one in self.document.objects for frame in one.masks})


def clip_document(clip: AnnotatedClip) -> dict[str, Any]:
    """Return a COCO document: an image for each frame with masks, and a track for each object.

    ``videos`` has the clip; an image has ``video_id`` and ``frame_index``, an annotation
    ``track_id``, the number of the object.
    """
    names = unique_names(clip.document.objects)
    categories = [{"id": one.number, "name": one.name} for one in clip.project.classes]
    height, width = clip.hw
    documents = []
    for frame in clip.frames():
        image = {
            "file_name": f"{clip.name}#{frame}",
            "height": height,
            "width": width,
            "video_id": 1,
            "frame_index": frame,
        }
        annotations = [
            io.coco_annotation(
                one.masks[frame].to_mask(),
                category_id=clip.project.class_of(one).number,
                name=names[one.number],
                color=list(one.color),
                track_id=one.number,
                score=one.masks[frame].score,
            )
            for one in clip.document.objects
            if frame in one.masks
        ]
        documents.append(coco.document(image, annotations, categories))
    video = {"id": 1, "name": clip.name, "height": height, "width": width, "length": clip.count}
    return {"videos": [{**video, "sam_rlx": {"key": clip.key}}], **coco.joined(documents)}


def clip_arrays(clip: AnnotatedClip) -> dict[str, NDArray[Any]]:
    """Return ``masks`` (F, N, H, W), ``frames`` (F,), ``numbers`` (N,), ``names`` and ``colors``.

    F are the frames with masks; an object without one there has an empty mask.
    """
    objects, frames = clip.document.objects, clip.frames()
    masks = np.zeros((len(frames), len(objects), *clip.hw), np.bool_)
    for at, frame in enumerate(frames):
        for index, one in enumerate(objects):
            if frame in one.masks:
                masks[at, index] = one.masks[frame].to_mask()
    return {
        "masks": masks,
        "frames": np.array(frames, np.int64),
        "numbers": np.array([one.number for one in objects], np.int64),
        "names": np.array([one.name for one in objects], np.str_),
        "colors": np.array([one.color for one in objects], np.uint8).reshape(-1, 3),
    }


def export_clip(form: str, clip: AnnotatedClip) -> ExportedFile:
    """Write the objects of a clip.

    Parameters
    ----------
    form : {"coco", "png", "labels", "npz"}
        COCO's JSON with a video and tracks; a ZIP of a PNG for each frame and object; a ZIP of a
        label image for each frame, whose values are the numbers of the objects; a ZIP of NumPy
        arrays.
    """
    writers: dict[str, Callable[[], ExportedFile]] = {
        "coco": lambda: ExportedFile(
            "clip.json",
            "application/json",
            (json.dumps(clip_document(clip), indent=1) + "\n").encode(),
        ),
        "png": lambda: ExportedFile("masks.zip", "application/zip", _zip(clip, _pngs)),
        "labels": lambda: ExportedFile("labels.zip", "application/zip", _zip(clip, _labels)),
        "npz": lambda: ExportedFile("clip.npz", "application/octet-stream", _npz(clip)),
    }
    if form not in writers:
        raise InvalidArgumentError(f"format: expected one of {list(writers)}, found {form!r}")
    return writers[form]()


def _zip(clip: AnnotatedClip, write: Callable[[AnnotatedClip, int], dict[str, Any]]) -> bytes:
    file = streams.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for frame in clip.frames():
            for name, pixels in write(clip, frame).items():
                archive.writestr(name, encoded(pixels, "PNG"))
    return file.getvalue()


def _pngs(clip: AnnotatedClip, frame: int) -> dict[str, Any]:
    return {
        f"{frame:06d}_{number:03d}.png": mask.to_mask().astype(np.uint8) * np.uint8(255)
        for number, mask in clip.masks(frame).items()
    }


def _labels(clip: AnnotatedClip, frame: int) -> dict[str, Any]:
    most = max(one.number for one in clip.document.objects)
    labels = np.zeros(clip.hw, np.uint8 if most < 256 else np.uint16)
    for number, mask in clip.masks(frame).items():
        labels[mask.to_mask()] = number
    return {f"{frame:06d}.png": labels}


def _npz(clip: AnnotatedClip) -> bytes:
    file = streams.BytesIO()
    np.savez_compressed(file, **clip_arrays(clip))  # type: ignore[arg-type]
    return file.getvalue()


# ------------------------------------------------------------------ back


def read_clip(name: str, contents: bytes, clip: AnnotatedClip) -> list[tuple[Object, str]]:
    """Return the objects of a COCO document with a video, without numbers, and their categories.

    Raises
    ------
    InvalidArgumentError
        The file is something else or damaged, or of a clip of another size, length or content.
    """
    document = parsed(name, contents)
    if not isinstance(document, dict) or not isinstance(document.get("videos"), list):
        raise InvalidArgumentError(f"{name}: expected a COCO document with videos, found none")
    _check_video(name, document["videos"], clip)
    frames = _frames(name, document, clip)
    categories = {
        repr(one.get("id")): str(one.get("name"))[:200]
        for one in _entries(name, document, "categories")
    }
    tracks: dict[str, Object] = {}
    classes: dict[str, str] = {}
    for at, one in enumerate(_entries(name, document, "annotations")):
        where = f"{name}: annotations[{at}]"
        frame = frames.get(repr(one.get("image_id")))
        if frame is None:
            raise InvalidArgumentError(f"{where}: expected an image_id of images, found another")
        said, color, score = described(where, one)
        key = repr(one.get("track_id", at))[:80]
        known = tracks.get(key)
        if known is None:
            classes[key] = categories.get(repr(one.get("category_id")), "").strip()
            named = said or classes[key]
            known = Object(0, named.strip()[:200], color or UNCOLORED)
        mask = PackedMask.of(mask_of(where, one.get("segmentation"), clip.hw))
        masks = {**known.masks, frame: Mask(mask, score, "file")}
        tracks[key] = replace(known, masks=masks)
        if len(tracks) > MAX_OBJECTS:
            raise InvalidArgumentError(f"{name}: expected at most {MAX_OBJECTS} tracks, found more")
    return [(_with_start(one), classes[key]) for key, one in tracks.items()]


def _with_start(one: Object) -> Object:
    """Give a track a prompt that tracking can go on from: its first mask."""
    frame = min(one.masks)
    return replace(one, prompts=(Start(1, frame, one.masks[frame].packed),))


def _check_video(name: str, videos: list[Any], clip: AnnotatedClip) -> None:
    video = videos[0] if len(videos) == 1 and isinstance(videos[0], dict) else None
    if video is None:
        raise InvalidArgumentError(f"{name}: expected one video, found {len(videos)}")
    height, width = clip.hw
    found = video.get("height"), video.get("width"), video.get("length", clip.count)
    if found != (height, width, clip.count):
        raise InvalidArgumentError(
            f"{name}: expected a clip of {width} x {height} pixels and {clip.count} frames, found "
            "another one"
        )
    said = video.get("sam_rlx")
    key = said.get("key") if isinstance(said, dict) else None
    if key is not None and key != clip.key:
        raise InvalidArgumentError(f"{name}: expected objects of this clip, found another content")


def _frames(name: str, document: dict[str, Any], clip: AnnotatedClip) -> dict[str, int]:
    frames = {}
    for at, one in enumerate(_entries(name, document, "images")):
        frame = one.get("frame_index", at)
        if not isinstance(frame, int) or isinstance(frame, bool) or not 0 <= frame < clip.count:
            raise InvalidArgumentError(
                f"{name}: images[{at}].frame_index: expected 0 to {clip.count - 1}, found another"
            )
        frames[repr(one.get("id"))] = frame
    return frames


def _entries(name: str, document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = document.get(key, [])
    right = isinstance(found, list) and len(found) <= _MAX_ENTRIES
    if not right or not all(isinstance(one, dict) for one in found):
        raise InvalidArgumentError(f"{name}: expected a list of objects of JSON as {key}")
    return list(found)
