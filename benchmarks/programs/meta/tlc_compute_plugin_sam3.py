"""3lc-compute-plugin-sam3: texts, and embeddings of the image and of what was found."""

import numpy as np
import shared
import small
from PIL import Image

# The server of its page.
as_it_is = lambda *_, **__: lambda function: function  # noqa: E731
shared.stub("litestar", Response=object, get=as_it_is, post=as_it_is)
shared.stub("litestar.params", FromPath=object)


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
    return results | shared.part("embeddings", lambda: embeddings(module, state, again))


def embeddings(module, state, found):
    """Return the features of the image and of each mask, which are means of the backbone's maps."""
    return {
        "image_embedding": module.get_image_embedding(state),
        "embeddings": module.get_instance_embeddings(state, found["masks_tensor"]),
    }


shared.run(prepare, work, sam3=True)
