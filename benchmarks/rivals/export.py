"""ONNX files of the encoder and the decoder, made once and kept in the build folder.

Runs in a process of its own (``python -m rivals.export WORKLOAD...``), so that no rival is charged
with the memory of the export.
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import rivals
from tracks import sam2_weights
from workloads import (
    BUILD,
    GRAPHS,
    LIGHT,
    MOBILE_SAM,
    SEED,
    Workload,
    normalised,
    sample_image,
    tiny,
    tiny_sam2,
    tiny_sam3,
)

EXPORTED = (*GRAPHS, "decode-1", "decode-64")


def onnx_path(workload: Workload) -> Path:
    return BUILD / f"{workload.weights.stem}_{workload.name}.onnx"


def write_weights(workload: Workload) -> None:
    """Write the checkpoint that every engine loads; without PyTorch, the one that ours loads.

    SAM 3's weights come from upstream's module: without PyTorch there are none.
    """
    path, config = workload.weights, workload.config
    pytorch = not rivals.missing_packages("pytorch")
    if workload.ours.exists() and (path.exists() or not pytorch):
        return
    if workload.family == "sam3":
        if pytorch:
            write_sam3(workload)
        return
    sam2 = workload.family == "sam2"
    if workload.name in LIGHT:
        write_released(workload, pytorch)
        return
    weights = sam2_weights(config) if sam2 else tiny.sam_weights(config, SEED)
    if workload.variant == "tiny" or not pytorch:
        partial = workload.ours.with_suffix(".part")
        if sam2:
            tiny_sam2.save_safetensors(partial, config, weights)
        else:
            tiny.save_safetensors(partial, weights, config)
        partial.rename(workload.ours)
    if not pytorch:
        return
    from support import upstream

    partial = path.with_suffix(".part")
    upstream.save_pth(partial, weights, "model" if sam2 else None)
    partial.rename(path)


def write_released(workload: Workload, pytorch: bool) -> None:
    """The same for a released size that is known by its tensors."""
    from released import random_weights

    weights = random_weights(workload.variant)
    assert weights is not None, workload.variant
    if pytorch:
        from support import upstream

        partial = workload.weights.with_suffix(".part")
        upstream.save_pth(partial, weights, "model" if workload.family == "sam2" else None)
        partial.rename(workload.weights)
        return
    from safetensors.numpy import save_file

    partial = workload.ours.with_suffix(".part")
    save_file(weights, partial)
    partial.rename(workload.ours)


def write_sam3(workload: Workload) -> None:
    """The same for SAM 3's image model."""
    from support import upstream_sam3

    save_sam3(workload, upstream_sam3.image_model(workload.config, SEED))


def save_sam3(workload: Workload, model: Any) -> None:
    """Write a model of SAM 3 under the names of Meta's file."""
    from support import upstream, upstream_sam3

    weights = upstream_sam3.meta_weights(model)
    if workload.variant == "tiny":
        tiny_sam3.save_safetensors(workload.ours, workload.config, weights)
    partial = workload.weights.with_suffix(".part")
    upstream.save_pth(partial, weights)
    partial.rename(workload.weights)


def export(workload: Workload) -> None:
    import torch

    from rivals import light_models, sam2_models, torch_models

    path = onnx_path(workload)
    if path.exists():
        return
    inputs: tuple[Any, ...]
    if workload.name in GRAPHS:
        side = workload.side
        inputs = (torch.from_numpy(normalised(sample_image(side, side))),)
        names, outputs = ["image"], ["image_embeddings"]
        if workload.family == "sam2":
            module = sam2_models.exportable_encoder(workload)
            outputs += ["fine", "middle"]
        elif workload.name == MOBILE_SAM:
            module = light_models.mobile_sam(workload)
        else:
            module = torch_models.load(workload).image_encoder
    else:
        inputs = torch_models.exportable_inputs(workload)
        module = torch_models.ExportableDecoder(torch_models.load(workload)).eval()
        names, outputs = ["image_embeddings", "coords", "labels"], ["masks", "scores"]
    partial = path.with_suffix(".part")
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of tracing: the shapes are fixed
        torch.onnx.export(
            module,
            inputs,
            str(partial),
            input_names=names,
            output_names=outputs,
            opset_version=17,
            dynamo=False,
        )
    partial.rename(path)


class OtherGraph(NamedTuple):
    """A graph that a module makes of the exported one, once.

    ``python -m MODULE WORKLOAD`` makes it, in a process of its own: no rival is charged with its
    memory.
    """

    module: str
    ending: str  # of the file

    def path(self, workload: Workload) -> Path:
        """Return the file; called in the process of an engine, which finds the modules."""
        path = self.file(workload)
        if not path.exists():
            order = json.dumps(workload.to_json())
            subprocess.run([sys.executable, "-m", self.module, order], check=True)
        return path

    def file(self, workload: Workload) -> Path:
        return onnx_path(workload).with_name(f"{onnx_path(workload).stem}_{self.ending}")


def ordered_workload() -> Workload:
    """Return the workload of the command that makes a graph."""
    return Workload.from_json(json.loads(sys.argv[1]))


def inputs_for(workload: Workload) -> dict[str, Any]:
    """NumPy inputs of the exported graph, without PyTorch."""
    import numpy as np

    from workloads import clicks, embedding

    if workload.name in GRAPHS:
        return {"image": normalised(sample_image(workload.side, workload.side))}
    coords, labels = clicks(workload.config, workload.prompts)
    padding = np.zeros((workload.prompts, 1, 2))
    return {
        "image_embeddings": embedding(workload.config),
        "coords": np.concatenate([coords, padding], axis=1).astype(np.float32),
        "labels": np.concatenate([labels, padding[..., 0] - 1], axis=1).astype(np.float32),
    }


def main() -> None:
    """Make all files that can be made: what is absent afterwards cannot be measured."""
    BUILD.mkdir(parents=True, exist_ok=True)
    failed = False
    for text in sys.argv[1:]:
        fields = json.loads(text)
        onnx, workload = fields.pop("onnx"), Workload.from_json(fields)
        try:
            write_weights(workload)
            failed = failed or not workload.ours.exists()
            if workload.name in EXPORTED and onnx:
                export(workload)
        except Exception:
            failed = True
            traceback.print_exc()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
