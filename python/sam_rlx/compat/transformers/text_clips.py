"""SAM 3 on clips: all that texts name, frame by frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from sam_rlx._internal.progress import reporter
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentTypeError
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.transformers import configs
from sam_rlx.compat.transformers.batch import ModelOutput
from sam_rlx.compat.transformers.model_sam3 import Sam3Model, Sam3PreTrainedModel
from sam_rlx.compat.transformers.notes import warn_once
from sam_rlx.compat.transformers.options import LoadOptions
from sam_rlx.compat.transformers.text_sessions import Sam3VideoInferenceSession
from sam_rlx.compat.transformers.video import Sam3TrackerVideoModel
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.model import Model

# Settings that are attributes of the model, as upstream; the core takes all but the first.
SETTINGS = (
    *("low_res_mask_size", "score_threshold_detection", "det_nms_thresh", "assoc_iou_thresh"),
    *("trk_assoc_iou_thresh", "new_det_thresh", "recondition_on_trk_masks", "hotstart_delay"),
    *("hotstart_unmatch_thresh", "hotstart_dup_thresh", "suppress_unmatched_only_within_hotstart"),
    *("init_trk_keep_alive", "max_trk_keep_alive", "min_trk_keep_alive"),
    "suppress_overlapping_based_on_recent_occlusion_threshold",
    *("decrease_trk_keep_alive_for_empty_masklets", "fill_hole_area", "max_num_objects"),
    *("recondition_every_nth_frame", "high_conf_thresh", "high_iou_thresh"),
)
# What upstream leaves out without its package `kernels`.
_CLEANUP = {"det_nms_thresh": 0.0, "fill_hole_area": 0}


class Sam3VideoSegmentationOutput(ModelOutput):
    """What a clip with texts shows on a frame.

    Attributes
    ----------
    object_ids : list of int
        Objects that are followed on.
    obj_id_to_mask : dict of int to tensor
        Logits (1, h, h) float32 of each object of the frame.
    obj_id_to_score : dict of int to float
        Of all objects so far, the score they were found with; -10000: removed.
    obj_id_to_tracker_score : dict of int to float
        How sure the tracker is of each on this frame; of new ones the score of the detector.
    removed_obj_ids : set of int
        Objects that turned out to be none, on this frame or before.
    suppressed_obj_ids : set of int
        Objects that are not shown on this frame.
    frame_idx : int
        Number of the frame.
    """

    fields = (
        *("object_ids", "obj_id_to_mask", "obj_id_to_score", "obj_id_to_tracker_score"),
        *("removed_obj_ids", "suppressed_obj_ids", "frame_idx"),
    )


class Sam3VideoModel(Sam3PreTrainedModel):
    """SAM 3 on clips: all objects that texts name. Made by ``from_pretrained``.

    Its settings (``hotstart_delay``, ``new_det_thresh`` and so on) are attributes, which count for
    sessions that begin later. ``from_pretrained(..., cleanup=True)``, which is ours, drops findings
    that overlap with better ones, and fills small holes and takes small specks away from masks, as
    upstream does with its package ``kernels`` only.
    """

    config_class = configs.CLASSES["Sam3VideoConfig"]
    kinds = ("sam3_video",)
    takes_images = False
    own_options = ("cleanup",)
    # Upstream keeps the maps of memories in this type.
    _BFLOAT16_MEMORY: ClassVar[bool] = True
    hotstart_delay: int
    _cleanup = False

    @classmethod
    def rules(cls, config: Any) -> dict[str, Any]:
        """Return those of both parts; the image encoder is the detector's."""
        return {**Sam3TrackerVideoModel.rules(config), **Sam3Model.rules(config)}

    def _adopt(self, model: Model) -> None:
        self.model = model
        self._detector = Sam3Model._of(model, self.config)
        for name in SETTINGS:
            vars(self).setdefault(name, getattr(self.config, name))

    def _loaded(self, options: LoadOptions) -> None:
        self._cleanup = bool(options.rest.get("cleanup", False))

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: getattr(self, name) for name in (*SETTINGS, "_cleanup")}
        return (*super().__reduce__(), state)

    def get_text_features(self, input_ids: Any, attention_mask: Any = None) -> Any:
        """Encode texts: `Sam3Model.get_text_features`."""
        return self._detector.get_text_features(input_ids, attention_mask)

    def _rules_of_texts(self) -> dict[str, Any]:
        """Return the settings as the core takes them."""
        options = {name: getattr(self, name) for name in SETTINGS[1:]}
        return options if self._cleanup else {**options, **_CLEANUP}

    def forward(
        self,
        inference_session: Sam3VideoInferenceSession,
        frame_idx: int | None = None,
        frame: Any = None,
        reverse: bool = False,
        **_kwargs: Any,
    ) -> Sam3VideoSegmentationOutput:
        """Find what the texts of a session name on one frame, and follow what was found before.

        Parameters
        ----------
        inference_session : Sam3VideoInferenceSession
            Frames and texts.
        frame_idx : int, optional
            Number of the frame.
        frame : tensor or array, optional
            The next frame of a stream, (3, S, S), as the processor makes it. Nothing that was found
            is taken back in a stream.
        reverse : bool
            Whether frames come in reverse.
        **_kwargs
            Without effect.

        Returns
        -------
        Sam3VideoSegmentationOutput

        Raises
        ------
        ValueError
            There is no text, or neither a frame nor its number; a text is too long.
        KeyError
            There is no such frame.
        """
        if frame is not None:
            frame_idx = inference_session.add_new_frame(frame, frame_idx)
        if frame_idx is None:
            raise InvalidArgumentError(
                "frame_idx: expected the number of a frame, or a frame of a stream, found neither"
            )
        if not self._cleanup:
            warn_once(
                "Sam3VideoModel: findings that overlap, small holes and specks stay, as in "
                "transformers without its package kernels; from_pretrained(..., cleanup=True) "
                "takes them away"
            )
        with self._turns:
            found = inference_session._run(
                self, frame_idx, streaming=frame is not None, reverse=bool(reverse)
            )
        masks = {obj_id: as_result(mask[None]) for obj_id, mask in found["masks"].items()}
        return Sam3VideoSegmentationOutput(
            object_ids=found["obj_ids"],
            obj_id_to_mask=masks,
            obj_id_to_score=found["scores"],
            obj_id_to_tracker_score=found["tracker_scores"],
            removed_obj_ids=found["removed"],
            suppressed_obj_ids=found["suppressed"],
            frame_idx=frame_idx,
        )

    def propagate_in_video_iterator(
        self,
        inference_session: Sam3VideoInferenceSession,
        start_frame_idx: int = 0,
        max_frame_num_to_track: int | None = None,
        reverse: bool = False,
        show_progress_bar: bool = False,
    ) -> Iterator[Sam3VideoSegmentationOutput]:
        """Find what the texts of a session name on frame after frame.

        Parameters
        ----------
        inference_session : Sam3VideoInferenceSession
            Frames and texts.
        start_frame_idx : int
            The first frame; in reverse the one behind it.
        max_frame_num_to_track : int, optional
            So many frames after the first; in reverse, so many. Default: all.
        reverse : bool
            Whether frames come in reverse.
        show_progress_bar : bool
            Whether a bar is shown, if ``tqdm`` is installed.

        Yields
        ------
        Sam3VideoSegmentationOutput
            Of each frame what `forward` gives, ``hotstart_delay`` - 1 frames later: until then an
            object may turn out to be none.

        Raises
        ------
        TypeError
            The session is a stream.
        """
        num_frames = inference_session.num_frames
        if num_frames is None:
            raise ArgumentTypeError(
                "inference_session: expected one with frames, found a stream; give forward its "
                "frames"
            )
        count = num_frames if max_frame_num_to_track is None else max_frame_num_to_track
        if reverse:
            last = max(start_frame_idx - count, 0)
            order = range(start_frame_idx - 1, last - 1, -1)
        else:
            last = min(start_frame_idx + count, num_frames - 1)
            order = range(start_frame_idx, last + 1)
        held: list[Sam3VideoSegmentationOutput] = []
        with reporter(bool(show_progress_bar), "frame") as report:
            for done, frame_idx in enumerate(order, 1):
                found = self.forward(inference_session, frame_idx=frame_idx, reverse=reverse)
                if self.hotstart_delay > 0:
                    inference_session.hotstart_removed_obj_ids.update(found.removed_obj_ids)
                held.append(found)
                if report is not None:
                    report(done, len(order))
                shown = 1 if len(held) >= self.hotstart_delay else 0
                for _ in range(len(held) if frame_idx == last else shown):
                    yield held.pop(0)


__dir__ = public_names(__name__)
