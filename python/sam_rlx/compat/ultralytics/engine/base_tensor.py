"""The values of results: tensors or arrays, with the size of their image."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.formats.instances import Instance
from sam_rlx._internal.formats.outlines import one_line
from sam_rlx._internal.public import public_names
from sam_rlx._internal.results import of_mask
from sam_rlx.compat.common.devices import check_device
from sam_rlx.compat.common.tensor import TensorArray, as_tensor
from sam_rlx.compat.common.tensors import as_result, is_torch
from sam_rlx.errors import InvalidArgumentError


class BaseTensor:
    """Values of one image.

    Parameters
    ----------
    data : array or tensor
        The values.
    orig_shape : (int, int)
        Height and width of the image in pixels.

    Attributes
    ----------
    data, orig_shape
        As given.
    """

    def __init__(self, data: Any, orig_shape: tuple[int, int]) -> None:
        self.data = data
        self.orig_shape = (int(orig_shape[0]), int(orig_shape[1]))

    def _with(self, data: Any) -> Self:
        return type(self)(data, self.orig_shape)

    def plain(self) -> NDArray[Any]:
        """Return the values as a plain array, which shares their memory where it can."""
        values = self.data.detach().cpu() if is_torch(self.data) else self.data
        return np.asarray(values).view(np.ndarray)

    def _like(self, values: NDArray[Any]) -> Any:
        """Return values as what `data` is: a tensor, or an array."""
        if is_torch(self.data):
            return as_result(np.ascontiguousarray(values))
        return as_tensor(values) if isinstance(self.data, TensorArray) else values

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of `data`."""
        return tuple(self.data.shape)

    def cpu(self) -> Self:
        """Return a copy that shares the values: they are in main memory already."""
        return self._with(self.data)

    def numpy(self) -> Self:
        """Return the same with plain arrays."""
        return self._with(self.plain())

    def cuda(self) -> Self:
        """Raise `UnsupportedError`: there is no such device, unless any is taken."""
        check_device("cuda")
        return self.cpu()

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return the same with values of another type; devices are the CPU, else an error."""
        source = self.data if isinstance(self.data, TensorArray) else as_tensor(self.plain())
        if not is_torch(self.data):
            return self._with(source.to(*args, **kwargs))
        for target in (*args, kwargs.get("device")):
            if isinstance(target, (str, int)) or type(target).__name__ == "device":
                check_device(str(target))
        return self._with(self.data.to(*args, **{**kwargs, "device": "cpu"} if kwargs else {}))

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, idx: Any) -> Self:
        chosen = self.data[idx]
        return self._with(chosen[None] if chosen.ndim < self.data.ndim else chosen)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shape} of {self.orig_shape}>"


class Boxes(BaseTensor):
    """Boxes of N objects.

    Parameters
    ----------
    boxes : array or tensor (N, 6) or (N, 7), float32
        (x0, y0, x1, y1) in pixels, in clips the number of the object, the score, the class.
    orig_shape : (int, int)
        Height and width of the image in pixels.

    Attributes
    ----------
    is_track : bool
        Whether objects have numbers: those of clips.
    """

    def __init__(self, boxes: Any, orig_shape: tuple[int, int]) -> None:
        rows = boxes[None] if boxes.ndim == 1 else boxes
        if rows.ndim != 2 or rows.shape[1] not in (6, 7):
            raise InvalidArgumentError(
                f"boxes: expected shape (N, 6) or (N, 7), found {tuple(boxes.shape)}"
            )
        super().__init__(rows, orig_shape)
        self.is_track = rows.shape[1] == 7

    @property
    def xyxy(self) -> Any:
        """Corners (x0, y0, x1, y1) in pixels, (N, 4)."""
        return self.data[:, :4]

    @property
    def conf(self) -> Any:
        """Scores, (N,)."""
        return self.data[:, -2]

    @property
    def cls(self) -> Any:
        """Classes, (N,): keys of `Results.names`."""
        return self.data[:, -1]

    @property
    def id(self) -> Any:
        """Numbers of the objects of a clip, (N,); None for images."""
        return self.data[:, -3] if self.is_track else None

    @property
    def xywh(self) -> Any:
        """Centre (x, y), width and height in pixels, (N, 4)."""
        corners = self.plain()[:, :4]
        low, high = corners[:, :2], corners[:, 2:]
        return self._like(np.concatenate([(low + high) / 2, high - low], axis=1))

    @property
    def xyxyn(self) -> Any:
        """`xyxy` as fractions of the image's width and height."""
        return self._like(self.plain()[:, :4] / self._sides)

    @property
    def xywhn(self) -> Any:
        """`xywh` as fractions of the image's width and height."""
        return self._like(np.asarray(self.xywh) / self._sides)

    @property
    def _sides(self) -> NDArray[np.float32]:
        height, width = self.orig_shape
        return np.array([width, height, width, height], np.float32)


class Masks(BaseTensor):
    """Masks of N objects.

    Parameters
    ----------
    masks : array or tensor (N, H, W)
        bool at the size of the image.
    orig_shape : (int, int)
        Height and width of the image in pixels.
    """

    def __init__(self, masks: Any, orig_shape: tuple[int, int]) -> None:
        rows = masks[None] if masks.ndim == 2 else masks
        if rows.ndim != 3:
            raise InvalidArgumentError(
                f"masks: expected shape (N, H, W), found {tuple(masks.shape)}"
            )
        super().__init__(rows, orig_shape)

    def instances(self) -> list[Instance]:
        """Return the objects with their run lengths, at the size of the masks."""
        return [of_mask(mask) for mask in self.plain()]

    @property
    def xy(self) -> list[NDArray[np.float32]]:
        """Outlines in pixels, one array (K, 2) an object, along the edges of its pixels.

        Parts and holes are joined by lines there and back; an empty mask has none.
        """
        return self._corners(self.orig_shape)

    @property
    def xyn(self) -> list[NDArray[np.float32]]:
        """`xy` as fractions of the image's width and height."""
        return self._corners((1, 1))

    def _corners(self, hw: tuple[int, int]) -> list[NDArray[np.float32]]:
        """Return the outlines where the image has this height and width."""
        factors = np.divide(hw[::-1], self.shape[:0:-1])
        lines = [np.reshape(one_line(each.outlines()), (-1, 2)) for each in self.instances()]
        return [(line * factors).astype(np.float32) for line in lines]


__dir__ = public_names(__name__)
