"""What programs of other people do with the drop-ins beside upstream's own notebooks."""

import importlib
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
import torch
from PIL import Image, ImageDraw
from sam_rlx.compat.common.devices import check_device
from sam_rlx.compat.common.state_dicts import EmptyModel
from sam_rlx.compat.common.tensor import TensorArray
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.sam2.automatic_mask_generator import SAM2AutomaticMaskGenerator
from sam_rlx.compat.sam2.build_sam import build_sam2, build_sam2_video_predictor
from sam_rlx.compat.sam2.sam2_image_predictor import SAM2ImagePredictor
from sam_rlx.compat.sam3.model.sam3_image_processor import Sam3Processor
from sam_rlx.compat.sam3.model_builder import build_sam3_image_model, build_sam3_video_predictor
from sam_rlx.compat.segment_anything import (
    SamAutomaticMaskGenerator,
    SamPredictor,
    sam_model_registry,
)
from sam_rlx.compat.segment_anything.modeling import Sam

CENTRES = ((40, 40), (115, 75), (80, 60))


def disc(x, y, radius=22):
    image = Image.new("RGB", (161, 120), (30, 60, 90))
    box = (x - radius, y - radius, x + radius, y + radius)
    ImageDraw.Draw(image).ellipse(box, fill=(230, 200, 40))
    return image


@pytest.fixture(scope="module")
def sam():
    return sam_model_registry["nano"]()


@pytest.fixture(scope="module")
def sam2():
    return build_sam2(None, "sam2-nano")


@pytest.fixture(scope="module")
def processor():
    return Sam3Processor(build_sam3_image_model(checkpoint_path="sam3-nano"))


# ---------------------------------------------------------------- results


@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int64, np.uint8])
def test_results_are_tensors_where_pytorch_is_imported(monkeypatch, dtype):
    values = np.arange(6).reshape(2, 3).astype(dtype)
    found = as_result(values)
    assert isinstance(found, torch.Tensor)
    assert np.shares_memory(found.numpy(), values)
    monkeypatch.delitem(__import__("sys").modules, "torch")
    assert isinstance(as_result(values), TensorArray)


def test_what_tensors_cannot_share_is_copied():
    values = np.arange(6.0)
    fixed = values.copy()
    fixed.setflags(write=False)
    for array in (values[::-1], fixed, np.broadcast_to(values, (2, 6))):
        np.testing.assert_array_equal(as_result(array).numpy(), array)


def test_an_index_of_one_element_keeps_the_axis(sam):
    predictor = SamPredictor(sam)
    predictor.set_image(np.asarray(disc(80, 60)))
    boxes = predictor.transform.apply_boxes_torch(torch.tensor([[50.0, 30, 110, 90]]), (120, 161))
    masks, _, _ = predictor.predict_torch(None, None, boxes=boxes, multimask_output=False)
    assert masks[torch.tensor([0])].shape == (1, 1, 120, 161)
    assert masks[torch.tensor([False])].shape == (0, 1, 120, 161)


# ---------------------------------------------------------------- states


def cut(value, index):
    """Cut what is a tensor, as programs do."""
    if isinstance(value, torch.Tensor):
        return value[index : index + 1]
    if isinstance(value, list):
        return [cut(each, index) for each in value]
    return {key: cut(each, index) for key, each in value.items()} if value else value


def test_each_image_of_a_batch_is_found_on_its_own(processor):
    images = [disc(*centre) for centre in CENTRES]
    batch = processor.set_image_batch(images)
    sides = {"original_height": 120, "original_width": 161}
    with pytest.raises(ValueError, match="expected one of one image"):
        processor.set_text_prompt("circle", {**sides, "backbone_out": batch["backbone_out"]})
    for index, image in enumerate(images):
        state = {**sides, "backbone_out": cut(dict(batch["backbone_out"]), index)}
        found = processor.set_text_prompt("circle", state)
        alone = processor.set_text_prompt("circle", processor.set_image(image))
        assert torch.equal(found["masks_logits"], alone["masks_logits"])
        assert len(found["scores"]) == 1


def test_prompts_by_hand(processor):
    image = disc(80, 60)
    expected = processor.set_text_prompt("circle", processor.set_image(image))
    state = processor.set_image(image)
    state["backbone_out"].update(processor.model.backbone.forward_text(["circle"], device="cpu"))
    state["geometric_prompt"] = processor.model._get_dummy_prompt()
    processor._forward_grounding(state)
    assert torch.equal(state["masks"], expected["masks"])
    box = [0.5, 0.5, 0.3, 0.4]
    expected = processor.add_geometric_prompt(box, True, expected)
    state["geometric_prompt"].append_boxes(torch.tensor([[box]]), torch.tensor([[True]]))
    processor._forward_grounding(state)
    assert torch.equal(state["masks_logits"], expected["masks_logits"])
    with pytest.raises(RuntimeError, match="append_boxes: expected"):
        state["geometric_prompt"].append_boxes(torch.zeros(1, 4), torch.ones(1))
    with pytest.raises(KeyError, match="tokens"):
        state["backbone_out"]["tokens"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("frames")
    for index in range(3):
        disc(50 + 6 * index, 60).save(path / f"{index:05d}.jpg")
    return str(path)


def test_keys_of_a_session_with_a_text(folder):
    predictor = build_sam3_video_predictor(checkpoint_path="sam3-nano")
    start = {"type": "start_session", "resource_path": folder}
    name = predictor.handle_request(start)["session_id"]
    state = predictor._ALL_INFERENCE_STATES[name]["state"]
    assert not state["cached_frame_outputs"]
    assert not state["tracker_inference_states"]
    predictor.model.add_prompt(state, 0, "circle")
    answers = dict(predictor.model.propagate_in_video(state))
    assert sorted(state["cached_frame_outputs"]) == [0, 1, 2]
    for frame, outputs in answers.items():
        cached = state["cached_frame_outputs"][frame]
        assert list(cached) == outputs["out_obj_ids"].tolist()
        for mask, expected in zip(cached.values(), outputs["out_binary_masks"], strict=True):
            np.testing.assert_array_equal(mask.numpy(), expected)
    assert state["tracker_inference_states"][0]["obj_ids"] == list(state["cached_frame_outputs"][2])
    state["num_frames"] = 2
    with pytest.raises(ValueError, match="num_frames"):
        next(predictor.model.propagate_in_video(state))
    predictor.handle_request({"type": "reset_session", "session_id": name})
    assert not state["cached_frame_outputs"]
    assert not state["tracker_inference_states"]


@pytest.mark.parametrize("key", ["num_frames", "video_height", "video_width"])
def test_sizes_of_a_session_cannot_be_set(folder, key):
    predictor = build_sam2_video_predictor(None, "sam2-nano")
    state = predictor.init_state(folder)
    predictor.add_new_points_or_box(state, 0, 1, points=[[50.0, 60.0]], labels=[1])
    state.update({key: 2})
    with pytest.raises(sam_rlx.InvalidArgumentError, match=key):
        next(predictor.propagate_in_video(state))


# ---------------------------------------------------------------- attributes and methods


def test_spellings_of_the_cpu():
    for device in (None, "cpu", "cpu:0", "cpu:1", torch.device("cpu"), torch.device("cpu", 0)):
        check_device(device)
        if device is not None:
            assert torch.device(device).type == "cpu"
    for device in ("cuda", "CPU", "cpu:", "cpu:01", "cpu:x", 0, "mps"):
        with pytest.raises(sam_rlx.UnsupportedError, match="device: expected 'cpu'"):
            check_device(device)


@pytest.mark.parametrize("name", ["num_maskmem", "image_size", "multimask_output_in_sam"])
def test_settings_of_the_weights_cannot_be_set(sam2, name):
    with pytest.raises(AttributeError, match=name):
        setattr(sam2, name, 3)
    sam2.note = "the program's own"


def test_subclasses_that_set_themselves_up(sam, sam2):
    image = np.asarray(disc(80, 60))

    class Own(SamPredictor):
        def __init__(self, model):
            self.model = model
            self.transform = SamPredictor(model).transform

    class Own2(SAM2ImagePredictor):
        def __init__(self, model):
            self.model = model

    point = {"point_coords": np.array([[80.0, 60.0]]), "point_labels": np.array([1])}
    for own, usual in ((Own(sam), SamPredictor(sam)), (Own2(sam2), SAM2ImagePredictor(sam2))):
        with pytest.raises(sam_rlx.StateError, match="expected an image"):
            own.predict(**point)
        for predictor in (own, usual):
            predictor.set_image(image)
        np.testing.assert_array_equal(own.predict(**point)[0], usual.predict(**point)[0])


GENERATORS = [SamAutomaticMaskGenerator, SAM2AutomaticMaskGenerator]


@pytest.mark.parametrize("base", GENERATORS)
def test_inner_methods_of_generators(sam, sam2, base):
    model = sam if base is SamAutomaticMaskGenerator else sam2
    image = np.asarray(disc(80, 60))
    for name in ("_process_batch", "_process_crop", "_generate_masks"):
        own = type("Own", (base,), {name: lambda *_: None})
        with pytest.raises(sam_rlx.UnsupportedError, match=name):
            own(model, points_per_side=2).generate(image)
    generator = base(model, points_per_side=2)
    kind = type(generator.predictor)
    generator.predictor = type("Mine", (kind,), {"set_image": lambda *_: None})(model)
    with pytest.raises(sam_rlx.UnsupportedError, match="set_image"):
        generator.generate(image)
    generator.predictor = object()
    with pytest.raises(sam_rlx.UnsupportedError, match="predictor: expected"):
        generator.generate(image)
    generator.predictor = kind(model)
    generator.generate(image)


def test_inner_methods_of_video_predictors(folder):
    predictor = build_sam2_video_predictor(None, "sam2-nano")
    state = predictor.init_state(folder)
    predictor.add_new_points_or_box(state, 0, 1, points=[[50.0, 60.0]], labels=[1])
    predictor._run_single_frame_inference = lambda *_: None
    with pytest.raises(sam_rlx.UnsupportedError, match="_run_single_frame_inference"):
        next(predictor.propagate_in_video(state))


# ---------------------------------------------------------------- names, weights, parts


NAMES = [
    ("segment_anything.modeling", "Sam ImageEncoderViT MaskDecoder PromptEncoder"),
    ("segment_anything.modeling.image_encoder", "window_partition window_unpartition"),
    ("segment_anything.modeling.common", "LayerNorm2d"),
    ("sam2.modeling.sam2_base", "SAM2Base"),
    ("sam2.modeling.backbones.hieradet", "Hiera"),
    ("sam2.modeling.sam.transformer", "RoPEAttention"),
    ("sam3", "perflib"),
    ("sam3.perflib.nms", "nms_masks"),
    ("sam3.model.data_misc", "FindStage interpolate"),
    ("sam3.model_builder", "download_ckpt_from_hf build_tracker"),
]


@pytest.mark.parametrize(("module", "names"), NAMES)
def test_names_that_are_imported_only(module, names):
    found = importlib.import_module(f"sam_rlx.compat.{module}")
    for name in names.split():
        value = getattr(found, name)
        if name not in ("Sam", "SAM2Base", "perflib"):
            with pytest.raises(sam_rlx.UnsupportedError, match=f"{name}: expected"):
                value(3)
    assert getattr(found, "of_nobody", None) is None


def test_weights_that_come_later(model):
    """Upstream's network, whose state dict they are, answers the same."""
    support = pytest.importorskip("support.upstream")
    tiny = pytest.importorskip("support.tiny")
    with pytest.raises(RuntimeError, match="expected weights"):
        SamPredictor(sam_model_registry["vit_b"]()).set_image(np.asarray(disc(80, 60)))
    reference = support.build_sam(tiny.TINY, seed=0)
    expected = SamPredictor(Sam(model))
    network = Sam(sam_rlx.load_model("sam-nano"))
    with pytest.raises(RuntimeError, match="load_state_dict"):
        network.load_state_dict({})
    assert network.model.variant == "sam-nano"
    network = Sam(EmptyModel("sam", None, expected.model.image_encoder.img_size))
    predictor = SamPredictor(network)
    kept = network.load_state_dict(reference.state_dict())
    assert (kept.missing_keys, kept.unexpected_keys) == ([], [])
    for each in (predictor, expected):
        each.set_image(np.asarray(disc(80, 60)))
    assert torch.equal(predictor.features, expected.features)


def test_sam2_without_weights():
    network = build_sam2("configs/sam2.1/sam2.1_hiera_t.yaml", None)
    predictor = SAM2ImagePredictor(network)
    with pytest.raises(RuntimeError, match="expected weights"):
        predictor.set_image(np.asarray(disc(80, 60)))
    with pytest.raises(RuntimeError, match="load_state_dict"):
        network.load_state_dict({})
    with pytest.raises(sam_rlx.UnsupportedError, match="expected a checkpoint"):
        build_sam2(None, None)


def test_parts_of_the_image_network(sam):
    predictor = SamPredictor(sam)
    image = np.asarray(disc(80, 60))
    predictor.set_image(image)
    resized = predictor.transform.apply_image(image).transpose(2, 0, 1)[None]
    found = sam.image_encoder(sam.preprocess(torch.from_numpy(resized.copy())))
    assert torch.equal(found, predictor.features)
    assert sam.pixel_mean.shape == sam.pixel_std.shape == (3, 1, 1)
    assert next(sam.parameters()).device.type == "cpu"


# ---------------------------------------------------------------- configs


def test_configs_beside_the_modules():
    from sam_rlx.compat import sam2 as package

    configs = sorted((Path(package.__file__).parent / "configs").glob("*/*.yaml"))
    assert len(configs) == 8
    for config in configs:
        network = build_sam2(str(config), None)
        assert network.model.family == "sam2"


def test_configs_are_composed_by_hydra(run_python):
    pytest.importorskip("hydra", reason="hydra-core is not installed")
    # A process of its own: Hydra takes the configs of the first package that asks, as upstream's.
    code = """
import hydra
import hydra.utils
import sam_rlx.compat.sam2
composed = hydra.compose("configs/sam2.1/sam2.1_hiera_t.yaml")
print(hydra.utils.instantiate(composed.model, _recursive_=True).model.variant)
"""
    found = run_python("-c", code)
    assert found.stdout.strip() == "hiera_t", found.stderr
