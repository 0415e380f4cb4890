"""Frames as upstream's loaders of videos resize them: the public class by its defaults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from numpy.typing import NDArray
from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx._internal.media.frames import ClipFrames
from support import tiny_sam2, tiny_sam3

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_video = pytest.importorskip("support.upstream_video")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
oracle = pytest.importorskip("support.upstream_sam3_video", reason="needs sam3")
video_parity = pytest.importorskip("support.video_parity", reason="needs sam3")
pytestmark = pytest.mark.parity

COUNT = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return video_parity.write_folder(tmp_path_factory.mktemp("frames"), COUNT)


def arrays(folder: Path) -> list[NDArray[np.uint8]]:
    return [np.array(image) for image in video_parity.images(folder)]


def push(model: sam_rlx.Model, folder: Path, **options: Any) -> Any:
    session = sam_rlx.VideoPredictor(model, **options)
    first, *rest = arrays(folder)
    session.push(first)
    for obj, box in video_parity.boxes().items():
        session.add_prompt(0, obj, box=box)
    found = [session.frame(0, return_logits=True)]
    return found + [session.push(frame, return_logits=True) for frame in rest]


def tracked(frames: Callable[[Path], Any]) -> Callable[..., Any]:
    return lambda model, folder, **options: video_parity.track(
        sam_rlx.VideoPredictor(model, frames(folder), **options)
    )


SOURCES: dict[str, Callable[..., Any]] = {
    "folder": tracked(lambda folder: folder),
    "PIL images": tracked(lambda folder: video_parity.images(folder)),
    "array": tracked(lambda folder: np.stack(arrays(folder))),
    "iterator": tracked(lambda folder: iter(arrays(folder))),
    "push": push,
}


# Without a known length pointers are scaled for a longer video than upstream's.
UNKNOWN_LENGTH = ("iterator", "push")


def hold(ours: Any, right: Any, most: float = 1e-4) -> None:
    found = video_parity.ious(ours, right)
    assert len(found) == 2 * COUNT
    assert min(found) >= 0.999, found
    assert video_parity.difference(ours, right) <= most
    areas = [np.count_nonzero(logits > 0) for frame in right for logits in frame.values()]
    assert min(areas) > 50, "choose another seed"


# ---------------------------------------------------------------- SAM 2


@pytest.fixture(scope="module")
def sam2_weights() -> dict[str, NDArray[np.float32]]:
    weights = tiny_sam2.weights(tiny_sam2.TINY, 0)
    weights["sam_mask_decoder.pred_obj_score_head.layers.2.bias"] += np.float32(1.0)
    return weights


@pytest.fixture(scope="module")
def sam2_model(sam2_weights: Any, tmp_path_factory: pytest.TempPathFactory) -> sam_rlx.Model:
    path = tmp_path_factory.mktemp("sam2") / "tiny.safetensors"
    return sam_rlx.load_model(tiny_sam2.save_safetensors(path, tiny_sam2.TINY, sam2_weights))


@pytest.fixture(scope="module")
def sam2_right(sam2_weights: Any, folder: Path) -> Any:
    """Masks of upstream by the area of holes that are filled."""
    build = upstream_video.build
    return {
        area: video_parity.sam2_logits(build(sam2_weights, fill_hole_area=area), folder)
        for area in (0, 8)
    }


@pytest.mark.parametrize("area", [0, 8])
@pytest.mark.parametrize("source", SOURCES)
def test_sam2(sam2_model: Any, sam2_right: Any, folder: Path, source: str, area: int) -> None:
    most = 2e-2 if source in UNKNOWN_LENGTH else 1e-4
    hold(SOURCES[source](sam2_model, folder, fill_hole_area=area), sam2_right[area], most)


def test_sam2_by_all_defaults(sam2_model: Any, sam2_right: Any, folder: Path) -> None:
    """Holes are filled, as upstream's released configuration does on a GPU."""
    hold(SOURCES["folder"](sam2_model, folder), sam2_right[8])
    as_image = SOURCES["folder"](sam2_model, folder, resize="float")
    assert video_parity.difference(as_image, sam2_right[8]) > 1e-3


# ---------------------------------------------------------------- SAM 3


@pytest.fixture(scope="module")
def sam3_models(tmp_path_factory: pytest.TempPathFactory) -> tuple[sam_rlx.Model, Any]:
    network = oracle.network()
    path = tmp_path_factory.mktemp("sam3") / "tiny.safetensors"
    weights = upstream_sam3.meta_weights(network)
    return sam_rlx.load_model(tiny_sam3.save_safetensors(path, tiny_sam3.TINY, weights)), network


@pytest.fixture(scope="module")
def sam3_right(sam3_models: Any, folder: Path) -> Any:
    """Masks of upstream by resource and area: it reads folders with another filter than images."""
    resources = {"folder": str(folder), "images": video_parity.images(folder)}
    return {
        (name, area): video_parity.sam3_logits(
            oracle.tracker(sam3_models[1], use_memory_selection=True, fill_hole_area=area), resource
        )
        for name, resource in resources.items()
        for area in (0, 16)
    }


@pytest.mark.parametrize("area", [0, 16])
@pytest.mark.parametrize("source", SOURCES)
def test_sam3(sam3_models: Any, sam3_right: Any, folder: Path, source: str, area: int) -> None:
    right = sam3_right["folder" if source == "folder" else "images", area]
    most = 2e-2 if source in UNKNOWN_LENGTH else 1e-4
    hold(SOURCES[source](sam3_models[0], folder, fill_hole_area=area), right, most)


def test_sam3_by_all_defaults(sam3_models: Any, sam3_right: Any, folder: Path) -> None:
    hold(SOURCES["folder"](sam3_models[0], folder), sam3_right["folder", 0])
    as_image = SOURCES["folder"](sam3_models[0], folder, resize="float")
    assert video_parity.difference(as_image, sam3_right["folder", 0]) > 1e-3


# ---------------------------------------------------------------- video files


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    with ClipWriter(path, 25.0) as writer:
        for frame in upstream_video.clip(COUNT, video_parity.HW):
            writer.add(frame[:, :212])
    return path


def test_squares_of_a_video_file(clip: Path) -> None:
    """FFmpeg's bilinear filter on what was decoded, in any order of reading."""
    av = pytest.importorskip("av")
    with av.open(str(clip)) as container:
        right = [
            f.reformat(112, 112, "rgb24", interpolation="BILINEAR").to_ndarray()
            for f in container.decode(video=0)
        ]
    source, other = ClipFrames(clip), ClipFrames(clip)
    squares = [source.read_square(index, 112)[0] for index in range(COUNT)]
    for pixels, expected in zip(squares, right, strict=True):
        # The filter puts chroma elsewhere than `reformat`: a bicubic one differs by 2 levels.
        assert np.abs(pixels.astype(int) - expected).mean() < 1.2
    for index in (0, 1, 5, 2, 2, 7, 0):
        pixels, orig_hw = other.read_square(index, 112)
        assert orig_hw == (150, 212)
        assert np.array_equal(pixels, squares[index]), index
        assert np.array_equal(other.read(index), source.read(index))


@pytest.mark.parametrize("family", ["sam2", "sam3"])
def test_a_video_file(clip: Path, sam2_model: Any, sam3_models: Any, family: str) -> None:
    """SAM 2: squares of the decoder. SAM 3: OpenCV's bicubic filter, which other sources lack."""
    model = sam2_model if family == "sam2" else sam3_models[0]
    session = sam_rlx.VideoPredictor(model, clip)
    session.add_prompt(0, "disc", box=video_parity.boxes()["disc"])
    found = session.frame(0)
    source = ClipFrames(clip)
    options = {"frames": "clip", "fill_hole_area": 8 if family == "sam2" else 0}
    core = sam_rlx._core.VideoPredictor(model.core, 1, options)
    assert core.wants_squares == (family == "sam2")
    if family == "sam2":
        core.set_frame(0, *source.read_square(0, core.side))
    else:
        cv2 = pytest.importorskip("cv2", reason="needs OpenCV")
        size = (core.side, core.side)
        square = cv2.resize(source.read(0), size, interpolation=cv2.INTER_CUBIC)
        core.set_frame(0, square, (150, 212))
    corners = np.array(video_parity.boxes()["disc"], np.float64).reshape(2, 2)
    core.add_points(0, 0, corners, np.array([2, 3], np.int32))
    _, masks, _ = core.masks(0, "latest", False)
    assert upstream_video.iou(found.masks["disc"], masks[0]) >= 0.999
    assert len(list(session.propagate())) == COUNT
