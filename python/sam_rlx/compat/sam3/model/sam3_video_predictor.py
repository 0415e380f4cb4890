"""Sessions by requests: ``sam3.model.sam3_video_predictor``."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from typing import Any, ClassVar

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.network import WithModel
from sam_rlx.compat.sam3.model.sam3_video_inference import (
    Sam3VideoInferenceWithInstanceInteractivity,
    ablation_options,
)
from sam_rlx.errors import UnsupportedError
from sam_rlx.model import load_model

_HUB_ID = "facebook/sam3"
Answer = dict[str, Any]


class Sam3VideoPredictor(WithModel):
    """Upstream's dispatcher of requests, which are dictionaries as its answers are.

    Sessions are held by the class: all predictors know those of the others.

    Parameters
    ----------
    checkpoint_path : str or path, optional
        As for `sam_rlx.load_model`. Default: ``"facebook/sam3"`` on the hub (extra ``hub``).
    bpe_path, async_loading_frames, video_loader_type
        Without effect.
    has_presence_token, geo_encoder_use_img_cross_attn, strict_state_dict_loading : bool
        True.
    apply_temporal_disambiguation : bool
        False: without the rules against errors of the detector.

    Raises
    ------
    UnsupportedError
        An argument asks for what is not offered, or the model is not SAM 3.
    """

    _ALL_INFERENCE_STATES: ClassVar[dict[str, dict[str, Any]]] = {}

    def __init__(
        self,
        checkpoint_path: str | os.PathLike[str] | None = None,
        bpe_path: str | None = None,
        has_presence_token: bool = True,
        geo_encoder_use_img_cross_attn: bool = True,
        strict_state_dict_loading: bool = True,
        async_loading_frames: bool = False,
        video_loader_type: str = "cv2",
        apply_temporal_disambiguation: bool = True,
    ) -> None:
        switches = (has_presence_token, geo_encoder_use_img_cross_attn, strict_state_dict_loading)
        if not all(switches):
            raise UnsupportedError(
                "Sam3VideoPredictor: expected has_presence_token, geo_encoder_use_img_cross_attn "
                f"and strict_state_dict_loading, found {switches}"
            )
        self.async_loading_frames = async_loading_frames
        self.video_loader_type = video_loader_type
        options = {} if apply_temporal_disambiguation else ablation_options()
        self.model = Sam3VideoInferenceWithInstanceInteractivity(
            load_model(_HUB_ID if checkpoint_path is None else checkpoint_path), **options
        )

    def handle_request(self, request: dict[str, Any]) -> Answer:
        """Answer ``start_session``, ``add_prompt``, ``remove_object`` and ``reset_session``.

        And ``close_session``. The fields are upstream's.
        """
        kind = request["type"]
        if kind == "start_session":
            return self.start_session(request["resource_path"], request.get("session_id"))
        if kind == "add_prompt":
            return self.add_prompt(
                session_id=request["session_id"],
                frame_idx=request["frame_index"],
                text=request.get("text"),
                points=request.get("points"),
                point_labels=request.get("point_labels"),
                bounding_boxes=request.get("bounding_boxes"),
                bounding_box_labels=request.get("bounding_box_labels"),
                obj_id=request.get("obj_id"),
            )
        if kind == "remove_object":
            user = request.get("is_user_action", True)
            return self.remove_object(request["session_id"], request["obj_id"], user)
        if kind == "reset_session":
            return self.reset_session(request["session_id"])
        if kind == "close_session":
            return self.close_session(request["session_id"])
        raise RuntimeError(f"type: expected the name of a request, found {kind!r}")

    def handle_stream_request(self, request: dict[str, Any]) -> Iterator[Answer]:
        """Answer ``propagate_in_video``, frame by frame."""
        if request["type"] != "propagate_in_video":
            raise RuntimeError(f"type: expected propagate_in_video, found {request['type']!r}")
        yield from self.propagate_in_video(
            session_id=request["session_id"],
            propagation_direction=request.get("propagation_direction", "both"),
            start_frame_idx=request.get("start_frame_index"),
            max_frame_num_to_track=request.get("max_frame_num_to_track"),
        )

    def start_session(self, resource_path: Any, session_id: str | None = None) -> Answer:
        """Begin a session: see `init_state` of the model."""
        state = self.model.init_state(resource_path)
        session_id = session_id or str(uuid.uuid4())
        self._ALL_INFERENCE_STATES[session_id] = {"state": state, "session_id": session_id}
        return {"session_id": session_id}

    def add_prompt(
        self,
        session_id: str,
        frame_idx: int,
        text: str | None = None,
        points: Any = None,
        point_labels: Any = None,
        bounding_boxes: Any = None,
        bounding_box_labels: Any = None,
        obj_id: int | None = None,
    ) -> Answer:
        """Add a text, a box or points: see `add_prompt` of the model."""
        frame_idx, outputs = self.model.add_prompt(
            self._get_session(session_id),
            frame_idx,
            text_str=text,
            boxes_xywh=bounding_boxes,
            box_labels=bounding_box_labels,
            points=points,
            point_labels=point_labels,
            obj_id=obj_id,
        )
        return {"frame_index": frame_idx, "outputs": outputs}

    def remove_object(self, session_id: str, obj_id: int, is_user_action: bool = True) -> Answer:
        """Forget an object."""
        self.model.remove_object(self._get_session(session_id), obj_id, is_user_action)
        return {"is_success": True}

    def propagate_in_video(
        self,
        session_id: str,
        propagation_direction: str,
        start_frame_idx: int | None,
        max_frame_num_to_track: int | None,
    ) -> Iterator[Answer]:
        """Run frames forward, backward, or first forward and then backward ("both")."""
        state = self._get_session(session_id)
        if propagation_direction not in ("both", "forward", "backward"):
            raise ValueError(
                f"propagation_direction: expected both, forward or backward, "
                f"found {propagation_direction!r}"
            )
        for reverse, name in ((False, "forward"), (True, "backward")):
            if propagation_direction not in ("both", name):
                continue
            for frame_idx, outputs in self.model.propagate_in_video(
                state, start_frame_idx, max_frame_num_to_track, reverse
            ):
                yield {"frame_index": frame_idx, "outputs": outputs}

    def reset_session(self, session_id: str) -> Answer:
        """Make a session what it was at first."""
        self.model.reset_state(self._get_session(session_id))
        return {"is_success": True}

    def close_session(self, session_id: str) -> Answer:
        """Forget a session, if there is one."""
        self._ALL_INFERENCE_STATES.pop(session_id, None)
        return {"is_success": True}

    def _get_session(self, session_id: str) -> dict[str, Any]:
        session = self._ALL_INFERENCE_STATES.get(session_id)
        if session is None:
            raise RuntimeError(f"session_id: expected a session that is open, found {session_id!r}")
        state: dict[str, Any] = session["state"]
        return state

    def shutdown(self) -> None:
        """Forget all sessions."""
        self._ALL_INFERENCE_STATES.clear()


__dir__ = public_names(__name__)
