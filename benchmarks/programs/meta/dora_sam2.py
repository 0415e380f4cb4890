"""dora-sam2: its node, which gets an image, boxes and points from a stub and sends masks."""

from typing import ClassVar

import numpy as np
import pyarrow as pa
import shared
import small


class Node:
    """Stands for dora's node: three events, and what is sent is kept."""

    sent: ClassVar[list] = []

    def __iter__(self):
        """Yield an image, boxes on it, and points on it."""
        image = shared.photo()
        sizes = {"encoding": "rgb8", "width": image.shape[1], "height": image.shape[0]}
        yield self._event("image", pa.array(image.ravel()), sizes)
        boxes = pa.array(np.array([70.0, 30, 190, 150, 20, 20, 120, 100]))
        yield self._event("boxes2d", boxes, {"encoding": "xyxy", "image_id": "image"})
        points = pa.array(np.array([40.0, 30, 128, 85]))  # the first is background: labels count
        yield self._event("points", points, {"image_id": "image"})

    def _event(self, name, value, metadata):
        return {"type": "INPUT", "id": name, "value": value, "metadata": metadata}

    def send_output(self, _name, value, metadata):
        """Keep masks."""
        shape = (-1, metadata["height"], metadata["width"])
        self.sent.append(value.to_numpy(zero_copy_only=False).reshape(shape))


shared.stub("dora", Node=Node)


def prepare():
    """Load SAM 2 from the hub's folder, which the program does at its import."""
    small.sam2()
    shared.in_hub("facebook/sam2-hiera-large", "sam2_hiera_large.pt", small.SAM2)
    from dora_sam2 import main

    return main


def work(module):
    """Run the node."""
    Node.sent.clear()
    module.main()
    boxes, points = Node.sent
    return {"boxes": boxes, "points": points}


shared.run(prepare, work)
