"""transformers' classes with random weights: their folders, and what they and we compute.

Needs transformers 5. `no_memory_embedding` of SAM 3's trackers is zero: transformers adds it to a
level that the decoder does not read. `SamHQModel` decodes the map that its transformer gives.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sam_rlx.apps.parity.hugging_face import decode_what_the_transformer_gives

from support import tiny
from support.hugging_face_configs import config, family, side, use_metas_epsilon
from support.parity import last_bits

Arrays = dict[str, NDArray[Any]]

POINT = (40.0, 30.0)
IDS = (49406, 4481, 1228, 2840, 49407)  # "yellow school bus"
QUERIES = (0, 7, 3)
CLICK_CLASSES = (
    "SamModel",
    "Sam2Model",
    "Sam2VideoModel",
    "EdgeTamModel",
    "EdgeTamVideoModel",
    "Sam3TrackerModel",
    "Sam3TrackerVideoModel",
    "SamHQModel",
)
CLASSES = (*CLICK_CLASSES, "Sam3Model", "Sam3VideoModel")
VISION_CLASSES = ("SamVisionModel", "Sam2VisionModel", "Sam3VisionModel")
_COPY = "shared_image_embedding.positional_embedding"
_ENCODING = "prompt_encoder.shared_embedding.positional_embedding"


# ---------------------------------------------------------------- models and folders


def fill(model: Any, seed: int = 0) -> Any:
    """Give a model random weights that follow from names and shapes."""
    import torch

    weights = {n: value for n, value in model.state_dict().items() if value.is_floating_point()}
    drawn = tiny.random_state_dict({name: tuple(w.shape) for name, w in weights.items()}, seed)
    for name in drawn:
        if name.endswith(_ENCODING) and (twin := name.replace(_ENCODING, _COPY)) in drawn:
            drawn[twin] = drawn[name]
        if name.endswith("no_memory_embedding") and family(type(model).__name__) == "Sam3":
            drawn[name][:] = 0
    # Batch norms count their steps, in whole numbers.
    rest = {n: value for n, value in model.state_dict().items() if n not in drawn}
    model.load_state_dict({**rest, **{n: torch.from_numpy(value) for n, value in drawn.items()}})
    return mended(model)


def mended(model: Any) -> Any:
    """Let `SamHQModel` decode the right map, and give a model back ready to run."""
    if type(model).__name__ == "SamHQModel":
        decode_what_the_transformer_gives(model.mask_decoder)
    return model.eval()


def make(name: str, image_size: int | None = None, *, seed: int = 0, width: int = 64) -> Any:
    """Return a tiny model of a class of transformers with random weights."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    sizes = config(name, image_size or side(name), width)
    return fill(getattr(transformers, name)(sizes), seed)


def make_released(name: str) -> Any:
    """Return a model of a class with random weights, at the size of its default config."""
    import transformers

    kind = getattr(transformers, name)
    sizes = kind.config_class()
    use_metas_epsilon(sizes)
    return fill(kind(sizes))


def save(model: Any, folder: Path, *, dtype: str = "float32", shard: str | None = None) -> Path:
    """Write the folder that ``save_pretrained`` makes, in shards of at most `shard`."""
    import torch

    options = {} if shard is None else {"max_shard_size": shard}
    written = model if dtype == "float32" else copy.deepcopy(model).to(getattr(torch, dtype))
    with contextlib.redirect_stderr(io.StringIO()):
        written.save_pretrained(folder, **options)
    return folder


def rename(source: Path, folder: Path, names: Mapping[str, str]) -> Path:
    """Write a folder again, with other begins of its tensors' names: the first that fits."""
    import safetensors.numpy

    folder.mkdir()
    (folder / "config.json").write_bytes((source / "config.json").read_bytes())

    def renamed(name: str) -> str:
        for old, new in names.items():
            if name.startswith(old):
                return new + name.removeprefix(old)
        return name

    weights = safetensors.numpy.load_file(source / "model.safetensors")
    safetensors.numpy.save_file(
        {renamed(name): value for name, value in weights.items()}, folder / "model.safetensors"
    )
    return folder


@contextlib.contextmanager
def rounded(model: Any, dtype: str) -> Iterator[Any]:
    """Give a model the weights that its folder has in this dtype."""
    import torch

    weights = {name: value.clone() for name, value in model.state_dict().items()}
    kind = getattr(torch, dtype)
    model.load_state_dict({name: value.to(kind).float() for name, value in weights.items()})
    try:
        yield model
    finally:
        model.load_state_dict(weights)


# The layouts of the tracker's classes in versions 5: the hub's, which has the names of
# Sam3VideoModel, and the classes' own names. What a name begins with after `save`, and there.
HUB_LAYOUT = {
    "tracker_model.detector_model.": "detector_model.",
    "tracker_model.tracker_neck.": "tracker_neck.",
    "tracker_model.tracker_model.": "tracker_model.",
}
BARE_LAYOUT = {
    "tracker_model.detector_model.": "",
    "tracker_model.tracker_neck.": "vision_encoder.neck.",
    "tracker_model.": "",
}

# ---------------------------------------------------------------- what transformers computes


def image(image_size: int) -> NDArray[np.uint8]:
    """Draw an image that the model takes without a resize."""
    generator = np.random.default_rng(7)
    return generator.integers(0, 256, (image_size, image_size, 3), np.uint8)


def pixel_values(name: str, pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Normalize an image as the class' own preprocessing does: (1, 3, S, S)."""
    mean, std = {
        "Sam": (tiny.PIXEL_MEAN, tiny.PIXEL_STD),
        "Sam2": ((0.485 * 255, 0.456 * 255, 0.406 * 255), (0.229 * 255, 0.224 * 255, 0.225 * 255)),
        "Sam3": ((127.5,) * 3, (127.5,) * 3),
    }[family(name).replace("EdgeTam", "Sam2")]
    values = (pixels.astype(np.float64) - np.array(mean)) / np.array(std)
    return np.asarray(values.transpose(2, 0, 1)[None], np.float64)


def click_model(model: Any) -> Any:
    """Return the class that takes clicks on images, with the weights of another one's tracker."""
    import transformers
    from transformers import EdgeTamConfig, Sam2Config, Sam3TrackerConfig

    name = type(model).__name__
    if name in ("SamModel", "SamHQModel", "Sam2Model", "EdgeTamModel", "Sam3TrackerModel"):
        return model
    weights = model.state_dict()
    if name == "Sam3VideoModel":
        begins = {"tracker_neck.": "vision_encoder.neck.", "tracker_model.": ""}
        begins["detector_model.vision_encoder.backbone."] = "vision_encoder.backbone."
        weights = {
            new + key.removeprefix(old): value
            for key, value in weights.items()
            for old, new in begins.items()
            if key.startswith(old)
        }
    sizes = model.config.tracker_config if name == "Sam3VideoModel" else model.config
    kind, parts = {
        "Sam2": ("Sam2Model", Sam2Config),
        "EdgeTam": ("EdgeTamModel", EdgeTamConfig),
        "Sam3": ("Sam3TrackerModel", Sam3TrackerConfig),
    }[family(name)]
    found = getattr(transformers, kind)(
        parts(
            vision_config=sizes.vision_config,
            prompt_encoder_config=sizes.prompt_encoder_config.to_dict(),
            mask_decoder_config=sizes.mask_decoder_config.to_dict(),
        )
    )
    missing, _ = found.load_state_dict(weights, strict=False)
    assert not missing, missing
    return found.to(model.dtype).eval()


def _click(model: Any, pixels: Any) -> Mapping[str, Any]:
    import torch

    out = model(
        pixel_values=pixels,
        input_points=torch.tensor([[[POINT]]], dtype=pixels.dtype),
        input_labels=torch.ones(1, 1, 1, dtype=torch.long),
    )
    masks, iou = out.pred_masks[0, 0], out.iou_scores[0, 0]
    if type(model).__name__ == "SamHQModel":  # the best one of several is the first
        masks, iou = masks[:1], iou[:1]
    clamped = family(type(model).__name__) != "Sam"  # as Meta's predictors do
    return {"low_res": masks.clamp(-32, 32) if clamped else masks, "iou": iou}


def _detect(model: Any, pixels: Any) -> Mapping[str, Any]:
    """Find a text; a padded box makes the class token that Meta has always."""
    import torch

    out = model(
        pixel_values=pixels,
        input_ids=torch.tensor([IDS]),
        attention_mask=torch.ones(1, len(IDS), dtype=torch.long),
        input_boxes=torch.zeros(1, 1, 4, dtype=pixels.dtype),
        input_boxes_labels=torch.full((1, 1), -10),
    )
    return {
        "logits": out.pred_logits[0],
        "boxes": out.pred_boxes[0],
        "presence": out.presence_logits[0].clamp(-10, 10),
        "masks": out.pred_masks[0, list(QUERIES)],
        "semantic": out.semantic_seg[0],
    }


def folders(root: Path) -> Callable[[str], tuple[Any, Path]]:
    """Return what gives the model of a class and its folder, made below `root` when asked for."""

    @functools.cache
    def folder(name: str) -> tuple[Any, Path]:
        model = make(name)
        return model, save(model, root / name)

    return folder


@contextlib.contextmanager
def _exact(model: Any) -> Iterator[None]:
    """Make transformers compute in float64 where it asks for float32 itself: in rotations, softmax.

    Frequencies of rotations are worked out again; `click_model` makes theirs in this context.
    """
    from support import upstream

    rotations = [part for part in model.modules() if hasattr(part, "compute_axial_rope_parameters")]
    before = [part.inv_freq for part in rotations]
    with upstream.float64():
        for part in rotations:
            part.inv_freq = part.compute_axial_rope_parameters(part.config)[0]
        try:
            yield
        finally:
            for part, frequencies in zip(rotations, before, strict=True):
                part.inv_freq = frequencies


def reference(model: Any, dtype: str = "float64", nudge: int | None = None) -> Arrays:
    """Run transformers on `image`: a click, a text, or both.

    With `nudge`, a seed, each weight moves by its last bit of float32.
    """
    import torch

    name, kind = type(model).__name__, getattr(torch, dtype)
    image_size = model_side(model)
    pixels = torch.from_numpy(pixel_values(name, image(image_size))).to(kind)
    if nudge is not None:
        model = copy.deepcopy(model)
        for weight in model.parameters():
            weight.data = torch.from_numpy(last_bits(weight.detach().numpy(), nudge))
    found: dict[str, Any] = {}
    exact = _exact(model) if dtype == "float64" else contextlib.nullcontext()
    with torch.no_grad(), exact:
        if name in CLICK_CLASSES or name == "Sam3VideoModel":
            found |= _click(click_model(model).to(kind), pixels)
        if name in ("Sam3Model", "Sam3VideoModel"):
            detector = model if name == "Sam3Model" else model.detector_model
            found |= _detect(detector.to(kind), pixels)
    model.float()
    return {key: value.numpy() for key, value in found.items()}


def model_side(model: Any) -> int:
    """Return the side of a model's images."""
    sizes = model.config
    if type(model).__name__ in ("Sam3Model", "Sam3VideoModel"):
        return int(sizes.image_size)
    return int(sizes.prompt_encoder_config.image_size)


# ---------------------------------------------------------------- what we compute


def ours(testing: Any, name: str, source: Path) -> Arrays:
    """Load a folder or file, and run it as `reference` runs the class `name`."""
    import sam_rlx

    model = sam_rlx.load_model(source)
    pixels, found = image(model.img_size), Arrays()
    if name in CLICK_CLASSES or name == "Sam3VideoModel":
        predictor = sam_rlx.ImagePredictor(model)
        predictor.set_image(pixels)
        result = predictor.predict(point_coords=[POINT], point_labels=[1])
        found |= {"low_res": result.low_res_masks, "iou": result.iou_predictions}
    if name in ("Sam3Model", "Sam3VideoModel"):
        scaled = pixels[None] / np.float32(127.5) - np.float32(1)
        logits, boxes, presence, masks, semantic = testing.sam3_detect(
            str(source), scaled, np.array([IDS]), list(QUERIES)
        )
        found |= {"logits": logits[0], "boxes": _corners(boxes[0]), "presence": presence}
        found |= {"masks": masks[0], "semantic": semantic[0]}
    return found


def _corners(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn centers and extents into corners: transformers gives these."""
    center, extent = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([center - extent / 2, center + extent / 2], 1)
