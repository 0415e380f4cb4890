"""Checkpoints of HQ-SAM 2: sizes from the tensors, other kinds of files, damage, embeddings."""

import numpy as np
import pytest
import sam_rlx
from safetensors.numpy import save_file
from sam_rlx import CheckpointError, InvalidArgumentError, UnsupportedError, _core
from support import tiny_sam2, tiny_sam_hq

CONFIG = tiny_sam2.TINY
HEAD = "sam_mask_decoder."
IMAGE = np.random.default_rng(3).integers(0, 256, (90, 133, 3), np.uint8)
CLICK = {"point_coords": [[60, 40]], "point_labels": [1]}
[ROW] = (row for row in _core.releases() if row["variant"] == "hq_hiera_l")


@pytest.fixture(scope="module")
def weights():
    return tiny_sam_hq.sam2_weights()


@pytest.fixture(scope="module")
def path(tmp_path_factory, weights):
    path = tmp_path_factory.mktemp("hq_sam2") / "x.safetensors"
    return tiny_sam2.save_safetensors(path, CONFIG, weights)


def predictor_of(source, **options):
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(source, **options))
    predictor.set_image(IMAGE)
    return predictor


def results(source, **options):
    predictor = predictor_of(source, **options)
    both = [predictor.predict(**CLICK, hq_token_only=alone).low_res_masks for alone in (0, 1)]
    return [*predictor.image_embeddings, *both]


def save_zeros(path, shapes):
    """Write a file of half-precision zeros: the sizes alone count."""
    save_file({name: np.zeros(shape, np.float16) for name, shape in shapes.items()}, path)
    return path


def test_the_released_file(tmp_path):
    """Sizes and names of the public code's network; its numbers and little else are the bytes."""
    assert (ROW["file"], ROW["version"]) == ("sam2.1_hq_hiera_large.pt", "2.1")
    assert "SysCV/sam-hq" in ROW["source"]
    shapes = tiny_sam_hq.sam2_shapes(tiny_sam2.VARIANTS["hiera_l"])
    added = tiny_sam_hq.token_shapes(256, HEAD)
    count = sum(int(np.prod(shape)) for shape in shapes.values())
    assert sum(int(np.prod(shape)) for shape in added.values()) == 177_152
    assert round(count / 1e6, 1) == 224.6  # 224.4 million without them
    assert 0 < ROW["bytes"] - 4 * count < 400_000
    path = save_zeros(tmp_path / "x.safetensors", shapes)
    model = sam_rlx.load_model(path, variant="hq_hiera_l")
    assert (model.family, model.variant, model.version) == ("sam2", "hq_hiera_l", "2.1")
    assert (model.image_size, model.supports_video) == (1024, True)
    with pytest.raises(CheckpointError) as caught:
        sam_rlx.load_model(path, variant="hiera_l")
    assert str(caught.value) == (
        "variant hiera_l: sam_mask_decoder: expected SAM 2's, without the HQ token, found HQ-SAM "
        "2's (the file is hq_hiera_l)"
    )
    save_zeros(path, {name: shape for name, shape in shapes.items() if name not in added})
    assert sam_rlx.load_model(path).variant == "hiera_l"
    with pytest.raises(CheckpointError, match="expected HQ-SAM 2's, found SAM 2's, without"):
        sam_rlx.load_model(path, variant="hq_hiera_l")


def test_the_config_tells(path):
    model = sam_rlx.load_model(path)
    assert (model.family, model.variant, model.version) == ("sam2", "tiny", "2.1")
    assert model.config["mask_decoder"]["hq"] is True
    assert sam_rlx.load_model("sam2-nano").config["mask_decoder"]["hq"] is False


def test_hq_token_only_is_asked_of_hq_models_alone():
    predictor = predictor_of("sam2-nano")
    message = "hq_token_only: expected false, or a model of SAM-HQ or HQ-SAM 2, found sam2 "
    with pytest.raises(InvalidArgumentError, match=message):
        predictor.predict(**CLICK, hq_token_only=True)


def test_masks_are_sums(path):
    """Each of the three has the logits of the HQ token on top, which it has alone too."""
    predictor = predictor_of(path)
    found = {
        (many, alone): predictor.predict(**CLICK, multimask_output=many, hq_token_only=alone)
        for many in (True, False)
        for alone in (True, False)
    }
    shapes = {key: result.masks.shape[0] for key, result in found.items()}
    assert shapes == {(True, True): 1, (True, False): 3, (False, True): 1, (False, False): 1}
    for result in found.values():
        assert result.iou_predictions.shape == result.masks.shape[:1]
    # The HQ token's own mask does not depend on which of SAM 2's is chosen.
    np.testing.assert_array_equal(found[True, True].low_res_masks, found[False, True].low_res_masks)
    assert found[True, True].iou_predictions == found[True, False].iou_predictions.max()
    assert found[False, True].iou_predictions == found[False, False].iou_predictions
    parts = found[True, False].low_res_masks - found[True, True].low_res_masks
    assert np.abs(parts[0] - parts[1]).max() > 0.1


def test_embeddings_bring_everything_back(path, tmp_path):
    predictor = predictor_of(path)
    truth = predictor.predict(**CLICK).low_res_masks
    predictor.save_embedding(tmp_path / "x.safetensors")
    other = sam_rlx.ImagePredictor(predictor.model)
    other.load_embedding(tmp_path / "x.safetensors")
    np.testing.assert_array_equal(other.predict(**CLICK).low_res_masks, truth)


@pytest.mark.parametrize("alone", [False, True])
def test_everything_mode_is_the_predictor(path, alone):
    """Masks of each point, of all that pass the thresholds."""
    model = sam_rlx.load_model(path)
    options = {"points_per_side": 2, "stability_score_thresh": 0.0, "box_nms_thresh": 1.0}
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(IMAGE)
    grid = [(x, y) for y in (22.5, 67.5) for x in (33.25, 99.75)]
    known = [
        predictor.predict(point_coords=[point], point_labels=[1], hq_token_only=alone)
        for point in grid
    ]
    scores = sorted(float(score) for each in known for score in each.iou_predictions)
    bound = scores[len(scores) // 2]
    found = sam_rlx.MaskGenerator(
        model, **options, pred_iou_thresh=bound, hq_token_only=alone
    ).generate(IMAGE)
    expected = sorted(
        (round(float(score), 4), int(mask.sum()))
        for each in known
        for mask, score in zip(each.masks, each.iou_predictions, strict=True)
        if score > bound and mask.any()
    )
    assert len(expected) >= 1
    assert sorted((round(m.predicted_iou, 4), m.area) for m in found) == expected


def test_tiles(path):
    predictor = predictor_of(path)
    box = [[5.0, 5, 60, 60], [30, 20, 120, 80]]
    for alone, count in ((True, 1), (False, 3)):
        found = predictor.predict(image=IMAGE, tile=64, box=box, hq_token_only=alone)
        assert np.asarray(found.masks).shape == (2, count, 90, 133)
        assert found.iou_predictions.shape == (2, count)


@pytest.mark.parametrize("name", ["x.gguf", "x.safetensors"])
@pytest.mark.parametrize("dtype", ["F32", "F16", "Q8_0"])
def test_written_again(path, tmp_path, name, dtype):
    if name == "x.safetensors" and dtype == "Q8_0":
        pytest.skip("GGUF alone packs")
    written = tmp_path / name
    sam_rlx.conversion.convert(path, written, dtype=dtype)
    assert sam_rlx.load_model(written).config["mask_decoder"]["hq"] is True
    bound = {"F32": 0.0, "F16": 0.02, "Q8_0": 0.1}[dtype]
    for a, b in zip(results(path), results(written), strict=True):
        assert np.abs(a - b).max() <= bound * np.abs(a).max()


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_other_precisions(path, precision):
    exact, found = results(path), results(path, precision=precision)
    for i, (a, b) in enumerate(zip(exact, found, strict=True)):
        # The finest map is that of the first block, which stays exact.
        assert (0 if i != 1 else -1) < np.abs(a - b).max() < 0.1 * np.abs(a).max()


def test_transformers_has_no_class_for_it(path, tmp_path):
    with pytest.raises(UnsupportedError, match="HQ token"):
        sam_rlx.conversion.convert(path, tmp_path / "folder")


DAMAGE = {
    "no token": ("hf_token.", None, f"{HEAD}hf_token.weight"),
    "no MLP": ("hf_mlp.", None, f"{HEAD}hf_mlp.layers.0.weight"),
    "no mask features": ("maskfeature.", None, f"{HEAD}embedding_maskfeature.0.weight"),
    "one bias less": ("maskfeature.3.bias", None, f"{HEAD}embedding_maskfeature.3.bias"),
    "another kernel": (
        "embedding_maskfeature.3.weight",
        np.zeros((8, 16, 1, 1), np.float32),
        "embedding_maskfeature.3.weight",
    ),
    "another width": ("hf_token.", np.zeros((1, 48), np.float32), f"{HEAD}hf_token.weight"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_named(tmp_path, weights, case):
    part, value, message = DAMAGE[case]
    changed = {n: w for n, w in weights.items() if part not in n}
    if value is not None:
        changed[next(n for n in weights if part in n)] = value
    path = tiny_sam2.save_safetensors(tmp_path / "x.safetensors", CONFIG, changed)
    with pytest.raises(CheckpointError, match=message):
        sam_rlx.load_model(path)


def test_the_token_alone_is_one_error(tmp_path):
    part = {n: np.zeros(s, np.float32) for n, s in tiny_sam_hq.token_shapes(64, HEAD).items()}
    save_file(part, tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match=r"expected the tensors of SAM, SAM 2 or SAM 3"):
        sam_rlx.load_model(tmp_path / "x.safetensors")
