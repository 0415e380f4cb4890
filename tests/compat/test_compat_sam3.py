"""`sam_rlx.compat.sam3` beside upstream's classes: names, shapes, types, states and results."""

import copy
import pickle

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx.compat.sam3 import build_sam3_image_model
from sam_rlx.compat.sam3.model.sam3_image_processor import Sam3Processor
from support.cases import quick

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
sam3_clicks = pytest.importorskip("support.sam3_clicks", reason="needs sam3")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity

BOXES = [[0.3, 0.5, 0.35, 0.6], [0.7, 0.25, 0.5, 0.3], [0.1, 0.1, 0.4, 0.4]]
RESULTS = ("masks_logits", "masks", "boxes", "scores")


@pytest.fixture(scope="module")
def network():
    return concepts.image_model()


@pytest.fixture(scope="module")
def path(network, tmp_path_factory):
    return concepts.save(tmp_path_factory.mktemp("sam3") / "tiny.safetensors", network)


@pytest.fixture(scope="module")
def model(path):
    return build_sam3_image_model(checkpoint_path=path)


@pytest.fixture
def processor(model):
    return Sam3Processor(model, resolution=concepts.CONFIG.img_size)


def as_upstream(image):
    """An image as upstream's processor has to get it to read its size right."""
    return torch.from_numpy(image).permute(2, 0, 1)


class Both:
    """Our processor and upstream's, on a state each."""

    def __init__(self, processor, network, threshold):
        self.processor, self.state = processor, {}
        processor.confidence_threshold = threshold
        self.judges = concepts.Judges(network, threshold=threshold)

    def call(self, name, *args):
        getattr(self.processor, name)(*args, self.state)
        self.judges.call(name, *args)
        self.agree()
        return self.state

    def agree(self):
        """Both states hold the same results, in the same form."""
        ours, theirs = self.state, self.judges.state
        assert {key for key in ours if key in RESULTS} == {key for key in theirs if key in RESULTS}
        if "scores" not in ours:
            return
        for key in RESULTS:
            assert (ours[key].shape, ours[key].dtype) == (theirs[key].shape, theirs[key].dtype), key
        expected = self.judges.expected()
        masks, boxes, scores = (ours[key].numpy() for key in ("masks", "boxes", "scores"))
        concepts.check(expected, masks[:, 0], boxes, scores)
        expected.hold("masks_logits", ours["masks_logits"].numpy())


@pytest.mark.parametrize("name", quick(["odd 303x384", "tall 451x300"], 1))
def test_a_session(processor, network, images, name):
    """All methods in an order that shows what each keeps and forgets."""
    both = Both(processor, network, 0.02)
    both.call("set_image", Image.fromarray(images[name]))
    assert len(both.call("set_text_prompt", "a cat")["scores"]) > 0
    both.call("add_geometric_prompt", BOXES[0], True)
    both.call("add_geometric_prompt", BOXES[1], False)
    # The text is replaced, the boxes stay.
    both.call("set_text_prompt", "cat 1")
    threshold = concepts.gap(upstream.array(both.judges.state["scores"]))
    few = len(both.call("set_confidence_threshold", threshold)["scores"])
    both.call("set_confidence_threshold", 0.0)
    assert 0 < few < len(both.state["scores"]) == concepts.CONFIG.num_queries
    # A new image keeps the prompts and the results of the old one.
    both.call("set_image", Image.fromarray(images["wide 400x600"]))
    both.call("add_geometric_prompt", BOXES[2], True)
    both.call("reset_all_prompts")
    assert set(both.state) == {"original_height", "original_width", "backbone_out"}
    # Without results a threshold changes nothing.
    both.call("set_confidence_threshold", 0.1)
    both.call("add_geometric_prompt", BOXES[2], True)
    nothing = both.call("set_confidence_threshold", 1.0)
    assert nothing["masks"].shape == (0, 1, 400, 600)


def test_maps_of_the_backbone(processor, network, images):
    """They are upstream's, of all images of a state, and made when they are asked for."""
    several = [Image.fromarray(images[name]) for name in ("odd 303x384", "tall 451x300")]
    with upstream_sam3.on_cpu():
        theirs = concepts.processor(network).set_image_batch(several)["backbone_out"]
    ours = processor.set_image_batch(several)["backbone_out"]
    copied, pickled = copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))
    assert set(ours) == {"encoded", "sam2_backbone_out"}
    assert "backbone_fpn" in ours
    for key in ("backbone_fpn", "vision_pos_enc"):
        assert len(ours[key]) == len(theirs[key]) == 3
        for found, expected in zip(ours[key], theirs[key], strict=True):
            scale = float(expected.abs().max())
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-4 * scale)
    assert torch.equal(ours.get("vision_features"), ours["backbone_fpn"][-1])
    assert torch.equal(copied["backbone_fpn"][0], ours["backbone_fpn"][0])
    # The coarsest is what the decoder reads.
    coarsest = ours["vision_features"].permute(0, 2, 3, 1)
    torch.testing.assert_close(coarsest, ours["encoded"][0], rtol=0, atol=1e-4)
    # A pickle holds no weights, but the maps that were made.
    assert pickled.get("backbone_fpn") is None
    with pytest.raises(KeyError, match="vision_features"):
        pickled["vision_features"]
    again = pickle.loads(pickle.dumps(ours))
    assert torch.equal(again["vision_features"], ours["vision_features"])


@pytest.mark.parametrize("axis", [0, -1])
def test_maps_are_those_of_the_image_that_was_encoded(processor, images, axis):
    """They are computed later: what a program writes into its array before has no effect."""
    image = np.moveaxis(images["odd 303x384"], -1, axis).copy()
    before = processor.set_image(image.copy())["backbone_out"]["vision_features"]
    out = processor.set_image(image)["backbone_out"]
    image[:] = 0
    assert torch.equal(out["vision_features"], before)


@pytest.mark.parametrize(
    ("box", "label"), [(BOXES[0], "no"), (BOXES[0], None), (["a"] * 4, True), ({"x": 1}, True)]
)
def test_boxes_and_labels_that_are_refused(processor, network, images, box, label):
    state = processor.set_image(Image.fromarray(images["odd 303x384"]))
    judge = concepts.processor(network)
    with upstream_sam3.on_cpu():
        theirs = judge.set_image(Image.fromarray(images["odd 303x384"]))
        with pytest.raises((TypeError, ValueError)):
            judge.add_geometric_prompt(box, label, theirs)
    with pytest.raises(sam_rlx.InvalidArgumentError):
        processor.add_geometric_prompt(box, label, state)
    assert "geometric_prompt" not in state


def test_images_in_other_forms(processor, network, images):
    image = images["odd 303x384"]
    grey = Image.fromarray(image).convert("L")
    reference = processor.set_text_prompt("a cat", processor.set_image(Image.fromarray(image)))
    chw = np.ascontiguousarray(image.transpose(2, 0, 1))
    state = processor.set_text_prompt("a cat", processor.set_image(chw))
    assert state["masks_logits"].numpy().tobytes() == reference["masks_logits"].numpy().tobytes()
    for other in (
        as_upstream(image),
        as_upstream(image).float() / 255,
        as_upstream(image).double() * (0.7 / 255),
        grey,
        image,  # upstream takes the last two axes for the sides, and so do we
    ):
        both = Both(processor, network, 0.0)
        both.call("set_image", other)
        both.call("set_text_prompt", "a cat")
    assert both.state["masks"].shape[2:] == (384, 3)


def test_batch_of_images(processor, network, images):
    both = Both(processor, network, 0.5)
    both.call("set_image_batch", [Image.fromarray(images["tall 451x300"])] * 2)
    ours, theirs = both.state, both.judges.state
    for key in ("original_heights", "original_widths"):
        assert ours[key] == theirs[key]


def test_states_do_not_meet(processor, images):
    batch = [Image.fromarray(images[name]) for name in ("odd 303x384", "tall 451x300")]
    states = [processor.set_image(image) for image in batch]
    for state in states:
        processor.set_text_prompt("a cat", state)
    again = processor.set_text_prompt("a cat", processor.set_image(batch[0]))
    assert states[0]["masks_logits"].numpy().tobytes() == again["masks_logits"].numpy().tobytes()
    assert states[1]["masks"].shape[2:] == (451, 300)


# ---------------------------------------------------------------- clicks

POINTS = {"point_coords": np.array([[50.0, 40.0], [200.0, 90.0]]), "point_labels": np.array([1, 0])}
CLICKS = [
    POINTS,
    {**POINTS, "multimask_output": False},
    {"box": np.array([[10.0, 20.0, 90.0, 80.0], [100.0, 50.0, 250.0, 260.0]])},
    {"box": np.array([0.1, 0.2, 0.6, 0.7]), "normalize_coords": False, "return_logits": True},
]


@pytest.fixture(scope="module")
def clicking():
    return concepts.image_model(clicks=True)


@pytest.fixture(scope="module")
def clicking_path(clicking, tmp_path_factory):
    return concepts.save(tmp_path_factory.mktemp("clicks") / "tiny.safetensors", clicking)


def click_pair(clicking, clicking_path):
    ours = build_sam3_image_model(checkpoint_path=clicking_path, enable_inst_interactivity=True)
    mine = Sam3Processor(ours, resolution=concepts.CONFIG.img_size)
    return (ours, mine), (clicking, concepts.processor(clicking))


def clicks_agree(parity, network, image, prompts, ours, theirs):
    """Hold ours to upstream's in float64, which may fall short of it as much as ours."""
    options = {"multimask_output": True, "return_logits": False, **prompts}
    prompts = {k: v for k, v in options.items() if k not in ("multimask_output", "return_logits")}
    single = sam3_clicks.predict_inst(network, image, prompts, options["multimask_output"])[3:]
    with upstream.float64():
        double = upstream.double(network)
        exact = sam3_clicks.predict_inst(double, image, prompts, options["multimask_output"])[3:]
    for a, b in zip(ours, theirs, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
    parity.masks_agree(ours[0] > 0, exact[0])
    if options["return_logits"]:
        parity.close(ours[0], exact[0], single[0], "logits")
    parity.close(ours[1], exact[1], single[1], "iou_predictions")
    parity.close(ours[2], exact[2], single[2], "low_res_masks")


@pytest.mark.filterwarnings("ignore")  # of upstream, which finds no GPU for its holes
def test_predict_inst(parity, clicking, clicking_path, images):
    pixels = images["odd 303x384"]
    image = Image.fromarray(pixels)
    (ours, mine), _ = click_pair(clicking, clicking_path)
    both = Both(mine, clicking, 0.0)
    both.call("set_image", image)
    for clicks in CLICKS:
        with upstream_sam3.on_cpu(), torch.inference_mode():
            theirs = clicking.predict_inst(both.judges.state, **clicks)
            found = ours.predict_inst(both.state, **clicks), theirs
            clicks_agree(parity, clicking, pixels, clicks, *found)
    both.call("set_text_prompt", "a cat")  # on the same state


def test_features_for_clicks_come_with_those_for_texts(clicking_path, images):
    """From one pass through the trunk, and to the bit those of a predictor for clicks alone."""
    ours = build_sam3_image_model(checkpoint_path=clicking_path, enable_inst_interactivity=True)
    processor = Sam3Processor(ours, resolution=concepts.CONFIG.img_size)
    image = images["odd 303x384"]
    state = processor.set_image(Image.fromarray(image))
    found = [x.numpy() for x in state["backbone_out"]["sam2_backbone_out"]["encoded"]]
    predictor = sam_rlx.ImagePredictor(ours.model, resize="integer")
    predictor.set_image(image)
    alone = predictor.image_embeddings
    assert [x.shape for x in found] == [x.shape for x in alone]
    assert [x.tobytes() for x in found] == [x.tobytes() for x in alone]


@pytest.mark.filterwarnings("ignore")
def test_predict_inst_batch(parity, clicking, clicking_path, images):
    arrays = [images[name] for name in ("odd 303x384", "tall 451x300")]
    batch = [Image.fromarray(array) for array in arrays]
    boxes = [clicks["box"] for clicks in (CLICKS[2], {"box": np.array([5.0, 6.0, 70.0, 80.0])})]
    found = []
    with upstream_sam3.on_cpu(), torch.inference_mode():
        for model, processor in click_pair(clicking, clicking_path):
            state = processor.set_image_batch(batch)
            found.append(model.predict_inst_batch(state, box_batch=boxes))
    results = zip(*(zip(*part, strict=True) for part in found), strict=True)
    for array, box, (a, b) in zip(arrays, boxes, results, strict=True):
        clicks_agree(parity, clicking, array, {"box": box}, a, b)


def test_clicks_need_to_be_asked_for(processor, model, path):
    state = processor.set_image(Image.new("RGB", (9, 7)))
    with pytest.raises(sam_rlx.UnsupportedError, match="enable_inst_interactivity"):
        model.predict_inst(state, **POINTS)
    with pytest.raises(sam_rlx.UnsupportedError, match="tracker"):
        build_sam3_image_model(checkpoint_path=path, enable_inst_interactivity=True)


def test_errors(processor, model, path, tiny_checkpoint):
    for call in (
        lambda: processor.set_text_prompt("a cat", {}),
        lambda: processor.add_geometric_prompt(BOXES[0], True, {}),
    ):
        with pytest.raises(ValueError, match="expected one of set_image"):
            call()
    with pytest.raises(ValueError, match="image: expected a PIL image or a tensor"):
        processor.set_image("image.jpg")
    with pytest.raises(ValueError, match="images: expected a list"):
        processor.set_image_batch(np.zeros((1, 3, 4, 4), np.uint8))
    with pytest.raises(AssertionError, match="images: expected at least one"):
        processor.set_image_batch([])
    with pytest.raises(AssertionError, match="images: expected PIL images"):
        processor.set_image_batch([np.zeros((3, 4, 4), np.uint8)])
    state = processor.set_image(Image.new("RGB", (9, 7)))
    with pytest.raises(ValueError, match="box: expected"):
        processor.add_geometric_prompt([0.5, 0.5, 0.1], True, state)
    with pytest.raises(sam_rlx.UnsupportedError, match="resolution: expected 112, found 1008"):
        Sam3Processor(model, 1008)
    with pytest.raises(sam_rlx.UnsupportedError, match="found 'cuda'"):
        Sam3Processor(model, 112, device="cuda")
    with pytest.raises(sam_rlx.UnsupportedError, match="found 'cuda'"):
        build_sam3_image_model(checkpoint_path=path, device="cuda")
    with pytest.raises(sam_rlx.UnsupportedError, match="expected family sam3, found sam"):
        build_sam3_image_model(checkpoint_path=tiny_checkpoint)
    assert model.eval() is model.to("cpu") is model
    assert Sam3Processor(model).resolution == concepts.CONFIG.img_size


def test_a_failed_call_leaves_the_boxes(processor, images):
    """Upstream appends before it fails; a box of three numbers is refused before."""
    state = processor.set_image(Image.fromarray(images["odd 303x384"]))
    processor.add_geometric_prompt(BOXES[0], True, state)
    with pytest.raises(ValueError, match="box: expected"):
        processor.add_geometric_prompt([1, 2], True, state)
    assert len(state["geometric_prompt"].boxes) == 1
