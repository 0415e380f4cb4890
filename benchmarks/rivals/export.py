"""ONNX files of the encoder and the decoder, made once and kept in the build folder.

Runs in a process of its own (``python -m rivals.export WORKLOAD...``), so that no rival is charged
with the memory of the export.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from workloads import BUILD, SEED, Workload, normalised, picture, weights_path

EXPORTED = ("encoder", "decode-1", "decode-64")


def onnx_path(workload: Workload) -> Path:
    return BUILD / f"sam_{workload.variant}_seed{SEED}_{workload.name}.onnx"


def write_weights(variant: str) -> None:
    """Write the checkpoint that every engine loads."""
    from support import tiny, upstream

    from workloads import network

    path = weights_path(variant)
    if not path.exists():
        partial = path.with_suffix(".part")
        upstream.save_pth(partial, tiny.sam_weights(network(variant), SEED))
        partial.rename(path)
    if variant == "tiny":  # ours needs its sizes, which a .pth file cannot hold
        tiny.save_safetensors(path.with_suffix(".safetensors"), tiny.sam_weights(tiny.TINY, SEED))


def export(workload: Workload) -> None:
    import torch

    from rivals import torch_models

    path = onnx_path(workload)
    if path.exists():
        return
    model = torch_models.load(workload)
    inputs: tuple[Any, ...]
    if workload.name == "encoder":
        side = workload.config.img_size
        inputs = (torch.from_numpy(normalised(picture(side, side))),)
        module, names, outputs = model.image_encoder, ["image"], ["image_embeddings"]
    else:
        inputs = torch_models.exportable_inputs(workload)
        module = torch_models.ExportableDecoder(model).eval()
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


def inputs_for(workload: Workload) -> dict[str, Any]:
    """NumPy inputs of the exported graph, without PyTorch."""
    import numpy as np

    from workloads import clicks, embedding

    if workload.name == "encoder":
        side = workload.config.img_size
        return {"image": normalised(picture(side, side))}
    coords, labels = clicks(workload.config, workload.prompts)
    padding = np.zeros((workload.prompts, 1, 2))
    return {
        "image_embeddings": embedding(workload.config),
        "coords": np.concatenate([coords, padding], axis=1).astype(np.float32),
        "labels": np.concatenate([labels, padding[..., 0] - 1], axis=1).astype(np.float32),
    }


def main() -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    for text in sys.argv[1:]:
        fields = json.loads(text)
        write_weights(fields["variant"])
        if fields["name"] in EXPORTED and fields.pop("onnx"):
            export(Workload.from_json(fields))


if __name__ == "__main__":
    main()
