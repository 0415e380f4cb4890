"""Widgets for notebooks: click what to segment. Needs the extra ``jupyter``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx import viz
from sam_rlx._internal.arrays.checks import as_integer, as_path, as_text
from sam_rlx._internal.arrays.prompts import as_marks
from sam_rlx._internal.files.atomic import atomic_write
from sam_rlx._internal.files.targets import check_target
from sam_rlx._internal.media.frames import open_frames
from sam_rlx._internal.packages import missing
from sam_rlx._internal.printable import with_model
from sam_rlx._internal.public import public_names
from sam_rlx._internal.synonyms import also
from sam_rlx.apps.annotator.clip_export import ClipFormat, clip_arrays, clip_document
from sam_rlx.apps.annotator.clip_items import clip_location
from sam_rlx.apps.annotator.export import ExportedFile, Format, arrays, coco_document
from sam_rlx.apps.annotator.front import joined
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.projects import Location, OpenProject, location_of_name, open_project
from sam_rlx.apps.annotator.session import Session
from sam_rlx.apps.annotator.sources import ImageSource, encoded, shrunk
from sam_rlx.apps.annotator.tracks import unique_names
from sam_rlx.apps.annotator.values import Object
from sam_rlx.apps.annotator.video_session import VideoSession
from sam_rlx.image import Objects
from sam_rlx.model import Model

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise missing("widget", "anywidget", error) from error

__all__ = ["SegmentWidget", "VideoWidget"]

_SHOWN = 640  # longest side of the image that a stored notebook shows


class _Widget(anywidget.AnyWidget):
    """A session in a notebook: messages instead of traits, but for `revision`."""

    # As text: anywidget watches a file, and its signal would hold every widget for ever.
    _esm = joined()
    revision = traitlets.Int(0, read_only=True).tag(sync=True)

    _session: Session
    _kind: type[Any]  # of the session

    def __init__(
        self,
        model: Model,
        source: Any,
        location: Location,
        *,
        project: str | bool | None = None,
        num_threads: int | None = None,
    ) -> None:
        super().__init__()
        self._model = model
        if project is False:
            opened = OpenProject()
        elif project is None:
            opened = open_project(location)
        else:
            opened = open_project(location_of_name(as_text("project", project)))
        try:
            self._session = self._kind(
                model,
                source,
                project=opened,
                send=self._to_views,
                changed=self._changed,
                num_threads=num_threads,
            )
        finally:
            opened.close_unused()
        self.on_msg(self._receive)

    @property
    def project(self) -> Path | None:
        """The file in which the work is kept, as soon as there is some; None: nowhere."""
        return self._session.project.path

    def _receive(self, _: Any, head: Any, buffers: Sequence[Any] | None) -> None:
        self._session.receive(head, buffers or ())

    def open(self) -> None:
        """Meet the front end."""
        super().open()
        # ipykernel from 7.4 on reads messages in the shell of the last one that the kernel sent,
        # not where the front end chose. Sessions send for the running cell: clicks waited for it.
        if hasattr(self.comm, "_reply_subshell_for"):
            self.comm._reply_subshell_for = None

    def _to_views(self, head: dict[str, Any], buffers: list[bytes], view: str | None) -> None:
        if self.comm is not None:
            self.send(head, buffers)

    def _changed(self, revision: int) -> None:
        self.set_trait("revision", revision)

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take what views set, but for `revision`, which some notebooks' views only send back."""
        super().set_state({name: at for name, at in sync_data.items() if name != "revision"})

    def preview(self) -> NDArray[np.uint8]:
        """Return what is seen, as an image (H, W, 3)."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        if bundle is None:
            return None
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        data["image/jpeg"] = encoded(shrunk(self.preview(), _SHOWN), "JPEG", 80)
        return data, metadata

    def close(self) -> None:
        """End the work of the widget, take it off its pages, and free its images and predictors.

        Objects, masks and `save` stay; gestures raise `StateError`.
        """
        if hasattr(self, "_session"):  # else its arguments were refused
            self._session.close()
        self.on_msg(self._receive, remove=True)
        super().close()
        self.unobserve_all()

    # ---------------------------------------------------------------- gestures

    def undo(self) -> None:
        """Take back the last prompt or change of an object."""
        self._session.call("undo")

    def redo(self) -> None:
        """Do again what `undo` took back."""
        self._session.call("redo")

    def commit(self) -> None:
        """Leave the current object as it is; the next prompt begins another one."""
        self._session.call("commit")

    def cancel(self) -> None:
        """Take the current object back to what it was when it became current."""
        self._session.call("cancel")

    def select(self, number: int | None) -> None:
        """Choose the object that prompts change, by its number; None for a new one."""
        self._session.call("select", object=number)

    def delete(self, number: int | None = None) -> None:
        """Delete an object; by default the current one. The others, and their numbers, stay."""
        self._session.call("delete", object=number)

    def rename(self, number: int, name: str) -> None:
        """Give an object another name."""
        self._session.call("rename", object=number, name=name)

    def recolor(self, number: int, color: Sequence[int]) -> None:
        """Give an object another colour, RGB of 0 to 255."""
        self._session.call("recolor", object=number, color=color)

    def _save(
        self,
        path: str | os.PathLike[str],
        format: str,
        inputs: Sequence[Path],
        other_kinds: Sequence[str] = (),
    ) -> Path:
        file: ExportedFile = self._session.call("export", format=format)
        target = as_path(path)
        check_target(target, (file.kind, *other_kinds), inputs)
        with atomic_write(target) as stream:
            stream.write(file.contents)
        return target

    def _load(self, path: str | os.PathLike[str]) -> list[str]:
        target = as_path(path)
        contents = target.read_bytes()
        return list(self._session.call("load", name=target.name, contents=contents))

    def take_over(self) -> None:
        """Write the project here, though another process has it open, which turns read-only."""
        self._session.call("take_over")


class SegmentWidget(_Widget):
    """Segment images in a notebook by clicks, boxes and texts.

    Moving the mouse previews what a click gives. Left click: inside; right click, or with a
    modifier: outside; drag: a box. Enter begins the next object. The buttons and their titles tell
    the rest. Each gesture is a method too, so that a notebook runs without a browser. The widget
    has predictors of its own, and works while cells run.

    Parameters
    ----------
    model : Model
        From `sam_rlx.load_model`; with SAM 3 there is a field for texts.
    images : image, path, folder, or sequence of images and paths
        One image, as `ImagePredictor.set_image` takes it, or a file; or several, which are shown
        one after the other. A folder's images come in the order of their names.
    project : str or False, optional
        Name of a project in the current folder, ``NAME.sam_rlx.json``, in which the work is kept.
        By default it is kept beside the images: a folder has a ``sam_rlx.project.json``, an image
        ``a.jpg`` an ``a.jpg.sam_rlx.json``. That of arrays, of several files, and of a folder that
        cannot be written is in the state folder of this user. `project` says where. False keeps
        nothing, as for pages that many people use at once.
    num_threads : int, optional
        Threads for computing. Default: the cores this process may use.

    Raises
    ------
    MissingExtraError
        At the import of this module: anywidget is not installed.
    FileNotFoundError, InvalidArgumentError
        There is no such image, or an argument is wrong.
    UnsupportedError
        The model takes no clicks.

    Examples
    --------
    >>> import sam_rlx
    >>> from sam_rlx.widget import SegmentWidget
    >>> w = SegmentWidget(sam_rlx.load_model("sam-nano"), "coins.jpg")  # doctest: +SKIP
    >>> w.click(346, 185)  # doctest: +SKIP
    >>> w.objects[0].mask.sum()  # doctest: +SKIP
    2385
    """

    _session: ImageSession
    _kind = ImageSession

    def __init__(
        self,
        model: Model,
        images: Any,
        *,
        project: str | bool | None = None,
        num_threads: int | None = None,
    ) -> None:
        source = ImageSource(images)
        super().__init__(model, source, source.location, project=project, num_threads=num_threads)

    def __repr__(self) -> str:
        image = "image {} of {} x {}".format(self.index, *self.image.shape[:2])
        return with_model(self, self._model, image, f"{len(self.objects)} objects")

    # ---------------------------------------------------------------- what there is

    @property
    def objects(self) -> list[Object]:
        """The objects of the current image: `number`, `name`, `color`, `points`, `mask`, ..."""
        return list(self._session.document.objects)

    @property
    def current(self) -> Object | None:
        """The object that prompts change; None: they begin a new one."""
        return self._session.selected

    @property
    def image(self) -> NDArray[np.uint8]:
        """The current image, uint8 (H, W, 3)."""
        return self._session.image

    @property
    def index(self) -> int:
        """Number of the current image, from 0."""
        return self._session.index

    def preview(self) -> NDArray[np.uint8]:
        """Return the current image with its masks, uint8 (H, W, 3)."""
        objects = self.objects
        return viz.overlay(
            self.image,
            [one.mask for one in objects],
            identities=[one.number for one in objects],
        )

    # ---------------------------------------------------------------- gestures

    def click(self, x: float, y: float, label: int = 1) -> None:
        """Click at (x, y), in pixels: label 1 inside of the object, 0 outside of it."""
        self._session.call("click", x=x, y=y, label=label)

    def box(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """Drag a box around an object, in pixels."""
        self._session.call("box", box=[x0, y0, x1, y1])

    def text(
        self,
        text: str = "",
        *,
        threshold: float = 0.5,
        boxes: ArrayLike | None = None,
        box_labels: ArrayLike | None = None,
    ) -> None:
        """Find all that a text names, with SAM 3; arguments as for `ConceptPredictor.predict`.

        What the same text found before is replaced.
        """
        marks = as_marks(("boxes", "box_labels"), boxes, box_labels, 4)
        given = None if marks is None else marks.values.tolist()
        labels = None if marks is None else marks.labels.tolist()
        self._session.call(
            "text", text=text, threshold=threshold, boxes=given or [], box_labels=labels or []
        )

    def everything(self, **options: Any) -> None:
        """Find masks to choose from, by `pick`; options as for `MaskGenerator`."""
        self._session.call("everything", options=options)

    def pick(self, x: float, y: float) -> None:
        """Make the smallest mask of `everything` at (x, y) an object."""
        self._session.call("pick", x=x, y=y)

    def start(self, mask: ArrayLike, name: str | None = None) -> None:
        """Begin an object with a mask, bool (H, W); clicks correct it."""
        self._session.call("start", mask=mask, name=name)

    def candidate(self, index: int) -> None:
        """Choose another answer to a single click: 0, 1 or 2."""
        self._session.call("candidate", index=index)

    def show(self, index: int) -> None:
        """Go to another image, from 0. What was done on this one stays."""
        self._session.call("image", index=index)

    # ---------------------------------------------------------------- results

    def coco(self) -> dict[str, Any]:
        """Return a COCO document with the objects of all images, which ``json`` can write."""
        session = self._session
        return coco_document([session.annotated(at) for at in session.annotated_indices()])

    def result(self) -> Objects:
        """Return the objects of the current image with the methods of results, as `to_yolo`."""
        image = self._session.annotated(self.index)
        return Objects(image, size=image.hw)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return arrays of the current image.

        ``masks`` bool (N, H, W); ``scores`` float32 (N,); ``names`` (N,); ``colors`` uint8 (N, 3);
        ``labels`` uint16 (H, W), 0 for the background and k for the k-th object; where masks
        overlap, the smaller one is on top.
        """
        return arrays(self._session.annotated(self.index))

    def save(self, path: str | os.PathLike[str], format: Format = "coco") -> Path:
        """Write a file, as the menu "export" does.

        Parameters
        ----------
        path : str or path
            Ends as the format does (``.json``, ``.zip``, ``.png``, ``.npz``), or in nothing that
            says another kind of file. Appears complete or not at all.
        format : {"coco", "png", "labels", "npz", "polygons"}
            COCO's JSON, with the objects of all images; a ZIP of a PNG for each object; one PNG
            with a number for each object; NumPy arrays; JSON with outlines.

        Raises
        ------
        InvalidArgumentError
            The suffix is one of another kind, or there is an image of this widget, or a file of
            another kind that this library has not written.
        """
        return self._save(path, format, self._session.sources.files)

    def load(self, path: str | os.PathLike[str]) -> list[str]:
        """Add the objects of a file, to go on with them; return names of images that are not here.

        It is what `save` writes as "coco", "polygons", "labels" or "npz", or another program's COCO
        document. What `save` writes belongs to the images that it was made on, by their content;
        other documents name their images, by path or by a name that only one has, and the only
        image of one may have another name; labels and arrays belong to the current image. Of masks
        that overlap a label image keeps what is seen. After an error (another file, another image,
        masks of another size) nothing has changed.

        Annotations without a mask are passed over, with a `MediaWarning`.
        """
        return self._load(path)


class VideoWidget(_Widget):
    """Follow objects through a video in a notebook.

    Click or drag on any frame, as in `SegmentWidget`; "track" follows all objects from there, and
    can be stopped. Prompts on later frames correct; an object may be added in the middle, and the
    masks of the others stay until they are tracked again. Each gesture is a method too.

    Parameters
    ----------
    model : Model
        Of SAM 2, or of SAM 3 with the tracker.
    frames : path, folder, array (T, H, W, 3) or sequence of images
        As for `VideoPredictor`, of known length.
    project : str or False, optional
        As for `SegmentWidget`.
    num_threads : int, optional
        Threads for computing. Default: the cores this process may use.

    Raises
    ------
    MissingExtraError
        A package that decodes the clip is not installed.
    FileNotFoundError, InvalidArgumentError
        There is no such clip, or an argument is wrong.
    UnsupportedError
        The model cannot follow objects.
    """

    _session: VideoSession
    _kind = VideoSession

    @also(clip="frames")
    def __init__(
        self,
        model: Model,
        frames: Any,
        *,
        project: str | bool | None = None,
        num_threads: int | None = None,
    ) -> None:
        source = open_frames(frames)
        location = clip_location(source, frames)
        super().__init__(model, source, location, project=project, num_threads=num_threads)

    def __repr__(self) -> str:
        return with_model(
            self, self._model, f"{self.num_frames} frames, {len(self.objects)} objects"
        )

    @property
    def objects(self) -> list[Object]:
        """The objects: `number`, `name`, `color`, `prompts`, and `masks` by frame."""
        return list(self._session.tracks)

    @property
    def num_frames(self) -> int:
        """Number of frames."""
        return self._session.count

    @also(frame="frame_index")
    def masks(self, frame_index: int) -> dict[str, NDArray[np.bool_]]:
        """Return the masks bool (H, W) that are known on a frame, by the names of the objects.

        Of objects with one name the later ones have their number behind it: ``"cat (2)"``.
        """
        known = self._session.masks(as_integer("frame_index", frame_index, 0))
        names = unique_names(self._session.tracks)
        return {name: known[at].to_mask() for at, name in names.items() if at in known}

    @also(frame="frame_index")
    def preview(self, frame_index: int | None = None) -> NDArray[np.uint8]:
        """Return a frame with its masks, uint8 (H, W, 3); by default the first with masks."""
        if frame_index is None:
            frame_index = next(iter(self._session.known_frames()), 0)
        frame_index = as_integer("frame_index", frame_index, 0)
        known = self._session.masks(frame_index)
        numbers = sorted(known)
        masks = [known[number].to_mask() for number in numbers]
        return viz.overlay(self._session.read(frame_index), masks, identities=numbers)

    @also(frame="frame_index")
    def click(self, frame_index: int, x: float, y: float, label: int = 1) -> None:
        """Click on a frame at (x, y), in pixels: label 1 inside of the object, 0 outside."""
        self._session.call("click", frame=frame_index, x=x, y=y, label=label)

    @also(frame="frame_index")
    def box(self, frame_index: int, x0: float, y0: float, x1: float, y1: float) -> None:
        """Drag a box around an object on a frame."""
        self._session.call("box", frame=frame_index, box=[x0, y0, x1, y1])

    @also(frame="frame_index")
    def start(self, frame_index: int, mask: ArrayLike, name: str | None = None) -> None:
        """Begin an object with a mask on a frame, bool (H, W)."""
        self._session.call("start", frame=frame_index, mask=mask, name=name)

    @also(frame="frame_index")
    def text(self, frame_index: int, text: str, *, threshold: float = 0.5) -> None:
        """Find all that a text names on a frame, with SAM 3; `propagate` follows each of them."""
        self._session.call("text", frame=frame_index, text=text, threshold=threshold)

    @also(frame="start_frame")
    def propagate(self, start_frame: int | None = None, *, reverse: bool = False) -> None:
        """Track all objects, from a frame on; by default from the first prompt. Waits for the end.

        `stop`, a view's button and Ctrl-C end it after the current frame.
        """
        future: Future[None] = Future()

        def ended(error: Exception | None) -> None:
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self._session.call("propagate", frame=start_frame, reverse=reverse, ended=ended)
        try:
            self._session.wait(future)
        except KeyboardInterrupt:
            self.stop()
            raise

    def stop(self) -> None:
        """End tracking after the current frame."""
        self._session.on_stop()

    # ---------------------------------------------------------------- results

    def coco(self) -> dict[str, Any]:
        """Return a COCO document with the clip, its frames with masks, and a track an object."""
        return clip_document(self._session.annotated())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return arrays of the frames with masks.

        ``masks`` bool (F, N, H, W); ``frames`` (F,), their numbers; ``numbers`` (N,), ``names``
        (N,) and ``colors`` uint8 (N, 3) of the objects. Without a mask on a frame: an empty one.
        """
        return clip_arrays(self._session.annotated())

    def save(self, path: str | os.PathLike[str], format: ClipFormat = "coco") -> Path:
        """Write a file.

        Parameters
        ----------
        path : str or path
            Ends as the format does (``.json``, ``.zip``, ``.npz``), or in nothing that says another
            kind of file. Appears complete or not at all.
        format : {"coco", "png", "labels", "npz"}
            COCO's JSON with a video and tracks; a ZIP of a PNG for each frame and object; a ZIP of
            a label image for each frame, whose values are the numbers of the objects; NumPy arrays.

        Raises
        ------
        InvalidArgumentError
            The suffix is one of another kind, or there is a file of this clip, or one of another
            kind that this library has not written.
        """
        archives = ("ZIP",) if format == "npz" else ()
        return self._save(path, format, self._session.files, archives)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Add the tracks of a COCO document that `save` wrote of this clip.

        After an error (another file, a clip of another size, length or content) nothing has
        changed.
        """
        self._load(path)


__dir__ = public_names(__name__)
