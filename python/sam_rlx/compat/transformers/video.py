"""Models that follow clicked objects through clips."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from sam_rlx._internal.progress import reporter
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.transformers import configs
from sam_rlx.compat.transformers.batch import ModelOutput
from sam_rlx.compat.transformers.sam2_models import Sam2PreTrainedModel
from sam_rlx.compat.transformers.video_sessions import Sam2VideoInferenceSession
from sam_rlx.errors import InvalidArgumentError


class Sam2VideoSegmentationOutput(ModelOutput):
    """What a clip shows on a frame.

    Attributes
    ----------
    object_ids : list
        Names of all objects.
    pred_masks : tensor
        Logits (N, 1, s, s) float32, a quarter of the model's input as wide.
    object_score_logits : tensor
        (N, 1) float32: below 0 the object is not there.
    frame_idx : int
        Number of the frame.
    """

    fields = ("object_ids", "pred_masks", "object_score_logits", "frame_idx")


class Sam3TrackerVideoSegmentationOutput(Sam2VideoSegmentationOutput):
    """The same of SAM 3."""


class EdgeTamVideoSegmentationOutput(Sam2VideoSegmentationOutput):
    """The same of EdgeTAM."""


class FollowsClicks(Sam2PreTrainedModel):
    """What the models of clips have in common; the core runs a frame at a time."""

    takes_images = True

    # Upstream keeps the maps of memories in this type.
    _BFLOAT16_MEMORY: ClassVar[bool] = True
    # Whether `run_mem_encoder` has an effect.
    _SKIPS_MEMORIES: ClassVar[bool] = True
    _OUTPUT: ClassVar[type[ModelOutput]] = Sam2VideoSegmentationOutput

    def forward(  # type: ignore[override]
        self,
        inference_session: Sam2VideoInferenceSession,
        frame_idx: int | None = None,
        frame: Any = None,
        reverse: bool = False,
        run_mem_encoder: bool = True,
        **_kwargs: Any,
    ) -> Any:
        """Find the objects of a session on one frame.

        Parameters
        ----------
        inference_session : Sam2VideoInferenceSession
            Frames, and objects with prompts.
        frame_idx : int, optional
            Number of the frame.
        frame : tensor or array, optional
            The next frame of a stream, (3, S, S), as the processor makes it.
        reverse : bool
            Whether frames come in reverse.
        run_mem_encoder : bool
            False: the frame leaves no memory; EdgeTAM's does, as upstream.
        **_kwargs
            Without effect.

        Returns
        -------
        Sam2VideoSegmentationOutput
            Of all objects, in the order in which they came.

        Raises
        ------
        ValueError
            A stream whose session has no object; an object without any prompt that was run.
        KeyError
            There is no such frame.
        """
        if frame is not None:
            frame_idx = inference_session.add_new_frame(frame, frame_idx)
            if inference_session.get_obj_num() == 0:
                raise InvalidArgumentError(
                    "frame: expected a session with an object, found none; give it prompts first"
                )
        with self._turns:
            masks, scores = inference_session._run(
                self.model,
                frame_idx,
                streaming=frame is not None,
                reverse=reverse,
                remember=bool(run_mem_encoder) or not self._SKIPS_MEMORIES,
                bfloat16_memory=self._BFLOAT16_MEMORY,
            )
        return self._OUTPUT(
            object_ids=list(inference_session.obj_ids),
            pred_masks=as_result(masks[:, None]),
            object_score_logits=as_result(scores[:, None]),
            frame_idx=frame_idx,
        )

    def propagate_in_video_iterator(
        self,
        inference_session: Sam2VideoInferenceSession,
        start_frame_idx: int | None = None,
        max_frame_num_to_track: int | None = None,
        reverse: bool = False,
        show_progress_bar: bool = False,
    ) -> Iterator[Any]:
        """Find the objects of a session on frame after frame.

        Parameters
        ----------
        inference_session : Sam2VideoInferenceSession
            Frames, and objects with prompts.
        start_frame_idx : int, optional
            The first frame. Default: the first one whose prompts were run.
        max_frame_num_to_track : int, optional
            So many frames after the first. Default: all.
        reverse : bool
            Whether frames come in reverse; from frame 0 there are none then.
        show_progress_bar : bool
            Whether a bar is shown, if ``tqdm`` is installed.

        Yields
        ------
        Sam2VideoSegmentationOutput
            Of each frame what `forward` gives.

        Raises
        ------
        ValueError
            No prompt was run, and no first frame is given.
        """
        order = frames_in_order(inference_session, start_frame_idx, max_frame_num_to_track, reverse)
        with reporter(bool(show_progress_bar), "frame") as report:
            for done, frame_idx in enumerate(order, 1):
                yield self.forward(inference_session, frame_idx=frame_idx, reverse=reverse)
                if report is not None:
                    report(done, len(order))


def frames_in_order(
    session: Sam2VideoInferenceSession, start: int | None, count: int | None, reverse: bool
) -> range:
    """Return the numbers of the frames that a run through a clip goes to."""
    if start is None:
        prompted = [
            frame_idx
            for outputs in session.output_dict_per_obj.values()
            for frame_idx in outputs["cond_frame_outputs"]
        ]
        if not prompted:
            raise InvalidArgumentError(
                "start_frame_idx: expected a number, or a frame with prompts that was run before, "
                "found neither"
            )
        start = min(prompted)
    num_frames = session.num_frames or 0
    count = num_frames if count is None else count
    if not reverse:
        return range(start, min(start + count, num_frames - 1) + 1)
    return range(start, max(start - count, 0) - 1, -1) if start > 0 else range(0)


class Sam2VideoModel(FollowsClicks):
    """SAM 2 on clips: objects that were clicked, frame by frame. Made by ``from_pretrained``."""

    config_class = configs.CLASSES["Sam2VideoConfig"]
    kinds = ("sam2_video",)
    kinds_in_part = ("sam2",)


class EdgeTamVideoModel(FollowsClicks):
    """EdgeTAM on clips: objects that were clicked. Made by ``from_pretrained``.

    A mask of one object beside points of another, which upstream fails on, is taken.
    """

    config_class = configs.CLASSES["EdgeTamVideoConfig"]
    kinds = ("edgetam_video",)
    kinds_in_part = ("edgetam",)
    _BFLOAT16_MEMORY = False
    _SKIPS_MEMORIES = False
    _OUTPUT = EdgeTamVideoSegmentationOutput


class Sam3TrackerVideoModel(FollowsClicks):
    """SAM 3 on clips: objects that were clicked, frame by frame. Made by ``from_pretrained``.

    A folder of `Sam3VideoModel` serves, too.
    """

    config_class = configs.CLASSES["Sam3TrackerVideoConfig"]
    kinds = ("sam3_tracker_video", "sam3_video")
    kinds_in_part = ("sam3_tracker",)
    _OUTPUT = Sam3TrackerVideoSegmentationOutput

    @classmethod
    def rules(cls, config: Any) -> dict[str, Any]:
        """Return those of SAM 2, of the part of the settings that is the tracker's."""
        return super().rules(getattr(config, "tracker_config", config))


__dir__ = public_names(__name__)
