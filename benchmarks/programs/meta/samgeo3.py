"""segment-geospatial: SamGeo3 with a text, a batch, clicks, boxes and a mask."""

from pathlib import Path

import numpy as np
import shared
import small


def prepare():
    """Load SAM 3 with clicks."""
    small.sam3()
    import open_clip
    import samgeo

    # The vocabulary, which the program downloads; the drop-in does not read it.
    path = Path(open_clip.__file__).parent / "bpe_simple_vocab_16e6.txt.gz"
    return samgeo.SamGeo3(
        checkpoint_path=str(shared.WEIGHTS / small.SAM3),
        device="cpu",
        bpe_path=str(path),
        resolution=336,
        enable_inst_interactivity=True,
        confidence_threshold=0.4,
    )


def work(base):
    """Find circles, in an image and in a batch, and segment by prompts."""
    base.set_image(shared.discs())
    base.generate_masks("circle")
    texts = np.array([np.squeeze(mask) for mask in base.masks]) > 0
    base.generate_masks_by_boxes([[24, 34, 76, 86]])
    alike = np.array([np.squeeze(mask) for mask in base.masks]) > 0
    base.set_image_batch([shared.discs(step) for step in (0, 5, 9)])
    base.generate_masks_batch("blue circle")
    batch = {f"batch{i}": np.array(r["masks"]) > 0 for i, r in enumerate(base.batch_results)}
    base.set_image(shared.discs())
    clicked, scores, logits = base.predict_inst([[50, 60]], [1])
    best = int(np.argmax(scores))
    refined, *_ = base.predict_inst(
        [[50, 60], [125, 82]], [1, 0], mask_input=logits[best : best + 1], multimask_output=False
    )
    return {
        "texts": texts,
        "alike": alike,
        **batch,
        "clicked": np.asarray(clicked) > 0,
        "scores": scores,
        "refined": np.asarray(refined) > 0,
    }


shared.run(prepare, work, sam3=True)
