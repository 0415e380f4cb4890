"""SAM 3 on images by ours."""

from __future__ import annotations

import itertools
from typing import Any

from rivals import Task
from workloads import Workload, sample_image, sample_texts, scores_of, threshold_for


def prepare(workload: Workload, model: Any, threads: int) -> Task:
    import sam_rlx

    # As the other engines do on a CPU.
    predictor = sam_rlx.ConceptPredictor(model, threads, resize="integer")
    image = sample_image(workload.side, workload.side)
    words = sample_texts(max(1, workload.prompts))

    def scores() -> Any:
        """Scores of the first text. Masks of nothing are made at the image's size."""
        (raw,) = predictor.predict(text=words[0], threshold=1.0, raw=True).raw
        return scores_of(raw.pred_logits, raw.presence_logit_dec)

    if workload.name == "sam3-encoder":
        return Task(lambda: predictor.set_image(image), lambda _: scores())
    if workload.name == "sam3-text":
        return _text(predictor, image, scores, sam_rlx.Tokenizer()(words))
    predictor.set_image(image)
    threshold = threshold_for(scores())
    return Task(
        lambda: predictor.predict(text=words, threshold=threshold),
        lambda found: found.scores[found.labels == 0],
    )


def _text(predictor: Any, image: Any, scores: Any, ids: Any) -> Task:
    """Read a text that is as long as the one, and new each time: known ones cost nothing."""
    others = itertools.count(1000)

    def encode() -> None:
        ids[0, 1] = next(others)
        predictor._core.encode_text(ids)

    def sample(_: Any) -> Any:
        predictor.set_image(image)
        return scores()

    return Task(encode, sample)
