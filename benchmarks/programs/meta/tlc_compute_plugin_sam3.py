"""3lc-compute-plugin-sam3: texts, and embeddings of the image and of what was found."""

import numpy as np
import shared
import small
from PIL import Image


def prepare():
    """Load SAM 3 from the hub's folder."""
    small.sam3()
    shared.in_hub("facebook/sam3", "sam3.pt", small.SAM3)
    from tlc_plugin_sam3 import inference

    inference._ensure_model("cpu")
    return inference


def work(module):
    """Predict for two texts, and take the features."""
    image = Image.fromarray(shared.discs())
    found = module.predict_single_image(image, ["red circle", "blue circle"], 0.3, "cpu")
    results = {"masks": np.array(found["masks"]) > 0, "scores": np.array(found["scores"])}
    again, state = module.predict_single_image_with_state(image, ["circle"], 0.3, "cpu")
    results["circles"] = np.array(again["masks"]) > 0
    results["image_embedding"] = module.get_image_embedding(state)
    results["embeddings"] = module.get_instance_embeddings(state, again["masks_tensor"])
    return results


shared.run(prepare, work, sam3=True)
