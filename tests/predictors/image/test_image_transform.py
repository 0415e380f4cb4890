"""SAM's image transform against Pillow and upstream: equal, not close."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import tiny

PIL = pytest.importorskip("PIL")
from PIL import Image  # noqa: E402

pytestmark = pytest.mark.skipif(
    int(PIL.__version__.split(".")[0]) >= 13, reason="Pillow 13 changed the order of the passes"
)

MEAN = np.array(tiny.PIXEL_MEAN, np.float32)
STD = np.array(tiny.PIXEL_STD, np.float32)
SHAPES = [
    ((7, 5), (13, 11)),
    ((480, 640), (768, 1024)),
    ((1080, 1920), (576, 1024)),
    ((451, 300), (1024, 681)),
    ((1, 600), (2, 1024)),
    ((600, 1), (1024, 2)),
    ((2000, 100), (1024, 51)),
    ((512, 512), (512, 512)),
    ((512, 512), (512, 300)),
    ((512, 512), (100, 512)),
    ((33, 77), (5, 3)),
    ((3, 3), (1000, 1)),
    ((1, 1), (64, 64)),
    ((1025, 1023), (1024, 1022)),
    ((3000, 20), (1024, 7)),
    ((3000, 20), (1024, 20)),
    ((3000, 20), (1024, 33)),
    ((3000, 20), (3000, 7)),
]


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def pillow(image, height, width, resample=Image.Resampling.BILINEAR):
    return np.array(Image.fromarray(image).resize((width, height), resample))


def resized_hw(height, width, side):
    scale = side * 1.0 / max(height, width)
    return int(height * scale + 0.5), int(width * scale + 0.5)


def reference(image, side):
    """Return the input of the network and the size of the image in it."""
    height, width = resized_hw(*image.shape[:2], side)
    square = np.zeros((side, side, 3), np.float32)
    square[:height, :width] = (pillow(image, height, width).astype(np.float32) - MEAN) / STD
    return square, (height, width)


@pytest.mark.parametrize(("before", "after"), SHAPES)
@pytest.mark.parametrize("threads", [1, 3])
def test_resize_equals_pillow(testing, before, after, threads):
    image = noise(*before)
    assert np.array_equal(testing.resize_pillow(image, *after, threads), pillow(image, *after))


@pytest.mark.parametrize(("before", "after"), SHAPES)
@pytest.mark.parametrize("threads", [1, 3])
def test_bicubic_resize_equals_pillow(testing, before, after, threads):
    image = noise(*before)
    expected = pillow(image, *after, Image.Resampling.BICUBIC)
    assert np.array_equal(testing.resize_pillow_bicubic(image, *after, threads), expected)


@pytest.mark.parametrize("hw", [(31, 45), (300, 200), (64, 500), (1, 3)])
@pytest.mark.parametrize("resize", ["cubic", "bicubic"])
def test_sharp_edges_stay_in_range(testing, hw, resize):
    """Cubic weights overshoot at an edge: bytes end at 0 and 255."""
    image = np.where(noise(*hw) > 127, 255, 0).astype(np.uint8)
    found = testing.resize_frame(image, 112, resize)
    if resize == "bicubic":
        assert np.array_equal(found, pillow(image, 112, 112, Image.Resampling.BICUBIC))
    assert found.min() == 0
    assert found.max() == 255


@pytest.mark.parametrize("hw", [(72, 96), (300, 200), (1080, 1920), (20, 33), (112, 60)])
def test_cubic_resize_is_opencvs(testing, hw):
    """OpenCV's weights have 11 bits: a value halfway between two bytes may become the other."""
    cv2 = pytest.importorskip("cv2", reason="needs OpenCV")
    image = noise(*hw)
    expected = cv2.resize(image, (112, 112), interpolation=cv2.INTER_CUBIC).astype(int)
    difference = np.abs(testing.resize_frame(image, 112, "cubic") - expected)
    assert difference.max() <= 1
    assert difference.mean() < 0.01


def test_extremes_do_not_overflow(testing):
    for value in (0, 255):
        image = np.full((300, 200, 3), value, np.uint8)
        for after in ((1024, 683), (31, 20)):
            assert (testing.resize_pillow(image, *after) == value).all()


@settings(max_examples=300)
@given(
    before=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    after=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    seed=st.integers(0, 99),
)
def test_any_size_equals_pillow(testing, before, after, seed):
    image = noise(*before, seed)
    assert np.array_equal(testing.resize_pillow(image, *after), pillow(image, *after))
    expected = pillow(image, *after, Image.Resampling.BICUBIC)
    assert np.array_equal(testing.resize_pillow_bicubic(image, *after), expected)


@pytest.mark.parametrize("side", [1024, 320])
@pytest.mark.parametrize("threads", [1, 2])
def test_preprocess_real_images(testing, images, side, threads):
    for name, image in images.items():
        expected, size = reference(image, side)
        found, found_size = testing.preprocess(image, side, threads)
        assert found_size == size, name
        assert found.tobytes() == expected.tobytes(), name


@pytest.mark.parametrize("name", ["grey", "rgba", "palette"])
def test_preprocess_converted_files(testing, image_files, name):
    image = np.array(Image.open(image_files[name]).convert("RGB"))
    assert np.array_equal(testing.preprocess(image)[0], reference(image, 1024)[0])


@pytest.mark.parity
def test_preprocess_equals_upstream(testing, images):
    upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
    model = upstream.build_sam(tiny.TINY, seed=None)
    side = tiny.TINY.img_size
    transform = upstream.sam.ResizeLongestSide(side)
    for name, image in images.items():
        if min(resized_hw(*image.shape[:2], side)) == 0:
            continue
        resized = transform.apply_image(image).astype(np.float32)
        batch = upstream.tensor(resized).permute(2, 0, 1)[None]
        expected = model.preprocess(batch)[0].permute(1, 2, 0).numpy()
        assert np.array_equal(testing.preprocess(image, side)[0], expected), name


def test_strided_images(testing):
    image = noise(90, 120)
    views = {
        "rows apart": image[::2],
        "upside down": image[::-1],
        "part": image[10:50, 20:70],
        "columns apart": image[:, ::3],
        "bgr": image[..., ::-1],
        "transposed": image.transpose(1, 0, 2),
    }
    for name, view in views.items():
        view.flags.writeable = False
        expected = reference(np.ascontiguousarray(view), 256)[0]
        assert np.array_equal(testing.preprocess(view, 256)[0], expected), name


def test_second_call_of_a_size_has_the_same_bits(testing):
    image = noise(111, 222)
    assert np.array_equal(testing.preprocess(image, 300)[0], testing.preprocess(image, 300)[0])


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 4), (4, 4, 1), (3, 4, 4), (2, 4, 4, 3)])
def test_wrong_shapes_are_refused(testing, shape):
    with pytest.raises(ValueError, match=r"image: expected uint8 \(H, W, 3\), found"):
        testing.preprocess(np.zeros(shape, np.uint8))


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint16, bool])
def test_wrong_types_are_refused(testing, dtype):
    with pytest.raises(ValueError, match=r"image: expected uint8"):
        testing.preprocess(np.zeros((4, 4, 3), dtype))


@pytest.mark.parametrize("hw", [(0, 4), (4, 0), (0, 0), (1, 5000), (5000, 1)])
def test_images_without_pixels_are_refused(testing, hw):
    with pytest.raises(ValueError, match="image: expected"):
        testing.preprocess(np.zeros((*hw, 3), np.uint8), 1024)


@given(hw=st.tuples(st.integers(1, 5000), st.integers(1, 5000)))
@settings(max_examples=500)
def test_sizes(testing, hw):
    expected = resized_hw(*hw, 1024)
    if min(expected) == 0:
        with pytest.raises(ValueError, match="image: expected sides"):
            testing.resized_hw(hw, 1024)
        return
    assert testing.resized_hw(hw, 1024) == expected


@pytest.mark.parity
def test_sizes_equal_upstream(testing):
    upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
    for hw in [(480, 640), (1411, 1411), (300, 451), (1, 600), (37, 1)]:
        expected = upstream.sam.ResizeLongestSide.get_preprocess_shape(*hw, 1024)
        assert testing.resized_hw(hw, 1024) == expected


def test_resize_longest_side(images):
    from sam_rlx import _core

    for name, image in images.items():
        expected = pillow(image, *resized_hw(*image.shape[:2], 333))
        assert np.array_equal(_core.resize_longest_side(image, 333), expected), name
