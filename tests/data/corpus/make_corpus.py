"""Write the seed files of the fuzz targets: ``PYTHONPATH=tests python <this file>``.

``good-*`` files open; ``bad-*`` files are refused. Some of the latter are no files of a checkpoint
but what other targets take: a text of JSON, a pickle, a config, a folder.
"""

import json
import struct
from dataclasses import asdict
from pathlib import Path

import numpy as np
from support import checkpoint_files as files
from support import gguf_files, sam3cpp_files, tiny, tiny_sam2, tiny_sam3
from support.checkpoint_files import Call, Global, Raw

FOLDER = Path(__file__).parent
TENSORS = {
    "module.weight": files.stored(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "module.half": files.stored(np.ones(3, np.float16)),
    "module.brain": files.bfloat16(np.ones(2)),
    "module.steps": files.stored(np.array(7)),
    "module.table": files.stored(np.ones(2, np.complex64)),
    "module.empty": files.stored(np.zeros((0, 2), np.float32)),
}


def _torch(value: object, storages: files.Storages | None = None) -> bytes:
    entries = files.torch_entries(value, storages or files.Storages(), folder="a")
    return files.zip_bytes(entries, align=8)


def _views() -> bytes:
    storages = files.Storages()
    value = {"whole": storages.tensor(TENSORS["module.weight"])}
    value["view"] = storages.view(files.Stored("F32", b"", (3, 2), (1, 3)), "0", 6)
    parameter = Global("torch._utils", "_rebuild_parameter")
    value["parameter"] = Call(parameter, (value["whole"], True, None))
    return _torch({"model": value, "epoch": 1, "lr": 0.1, "x": [None, (True, 2**70)]}, storages)


def _safetensors(metadata: dict[str, str] | None = None) -> bytes:
    return files.safetensors_bytes(*files.safetensors_parts(TENSORS, metadata))


def _overlapping() -> bytes:
    header, data = files.safetensors_parts(TENSORS)
    header["module.half"]["data_offsets"] = [20, 26]
    return files.safetensors_bytes(header, data)


def _gguf() -> dict[str, bytes]:
    whole = gguf_files.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    tensors = {"v.weight": whole, "steps": gguf_files.tensor(np.array([7]), "I64")}
    metadata = {"sam.naming": "short-1", "sam.list": ["a", "b"], "sam.flag": True, "sam.size": 8}
    packed = {}
    for kind in ("Q4_0", "Q8_0", "Q2_K", "Q6_K"):
        rows = gguf_files.random_blocks(kind, 1, 256)
        packed[kind] = gguf_files.Tensor(kind, (1, 256), rows.tobytes())
    lying = {"w": gguf_files.Tensor("F32", (2**31, 2**31), bytes(8), offset=2**63)}
    return {
        "good-gguf": gguf_files.gguf_bytes(tensors, metadata),
        "good-gguf-packed": gguf_files.gguf_bytes(packed, {"general.alignment": 8}, alignment=8),
        "bad-gguf-size": gguf_files.gguf_bytes(lying),
        "bad-gguf-counts": gguf_files.gguf_bytes(tensors, counts=(2**40, 2**40)),
    }


def _ggml() -> dict[str, bytes]:
    rows = gguf_files.random_blocks("Q4_1", 1, 32)
    whole = gguf_files.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    packed = {"w": gguf_files.Tensor("Q4_1", (1, 32), rows.tobytes()), "module.weight": whole}
    start = gguf_files.tensor(np.zeros((8, 3, 7, 7), np.float16), "F16")
    named = {"hiera.patch_embed.weight": start, "sam_dec.iou_token.weight": whole}
    table = gguf_files.tensor(np.zeros((2, 2, 8), np.float16), "F16")
    sam3 = {"vit.patch_embed.proj.weight": start, "vit.pos_embed": table}
    settings = sam3cpp_files.sam3_settings(asdict(SMALLEST_SAM3), text_vocab_size=2)
    tail = sam3cpp_files.tokenizer_bytes(["a", "b"], [("a", "b")])
    lying = {"w": gguf_files.Tensor("F32", (2**31 - 1,) * 4, bytes(8))}
    sam2 = sam3cpp_files.sam2_settings(asdict(SMALLEST_SAM2))
    return {
        "good-ggml": sam3cpp_files.ggml_bytes("sam2", sam2, named),
        "good-ggml-packed": sam3cpp_files.ggml_bytes("sam2", {}, packed),
        "good-ggml-sam3": sam3cpp_files.ggml_bytes("sam3", settings, sam3, tail=tail),
        "good-gguf-fork": sam3cpp_files.fork_bytes("sam2", sam2, named, without_ones=True),
        "bad-ggml-size": sam3cpp_files.ggml_bytes("sam2", sam2, lying),
        "bad-ggml-tokenizer": sam3cpp_files.ggml_bytes("sam3", settings, sam3, tail=tail[:-3]),
    }


SMALLEST = tiny.SamConfig(
    img_size=16,
    patch_size=8,
    embed_dim=8,
    depth=2,
    num_heads=2,
    window_size=1,
    global_attn_indexes=(1,),
    out_chans=16,
    mask_in_chans=4,
    mlp_dim=8,
    iou_head_hidden_dim=4,
)
SMALLEST_SAM2 = tiny_sam2.ImageEncoderConfig(
    image_size=64,
    embed_dim=8,
    stages=(1, 1, 2, 1),
    window_spec=(4, 2, 2, 2),
    global_att_blocks=(3,),
    window_pos_embed_bkg_spatial_size=(2, 2),
)
SMALLEST_SAM3 = tiny_sam3.Sam3Config(
    img_size=56,
    pretrain_img_size=28,
    embed_dim=8,
    depth=2,
    num_heads=2,
    mlp_ratio=2.5,
    window_size=2,
    global_att_blocks=(1,),
    text_width=8,
    text_heads=2,
    text_layers=1,
    context_length=8,
    vocab_size=99,
    nheads=2,
    dim_feedforward=8,
    geometry_layers=1,
    encoder_layers=1,
    decoder_layers=1,
    num_queries=4,
    upsampling_stages=2,
)


def _whole_models() -> dict[str, bytes]:
    """A whole SAM, as small as it can be, as a file and as a folder; configs of every family."""
    weights = {
        name: files.stored(value.astype(np.float16))
        for name, value in tiny.sam_weights(SMALLEST).items()
    }
    metadata = tiny.metadata(SMALLEST)
    whole = files.safetensors_bytes(*files.safetensors_parts(weights, metadata))
    config = json.dumps({"model_type": "sam"}).encode()
    index = json.dumps({"weight_map": {"module.weight": "a.safetensors"}}).encode()
    parts = {0: (config, whole), 1: (index, _safetensors())}
    folders = {
        kind: bytes([kind]) + struct.pack("<H", len(text)) + text + file
        for kind, (text, file) in parts.items()
    }
    others = (tiny_sam2.metadata(SMALLEST_SAM2), tiny_sam3.metadata(SMALLEST_SAM3))
    configs = [each["config"] for each in (metadata, *others)]
    return {
        "good-sam": whole,
        "bad-folder-config": folders[0],
        "bad-folder-index": folders[1],
        **{f"bad-config-{i}": bytes([i]) + text.encode() for i, text in enumerate(configs)},
        "bad-json": b'{"a": [1, -2.5e3, true, null, "\\ud83d\\ude00\\n"], "b": {"c": []}}',
        "bad-pickle": files.pickle_bytes(files.state_dict_value(TENSORS, files.Storages())),
    }


def corpus() -> dict[str, bytes]:
    """All seed files by name."""
    system = Call(Global("os", "system"), ("true",))
    return {
        "good-safetensors": _safetensors(),
        "good-safetensors-metadata": _safetensors({"family": "sam", "config": '{"depth": 2}'}),
        "good-torch": files.torch_bytes(TENSORS, align=8),
        "good-torch-zip64": files.torch_bytes(TENSORS, align=1, zip64=True),
        "good-torch-views": _views(),
        "good-torch-legacy": files.legacy_bytes(TENSORS),
        "bad-safetensors-overlap": _overlapping(),
        "bad-safetensors-length": files.safetensors_bytes({}, length=2**63),
        "bad-safetensors-deep": files.safetensors_bytes(b'{"a":' + b"[" * 100),
        "bad-torch-system": _torch({"w": system}),
        "bad-torch-legacy-system": files.legacy_bytes({}, {"w": system}, files.Storages()),
        "bad-torch-build": _torch(Raw(b"}}b")),
        "bad-torch-memo": _torch(Raw(b"}q\x00(h\x00h\x00u(h\x07u")),
        "bad-torch-cut": files.torch_bytes(TENSORS, align=8)[:-30],
        "bad-gguf": b"GGUF\x03\x00\x00\x00" + bytes(16),
        **_gguf(),
        **_ggml(),
        "bad-index": b'{"weight_map": {"w": "../x"}}',
        **_whole_models(),
    }


if __name__ == "__main__":
    for name, content in corpus().items():
        (FOLDER / f"{name}.bin").write_bytes(content)
