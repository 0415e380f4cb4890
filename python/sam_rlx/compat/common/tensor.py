"""Arrays that answer to the tensor methods which programs call on results."""

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx.compat.common.devices import OnCpu, check_device
from sam_rlx.compat.common.errors import expects
from sam_rlx.errors import InvalidArgumentError

# Methods of the class below have these names.
_Int: TypeAlias = int
_Bool: TypeAlias = bool


def _reduction(name: str) -> Callable[..., Any]:
    """Return a method of arrays that takes ``dim`` and ``keepdim`` too."""
    original = getattr(np.ndarray, name)

    def reduce(self: "TensorArray", *args: Any, **kwargs: Any) -> Any:
        if "dim" in kwargs:
            kwargs["axis"] = kwargs.pop("dim")
        if len(args) == 2 and isinstance(args[1], _Bool):
            dim, kwargs["keepdim"] = args
            args = (dim,)
        if "keepdim" in kwargs:
            kwargs["keepdims"] = kwargs.pop("keepdim")
        if isinstance(kwargs.get("axis"), list):
            kwargs["axis"] = tuple(kwargs["axis"])
        return original(self, *args, **kwargs)

    reduce.__name__ = name
    reduce.__doc__ = f"Do as the array's ``{name}``; ``dim`` and ``keepdim`` as a tensor's."
    return reduce


def _extremum(name: str) -> Callable[..., Any]:
    """Return ``max`` or ``min``: along a dimension a tensor gives values and indices."""
    original, position = getattr(np.ndarray, name), getattr(np.ndarray, f"arg{name}")

    def extremum(self: "TensorArray", *args: Any, **kwargs: Any) -> Any:
        if not args and "dim" not in kwargs:
            return original(self, **kwargs)
        given = dict(zip(("dim", "keepdim"), args, strict=False)) | kwargs
        dim, keep = given["dim"], _Bool(given.get("keepdim", False))
        values = original(self, axis=dim, keepdims=keep)
        return values, position(self, axis=dim, keepdims=keep)

    extremum.__name__ = name
    extremum.__doc__ = f"Return the {name}; along ``dim`` the values and their indices."
    return extremum


class _Size(_Int):
    """The number of elements, which gives the shape or a length of it when it is called."""

    _shape: tuple[_Int, ...]

    def __new__(cls, shape: tuple[_Int, ...]) -> "_Size":
        size = super().__new__(cls, math.prod(shape))
        size._shape = shape
        return size

    def __call__(self, dim: _Int | None = None) -> Any:
        return self._shape if dim is None else self._shape[dim]


class TensorArray(OnCpu, np.ndarray[Any, np.dtype[Any]]):  # type: ignore[misc]
    """A NumPy array with the methods of tensors that programs call on results.

    Nothing moves: the only device is ``"cpu"``. Functions of PyTorch take it where they take a
    tensor, as one that shares its memory, and give tensors; so do methods that it has not, once
    the program has imported PyTorch.
    """

    is_cuda = False
    requires_grad = False

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call a function of PyTorch, which asks for this, with tensors instead of arrays."""
        return func(*_torch_values(args), **_torch_values(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and not name.startswith("_"):
            tensor = _torch_values(self)
            if callable(getattr(tensor, name, None)):
                return getattr(tensor, name)
        raise AttributeError(
            f"{name}: expected a method of arrays, or one of the methods of tensors that results "
            "have here, found neither; torch.from_numpy(result.numpy()) gives a tensor"
        )

    # ---------------------------------------------------------------- where it is, what it holds

    def detach(self) -> "TensorArray":
        """Return the array itself: there are no gradients."""
        return self

    def contiguous(self) -> "TensorArray":
        """Return the array itself if it is contiguous, or a copy that is."""
        return as_tensor(np.ascontiguousarray(self))

    def clone(self) -> "TensorArray":
        """Return a copy."""
        return as_tensor(self.copy())

    def numpy(self) -> NDArray[Any]:
        """Return a plain view."""
        plain: NDArray[Any] = self.view(np.ndarray)
        return plain

    def to(self, *targets: Any, device: Any = None, dtype: Any = None, **_: Any) -> "TensorArray":
        """Return the array in another type, by NumPy's name or PyTorch's; devices are "cpu".

        Another device is an `UnsupportedError`.
        """
        for target in targets:
            if isinstance(target, np.ndarray):
                dtype = target.dtype
            elif isinstance(target, (np.dtype, type)) or str(target).startswith("torch."):
                dtype = target
            elif not isinstance(target, _Bool):  # non_blocking
                device = target
        check_device(device)
        return self if dtype is None else as_tensor(self.astype(_dtype(dtype), copy=False))

    def type(self, dtype: Any) -> "TensorArray":
        """Return the array in another type."""
        return self.to(dtype=dtype)

    def float(self) -> "TensorArray":
        """Return the array as float32."""
        return self.to(dtype=np.float32)

    def double(self) -> "TensorArray":
        """Return the array as float64."""
        return self.to(dtype=np.float64)

    def half(self) -> "TensorArray":
        """Return the array as float16."""
        return self.to(dtype=np.float16)

    def int(self) -> "TensorArray":
        """Return the array as int32."""
        return self.to(dtype=np.int32)

    def long(self) -> "TensorArray":
        """Return the array as int64."""
        return self.to(dtype=np.int64)

    def bool(self) -> "TensorArray":
        """Return the array as bool."""
        return self.to(dtype=np.bool_)

    def byte(self) -> "TensorArray":
        """Return the array as uint8."""
        return self.to(dtype=np.uint8)

    # ---------------------------------------------------------------- shape

    @property
    def size(self) -> _Size:
        """Number of elements, as of an array; called as a tensor's method, it gives lengths."""
        return _Size(self.shape)

    def dim(self) -> _Int:
        """Return the number of dimensions."""
        return self.ndim

    def numel(self) -> _Int:
        """Return the number of elements."""
        return _Int(self.size)

    def permute(self, *dims: Any) -> "TensorArray":
        """Return the array with its dimensions in this order."""
        return as_tensor(np.transpose(self.numpy(), _flat(dims)))

    def transpose(self, *dims: Any) -> Any:
        """Swap two dimensions, or do as the array's ``transpose``."""
        if len(dims) == 2:
            return self.swapaxes(*dims)
        return super().transpose(*dims)

    def unsqueeze(self, dim: _Int) -> "TensorArray":
        """Return the array with a dimension of length 1."""
        return as_tensor(np.expand_dims(self.numpy(), dim))

    def squeeze(self, dim: Any = None, **kwargs: Any) -> Any:  # type: ignore[override]
        """Drop dimensions of length 1; another `dim` stays."""
        if dim is None:
            return super().squeeze(**kwargs)
        wanted = {index % self.ndim for index in _flat((dim,))} if self.ndim else set()
        return super().squeeze(tuple(index for index in wanted if self.shape[index] == 1))

    def view(self, *args: Any, **kwargs: Any) -> Any:
        """Return the array in another shape, or do as the array's ``view`` for a type."""
        if kwargs or not args or not all(isinstance(x, (_Int, tuple, list)) for x in args):
            return super().view(*args, **kwargs)
        return self.reshape(_flat(args))

    def flatten(self, start_dim: Any = 0, end_dim: _Int = -1) -> "TensorArray":
        """Return the array with the dimensions from `start_dim` to `end_dim` as one."""
        if isinstance(start_dim, str):
            return as_tensor(super().flatten(start_dim))  # type: ignore[arg-type]
        if self.ndim == 0:
            return as_tensor(self.reshape(1))
        first, last = start_dim % self.ndim, end_dim % self.ndim
        return as_tensor(self.reshape((*self.shape[:first], -1, *self.shape[last + 1 :])))

    def expand(self, *sizes: Any) -> "TensorArray":
        """Return the array repeated along dimensions of length 1; -1 keeps a length."""
        wanted = _flat(sizes)
        shape = (1,) * (len(wanted) - self.ndim) + self.shape
        kept = [old if new == -1 else new for old, new in zip(shape, wanted, strict=True)]
        return as_tensor(np.broadcast_to(self.numpy(), kept))

    def repeat(self, *args: Any, **kwargs: Any) -> Any:
        """Repeat along each axis, given a count for each of three or more; else as NumPy does."""
        if len(args) >= max(3, self.ndim) and not kwargs:
            return as_tensor(np.tile(self, args))
        return super().repeat(*args, **kwargs)

    def unbind(self, dim: _Int = 0) -> "tuple[TensorArray, ...]":
        """Return the slices along a dimension."""
        return tuple(as_tensor(part) for part in np.moveaxis(self.numpy(), dim, 0))

    # ---------------------------------------------------------------- values

    any = _reduction("any")
    all = _reduction("all")
    sum = _reduction("sum")
    mean = _reduction("mean")
    prod = _reduction("prod")
    argmax = _reduction("argmax")
    argmin = _reduction("argmin")
    max = _extremum("max")
    min = _extremum("min")

    def clamp(self, min: Any = None, max: Any = None) -> "TensorArray":
        """Return the values limited to `min` .. `max`."""
        return as_tensor(np.asarray(np.clip(self.numpy(), min, max)))

    def sigmoid(self) -> "TensorArray":
        """Return 1 / (1 + exp(-x)) of the values."""
        values = self.numpy()
        small = np.exp(-np.abs(values))
        return as_tensor(np.asarray(np.where(values >= 0, 1 / (1 + small), small / (1 + small))))


def _torch_values(value: Any) -> Any:
    """Return arguments with tensors instead of `TensorArray`s; they share memory where they can."""
    if isinstance(value, TensorArray):
        return shared(sys.modules["torch"], value.numpy())
    if type(value) in (list, tuple):
        return type(value)(map(_torch_values, value))
    if type(value) is dict:
        return {key: _torch_values(entry) for key, entry in value.items()}
    return value


def _flat(dims: Sequence[Any]) -> tuple[Any, ...]:
    """Return numbers that are given one by one or as one sequence."""
    if len(dims) == 1 and isinstance(dims[0], (tuple, list)):
        return tuple(dims[0])
    return tuple(dims)


def _dtype(dtype: Any) -> np.dtype[Any]:
    """Return NumPy's type for its own name or PyTorch's."""
    name = str(dtype).removeprefix("torch.") if str(dtype).startswith("torch.") else dtype
    try:
        return np.dtype({"bool": np.bool_}.get(name, name) if isinstance(name, str) else name)
    except TypeError as error:
        raise InvalidArgumentError(f"dtype: expected one of NumPy's, found {dtype}") from error


def shared(torch: Any, array: NDArray[Any]) -> Any:
    """Return an array as a tensor of PyTorch that shares its memory, where tensors can."""
    can_share = array.flags.writeable and min(array.strides, default=0) >= 0
    return torch.from_numpy(array if can_share else np.array(array))


@expects("an array")
def as_tensor(array: NDArray[Any]) -> TensorArray:
    """View an array as a `TensorArray`."""
    return array.view(TensorArray)


@expects("an array of numbers")
def to_array(values: Any, dtype: Any) -> NDArray[Any] | None:
    """Return a contiguous plain array of `dtype` for an array or CPU tensor, and None for None."""
    if values is None:
        return None
    if getattr(values, "requires_grad", False):
        values = values.detach()
    if getattr(values, "is_cuda", False) or getattr(values, "is_mps", False):
        values = values.cpu()
    array: NDArray[Any] = np.ascontiguousarray(np.asarray(values), dtype=dtype)
    return array.view(np.ndarray)
