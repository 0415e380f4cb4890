"""SAM 3's image transform against torchvision and upstream: equal, not close."""

import numpy as np
import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = [
    pytest.mark.parity,
    pytest.mark.skipif(
        torch.backends.cpu.get_cpu_capability() == "DEFAULT",
        reason="torchvision resizes bytes in float where the CPU has no vector instructions",
    ),
]

SHAPES = [
    ((7, 5), (13, 11)),
    ((480, 640), (1008, 1008)),
    ((1080, 1920), (1008, 1008)),
    ((451, 300), (112, 112)),
    ((1, 600), (2, 1008)),
    ((600, 1), (1008, 2)),
    ((3000, 20), (64, 7)),
    ((3000, 20), (64, 20)),
    ((512, 512), (512, 300)),
    ((512, 512), (100, 512)),
    ((33, 77), (5, 3)),
    ((3, 3), (1000, 1)),
    ((1, 1), (64, 64)),
    ((1009, 1007), (1008, 1008)),
]


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def torchvision_resize(image, height, width):
    from torchvision.transforms.v2 import functional

    resized = functional.resize(torch.from_numpy(image).permute(2, 0, 1), [height, width])
    return resized.permute(1, 2, 0).numpy()


@pytest.mark.parametrize(("before", "after"), SHAPES)
@pytest.mark.parametrize("threads", [1, 3])
def test_resize_equals_torchvision(testing, before, after, threads):
    image = noise(*before)
    found = testing.resize_torchvision(image, *after, threads)
    assert np.array_equal(found, torchvision_resize(image, *after))


def test_random_sizes(testing):
    random = np.random.default_rng(0)
    for seed in range(200):
        (h, w), after = random.integers(1, 90, 2), random.integers(1, 90, 2)
        image = noise(h, w, seed)
        found = testing.resize_torchvision(image, *after)
        assert np.array_equal(found, torchvision_resize(image, *after)), (h, w, *after)


def preprocessed(image):
    """Return what the network of upstream sees."""
    processor = upstream_sam3.processor(None, 112)
    result = processor.transform(torch.from_numpy(image).permute(2, 0, 1))
    return result.permute(1, 2, 0).numpy()


SIZES = [(60, 80), (300, 200), (112, 112), (1, 3), (2000, 30)]


@pytest.mark.parametrize("hw", SIZES)
def test_preprocess_in_integers_is_upstream_on_a_cpu(testing, hw):
    image = noise(*hw)
    found = testing.preprocess_sam3(image, 112, integer=True, num_threads=2)
    assert np.array_equal(found, preprocessed(image))


@pytest.mark.parametrize("hw", SIZES)
def test_preprocess_in_float_is_upstream_on_a_gpu(testing, monkeypatch, hw):
    """Float sums of different order may round to another byte, but only next to a half."""
    from torchvision.transforms.v2.functional import _geometry

    monkeypatch.setattr(_geometry, "_do_native_uint8_resize_on_cpu", lambda _mode: False)
    image = noise(*hw)
    found, expected = testing.preprocess_sam3(image, 112), preprocessed(image)
    planes = torch.from_numpy(image).permute(2, 0, 1)[None].double()
    exact = torch.nn.functional.interpolate(planes, (112, 112), mode="bilinear", antialias=True)
    to_half = np.abs(exact[0].permute(1, 2, 0).numpy() % 1 - 0.5)
    differs = found != expected
    assert np.all(to_half[differs] < 1e-4)
    assert np.abs(found - expected).max() < 1.5 / 127.5
    assert np.array_equal(found, testing.preprocess_sam3(image, 112, num_threads=3))


@pytest.mark.parametrize("integer", [False, True])
def test_an_empty_image_is_refused(testing, integer):
    with pytest.raises(ValueError, match="image: expected"):
        testing.preprocess_sam3(np.zeros((0, 4, 3), np.uint8), 112, integer=integer)
