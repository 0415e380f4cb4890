"""Texts and clips, as ultralytics' pages on SAM 2 and SAM 3 show it, in our own words.

    python -m sam_rlx.compat texts_and_clips.py IMAGE CLIP SAM2_WEIGHTS SAM3_WEIGHTS

The image and the clip show a yellow disc of radius 22, first at (40, 60). Steps are functions,
which print what they found.
"""

import sys

import cv2
from ultralytics.models.sam import (
    SAM2DynamicInteractivePredictor,
    SAM2VideoPredictor,
    SAM3SemanticPredictor,
    SAM3VideoPredictor,
    SAM3VideoSemanticPredictor,
)

BOX = [18.0, 38.0, 62.0, 82.0]


def settings(model, **more):
    return {"conf": 0.25, "task": "segment", "mode": "predict", "model": model, **more}


def a_clip_by_points(image, clip, sam2, sam3):
    predictor = SAM2VideoPredictor(overrides=settings(sam2))
    one = predictor(source=clip, points=[40, 60], labels=[1])
    two = predictor(source=clip, points=[[[40, 60], [5, 5]]], labels=[[1, 0]])
    return len(one), [len(result) for result in two]


def two_objects_of_a_clip(image, clip, sam2, sam3):
    predictor = SAM2VideoPredictor(overrides=settings(sam2))
    boxes = [BOX, [100, 5, 150, 50]]
    ids = [result.boxes.id for result in predictor(source=clip, bboxes=boxes, stream=True)]
    return all(0 in part.int().tolist() for part in ids)


def objects_that_are_remembered(image, clip, sam2, sam3):
    predictor = SAM2DynamicInteractivePredictor(overrides=settings(sam2), max_obj_num=10)
    predictor(source=image, bboxes=[BOX], obj_ids=[0], update_memory=True)
    (first,) = predictor(source=image)
    predictor(source=image, points=[[130, 20]], labels=[1], obj_ids=[1], update_memory=True)
    (second,) = predictor(source=image)
    return first.boxes.id.int().tolist(), 0 in second.boxes.id.int().tolist()


def texts(image, clip, sam2, sam3):
    predictor = SAM3SemanticPredictor(overrides=settings(sam3, half=True))
    predictor.set_image(image)
    (found,) = predictor(text=["yellow circle", "green square"])
    return [found.names[number] for number in found.boxes.cls.int().tolist()]


def an_example_box(image, clip, sam2, sam3):
    predictor = SAM3SemanticPredictor(overrides=settings(sam3))
    predictor.set_image(image)
    return len(predictor(bboxes=[BOX])[0])


def features_for_another_predictor(image, clip, sam2, sam3):
    first = SAM3SemanticPredictor(overrides=settings(sam3))
    second = SAM3SemanticPredictor(overrides=settings(sam3))
    first.set_image(image)
    second.setup_model()
    shape = cv2.imread(image).shape[:2]
    masks, boxes = second.inference_features(
        first.features, src_shape=shape, text=["yellow circle"]
    )
    return tuple(masks.cpu().numpy().shape), tuple(boxes.shape)


def a_clip_by_boxes(image, clip, sam2, sam3):
    predictor = SAM3VideoPredictor(overrides=settings(sam3))
    return [len(result) for result in predictor(source=clip, bboxes=[BOX], stream=True)]


def a_clip_by_texts(image, clip, sam2, sam3):
    predictor = SAM3VideoSemanticPredictor(overrides=settings(sam3))
    found = list(predictor(source=clip, text=["yellow circle"], stream=True))
    return [result.boxes.id.int().tolist() for result in found]


def a_clip_by_an_example(image, clip, sam2, sam3):
    predictor = SAM3VideoSemanticPredictor(overrides=settings(sam3))
    return [len(result) for result in predictor(source=clip, bboxes=[BOX], labels=[1])]


STEPS = (
    a_clip_by_points,
    two_objects_of_a_clip,
    objects_that_are_remembered,
    texts,
    an_example_box,
    features_for_another_predictor,
    a_clip_by_boxes,
    a_clip_by_texts,
    a_clip_by_an_example,
)

if __name__ == "__main__":
    for step in STEPS:
        print(f"{step.__name__}: {step(*sys.argv[1:])}")
