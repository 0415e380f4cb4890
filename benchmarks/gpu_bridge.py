"""Encode with Meta's PyTorch code, on a GPU if there is one, and predict here on the CPU.

Each model gets its weights on both sides. The table tells how long PyTorch encodes, how long a
prompt takes here, and how much the masks agree with those of PyTorch's own prompts.
Example: ``python benchmarks/gpu_bridge.py --models sam-nano sam2-nano sam3-nano --device cuda``
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import sam_rlx
from sam_rlx import io
from sam_rlx.apps.parity import networks, packages, references

Arrays = list[np.ndarray]
IMAGE = Path(sam_rlx.__file__).parent / "assets" / "coins.jpg"
TEXT = "gray circle"
CLICK = (346, 185)


def arrays(tensors: list[Any]) -> Arrays:
    """Bring tensors to NumPy, in float32."""
    return [np.ascontiguousarray(tensor.detach().float().cpu().numpy()) for tensor in tensors]


def of_sam(predictor: Any) -> Arrays:
    """Embeddings of a `SamPredictor` that has an image, for `ImagePredictor`."""
    return arrays([predictor.features])


def of_sam2(predictor: Any) -> Arrays:
    """Embeddings of a `SAM2ImagePredictor` that has an image, for `ImagePredictor`."""
    features = predictor._features
    return arrays([features["image_embed"], *features["high_res_feats"]])


def of_sam3_clicks(network: Any, state: dict[str, Any]) -> Arrays:
    """Embeddings of `Sam3Processor.set_image`, for `ImagePredictor`."""
    fine0, fine1, coarse = state["backbone_out"]["sam2_backbone_out"]["backbone_fpn"][:3]
    empty = network.inst_interactive_predictor.model.no_mem_embed
    return arrays([coarse + empty.reshape(1, -1, 1, 1), fine0, fine1])


def quarters(x: Any) -> Any:
    """A map (1, C, 2 h, 2 w) by parity of row and column: (4, h, w, C)."""
    _, channels, height, width = x.shape
    parts = x[0].reshape(channels, height // 2, 2, width // 2, 2)
    return parts.permute(2, 4, 1, 3, 0).reshape(4, height // 2, width // 2, channels)


def of_sam3_texts(network: Any, state: dict[str, Any]) -> Arrays:
    """Embeddings of `Sam3Processor.set_image`, for `ConceptPredictor`.

    All of the detector that depends on the image alone: the coarsest map, the first self attention
    of the fusion encoder, the geometry encoder of no geometry, and the convolutions of the finer
    maps, which the pixel decoder adds to those of the coarser ones.
    """
    backbone = state["backbone_out"]
    fine0, fine1, coarse = backbone["backbone_fpn"][-3:]
    position = backbone["vision_pos_enc"][-1]
    tokens, positions = (x.flatten(2).permute(0, 2, 1) for x in (coarse, position))
    layer = network.transformer.encoder.layers[0]
    normed = layer.norm1(tokens)
    query = normed + positions if layer.pos_enc_at_attn else normed
    begun = tokens + layer.self_attn(query, query, value=normed, need_weights=False)[0]
    geometry, _ = network.geometry_encoder(
        geo_prompt=network._get_dummy_prompt(),
        img_feats=[tokens.transpose(0, 1)],
        img_sizes=[coarse.shape[-2:]],
        img_pos_embeds=[positions.transpose(0, 1)],
    )
    convolutions = network.segmentation_head.pixel_decoder.conv_layers
    levels = [quarters(convolutions[0](fine1)), quarters(convolutions[1](fine0))]
    return arrays([coarse[0].permute(1, 2, 0), begun[0], geometry[:, 0], *levels])


class Bridge:
    """Meta's network with the weights of a model of ours, on a device."""

    def __init__(self, model: sam_rlx.Model, device: str) -> None:
        kind = {
            "sam": references.SamReference,
            "sam2": references.Sam2Reference,
            "sam3": references.Sam3Reference,
        }[model.family]
        self.reference: Any = kind(model, networks.read_weights(model.source))
        self.torch = self.reference.package.torch
        self.device = device
        self.family = model.family
        self.network = self.reference.network.to(device)
        if device != "cpu":
            grid = model.config.get("image_size", 1024) // 16
            networks.refresh(self.network, grid)
            # Tables that are no buffers stay where they were made.
            for child in self.network.modules():
                if getattr(child, "freqs_cis", None) is not None:
                    child.freqs_cis = child.freqs_cis.to(device)

    def _running(self) -> Any:
        """On a CPU: what Meta's code writes down for GPUs is led to the CPU."""
        return packages.running(self.torch) if self.device == "cpu" else self.torch.no_grad()

    def encode(self, image: np.ndarray) -> dict[str, Arrays]:
        """Embeddings for each predictor of ours that takes some."""
        with self._running():
            if self.family != "sam3":
                self.reference.encode(image)
                take = of_sam if self.family == "sam" else of_sam2
                return {"clicks": take(self.reference._predictor)}
            processor = self.reference.package.sam3_image_processor.Sam3Processor(
                self.network,
                resolution=self.reference._side,
                device=self.device,
                confidence_threshold=references.THRESHOLD,
            )
            pixels = self.torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)
            self.reference._state = processor.set_image(pixels)
            state = self.reference._state
            self._processor = processor
            return {
                "clicks": of_sam3_clicks(self.network, state),
                "texts": of_sam3_texts(self.network, state),
            }

    def click(self, **prompts: Any) -> np.ndarray:
        """PyTorch's own masks for a click (K, H, W)."""
        with self._running():
            return np.asarray(self.reference.predict(**prompts)[0]) > 0

    def text(self, text: str) -> np.ndarray:
        """PyTorch's own masks for a text (N, H, W)."""
        with self._running():
            state = self._processor.set_text_prompt(text, self.reference._state)
            return state["masks"].cpu().numpy()[:, 0].astype(bool)


def lowest_iou(ours: np.ndarray, theirs: np.ndarray) -> float:
    """IoU of the pair of masks that agrees least; 0 if their numbers differ."""
    if len(ours) != len(theirs):
        return 0.0
    both = (ours & theirs).sum(axis=(1, 2))
    either = (ours | theirs).sum(axis=(1, 2))
    return float(np.where(either == 0, 1.0, both / np.maximum(either, 1)).min(initial=1.0))


def timed(call: Callable[[], Any], count: int) -> tuple[float, Any]:
    """Median seconds of some calls, and the last result."""
    seconds, result = [], None
    for _ in range(count):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), result


def rows(source: str, device: str, count: int, dtype: str) -> list[tuple[str, ...]]:
    """Rows of the table for a model."""
    model = sam_rlx.load_model(source)
    image = io.read_image(IMAGE)
    height, width = image.shape[:2]
    prompts = {
        "point_coords": np.array([CLICK]),
        "point_labels": np.array([1]),
    }
    bridge = Bridge(model, device)
    torch = bridge.torch
    narrow = nullcontext()
    if dtype == "bfloat16":
        narrow = torch.autocast(device, torch.bfloat16)
    else:  # all of float32: cuDNN would compute convolutions in TF32
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
    bridge.encode(image)  # the first one on a GPU prepares it
    with narrow:
        encoding, embeddings = timed(lambda: bridge.encode(image), count)
    found = []
    clicks = sam_rlx.ImagePredictor(model)
    clicks.set_image_embedding(embeddings["clicks"], (height, width))
    seconds, result = timed(lambda: clicks.predict(**prompts), count)
    iou = lowest_iou(result.masks, bridge.click(**prompts))
    name = f"{model.variant}, {dtype}"
    found.append((name, "click", f"{encoding:.3f}", f"{seconds:.4f}", f"{iou:.5f}"))
    if "texts" in embeddings:
        concepts = sam_rlx.ConceptPredictor(model)
        concepts.set_image_embedding(embeddings["texts"], (height, width))
        threshold = references.THRESHOLD
        seconds, result = timed(lambda: concepts.predict(text=TEXT, threshold=threshold), count)
        with narrow:
            iou = lowest_iou(result.masks, bridge.text(TEXT))
        found.append((name, "text", f"{encoding:.3f}", f"{seconds:.4f}", f"{iou:.5f}"))
    return found


def main() -> int:
    """Print the table; 1 if masks of float32 agree less than they should."""
    parser = argparse.ArgumentParser(description=__doc__)
    nanos = ["sam-nano", "sam2-nano", "sam3-nano"]
    parser.add_argument("--models", nargs="+", default=nanos, help="what `load_model` takes")
    parser.add_argument("--device", default="cuda", help="of PyTorch")
    parser.add_argument("--count", type=int, default=5, help="runs of which the median is shown")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    args = parser.parse_args()
    print("| model | prompt | PyTorch encodes, s | prompt here, s | lowest IoU |")
    print("| --- | --- | --- | --- | --- |")
    worst = 1.0
    for source in args.models:
        for row in rows(source, args.device, args.count, args.dtype):
            print(f"| {' | '.join(row)} |", flush=True)
            worst = min(worst, float(row[-1]))
    return 0 if worst >= (0.999 if args.dtype == "float32" else 0.0) else 1


if __name__ == "__main__":
    sys.exit(main())
