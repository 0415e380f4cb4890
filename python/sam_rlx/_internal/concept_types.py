"""What a `ConceptPredictor` gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.printable import shown
from sam_rlx._internal.synonyms import also

# A text, or its ids.
Text: TypeAlias = str | tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RawDetections:
    """What the network gives for one text, for all of its Q queries, under upstream's names.

    Attributes
    ----------
    pred_logits : ndarray (Q,), float32
        Of the query being an instance, if there is any.
    pred_boxes : ndarray (Q, 4), float32
        (cx, cy, w, h) as fractions of the image's sides; not clipped.
    presence_logit_dec : float
        Logit of there being any instance. A score is
        ``sigmoid(pred_logits) * sigmoid(presence_logit_dec)``.
    pred_masks : ndarray (Q, S, S), float32
        Logits; S = `Model.mask_side`.
    semantic_seg : ndarray (S, S), float32
        Logits of a pixel being what the text names, instances aside.
    """

    pred_logits: NDArray[np.float32]
    pred_boxes: NDArray[np.float32]
    presence_logit_dec: float
    pred_masks: NDArray[np.float32]
    semantic_seg: NDArray[np.float32]

    def __repr__(self) -> str:
        queries, height, width = self.pred_masks.shape
        return (
            f"<RawDetections {queries} queries, masks of {height} x {width}, "
            f"presence {self.presence_logit_dec:.2f}>"
        )


@also(phrases="texts")
@dataclass(frozen=True, eq=False)
class ConceptPrediction:
    """N instances: those of the first text, then those of the second, and so on.

    Within a text they are in the order of the network's queries, as upstream: not by score.

    Attributes
    ----------
    masks : ndarray (N, H, W)
        bool at the size of the image; float32 logits with `return_logits`.
    boxes : ndarray (N, 4), float32
        (x0, y0, x1, y1) in pixels, by the network; not clipped to the image, as upstream.
    scores : ndarray (N,), float32
        0 to 1, above the threshold.
    labels : ndarray (N,), int64
        Index of the instance's text in `texts`.
    texts : tuple
        The texts of the call as they were given: str, or tuples of ids. ``"visual"`` where
        there was none.
    low_res_masks : ndarray (N, S, S), float32
        Logits at the network's resolution, S = `Model.mask_side`.
    raw : tuple of RawDetections, or None
        All that the network gave, one a text, if `raw` was asked for.
    """

    masks: NDArray[Any]
    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    labels: NDArray[np.int64]
    texts: tuple[Text, ...]
    low_res_masks: NDArray[np.float32]
    raw: tuple[RawDetections, ...] | None = None

    @property
    def names(self) -> tuple[Text, ...]:
        """The text of each instance."""
        return tuple(self.texts[label] for label in self.labels)

    @property
    def phrases(self) -> tuple[Text, ...]:
        """The same as `texts`."""
        return self.texts

    def __repr__(self) -> str:
        height, width = self.masks.shape[1:]
        counts = ", ".join(
            f"{int((self.labels == label).sum())} {shown(text)}"
            for label, text in enumerate(self.texts[:6])
        )
        more = ", ..." if len(self.texts) > 6 else ""
        return f"<ConceptPrediction {len(self.scores)} masks of {height} x {width}: {counts}{more}>"

    def _repr_png_(self) -> bytes | None:
        """Show a notebook the masks, with their texts and scores."""
        from sam_rlx._internal.drawing.previews import png

        captions = [
            f"{name} {score:.2f}" for name, score in zip(self.names, self.scores, strict=True)
        ]
        return png(self.masks, self.masks.shape[1:], captions)
