"""Helpers under upstream's module names beside upstream's own, and tensors' methods of results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx.compat.common.tensor import as_tensor
from sam_rlx.compat.sam2.utils import amg, misc, transforms
from sam_rlx.compat.sam3 import visualization_utils as visual
from sam_rlx.compat.sam3.model import box_ops
from sam_rlx.compat.segment_anything.utils import amg as sam_amg
from sam_rlx.compat.segment_anything.utils.onnx import SamOnnxModel

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
torch = pytest.importorskip("torch", reason="needs PyTorch")
pytestmark = pytest.mark.parity

BOXES = np.random.default_rng(3).uniform(0, 1, (2, 5, 4)).astype(np.float32)
CORNERS = np.concatenate([BOXES[..., :2], BOXES[..., :2] + BOXES[..., 2:]], axis=-1)


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return np.asarray(value)


# ---------------------------------------------------------------- tensors


ARRAY = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7 - 1.3
METHODS: dict[str, Any] = {
    "to a type": lambda x: x.to(torch.float64),
    "to a type by name": lambda x: x.to(dtype=torch.int64),
    "to the CPU": lambda x: x.to("cpu", non_blocking=True),
    "to a device": lambda x: x.to(device=torch.device("cpu")),
    "float": lambda x: (x > 0).float(),
    "int": lambda x: x.int(),
    "long": lambda x: x.long(),
    "bool": lambda x: x.bool(),
    "double": lambda x: x.double(),
    "type": lambda x: x.type(torch.float32),
    "permute": lambda x: x.permute(2, 0, 1),
    "permute by a tuple": lambda x: x.permute((1, 2, 0)),
    "transpose": lambda x: x.transpose(1, 2),
    "transpose of a matrix": lambda x: x[0].transpose(0, 1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "unsqueeze from behind": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "squeeze of nothing": lambda x: x.squeeze(0),
    "view": lambda x: x.view(-1, 4),
    "reshape": lambda x: x.reshape(4, 6),
    "flatten": lambda x: x.flatten(),
    "flatten from": lambda x: x.flatten(1),
    "flatten to": lambda x: x.flatten(0, 1),
    "expand": lambda x: x[:, :1].expand(-1, 5, -1),
    "unbind": lambda x: x.unbind(-1),
    "any along": lambda x: (x > 1).any(dim=1),
    "any": lambda x: (x > 1).any(),
    "all along": lambda x: (x > -9).all(dim=-1),
    "all along and kept": lambda x: (x > 0).all(1, True),
    "sum along": lambda x: x.sum(dim=(0, 2)),
    "mean": lambda x: x.mean(dim=2, keepdim=True),
    "max along": lambda x: tuple(x.max(dim=1)),
    "min along": lambda x: tuple(x.min(0)),
    "max": lambda x: x.max(),
    "argmax": lambda x: x.argmax(dim=-1),
    "clamp": lambda x: x.clamp(min=0.1, max=0.9),
    "clamp below": lambda x: x.clamp(0),
    "sigmoid": lambda x: x.sigmoid(),
    "repeat": lambda x: x[:, None].repeat(1, 3, 1, 2),
    "clone and detach": lambda x: x.detach().clone().contiguous().cpu(),
    "numpy": lambda x: (x > 0.0).cpu().numpy(),
    "numbers of elements": lambda x: (x.numel(), x.dim()),
    "an item": lambda x: x[0, 1, 2].item(),
    "a list": lambda x: x[0, 1].tolist(),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_tensors(name: str) -> None:
    call = METHODS[name]
    found, expected = plain(call(as_tensor(ARRAY.copy()))), plain(call(torch.from_numpy(ARRAY)))
    for left, right in zip(
        found if isinstance(found, tuple) else (found,),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    ):
        assert left.shape == right.shape
        assert left.dtype == right.dtype
        np.testing.assert_allclose(left, right, rtol=1e-6)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sigmoid": lambda x: torch.sigmoid(x),
    "stack": lambda x: torch.stack(list(x)),
    "concatenate with a tensor": lambda x: torch.cat([x, torch.ones(1, *x.shape[1:])]),
    "largest along": lambda x: torch.max(x, dim=1)[0],
    "where": lambda x: torch.where(x > 0, 1.0, 0.0),
    "interpolate": lambda x: torch.nn.functional.interpolate(x, scale_factor=2.0),
    "times a tensor": lambda x: x * torch.full(x.shape, 2.0),
    "tensor times": lambda x: torch.full(x.shape, 2.0) * x,
    "upside down": lambda x: torch.relu(x.flip(1)),
    "method of tensors": lambda x: x.chunk(2)[0],
    "another method": lambda x: x.flatten().topk(3)[0],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_pytorch_take_results(name: str) -> None:
    call = FUNCTIONS[name]
    found, expected = call(as_tensor(ARRAY.copy())), call(torch.from_numpy(ARRAY))
    assert isinstance(found, torch.Tensor)
    torch.testing.assert_close(found, expected)


def test_numpy_still_works_on_results() -> None:
    x = as_tensor(ARRAY.copy())
    assert type(x.numpy()) is np.ndarray
    np.testing.assert_array_equal(np.max(x, axis=1), ARRAY.max(axis=1))
    np.testing.assert_array_equal(np.sum(x, axis=(0, 1), keepdims=True).shape, (1, 1, 4))
    np.testing.assert_array_equal(np.transpose(x, (2, 1, 0)), ARRAY.transpose(2, 1, 0))
    np.testing.assert_array_equal(np.squeeze(x[:1]), ARRAY[0])
    assert np.any(x > 0)
    assert np.argmax(x) == 23
    assert x.view(np.int32).dtype == np.int32
    assert torch.as_tensor(x).shape == (2, 3, 4)
    with pytest.raises(sam_rlx.UnsupportedError, match="found 'cuda'"):
        x.to("cuda")
    with pytest.raises(sam_rlx.UnsupportedError, match="found 'cuda'"):
        x.cuda()
    with pytest.raises(AttributeError, match=r"torch\.from_numpy"):
        x.name_of_nothing()
    assert not hasattr(x, "values_of_nothing")


# ---------------------------------------------------------------- boxes

ONE = [
    "box_cxcywh_to_xyxy",
    "box_cxcywh_to_xywh",
    "box_xywh_to_xyxy",
    "box_xywh_to_cxcywh",
    "box_xyxy_to_xywh",
    "box_xyxy_to_cxcywh",
    "box_area",
]


@pytest.fixture(scope="module")
def theirs() -> Any:
    pytest.importorskip("support.upstream_sam3", reason="needs sam3")
    return pytest.importorskip("sam3.model.box_ops", reason="needs sam3")


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("shape", [(2, 5, 4), (10, 4), (4,)])
def test_boxes(theirs: Any, name: str, shape: tuple[int, ...]) -> None:
    values = BOXES.ravel()[: int(np.prod(shape))].reshape(shape)
    expected = getattr(theirs, name)(torch.from_numpy(values)).numpy()
    found = getattr(box_ops, name)(values)
    np.testing.assert_array_equal(found, expected)
    tensor = getattr(box_ops, name)(torch.from_numpy(values))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(tensor.numpy(), expected)


def test_boxes_of_pairs_and_masks(theirs: Any) -> None:
    pair = CORNERS[0], CORNERS[1, :3]
    tensors = [torch.from_numpy(x) for x in pair]
    for found, expected in zip(box_ops.box_iou(*pair), theirs.box_iou(*tensors), strict=True):
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-6)
    np.testing.assert_allclose(
        box_ops.generalized_box_iou(*pair), theirs.generalized_box_iou(*tensors), rtol=1e-5
    )
    masks = np.zeros((3, 7, 9), np.float32)
    masks[0, 2:5, 3:8] = masks[1, 6, 8] = 1
    np.testing.assert_array_equal(
        box_ops.masks_to_boxes(masks), [[3, 2, 8, 5], [8, 6, 9, 7], [0, 0, 0, 0]]
    )
    with pytest.raises(AssertionError, match=r"shape \(\.\.\., 4\)"):
        box_ops.box_area(np.ones((2, 3)))


# ---------------------------------------------------------------- sam2.utils


def test_sam2_helpers_are_those_of_sam() -> None:
    import sam2.utils.amg

    names = {n for n in dir(sam2.utils.amg) if callable(getattr(sam2.utils.amg, n))}
    own = {n for n in names if getattr(sam2.utils.amg, n).__module__ == "sam2.utils.amg"}
    for name in own:
        assert getattr(amg, name) is getattr(sam_amg, name)


def test_sam2_misc() -> None:
    import sam2.utils.misc

    masks = np.zeros((3, 1, 8, 11), np.bool_)
    masks[0, 0, 2:5, 3:9] = masks[1, 0, 7, 10] = True
    np.testing.assert_array_equal(
        misc.mask_to_box(masks), sam2.utils.misc.mask_to_box(torch.from_numpy(masks))
    )
    first, second = np.ones((1, 2, 2), np.float32), np.zeros((1, 3, 2), np.float32)
    labels = np.ones((1, 2), np.int32), np.zeros((1, 3), np.int32)
    ours = misc.concat_points(misc.concat_points(None, first, labels[0]), second, labels[1])
    assert {k: v.shape for k, v in ours.items()} == {
        "point_coords": (1, 5, 2),
        "point_labels": (1, 5),
    }
    with pytest.raises(AttributeError, match="get_sdpa_settings"):
        _ = misc.get_sdpa_settings


def test_holes_in_scores() -> None:
    """By upstream's rule with components from SciPy: its own come from a CUDA kernel."""
    upstream_video = pytest.importorskip("support.upstream_video")
    logits = np.random.default_rng(8).standard_normal((2, 1, 20, 24), np.float32) + 0.7
    for area in (1, 3, 8):
        expected = upstream_video.fill_holes(torch.from_numpy(logits), area).numpy()
        found = misc.fill_holes_in_mask_scores(logits, area)
        np.testing.assert_array_equal(found, expected)
        assert (found.numpy() != logits).any()
    with pytest.raises(AssertionError, match="max_area"):
        misc.fill_holes_in_mask_scores(logits, 0)


@pytest.mark.parametrize("normalize", [True, False])
def test_sam2_transforms(normalize: bool) -> None:
    from sam2.utils.transforms import SAM2Transforms

    ours, theirs = (
        kind(128, 0.0, disable_torch_jit=True)
        for kind in (transforms.SAM2Transforms, SAM2Transforms)
    )
    points = np.random.default_rng(2).uniform(0, 90, (2, 3, 2)).astype(np.float32)
    boxes = np.random.default_rng(2).uniform(0, 90, (3, 4)).astype(np.float32)
    for name, values in (("transform_coords", points), ("transform_boxes", boxes)):
        expected = getattr(theirs, name)(torch.from_numpy(values), normalize, (70, 90))
        np.testing.assert_array_equal(getattr(ours, name)(values, normalize, (70, 90)), expected)
        assert isinstance(getattr(ours, name)(torch.from_numpy(values)), torch.Tensor)
    logits = np.random.default_rng(4).standard_normal((2, 3, 16, 16), np.float32)
    expected = theirs.postprocess_masks(torch.from_numpy(logits), (45, 33)).numpy()
    np.testing.assert_allclose(
        ours.postprocess_masks(logits, (45, 33)), expected, rtol=0, atol=4e-7 * np.abs(logits).max()
    )
    with pytest.raises(sam_rlx.UnsupportedError, match="set_image"):
        ours(np.zeros((4, 4, 3), np.uint8))


def test_onnx_is_told() -> None:
    with pytest.raises(sam_rlx.UnsupportedError, match=r"torch\.onnx\.export"):
        SamOnnxModel(None, return_single_mask=True)


# ---------------------------------------------------------------- visualization_utils


def test_normalized_boxes() -> None:
    box = [480.0, 290.0, 110.0, 360.0]
    expected = [480 / 640, 290 / 580, 110 / 640, 360 / 580]
    assert visual.normalize_bbox(box, 640, 580) == expected
    tensor = box_ops.box_xywh_to_cxcywh(torch.tensor(box).view(-1, 4))
    found = visual.normalize_bbox(tensor, 640, 580).flatten().tolist()
    np.testing.assert_allclose(found, [535 / 640, 470 / 580, 110 / 640, 360 / 580], rtol=1e-6)
    with pytest.raises(AssertionError, match="a list of 4"):
        visual.normalize_bbox([1.0, 2.0], 640, 580)


def test_prepared_masks_are_by_object_and_not_empty() -> None:
    masks = np.zeros((3, 4, 5), np.bool_)
    masks[0, 1, 1] = masks[2, 2, 2] = True
    out = {"out_obj_ids": np.array([4, 7, 9]), "out_binary_masks": masks}
    found = visual.prepare_masks_for_visualization({3: out})
    assert list(found[3]) == [4, 9]
    np.testing.assert_array_equal(found[3][9], masks[2])


def test_drawn_boxes_and_masks(tmp_path: Any) -> None:
    image = Image.new("RGB", (40, 30))
    drawn = np.asarray(visual.draw_box_on_image(image, (10, 5, 20, 15), (255, 0, 0)))
    red = drawn[:, :, 0] == 255
    expected = np.zeros((30, 40), np.bool_)
    expected[4:21, 9:31] = True
    expected[7:18, 12:28] = False
    np.testing.assert_array_equal(red, expected)
    # A box that reaches out of the image: its edges end there.
    assert visual.draw_box_on_image(image, (-9, 20, 100, 40)).size == (40, 30)
    outputs = {
        "out_obj_ids": np.array([2]),
        "out_probs": np.array([0.5], np.float32),
        "out_boxes_xywh": np.array([[0.1, 0.1, 0.5, 0.5]], np.float32),
        "out_binary_masks": np.ones((1, 30, 40), np.bool_),
    }
    frame = np.zeros((30, 40, 3), np.uint8)
    assert visual.render_masklet_frame(frame, outputs).any()
    visual.save_masklet_image(frame, outputs, tmp_path / "frame.png")
    assert visual.load_frame(str(tmp_path / "frame.png")).shape == (30, 40, 3)
    with pytest.raises(ValueError, match="frame: expected"):
        visual.load_frame(str(tmp_path / "none.png"))
    with pytest.raises(AttributeError, match="found pascal_color_map"):
        _ = visual.pascal_color_map


class Axes:
    """What the helpers call of matplotlib's axes."""

    def __init__(self) -> None:
        self.images: list[np.ndarray] = []
        self.points: list[tuple[list[float], str]] = []

    def imshow(self, image: np.ndarray) -> None:
        self.images.append(image)

    def scatter(self, x: Any, y: Any, color: str, **_: Any) -> None:
        self.points.append(([*x, *y], color))


def test_what_is_drawn_on_axes() -> None:
    axes = Axes()
    mask = np.zeros((1, 6, 8), np.bool_)
    mask[0, 2, 3] = True
    visual.show_mask(as_tensor(mask), axes, obj_id=3)
    (image,) = axes.images
    assert image.shape == (6, 8, 4)
    np.testing.assert_array_equal(image[:, :, 3] > 0, mask[0])
    visual.show_points(np.array([[1.0, 2.0], [5.0, 6.0]]), np.array([1, 0]), axes)
    assert axes.points == [([1.0, 2.0], "green"), ([5.0, 6.0], "red")]


def test_figures_need_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        with pytest.raises(sam_rlx.MissingExtraError, match="matplotlib"):
            visual.plot_results(Image.new("RGB", (4, 4)), {"scores": [], "masks": [], "boxes": []})
    else:
        pytest.skip("matplotlib is installed")
