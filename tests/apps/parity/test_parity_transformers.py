"""`sam_rlx.parity` with transformers' classes as reference."""

import importlib.util

import pytest
import safetensors
import safetensors.numpy
from sam_rlx import InvalidArgumentError, _core
from sam_rlx.apps import cli
from sam_rlx.apps.parity import choice, references, transformers_references
from support.cases import quick
from support.trained import trained

pytest.importorskip("torch", reason="needs PyTorch")
pytest.importorskip("transformers", reason="needs transformers")
parity = pytest.importorskip("sam_rlx.parity")
pytestmark = pytest.mark.parity

CALLS = {
    "sam-nano": ["point", "box", "mask"],
    "sam2-nano": ["point", "box", "mask", "video"],
    "sam3-nano": ["point", "box", "mask", "text", "example"],
}
# A note for each documented difference that the comparison had to go around.
NOTES = {
    "sam-nano": ("processors resize otherwise", "epsilon", "everything mode"),
    "sam2-nano": ("processors resize otherwise", "bfloat16", "holes", "empty point"),
    "sam3-nano": (
        "epsilon",
        "no_memory_embedding",
        "class token",
        "before the sigmoid",
        "empty point",
    ),
}


@pytest.mark.parametrize("name", quick(CALLS, 2))
def test_the_packaged_models_are_the_same(name):
    report = parity.check(name, reference="transformers")
    assert report.same, str(report)
    assert report.exact
    assert report.reference.startswith("transformers 5")
    assert [entry.stage for entry in report.masks] == CALLS[name]
    assert len(report.layers) > 40
    assert all(any(part in note for note in report.notes) for part in NOTES[name])
    assert str(report).count("note: ") == len(report.notes) == len(report.to_dict()["notes"])


@pytest.mark.parametrize(
    ("name", "tensor", "layer"),
    quick(
        [
            ("sam-nano", "image_encoder.blocks.7.mlp.lin1.bias", "image_encoder.blocks.7"),
            ("sam2-nano", "image_encoder.neck.convs.0.conv.bias", "image_encoder.neck.2"),
            (
                "sam3-nano",
                "detector.backbone.vision_backbone.trunk.blocks.2.attn.qkv.bias",
                "detector.backbone.vision_backbone.trunk.blocks.2",
            ),
        ],
        1,
    ),
)
def test_a_damaged_layer_is_named(tmp_path, name, tensor, layer):
    weights = safetensors.numpy.load_file(trained(name))
    weights[tensor] = weights[tensor] + weights[tensor].dtype.type(0.1)
    with safetensors.safe_open(str(trained(name)), "np") as file:
        safetensors.numpy.save_file(weights, tmp_path / "damaged.safetensors", file.metadata())
    report = parity.check(
        tmp_path / "damaged.safetensors",
        reference="transformers",
        reference_checkpoint=trained(name),
        stages=["image"],
    )
    assert report.first_difference == layer, str(report)


def test_the_command_line_takes_it(capsys):
    command = ["parity", "sam2-nano", "--reference", "transformers", "--stage", "image"]
    assert cli.main(command) == 0
    printed = capsys.readouterr().out
    assert "note: memories are kept in float32" in printed
    assert printed.splitlines()[-1].startswith("same: ")


def test_auto_takes_what_is_installed(monkeypatch):
    found = importlib.util.find_spec
    assert choice.stages_of("sam2-nano") == references.Sam2Reference.stages
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "sam2" else found(name)
    )
    assert choice.stages_of("sam2-nano") == transformers_references.Sam2Reference.stages
    assert choice.stages_of("sam2-nano", "meta") == references.Sam2Reference.stages
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert choice.stages_of("sam2-nano") == references.Sam2Reference.stages


def test_another_reference_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"reference: expected .*'transformers'.*keras"):
        parity.check("sam-nano", reference="keras")
    with pytest.raises(InvalidArgumentError, match="stages: expected some of"):
        parity.check("sam2-nano", reference="transformers", stages=["everything"])


@pytest.mark.parametrize(
    ("family", "name", "meta"),
    [
        ("sam", "vision_encoder.layers.3.attn.qkv.bias", "image_encoder.blocks.3.attn.qkv.bias"),
        (
            "sam2",
            "shared_image_embedding.positional_embedding",
            "sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix",
        ),
        (
            "sam3",
            "tracker_model.mask_decoder.conv_s0.weight",
            "tracker.sam_mask_decoder.conv_s0.weight",
        ),
        ("sam3", "tracker_neck.fpn_layers.1.proj1.bias", None),
        ("sam3", "something.else", "something.else"),
    ],
)
def test_names(family, name, meta):
    if meta is None:
        meta = "detector.backbone.vision_backbone.sam2_convs.1.conv_1x1.bias"
    assert _core.meta_name(family, name) == meta
