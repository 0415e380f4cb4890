"""Import PyTorch and Meta's packages, and run them on a CPU (extra ``parity``)."""

import importlib
import importlib.util
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

from sam_rlx._internal.packages import missing

# The declarations of torchvision's operators live as long as the object.
_declared: list[Any] = []


def import_torch(package: str) -> Any:
    """Import PyTorch, and torchvision where its operators can be had or declared.

    torchvision describes two operators at its import. Beside a PyTorch that it was not built for
    they do not exist, and their names alone are enough.
    """
    try:
        torch = importlib.import_module("torch")
        try:
            importlib.import_module("torchvision")
        except RuntimeError as error:
            if "torchvision::nms" not in str(error):
                raise
            for name in [key for key in sys.modules if key.startswith("torchvision")]:
                del sys.modules[name]
            library = torch.library.Library("torchvision", "DEF")
            for name in ("nms", "qnms"):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _declared.append(library)
            importlib.import_module("torchvision")
            _replace_operators(torch)
    except ImportError as error:
        raise missing("parity", package, error) from error
    return torch


def _replace_operators(torch: Any) -> None:
    """Give torchvision the two functions that its missing library would have."""
    torchvision = importlib.import_module("torchvision")

    def nms(boxes: Any, scores: Any, iou_threshold: float) -> Any:
        order = torch.argsort(scores, descending=True, stable=True)
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        kept = []
        while len(order):
            best, order = order[0], order[1:]
            kept.append(best)
            low = torch.maximum(boxes[best, :2], boxes[order, :2])
            high = torch.minimum(boxes[best, 2:], boxes[order, 2:])
            shared = (high - low).clamp(min=0).prod(1)
            order = order[~(shared / (area[best] + area[order] - shared) > iou_threshold)]
        return torch.stack(kept) if kept else torch.zeros(0, dtype=torch.int64)

    torchvision.ops.nms = torchvision.ops.boxes.nms = nms
    module: Any = sys.modules["torchvision.ops.roi_align"]
    module._roi_align = getattr(module._roi_align, "__wrapped__", module._roi_align)


def _import(package: str, modules: dict[str, str]) -> SimpleNamespace:
    torch = import_torch(package)
    try:
        with running(torch):
            found = {name: importlib.import_module(path) for name, path in modules.items()}
    except ImportError as error:
        raise missing("parity", package, error) from error
    return SimpleNamespace(torch=torch, **found)


def segment_anything() -> SimpleNamespace:
    """Import Meta's SAM 1: modules `package` and `modeling`."""
    return _import(
        "segment-anything",
        {"package": "segment_anything", "modeling": "segment_anything.modeling"},
    )


def mobile_sam() -> SimpleNamespace:
    """Import MobileSAM: modules `package`, `modeling` and `tiny_vit`."""
    return _import(
        "mobilesam-mirror",
        {
            "package": "mobile_sam",
            "modeling": "mobile_sam.modeling",
            "tiny_vit": "mobile_sam.modeling.tiny_vit_sam",
        },
    )


def sam_hq() -> SimpleNamespace:
    """Import SAM-HQ: modules `package`, `modeling`, `decoder` and `tiny_vit`."""
    modeling = "segment_anything_hq.modeling"
    return _import(
        "segment-anything-hq",
        {
            "package": "segment_anything_hq",
            "modeling": modeling,
            "decoder": f"{modeling}.mask_decoder_hq",
            "tiny_vit": f"{modeling}.tiny_vit_sam",
        },
    )


def sam2() -> SimpleNamespace:
    """Import Meta's SAM 2: the modules that its networks and predictors stand in."""
    prefix = "sam2.modeling"
    return _import(
        "rf-sam-2",
        {
            "attention": f"{prefix}.memory_attention",
            "memory": f"{prefix}.memory_encoder",
            "hiera": f"{prefix}.backbones.hieradet",
            "image_encoder": f"{prefix}.backbones.image_encoder",
            "positions": f"{prefix}.position_encoding",
            "transformer": f"{prefix}.sam.transformer",
            "decoder": f"{prefix}.sam.mask_decoder",
            "video": "sam2.sam2_video_predictor",
            "image": "sam2.sam2_image_predictor",
            "generator": "sam2.automatic_mask_generator",
        },
    )


def edgetam() -> SimpleNamespace:
    """Import EdgeTAM, whose package imports as SAM 2's does: the same modules, and its own."""
    own = _import("edgetam-dimos", {"perceiver": "sam2.modeling.perceiver", "timm": "timm"})
    return SimpleNamespace(**vars(sam2()), perceiver=own.perceiver, timm=own.timm)


def hq_sam2() -> SimpleNamespace:
    """Import HQ-SAM 2, which imports as SAM 2 does: the same modules, with its own decoder."""
    own = _import(
        "git+https://github.com/SysCV/sam-hq.git#subdirectory=sam-hq2",
        {"decoder": "sam2.modeling.sam.mask_hq_decoder"},
    )
    return SimpleNamespace(**{**vars(sam2()), "decoder": own.decoder})


def sam3() -> SimpleNamespace:
    """Import Meta's SAM 3: the modules that its networks and predictors stand in."""
    import_torch("sam3")
    _stand_in_for_triton()
    names = (
        "decoder",
        "encoder",
        "geometry_encoders",
        "maskformer_segmentation",
        "memory",
        "model_misc",
        "necks",
        "position_encoding",
        "sam1_task_predictor",
        "sam3_image",
        "sam3_image_processor",
        "sam3_tracking_predictor",
        "sam3_video_inference",
        "text_encoder_ve",
        "tokenizer_ve",
        "vitdet",
        "vl_combiner",
    )
    return _import(
        "sam3",
        {name: f"sam3.model.{name}" for name in names}
        | {
            "transformer": "sam3.sam.transformer",
            "mask_decoder": "sam3.sam.mask_decoder",
            "components": "sam3.perflib.connected_components",
            "frames": "sam3.model.io_utils",
        },
    )


def transformers() -> SimpleNamespace:
    """Import transformers, whose classes can be built from it by their names."""
    package = _import("transformers", {"transformers": "transformers"})
    try:
        # Its classes are imported when they are asked for, with what these need.
        importlib.import_module("transformers.modeling_utils")
        package.video, package.edgetam_video = (
            importlib.import_module(f"transformers.models.{name}.modeling_{name}")
            for name in ("sam2_video", "edgetam_video")
        )
    except ImportError as error:
        raise missing("parity", "transformers", error) from error
    package.transformers.logging.set_verbosity_error()
    return package


def _stand_in_for_triton() -> None:
    """Make Meta's GPU kernels importable where triton is not installed. None of them is run."""
    if "triton" in sys.modules or importlib.util.find_spec("triton") is not None:
        return

    def decorator(*args: Any, **kwargs: Any) -> Any:
        return args[0] if args and callable(args[0]) and not kwargs else lambda kernel: kernel

    triton: Any = ModuleType("triton")
    triton.language = ModuleType("triton.language")
    triton.language.constexpr = object
    triton.jit = triton.autotune = triton.heuristics = decorator
    triton.Config = SimpleNamespace
    sys.modules["triton"] = triton
    sys.modules["triton.language"] = triton.language


def _mode(torch: Any, change: Any, instead: Mapping[str, Any]) -> Any:
    """Return a mode that passes types, devices and words given to PyTorch through `change`.

    A function with a name of `instead` is not called: that one is, with its first argument. Every
    call of a network passes here, so arguments are looked at one by one only where it is needed.
    """
    overrides = importlib.import_module("torch.overrides")
    kinds = frozenset((torch.dtype, torch.device, str))

    class Mode(overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            other = instead.get(getattr(function, "__name__", ""))
            if other is not None and args:
                return other(args[0])
            if not kinds.isdisjoint(map(type, args)):
                args = tuple(map(change, args))
            if not kwargs:
                return function(*args)
            return function(*args, **{key: change(value) for key, value in kwargs.items()})

    return Mode()


@contextmanager
def _quiet() -> Iterator[None]:
    """Turn off the bars and the lines of Meta's video classes: progress is told by stage."""
    bar = importlib.import_module("tqdm").tqdm
    begin, level = bar.__init__, logging.root.manager.disable

    def hidden(self: Any, *args: Any, **named: Any) -> None:
        begin(self, *args, **{**named, "disable": True})

    logging.disable(logging.INFO)
    try:
        with mock.patch.object(bar, "__init__", hidden):
            yield
    finally:
        logging.disable(level)


@contextmanager
def running(torch: Any, *, exact: bool = False) -> Iterator[None]:
    """Run Meta's code here: on the CPU, uncompiled, with frames and memories in float32.

    Parameters
    ----------
    torch : module
        PyTorch.
    exact : bool
        True: every request for a smaller float gives float64.
    """
    small = (torch.float16, torch.bfloat16) + ((torch.float32,) if exact else ())
    wide = torch.float64 if exact else torch.float32

    def change(value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return wide if value in small else value
        device = isinstance(value, torch.device) and value.type == "cuda"
        named = isinstance(value, str) and value.startswith("cuda")
        return torch.device("cpu") if device or named else value

    instead = dict.fromkeys(("cuda", "pin_memory"), lambda tensor: tensor)
    if exact:
        instead |= dict.fromkeys(("float", "half", "bfloat16"), lambda tensor: tensor.double())
    before = torch.get_default_dtype()
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(mock.patch.object(torch.jit, "script", lambda module: module))
        stack.enter_context(_mode(torch, change, instead))
        stack.enter_context(_quiet())
        if exact:
            torch.set_default_dtype(torch.float64)
        try:
            with torch.no_grad():
                yield
        finally:
            torch.set_default_dtype(before)
