"""simple-sam2: a long clip in batches, with points, a box and a mask."""

import shutil

import cv2
import numpy as np
import shared
import small


def prepare():
    """Write a clip and name the files."""
    small.sam2()
    from simple_sam2 import SAM2Service

    clip = str(shared.WORK / "clip.avi")
    size = shared.SIZE[::-1]
    writer = cv2.VideoWriter(clip, cv2.VideoWriter_fourcc(*"MJPG"), 10, size)
    for step in range(8):
        writer.write(np.ascontiguousarray(shared.discs(step)[..., ::-1]))
    writer.release()
    weights = shared.link(shared.WORK / "sam2.1_hiera_tiny.pt", small.SAM2)
    storage = str(shared.WORK / "storage")
    service = SAM2Service("configs/sam2.1/sam2.1_hiera_t.yaml", weights, 5, storage)
    return service, clip, storage


def work(prepared):
    """Track three objects over two batches."""
    service, clip, storage = prepared
    shutil.rmtree(storage, ignore_errors=True)
    service.init_video("clip", clip)
    given = np.zeros(shared.SIZE, bool)
    given[80:128, 176:224] = True
    first = [
        service.add_prompts("clip", 0, 1, pos_points=[[50, 60]], neg_points=[[120, 20]]),
        service.add_prompts("clip", 0, 2, pos_points=[[125, 82]], box=[98, 55, 152, 109]),
        service.add_prompts("clip", 0, 3, binary_mask=given),
    ]
    service.propagate_and_save("clip", obj_labels={"1": "red", "2": "blue", "3": "yellow"})
    saved = sorted((shared.WORK / "storage" / "clip" / "masks").glob("*.png"))
    masks = [cv2.imread(str(path), cv2.IMREAD_GRAYSCALE) > 0 for path in saved]
    return {"first": np.array(first) > 0, "tracked": np.array(masks)}


shared.run(prepare, work)
