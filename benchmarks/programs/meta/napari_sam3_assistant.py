"""napari-sam3-assistant: its adapter on a CPU, with a text, examples, boxes, clicks and a mask."""

import numpy as np
import shared
import small


def prepare():
    """Load SAM 3 with clicks."""
    small.sam3()
    from napari_sam3_assistant.adapters.sam3_backend import Sam3Adapter, Sam3AdapterConfig

    path = shared.link(shared.WORK / "sam3.pt", small.SAM3)
    config = Sam3AdapterConfig(checkpoint_path=shared.Path(path), device="cpu")
    adapter = Sam3Adapter(config)
    adapter.load_image(enable_instance_interactivity=True)
    return adapter


def work(adapter):
    """Run each task of an image."""
    from napari_sam3_assistant.core import models

    image = shared.discs()
    task, prompt = models.Sam3Task, models.PromptBundle
    chosen = models.ImageSelection("discs", image.shape, None, 2, (0, 1))
    box = models.BoxPrompt(34.0, 24.0, 86.0, 76.0)
    given = np.zeros(shared.SIZE, np.uint8)
    given[60:104, 102:148] = 1
    bundles = {
        "text": prompt(task.TEXT, chosen, text=models.TextPrompt("segment all circle")),
        "examples": prompt(task.EXEMPLAR, chosen, boxes=[box]),
        "boxes": prompt(task.SEGMENT_2D, chosen, boxes=[box]),
        "points": prompt(task.REFINE, chosen, points=[models.PointPrompt(60.0, 50.0)]),
        "mask": prompt(task.REFINE, chosen, masks=[models.MaskPrompt(given)]),
    }
    found = {name: adapter.run_image(image, bundle).masks for name, bundle in bundles.items()}
    return {name: np.asarray(masks) > 0 for name, masks in found.items()}


shared.run(prepare, work, sam3=True)
