"""Frames of videos: clips, stacks of pages, folders, arrays and readers of other libraries."""

from __future__ import annotations

import io as streams
import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sam_rlx.frames import open_frames

from nightly.doors import Trial, door, library, outcome

COUNT, HW = 7, (48, 64)
Y, X = np.mgrid[: HW[0], : HW[1]]
# Loss of codecs, and of one conversion of colours compared with another.
CODED, CONVERTED = 12, 3


def moving(count: int = COUNT, hw: tuple[int, int] = HW) -> np.ndarray:
    """Return smooth frames (T, H, W, 3), of which no two are alike or like themselves turned."""
    y, x = np.mgrid[: hw[0], : hw[1]]
    frames = []
    for t in range(count):
        blob = np.exp(-(((x - 12 - 5 * t) / 9) ** 2 + ((y - 18) / 7) ** 2))
        frames.append(np.stack([40 + 2 * x + 60 * blob, 50 + 3 * y, 120 - x + 90 * blob], axis=2))
    return np.clip(np.rint(frames), 0, 255).astype(np.uint8)


MOVING = moving()
STACK = MOVING[..., 0]


def rgb(values: np.ndarray) -> np.ndarray:
    """Return grey values as RGB."""
    return np.repeat(values[..., None], 3, axis=-1)


def read(source: Any, **options: Any) -> np.ndarray:
    """Open frames, and read them in an order that jumps back and forth."""
    frames = open_frames(source, **options)
    count = frames.count
    assert count is not None
    found = {index: frames.read(index) for index in np.random.default_rng(5).permutation(count)}
    return np.stack([found[index] for index in range(count)])


def forwards(source: Any, count: int = COUNT) -> np.ndarray:
    """Open frames that come once, and read them."""
    frames = open_frames(source)
    return np.stack([frames.read(index) for index in range(count)])


# ---------------------------------------------------------------- clips

CODECS: dict[str, tuple[str, str, dict[str, str]]] = {
    "H.264": ("libx264", "yuv420p", {"g": "4", "bf": "2"}),
    "H.264 444": ("libx264", "yuv444p", {"crf": "1"}),
    "H.264 10 bits": ("libx264", "yuv420p10le", {}),
    "H.264 RGB": ("libx264rgb", "rgb24", {}),
    "HEVC": ("libx265", "yuv420p", {"x265-params": "log-level=none"}),
    "VP8": ("libvpx", "yuv420p", {"crf": "4", "b": "2M"}),
    "VP9": ("libvpx-vp9", "yuv420p", {"cpu-used": "8", "deadline": "realtime", "b": "2M"}),
    "AV1": ("libsvtav1", "yuv420p", {"preset": "12"}),
    "AV1 by libaom": ("libaom-av1", "yuv420p", {"cpu-used": "8"}),
    "MPEG-4": ("mpeg4", "yuv420p", {"b": "4M"}),
    "MPEG-2": ("mpeg2video", "yuv420p", {"b": "4M"}),
    "Motion JPEG": ("mjpeg", "yuvj420p", {"qmin": "1", "q": "2"}),
    "ProRes": ("prores_ks", "yuv422p10le", {}),
    "FFV1": ("ffv1", "yuv420p", {}),
    "FFV1 RGB": ("ffv1", "bgr0", {}),
    "HuffYUV": ("huffyuv", "yuv422p", {}),
    "PNG": ("png", "rgb24", {}),
    "raw": ("rawvideo", "rgb24", {}),
    "raw grey": ("rawvideo", "gray", {}),
}
CONTAINERS = ("mp4", "mov", "mkv", "webm", "avi", "ts", "mpg", "flv", "nut", "ogv", "h264", "gif")


def write_clip(path: Path, codec: str, pix_fmt: str, options: dict[str, str]) -> None:
    """Write the moving frames by PyAV."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25, options=options)
        stream.height, stream.width, stream.pix_fmt = *HW, pix_fmt
        for image in MOVING:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))


def by_pyav(path: Path) -> np.ndarray:
    """Decode a clip from its start by PyAV, and convert it as FFmpeg's command does."""
    from support import clips as written

    return np.stack(written.decoded(path))


@door("clips")
def clips(folder: Path) -> Iterator[Trial]:
    """Every codec in every container that takes it: as PyAV decodes it from the start."""
    if library("av") is None:
        return
    for (name, (codec, pix_fmt, options)), container in itertools.product(
        CODECS.items(), CONTAINERS
    ):
        path = folder / f"clip.{container}"
        try:
            write_clip(path, codec, pix_fmt, options)
            right = by_pyav(path)
        except Exception:  # no such encoder, or the container does not take it
            continue
        yield (
            f"PyAV {name} in {container}",
            outcome(lambda p=path: read(p), right, CONVERTED),
        )
        if container in ("mp4", "mkv", "avi", "ts"):
            call = lambda p=path: read(p.read_bytes())  # noqa: E731
            yield f"PyAV {name} in {container}, contents", outcome(call, right, CONVERTED)


@door("clips")
def clips_of_others(folder: Path) -> Iterator[Trial]:
    """Clips that OpenCV and imageio write: as they read them."""
    if (cv2 := library("cv2")) is not None:
        for code, suffix in (("mp4v", "mp4"), ("MJPG", "avi"), ("XVID", "avi"), ("FFV1", "mkv")):
            path = folder / f"opencv.{suffix}"
            writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*code), 25, HW[::-1])
            if not writer.isOpened():
                continue
            for image in MOVING:
                writer.write(np.ascontiguousarray(image[:, :, ::-1]))
            writer.release()
            capture = cv2.VideoCapture(str(path))
            right = np.stack([capture.read()[1][:, :, ::-1] for _ in range(COUNT)])
            call = lambda p=path: read(p)  # noqa: E731
            yield f"OpenCV {code} in {suffix}", outcome(call, right, CODED)
    if (imageio := library("imageio.v3")) is not None:
        for suffix, codec in (("mp4", "libx264"), ("webm", "vp9"), ("gif", None)):
            path = folder / f"imageio.{suffix}"
            try:
                options = {"codec": codec, "fps": 25, "plugin": "pyav"} if codec else {}
                imageio.imwrite(path, MOVING, **options)
                right = imageio.imread(path, index=None if not codec else ..., plugin=None)
            except Exception:
                continue
            yield f"imageio {suffix}", outcome(lambda p=path: read(p), right[..., :3], CODED)


@door("clips")
def turned(folder: Path) -> Iterator[Trial]:
    """Matrices of MP4 files: as FFmpeg's command and OpenCV turn them."""
    if library("av") is None:
        return
    from support import clips as written

    path = folder / "clip.mp4"
    write_clip(path, "libx264", "yuv420p", {})
    plain, content = by_pyav(path), path.read_bytes()
    for degrees, matrix in ((90, (0, 1, -1, 0)), (180, (-1, 0, 0, -1)), (270, (0, -1, 1, 0))):
        path.write_bytes(content)
        written.set_matrix(path, *matrix)
        right = np.rot90(plain, -degrees // 90, axes=(1, 2))
        yield f"PyAV turned by {degrees}", outcome(lambda: read(path), right, CONVERTED)
    for name, matrix, right in (
        ("left to right", (-1, 0, 0, 1), plain[:, :, ::-1]),
        ("upside down", (1, 0, 0, -1), plain[:, ::-1]),
    ):
        path.write_bytes(content)
        written.set_matrix(path, *matrix)
        yield f"PyAV mirrored {name}", outcome(lambda: read(path), right, CONVERTED)
    path.write_bytes(content)
    written.trim(path, 3)
    yield "PyAV, 3 frames hidden by an edit list", outcome(lambda: read(path), plain[3:], CONVERTED)
    for cut in (0.5, 0.9):
        (folder / "cut.mkv").write_bytes(_of_mkv(folder)[: int(cut * len(_of_mkv(folder)))])
        right = by_pyav(folder / "cut.mkv")
        call = lambda: read(folder / "cut.mkv")  # noqa: E731
        yield f"PyAV mkv cut at {cut}", outcome(call, right, CONVERTED)
        (folder / "cut.mp4").write_bytes(content[: int(cut * len(content))])
        yield f"PyAV mp4 cut at {cut}", outcome(lambda: read(folder / "cut.mp4"), None)


def _of_mkv(folder: Path) -> bytes:
    path = folder / "whole.mkv"
    if not path.exists():
        write_clip(path, "mjpeg", "yuvj420p", {})
    return path.read_bytes()


# ---------------------------------------------------------------- stacks and animations


@door("clips")
def stacks(folder: Path) -> Iterator[Trial]:
    """Stacks of every kind and order of axes that tifffile writes: one axis, or refused."""
    if (tifffile := library("tifffile")) is None:
        return
    path = folder / "stack.tif"
    sizes = {"T": 4, "Z": 3, "C": 2, "Y": HW[0], "X": HW[1], "S": 3}
    rng = np.random.default_rng(11)
    letters = ["T", "Z", "C", "TZ", "ZT", "TC", "CT", "ZC", "CZ", "TZC", "CTZ"]
    for (kind, options), leading, last in itertools.product(
        (("OME", {"ome": True}), ("ImageJ", {"imagej": True}), ("shaped", {}), ("plain", None)),
        letters,
        ("YX", "YXS"),
    ):
        axes = leading + last
        values = rng.integers(0, 256, [sizes[letter] for letter in axes], np.uint8)
        colours = {"photometric": "rgb"} if last == "YXS" else {"photometric": "minisblack"}
        metadata = None if options is None else {"axes": axes}
        try:
            tifffile.imwrite(path, values, metadata=metadata, **colours, **(options or {}))
            if not np.array_equal(tifffile.imread(path).squeeze(), values):
                continue
        except Exception:  # ImageJ has an order of its own
            continue
        several = [letter for letter in leading if letter != "C"]
        flat = values.reshape(-1, *values.shape[len(leading) :])
        if options is None:  # pages that say nothing of axes
            yield f"tifffile {kind} {axes}", outcome(lambda: read(path), _seen(flat, last))
            continue
        right = _seen(values, last) if leading in ("T", "Z") else None
        yield f"tifffile {kind} {axes}", outcome(lambda: read(path), right)
        if "C" in leading:
            one = np.take(values, 1, axis=leading.index("C"))
            right = _seen(one, last) if len(several) == 1 else None
            if not several:
                right = _seen(one[None], last)
            call = lambda: read(path, channel=1)  # noqa: E731
            yield f"tifffile {kind} {axes}, channel=1", outcome(call, right)
    for dtype, most in (("uint16", 65535), ("float32", 1), ("int16", 500), ("float64", 1)):
        values = (STACK / 255.0 * most).astype(dtype)
        tifffile.imwrite(path, values, photometric="minisblack")
        right = rgb(np.rint(values.astype(float) / most * 255).astype(np.uint8))
        call = lambda m=most: read(path, value_range=(0, m))  # noqa: E731
        yield f"tifffile {dtype} in one range", outcome(call, right, 1)
        whole = right if most in (1, 65535) and dtype != "float64" else None
        yield f"tifffile {dtype} as it is", outcome(lambda: read(path), whole, 1)


def _seen(values: np.ndarray, last: str) -> np.ndarray:
    return values if last.endswith("S") else rgb(values)


@door("clips")
def animations(folder: Path) -> Iterator[Trial]:
    """Animations and pages that Pillow and imageio write: as Pillow reads them."""
    images = [Image.fromarray(image) for image in MOVING]
    for suffix, options in (
        ("gif", {}),
        ("gif", {"duration": 40, "loop": 0}),
        ("gif", {"duration": 40, "disposal": 2}),
        ("gif", {"optimize": True, "comment": b"text"}),
        ("webp", {"lossless": True}),
        ("webp", {"quality": 80, "duration": 5}),
        ("png", {}),
        ("png", {"default_image": True}),
        ("png", {"duration": 100, "blend": 1}),
        ("tif", {}),
        ("tif", {"compression": "tiff_lzw"}),
        ("tif", {"compression": "jpeg"}),
        ("avif", {"quality": 100}),
        ("pdf", {}),
    ):
        path = folder / f"pages.{suffix}"
        try:
            images[0].save(path, save_all=True, append_images=images[1:], **options)
        except Exception:  # a Pillow without the format
            continue
        words = ", ".join(f"{name}={value}" for name, value in options.items())
        right = None if suffix == "pdf" else _pages(path)
        if options.get("default_image") and right is not None:
            right = right[1:]
        limit = CODED if suffix in ("gif", "avif") else 0
        yield f"Pillow {suffix} {words}", outcome(lambda p=path: read(p), right, limit)
    if (imageio := library("imageio.v3")) is not None:
        for suffix in ("gif", "webp", "tif", "png"):
            path = folder / f"imageio.{suffix}"
            try:
                imageio.imwrite(path, MOVING)
                right = _pages(path)
            except Exception:
                continue
            yield f"imageio {suffix}", outcome(lambda p=path: read(p), right, CODED)


def _pages(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        found = []
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            found.append(np.asarray(image.convert("RGB")))
    return np.stack(found)


# ---------------------------------------------------------------- folders


@door("clips")
def folders(folder: Path) -> Iterator[Trial]:
    """Images in a folder, by names that programs give them; mixed folders are refused."""
    patterns: dict[str, Callable[[int], str]] = {
        "FFmpeg %05d": lambda n: f"{n + 1:05d}",
        "without zeros": lambda n: str(n + 5),
        "Blender": lambda n: f"shot.{n + 98:04d}",
        "with a camera's number": lambda n: f"GOPR0042_{n * 3:06d}",
        "times": lambda n: f"2024-05-01T10-0{n // 4}-{n % 4}0.5",
        "negative numbers": lambda n: f"f_{n:03d}_left",
        "many digits": lambda n: str(1_700_000_000_000_000_000 + n * 40_000_000),
    }
    writers: dict[str, tuple[str, Callable[[Path, np.ndarray], Any]]] = {
        f"Pillow {suffix}": (suffix, lambda p, a: Image.fromarray(a).save(p))
        for suffix in ("png", "tif", "bmp", "jpg", "ppm")
    }
    if (cv2 := library("cv2")) is not None:
        for suffix in ("png", "tif", "jpeg"):
            writers[f"OpenCV {suffix}"] = (
                suffix,
                lambda p, a: cv2.imwrite(str(p), np.ascontiguousarray(a[:, :, ::-1])),
            )
    if (imageio := library("imageio.v3")) is not None:
        writers["imageio png"] = ("png", imageio.imwrite)
    if (skimage := library("skimage.io")) is not None:
        writers["skimage tif"] = (
            "tif",
            lambda p, a: skimage.imsave(p, a, check_contrast=False),
        )
    for (name, (suffix, write)), (pattern, called) in itertools.product(
        writers.items(), patterns.items()
    ):
        target = _empty(folder / "frames")
        for number, image in enumerate(MOVING):
            write(target / f"{called(number)}.{suffix}", image)
        (target / "notes.txt").write_text("of the camera")
        (target / f"._{called(0)}.{suffix}").write_bytes(b"\0\5\x16\7")
        right = np.stack(
            [
                np.asarray(Image.open(target / f"{called(number)}.{suffix}").convert("RGB"))
                for number in range(COUNT)
            ]
        )
        yield f"{name}, {pattern}", outcome(lambda p=target: read(p), right)
    others: dict[str, Callable[[Path], Any]] = {
        "masks of the same numbers beside them": lambda p: [
            Image.fromarray(STACK[n]).save(p / f"{n}_mask.png") for n in range(COUNT)
        ],
        "previews of another kind": lambda p: Image.fromarray(MOVING[0]).save(p / "0.jpg"),
    }
    for what, add in others.items():
        target = _empty(folder / "frames")
        for number, image in enumerate(MOVING):
            Image.fromarray(image).save(target / f"{number}.png")
        add(target)
        yield f"Pillow png, {what}", outcome(lambda p=target: read(p), None)


def _empty(target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    return target


@door("clips")
def other_sizes(folder: Path) -> Iterator[Trial]:
    """Frames of another size get that of the first one, with a warning, wherever they are from."""
    images = [MOVING[0], moving(COUNT, (96, 128))[1], MOVING[2]]
    target = _empty(folder / "sizes")
    for number, image in enumerate(images):
        Image.fromarray(image).save(target / f"{number}.png")
    first, *rest = (Image.fromarray(image) for image in images)
    first.save(folder / "sizes.tif", save_all=True, append_images=rest)
    for name, source in (
        ("folder", target),
        ("TIFF pages", folder / "sizes.tif"),
        ("list", images),
        ("PIL images", [Image.fromarray(image) for image in images]),
    ):
        yield f"two sizes, {name}", outcome(lambda s=source: read(s).shape, (3, *HW, 3))
    yield "two sizes, iterator", outcome(lambda: forwards(iter(images), 3).shape, (3, *HW, 3))
    ragged = np.empty(3, object)
    ragged[:] = images
    yield "two sizes, array of arrays", outcome(lambda: read(ragged).shape, None)


# ---------------------------------------------------------------- arrays and readers


@door("clips")
def arrays(folder: Path) -> Iterator[Trial]:
    """Arrays of frames that other libraries hold, in memory and on a disk."""
    held: dict[str, Callable[[np.ndarray], Any]] = {
        "NumPy": np.asarray,
        "NumPy, Fortran order": np.asfortranarray,
        "list": list,
        "tuple": tuple,
        "npy": lambda a: _saved(folder / "a.npy", np.save, a),
        "npz": lambda a: _saved(folder / "a.npz", np.savez_compressed, a),
        "memmap": lambda a: np.load(_saved(folder / "m.npy", np.save, a), mmap_mode="r"),
        "bytes of npy": lambda a: _saved(folder / "a.npy", np.save, a).read_bytes(),
    }
    makers: tuple[tuple[str, Callable[[Any, np.ndarray], Any]], ...] = (
        ("torch", lambda m, a: m.from_numpy(np.array(a))),
        ("dask.array", lambda m, a: m.from_array(a, chunks=(2, *a.shape[1:]))),
        ("xarray", lambda m, a: m.DataArray(a, dims=("time", "y", "x", "band")[: a.ndim])),
        ("jax.numpy", lambda m, a: m.asarray(a)),
        ("tensorstore", lambda m, a: m.array(a)),
        ("zarr", lambda m, a: m.array(a, chunks=(2, *a.shape[1:]))),
        ("h5py", lambda m, a: _of_h5py(m, folder / "a.h5", a)),
        ("paddle", lambda m, a: m.to_tensor(np.array(a))),
        ("mlx.core", lambda m, a: m.array(np.array(a))),
    )
    for name, make in makers:
        if (module := library(name)) is not None:
            held[name] = lambda a, f=make, m=module: f(m, a)
    for (name, make), (what, values, right) in itertools.product(
        held.items(),
        (
            ("RGB", MOVING, MOVING),
            ("grey", STACK, rgb(STACK)),
            ("float", (MOVING / 255).astype(np.float32), MOVING),
            ("bool", STACK > 90, None),
            ("int16", STACK.astype(np.int16), None),
            ("five axes", MOVING[None], None),
            ("one image", MOVING[0], None),
        ),
    ):
        # Images of a list that is one image are its rows.
        if what == "one image" and name in ("list", "tuple"):
            continue
        try:
            given = make(values)
        except Exception:
            continue
        if what == "bool":
            right = rgb(values.astype(np.uint8) * 255)
        yield f"{name} {what}", outcome(lambda g=given: read(g), right, what == "float")
    if (tifffile := library("tifffile")) is not None:
        tifffile.imwrite(folder / "a.tif", STACK, photometric="minisblack")
        mapped = tifffile.memmap(folder / "a.tif")
        yield "tifffile memmap", outcome(lambda: read(mapped), rgb(STACK))
        if library("zarr") is not None:
            try:
                store = tifffile.imread(folder / "a.tif", aszarr=True)
                opened = library("zarr").open(store, mode="r")
            except Exception:
                opened = None
            if opened is not None:
                yield "tifffile aszarr", outcome(lambda: read(opened), rgb(STACK))


def _saved(path: Path, save: Callable[[Path, np.ndarray], Any], values: np.ndarray) -> Path:
    save(path, values)
    return path


def _of_h5py(module: Any, path: Path, values: np.ndarray) -> Any:
    file = module.File(path, "w")
    return file.create_dataset("frames", data=values, chunks=(2, *values.shape[1:]))


@door("clips")
def readers(folder: Path) -> Iterator[Trial]:
    """Readers of video libraries: their own frames, or refused with what to give."""
    if library("av") is None:
        return
    import av

    path = folder / "clip.mp4"
    write_clip(path, "libx264", "yuv420p", {"g": "4"})
    right = by_pyav(path)
    yield "path", outcome(lambda: read(path), right, CONVERTED)
    yield "str", outcome(lambda: read(str(path)), right, CONVERTED)
    yield "bytes", outcome(lambda: read(path.read_bytes()), right, CONVERTED)
    yield "open file", outcome(lambda: read(path.open("rb")), right, CONVERTED)
    held = streams.BytesIO(path.read_bytes())
    yield "BytesIO", outcome(lambda: read(held), right, CONVERTED)
    with av.open(str(path)) as container:
        yield "PyAV container", outcome(lambda: read(container), None)
        ours = (frame.to_ndarray(format="rgb24") for frame in container.decode(video=0))
        yield "PyAV frames as arrays", outcome(lambda: forwards(ours), right, CONVERTED)
    with av.open(str(path)) as container:
        images = [frame.to_image() for frame in container.decode(video=0)]
    yield "PyAV frames as PIL images", outcome(lambda: read(images), right, CONVERTED)
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
        yield "PyAV frames", outcome(lambda: read(frames), None)
    if (cv2 := library("cv2")) is not None:
        yield "OpenCV VideoCapture", outcome(lambda: read(cv2.VideoCapture(str(path))), None)
        capture = cv2.VideoCapture(str(path))
        turned = (frame[:, :, ::-1] for _, frame in iter(capture.read, (False, None)))
        yield "OpenCV frames turned to RGB", outcome(lambda: forwards(turned), right, CODED)
    opened: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("decord", lambda m: m.VideoReader(str(path))),
        ("torchcodec.decoders", lambda m: m.VideoDecoder(str(path))),
        ("imageio.v3", lambda m: m.imread(path, plugin="pyav")),
        ("pims", lambda m: m.open(str(path))),
        ("sleap_io", lambda m: m.load_video(str(path))),
        ("moviepy", lambda m: m.VideoFileClip(str(path))),
        ("imageio_ffmpeg", lambda m: m.read_frames(str(path))),
        ("torchvision.io", lambda m: m.VideoReader(str(path), "video")),
        ("dask_image.imread", lambda m: m.imread(str(path))),
        ("supervision", lambda m: m.get_video_frames_generator(str(path))),
    )
    for name, make in opened:
        if (module := library(name)) is None:
            continue
        try:
            reader = make(module)
        except Exception:
            continue
        # Frames that these give as BGR, as raw bytes or by calls are the caller's to turn.
        wanted = None if name in ("moviepy", "imageio_ffmpeg", "torchvision.io") else right
        if name == "supervision":
            wanted = right[..., ::-1]
        call = lambda r=reader: read(r) if hasattr(r, "__len__") else forwards(r)  # noqa: E731
        yield f"{name} reader", outcome(call, wanted, CODED)


@door("clips")
def volumes(folder: Path) -> Iterator[Trial]:
    """Volumes and files of microscopes: refused with the line that reads them."""
    if (sitk := library("SimpleITK")) is not None:
        volume = sitk.GetImageFromArray(STACK.astype(np.int16))
        for suffix in ("nrrd", "nii", "nii.gz", "mha", "mhd", "vtk"):
            path = folder / f"a.{suffix}"
            sitk.WriteImage(volume, str(path))
            yield f"SimpleITK {suffix}", outcome(lambda p=path: read(p), None)
        target = _empty(folder / "slices")
        for number in range(3):
            sitk.WriteImage(volume[:, :, number], str(target / f"{number}.dcm"))
        yield "SimpleITK folder of DICOM", outcome(lambda: read(target), None)
        yield "SimpleITK image", outcome(lambda: read(volume), None)
    if (nibabel := library("nibabel")) is not None:
        image = nibabel.Nifti1Image(STACK.astype(np.float32), np.eye(4))
        for suffix in ("nii", "nii.gz", "mgz"):
            nibabel.save(image, folder / f"b.{suffix}")
            yield (
                f"nibabel {suffix}",
                outcome(lambda s=suffix: read(folder / f"b.{s}"), None),
            )
    if (h5py := library("h5py")) is not None:
        with h5py.File(folder / "c.h5", "w") as file:
            file["frames"] = STACK
        yield "h5py file", outcome(lambda: read(folder / "c.h5"), None)
    if (zarr := library("zarr")) is not None:
        zarr.save(folder / "d.zarr", STACK)
        yield "zarr folder", outcome(lambda: read(folder / "d.zarr"), None)
    if (scipy := library("scipy.io")) is not None:
        scipy.savemat(folder / "e.mat", {"frames": STACK})
        yield "SciPy mat", outcome(lambda: read(folder / "e.mat"), None)
