"""SAM 3's networks: weights that come later, and options that are set as attributes."""

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx.compat.sam3 import build_sam3_image_model
from sam_rlx.compat.sam3.model import state_dicts
from sam_rlx.compat.sam3.model.sam3_image_processor import Sam3Processor
from sam_rlx.compat.sam3.model_builder import build_sam3_video_model
from support.discs import disc


@pytest.fixture(scope="module")
def image():
    return Image.fromarray(disc(40, 60))


@pytest.fixture(scope="module")
def nano():
    return build_sam3_image_model(checkpoint_path="sam3-nano")


@pytest.fixture(scope="module")
def video():
    return build_sam3_video_model(checkpoint_path="sam3-nano")


# ---------------------------------------------------------------- weights


@pytest.fixture(scope="module")
def network():
    concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
    return concepts.image_model()


@pytest.fixture(scope="module")
def path(network, tmp_path_factory):
    concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
    return concepts.save(tmp_path_factory.mktemp("sam3") / "tiny.safetensors", network)


@pytest.fixture
def sizes(path, monkeypatch):
    """The sizes of the tiny network instead of the release's, for a network without weights."""
    known = state_dicts.metadata_of(sam_rlx.load_model(path))
    monkeypatch.setattr(state_dicts, "metadata_of", lambda _: known)


def scores(processor, image):
    state = processor.set_text_prompt("yellow circle", processor.set_image(image))
    return np.asarray(state["masks_logits"])


@pytest.mark.parity
def test_an_image_model_takes_upstreams_state_dict(network, path, sizes, image):
    expected = Sam3Processor(build_sam3_image_model(checkpoint_path=path), confidence_threshold=0.0)
    empty = build_sam3_image_model(load_from_HF=False)
    processor = Sam3Processor(empty, confidence_threshold=0.0)
    with pytest.raises(RuntimeError, match="expected weights"):
        processor.set_image(image)
    with pytest.raises(RuntimeError, match="load_state_dict"):
        empty.load_state_dict({})
    kept = empty.load_state_dict(network.state_dict())  # names without "detector."
    assert kept == ([], [])
    assert processor.resolution == empty.image_size == expected.resolution
    np.testing.assert_array_equal(scores(processor, image), scores(expected, image))


@pytest.mark.parity
def test_other_weights_of_a_loaded_model_act(network, path, image):
    """A processor that was made before answers with the new ones."""
    model = build_sam3_image_model(checkpoint_path=path)
    processor = Sam3Processor(model, confidence_threshold=0.0)
    first = scores(processor, image)
    changed = {name: value * 1.01 for name, value in network.state_dict().items()}
    model.load_state_dict(changed)
    assert not np.array_equal(scores(processor, image), first)
    model.load_state_dict(network.state_dict())
    np.testing.assert_array_equal(scores(processor, image), first)
    with pytest.raises(RuntimeError, match="load_state_dict"):
        model.load_state_dict({"detector.nothing": np.zeros(3)})
    np.testing.assert_array_equal(scores(processor, image), first)


@pytest.mark.parity
def test_a_video_model_takes_a_files_state_dict(path, sizes):
    files = pytest.importorskip("safetensors.numpy")
    empty = build_sam3_video_model(load_from_HF=False)
    assert empty.image_size == 1008
    with pytest.raises(RuntimeError, match="expected weights"):
        empty.init_state([Image.fromarray(disc(40, 60))])
    empty.load_state_dict(files.load_file(path))
    assert empty.model.family == "sam3"
    assert empty.tracker.model is empty.detector.backbone is empty.model
    assert empty.image_size == empty.tracker.image_size == empty.model.img_size


def test_without_sizes_weights_are_the_releases():
    empty = build_sam3_image_model(load_from_HF=False)
    with pytest.raises(RuntimeError, match="load_state_dict"):
        empty.load_state_dict({"detector.backbone.vision_backbone.trunk.pos_embed": np.zeros(3)})


# ---------------------------------------------------------------- options


def found(model):
    frames = [Image.fromarray(disc(40 + 6 * index, 60)) for index in range(2)]
    state = model.init_state(frames)
    _, outputs = model.add_prompt(state, 0, text_str="yellow circle")
    return len(outputs["out_obj_ids"])


def test_options_of_the_video_model_act(video):
    assert video.hotstart_delay == 15
    assert video.score_threshold_detection == 0.5
    assert found(video) == 1
    before = video.score_threshold_detection
    video.score_threshold_detection = 1.0
    try:
        assert video.score_threshold_detection == 1.0
        assert found(video) == 0
    finally:
        video.score_threshold_detection = before
    assert found(video) == 1
    with pytest.raises(sam_rlx.InvalidArgumentError, match="hotstart_delay"):
        video.hotstart_delay = "soon"
    assert video.hotstart_delay == 15


@pytest.mark.parametrize(
    "name", ["image_size", "image_mean", "use_prev_mem_frame", "o2o_matching_masklets_enable"]
)
def test_options_of_the_video_model_that_are_fixed(video, name):
    with pytest.raises(AttributeError, match=f"{name}: expected no change"):
        setattr(video, name, 1)


@pytest.mark.parametrize("name", ["image_size", "backbone", "multimask_output", "transformer"])
def test_options_of_the_image_model_that_are_fixed(nano, name):
    with pytest.raises(AttributeError, match=f"{name}: expected no change"):
        setattr(nano, name, None)


def test_options_of_the_processor(nano, image):
    processor = Sam3Processor(nano)
    state = processor.set_image(image)
    assert len(processor.set_text_prompt("yellow circle", state)["scores"]) == 1
    processor.confidence_threshold = 1.0
    assert len(processor.set_text_prompt("yellow circle", state)["scores"]) == 0
    processor.resolution = nano.image_size
    processor.device = "cpu:0"
    for name, value, words in (
        ("resolution", 5, "resolution: expected"),
        ("device", "cuda", "expected 'cpu'"),
    ):
        with pytest.raises(NotImplementedError, match=words):
            setattr(processor, name, value)
    for name in ("model", "transform", "find_stage"):
        with pytest.raises(AttributeError, match=f"{name}: expected no change"):
            setattr(processor, name, None)
