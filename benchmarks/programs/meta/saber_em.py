"""saber-em: SAM 2's everything mode with its filters, and SAM 3 with a text on an image."""

from pathlib import Path

import numpy as np
import shared
import small


def prepare():
    """Load both, from the folder of the package."""
    small.sam2()
    small.sam3()
    import open_clip
    import saber
    from saber.adapters.base import SAM3AdapterConfig
    from saber.adapters.sam2.amg import cfgAMG
    from saber.adapters.sam2.automask import build_amg
    from saber.adapters.sam3.predictor import SAM3Adapter

    folder = Path(saber.__file__).parent / "checkpoints"
    shared.link(folder / "sam2.1_hiera_small.pt", small.SAM2)
    shared.link(folder / "sam3.pt", small.SAM3)
    vocabulary = Path(open_clip.__file__).parent / "bpe_simple_vocab_16e6.txt.gz"
    shared.link(folder / vocabulary.name, str(vocabulary))
    options = cfgAMG(npoints=8, crop_n_layers=1).dict()
    every = build_amg(options, min_mask_area=20)
    return every, SAM3Adapter(SAM3AdapterConfig(min_mask_area=20), device="cpu")


def work(prepared):
    """Segment two images."""
    every, adapter = prepared
    found = every.generate(shared.photo("coins"))
    texts = adapter.segment_image_2d(shared.discs(), text_prompt="circle", threshold=0.5)
    return {
        "everything": shared.unordered(record["segmentation"] for record in found),
        "texts": np.array([record["segmentation"] for record in texts]),
    }


shared.run(prepare, work, sam3=True)
