"""Values that an argument of a public call may be given, and hardly any should be."""

from __future__ import annotations

import decimal
import fractions
from collections.abc import Iterator
from typing import Any

import numpy as np


def _lying(name: str, **members: Any) -> Any:
    """Return an object of a class of its own with these members."""
    return type(name, (), members)()


def _raises(error: type[BaseException]) -> Any:
    def method(*args: object, **keywords: object) -> Any:
        raise error("of the caller's object")

    return method


def _interface(**changes: Any) -> Any:
    """Return an object with an ``__array_interface__`` of two floats, and one part changed."""
    held = np.zeros(2)
    described = {**held.__array_interface__, **changes}
    return _lying("Described", held=held, __array_interface__=described)


class NoText:
    """An object without a text."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Text(str):
    """A str of another class."""


def scalars() -> Iterator[tuple[str, Any]]:
    yield "none", None
    yield "true", True
    yield "numpy true", np.True_
    yield from ((str(value), value) for value in (-1, 0, 1, 7, 2**31, 2**63, 2**64))
    yield "10**5000", 10**5000
    yield "int32", np.int32(1)
    yield "uint64", np.uint64(2**64 - 1)
    yield from ((repr(value), value) for value in (0.5, -0.0, 1e300, 1e-320, np.nan, np.inf))
    yield "float16", np.float16(1)
    yield "complex", 1j
    yield "decimal", decimal.Decimal(1)
    yield "fraction", fractions.Fraction(1, 3)
    yield from ((f"text {text!r}", text) for text in ("", "x", "1", "\ud800", "a\0b", "é"))
    yield "text of a class", Text("x")
    yield "long text", "x" * 100_000
    yield "bytes", b"x"
    yield "bytearray", bytearray(2)
    yield "memoryview", memoryview(bytes(8))
    yield "memoryview of floats", np.zeros((2, 2)).data


def containers() -> Iterator[tuple[str, Any]]:
    yield from ((repr(value), value) for value in ([], [1], [1, 2], (8, 9), [[1], [1, 2]], [None]))
    yield "deep list", _nested(100)
    yield "list in itself", _circular()
    yield "texts", ["a", "b"]
    yield "texts beside numbers", ["a", 1]
    yield "dict", {}
    yield "dict of numbers", {1: 2}
    yield "set", {1}
    yield "range", range(3)
    yield "generator", (i for i in range(2))
    yield "object", object()
    yield "class", dict
    yield "function", len
    yield "no text", NoText()
    yield "slice", slice(2)
    yield "ellipsis", ...


def _nested(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def _circular() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def arrays() -> Iterator[tuple[str, Any]]:
    yield "0-d", np.array(1.0)
    yield "0-d bool", np.array(True)
    yield "0-d object", np.array(None)
    yield "one int", np.array([1])
    yield "rank 1", np.zeros(3)
    yield "rank 4", np.zeros((1, 2, 3, 4))
    yield "rank 32", np.zeros((1,) * 32)
    yield "empty", np.zeros((0, 4))
    yield "objects", np.array([None, "a"], object)
    yield "object numbers", np.array([[1, 2]], object)
    yield "texts in an array", np.array(["a"])
    yield "bytes in an array", np.array([b"a"])
    yield "complex array", np.zeros((4, 4), complex)
    yield "dates", np.array(["2020-01-01"], "datetime64[D]")
    yield "records", np.zeros(2, [("a", "i4")])
    yield "void", np.zeros(2, "V8")
    yield "nan (1, 4)", np.full((1, 4), np.nan)
    yield "1e300 (1, 2)", np.full((1, 2), 1e300)
    yield "longdouble", np.full((1, 4), np.longdouble(1))
    yield "uint64 (1, 4)", np.full((1, 4), 2**64 - 1, np.uint64)
    yield "other byte order", np.zeros((8, 9, 3), ">u2")
    yield "masked", np.ma.masked_array(np.ones((1, 4)), [[1, 0, 0, 0]])  # type: ignore[no-untyped-call]
    yield "huge (2**40, 2)", np.broadcast_to(np.float64(1), (2**40, 2))
    yield "huge image", np.broadcast_to(np.uint8(0), (2**25, 2**25, 3))
    yield "huge mask", np.broadcast_to(np.True_, (2**30, 2**30))
    yield "no bytes, many rows", np.broadcast_to(np.zeros((1, 0)), (2**40, 0))
    yield "image", np.zeros((8, 9, 3), np.uint8)
    yield "mask", np.zeros((8, 9), bool)


def liars() -> Iterator[tuple[str, Any]]:
    yield "__array__ of a list", _lying("A", __array__=lambda self, *a, **k: [1])
    yield "__array__ raises", _lying("A", __array__=_raises(RuntimeError))
    yield "__array__ lacks", _lying("A", __array__=_raises(AttributeError))
    yield "__array__ is no method", _lying("A", __array__=3)
    yield "interface without a shape", _lying("A", __array_interface__={"version": 3})
    yield "interface is text", _lying("A", __array_interface__="x")
    yield "interface of a negative shape", _interface(shape=(-2,))
    yield "interface of an unknown type", _interface(typestr="<q9")
    yield "interface of other strides", _interface(strides=(8, 8))
    yield "interface beyond its buffer", _interface(data=bytes(4), shape=(2,))
    entry = [0, 1, 2].__getitem__
    yield "__len__ below 0", _lying("A", __len__=lambda self: -1, __getitem__=entry)
    yield "__len__ is text", _lying("A", __len__=lambda self: "x", __getitem__=entry)
    yield "__iter__ raises", _lying("A", __iter__=_raises(ValueError))
    yield "__iter__ is a list", _lying("A", __iter__=lambda self: [1])
    yield "__index__ is text", _lying("A", __index__=lambda self: "x")
    yield "__float__ is text", _lying("A", __float__=lambda self: "x")
    yield "__bool__ raises", _lying("A", __bool__=_raises(ValueError))
    yield "__fspath__ is an int", _lying("A", __fspath__=lambda self: 3)
    yield "__fspath__ is bytes", _lying("A", __fspath__=lambda self: b"x")
    yield "__fspath__ raises", _lying("A", __fspath__=_raises(ValueError))
    yield "__eq__ raises", _lying("A", __eq__=_raises(TypeError), __hash__=lambda self: 1)
    yield "__hash__ raises", _lying("A", __hash__=_raises(ValueError))
    yield "detach raises", _lying("A", detach=_raises(RuntimeError))
    yield "detach is no method", _lying("A", detach=1)
    yield "shape is text", _lying("A", shape="x", dtype="y", ndim="z")


def odd_values() -> Iterator[tuple[str, Any]]:
    """Yield a name for each, and the value; those that can be read once are made anew."""
    for values in (scalars, containers, arrays, liars):
        yield from values()
