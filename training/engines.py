"""One small interface over the implementations that can run the checkpoint."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from training import export

TRAINED = Path(__file__).parent / "checkpoints"
CHECKPOINT = TRAINED / "sam-nano.safetensors"


@dataclasses.dataclass
class Answer:
    """Masks (K, H, W) bool, IoU predictions (K,) and low-resolution logits (K, h, w)."""

    masks: np.ndarray
    iou: np.ndarray
    low_res: np.ndarray


class Engine(Protocol):
    """What the evaluation needs of an implementation."""

    def set_image(self, image: np.ndarray) -> None:
        """Encode an RGB image (H, W, 3) uint8."""

    def predict(
        self,
        points: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        box: np.ndarray | None = None,
        mask_input: np.ndarray | None = None,
        multimask: bool = True,
    ) -> Answer:
        """Answer a prompt in pixels of the image."""


class TorchEngine:
    """The modules of this folder, with upstream's pre- and post-processing."""

    def __init__(self, checkpoint: Path) -> None:
        self.model = export.load(checkpoint)
        self.side = self.model.config.img_size

    @torch.no_grad()
    def set_image(self, image: np.ndarray) -> None:
        """Resize, normalize, pad and encode an image."""
        self.shape = image.shape[:2]
        scale = self.side / max(self.shape)
        self.inner = tuple(int(length * scale + 0.5) for length in self.shape)
        height, width = self.inner
        resized = Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR)
        pixels = torch.zeros(1, 3, self.side, self.side)
        valid = torch.zeros(1, 1, self.side, self.side)
        pixels[0, :, :height, :width] = torch.from_numpy(np.array(resized)).permute(2, 0, 1)
        valid[..., :height, :width] = 1
        self.embedding = self.model.image_encoder(self.model.normalise(pixels, valid))

    @torch.no_grad()
    def predict(
        self,
        points: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        box: np.ndarray | None = None,
        mask_input: np.ndarray | None = None,
        multimask: bool = True,
    ) -> Answer:
        """Answer a prompt in pixels of the image."""
        coords, kinds = [], []
        if points is not None:
            coords.append(np.asarray(points, np.float64).reshape(-1, 2))
            kinds.extend(np.asarray(labels).tolist())
        if box is not None:
            coords.append(np.asarray(box, np.float64).reshape(2, 2))
            kinds.extend([2, 3])
        else:
            coords.append(np.zeros((1, 2)))
            kinds.append(-1)
        zoom = np.array(self.inner[::-1]) / np.array(self.shape[::-1])
        position = torch.from_numpy(np.concatenate(coords) * zoom).float()[None]
        mask = (
            None
            if mask_input is None
            else torch.from_numpy(mask_input).reshape(1, 1, *mask_input.shape[-2:])
        )
        low, iou = self.model.decode(self.embedding, position, torch.tensor([kinds]), mask)
        low, iou = (low[:, 1:], iou[:, 1:]) if multimask else (low[:, :1], iou[:, :1])
        full = F.interpolate(low, (self.side, self.side), mode="bilinear")
        full = full[..., : self.inner[0], : self.inner[1]]
        full = F.interpolate(full, self.shape, mode="bilinear")
        return Answer((full[0] > 0).numpy(), iou[0].numpy(), low[0].numpy())


class SamRlxEngine:
    """The package itself."""

    def __init__(self, checkpoint: Path) -> None:
        import sam_rlx

        self.predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(checkpoint))

    def set_image(self, image: np.ndarray) -> None:
        """Encode an image."""
        self.predictor.set_image(image)

    def predict(
        self,
        points: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        box: np.ndarray | None = None,
        mask_input: np.ndarray | None = None,
        multimask: bool = True,
    ) -> Answer:
        """Answer a prompt in pixels of the image."""
        got = self.predictor.predict(
            point_coords=None if points is None else np.asarray(points, np.float32),
            point_labels=None if labels is None else np.asarray(labels),
            box=None if box is None else np.asarray(box, np.float32),
            mask_input=mask_input,
            multimask_output=multimask,
        )
        return Answer(got.masks, got.iou_predictions, got.low_res_masks)


ENGINES = {"sam_rlx": SamRlxEngine, "torch": TorchEngine}


def default_engine() -> str:
    """Name of the engine to use: the package where it is built, else PyTorch."""
    try:
        built = importlib.util.find_spec("sam_rlx._core") is not None
    except ModuleNotFoundError:
        built = False
    return "sam_rlx" if built else "torch"
