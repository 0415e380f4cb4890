"""Images and videos that programs load by the drop-in for transformers."""

from __future__ import annotations

import base64
import importlib.util
import io

import numpy as np
import pytest
from PIL import Image
from sam_rlx.compat.transformers.image_utils import load_image
from sam_rlx.compat.transformers.video_utils import default_sample_indices_fn, load_video
from sam_rlx.errors import SamRlxError

PIXELS = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
TURNED = 6  # of EXIF: a quarter turn to the right


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """Return a file of 7 frames, 48 x 32."""
    av = pytest.importorskip("av", reason="needs PyAV")
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height = 48, 32
        for index in range(7):
            frame = np.full((32, 48, 3), 30 * index, np.uint8)
            for packet in stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return str(path)


def as_png(**options):
    file = io.BytesIO()
    Image.fromarray(PIXELS).save(file, "png", **options)
    return file.getvalue()


def test_images_of_every_kind(tmp_path):
    path, text = tmp_path / "image.png", base64.b64encode(as_png()).decode()
    path.write_bytes(as_png())
    for source in (str(path), text, f"data:image/png;base64,{text}", Image.fromarray(PIXELS)):
        found = load_image(source)
        assert found.mode == "RGB"
        assert np.array_equal(np.asarray(found), PIXELS)
    grey = load_image(Image.fromarray(PIXELS[..., 0]))
    assert np.array_equal(np.asarray(grey)[..., 2], PIXELS[..., 0])


def test_images_are_upright():
    exif = Image.Exif()
    exif[0x0112] = TURNED
    found = load_image(base64.b64encode(as_png(exif=exif)).decode())
    assert np.array_equal(np.asarray(found), np.rot90(PIXELS, -1))


@pytest.mark.parametrize(
    ("source", "kind"),
    [("no_such_file.jpg", ValueError), ("aGVsbG8=", ValueError), (3, TypeError), (None, TypeError)],
)
def test_what_is_no_image_is_refused(source, kind):
    with pytest.raises(kind) as caught:
        load_image(source)
    assert isinstance(caught.value, SamRlxError)


CHOICES = [{}, {"num_frames": 3}, {"fps": 2}, {"num_frames": 1}]


@pytest.mark.parametrize("choice", CHOICES)
def test_frames_of_a_file(clip, choice):
    frames, metadata = load_video(clip, **choice)
    assert frames.dtype == np.uint8
    assert frames.shape == (len(metadata.frames_indices), 32, 48, 3)
    assert metadata["total_num_frames"] == metadata.total_num_frames == 7
    assert metadata.fps == 5
    assert (metadata.height, metadata.width, metadata.duration) == (32, 48, 1.4)
    levels = frames.mean(axis=(1, 2, 3))
    assert np.abs(levels - 30 * metadata.frames_indices).max() < 8
    assert metadata.timestamps == [index / 5 for index in metadata.frames_indices]


@pytest.mark.skipif(not importlib.util.find_spec("transformers"), reason="needs transformers")
@pytest.mark.parametrize("choice", CHOICES)
def test_frames_are_those_of_transformers(clip, choice):
    pytest.importorskip("torch", reason="transformers needs PyTorch here")
    importlib.import_module("support.upstream")
    theirs = importlib.import_module("transformers.video_utils").load_video
    expected, told = theirs(clip, **choice)
    found, metadata = load_video(clip, **choice)
    assert np.array_equal(found, expected)
    for name in told:
        assert np.array_equal(metadata[name], told[name]), name


def test_frames_that_a_function_chooses(clip):
    def last(metadata, **kwargs):
        assert kwargs == {"step": 2}
        return [metadata.total_num_frames - 1]

    frames, metadata = load_video(clip, sample_indices_fn=last, step=2)
    assert len(frames) == 1
    assert metadata.frames_indices == [6]


def test_frames_that_are_given(clip):
    given = [PIXELS] * 2
    assert load_video(given) == (given, [None, None])
    for arguments, kind in (
        ((clip, 2, 1.0), ValueError),
        ((clip, 8), ValueError),
        (("no_such_file.mp4",), TypeError),
        ((clip, None, None, "opencv"), NotImplementedError),
        ((clip, None, None, "nonsense"), NotImplementedError),
    ):
        with pytest.raises(kind) as caught:
            load_video(*arguments)
        assert isinstance(caught.value, SamRlxError)


def test_a_video_without_a_rate_has_no_frames_of_a_second(clip):
    _, metadata = load_video(clip)
    metadata["fps"] = None
    with pytest.raises(ValueError, match="tells its own"):
        default_sample_indices_fn(metadata, fps=2)
    with pytest.raises(ValueError, match="timestamps"):
        _ = metadata.timestamps
