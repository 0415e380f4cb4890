"""Widgets for notebooks: click what to segment. Needs the extra ``jupyter``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal

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
from sam_rlx.apps.annotator.export_gestures import ExportGestures
from sam_rlx.apps.annotator.exports import FormName
from sam_rlx.apps.annotator.exports.collect import Which
from sam_rlx.apps.annotator.exports.work import Task
from sam_rlx.apps.annotator.front import joined
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.imports import ReadName
from sam_rlx.apps.annotator.projects import Location, OpenProject, location_of_name, open_project
from sam_rlx.apps.annotator.sources import ImageSource, encoded, shrunk
from sam_rlx.apps.annotator.tracks import unique_names
from sam_rlx.apps.annotator.values import ClassDef, Object
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


def _path(points: ArrayLike) -> list[list[float]]:
    """Return points (x, y) as a message has them."""
    return [list(map(float, point)) for point in np.asarray(points, np.float64).reshape(-1, 2)]


class _Widget(anywidget.AnyWidget):
    """A session in a notebook: messages instead of traits, but for `revision`."""

    # As text: anywidget watches a file, and its signal would hold every widget for ever.
    _esm = joined()
    revision = traitlets.Int(0, read_only=True).tag(sync=True)

    _session: ExportGestures
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

    def _in_steps(self, gesture: str, **given: Any) -> None:
        """Begin what goes on while nothing else waits, and wait for its end."""
        future: Future[None] = Future()

        def ended(error: Exception | None) -> None:
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self._session.call(gesture, **given, ended=ended)
        try:
            self._session.wait(future)
        except KeyboardInterrupt:
            self._session.on_stop()
            raise

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

    @property
    def classes(self) -> list[ClassDef]:
        """The classes of the project: `number`, `name`, `color`, `digit`."""
        return list(self._session.classes)

    def class_add(
        self, name: str, color: Sequence[int] | None = None, digit: str | None = None
    ) -> int:
        """Add a class, which new objects get from now on; return its number.

        Parameters
        ----------
        name : str
            That no other class has.
        color : 3 numbers, optional
            RGB of 0 to 255. Default: a hue that differs from those of the other classes.
        digit : str, optional
            Digit or letter that chooses it. Default: the first digit that is free.
        """
        return int(self._session.call("class_add", name=name, color=color, digit=digit))

    def class_change(
        self,
        number: int,
        *,
        name: str | None = None,
        color: Sequence[int] | None = None,
        digit: str | None = None,
    ) -> None:
        """Give a class another name, colour or digit; objects that nobody named follow it."""
        given = {"name": name, "color": color, "digit": digit}
        self._session.call("class_change", class_number=number, **given)

    def class_remove(self, number: int, successor: int) -> None:
        """Remove a class; its objects go to the class `successor`."""
        self._session.call("class_remove", class_number=number, successor=successor)

    def set_class(self, class_number: int, number: int | None = None) -> None:
        """Give the current object a class, which new ones get too; or an object by its number."""
        self._session.call("set_class", class_number=class_number, object=number)

    def lock(self, number: int | None = None, on: bool = True) -> None:
        """Keep prompts, strokes and tracking from an object; `on` False lets them."""
        self._session.call("lock", object=number, on=on)

    def note(self, text: str, number: int | None = None) -> None:
        """Keep a text with an object."""
        self._session.call("note", text=text, object=number)

    def others_stay(self, on: bool = True) -> None:
        """Choose whether answers and strokes leave the pixels of other objects alone."""
        self._session.call("others_stay", on=on)

    def merge(self, numbers: Sequence[int]) -> None:
        """Make several objects one: the first of them."""
        self._session.call("merge", objects=list(numbers))

    def move_point(self, prompt: int, x: float, y: float, number: int | None = None) -> None:
        """Move a point of an object, or its box by the middle, and answer again.

        Parameters
        ----------
        prompt : int
            The number of the prompt: ``widget.objects[0].prompts[0].number``.
        x, y : float
            In pixels.
        number : int, optional
            Of the object. Default: the current one.
        """
        self._session.call("move_point", number=prompt, x=x, y=y, object=number)

    def remove_point(self, prompt: int, number: int | None = None) -> None:
        """Take a point or box of an object away, and answer again."""
        self._session.call("remove_point", number=prompt, object=number)

    def done(self, on: bool = True) -> None:
        """Mark what is shown as done; `on` False as begun again."""
        self._session.call("done", on=on)

    def leave_out(self, on: bool = True) -> None:
        """Leave what is shown out of exports; `on` False takes it back in."""
        self._session.call("leave_out", on=on)

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

    def export(
        self,
        path: str | os.PathLike[str],
        form: FormName,
        *,
        images: Which = "some",
        classes: Sequence[str] | None = None,
        tolerance: float | None = None,
        task: Task = "segment",
        split: float | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write the project in a form of other programs, as the dialog does.

        Parameters
        ----------
        path : str or path
            Of a new folder; a ZIP where it ends in ``.zip``. It appears complete or not at all.
        form : str
            "coco", "panoptic", "yolo", "label_studio", "cvat", "labelme", "isat", "voc", "labels",
            "masks", "cutouts", "overlay", "csv", "geojson" or "npz"; of a clip also "mots",
            "youtube_vis", "davis", "overlay_clip", "alpha_clip" and "alpha_frames".
        images : {"done", "some", "all"}
            Images that are done, those with objects, or all; never those that are left out.
        classes : sequence of str, optional
            Names of those whose objects are written. Default: all.
        tolerance : float, optional
            Of outlines, in pixels, instead of run lengths where a form has both. Default: exact.
        task : {"segment", "detect"}
            Masks, or boxes alone, where a form has both.
        split : float, optional
            Part of the images that is for validation, 0 to 1; the same ones at each export.
        overwrite : bool
            True: an export that is there goes.

        Returns
        -------
        Path
            Of what was written.

        Raises
        ------
        InvalidArgumentError
            Something else is there, the form does not fit, or there is nothing to write.
        MissingExtraError
            A package that the form needs is not installed.
        """
        given = {"form": form, "images": images, "classes": classes, "tolerance": tolerance}
        rest = {"task": task, "split": split, "path": as_path(path), "overwrite": overwrite}
        written: Path = self._session.call("export_as", **given, **rest)
        return written

    def import_from(self, path: str | os.PathLike[str], form: ReadName | None = None) -> list[str]:
        """Add the objects of another program's files; return names of images that are not here.

        Parameters
        ----------
        path : str or path
            A folder as `export` writes it, or the one file of the form.
        form : str, optional
            "coco", "panoptic", "yolo", "label_studio", "cvat", "labelme", "isat", "voc", "labels",
            "masks", "mots", "youtube_vis" or "davis". Default: the one that the files have.

        Images are matched by content where the files say it, by path, by name, and by name without
        suffix, where only one has it; classes by name. Missing classes are made. After an error
        nothing has changed.

        Raises
        ------
        InvalidArgumentError
            The files are something else or damaged, or none of their images is here.
        """
        return list(self._session.call("import_from", path=as_path(path), form=form))

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
        scope: Literal["image", "all"] = "image",
    ) -> None:
        """Find all that a text names, with SAM 3; arguments as for `ConceptPredictor.predict`.

        What the same text found before is replaced. With the scope "all" they are looked for in all
        images, as one edit; views are answered meanwhile. Boxes are those of the current image,
        and examples for the others, for which SAM 3 was not trained: see
        `ConceptPredictor.encode_examples`.
        """
        marks = as_marks(("boxes", "box_labels"), boxes, box_labels, 4)
        given = None if marks is None else marks.values.tolist()
        labels = None if marks is None else marks.labels.tolist()
        asked = {"text": text, "threshold": threshold, "scope": scope}
        marked = {"boxes": given or [], "box_labels": labels or []}
        if isinstance(scope, str) and scope == "all":
            self._in_steps("text", **asked, **marked)
        else:
            self._session.call("text", **asked, **marked)

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

    def stroke(
        self,
        path: ArrayLike,
        radius: float,
        *,
        add: bool = True,
        number: int | None = None,
    ) -> None:
        """Paint along a path of points (x, y); `add` False erases.

        Pixels whose middle is within `radius`, 1 to 200 pixels, of the path. Without a current
        object the brush begins one. What is painted stays on top of later answers.
        """
        self._session.call("stroke", path=_path(path), radius=radius, add=add, object=number)

    def lasso(self, path: ArrayLike, *, add: bool = True, number: int | None = None) -> None:
        """Add what a closed path of points (x, y) encloses; `add` False takes it away."""
        self._session.call("lasso", path=_path(path), add=add, object=number)

    def fill(
        self,
        area: float | None = None,
        *,
        crumbs: float = 0.0,
        number: int | None = None,
    ) -> None:
        """Fill holes of at most `area` pixels, by default the largest one; drop `crumbs`."""
        self._session.call("fill", area=area, crumbs=crumbs, object=number)

    def smooth(self, radius: float = 2.0, *, number: int | None = None) -> None:
        """Open and close a mask by a disc: thin parts and thin gaps go."""
        self._session.call("smooth", radius=radius, object=number)

    def split(self, line: ArrayLike | None = None, *, number: int | None = None) -> None:
        """Cut a mask along a line of points (x, y), or into its connected parts."""
        points = None if line is None else _path(line)
        self._session.call("split", line=points, object=number)

    def keep_found(self, indices: Sequence[int] | None = None) -> None:
        """Make masks of `everything` objects: all of them, or those of some indices.

        Where others stay, all of them are things that share no pixel: of several masks of one thing
        the best is kept. `others_stay(False)` keeps every mask as it is.
        """
        chosen = None if indices is None else list(indices)
        self._session.call("keep_found", indices=chosen)

    def repeat_from(self, index: int | None = None) -> None:
        """Find here what the words of another image found there, by default of the one before.

        New objects get the class that was used there last.
        """
        key = None if index is None else self._session.key_at(as_integer("index", index, 0))
        self._session.call("repeat_from", key=key)

    def keep_changed(self, on: bool = True) -> None:
        """Give images whose files have changed the objects that they had, if the size is the same.

        With `on` False they are held aside: the project has them still.
        """
        self._session.call("keep_changed", on=on)

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
        self._in_steps("propagate", frame=start_frame, reverse=reverse)

    @also(frame="frame_index")
    def stroke(
        self,
        frame_index: int,
        path: ArrayLike,
        radius: float,
        *,
        add: bool = True,
        number: int | None = None,
    ) -> None:
        """Paint along a path of points (x, y); `add` False erases.

        Pixels whose middle is within `radius`, 1 to 200 pixels, of the path. Without a current
        object the brush begins one. What is painted stays on top of later answers.
        """
        self._session.call(
            "stroke", path=_path(path), radius=radius, add=add, object=number, frame=frame_index
        )

    @also(frame="frame_index")
    def lasso(
        self, frame_index: int, path: ArrayLike, *, add: bool = True, number: int | None = None
    ) -> None:
        """Add what a closed path of points (x, y) encloses; `add` False takes it away."""
        self._session.call("lasso", path=_path(path), add=add, object=number, frame=frame_index)

    @also(frame="frame_index")
    def fill(
        self,
        frame_index: int,
        area: float | None = None,
        *,
        crumbs: float = 0.0,
        number: int | None = None,
    ) -> None:
        """Fill holes of at most `area` pixels, by default the largest one; drop `crumbs`."""
        self._session.call("fill", area=area, crumbs=crumbs, object=number, frame=frame_index)

    @also(frame="frame_index")
    def smooth(self, frame_index: int, radius: float = 2.0, *, number: int | None = None) -> None:
        """Open and close a mask by a disc: thin parts and thin gaps go."""
        self._session.call("smooth", radius=radius, object=number, frame=frame_index)

    @also(frame="frame_index")
    def split(
        self, frame_index: int, line: ArrayLike | None = None, *, number: int | None = None
    ) -> None:
        """Cut a mask along a line of points (x, y), or into its connected parts."""
        points = None if line is None else _path(line)
        self._session.call("split", line=points, object=number, frame=frame_index)

    @also(frame="frame_index")
    def track(
        self,
        frame_index: int | None = None,
        *,
        to: int | None = None,
        both: bool = True,
        number: int | None = None,
    ) -> None:
        """Track objects that are not locked, and wait for the end.

        Parameters
        ----------
        frame_index : int, optional
            Where to begin: from there no mask changes that a person made or checked, and none
            beyond it. Default: the first prompt, through the whole clip.
        to : int, optional
            The last frame. Default: both ends of the clip.
        both : bool
            False: forwards alone.
        number : int, optional
            Of one object. Default: all.
        """
        self._in_steps("track", frame=frame_index, to=to, both=both, object=number)

    @also(frame="frame_index")
    def track_text(self, text: str, frame_index: int | None = None) -> None:
        """Find and follow all that a text names, with SAM 3, and wait for the end.

        What is found on later frames is followed too. Each becomes an object of the class with the
        name of the text. From a frame on; by default from the first one. What was found when it is
        stopped stays, and is one step of undo.
        """
        self._in_steps("track_text", text=text, frame=frame_index)

    @also(frame="frame_index")
    def gone(self, frame_index: int, number: int | None = None) -> None:
        """Say that an object is out of sight from a frame on, until a later prompt."""
        self._session.call("gone", frame=frame_index, object=number)

    @also(frame="frame_index")
    def right(self, frame_index: int, to: int | None = None, number: int | None = None) -> None:
        """Say that masks are right, on a frame or up to `to`: tracking leaves them alone."""
        self._session.call("right", frame=frame_index, to=to, object=number)

    @also(frame="frame_index")
    def split_track(self, frame_index: int, number: int | None = None) -> None:
        """Make what an object is from a frame on another object."""
        self._session.call("split_track", frame=frame_index, object=number)

    @also(frame="frame_index")
    def remove_masks(
        self, frame_index: int, to: int | None = None, number: int | None = None
    ) -> None:
        """Take masks and prompts of an object away, on a frame or up to `to`."""
        self._session.call("remove_masks", frame=frame_index, to=to, object=number)

    def check(self) -> list[tuple[int, int, str]]:
        """Return what tracking may have got wrong: number of the object, frame, and why.

        The worst comes first.
        """
        return [(one.object, one.frame, one.text) for one in self._session.call("check")]

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
