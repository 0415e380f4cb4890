"""Checkpoints of SAM 3.1: the published names, other kinds of files, damage.

The weights are sam3-nano's under the names of SAM 3.1, so that both give the same bits: all that a
text names and all masks of clicks, at the precisions that were trained weights are needed for.
"""

import json
import math
import struct
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sam_rlx import CheckpointError, UnsupportedError, _core
from support import tiny_sam3, tiny_sam3_1
from support.tiny import random_state_dict

TRACKER, NECK = tiny_sam3_1.TRACKER, tiny_sam3_1.NECK
INTERACTIVE = f"{TRACKER}interactive_sam_"
CLICK = {"point_coords": [[150, 110]], "point_labels": [1]}
[ROW] = (row for row in _core.releases() if row["variant"] == "sam3.1")


@pytest.fixture(scope="module")
def nano(tmp_path_factory):
    path = tmp_path_factory.mktemp("sam3_1") / "nano.safetensors"
    sam_rlx.conversion.convert("sam3-nano", path, names="meta", dtype="F32")
    return path


def as_3_1(weights, width):
    """Return weights of SAM 3 under the names of SAM 3.1, random ones of what follows objects."""
    renamed = {tiny_sam3_1.click_name(name): value for name, value in weights.items()}
    shapes = {
        **tiny_sam3_1.tracker_shapes(width),
        **{
            n.replace("interactive_convs", "propagation_convs"): v.shape
            for n, v in renamed.items()
            if n.startswith(f"{NECK}interactive_convs.")
        },
    }
    kept = {
        name: value
        for name, value in {**random_state_dict(shapes, 0), **renamed}.items()
        if "_convs.3." not in name.replace(".convs.3.", "_convs.3.")
    }
    memory = [n for n in kept if n.startswith("tracker.") and not n.startswith(TRACKER)]
    return {name: value for name, value in kept.items() if name not in memory}


@pytest.fixture(scope="module")
def metadata(nano):
    with safe_open(nano, "numpy") as file:
        found = dict(file.metadata())
    config = {**json.loads(found["config"]), "scale_factors": [4.0, 2.0, 1.0], "scalp": 0}
    return {**found, "config": json.dumps(config)}


@pytest.fixture(scope="module")
def weights(nano):
    tensors = load_file(nano)
    width = tensors["tracker.no_mem_embed"].shape[-1]
    return as_3_1(tensors, width)


@pytest.fixture(scope="module")
def path(tmp_path_factory, weights, metadata):
    path = tmp_path_factory.mktemp("sam3_1") / "x.safetensors"
    save_file(weights, path, metadata=metadata)
    return path


@pytest.fixture(scope="module")
def image():
    return sam_rlx.io.read_image(Path(sam_rlx.__file__).parent / "assets" / "coffee.jpg")


def clicked(source, image, **options):
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(source, **options), num_threads=1)
    predictor.set_image(image)
    return predictor.predict(**CLICK)


def named(source, image, **options):
    predictor = sam_rlx.ConceptPredictor(sam_rlx.load_model(source, **options), num_threads=1)
    predictor.set_image(image)
    return predictor.predict(text="red circle", threshold=0.05)


# ---------------------------------------------------------------- the published file


def write_header(path, shapes, tables=()):
    """Write a checkpoint of zeros, which take no room on the disk; tables are complex."""
    begin, header = 0, {}
    for name, shape in shapes.items():
        dtype, size = ("C64", 8) if name in tables else ("F16", 2)
        end = begin + size * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + begin)
    return str(path)


def test_the_public_inventory(testing, tmp_path):
    """Counts of tensors and numbers as published, and every name that the network reads."""
    tracker = tiny_sam3_1.tracker_shapes(256)
    assert len(tracker) == 457
    assert sum(math.prod(shape) for shape in tracker.values()) == 19_629_494
    ours = {name: tuple(shape) for name, shape in testing.sam3_parameters(is_3_1=True)}
    detector = {name: shape for name, shape in ours.items() if name.startswith("detector.")}
    # Of the others one is read by nothing, and 32 are tables of complex numbers.
    unread = {"detector.backbone.language_backbone.encoder.text_projection": (1024, 512)}
    tables = {
        f"{NECK}trunk.blocks.{i}.attn.freqs_cis": (5184 if i % 8 == 7 else 576, 32)
        for i in range(32)
    }
    assert len({**detector, **unread, **tables}) == 1166
    assert ours.items() - detector.items() <= tracker.items()
    assert tiny_sam3_1.neck_shapes(tiny_sam3_1.RELEASED).items() <= detector.items()
    numbers = sum(math.prod(v) for v in {**detector, **unread, **tracker}.values())
    pairs = sum(math.prod(shape) for shape in tables.values())
    assert 0 < ROW["bytes"] - 4 * (numbers + 2 * pairs) < 600_000
    # Beside it, as on the hub, settings of another network.
    settings = {"model_type": "sam3_video", "tracker_config": {"num_maskmem": 3}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    whole = {**detector, **unread, **tables, **tracker}
    found = testing.sam3_config(write_header(tmp_path / "x.safetensors", whole, tables))
    assert found["variant"] == "sam3.1"
    assert found["multiplex"]["multiplex_count"] == 16
    assert found["multiplex"]["mask_decoder"]["num_multimask_outputs"] == 3
    assert found["multiplex"]["memory_encoder"]["starting_out_chan"] == 4
    assert found["multiplex"]["memory_attention"]["num_layers"] == 4
    assert found["tracker"]["memory"] is False
    assert (ROW["file"], ROW["version"]) == ("sam3.1_multiplex.pt", "3.1")


@pytest.mark.parametrize("tracker", [True, False])
def test_variants_are_told_apart(testing, tmp_path, tracker):
    """A detector alone is told by the neck."""
    shapes = tiny_sam3.config_shapes(tiny_sam3.RELEASED)
    three = tiny_sam3.branch_shapes(tiny_sam3_1.RELEASED, f"{NECK}convs")
    more = tiny_sam3_1.tracker_shapes(256) if tracker else {}
    path = write_header(tmp_path / "x.safetensors", {**shapes, **three, **more})
    assert testing.sam3_config(path, "sam3.1")["variant"] == "sam3.1"
    with pytest.raises(CheckpointError, match=r"variant sam3: .*\(the file is sam3\.1\)"):
        testing.sam3_config(path, "sam3")


# ---------------------------------------------------------------- what it computes


def test_the_model_tells_what_it_is(path, weights):
    model = sam_rlx.load_model(path)
    assert (model.family, model.version) == ("sam3", "3.1")
    assert model.supports_text
    report = model.report()
    assert not report["unexpected"]
    assert all(n.startswith((TRACKER, "detector.backbone.language")) for n in report["ignored"])


def test_it_computes_what_sam3_does_with_these_weights(path, nano, image):
    """Masks bit for bit; the predicted IoU is the logit of SAM 3's."""
    ours, theirs = (clicked(source, image) for source in (path, nano))
    np.testing.assert_array_equal(ours.low_res_masks, theirs.low_res_masks)
    np.testing.assert_array_equal(ours.masks, theirs.masks)
    assert ours.masks.any()
    iou = 1 / (1 + np.exp(-ours.iou_predictions.astype(float)))
    np.testing.assert_allclose(iou, theirs.iou_predictions, atol=1e-6)
    ours, theirs = (named(source, image) for source in (path, nano))
    assert len(ours.scores) > 5
    for field in ("masks", "boxes", "scores"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))


def test_embeddings_bring_everything_back(path, image, tmp_path):
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(path))
    predictor.set_image(image)
    truth = predictor.predict(**CLICK).low_res_masks
    predictor.save_embedding(tmp_path / "x.safetensors")
    other = sam_rlx.ImagePredictor(predictor.model)
    other.load_embedding(tmp_path / "x.safetensors")
    np.testing.assert_array_equal(other.predict(**CLICK).low_res_masks, truth)


def test_everything_mode(path, image):
    model = sam_rlx.load_model(path)
    records = sam_rlx.MaskGenerator(
        model, points_per_side=3, pred_iou_thresh=0.0, stability_score_thresh=0.0
    ).generate(image)
    assert records


def test_another_side(path, image):
    model = sam_rlx.load_model(path, image_size=168)
    assert model.config["multiplex"]["memory_attention"]["feat_size"] == 168 // 14
    assert clicked(path, image, image_size=168).low_res_masks.shape[-1] == 168 // 14 * 4


# ---------------------------------------------------------------- other files


@pytest.mark.parametrize("name", ["x.gguf", "x.safetensors"])
@pytest.mark.parametrize("dtype", ["F32", "F16", "Q8_0"])
def test_written_again(path, image, tmp_path, name, dtype):
    if name == "x.safetensors" and dtype == "Q8_0":
        pytest.skip("GGUF alone packs")
    written = tmp_path / name
    sam_rlx.conversion.convert(path, written, dtype=dtype)
    model = sam_rlx.load_model(written)
    assert (model.version, model.config["multiplex"]) == (
        "3.1",
        sam_rlx.load_model(path).config["multiplex"],
    )
    plain, found = clicked(path, image), clicked(written, image)
    bound = {"F32": 0.0, "F16": 0.02, "Q8_0": 0.1}[dtype]
    difference = np.abs(plain.low_res_masks - found.low_res_masks).mean()
    assert difference <= bound * np.abs(plain.low_res_masks).mean()
    # What follows objects is in the file too.
    names = {tensor for tensor, _, _ in sam_rlx.model.list_tensors(written)}
    assert len(names) >= len(sam_rlx.model.list_tensors(path)) - 1


def test_names_are_short_enough_for_ggml(path, tmp_path):
    gguf = pytest.importorskip("gguf", reason="reads the file")
    written = tmp_path / "x.gguf"
    sam_rlx.conversion.convert(path, written, dtype="F16")
    reader = gguf.GGUFReader(written)
    assert max(len(tensor.name) for tensor in reader.tensors) < 64
    fields = {key: field.contents() for key, field in reader.fields.items()}
    assert fields["sam3.multiplex.count"] == 16


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_other_precisions(path, nano, image, precision):
    """The same layers are rounded as in SAM 3, whose masks hold to a mean IoU of 0.98."""
    for call in (clicked, named):
        ours, theirs = (call(source, image, precision=precision) for source in (path, nano))
        np.testing.assert_array_equal(ours.masks, theirs.masks)
    plain, found = clicked(path, image), clicked(path, image, precision=precision)
    assert np.any(plain.low_res_masks != found.low_res_masks)
    best = int(np.argmax(plain.iou_predictions))
    a, b = plain.masks[best], found.masks[best]
    assert (a & b).sum() / (a | b).sum() > 0.98


BEGINNINGS = {
    "before its release": (("detector.", "sam3_model."), ("tracker.", "sam2_predictor.")),
    "ComfyUI": (("detector.", "model.diffusion_model.detector."),
                ("tracker.", "model.diffusion_model.tracker.")),
}  # fmt: skip


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_other_beginnings(path, image, weights, metadata, tmp_path, kind):
    renamed = {}
    for name, value in weights.items():
        for begin, other in BEGINNINGS[kind]:
            if name.startswith(begin):
                renamed[other + name.removeprefix(begin)] = value
    assert len(renamed) == len(weights)
    save_file(renamed, tmp_path / "x.safetensors", metadata=metadata)
    found = clicked(tmp_path / "x.safetensors", image)
    np.testing.assert_array_equal(found.low_res_masks, clicked(path, image).low_res_masks)


def test_a_detector_alone(weights, metadata, image, path, tmp_path):
    others = (TRACKER, f"{NECK}interactive_convs.", f"{NECK}propagation_convs.")
    kept = {name: value for name, value in weights.items() if not name.startswith(others)}
    save_file(kept, tmp_path / "x.safetensors", metadata=metadata)
    found = named(tmp_path / "x.safetensors", image)
    np.testing.assert_array_equal(found.masks, named(path, image).masks)
    with pytest.raises(UnsupportedError, match="tracker, which takes clicks"):
        clicked(tmp_path / "x.safetensors", image)


def test_clicks_alone(weights, metadata, image, path, tmp_path):
    others = ("detector.transformer.", "detector.segmentation_head.", "detector.geometry_encoder.",
              "detector.dot_prod_scoring.", "detector.backbone.language_backbone.",
              f"{NECK}convs.")  # fmt: skip
    kept = {name: value for name, value in weights.items() if not name.startswith(others)}
    save_file(kept, tmp_path / "x.safetensors", metadata=metadata)
    model = sam_rlx.load_model(tmp_path / "x.safetensors")
    assert (model.version, model.supports_text) == ("3.1", False)
    found = clicked(tmp_path / "x.safetensors", image)
    np.testing.assert_array_equal(found.low_res_masks, clicked(path, image).low_res_masks)


def test_transformers_has_no_class_for_it(path, tmp_path):
    with pytest.raises(UnsupportedError, match=r"SAM 3\.1"):
        sam_rlx.conversion.convert(path, tmp_path / "folder")


# ---------------------------------------------------------------- damage

DAMAGE = {
    "no decoder of clicks": (f"{INTERACTIVE}mask_decoder.", None, "interactive_sam_mask_decoder"),
    "no prompt encoder": (f"{INTERACTIVE}prompt_encoder.", None, "interactive_sam_prompt_encoder"),
    "one bias less": (
        f"{INTERACTIVE}mask_decoder.conv_s0.bias",
        None,
        "interactive_sam_mask_decoder.conv_s0.bias",
    ),
    "no neck for clicks": (f"{NECK}interactive_convs.", None, r"interactive_convs\.0\.conv_1x1"),
    "no neck for videos": (f"{NECK}propagation_convs.", None, r"propagation_convs\.0\.conv_1x1"),
    "no embedding of clicks": (f"{TRACKER}interactivity_no_mem_embed", None, "no_mem_embed"),
    "no slots": (f"{TRACKER}output_valid_embed", None, "output_valid_embed"),
    "no slot": (f"{TRACKER}output_valid_embed", np.zeros((0, 8), np.float32), "output_valid_embed"),
    "another width of the bucket": (
        f"{TRACKER}sam_mask_decoder.iou_token.weight",
        np.zeros((16, 24), np.float32),
        r"sizes as in SAM 3\.1",
    ),
    "no layers": (f"{TRACKER}transformer.encoder.layers.", None, "num_layers|linear1"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_named(tmp_path, weights, metadata, case):
    """Clicks are never answered by heads without weights."""
    part, value, message = DAMAGE[case]
    changed = {n: w for n, w in weights.items() if not n.startswith(part)}
    if value is not None:
        changed[part] = value
    save_file(changed, tmp_path / "x.safetensors", metadata=metadata)
    with pytest.raises(CheckpointError, match=message):
        sam_rlx.load_model(tmp_path / "x.safetensors")
