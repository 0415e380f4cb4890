"""Upstream's PyTorch model and ours on one checkpoint and image (extra ``parity``).

``python -m sam_rlx.parity CHECKPOINT PICTURE --point X,Y`` prints a line for each stage.
"""

import argparse
import functools
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io
from sam_rlx.compat.segment_anything import SamPredictor
from sam_rlx.compat.segment_anything.modeling import Sam
from sam_rlx.errors import InvalidArgumentError, MissingExtraError, UnsupportedError
from sam_rlx.model import Model, load_model

# End to end: docs/parity.md. The embedding's bound is relative to its largest value.
MIN_MASK_IOU = 0.999
MAX_SCORE_DIFFERENCE = 1e-3
MAX_EMBEDDING_DIFFERENCE = 1e-3


@dataclass(frozen=True)
class Stage:
    """Distance of one stage's results.

    Attributes
    ----------
    name : str
        The stage.
    max_abs : float
        Largest difference.
    relative : float
        The same, in parts of upstream's largest value.
    cosine : float
        Cosine between the two results as vectors.
    iou : float or None
        Smallest intersection over union of a mask; None for stages without masks.
    """

    name: str
    max_abs: float
    relative: float
    cosine: float
    iou: float | None = None

    def __str__(self) -> str:
        text = (
            f"{self.name:<16} max abs {self.max_abs:9.3e}  relative {self.relative:9.3e}  "
            f"cosine {self.cosine:.9f}"
        )
        return text if self.iou is None else f"{text}  mask IoU {self.iou:.6f}"


@dataclass(frozen=True)
class Report:
    """All stages, in the order of computation."""

    stages: tuple[Stage, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.stages))

    def __getitem__(self, name: str) -> Stage:
        return next(stage for stage in self.stages if stage.name == name)

    def check(self) -> None:
        """Raise ``AssertionError`` if a mask, a score or the embedding differs too much."""
        masks, scores = self["masks"], self["iou_predictions"]
        embedding = self["image_embedding"]
        assert masks.iou is not None
        assert masks.iou >= MIN_MASK_IOU, f"mask IoU {masks.iou} < {MIN_MASK_IOU}\n{self}"
        assert scores.max_abs <= MAX_SCORE_DIFFERENCE, f"scores differ\n{self}"
        assert embedding.relative <= MAX_EMBEDDING_DIFFERENCE, f"embeddings differ\n{self}"


def compare(
    checkpoint: str | os.PathLike[str] | Model,
    image: Any,
    *,
    point: Sequence[float] | None = None,
    box: Sequence[float] | None = None,
) -> Report:
    """Run both implementations and measure every stage.

    Parameters
    ----------
    checkpoint : str, path or Model
        A file with Meta's tensor names (``.pth`` or ``.safetensors``), or ``"sam-nano"``.
    image : str, path or ndarray
        An image file, or uint8 (H, W, 3) RGB.
    point : (x, y), optional
        Foreground point in pixels. Default without a box: the middle of the image.
    box : (x0, y0, x1, y1), optional
        Box in pixels.

    Returns
    -------
    Report
        Stages ``resized, input, image_embedding, low_res_masks, iou_predictions, masks``.

    Raises
    ------
    MissingExtraError
        PyTorch or ``segment-anything`` is not installed.
    UnsupportedError
        The checkpoint has tensor names that upstream does not load.
    """
    torch, upstream = _packages()
    model = checkpoint if isinstance(checkpoint, Model) else load_model(checkpoint)
    pixels = image if isinstance(image, np.ndarray) else io.read_image(image)
    theirs = upstream.SamPredictor(_upstream_model(torch, model))
    ours = SamPredictor(Sam(model))
    if point is None and box is None:
        point = (pixels.shape[1] / 2, pixels.shape[0] / 2)
    prompts: dict[str, Any] = {
        "point_coords": None if point is None else np.asarray([point], np.float64),
        "point_labels": None if point is None else np.asarray([1]),
        "box": None if box is None else np.asarray(box, np.float64),
    }
    results = []
    for predictor in (ours, theirs):
        resized = predictor.transform.apply_image(pixels)
        values = resized.transpose(2, 0, 1)[None].astype(np.float32)
        tensor = values if predictor is ours else torch.from_numpy(values)
        predictor.set_image(pixels)
        masks, scores, low_res = predictor.predict(**prompts)
        results.append(
            {
                "resized": resized,
                "input": np.asarray(predictor.model.preprocess(tensor)),
                "image_embedding": predictor.get_image_embedding().numpy(),
                "low_res_masks": low_res,
                "iou_predictions": scores,
                "masks": masks,
            }
        )
    mine, other = results
    return Report(tuple(_stage(name, mine[name], other[name]) for name in mine))


def _stage(name: str, ours: NDArray[Any], theirs: NDArray[Any]) -> Stage:
    iou = None
    if ours.dtype == np.bool_:
        both = (ours & theirs).sum(axis=(-2, -1))
        union = (ours | theirs).sum(axis=(-2, -1))
        iou = float(np.where(union > 0, both / np.maximum(union, 1), 1.0).min())
    a, b = ours.astype(np.float64).ravel(), theirs.astype(np.float64).ravel()
    largest, scale = float(np.abs(a - b).max()), float(np.abs(b).max())
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    cosine = float(a @ b) / norm if norm else 1.0
    return Stage(name, largest, largest / scale if scale else largest, cosine, iou)


def _packages() -> tuple[Any, ModuleType]:
    """Import PyTorch and upstream's package."""
    try:
        torch = importlib.import_module("torch")
        try:
            return torch, importlib.import_module("segment_anything")
        except RuntimeError as error:
            if "torchvision::nms" not in str(error):
                raise
        # torchvision was built for another PyTorch: it needs two operators to be declared at its
        # import, and nothing here runs them. The declarations live as long as their library.
        for name in [key for key in sys.modules if key.startswith("torchvision")]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _declared.append(library)
        return torch, importlib.import_module("segment_anything")
    except ImportError as error:
        raise MissingExtraError(
            'parity: expected PyTorch and segment-anything (pip install "sam_rlx[parity]"), found '
            f"{error}"
        ) from error


_declared: list[Any] = []


def _upstream_model(torch: Any, model: Model) -> Any:
    """Build upstream's ``Sam`` with the sizes and the weights of `model`."""
    modeling = importlib.import_module("segment_anything.modeling")
    encoder, prompt, decoder = (
        model.config[key] for key in ("image_encoder", "prompt_encoder", "mask_decoder")
    )
    grid = encoder["img_size"] // encoder["patch_size"]
    names = ["img_size", "patch_size", "embed_dim", "depth", "num_heads", "out_chans"]
    names += ["window_size", "global_attn_indexes"]
    sam = modeling.Sam(
        modeling.ImageEncoderViT(
            **{name: encoder[name] for name in names},
            mlp_ratio=encoder["mlp_dim"] / encoder["embed_dim"],
            norm_layer=functools.partial(torch.nn.LayerNorm, eps=1e-6),
            qkv_bias=True,
            use_rel_pos=True,
        ),
        modeling.PromptEncoder(
            embed_dim=prompt["embed_dim"],
            image_embedding_size=(grid, grid),
            input_image_size=(encoder["img_size"], encoder["img_size"]),
            mask_in_chans=prompt["mask_in_chans"],
        ),
        modeling.MaskDecoder(
            num_multimask_outputs=decoder["num_multimask_outputs"],
            transformer=modeling.TwoWayTransformer(
                depth=decoder["transformer_depth"],
                embedding_dim=decoder["embedding_dim"],
                num_heads=decoder["num_heads"],
                mlp_dim=decoder["mlp_dim"],
            ),
            transformer_dim=decoder["embedding_dim"],
            iou_head_depth=decoder["iou_head_depth"],
            iou_head_hidden_dim=decoder["iou_head_hidden_dim"],
        ),
        pixel_mean=list(model.config["pixel_mean"]),
        pixel_std=list(model.config["pixel_std"]),
    )
    try:
        sam.load_state_dict(_state_dict(torch, Path(model.source)))
    except RuntimeError as error:
        raise UnsupportedError(
            f"{model.source}: expected upstream's tensor names, found {error}"
        ) from error
    return sam.eval()


def _state_dict(torch: Any, path: Path) -> Any:
    if path.suffix != ".safetensors":
        return torch.load(path, map_location="cpu", weights_only=True)
    try:
        reader = importlib.import_module("safetensors.torch")
    except ImportError as error:
        raise MissingExtraError(
            'parity: expected the package safetensors (pip install "sam_rlx[parity]"), found none'
        ) from error
    return {name: tensor.float() for name, tensor in reader.load_file(path).items()}


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def main(argv: Sequence[str] | None = None) -> int:
    """Compare from the command line; exit code 1 if the results differ too much."""
    parser = argparse.ArgumentParser(
        prog="python -m sam_rlx.parity",
        description="Compare upstream's PyTorch model with sam_rlx, stage by stage.",
        epilog="example: python -m sam_rlx.parity sam_vit_b_01ec64.pth cup.jpg --point 300,60",
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT")
    parser.add_argument("image", metavar="IMAGE")
    parser.add_argument("--point", type=_numbers, metavar="X,Y")
    parser.add_argument("--box", type=_numbers, metavar="X0,Y0,X1,Y1")
    args = parser.parse_args(argv)
    try:
        report = compare(args.checkpoint, args.image, point=args.point, box=args.box)
    except (InvalidArgumentError, MissingExtraError, UnsupportedError, OSError) as error:
        print(f"parity: {error}", file=sys.stderr)
        return 1
    print(report)
    try:
        report.check()
    except AssertionError as error:
        print(f"parity: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
