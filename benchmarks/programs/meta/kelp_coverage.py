"""kelp-coverage: batches of slices through the parts of the network, put together again."""

import numpy as np
import shared
import small
import torch

# Its other model comes from another package.
shared.stub("ultralytics", SAM=shared.unused)


def prepare():
    """Load SAM."""
    small.sam("vit_b")
    from kelp_coverage.sahisam import SAHISAM

    return SAHISAM(
        sam_checkpoint=str(shared.WEIGHTS / small.SAM),
        sam_model_type="vit_b",
        device="cpu",
        slice_size=128,
        water_lab=(96, 128, 128),
        threshold_max=60,
        uniformity_check=False,
    )


def work(base):
    """Find water on an image."""
    np.random.seed(0)  # noqa: NPY002 -- what the program draws from
    torch.manual_seed(0)
    masks, slices = base.process_image(shared.saved(shared.discs(), "sea.png"))
    return {
        "kelp": base.reconstruct_full_mask_gpu(masks, slices),
        "scores": np.array([float(score) for _, score, _ in masks]),
    }


shared.run(prepare, work)
