"""What programs call on upstream's networks and tensors without using their layers."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image, ImageCms
from sam_rlx.compat.common.tensor import as_tensor
from sam_rlx.compat.sam2.build_sam import build_sam2, build_sam2_video_predictor
from sam_rlx.compat.sam2.sam2_image_predictor import SAM2ImagePredictor
from sam_rlx.compat.segment_anything import SamPredictor
from sam_rlx.compat.segment_anything.modeling import Sam
from support import nudged, tiny, tiny_sam2

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam2 = pytest.importorskip("support.upstream_sam2")
torch = upstream.torch
pytestmark = pytest.mark.parity

UNCHANGED = {
    "eval": lambda x: x.eval(),
    "cpu": lambda x: x.cpu(),
    "float": lambda x: x.float(),
    "frozen": lambda x: x.requires_grad_(False),
    "to a name": lambda x: x.to("cpu"),
    "to a device": lambda x: x.to(torch.device("cpu:0")),
    "to a type": lambda x: x.to(torch.float32),
    "to both": lambda x: x.to("cpu", torch.float32),
    "by names": lambda x: x.to(device=torch.device("cpu"), dtype=torch.float32),
}


@pytest.fixture(params=["sam", "sam2", "video"])
def pair(request: pytest.FixtureRequest, model: sam_rlx.Model, sam2_checkpoint: Path) -> Any:
    """A network of ours, and upstream's."""
    if request.param == "sam":
        return Sam(model), upstream.build_sam(tiny.TINY, seed=0)
    build = build_sam2 if request.param == "sam2" else build_sam2_video_predictor
    return build(None, sam2_checkpoint), upstream_sam2.build_sam2(tiny_sam2.TINY)


@pytest.mark.parametrize("name", UNCHANGED)
def test_a_network_in_float32_on_the_cpu_stays_itself(pair: Any, name: str) -> None:
    for network in pair:
        assert UNCHANGED[name](network) is network
        assert network.training is False


def test_what_a_network_cannot_do(pair: Any) -> None:
    ours, theirs = pair
    assert torch.device(ours.device) == next(theirs.parameters()).device
    assert ours.device.type == "cpu"
    for call in (
        lambda x: x.to("cuda"),
        lambda x: x.cuda(),
        lambda x: x.to(torch.float16),
        lambda x: x.to(dtype=torch.bfloat16),
        lambda x: x.requires_grad_(),
    ):
        with pytest.raises(sam_rlx.UnsupportedError, match="expected"):
            call(ours)
    with pytest.raises(AttributeError, match=r"expected one of the names that docs/compat\.md"):
        ours.mask_decoder.parameters()
    assert not hasattr(ours, "state_dict")
    assert type(copy.copy(ours)) is type(pickle.loads(pickle.dumps(ours))) is type(ours)


def test_parameters_are_counted_and_frozen_as_upstreams(pair: Any) -> None:
    told = []
    for network in pair:
        named = [(name, tuple(x.shape), x.numel()) for name, x in network.named_parameters()]
        for name, each in network.named_parameters():
            assert each.requires_grad
            if name.startswith("image_encoder."):
                each.requires_grad = False
        left = sum(x.numel() for x in network.parameters() if x.requires_grad)
        told.append((sorted(named), left))
    assert told[0] == told[1]
    assert 0 < told[0][1] < sum(x.numel() for x in pair[0].parameters())
    trained = [x for x in pair[0].parameters() if x.requires_grad]
    for call in (
        lambda: torch.optim.Adam(trained),
        lambda: trained[0].grad,
        pair[0].requires_grad_,
    ):
        with pytest.raises(sam_rlx.UnsupportedError, match="train with upstream's package"):
            call()
    assert not any(x.requires_grad for x in pair[0].requires_grad_(False).parameters())


def test_sizes_of_results_as_of_tensors_and_of_arrays() -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    ours, theirs = as_tensor(values), torch.from_numpy(values)
    assert ours.size() == tuple(theirs.size())
    assert [ours.size(dim) for dim in (0, 2, -1)] == [theirs.size(dim) for dim in (0, 2, -1)]
    assert ours.size == values.size == np.size(ours)
    assert ours[0].size() == tuple(theirs[0].size())
    assert ours.device.type == theirs.device.type
    assert (ours[:0].size, ours[:0].size()) == (0, (0, 3, 4))


@pytest.mark.parametrize("mode", ["RGB", "YCbCr", "HSV", "LAB"])
def test_channels_of_pil_images_are_taken_as_upstream_takes_them(
    sam2_checkpoint: Path, image: np.ndarray, mode: str
) -> None:
    shown = Image.fromarray(image[::4, ::4])
    if mode == "LAB":
        profiles = (ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"))
        shown = ImageCms.profileToProfile(shown, *profiles, outputMode="LAB")  # type: ignore
    else:
        shown = shown.convert(mode)
    weights = upstream.safetensors.torch.load_file(sam2_checkpoint)
    network = upstream_sam2.build_sam2(
        tiny_sam2.TINY, {name: value.numpy() for name, value in weights.items()}
    )
    ours = SAM2ImagePredictor(build_sam2(None, sam2_checkpoint))

    def call(predictor: Any) -> Any:
        predictor.set_image(shown)
        return predictor.predict(np.array([[30.0, 40.0]]), np.array([1]), return_logits=True)

    single = upstream_sam2.image_predictor(network)
    exact = upstream_sam2.image_predictor(upstream.double(network))
    rounded = nudged.results(single, torch, call)
    with upstream.float64():
        truth = call(exact)
    nudged.hold(call(ours), truth, rounded)


def test_lists_that_are_too_short(sam2_checkpoint: Path, image: np.ndarray) -> None:
    ours = SAM2ImagePredictor(build_sam2(None, sam2_checkpoint))
    theirs = upstream_sam2.image_predictor(upstream_sam2.build_sam2(tiny_sam2.TINY))
    small = np.ascontiguousarray(image[::8, ::8])
    for predictor in (theirs, ours):
        with pytest.raises(RuntimeError) as raised:
            predictor.set_image_batch([])
        assert predictor is theirs or isinstance(raised.value, sam_rlx.SamRlxError)
        predictor.set_image_batch([small, small])
        with pytest.raises(IndexError) as short:
            predictor.predict_batch(box_batch=[np.array([1, 2, 30, 40])])
        assert predictor is theirs or isinstance(short.value, sam_rlx.SamRlxError)


def test_a_box_as_a_tensor(model: sam_rlx.Model, image: np.ndarray) -> None:
    predictor = SamPredictor(Sam(model))
    predictor.set_image(image)
    box = [150, 40, 420, 330]
    expected = predictor.predict(box=np.array(box))
    for left, right in zip(predictor.predict(box=torch.tensor(box)), expected, strict=True):
        np.testing.assert_array_equal(left, right)
