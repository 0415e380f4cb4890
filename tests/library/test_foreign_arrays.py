"""Arrays of other libraries: one reader for every argument, equal to their numbers, or refused."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx import InvalidArgumentError, io, viz
from sam_rlx._internal.arrays.axes import in_order
from sam_rlx._internal.arrays.coordinates import as_coordinates
from sam_rlx._internal.arrays.foreign import as_array
from sam_rlx._internal.arrays.images import as_rgb

PIXELS = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
POINTS = np.array([[4.0, 1.0], [2.0, 3.0], [6.0, 0.0]])
PACKAGE = Path(sam_rlx.__file__).parent


class Interface:
    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.__array_interface__ = values.__array_interface__


class Dlpack:
    def __init__(self, values: np.ndarray) -> None:
        self.values = np.array(values)

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


class OnGpu:
    """As CuPy: NumPy may not read it."""

    def __init__(self, values: np.ndarray) -> None:
        self.get = lambda: values
        self.__cuda_array_interface__ = dict(values.__array_interface__)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


class Paddle:
    """As paddlepaddle 3.3: NumPy gets the bits of bfloat16 as uint16, those of float8 as int8."""

    def __init__(self, values: np.ndarray, kind: str = "bfloat16") -> None:
        bits = np.asarray(values, np.float32).view(np.uint32) >> np.uint32(16)
        self.bits = bits.astype(np.uint16 if kind == "bfloat16" else np.int8)
        self.dtype = f"paddle.{kind}"

    def detach(self) -> Paddle:
        return self

    def cpu(self) -> Paddle:
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.bits if dtype is None else self.bits.astype(dtype)


Form = enum.Enum("Form", {name: name for name in ("XYXY", "XYWH", "CXCYWH", "XYWHR")})


class Boxes:
    """As torchvision's BoundingBoxes."""

    def __init__(self, values: Any, form: str) -> None:
        self.values, self.format, self.canvas_size = np.asarray(values, float), Form[form], (9, 9)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.values if dtype is None else self.values.astype(dtype)


class Quantity:
    """As those of pint."""

    def __init__(self, magnitude: Any, units: str) -> None:
        self.magnitude, self.units = magnitude, units

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.magnitude, dtype)


def _torch() -> Any:
    return pytest.importorskip("torch")


HOLDERS: dict[str, Callable[[np.ndarray], Any]] = {
    "__array_interface__": Interface,
    "DLPack": Dlpack,
    "GPU": OnGpu,
    "memoryview": memoryview,
    "PyTorch": lambda a: _torch().from_numpy(a.copy()),
    "xarray": lambda a: pytest.importorskip("xarray").DataArray(a),
    "astropy": lambda a: pytest.importorskip("astropy.units").Quantity(a, "adu", dtype=a.dtype),
    "a mask of nothing": np.ma.MaskedArray,
}


@pytest.mark.parametrize("name", HOLDERS)
def test_all_holders_are_images_points_and_masks(name: str) -> None:
    make = HOLDERS[name]
    np.testing.assert_array_equal(as_rgb(make(PIXELS)), PIXELS)
    np.testing.assert_array_equal(as_coordinates("box", make(POINTS), 2), POINTS)
    np.testing.assert_array_equal(as_coordinates("box", make(POINTS[0].copy()), 2), POINTS[0])
    mask = PIXELS[:, :, 0] > 40
    assert io.coco_annotation(make(mask.astype(np.uint8)))["area"] == mask.sum()


def test_bits_of_bfloat16_are_its_numbers() -> None:
    values = np.array([[0.5, 1.25], [3.0, -8.0]])
    np.testing.assert_array_equal(as_array("a", Paddle(values)), values)
    np.testing.assert_array_equal(as_array("a", [Paddle(values[0]), Paddle(values[1])]), values)
    with pytest.raises(InvalidArgumentError, match="found float8_e4m3fn that NumPy gets as int8"):
        as_array("a", Paddle(values, "float8_e4m3fn"))
    torch = _torch()
    tensor = torch.tensor(values).bfloat16().requires_grad_()
    np.testing.assert_array_equal(as_array("a", tensor), values)
    np.testing.assert_array_equal(as_array("a", [tensor[0], tensor[1]]), values)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "uint64", "int8", ">f8", "?"])
def test_numbers_that_numpy_has_stay(dtype: str) -> None:
    values = np.array([[0.1, 1 / 3], [7, 1e-3]]).astype(dtype)
    found = as_array("a", values)
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (Quantity([1.0, 2.0], "arcsec"), r"without a unit, found 'arcsec': give \.magnitude"),
        (np.ma.MaskedArray([1.0, 2.0], [True, False]), r"masked array: \.filled\(value\)"),
        (np.array([1, None], object), r"dtype object, of NoneType, int: give \.astype\(float\)"),
        (np.array([[1], [1, 2]], object), "dtype object, of list"),
        ([[1], [1, 2]], "expected an array that NumPy can read, found list"),
        (b"ab", "found dtype"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(values: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"point_coords: .*{words}"):
        as_coordinates("point_coords", values, 2)


def test_what_has_its_own_way_out_is_told_it() -> None:
    class Dataset:  # as pydicom's
        pixel_array = None

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.array(None)

    class Nifti1Image:
        def get_fdata(self) -> np.ndarray:
            return PIXELS

    for given, words in ((Dataset(), r"\.pixel_array"), (Nifti1Image(), r"\.get_fdata\(\)")):
        with pytest.raises(
            InvalidArgumentError, match=rf"image: .*found {type(given).__name__} .*{words}"
        ):
            as_rgb(given)


X0, Y0, X1, Y1 = 2.0, 3.0, 10.0, 7.0
NAMED: list[tuple[dict[str, list[float]], list[list[float]]]] = [
    ({"x": [1.0, 2.0], "y": [3.0, 4.0]}, [[1, 3], [2, 4]]),
    ({"Y": [3.0, 4.0], "X": [1.0, 2.0]}, [[1, 3], [2, 4]]),
    ({"row": [3.0], "col": [1.0]}, [[1, 3]]),
    ({"centroid-0": [3.0], "centroid-1": [1.0]}, [[1, 3]]),
    ({"ymin": [Y0], "xmin": [X0], "ymax": [Y1], "xmax": [X1]}, [[X0, Y0, X1, Y1]]),
    ({"x_min": [X0], "y_min": [Y0], "x_max": [X1], "y_max": [Y1]}, [[X0, Y0, X1, Y1]]),
    ({"x": [X0], "y": [Y0], "w": [8.0], "h": [4.0]}, [[X0, Y0, X1, Y1]]),
    ({"height": [4.0], "width": [8.0], "top": [Y0], "left": [X0]}, [[X0, Y0, X1, Y1]]),
    ({"cx": [6.0], "cy": [5.0], "w": [8.0], "h": [4.0]}, [[X0, Y0, X1, Y1]]),
    ({"bbox-0": [Y0], "bbox-1": [X0], "bbox-2": [Y1], "bbox-3": [X1]}, [[X0, Y0, X1, Y1]]),
    ({"column_0": [1.0], "column_1": [3.0]}, [[1, 3]]),
]
TABLES: dict[str, Callable[[dict[str, list[float]]], Any]] = {
    "dict": dict,
    "records": lambda c: np.rec.fromarrays(list(c.values()), names=list(c)),
    "pyarrow": lambda c: pytest.importorskip("pyarrow").table(c),
    "record batch": lambda c: pytest.importorskip("pyarrow").record_batch(c),
    "pandas": lambda c: pytest.importorskip("pandas").DataFrame(c),
    "nullable": lambda c: pytest.importorskip("pandas").DataFrame(c).convert_dtypes(),
    "polars": lambda c: pytest.importorskip("polars").DataFrame(c),
    "xarray": lambda c: pytest.importorskip("xarray").DataArray(
        np.array(list(c.values())), dims=("name", "k"), coords={"name": list(c)}
    ),
}


@pytest.mark.parametrize("table", TABLES)
def test_columns_with_names_are_taken_by_them(table: str) -> None:
    for columns, right in NAMED:
        found = as_coordinates("box", TABLES[table](columns), len(columns))
        np.testing.assert_array_equal(found, right, err_msg=str(list(columns)))
    for columns in ({"lat": [1.0], "lon": [2.0]}, {"x": [1.0], "score": [2.0]}):
        with pytest.raises(InvalidArgumentError, match=f"found the names '{next(iter(columns))}'"):
            as_coordinates("point_coords", TABLES[table](columns), 2)


def test_a_row_of_a_table_is_taken_by_its_names() -> None:
    pandas = pytest.importorskip("pandas")
    row = pandas.Series({"ymin": Y0, "xmin": X0, "ymax": Y1, "xmax": X1})
    np.testing.assert_array_equal(as_coordinates("box", row, 4), [X0, Y0, X1, Y1])
    np.testing.assert_array_equal(as_coordinates("box", row.tolist(), 4), row.tolist())
    np.testing.assert_array_equal(
        as_coordinates("box", pandas.Series([1.0, 2, 3, 4]), 4), [1, 2, 3, 4]
    )


def test_cells_of_tables_are_their_values() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pairs = POINTS.tolist()
    for given in (
        pyarrow.scalar(pairs),
        pyarrow.array(pairs),
        pyarrow.array(pairs, type=pyarrow.list_(pyarrow.float64(), 2)),
        [pyarrow.scalar(pair) for pair in pairs],
        np.array([np.array(pair) for pair in pairs] + [None], object)[:3],
        POINTS.astype(object),
    ):
        np.testing.assert_array_equal(as_coordinates("point_coords", given, 2), POINTS)


def test_structs_are_taken_by_their_names() -> None:
    rows = [{"y": 3.0, "x": 1.0}, {"y": 4.0, "x": 2.0}]
    pyarrow = pytest.importorskip("pyarrow")
    for given in (rows, np.array(rows, object), pyarrow.scalar(rows), pyarrow.array(rows)):
        np.testing.assert_array_equal(as_coordinates("point_coords", given, 2), [[1, 3], [2, 4]])
    row = pyarrow.scalar({"w": 8.0, "h": 4.0, "x": X0, "y": Y0})
    np.testing.assert_array_equal(as_coordinates("box", row, 4), [X0, Y0, X1, Y1])
    for odd in ([{"x": 1.0, "y": 2.0}, {"x": 1.0}], [{}], [{"x": 1.0}, None]):
        with pytest.raises(InvalidArgumentError, match="point_coords: expected"):
            as_coordinates("point_coords", odd, 2)


def test_boxes_with_a_form_become_corners(model: sam_rlx.Model, image: np.ndarray) -> None:
    forms = {"XYXY": [X0, Y0, X1, Y1], "XYWH": [X0, Y0, 8, 4], "CXCYWH": [6, 5, 8, 4]}
    for form, values in forms.items():
        found = as_coordinates("box", Boxes([values], form), 4)
        np.testing.assert_array_equal(found, [[X0, Y0, X1, Y1]])
        drawn = viz.overlay(PIXELS, [], boxes=Boxes([values], form))
        np.testing.assert_array_equal(drawn, viz.overlay(PIXELS, [], boxes=[[X0, Y0, X1, Y1]]))
    with pytest.raises(InvalidArgumentError, match="form XYXY, XYWH, CXCYWH, found XYWHR"):
        as_coordinates("box", Boxes([[1, 2, 3, 4]], "XYWHR"), 4)


class Named:
    """As xarray's arrays."""

    def __init__(self, values: np.ndarray, *dims: str) -> None:
        self.values, self.dims, self.coords = values, dims, {}

    def transpose(self, *dims: str) -> Named:
        return Named(self.values.transpose([self.dims.index(dim) for dim in dims]), *dims)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.values


def test_axes_with_names_are_taken_by_them() -> None:
    np.testing.assert_array_equal(
        as_rgb(Named(PIXELS.transpose(1, 0, 2), "x", "y", "band")), PIXELS
    )
    np.testing.assert_array_equal(
        as_rgb(Named(PIXELS.transpose(2, 1, 0), "c", "lon", "lat")), PIXELS
    )
    np.testing.assert_array_equal(as_rgb(Named(PIXELS, "dim_0", "dim_1", "dim_2")), PIXELS)
    mask = PIXELS[:, :, 0] > 40
    assert io.coco_annotation(Named(mask.T, "x", "y")) == io.coco_annotation(mask)
    frames = in_order("frames", Named(np.stack([mask.T] * 2, 2), "x", "y", "time"), others=1)
    assert np.asarray(frames).shape == (2, *mask.shape)
    for dims in (("time", "y", "x"), ("y", "x", "z"), ("y", "dim_1", "band")):
        with pytest.raises(InvalidArgumentError, match=f"found {', '.join(dims)}"):
            as_rgb(Named(PIXELS, *dims))


def test_embeddings_of_half_precision(predictor: sam_rlx.ImagePredictor, image: np.ndarray) -> None:
    embedding = predictor.image_embeddings[0].astype(np.float16)
    click: dict[str, Any] = {"point_coords": [[9, 9]], "point_labels": [1], "return_logits": True}
    other = sam_rlx.ImagePredictor(predictor.model, num_threads=1)
    other.set_image_embedding([embedding.astype(np.float32)], image.shape[:2])
    right = other.predict(**click).masks
    for half in (embedding, embedding.astype(">f2"), embedding.astype(">f4")):
        other.set_image_embedding([half], image.shape[:2])
        np.testing.assert_array_equal(other.predict(**click).masks, right)
    with pytest.raises(InvalidArgumentError, match="float32 or float16, found float64"):
        other.set_image_embedding([embedding.astype(float)], image.shape[:2])


MASKS: dict[str, tuple[np.ndarray, str]] = {
    "labels": (np.array([[0, 1], [2, 0]]), "labels 0, 1, 2: mask == 1 is the mask of one"),
    "a label": (np.array([[0, 7], [7, 0]], np.uint8), "labels 0, 7: mask == 7"),
    "negative": (np.array([[0, -1]], np.int8), "labels -1, 0: mask == -1"),
    "void": (np.array([[0, 1, 255]], np.uint8), "labels 0, 1, 255: mask == 1"),
    "logits": (np.array([[-8.0, 6.5]]), "numbers from -8 to 6.5: mask > 0 makes a mask of logits"),
    "shares": (np.array([[0.1, 0.9]]), "mask > 0.5 makes a mask of probabilities"),
    "not finite": (np.array([[np.nan, 1.0]]), r"NaN or infinity: numpy.nan_to_num\(mask\) > 0"),
}


@pytest.mark.parametrize("name", MASKS)
def test_what_is_no_mask_is_refused_with_the_line_to_write(
    name: str, sam2_model: sam_rlx.Model
) -> None:
    mask, words = MASKS[name]
    image = np.zeros((*mask.shape, 3), np.uint8)
    video = sam_rlx.VideoPredictor(sam2_model, [image], num_threads=1)
    for call in (io.coco_annotation, lambda m: video.add_prompt(0, "cup", mask=m)):
        with pytest.raises(InvalidArgumentError, match=words):
            call(mask)
    with pytest.raises(
        InvalidArgumentError, match=r"masks\[0\]: expected bool, 0 and 1, or 0 and 255"
    ):
        viz.overlay(image, [mask])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float64"])
def test_masks_of_0_and_1_or_255(dtype: str) -> None:
    mask = PIXELS[:, :, 0] > 40
    right = io.coco_annotation(mask)
    for top in (1, 255):
        assert io.coco_annotation((mask * top).astype(dtype)) == right
    assert io.coco_annotation((mask & False).astype(dtype))["area"] == 0
    assert io.coco_annotation((mask | True).astype(dtype))["area"] == mask.size


# Drop-in modules take what upstream's programs give, and convert it as upstream does; the parity
# tool reads arrays of upstream's networks. All else reads arrays by `foreign.as_array`.
OWN_ARRAYS = {"compat", "apps/parity", "parity.py"}
READER = "_internal/arrays/foreign.py"
PROTOCOLS = {"__array__", "__array_interface__", "__cuda_array_interface__", "__dlpack__", "detach"}


def test_only_the_reader_knows_the_protocols() -> None:
    """A second reader of arrays takes other types, or takes them otherwise."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(tuple(OWN_ARRAYS)):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            text = node.value if isinstance(node, ast.Constant) else getattr(node, "attr", None)
            if text in PROTOCOLS and name != READER:
                found.add(f"{name}: {text}")
    assert not found
