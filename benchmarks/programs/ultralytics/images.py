"""Images, as ultralytics' pages on SAM, SAM 2 and MobileSAM show it, in our own words.

    python -m sam_rlx.compat images.py IMAGE WEIGHTS FOLDER

Steps are functions, which print what they found. FOLDER gets files.
"""

import sys
from pathlib import Path

import numpy as np
from ultralytics import SAM
from ultralytics.data.annotator import auto_annotate
from ultralytics.models.sam import Predictor


def image_and_model(image, weights, folder):
    model = SAM(weights)
    layers, parameters, *_ = model.info(verbose=False)
    results = model(image, bboxes=[160, 20, 420, 330])
    return layers >= 0, parameters > 0, len(results[0].masks)


def one_point(image, weights, folder):
    results = SAM(weights).predict(image, points=[300, 150], labels=[1])
    return results[0].masks.data.shape[0]


def points_of_two_objects(image, weights, folder):
    results = SAM(weights)(image, points=[[300, 150], [60, 60]], labels=[1, 1], conf=0.0)
    return len(results[0])


def points_of_one_object(image, weights, folder):
    results = SAM(weights)(image, points=[[[300, 150], [60, 60]]], labels=[[1, 0]])
    mask = results[0].masks.data[0].cpu().numpy()
    return bool(mask[150, 300]), bool(mask[60, 60])


def several_boxes_of_a_detector(image, weights, folder):
    boxes = [[160, 20, 420, 330], [10, 10, 110, 100]]
    (result,) = SAM(weights)(image, bboxes=np.array(boxes, np.float32), conf=0.0)
    return [np.round(box).astype(int).tolist() for box in result.boxes.xyxy.numpy()]


def everything(image, weights, folder):
    model = SAM(weights)
    return len(model(image)) == 1, sum(len(result) for result in model([image], stream=True))


def a_predictor(image, weights, folder):
    overrides = {"conf": 0.25, "task": "segment", "mode": "predict", "model": weights}
    predictor = Predictor(overrides=overrides)
    predictor.set_image(image)
    found = [
        len(predictor(bboxes=[160, 20, 420, 330])[0]),
        len(predictor(points=[300, 150], labels=[1])[0]),
    ]
    predictor.reset_image()
    found.append(len(predictor(source=image, crop_n_layers=1, points_stride=8)) == 1)
    return found


def results_by_hand(image, weights, folder):
    (result,) = SAM(weights)(image, points=[300, 150], labels=[1])
    outlines = [outline.shape[1] for outline in result.masks.xy]
    names = [result.names[number] for number in result.boxes.cls.int().tolist()]
    drawn = result.plot()
    result.save(str(folder / "drawn.jpg"))
    result.save_txt(folder / "drawn.txt")
    result.save_crop(folder / "crops")
    keys = sorted(result.summary()[0])
    return outlines, names, drawn.shape == result.orig_img.shape, keys


def label_files(image, weights, folder):
    images = folder / "images"
    images.mkdir()
    (images / "a.jpg").write_bytes(Path(image).read_bytes())

    def detector(pixels):
        return np.array([[160, 20, 420, 330, 0.9, 3]])

    auto_annotate(images, det_model=detector, sam_model=weights)
    text = (folder / "images_auto_annotate_labels" / "a.txt").read_text()
    return text.split()[0], len(text.splitlines())


STEPS = (
    image_and_model,
    one_point,
    points_of_two_objects,
    points_of_one_object,
    several_boxes_of_a_detector,
    everything,
    a_predictor,
    results_by_hand,
    label_files,
)

if __name__ == "__main__":
    path, weights, folder = sys.argv[1:]
    for step in STEPS:
        print(f"{step.__name__}: {step(path, weights, Path(folder))}")
