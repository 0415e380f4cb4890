"""transformers' names of SAM 3: the same tensors compute what transformers computes."""

import json
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from support import tiny_sam3

DATA = Path(__file__).resolve().parent.parent / "data"
TINY = tiny_sam3.TINY
ENCODING = "tracker_model.prompt_encoder.shared_embedding.positional_embedding"
COPY = "tracker_model.shared_image_embedding.positional_embedding"
QUERIES = "detector_model.detr_encoder.layers.0.self_attn.q_proj.weight"
POINTS = "tracker_model.prompt_encoder.point_embed.weight"
IDS = np.array([[49406, 4481, 1228, 2840, 49407]])  # as make_hugging_face_sam3.py has them


@pytest.fixture(scope="module")
def weights():
    """Draw the weights that the script beside the recorded results drew."""
    shapes = json.loads((DATA / "hugging_face_sam3.json").read_text())
    return tiny_sam3.hugging_face_weights(shapes)


@pytest.fixture(scope="module")
def recorded():
    with np.load(DATA / "hugging_face_sam3.npz") as file:
        return {name: file[name] for name in file.files}


def save(path, weights):
    return tiny_sam3.save_safetensors(path, TINY, weights)


def close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5 * np.max(np.abs(theirs)))


def corners(boxes):
    center, extent = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([center - extent / 2, center + extent / 2], 1)


def test_the_detector(testing, tmp_path, weights, recorded):
    path = save(tmp_path / "model.safetensors", weights)
    image = tiny_sam3.noise(TINY)[None] / np.float32(127.5) - np.float32(1)
    logits, boxes, presence, masks, semantic = testing.sam3_detect(str(path), image, IDS, [0, 7, 3])
    close(logits[0], recorded["logits"])
    close(corners(boxes[0]), recorded["boxes"])
    close(presence, np.clip(recorded["presence"], -10, 10))
    close(masks[0], recorded["masks"])
    close(semantic[0], recorded["semantic"])


@pytest.mark.parametrize("kept", [None, "detector_model."])
@pytest.mark.parametrize("copies", ["both", "original", "copy"])
def test_every_tensor_has_a_position(tmp_path, weights, kept, copies):
    """A file of the whole model, and one of the detector."""
    dropped = {"original": COPY, "copy": ENCODING}.get(copies)
    chosen = {
        name: w
        for name, w in weights.items()
        if name != dropped and (kept is None or name.startswith(kept))
    }
    model = sam_rlx.load_model(save(tmp_path / "model.safetensors", chosen))
    report = model.report()
    text_projection = "detector.backbone.language_backbone.encoder.text_projection"
    assert report.pop("ignored") == [text_projection]
    assert not any(report.values())
    assert (model.config["tracker"] is None) == (kept is not None)


def test_the_detector_without_a_prefix(testing, parity, tmp_path, weights):
    """As Sam3Model itself names its tensors."""
    begin = "detector_model."
    whole = {name: w for name, w in weights.items() if name.startswith(begin)}
    bare = {name.removeprefix(begin): w for name, w in whole.items()}
    image = np.ones((1, TINY.img_size, TINY.img_size, 3), np.float32)
    found = [
        testing.sam3_detect(str(save(tmp_path / name, values)), image, IDS, [0])
        for name, values in (("whole", whole), ("bare", bare))
    ]
    parity.same_bits(*found, "names")


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        (QUERIES.replace("q_proj", "v_proj"), None, "v_proj.*expected a tensor, found none"),
        (QUERIES, None, "in_proj_weight: expected shape"),
        (QUERIES, (64,), "v_proj|k_proj"),
        (QUERIES, (), "at least one axis"),
        (QUERIES, (63, 64), r"in_proj_weight: expected shape \(192, 64\), found \(191, 64\)"),
        (POINTS, (3, 64), "multiple of 4"),
        (POINTS, None, r"point_embeddings\.0\.weight"),
    ],
)
def test_tensors_that_do_not_fit(tmp_path, weights, name, change, text):
    changed = {key: w for key, w in weights.items() if key != name}
    if change is not None:
        changed[name] = np.zeros(change, np.float32)
    with pytest.raises(sam_rlx.CheckpointError, match=text):
        sam_rlx.load_model(save(tmp_path / "bad.safetensors", changed))
