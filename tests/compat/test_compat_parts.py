"""Parts of networks that programs call, beside upstream's: the float64 rule for each result."""

import copy

import numpy as np
import pytest
import sam_rlx
from sam_rlx.compat.sam2.build_sam import build_sam2
from sam_rlx.compat.segment_anything import SamPredictor
from sam_rlx.compat.segment_anything.modeling import Sam
from support import parity, tiny, tiny_sam2

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam2 = pytest.importorskip("support.upstream_sam2")
torch = upstream.torch
pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def networks(model):
    """Ours, and upstream's in float32 and float64."""
    reference = upstream.build_sam(tiny.TINY, seed=0)
    return Sam(model), reference, copy.deepcopy(reference).double()


def prompts(seed=0):
    rng = np.random.default_rng(seed)
    side = tiny.TINY.img_size
    coords = torch.from_numpy(rng.uniform(0, side, (3, 2, 2)).astype(np.float32))
    labels = torch.tensor([[1, 0], [1, -1], [0, 1]])
    boxes = torch.from_numpy(np.sort(rng.uniform(0, side, (3, 2, 2)), axis=1).astype(np.float32))
    masks = torch.from_numpy(rng.normal(0, 4, (3, 1, side // 4, side // 4)).astype(np.float32))
    return coords, labels, boxes.reshape(3, 4), masks


def arguments(kind):
    coords, labels, boxes, masks = prompts()
    return {
        "points": ((coords, labels), None, None),
        "boxes": (None, boxes, None),
        "both": ((coords, labels), boxes, None),
        "masks": (None, None, masks),
        "all": ((coords, labels), boxes, masks),
        "nothing": (None, None, None),
    }[kind]


def widened(value):
    if isinstance(value, tuple):
        return tuple(widened(each) for each in value)
    return value.double() if torch.is_tensor(value) and value.is_floating_point() else value


@pytest.mark.parametrize("kind", ["points", "boxes", "both", "masks", "all", "nothing"])
def test_prompt_encoder(networks, kind):
    ours, single, exact = networks
    given = arguments(kind)
    found = ours.prompt_encoder(*given)
    with torch.no_grad(), upstream.float64():
        truth = exact.prompt_encoder(*map(widened, given))
    with torch.no_grad():
        rounded = single.prompt_encoder(*given)
    for name, left, wide, narrow in zip(("sparse", "dense"), found, truth, rounded, strict=True):
        assert left.shape == narrow.shape
        assert left.dtype == torch.float32
        if left.numel():
            parity.close(left.numpy(), wide.detach().numpy(), narrow.detach().numpy(), name)


@pytest.mark.parametrize("kind", ["points", "both", "masks", "all", "nothing"])
@pytest.mark.parametrize("multimask", [True, False])
def test_mask_decoder(networks, kind, multimask):
    ours, single, exact = networks
    with torch.no_grad():
        rounded = single.prompt_encoder(*arguments(kind))
        encoding = single.prompt_encoder.get_dense_pe()
    grid, channels = single.prompt_encoder.image_embedding_size, single.prompt_encoder.embed_dim
    rng = np.random.default_rng(3)
    image = torch.from_numpy(rng.normal(0, 1, (1, channels, *grid)).astype(np.float32))
    call = {
        "image_embeddings": image,
        "image_pe": encoding,
        "sparse_prompt_embeddings": rounded[0],
        "dense_prompt_embeddings": rounded[1],
        "multimask_output": multimask,
    }
    with torch.no_grad():
        narrow = single.mask_decoder(**call)
    with torch.no_grad(), upstream.float64():
        wide = exact.mask_decoder(**{name: widened(value) for name, value in call.items()})
    for name, left, one, other in zip(
        ("masks", "iou"), ours.mask_decoder(**call), wide, narrow, strict=True
    ):
        parity.close(left.numpy(), one.detach().numpy(), other.detach().numpy(), name)


def test_the_encoding_of_positions(networks):
    ours, single, exact = networks
    found = ours.prompt_encoder.get_dense_pe()
    narrow = single.prompt_encoder.get_dense_pe().detach().numpy()
    with upstream.float64():
        wide = exact.prompt_encoder.get_dense_pe().detach().numpy()
    assert found.shape == narrow.shape
    parity.close(found.numpy(), wide, narrow, "dense_pe")
    for name in ("embed_dim", "image_embedding_size", "input_image_size"):
        assert getattr(ours.prompt_encoder, name) == getattr(single.prompt_encoder, name)


def test_shapes_that_do_not_fit(networks):
    ours, single, _ = networks
    encoding = single.prompt_encoder.get_dense_pe().detach()
    sparse, dense = ours.prompt_encoder(*arguments("points"))
    for image in (encoding[:, :, 1:], torch.cat([encoding, encoding])):
        with pytest.raises(RuntimeError) as raised:
            ours.mask_decoder(image, encoding, sparse, dense, True)
        assert isinstance(raised.value, sam_rlx.SamRlxError)
    with pytest.raises(sam_rlx.SamRlxError):
        ours.prompt_encoder(None, None, torch.zeros(1, 1, 3, 3))
    with pytest.raises(AttributeError, match="a part of the network"):
        ours.mask_decoder.transformer()


def images(seed, shape):
    """Values that no image of whole grey levels has after `preprocess`."""
    return torch.from_numpy(np.random.default_rng(seed).uniform(0, 1, shape).astype(np.float32))


def test_image_encoder_takes_what_a_program_normalizes_itself(networks):
    """MedSAM's inference scales images to 0 .. 1."""
    ours, single, exact = networks
    side = tiny.TINY.img_size
    pixels = images(1, (2, 3, side, side))
    found = ours.image_encoder(pixels)
    with torch.no_grad():
        narrow = single.image_encoder(pixels)
    with torch.no_grad(), upstream.float64():
        wide = exact.image_encoder(pixels.double())
    assert found.shape == narrow.shape
    parity.close(found.numpy(), wide.numpy(), narrow.numpy())
    with pytest.raises(RuntimeError, match="image_encoder: expected"):
        ours.image_encoder(pixels[:, :, 1:])


def test_floats_of_all_values_as_an_image(networks):
    ours, single, exact = networks
    side = tiny.TINY.img_size
    pixels = 255 * images(2, (3, side - 31, side))
    record = {"image": pixels, "original_size": (90, 131)}
    record["boxes"] = torch.tensor([[9.0, 12, 70, 60]])
    [found] = ours([record], multimask_output=True)
    [narrow] = single([record], multimask_output=True)
    with upstream.float64():
        [wide] = exact([{**record, "image": pixels.double()}], multimask_output=True)
    for name in ("iou_predictions", "low_res_logits"):
        parity.close(found[name].numpy(), wide[name].numpy(), narrow[name].numpy(), name)
    predictor = SamPredictor(ours)
    predictor.set_torch_image(pixels[None], (90, 131))
    again = predictor.predict_torch(None, None, record["boxes"])
    for left, name in zip(again, ("masks", "iou_predictions", "low_res_logits"), strict=True):
        assert torch.equal(left, found[name])


def test_forward_image(sam2_checkpoint):
    ours = build_sam2(None, sam2_checkpoint)
    weights = upstream.safetensors.torch.load_file(sam2_checkpoint)
    single = upstream_sam2.build_sam2(
        tiny_sam2.TINY, {name: value.numpy() for name, value in weights.items()}
    )
    exact = upstream.double(single)
    side = ours.image_size
    images = torch.from_numpy(
        np.random.default_rng(5).normal(0, 1, (2, 3, side, side)).astype(np.float32)
    )
    found = ours.forward_image(images)
    with torch.no_grad():
        narrow = single.forward_image(images)
    with torch.no_grad(), upstream.float64():
        wide = exact.forward_image(images.double())
    assert set(found) == set(narrow)
    for name in ("backbone_fpn", "vision_pos_enc"):
        for level, (left, one, other) in enumerate(
            zip(found[name], wide[name], narrow[name], strict=True)
        ):
            assert left.shape == other.shape
            parity.close(left.numpy(), one.numpy(), other.numpy(), f"{name}[{level}]")
    assert torch.equal(found["vision_features"], found["backbone_fpn"][-1])
    with pytest.raises(RuntimeError, match="forward_image: expected"):
        ours.forward_image(images[:, :, 1:])
