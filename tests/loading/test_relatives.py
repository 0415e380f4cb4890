"""Files that are no checkpoint of the families are named, and the error says what helps."""

import bz2
import gzip
import io
import lzma
import struct
import zipfile

import numpy as np
import pytest
import sam_rlx
from support import checkpoint_files as files
from support import gguf_files, tiny_mobile_sam

# A tensor of each, as the public repositories name it.
NAMES = {
    "deconv_out.weight": "a decoder of micro-sam .*load the model beside it",
    "image_encoder.features.3.token_mixer.0.conv.c.weight": r"RepViT-SAM .*load mobile_sam\.pt",
    "image_encoder.backbone.stages.0.op_list.0.main.conv.weight": "EfficientViT-SAM",
    "image_encoder.neck.input_ops.0.op_list.0.conv.weight": "EfficientViT-SAM",
    "mask_decoder.final_output_upscaling_layers.0.0.weight": r"EfficientSAM .*sam-nano",
    "image_encoder.neck.convs.0.conv_1x1.weight": r"EfficientTAM .*load edgetam\.pt.*sam2-nano",
    "backbone.vision_backbone.trunk.model.backbone.model.input_stem.op_list.0.conv.weight": (
        r"EfficientSAM3 \(EfficientViT\) .*load efficientsam3_repvit\.pt"
    ),
    "image_encoder.blocks.0.attn.qkv.lora_A.default.weight": r"a LoRA adapter .*merge",
    "image_encoder.blocks.0.attn.qkv.lora_A": "a LoRA adapter",
    "image_encoder.blocks.0.attn.qkv.lora_magnitude_vector.default": "a LoRA adapter",
    "w_a_000": r"a LoRA adapter \(SAMed\)",
    "image_encoder.blocks.0.attn.qkv.hada_w1_a": "a LoHa adapter",
    "image_encoder.blocks.0.attn.qkv.lokr_w1": "a LoKr adapter",
    "image_encoder.blocks.0.attn.qkv.oft_r.default": "an OFT adapter",
    "image_encoder.blocks.0.attn.qkv.ia3_l.default": "an IA3 adapter",
    "image_encoder.blocks.0.MLP_Adapter.D_fc1.weight": r"layers of an adapter .*code that",
    "image_encoder.blocks.0.adapter.down.weight": "layers of an adapter",
    "scaled_fp8": r"numbers with scales of their own \(fp8 scaled\)",
    "image_encoder.blocks.0.attn.qkv.scale_weight": "numbers with scales .*plain float16",
    "image_encoder.blocks.0.attn.qkv.weight_scale": "numbers with scales",
    "image_encoder.blocks.0.attn.qkv.SCB": r"numbers with scales of their own \(bitsandbytes\)",
    "image_encoder.blocks.0.attn.qkv.qweight": r"numbers with scales of their own \(GPTQ, AWQ\)",
}


def write(path, *names):
    tensors = {name: files.stored(np.ones(1, np.float32)) for name in names}
    path.write_bytes(files.safetensors_bytes(*files.safetensors_parts(tensors)))
    return path


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("prefix", ["", "model."])
@pytest.mark.parametrize("name", NAMES)
def test_relatives_are_named(tmp_path, name, prefix, strict):
    path = write(tmp_path / "x", prefix + name, prefix + "image_encoder.pos_embed")
    with pytest.raises(sam_rlx.UnsupportedError, match=f"found {NAMES[name]}") as caught:
        sam_rlx.load_model(path, strict=strict)
    assert str(caught.value).startswith(f"{path}: expected SAM, SAM 2 or SAM 3, found ")


def zip_with(name):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(name, b"")
    return content.getvalue()


OTHER_FILES = {
    "ONNX": (
        b"\x08\x07\x12\x07pytorch\x1a\x052.1.0" + bytes(64),
        "an ONNX model: load the PyTorch",
    ),
    "ONNX of another tool": (b"\x08\x08\x3a\x90\x01" + bytes(64), "an ONNX model"),
    "ggml": (struct.pack("<I", 0x67676D6C) + bytes(64), "a ggml file of another program"),
    "ggjt": (struct.pack("<I", 0x67676A74) + bytes(64), "a ggjt file"),
    "TFLite": (b"\x20\0\0\0TFL3" + bytes(64), "a TensorFlow Lite model"),
    "HDF5": (b"\x89HDF\r\n\x1a\n" + bytes(64), "an HDF5 file"),
    "gzip": (gzip.compress(b"weights"), "a gzip file: unpack it first"),
    "bzip2": (bz2.compress(b"weights"), "a bzip2 file: unpack it first"),
    "xz": (lzma.compress(b"weights"), "an xz file: unpack it first"),
}


@pytest.mark.parametrize("name", OTHER_FILES)
def test_files_of_other_runtimes_are_named(tmp_path, name):
    content, found = OTHER_FILES[name]
    path = tmp_path / "model.pth"
    path.write_bytes(content)
    with pytest.raises(sam_rlx.UnsupportedError, match=f"found {found}"):
        sam_rlx.load_model(path)


def test_a_distributed_checkpoint_is_named(tmp_path):
    (tmp_path / "__0_0.distcp").write_bytes(bytes(64))
    (tmp_path / ".metadata").write_bytes(b"\x80\x04.")
    with pytest.raises(sam_rlx.UnsupportedError, match=r"a distributed checkpoint .*dcp_to_torch"):
        sam_rlx.load_model(tmp_path)


def test_a_zip_file_of_something_else_is_described(tmp_path):
    path = tmp_path / "model.zip"
    path.write_bytes(zip_with("masks/a.png"))
    with pytest.raises(sam_rlx.CheckpointError, match=r"of 1 entries, such as masks/a\.png"):
        sam_rlx.load_model(path)


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (16, r"ggml type 16 \(IQ2_XXS\)"),
        (35, r"ggml type 35 \(TQ2_0\)"),
        (9, r"ggml type 9 \(Q8_1\)"),
        (99, "ggml type 99"),
    ],
)
def test_types_of_ggml_are_named(testing, tmp_path, number, name):
    path = tmp_path / "x.gguf"
    tensor = gguf_files.Tensor(number, (32,), bytes(64))
    path.write_bytes(gguf_files.gguf_bytes({"w": tensor}))
    with pytest.raises(sam_rlx.UnsupportedError, match=rf"found {name}$"):
        testing.open_checkpoint(path)


def test_mobile_sam_is_known_by_its_tag(tmp_path, tiny_weights):
    path = tmp_path / "x.gguf"
    metadata = {"general.architecture": "mobile-sam"}
    for weights in (tiny_mobile_sam.weights(), tiny_weights):  # a SAM under this tag is a SAM
        tensors = {name: gguf_files.tensor(value) for name, value in weights.items()}
        path.write_bytes(gguf_files.gguf_bytes(tensors, metadata))
        assert sam_rlx.load_model(path).family == "sam"
    path.write_bytes(gguf_files.gguf_bytes(tensors, {"general.architecture": "llama"}))
    with pytest.raises(sam_rlx.UnsupportedError, match=r"general\.architecture: .* found llama"):
        sam_rlx.load_model(path)


def test_a_model_that_lacks_its_last_block_is_refused(tmp_path):
    """Of a released size, a file with fewer blocks is no other model: some are missing."""
    from support import tiny

    shapes = tiny.sam_shapes(tiny.VIT_B)
    kept = {name: shape for name, shape in shapes.items() if ".blocks.11." not in name}
    assert len(kept) < len(shapes)
    header, begin = {}, 0
    for name, shape in kept.items():  # float16 zeros: the sizes alone are read
        end = begin + 2 * int(np.prod(shape))
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    path = tmp_path / "x.safetensors"
    with path.open("wb") as file:
        file.write(files.safetensors_bytes(header))
        file.truncate(file.tell() + begin)
    with pytest.raises(sam_rlx.CheckpointError) as caught:
        sam_rlx.load_model(path)
    assert str(caught.value).endswith(
        "image_encoder.blocks: expected 12 blocks, as vit_b has at width 768, found 11 blocks"
    )
