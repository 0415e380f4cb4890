"""Whole files and folders whose structure is changed, and what reads each kind."""

from __future__ import annotations

import io as streams
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from support import sam3cpp_files as files_of
from support import tiny, tiny_sam2

from nightly.structure_changes import dumped


@dataclass
class Kind:
    """Whole files of one kind, below one folder, and what is read of them."""

    name: str
    files: dict[str, bytes]
    target: str = ""


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def ggml(folder: Path) -> Kind:
    config = tiny_sam2.ImageEncoderConfig(
        image_size=128, embed_dim=32, stages=(1, 1, 2, 1), global_att_blocks=(3,), d_model=64
    )
    weights = files_of.sam2_weights(tiny_sam2.weights(config))
    settings = files_of.sam2_settings(json.loads(tiny_sam2.metadata(config)["config"]))
    stored = files_of.packed(weights, "F32", lambda value: value)
    data = files_of.ggml_bytes("sam2", settings, stored)
    return Kind("ggml", {"model.ggml": data}, "model.ggml")


def trainer(folder: Path) -> Kind:
    """Return what transformers' Trainer leaves: the model beside the state of the training."""
    shard = tiny.save_safetensors(folder / "model.safetensors", tiny.sam_weights())
    state = {"epoch": 1.0, "global_step": 500, "log_history": [{"loss": 0.5, "step": 500}]}
    return Kind(
        "trainer",
        {
            "model.safetensors": shard.read_bytes(),
            "config.json": json.dumps(
                {"model_type": "sam", "architectures": ["SamModel"]}
            ).encode(),
            "trainer_state.json": json.dumps(state).encode(),
            "preprocessor_config.json": json.dumps({"image_mean": [0.5] * 3}).encode(),
            "training_args.bin": b"PK\x03\x04",
            "checkpoint-500/model.safetensors": shard.read_bytes(),
        },
    )


def _object() -> Any:
    mask = np.zeros((40, 60), bool)
    mask[10:30, 15:45] = True
    return mask


def coco(folder: Path) -> Kind:
    from sam_rlx import io

    image = {"file_name": "cup.png", "height": 40, "width": 60}
    entry = io.coco_annotation(_object())
    outline = {"segmentation": [[1, 1, 20, 1, 20, 30]], "bbox": [1, 1, 19, 29], "area": 551}
    document = io.coco_document(image, [entry, {**entry, "category_id": 1}, outline], ["cup"])
    return Kind("coco", {"coco.json": dumped(document)}, "coco.json")


def arrays(folder: Path) -> Kind:
    out = streams.BytesIO()
    np.savez(
        out,
        masks=np.stack([_object(), ~_object()]),
        names=np.array(["cup", "table"]),
        scores=np.array([0.9, 0.8], np.float32),
        colors=np.array([[255, 0, 0], [0, 255, 0]], np.uint8),
    )
    return Kind("arrays", {"a.npz": out.getvalue()}, "a.npz")


def _inputs(folder: Path) -> list[bytes]:
    from PIL import Image

    rng = np.random.default_rng(0)
    images = []
    for index in range(3):
        pixels = Image.fromarray(rng.integers(0, 256, (40, 60, 3), dtype=np.uint8))
        pixels.save(folder / f"{index}.png")
        images.append((folder / f"{index}.png").read_bytes())
    return images


def table(folder: Path) -> Kind:
    import pyarrow as pa
    from pyarrow import parquet

    images = _inputs(folder)
    columns = {
        "image": [{"bytes": data, "path": f"{k}.png"} for k, data in enumerate(images)],
        "boxes": [[[5.0, 5.0, 50.0, 30.0]]] * 3,
        "points": [[[9.0, 9.0]]] * 3,
        "labels": [[1]] * 3,
    }
    out = streams.BytesIO()
    parquet.write_table(pa.table(columns), out)
    return Kind("table", {"table.parquet": out.getvalue()}, "table.parquet")


def batch_folder(folder: Path) -> Kind:
    """Return a batch that was interrupted behind its first image, and in a clip."""
    import sam_rlx
    from sam_rlx._internal.media.clip_writer import ClipWriter

    _inputs(folder / "inputs")
    with ClipWriter(folder / "inputs" / "clip.mp4", 10) as writer:
        for index in range(4):
            writer.add(np.full((40, 60, 3), 40 * index, np.uint8))
    save, saves = sam_rlx.VideoPredictor.save, [0]

    def interrupted(video: Any, path: Any) -> None:
        save(video, path)
        saves[0] += 1
        if saves[0] == 2:
            raise KeyboardInterrupt

    sam_rlx.VideoPredictor.save = interrupted  # type: ignore[method-assign]
    try:
        _run_batch(folder)
    except KeyboardInterrupt:
        pass
    finally:
        sam_rlx.VideoPredictor.save = save  # type: ignore[method-assign]
    return Kind("batch", _contents(folder / "out"), str(folder))


def config(folder: Path) -> Kind:
    text = b"""
model:
  _target_: sam2.modeling.sam2_base.SAM2Base
  image_encoder:
    scalp: 1
    trunk: {embed_dim: 16, num_heads: 1, stages: [1, 1, 2, 1]}
  memory_attention:
    d_model: 256
    layer: {self_attention: {rope_theta: 10000.0, feat_sizes: [64, 64]}, dropout: 0.1}
  num_maskmem: 7
  add_tpos_enc_to_obj_ptrs: false
  directly_add_no_mem_embed: true
  fixed_no_obj_ptr: true
  iou_prediction_use_sigmoid: true
  pred_obj_scores: true
  use_high_res_features_in_sam: true
  use_mask_input_as_output_without_sam: true
  use_multimask_token_for_obj_ptr: true
  use_obj_ptrs_in_encoder: true
  image_size: 1024
  sigmoid_scale_for_mem_enc: 20.0
  sam_mask_decoder_extra_args: {dynamic_multimask_via_stability: true}
  max_obj_ptrs_in_encoder: 16
"""
    return Kind("config", {"sam2.yaml": text}, "sam2.yaml")


KINDS: dict[str, Callable[[Path], Kind]] = {
    "ggml": ggml,
    "trainer": trainer,
    "coco": coco,
    "arrays": arrays,
    "table": table,
    "batch": batch_folder,
    "config": config,
}


def _in_process(job: Any, workers: Any, blocks: Any, items_of: Any, report: Any) -> None:
    """Stand in for the engine of worker processes."""
    from sam_rlx.apps.batch.work import BlockWorker

    worker = BlockWorker(job)
    for block in blocks:
        worker.run(block, list(items_of(block)), report)


def _run_batch(folder: Path, table: Path | None = None, out: Path | None = None) -> None:
    import sam_rlx.batch
    from sam_rlx.apps.batch import local

    local.run = _in_process
    prompts: dict[str, Any] = {} if table else {"boxes": [[5, 5, 50, 30]]}
    out = out or folder / "out"
    words, model = str(table or folder / "inputs"), folder.parent / "tiny.safetensors"
    sam_rlx.batch.run(
        words, out, model=model, workers=1, num_threads=1, block=2, keep_every=1, **prompts
    )
    for _ in sam_rlx.batch.read(out):
        pass


def read(kind: str, folder: Path, target: str) -> None:
    """Read an input of a kind with what reads such files in the library."""
    if kind in ("ggml", "trainer"):
        import sam_rlx

        sam_rlx.load_model(folder / target)
    elif kind == "config":
        from sam_rlx.compat.sam2.config_file import read_settings

        read_settings(folder / target)
    elif kind in ("coco", "arrays"):
        from sam_rlx.apps.annotator.saved import OpenImages
        from sam_rlx.apps.annotator.saved_documents import read_saved

        images = OpenImages(["cup.png"], 0, lambda index: (40, 60))
        read_saved(target, (folder / target).read_bytes(), images)
    elif kind == "table":
        _run_batch(folder, folder / target)
    else:
        _run_batch(Path(target), out=folder)
