"""Foreign arrays in every argument, and masks: what other libraries hold, or a refusal."""

from __future__ import annotations

import array as standard_array
import itertools
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import sam_rlx
from sam_rlx import io, viz

from nightly.doors import Trial, door, library, outcome

IMAGE = np.full((64, 96, 3), 40, np.uint8)
IMAGE[10:40, 20:70] = (200, 90, 30)
CLICKS = np.array([[45.0, 25.0], [5.0, 5.0]])
BOX = np.array([20.0, 10.0, 70.0, 40.0])
OBJECT = IMAGE[:, :, 0] > 100


@cache
def predictor() -> sam_rlx.ImagePredictor:
    """Return a predictor with the image."""
    found = sam_rlx.ImagePredictor(sam_rlx.load_model("sam-nano"), num_threads=1)
    found.set_image(IMAGE)
    return found


def of_image(image: Any) -> np.ndarray:
    other = sam_rlx.ImagePredictor(predictor().model, num_threads=1)
    other.set_image(image)
    return other.predict(box=BOX).masks


def of_images(image: Any) -> np.ndarray:
    other = sam_rlx.ImagePredictor(predictor().model, num_threads=1)
    other.set_images([image])
    return other.predict(box=BOX).masks


def of_clicks(clicks: Any) -> np.ndarray:
    return predictor().predict(point_coords=clicks, point_labels=[1, 0]).masks


def of_labels(labels: Any) -> np.ndarray:
    return predictor().predict(point_coords=CLICKS, point_labels=labels).masks


def of_box(box: Any) -> np.ndarray:
    return predictor().predict(box=box).masks


def of_embedding(embedding: Any) -> np.ndarray:
    other = sam_rlx.ImagePredictor(predictor().model, num_threads=1)
    other.set_image_embedding([embedding], IMAGE.shape[:2])
    return other.predict(box=BOX).masks


def of_overlay(mask: Any) -> np.ndarray:
    return viz.overlay(IMAGE, [mask])


def of_area(mask: Any) -> int:
    return io.coco_annotation(mask)["area"]


class Interface:
    """An array by NumPy's older protocol alone."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.__array_interface__ = values.__array_interface__


class Dlpack:
    """An array by DLPack alone."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = np.array(values)

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


class OnGpu:
    """What CuPy shows of an array: NumPy may not read it, `get` copies it."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.__cuda_array_interface__ = dict(values.__array_interface__)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self) -> np.ndarray:
        """Return the values in memory."""
        return self.values


def holders() -> dict[str, Callable[[np.ndarray], Any]]:
    """Return what other libraries make of an array."""
    found: dict[str, Callable[[np.ndarray], Any]] = {
        "NumPy, Fortran order": np.asfortranarray,
        "NumPy, big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
        "memoryview": lambda a: memoryview(np.ascontiguousarray(a)),
        "__array_interface__": Interface,
        "DLPack": Dlpack,
        "CuPy's protocol": OnGpu,
        "NumPy, masked nowhere": np.ma.MaskedArray,
    }
    if (torch := library("torch")) is not None:
        found["PyTorch"] = lambda a: torch.from_numpy(np.array(a))
        found["PyTorch, gradients"] = lambda a: torch.from_numpy(
            np.array(a, np.float32 if a.dtype.kind != "f" else a.dtype)
        ).requires_grad_()
    for name, make in (
        ("xarray", lambda m, a: m.DataArray(a)),
        ("astropy.units", lambda m, a: a * m.dimensionless_unscaled),
        ("jax.numpy", lambda m, a: m.asarray(a)),
        ("dask.array", lambda m, a: m.from_array(a)),
        ("zarr", lambda m, a: m.array(a)),
        ("warp", lambda m, a: m.array(np.ascontiguousarray(a), device="cpu")),
        ("paddle", lambda m, a: m.to_tensor(np.array(a))),
    ):
        if (module := library(name)) is not None:
            found[name] = lambda a, f=make, m=module: f(m, a)
    return found


@door("foreign arrays")
def protocols(folder: Path) -> Iterator[Trial]:
    """Every holder in every argument: the masks of the same numbers."""
    embedding = predictor().image_embeddings[0]
    arguments: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
        "image": (of_image, IMAGE),
        "images": (of_images, IMAGE),
        "point_coords": (of_clicks, CLICKS),
        "point_labels": (of_labels, np.array([1, 0])),
        "box": (of_box, BOX),
        "embedding": (of_embedding, embedding),
        "overlay": (of_overlay, OBJECT),
        "annotation": (of_area, OBJECT.astype(np.uint8)),
    }
    for (name, make), (argument, (call, values)) in itertools.product(
        holders().items(), arguments.items()
    ):
        try:
            given = make(values)
        except Exception:  # the library holds no such array
            continue
        right = call(values)
        if name == "PyTorch, gradients" and argument in ("image", "images"):
            given, right = make(values / 255), call(values)
        yield f"{name} as {argument}", outcome(lambda c=call, g=given: c(g), right)


def numbers_of(values: Any) -> np.ndarray:
    """Return what a library itself makes of few bits in float32."""
    if isinstance(values, np.ndarray):
        return values.astype(np.float32)
    wide = values.float() if hasattr(values, "float") else values.astype("float32")
    return wide.numpy()


@door("foreign arrays")
def small_floats(folder: Path) -> Iterator[Trial]:
    """Float types that NumPy has not: the masks of the same numbers."""
    shares = np.round(IMAGE / 255 * 64).astype(np.float32) / 64
    makers: dict[str, Callable[[np.ndarray], Any]] = {}
    if (torch := library("torch")) is not None:
        for kind in ("bfloat16", "float16", "float8_e4m3fn"):
            makers[f"PyTorch {kind}"] = lambda a, k=kind: torch.from_numpy(
                np.array(a, np.float32)
            ).to(getattr(torch, k))
    if (paddle := library("paddle")) is not None:
        for kind in ("bfloat16", "float16"):
            makers[f"paddle {kind}"] = lambda a, k=kind: paddle.to_tensor(
                np.array(a, np.float32)
            ).astype(k)
    if (types := library("ml_dtypes")) is not None:
        for kind in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"):
            makers[f"ml_dtypes {kind}"] = lambda a, k=kind: a.astype(getattr(types, k))
    for name, make in makers.items():
        kept = numbers_of(make(shares))
        yield f"{name} as image", outcome(lambda m=make: of_image(m(shares)), of_image(kept))
        clicks = np.array([[48.0, 24.0], [4.0, 6.0]])
        kept = numbers_of(make(clicks))
        right = of_clicks(kept)
        yield f"{name} as clicks", outcome(lambda m=make, c=clicks: of_clicks(m(c)), right)


@door("foreign arrays")
def named_columns(folder: Path) -> Iterator[Trial]:
    """Tables as clicks and boxes: by names, whatever their order; unknown names are refused."""
    tables: dict[str, Callable[[dict[str, list[float]]], Any]] = {
        "NumPy records": lambda c: np.rec.fromarrays(list(c.values()), names=list(c)),
        "a dict of lists": dict,
    }
    if (pandas := library("pandas")) is not None:
        tables["pandas"] = pandas.DataFrame
        tables["pandas, nullable"] = lambda c: pandas.DataFrame(c).convert_dtypes()
        tables["pandas, Arrow"] = lambda c: pandas.DataFrame(c).convert_dtypes(
            dtype_backend="pyarrow"
        )
    if (polars := library("polars")) is not None:
        tables["polars"] = polars.DataFrame
    if (pyarrow := library("pyarrow")) is not None:
        tables["pyarrow Table"] = pyarrow.table
        tables["pyarrow RecordBatch"] = pyarrow.record_batch
    if (xarray := library("xarray")) is not None:
        tables["xarray"] = lambda c: xarray.DataArray(
            np.array(list(c.values())), dims=("name", "k"), coords={"name": list(c)}
        )
    x0, y0, x1, y1 = BOX.tolist()
    width, height = x1 - x0, y1 - y0
    sets: list[tuple[dict[str, list[float]], Callable[[Any], Any], Any]] = [
        ({"x": [45.0, 5.0], "y": [25.0, 5.0]}, of_clicks, CLICKS),
        ({"y": [25.0, 5.0], "x": [45.0, 5.0]}, of_clicks, CLICKS),
        ({"row": [25.0, 5.0], "col": [45.0, 5.0]}, of_clicks, CLICKS),
        ({"centroid-0": [25.0, 5.0], "centroid-1": [45.0, 5.0]}, of_clicks, CLICKS),
        ({"lat": [25.0, 5.0], "lon": [45.0, 5.0]}, of_clicks, None),
        ({"x": [45.0, 5.0], "score": [25.0, 5.0]}, of_clicks, None),
        ({"xmin": [x0], "ymin": [y0], "xmax": [x1], "ymax": [y1]}, of_box, BOX[None]),
        ({"ymin": [y0], "xmin": [x0], "ymax": [y1], "xmax": [x1]}, of_box, BOX[None]),
        ({"x": [x0], "y": [y0], "w": [width], "h": [height]}, of_box, BOX[None]),
        ({"left": [x0], "top": [y0], "width": [width], "height": [height]}, of_box, BOX[None]),
        (
            {"cx": [x0 + width / 2], "cy": [y0 + height / 2], "w": [width], "h": [height]},
            of_box,
            BOX[None],
        ),
        (
            {"bbox-0": [y0], "bbox-1": [x0], "bbox-2": [y1], "bbox-3": [x1]},
            of_box,
            BOX[None],
        ),
        ({"a": [x0], "b": [y0], "c": [x1], "d": [y1]}, of_box, None),
    ]
    for (name, make), (columns, call, numbers) in itertools.product(tables.items(), sets):
        try:
            given = make(columns)
        except Exception:
            continue
        right = None if numbers is None else call(numbers)
        yield f"{name} {', '.join(columns)}", outcome(lambda c=call, g=given: c(g), right)


@door("foreign arrays")
def cells(folder: Path) -> Iterator[Trial]:
    """Cells and columns of tables: nested lists, missing values, texts."""
    pairs = CLICKS.tolist()
    holders: dict[str, Any] = {"array.array": standard_array.array("d", CLICKS.ravel().tolist())}
    if (pyarrow := library("pyarrow")) is not None:
        holders["pyarrow list cell"] = pyarrow.scalar(pairs)
        holders["pyarrow lists"] = pyarrow.array(pairs)
        holders["pyarrow fixed lists"] = pyarrow.array(
            pairs, type=pyarrow.list_(pyarrow.float64(), 2)
        )
        holders["pyarrow chunks"] = pyarrow.chunked_array([pairs[:1], pairs[1:]])
    if (pandas := library("pandas")) is not None:
        holders["pandas Series of lists"] = pandas.Series(pairs)
        holders["pandas objects"] = pandas.DataFrame(CLICKS, dtype=object)
        holders["pandas with a gap"] = pandas.DataFrame([[45, 25], [5, None]]).convert_dtypes()
    if (polars := library("polars")) is not None:
        holders["polars lists"] = polars.Series(pairs)
        holders["polars with a gap"] = polars.DataFrame({"x": [45, 5], "y": [25, None]})
    for name, given in holders.items():
        right = None if "gap" in name or name == "array.array" else of_clicks(CLICKS)
        yield f"{name} as clicks", outcome(lambda g=given: of_clicks(g), right)


@door("foreign arrays")
def units_and_axes(folder: Path) -> Iterator[Trial]:
    """Units, hidden values, names of axes, forms of boxes."""
    if (units := library("astropy.units")) is not None:
        for unit in (units.pix, units.dimensionless_unscaled, units.arcsec, units.percent, units.m):
            right = of_clicks(CLICKS) if str(unit) in ("pix", "") else None
            yield f"astropy clicks in {unit}", outcome(lambda u=unit: of_clicks(CLICKS * u), right)
        for unit in (units.adu, units.electron, units.ct):
            call = lambda u=unit: of_image(IMAGE / 255 * u)  # noqa: E731
            yield f"astropy image in {unit}", outcome(call, of_image(IMAGE))
    if (masked := library("astropy.utils.masked")) is not None:
        hidden = masked.Masked(CLICKS, mask=[[True, False], [False, False]])
        yield "astropy Masked clicks", outcome(lambda: of_clicks(hidden), None)
    hidden = np.ma.MaskedArray(IMAGE, IMAGE > 150)
    yield "NumPy masked image", outcome(lambda: of_image(hidden), None)
    if (xarray := library("xarray")) is not None:
        for dims in itertools.permutations(("y", "x", "band")):
            values = IMAGE.transpose([("y", "x", "band").index(dim) for dim in dims])
            given = xarray.DataArray(values, dims=dims)
            yield f"xarray image {dims}", outcome(lambda g=given: of_image(g), of_image(IMAGE))
        given = xarray.DataArray(OBJECT.T, dims=("x", "y"))
        yield "xarray mask (x, y)", outcome(lambda: of_overlay(given), of_overlay(OBJECT))
        times = xarray.DataArray(np.stack([IMAGE[:, :, 0]] * 3), dims=("time", "y", "x"))
        yield "xarray image (time, y, x)", outcome(lambda: of_image(times), None)
    for name, module in (
        ("SimpleITK", "SimpleITK"),
        ("nibabel", "nibabel"),
        ("pydicom", "pydicom"),
    ):
        if (other := library(module)) is not None:
            given = {
                "SimpleITK": lambda m: m.GetImageFromArray(IMAGE[:, :, 0]),
                "nibabel": lambda m: m.Nifti1Image(IMAGE[:, :, :1].astype(np.float32), np.eye(4)),
                "pydicom": lambda m: m.Dataset(),
            }[name](other)
            yield f"{name} image", outcome(lambda g=given: of_image(g), None)
            yield f"{name} mask", outcome(lambda g=given: of_area(g), None)


@door("masks")
def values(folder: Path) -> Iterator[Trial]:
    """What counts as the object, in every type and surface."""
    makers: dict[str, Callable[[np.ndarray], Any]] = {"NumPy": np.asarray}
    if (torch := library("torch")) is not None:
        makers["PyTorch"] = lambda a: torch.from_numpy(np.array(a))
    if (xarray := library("xarray")) is not None:
        makers["xarray"] = lambda a: xarray.DataArray(a, dims=("y", "x"))
    if (pandas := library("pandas")) is not None:
        makers["pandas"] = pandas.DataFrame
    drawn, area = of_overlay(OBJECT), int(OBJECT.sum())
    for (name, make), dtype in itertools.product(
        makers.items(), ("bool", "uint8", "int16", "int64", "float32", "float64")
    ):
        for top in (1, 255) if dtype != "bool" else (1,):
            given = make((OBJECT * top).astype(dtype))
            yield (
                f"{name} {dtype} 0 and {top}, overlay",
                outcome(lambda g=given: of_overlay(g), drawn),
            )
            yield (
                f"{name} {dtype} 0 and {top}, annotation",
                outcome(lambda g=given: of_area(g), area),
            )
        if dtype == "bool":
            continue
        odd = {
            "labels": np.where(OBJECT, 1, 0) + np.pad(np.ones((8, 9), int), ((0, 56), (0, 87))) * 2,
            "label 7": OBJECT * 7,
            "DAVIS with void": np.where(OBJECT, 1, 0) + np.eye(64, 96, 40, int) * 255 * ~OBJECT,
        }
        if dtype.startswith("float"):
            odd |= {
                "logits": np.where(OBJECT, 6.3, -8.1),
                "probabilities": np.where(OBJECT, 0.97, 0.02),
                "NaN outside": np.where(OBJECT, 1.0, np.nan),
            }
        for what, numbers in odd.items():
            given = make(numbers.astype(dtype))
            yield f"{name} {dtype} {what}, overlay", outcome(lambda g=given: of_overlay(g), None)
            yield f"{name} {dtype} {what}, annotation", outcome(lambda g=given: of_area(g), None)
