"""`ImagePredictor` from image to masks, beside upstream's `SamPredictor`."""

import numpy as np
import pytest
import sam_rlx
from support import tiny

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def model(tiny_checkpoint):
    return sam_rlx.load_model(tiny_checkpoint)


@pytest.fixture(scope="module")
def references():
    """Upstream's predictors in float32 and in float64, with the weights of `tiny_checkpoint`."""
    single = upstream.build_sam(tiny.TINY, seed=0)
    return upstream.sam.SamPredictor(single), upstream.sam.SamPredictor(upstream.double(single))


class Session:
    """One image, set on ours and on both references."""

    def __init__(self, model, references, image):
        self.ours = sam_rlx.ImagePredictor(model)
        self.single, self.exact = references
        self.ours.set_image(image)
        self.single.set_image(image)
        with upstream.float64():
            self.exact.set_image(image)

    def predict(self, **prompts):
        """Upstream's (logits, scores, low-resolution logits), in float32 and in float64."""
        single = self.single.predict(**prompts, return_logits=True)
        with upstream.float64():
            exact = self.exact.predict(**prompts, return_logits=True)
        return single, exact


def check(parity, session, **prompts):
    """Compare one prompt set, and return the scores of ours and of both references.

    The rule takes PyTorch's own error as its measure. One to three scores are too few to have one:
    PyTorch may get them right by luck. So the caller compares them for many prompts at once.
    """
    single, exact = session.predict(**prompts)
    if "mask_input" in prompts:  # a leading axis is a batch to ours
        prompts["mask_input"] = prompts["mask_input"][0]
    logits = session.ours.predict(**prompts, return_logits=True)
    parity.close(logits.low_res_masks, exact[2], single[2], "low_res_masks")
    parity.close(logits.masks, exact[0], single[0], "logits")
    result = session.ours.predict(**prompts)
    parity.masks_agree(result.masks, exact[0])
    parity.same_bits(result.low_res_masks, logits.low_res_masks, "low_res_masks")
    return logits.iou_predictions, exact[1], single[1]


def prompts_for(image):
    """Every combination of prompts, at positions of this image. Ours refuses to go without any."""
    height, width = image.shape[:2]
    one = {"point_coords": np.array([[0.4 * width, 0.6 * height]]), "point_labels": np.array([1])}
    rng = np.random.default_rng(5)
    many = {
        "point_coords": rng.uniform(-0.1, 1.1, (17, 2)) * (width, height),
        "point_labels": rng.integers(0, 2, 17),
    }
    box = {"box": np.array([0.1 * width, 0.2 * height, 0.9 * width, 0.75 * height])}
    mask = {"mask_input": 6 * rng.standard_normal((1, 32, 32), np.float32)}
    return {
        "point": one,
        "points": many,
        "box": box,
        "mask": mask,
        "point+box": one | box,
        "point+mask": one | mask,
        "box+mask": box | mask,
        "points+box+mask": many | box | mask,
    }


IMAGES = (
    "square 512x512",
    "wide 400x600",
    "tall 451x300",
    "odd 303x384",
    "tiny 7x5",
    "one column 120x1",
    "one row 1x90",
)


@pytest.mark.parametrize("chosen", IMAGES)
def test_predict(parity, model, references, images, chosen):
    image = images[chosen]
    session = Session(model, references, image)
    scores = [
        check(parity, session, **prompts, multimask_output=multimask_output)
        for prompts in prompts_for(image).values()
        for multimask_output in (True, False)
    ]
    parity.close(*map(np.concatenate, zip(*scores, strict=True)), "iou_predictions")


@pytest.mark.parametrize("chosen", IMAGES)
def test_image_embedding(parity, model, references, images, chosen):
    session = Session(model, references, images[chosen])
    exact, single = session.exact.features.numpy(), session.single.features.numpy()
    parity.close(session.ours.image_embedding, exact, single, "image_embedding")


def test_mask_of_one_click_refines_the_next(parity, model, references, images):
    session = Session(model, references, images["wide 400x600"])
    click = {"point_coords": np.array([[250.0, 130.0]]), "point_labels": np.array([1])}
    first = session.ours.predict(**click)
    best = int(np.argmax(first.iou_predictions))
    mask_input = first.low_res_masks[best : best + 1]
    ours, exact, _ = check(parity, session, **click, mask_input=mask_input, multimask_output=False)
    assert ours == pytest.approx(exact, abs=1e-5)


def batches(rng):
    coords, labels = rng.uniform(0, 300, (5, 3, 2)), rng.choice([1, 0, -1], (5, 3))
    boxes = np.sort(rng.uniform(0, 300, (5, 2, 2)), axis=1).reshape(5, 4)
    masks = 6 * rng.standard_normal((5, 32, 32), np.float32)
    points = {"point_coords": coords, "point_labels": labels}
    return {
        "points": points,
        "boxes": {"box": boxes},
        "points+boxes+masks": {**points, "box": boxes, "mask_input": masks},
    }


@pytest.mark.parametrize("kind", ["points", "boxes", "points+boxes+masks"])
def test_batch(parity, model, references, images, kind):
    """Many prompt sets in one call: upstream's `predict_torch`."""
    session = Session(model, references, images["tall 451x300"])
    prompts = batches(np.random.default_rng(7))[kind]

    def reference(predictor, dtype):
        hw, transform = predictor.original_size, predictor.transform
        given = {}
        if "point_coords" in prompts:
            coords = transform.apply_coords(prompts["point_coords"], hw)
            given["point_coords"] = upstream.tensor(coords, dtype)
        if "box" in prompts:
            given["boxes"] = upstream.tensor(transform.apply_boxes(prompts["box"], hw), dtype)
        if "mask_input" in prompts:
            given["mask_input"] = upstream.tensor(prompts["mask_input"][:, None], dtype)
        labels = upstream.tensor(prompts["point_labels"]) if "point_labels" in prompts else None
        given.setdefault("point_coords", None)
        return upstream.array(
            predictor.predict_torch(**given, point_labels=labels, return_logits=True)
        )

    torch = pytest.importorskip("torch")
    single = reference(session.single, torch.float32)
    with upstream.float64():
        exact = reference(session.exact, torch.float64)
    ours = session.ours.predict(**prompts)
    parity.close(ours.low_res_masks, exact[2], single[2], "low_res_masks")
    parity.close(ours.iou_predictions, exact[1], single[1], "iou_predictions")
    parity.masks_agree(ours.masks, exact[0])


@pytest.mark.parametrize("kind", ["points", "boxes", "points+boxes+masks"])
def test_batch_equals_the_loop(parity, model, images, kind):
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(images["tall 451x300"])
    prompts = batches(np.random.default_rng(7))[kind]
    together = predictor.predict(**prompts)
    for i in range(5):
        alone = predictor.predict(**{key: value[i] for key, value in prompts.items()})
        parity.same_bits(together.low_res_masks[i], alone.low_res_masks, f"prompt {i}")
        parity.same_bits(together.iou_predictions[i], alone.iou_predictions, f"prompt {i}")
        parity.same_bits(together.masks[i], alone.masks, f"prompt {i}")


@pytest.mark.parametrize("num_threads", [2, 3])
def test_thread_count_changes_no_bit(parity, model, images, num_threads):
    click = {"point_coords": [[100.0, 60.0]], "point_labels": [1]}

    def run(threads):
        predictor = sam_rlx.ImagePredictor(model, num_threads=threads)
        predictor.set_image(images["odd 303x384"])
        result = predictor.predict(**click, return_logits=True)
        return predictor.image_embedding, result.masks, result.iou_predictions

    parity.same_bits(run(1), run(num_threads), "result")
