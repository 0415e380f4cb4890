"""A whole SAM-HQ: layer by layer and masks of all kinds of prompts, and the released sizes."""

import gc
from dataclasses import replace

import numpy as np
import pytest
import sam_rlx
from support import tiny, tiny_mobile_sam, tiny_sam_hq

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity

POINTS = {"point_coords": np.array([[100.0, 60.5], [20.25, 200.0]]), "point_labels": [1, 0]}
BOX = np.array([40.0, 30.5, 210.0, 250.25])
BOXES = np.stack([BOX, [120.0, 100.0, 390.0, 300.0]])
NAMES = ("image_embedding", "logits", "iou_predictions", "low_res_masks")


@pytest.fixture(scope="module")
def sam_hq():
    return pytest.importorskip("support.upstream_sam_hq", reason="needs segment-anything-hq")


def mask_input(side, seed=5):
    return 3 * np.random.default_rng(seed).standard_normal((1, side, side)).astype(np.float32)


def cases(mask_side):
    """Prompts by name, as `predict` takes them."""
    return {
        "points": POINTS,
        "a box": {"box": BOX},
        "points and a box": {**POINTS, "box": BOX},
        "a mask": {"mask_input": mask_input(mask_side)},
        "all": {**POINTS, "box": BOX, "mask_input": mask_input(mask_side)},
    }


def run_upstream(sam_hq, network, image, prompts, **options):
    predictor = sam_hq.SamPredictor(network)
    predictor.set_image(image)
    given = {name: np.asarray(value) for name, value in prompts.items()}
    found = predictor.predict(**given, **options, return_logits=True)
    return (predictor.features.numpy(), *found)


def run_ours(predictor, prompts, **options):
    result = predictor.predict(**prompts, **options, return_logits=True)
    parts = (result.masks, result.iou_predictions, result.low_res_masks)
    if set(prompts) == {"mask_input"}:  # a mask makes a batch of one
        parts = tuple(part[0] for part in parts)
    return (predictor.image_embedding, *parts)


def compare(parity, ours, exact, single, nudged=()):
    for i, name in enumerate(NAMES):
        more = [each[i] for each in nudged] if exact[i].size < 8 else []
        parity.close(ours[i], exact[i], single[i], name, more)
    parity.masks_agree(ours[1] > 0, exact[1])


TINY_TRUNK = replace(tiny_mobile_sam.TINY, out_chans=32)
SIZES = {
    "ViT": (tiny.TINY, None),
    "TinyViT": (tiny_mobile_sam.TINY_HEADS, TINY_TRUNK),
}


@pytest.mark.parametrize("kind", SIZES)
def test_trace(parity, testing, sam_hq, tmp_path, images, kind):
    config, trunk = SIZES[kind]
    image = images["wide 400x600"]
    network = sam_hq.build(config, trunk)
    path = upstream.save_pth(tmp_path / "x.pt", tiny_sam_hq.weights(config, trunk))

    def taps(net):
        found = {}

        def call():
            run_upstream(sam_hq, net, image, POINTS)

        for name, value in upstream.record(net, call):
            value = value[0] if isinstance(value, tuple) else value
            if isinstance(value, np.ndarray):
                found[name] = np.moveaxis(value, 1, -1) if value.ndim == 4 else value
        return found

    single = taps(network)
    with upstream.float64():
        exact = taps(upstream.double(network))
    parts = [f"mask_decoder.{name}" for name in tiny_sam_hq.PARTS[1:4]]
    required = [*parts, "mask_decoder.embedding_maskfeature.2", "image_encoder.neck"]
    for isa in parity.isas:
        records = dict(
            testing.trace(str(path), image, isa=isa, image_size=config.img_size, **POINTS)
        )
        ours = {k: v for k, v in records.items() if k in required}
        shaped = [
            {k: v.reshape(ours[k].shape) for k, v in each.items() if k in ours}
            for each in (exact, single)
        ]
        parity.trace(ours, *shaped, required=required)


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("hq_token_only", [False, True])
@pytest.mark.parametrize("multimask_output", [True, False])
def test_masks(parity, sam_hq, tmp_path, images, kind, multimask_output, hq_token_only):
    config, trunk = SIZES[kind]
    options = {"multimask_output": multimask_output, "hq_token_only": hq_token_only}
    seed = 3 + 2 * multimask_output + hq_token_only
    weights = tiny_sam_hq.weights(config, trunk, seed)
    model = sam_rlx.load_model(
        upstream.save_pth(tmp_path / "x.pt", weights), image_size=config.img_size
    )
    predictor = sam_rlx.ImagePredictor(model)
    network = sam_hq.build(config, trunk, seed)
    wide = upstream.double(network)
    for name, image in (
        ("wide", images["wide 400x600"]),
        ("odd", images["wide 400x600"][:391, :263]),
    ):
        predictor.set_image(image)
        for prompt, prompts in cases(model.mask_side).items():
            ours = run_ours(predictor, prompts, **options)
            single = run_upstream(sam_hq, network, image, prompts, **options)
            with upstream.float64():
                exact = run_upstream(sam_hq, wide, image, prompts, **options)
            assert ours[1].shape == exact[1].shape == (1, *image.shape[:2]), (name, prompt)
            nudged = [
                run_upstream(sam_hq, network, image, _moved(prompts, i), **options)
                for i in range(3)
            ]
            compare(parity, ours, exact, single, nudged)


def _moved(prompts, index):
    """The prompts, moved by their last bits: how wrong float32 is on one number is luck."""
    scale = np.float32(1 + (index + 1) * 1e-7)
    return {
        name: value if name == "point_labels" else (np.asarray(value) * scale).astype(np.float32)
        for name, value in prompts.items()
    }


@pytest.mark.parametrize("hq_token_only", [False, True])
def test_batches_of_boxes(sam_hq, tmp_path, images, hq_token_only):
    """Two batches on one image equal the loop over the boxes, and upstream's."""
    weights = tiny_sam_hq.weights(seed=8)
    model = sam_rlx.load_model(upstream.save_pth(tmp_path / "x.pt", weights), image_size=128)
    predictor = sam_rlx.ImagePredictor(model)
    image = images["wide 400x600"]
    predictor.set_image(image)
    theirs = sam_hq.SamPredictor(sam_hq.build(tiny.TINY, seed=8))
    theirs.set_image(image)
    for boxes in (BOXES, BOXES[::-1] + 7.25):
        found = predictor.predict(box=boxes, hq_token_only=hq_token_only, return_logits=True)
        assert found.masks.shape == (2, 1, *image.shape[:2])
        for i, box in enumerate(boxes):
            one = predictor.predict(box=box, hq_token_only=hq_token_only, return_logits=True)
            np.testing.assert_array_equal(found.masks[i], one.masks)
        scaled = theirs.transform.apply_boxes_torch(
            upstream.torch.as_tensor(boxes), image.shape[:2]
        )
        masks, iou, _ = theirs.predict_torch(
            None, None, boxes=scaled.float(), hq_token_only=hq_token_only, return_logits=True
        )
        np.testing.assert_allclose(found.iou_predictions, iou.numpy(), atol=1e-4)
        both = (found.masks > 0, masks.numpy() > 0)
        assert (both[0] & both[1]).sum() >= 0.999 * (both[0] | both[1]).sum()


def test_everything_mode(sam_hq, tmp_path, images):
    weights = tiny.made_vivid(tiny_sam_hq.weights(seed=2))
    image = images["wide 400x600"][:233, :301]
    model = sam_rlx.load_model(upstream.save_pth(tmp_path / "x.pt", weights), image_size=128)
    options = {"points_per_side": 5, "pred_iou_thresh": 0.0, "stability_score_thresh": 0.0}
    options["box_nms_thresh"] = 1.0  # all stay: random masks look alike
    network = sam_hq.build(tiny.TINY, seed=None)
    upstream.load_state_dict(network, weights)
    for multimask_output in (True, False):
        generator = sam_rlx.MaskGenerator(model, **options, multimask_output=multimask_output)
        with upstream.stable_nms():
            theirs = sam_hq.SamAutomaticMaskGenerator(network, **options).generate(
                image, multimask_output=multimask_output
            )
        ours = {tuple(mine.point_coords[0]): mine for mine in generator.generate(image)}
        others = {tuple(other["point_coords"][0]): other for other in theirs}
        assert ours.keys() == others.keys()
        assert len(ours) == 25
        for point, mine in ours.items():
            a, b = mine.mask(), others[point]["segmentation"]
            assert (a & b).sum() >= 0.999 * (a | b).sum()
            assert abs(mine.predicted_iou - others[point]["predicted_iou"]) < 1e-4


def prompts_of_transformers(prompts, dtype):
    """Prompts in pixels of the input, for one image."""
    torch, found = upstream.torch, {}
    if "point_coords" in prompts:
        found["input_points"] = torch.as_tensor(prompts["point_coords"])[None, None].to(dtype)
        found["input_labels"] = torch.as_tensor(prompts["point_labels"])[None, None]
    if "box" in prompts:
        found["input_boxes"] = torch.as_tensor(prompts["box"]).reshape(1, -1, 4).to(dtype)
    if "mask_input" in prompts:
        found["input_masks"] = torch.as_tensor(prompts["mask_input"])[None].to(dtype)
    return found


@pytest.mark.parametrize("hq_token_only", [False, True])
@pytest.mark.parametrize("multimask_output", [True, False])
def test_masks_of_transformers(parity, tmp_path, multimask_output, hq_token_only):
    pytest.importorskip("transformers", reason="needs transformers")
    from support import hugging_face_models as hf

    options = {"multimask_output": multimask_output, "hq_token_only": hq_token_only}
    model = hf.make("SamHQModel", seed=3 + 2 * multimask_output + hq_token_only)
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(hf.save(model, tmp_path / "folder")))
    side = predictor.model.img_size
    predictor.set_image(hf.image(side))
    pixels = upstream.torch.from_numpy(hf.pixel_values("SamHQModel", hf.image(side)))
    cases = {
        "a point": {"point_coords": [[40.0, 30.5]], "point_labels": [1]},
        "points": {"point_coords": [[40.0, 30.5], [90.25, 100.0]], "point_labels": [1, 0]},
        "two boxes": {"box": np.array([[10.0, 20.5, 70.0, 90.0], [50.0, 5.0, 120.25, 60.0]])},
        "a mask": {"mask_input": mask_input(predictor.model.mask_side)},
    }
    cases["all"] = {**cases["points"], **cases["a mask"], "box": np.array([5.0, 9.0, 99.0, 80.5])}

    def run(dtype, prompts):
        given = prompts_of_transformers(prompts, dtype)
        with upstream.torch.no_grad():
            out = model.to(dtype)(pixel_values=pixels.to(dtype), **given, **options)
        return out.pred_masks[0, :, :1].numpy(), out.iou_scores[0, :, :1].numpy()

    for name, prompts in cases.items():
        found = predictor.predict(**prompts, **options)
        ours = (found.low_res_masks, found.iou_predictions)
        single = run(upstream.torch.float32, prompts)
        nudged = [run(upstream.torch.float32, _moved(prompts, i)) for i in range(3)]
        with upstream.float64():
            exact = run(upstream.torch.float64, prompts)
        for i, value in enumerate(ours):
            more = [each[i] for each in nudged] if exact[i].size < 8 else []
            shaped = value.reshape(exact[i].shape)
            parity.close(shaped, exact[i], single[i], f"{name} result {i}", more)


RELEASED = {
    "hq_vit_tiny": (tiny.VIT_B, tiny_mobile_sam.VIT_T),
    "hq_vit_b": (tiny.VIT_B, None),
    "hq_vit_l": (tiny.VIT_L, None),
    "hq_vit_h": (tiny.VIT_H, None),
}


def both_of_upstream(sam_hq, network, image):
    """Without and with `hq_token_only`; the image is encoded once."""
    predictor = sam_hq.SamPredictor(network)
    predictor.set_image(image)
    prompts = {name: np.asarray(value) for name, value in POINTS.items()}
    return [
        (
            predictor.features.numpy(),
            *predictor.predict(**prompts, hq_token_only=alone, return_logits=True),
        )
        for alone in (False, True)
    ]


@pytest.mark.slow
@pytest.mark.timeout(3600)  # ViT-H in float64, on a busy machine too
@pytest.mark.parametrize("variant", RELEASED)
def test_released_size(parity, sam_hq, tmp_path, images, variant):
    config, trunk = RELEASED[variant]
    image = images["wide 400x600"]
    weights = tiny_sam_hq.weights(config, trunk, seed=5)
    path = upstream.save_pth(tmp_path / "x.pt", weights)
    model = sam_rlx.load_model(path)
    assert (model.variant, model.image_size) == (variant, 1024)
    path.unlink()
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(image)
    ours = [run_ours(predictor, POINTS, hq_token_only=alone) for alone in (False, True)]
    del predictor, model
    gc.collect()
    network = sam_hq.build(config, trunk, seed=None)
    upstream.load_state_dict(network, weights)
    network.eval()  # makes the terms for pairs of positions of what was loaded
    del weights
    single = both_of_upstream(sam_hq, network, image)
    network.double()
    with upstream.float64():
        exact = both_of_upstream(sam_hq, network, image)
    for mine, wide, narrow in zip(ours, exact, single, strict=True):
        compare(parity, mine, wide, narrow)
