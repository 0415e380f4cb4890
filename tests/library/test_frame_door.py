"""What is taken for frames: stacks, arrays, readers and volumes, as other libraries have them."""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx._internal.media import image_frames
from sam_rlx._internal.media.array_frames import ArrayFrames
from sam_rlx.apps.annotator.export import Annotated, coco_document
from sam_rlx.apps.annotator.values import Mask, Object, PackedMask
from sam_rlx.errors import InvalidArgumentError, MediaWarning
from sam_rlx.frames import open_frames


def grey(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 256, shape, np.uint8)


def rgb(values: np.ndarray) -> np.ndarray:
    return np.repeat(values[..., None], 3, axis=-1)


def read_all(source: Any, **options: Any) -> np.ndarray:
    """Read all frames, the last one first."""
    frames = open_frames(source, **options)
    assert frames.count is not None
    return np.stack([frames.read(index) for index in range(frames.count - 1, -1, -1)])[::-1]


# ---------------------------------------------------------------- stacks of TIFF pages

STACK, COLOURS = grey(5, 20, 30), grey(3, 20, 30, 3)
# As tifffile writes them: the array, the options, what is read.
TAKEN: dict[str, tuple[np.ndarray, dict[str, Any], np.ndarray]] = {
    "ome times": (STACK, {"ome": True, "metadata": {"axes": "TYX"}}, rgb(STACK)),
    "ome slices": (STACK, {"ome": True, "metadata": {"axes": "ZYX"}}, rgb(STACK)),
    "ome colours": (COLOURS, {"ome": True, "metadata": {"axes": "TYXS"}}, COLOURS),
    "imagej times": (STACK, {"imagej": True, "metadata": {"axes": "TYX"}}, rgb(STACK)),
    "imagej colours": (COLOURS, {"imagej": True, "metadata": {"axes": "TYXS"}}, COLOURS),
    "plain": (STACK, {"metadata": None}, rgb(STACK)),
    "shaped": (STACK, {}, rgb(STACK)),
    "shaped times": (STACK, {"metadata": {"axes": "TYX"}}, rgb(STACK)),
    "colours in planes": (
        COLOURS.transpose(0, 3, 1, 2),
        {"photometric": "rgb", "planarconfig": "separate"},
        COLOURS,
    ),
}


@pytest.mark.parametrize("kind", TAKEN)
def test_stacks_of_one_axis_are_equal_to_what_tifffile_reads(kind: str, tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    array, options, right = TAKEN[kind]
    path = tmp_path / "stack.tif"
    tifffile.imwrite(path, array, **options)
    np.testing.assert_array_equal(tifffile.imread(path), array)
    np.testing.assert_array_equal(read_all(path), right)
    np.testing.assert_array_equal(read_all(path.read_bytes()), right)


SEVERAL: dict[str, tuple[str, dict[str, Any]]] = {
    "ome": ("TCYX", {"ome": True}),
    "ome, channels first": ("CZYX", {"ome": True}),
    "ome, colours": ("TCYXS", {"ome": True}),
    "imagej": ("TCYX", {"imagej": True}),
    "imagej slices": ("ZCYX", {"imagej": True}),
    "imagej colours": ("TCYXS", {"imagej": True}),
    "named": ("TCYX", {}),
    "named, channels first": ("CTYX", {}),
}


@pytest.mark.parametrize("kind", SEVERAL)
def test_one_channel_of_several_is_chosen(kind: str, tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    axes, options = SEVERAL[kind]
    shape = {"T": 5, "Z": 5, "C": 2, "Y": 20, "X": 30, "S": 3}
    array = grey(*(shape[letter] for letter in axes))
    path = tmp_path / "stack.tif"
    tifffile.imwrite(path, array, metadata={"axes": axes}, **options)
    with pytest.raises(
        InvalidArgumentError, match=r"found the axes .*C 2.*channel=0.*sam-rlx track has --channel"
    ):
        open_frames(path)
    for channel in (0, 1):
        right = array.take(channel, axis=axes.index("C"))
        right = right if "S" in axes else rgb(right)
        np.testing.assert_array_equal(read_all(path, channel=channel), right)
    with pytest.raises(InvalidArgumentError, match="channel: expected an int from 0 to 1, found 2"):
        open_frames(path, channel=2)


REFUSED: dict[str, tuple[tuple[int, ...], dict[str, Any], str]] = {
    "times and slices": ((3, 4, 20, 30), {"ome": True, "metadata": {"axes": "TZYX"}}, "T 3, Z 4"),
    "by ImageJ": ((3, 4, 20, 30), {"imagej": True, "metadata": {"axes": "TZYX"}}, "T 3, Z 4"),
    "only channels": (
        (3, 20, 30),
        {"imagej": True, "metadata": {"axes": "CYX"}},
        r"C 3: if these are frames, give the array, tifffile.imread",
    ),
    "without names": ((3, 2, 20, 30), {}, r"shape \(3, 2, 20, 30\), of which the file does not"),
    "one page for all": ((5, 20, 30), {"truncate": True}, "5 images in 1 pages, as tifffile"),
    "by ImageJ in one page": (
        (5, 20, 30),
        {"imagej": True, "truncate": True, "metadata": {"axes": "TYX"}},
        "5 images in 1 pages, as ImageJ",
    ),
    "a volume in a page": (
        (16, 32, 48),
        {"volumetric": True, "tile": (16, 16, 16)},
        "a volume of 16 slices in one page: tifffile.imread",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_other_stacks_are_refused_by_their_axes(kind: str, tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    shape, options, words = REFUSED[kind]
    path = tmp_path / "stack.tif"
    tifffile.imwrite(path, grey(*shape), **options)
    with pytest.raises(InvalidArgumentError, match=rf"stack\.tif: expected .*{words}"):
        open_frames(path)


def with_ome(path: Path, pixels: str, count: int, head: str = "") -> Path:
    """Write pages of which the grey value is the number, and OME-XML as other programs write it."""
    pages = [Image.fromarray(np.full((6, 8), 10 * n, np.uint8)) for n in range(count)]
    text = f'<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"{head}>{pixels}</OME>'
    pages[0].save(path, save_all=True, append_images=pages[1:], tiffinfo={270: text})
    return path


def ome_pixels(data: str, sizes: str = 'SizeT="3" SizeC="2" SizeZ="1"') -> str:
    return f'<Image><Pixels DimensionOrder="XYCZT" {sizes}>{data}</Pixels></Image>'


def test_planes_are_where_the_ome_xml_says(tmp_path: Path) -> None:
    planes = [(t, c) for c in (1, 0) for t in (2, 0, 1)]  # in no order that is usual
    data = "".join(
        f'<TiffData IFD="{n}" FirstT="{t}" FirstC="{c}"/>' for n, (t, c) in enumerate(planes)
    )
    path = with_ome(tmp_path / "a.ome.tif", ome_pixels(data), 6)
    for channel in (0, 1):
        right = [10 * planes.index((t, channel)) for t in range(3)]
        assert read_all(path, channel=channel)[:, 0, 0, 0].tolist() == right
    path = with_ome(tmp_path / "b.ome.tif", ome_pixels("<TiffData/>"), 6)
    assert read_all(path, channel=1)[:, 0, 0, 0].tolist() == [10, 30, 50]


OTHER_FILE = '<TiffData IFD="0" FirstZ="4" PlaneCount="4"><UUID FileName="b.tif">urn:b</UUID>'
SETS = {
    "half of a volume": (
        ome_pixels(
            f'<TiffData IFD="0" PlaneCount="4"/>{OTHER_FILE}</TiffData>',
            'SizeT="1" SizeC="1" SizeZ="8"',
        ),
        "8 planes",
    ),
    "two images": (2 * ome_pixels("<TiffData/>", 'SizeT="2"'), "2 in one OME-TIFF file"),
    "metadata elsewhere": ('<BinaryOnly MetadataFile="set.ome"/>', "what set.ome describes"),
    "fewer pages": (ome_pixels("<TiffData/>", 'SizeT="5"'), "5 planes .* and 4 pages"),
    "no XML": ("<Image>", "expected OME-XML, found"),
    "entities": ("<!ENTITY a 'b'>", "without entities"),
}


@pytest.mark.parametrize("kind", SETS)
def test_a_part_of_a_set_of_files_is_refused(kind: str, tmp_path: Path) -> None:
    pixels, words = SETS[kind]
    path = with_ome(tmp_path / "a.ome.tif", pixels, 4, ' UUID="urn:a"')
    with pytest.raises(InvalidArgumentError, match=words):
        open_frames(path)


def test_pages_of_signed_bytes_are_read_as_images_are(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    values = np.arange(-128, 128, dtype=np.int8).reshape(2, 8, 16)
    tifffile.imwrite(tmp_path / "a.tif", values)
    with pytest.raises(InvalidArgumentError, match=r"found dtype int8 .*value_range"):
        open_frames(tmp_path / "a.tif").read(1)
    found = read_all(tmp_path / "a.tif", value_range=(-128, 127))
    np.testing.assert_array_equal(found[..., 0], values.astype(int) + 128)


def test_only_stacks_have_channels(tmp_path: Path) -> None:
    Image.new("RGB", (8, 6)).save(tmp_path / "a.png")
    np.save(tmp_path / "a.npy", STACK)
    for source in (STACK, [STACK[0]], tmp_path, tmp_path / "a.png", tmp_path / "a.npy"):
        with pytest.raises(InvalidArgumentError, match="channel: expected None for anything but"):
            open_frames(source, channel=0)


# ---------------------------------------------------------------- one range for all frames


def volume() -> np.ndarray:
    """Return slices of which one has a bright voxel."""
    values = np.full((3, 20, 24), -1000, np.int16)
    values[:, 5:15, 5:15] = 40
    values[1, 0, 0] = 3000
    return values


def test_one_range_for_all_slices(tmp_path: Path) -> None:
    values = volume()
    pages = [Image.fromarray(page.astype(np.int32)) for page in values]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    (tmp_path / "f").mkdir()
    for number, page in enumerate(pages):
        page.save(tmp_path / "f" / f"{number}.tif")
    np.save(tmp_path / "a.npy", values)
    sources = (values, list(values), tmp_path / "a.tif", tmp_path / "f", tmp_path / "a.npy")
    for source in sources:
        with pytest.raises(InvalidArgumentError, match=r"value_range=\(low, high\)") as refused:
            open_frames(source).read(1)
        assert "read_image" not in str(refused.value)
        found = read_all(source, value_range=(-200, 280))
        assert found[:, 7, 7, 0].tolist() == [128] * 3
        assert found[:, 1, 1, 0].tolist() == [0] * 3
        assert found[1, 0, 0, 0] == 255
    iterated = open_frames(iter(values), value_range=(-200, 280))
    assert iterated.read(2)[7, 7, 0] == 128


TABLE = memoryview(np.eye(2))  # has no entries


@pytest.mark.parametrize(
    "limits", [(1, 1), (3, 2), (0, np.nan), (0, 10**400), 5, "ab", (1, 2, 3), TABLE]
)
def test_ranges_that_are_none(limits: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"value_range: expected \(low, high\)"):
        open_frames(STACK, value_range=limits)


def test_frames_that_are_open_have_their_range() -> None:
    frames = open_frames(STACK)
    assert open_frames(frames) is frames
    with pytest.raises(InvalidArgumentError, match="value_range: expected it where frames are"):
        open_frames(frames, value_range=(0, 1))


def test_a_low_range_is_told_with_words_that_fit_frames() -> None:
    with pytest.warns(MediaWarning, match=r"less than a tenth .*value_range"):
        open_frames(STACK.astype(np.uint16)).read(0)


def test_the_command_line_takes_a_range_and_a_channel(
    sam2_checkpoint: Path, run_cli: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    tifffile = pytest.importorskip("tifffile")
    values = np.stack([volume()] * 2, axis=1)
    tifffile.imwrite(tmp_path / "v.tif", values, imagej=True, metadata={"axes": "TCYX"})
    words = ["track", tmp_path / "v.tif", "--model", sam2_checkpoint, "--box", "5,5,14,14"]
    words += ["--json", "-"]
    code, _, err = run_cli(*words)
    assert code == 1
    assert "--channel" in err
    code, _, err = run_cli(*words, "--channel", "1")
    assert code == 1
    assert "--range=LOW,HIGH" in err
    code, out, _ = run_cli(*words, "--channel", "1", "--range=-200,280")
    assert code in (0, 1)
    assert len(json.loads(out)["images"]) == 3
    code, _, err = run_cli(*words, "--range=9,1")
    assert code == 2
    assert "expected LOW < HIGH" in err


# ---------------------------------------------------------------- arrays on a disk


class Counted:
    """An array as zarr and dask have it, which counts what is read."""

    def __init__(self, array: np.ndarray, chunks: Any = None) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.asked: list[Any] = []
        if chunks is not None:
            self.chunks = chunks

    def __getitem__(self, key: Any) -> np.ndarray:
        self.asked.append(key)
        return self.array[key]

    def __array__(self, *_: object) -> np.ndarray:
        raise AssertionError("the whole array is read")


@pytest.mark.parametrize(
    ("chunks", "reads"),
    [(None, 1), ((1, 20, 30), 1), ((4, 20, 30), 1), (((3, 5, 4), (20,), (30,)), 1), ((0,), 1)],
)
def test_a_frame_of_an_array_is_read_alone_or_with_its_block(chunks: Any, reads: int) -> None:
    array = grey(12, 20, 30)
    given = Counted(array, chunks)
    frames = open_frames(given)
    assert frames.count == 12
    np.testing.assert_array_equal(frames.read(5), rgb(array[5]))
    assert len(given.asked) == reads
    given.asked.clear()
    for index in range(12):
        np.testing.assert_array_equal(frames.read(index), rgb(array[index]))
    assert len(given.asked) <= (3 if chunks and chunks[0] in (4, (3, 5, 4)) else 12)


def test_blocks_that_are_too_large_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sam_rlx._internal.media.array_frames.KEPT_BYTES", 2 * 20 * 30)
    given = Counted(grey(12, 20, 30), (4, 20, 30))
    open_frames(given).read(5)
    assert given.asked == [5]


def test_arrays_of_zarr_h5py_and_dask(tmp_path: Path) -> None:
    array = grey(6, 20, 30, 3)
    given: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import zarr

            given["zarr"] = zarr.create_array(
                store=tmp_path / "a.zarr", shape=array.shape, chunks=(2, 20, 30, 3), dtype="uint8"
            )
            given["zarr"][:] = array
        except ImportError:
            pass
        try:
            import h5py

            given["h5py"] = h5py.File(tmp_path / "a.h5", "w").create_dataset("a", data=array)
        except ImportError:
            pass
        try:
            import dask.array

            given["dask"] = dask.array.from_array(array, chunks=(4, 20, 30, 3))
        except ImportError:
            pass
    if not given:
        pytest.skip("needs zarr, h5py or dask")
    for name, source in given.items():
        np.testing.assert_array_equal(read_all(source), array, err_msg=name)


def test_mapped_files_give_their_pages_back(tmp_path: Path) -> None:
    array = grey(5, 64, 80, 3)
    np.save(tmp_path / "a.npy", array)
    for mode in ("r", "r+", "c"):
        mapped = np.load(tmp_path / "a.npy", mmap_mode=mode)
        if mode != "r":
            mapped[2] = 9
        frames = ArrayFrames(mapped)
        for index in (2, 4, 0, 2):
            right = np.full_like(array[0], 9) if index == 2 and mode != "r" else array[index]
            np.testing.assert_array_equal(frames[index], right)
        kept = frames[4]
        frames[1]
        np.testing.assert_array_equal(kept, array[4])  # still there when its pages are gone
        array = np.load(tmp_path / "a.npy")


def test_arrays_of_other_shapes_are_refused() -> None:
    for shape, words in (
        ((4, 5), r"found shape \(4, 5\)"),
        ((4, 5, 3), r"for one image give image\[None\]"),
        ((2, 3, 4, 5, 6), "choose a channel or a slice of it first"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            open_frames(Counted(np.zeros(shape, np.uint8)))


# ---------------------------------------------------------------- readers of other libraries


class Reader:
    """What has a length and gives frames by number, and nothing else."""

    def __init__(self, frames: list[Any]) -> None:
        self._given = frames

    def __len__(self) -> int:
        return len(self._given)

    def __getitem__(self, index: int) -> Any:
        return self._given[index]


class Decord:
    """A frame of decord without a bridge."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def asnumpy(self) -> np.ndarray:
        return self._array


def test_a_length_and_numbers_are_enough(sam2_model: sam_rlx.Model) -> None:
    for form in (np.asarray, lambda a: a.transpose(2, 0, 1), Decord, Image.fromarray):
        reader = Reader([form(frame) for frame in COLOURS])
        np.testing.assert_array_equal(read_all(reader), COLOURS)
        session = sam_rlx.VideoPredictor(sam2_model, reader).add_prompt(2, 1, box=[3, 3, 9, 9])
        assert session.num_frames == 3


class Capture:
    """As `cv2.VideoCapture`."""

    def __init__(self, frames: np.ndarray) -> None:
        self._left = list(frames)

    def isOpened(self) -> bool:
        return True

    def read(self) -> tuple[bool, np.ndarray | None]:
        return (True, self._left.pop(0)[:, :, ::-1]) if self._left else (False, None)


def test_readers_by_read_are_named_and_lose_no_frame() -> None:
    reader = Capture(COLOURS)
    with pytest.raises(InvalidArgumentError, match="found Capture: give the path of its file") as e:
        open_frames(reader)
    way_out = str(e.value).partition("as RGB: ")[2]
    frames = open_frames(eval(way_out, {"reader": reader}))
    for index in range(3):
        np.testing.assert_array_equal(frames.read(index), COLOURS[index])


def test_containers_of_frames_are_named() -> None:
    class Container:
        def demux(self) -> None: ...

    for given, words in (
        (Container(), r"reader.decode\(video=0\)"),
        ({"a": STACK}, "expected one array or sequence of images, found dict"),
        ({1, 2}, "found set"),
        (3, "found int"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            open_frames(given)


def test_readers_of_opencv_imageio_and_decord(tmp_path: Path) -> None:
    clips = pytest.importorskip("support.clips", reason="needs av")
    path = clips.write(tmp_path / "a.mp4", clips.moving(6))
    right = np.stack(clips.decoded(path)).astype(int)
    tried = 0
    for name in ("cv2", "imageio.v3", "decord", "pims"):
        try:
            module = __import__(name, fromlist=["x"])
        except ImportError:
            continue
        if name == "cv2":
            with pytest.raises(InvalidArgumentError, match="found VideoCapture: give the path"):
                open_frames(module.VideoCapture(str(path)))
            continue
        if name == "imageio.v3":
            frames = open_frames(module.imiter(path, plugin="pyav"))
            found = np.stack([frames.read(index) for index in range(6)])
        elif name == "decord":
            found = read_all(module.VideoReader(str(path)))
        else:
            found = read_all(module.open(str(path)))
        assert np.abs(found.astype(int) - right).max() <= 2, name
        tried += 1
    assert tried or pytest.skip("needs imageio, decord or pims")


# ---------------------------------------------------------------- frames of another size

SMALL, LARGE, WIDE = (24, 32), (48, 64), (24, 48)


def blobs(hw: tuple[int, int], shift: float = 0) -> np.ndarray:
    """Return a smooth image, the same at every size."""
    y, x = (np.arange(side) / side for side in hw)
    values = np.exp(-8 * ((y[:, None] - 0.5) ** 2 + (x[None] - 0.4 - shift) ** 2))
    return np.stack([255 * values, 90 + 100 * values, 255 - 200 * values], axis=2).astype(np.uint8)


def folder_of(images: list[np.ndarray], path: Path) -> Path:
    (path / "frames").mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(path / "frames" / f"{number}.png")
    return path / "frames"


def pages_of(images: list[np.ndarray], path: Path) -> Path:
    first, *others = (Image.fromarray(image) for image in images)
    first.save(path / "pages.tif", save_all=True, append_images=others)
    return path / "pages.tif"


OTHER_SIZES: dict[str, Callable[[list[np.ndarray], Path], Any]] = {
    "folder": folder_of,
    "stack": pages_of,
    "contents of a stack": lambda images, path: pages_of(images, path).read_bytes(),
    "list": lambda images, _: images,
    "list of PIL images": lambda images, _: [Image.fromarray(image) for image in images],
    "reader": lambda images, _: Reader(images),
}


@pytest.mark.parametrize("kind", [*OTHER_SIZES, "iterator"])
def test_frames_of_another_size_get_that_of_the_first(kind: str, tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    images = [blobs(hw, 0.02 * n) for n, hw in enumerate((SMALL, SMALL, LARGE, WIDE, SMALL))]
    make = OTHER_SIZES.get(kind)
    orders = [[2, 0, 4, 3, 1], [0, 1, 2, 3, 4]] if make else [[1, 2, 3, 4]]
    given = make(images, tmp_path) if make else None
    for order in orders:
        source = open_frames(iter(images) if given is None else given)
        words = r"frame [23] has (48 x 64|24 x 48) pixels; .* are resized to 24 x 32"
        with pytest.warns(MediaWarning, match=words) as told:
            found = {index: source.read(index) for index in order}
        assert len(told) == 1
        for index, frame in found.items():
            right = cv2.resize(images[index], SMALL[::-1], interpolation=cv2.INTER_AREA)
            assert frame.shape == (*SMALL, 3)
            assert np.abs(frame.astype(int) - right).max() <= 4
            if images[index].shape[:2] == SMALL:
                np.testing.assert_array_equal(frame, images[index])


@pytest.mark.filterwarnings("ignore::sam_rlx.MediaWarning")
@pytest.mark.parametrize("kind", ["folder", "stack"])
def test_another_size_does_not_stop_a_job_half_way(
    kind: str,
    sam2_checkpoint: Path,
    sam2_model: sam_rlx.Model,
    run_cli: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
) -> None:
    images = [blobs(hw, 0.02 * n) for n, hw in enumerate((SMALL, LARGE, WIDE))]
    path = OTHER_SIZES[kind](images, tmp_path)
    session = sam_rlx.VideoPredictor(sam2_model, path)
    session.add_prompt(0, 1, point_coords=[[14, 12]], point_labels=[1])
    assert [frame.masks[1].shape for frame in session.propagate()] == [SMALL] * 3
    words = ["track", path, "--model", sam2_checkpoint, "--point", "14,12"]
    code, out, err = run_cli(*words, "--json", "-", "--output", tmp_path / "shown.mp4")
    assert code == 0, err
    assert {(one["height"], one["width"]) for one in json.loads(out)["images"]} == {SMALL}
    assert read_all(tmp_path / "shown.mp4").shape == (3, *SMALL, 3)


def test_a_pushed_image_of_another_size_is_refused(sam2_model: sam_rlx.Model) -> None:
    stream = sam_rlx.VideoPredictor(sam2_model)
    stream.push(blobs(SMALL))
    with pytest.raises(InvalidArgumentError, match="24 x 32 pixels as in the first frame"):
        stream.push(blobs(LARGE))


# ---------------------------------------------------------------- files of arrays


def test_numpy_files_are_frames(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", STACK)
    np.savez(tmp_path / "a.npz", STACK)
    np.savez_compressed(tmp_path / "b.npz", imgs=STACK)
    for name in ("a.npy", "a.npz", "b.npz"):
        path = tmp_path / name
        np.testing.assert_array_equal(read_all(path), rgb(STACK))
        np.testing.assert_array_equal(read_all(path.read_bytes()), rgb(STACK))
        assert list(open_frames(path).files) == [path]
    np.savez(tmp_path / "c.npz", imgs=STACK, gts=STACK > 9)
    with pytest.raises(InvalidArgumentError, match=r"c\.npz: .* 'imgs', 'gts': give one of them"):
        open_frames(tmp_path / "c.npz")
    np.save(tmp_path / "d.npy", np.array([{}], object))
    (tmp_path / "e.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-9])
    for name in ("d.npy", "e.npy"):
        with pytest.raises(InvalidArgumentError, match=r"\.npy: expected a NumPy file, found"):
            open_frames(tmp_path / name)


def put(data: bytes, at: int) -> bytes:
    return bytes(at) + data + bytes(64)


VOLUMES = {
    "v.nii": (put(b"n+1\0", 344), "NIfTI.*SimpleITK"),
    "p.hdr": (put(b"ni1\0", 344), "NIfTI.*SimpleITK"),
    "v.nii.gz": (gzip.compress(put(b"n+1\0", 344)), "NIfTI.*SimpleITK"),
    "v2.nii": (b"\x1c\2\0\0n+2\0\r\n\x1a\n", "NIfTI"),
    "v.nrrd": (b"NRRD0004\ntype: short\n", "NRRD.*SimpleITK"),
    "v.mha": (b"ObjectType = Image\nNDims = 3\n", "MetaImage.*SimpleITK"),
    "a.dcm": (put(b"DICM", 128), "DICOM.*pydicom"),
    "b.dcm": (b"\x08\0\x05\0CS\x0a\0ISO_IR 100", "DICOM.*pydicom"),
    "a.h5": (b"\x89HDF\r\n\x1a\n", "HDF5.*h5py"),
    "a.mat": (b"MATLAB 5.0 MAT-file", "scipy"),
    "a.mrc": (put(b"MAP ", 208), "mrcfile"),
    "a.czi": (b"ZISRAWFILE\0", "CZI"),
    "a.vtk": (b"# vtk DataFile Version 3.0\n", "VTK"),
    "a.mgz": (gzip.compress(b"\0\0\0\1"), "gzip has packed"),
}


@pytest.mark.parametrize("name", VOLUMES)
def test_volumes_of_others_are_told_how_they_become_an_array(name: str, tmp_path: Path) -> None:
    data, words = VOLUMES[name]
    path = tmp_path / name
    path.write_bytes(data)
    for source in (path, data):
        with pytest.raises(InvalidArgumentError, match=rf"expected a video or images, .*{words}"):
            open_frames(source)


def jpegs_inside(kind: str) -> bytes:
    images = [Image.fromarray(np.full((48, 64, 3), 40 * i, np.uint8)) for i in range(4)]
    file, first = io.BytesIO(), io.BytesIO()
    images[0].save(first, "JPEG")
    if kind == "PDF":
        images[0].save(file, "PDF", save_all=True, append_images=images[1:])
    elif kind == "ZIP":
        with zipfile.ZipFile(file, "w") as archive:
            for number in range(4):
                archive.writestr(f"{number}.jpg", first.getvalue())
    else:
        file.write(bytes(700) + 4 * first.getvalue())
    return file.getvalue()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("PDF", "found a PDF document: convert its pages to PNG"),
        ("ZIP", "found JPEG images in a file of another kind: unpack them, and give their folder"),
        ("zeros", "found JPEG images in a file of another kind"),
    ],
)
@pytest.mark.parametrize("suffix", ["pdf", "mp4"])
def test_a_file_with_jpeg_images_in_it_is_no_clip(
    kind: str, words: str, suffix: str, tmp_path: Path
) -> None:
    """FFmpeg shows the images of documents and archives one after the other, as Motion JPEG."""
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(jpegs_inside(kind))
    for source in (path, path.read_bytes()):
        with pytest.raises(InvalidArgumentError, match=words):
            open_frames(source)


def test_a_stream_of_jpeg_images_is_a_clip(tmp_path: Path) -> None:
    image = jpegs_inside("zeros")[700:]
    for name in ("a.mjpeg", "a.mjpg"):
        (tmp_path / name).write_bytes(image)
        assert open_frames(tmp_path / name).count == 4


def test_folders_that_are_one_volume(tmp_path: Path) -> None:
    for name, file, data, words in (
        ("a.zarr", "zarr.json", b"{}", r"zarr\.open\(folder\) of the package zarr"),
        ("b.zarr", ".zarray", b"{}", "package zarr"),
        ("series", "IM0001", put(b"DICM", 128), "DICOM files: SimpleITK"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_bytes(data)
        with pytest.raises(InvalidArgumentError, match=words):
            open_frames(tmp_path / name)


# ---------------------------------------------------------------- animations


@pytest.mark.parametrize("suffix", ["gif", "webp", "png"])
def test_steps_back_through_an_animation_decode_it_once(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [Image.fromarray(rgb(np.full((20, 30), 12 * n, np.uint8))) for n in range(20)]
    options = {"lossless": True} if suffix == "webp" else {}
    file = io.BytesIO()
    images[0].save(
        file, suffix.upper(), save_all=True, append_images=images[1:], duration=0, **options
    )
    converted = [0]
    pixels = image_frames.as_upright_rgb

    def counted(*args: Any) -> Any:
        converted[0] += 1
        return pixels(*args)

    monkeypatch.setattr(image_frames, "as_upright_rgb", counted)
    frames = image_frames.PageFrames(file.getvalue())
    for index in range(19, -1, -1):
        np.testing.assert_array_equal(frames.read(index), np.asarray(images[index]))
    assert converted[0] <= 2 * 20
    assert frames.time(3) == pytest.approx(0.3)  # as browsers show pages without a duration


def test_an_animation_has_the_times_of_its_pages() -> None:
    images = [Image.new("RGB", (8, 6), (50 * n, 0, 0)) for n in range(4)]
    for form, options in (("WEBP", {"lossless": True}), ("PNG", {})):
        file = io.BytesIO()
        images[0].save(
            file,
            form,
            save_all=True,
            append_images=images[1:],
            duration=[40, 500, 5, 60],
            **options,
        )
        frames = open_frames(file.getvalue())
        found = [float(frames.time(index) or 0) for index in range(4)]
        assert found == pytest.approx([0, 0.04, 0.54, 0.64])
    assert open_frames(STACK).time(1) is None


# ---------------------------------------------------------------- one door

STACKS_OF_OTHERS = {
    "MetaMorph": ((20, 30), (33629, 5, 4, (1, 1) * 4, True), "4 images in 1 pages, as MetaMorph"),
    "Zeiss, two axes": (
        (6, 20, 30),
        (34412, 1, 36, struct.pack("<9I", 0x400494C, 36, 30, 20, 2, 1, 3, 0, 0), True),
        "T 3, Z 2",
    ),
}


@pytest.mark.parametrize("kind", STACKS_OF_OTHERS)
def test_stacks_of_microscopes_tell_their_axes(kind: str, tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    shape, tag, words = STACKS_OF_OTHERS[kind]
    tifffile.imwrite(tmp_path / "a.tif", grey(*shape), metadata=None, extratags=[tag])
    with pytest.raises(InvalidArgumentError, match=words):
        open_frames(tmp_path / "a.tif")


def test_every_surface_opens_frames_by_the_door() -> None:
    """Only the loaders of upstream's modules, which give squares, build on a clip themselves."""
    package = Path(sam_rlx.__file__).parent
    kinds = "(Clip|Page|Folder|Sequence|Iterator|Array)Frames"
    opened = re.compile(rf"(?<!class )\b{kinds}\(|^class .*\({kinds}\)")
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if opened.search(line)
    }
    assert found == {
        "_internal/media/frames.py",
        "compat/common/video_frames.py",
    }


def test_an_absent_object_is_in_no_document() -> None:
    seen, away = np.eye(8, dtype=np.bool_), np.zeros((8, 8), np.bool_)
    objects = [
        Object(
            number, f"object {number}", (9, 9, 9), masks={0: Mask(PackedMask.of(mask), 1.0, "hand")}
        )
        for number, mask in enumerate((away, seen), 1)
    ]
    document = coco_document([Annotated("a.png", (8, 8), objects)])
    assert [one["name"] for one in document["annotations"]] == ["object 2"]
