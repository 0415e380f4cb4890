"""`sam_rlx.parity`: reports of the packaged models, and what they name in damaged copies."""

import json
import math
import subprocess
import sys

import jsonschema
import junitparser
import numpy as np
import pytest
import safetensors.numpy
import sam_rlx
from PIL import Image
from sam_rlx import InvalidArgumentError
from sam_rlx.apps import cli
from sam_rlx.apps.parity import networks, sam3_network
from sam_rlx.apps.parity.layers import in_our_layout
from sam_rlx.apps.parity.measure import Bounds, LayerJudge, compare_masks
from support.cases import quick
from support.trained import trained

pytest.importorskip("torch", reason="needs the reference packages")
parity = pytest.importorskip("sam_rlx.parity")
pytestmark = pytest.mark.parity


def scaled(weights, name):
    weights[name] = weights[name] * np.float32(1.05)


def shifted(weights, name):
    weights[name] = weights[name] + np.float32(0.1)


def rolled(weights, name):
    """A table that begins one position later."""
    axis = int(np.argmax(weights[name].shape[:-1]))
    weights[name] = np.roll(weights[name], 1, axis)


def swapped(weights, name):
    """Two blocks swapped: `name` has both numbers."""
    prefix, first, second = name.split("|")
    own = {key: value for key, value in weights.items() if key.startswith(prefix)}
    for key, value in own.items():
        rest = key.removeprefix(prefix)
        for a, b in ((first, second), (second, first)):
            if rest.startswith(f"{a}."):
                weights[f"{prefix}{b}.{rest.removeprefix(f'{a}.')}"] = value


def half_swapped(weights, name):
    """Queries and keys of the first channels swapped, as of one head: rows of qkv."""
    rows = weights[name].shape[0] // 3
    own = weights[name].copy()
    own[:32], own[rows : rows + 32] = weights[name][rows : rows + 32], weights[name][:32]
    weights[name] = own


def transposed(weights, name):
    """A square matrix the other way round."""
    weights[name] = weights[name].T


def late(weights, name):
    """A table (N, ...) that begins one entry later."""
    weights[name] = np.roll(weights[name], 1, 0)


def lost(weights, name):
    """An embedding that is zero."""
    weights[name] = np.zeros_like(weights[name])


SAM2_STAGES = ("image", "point", "box", "mask", "everything", "video")
SAM2_TRUNK = "image_encoder.trunk.blocks"
SAM3_TRUNK = "detector.backbone.vision_backbone.trunk"
DECODER = "mask_decoder.transformer.layers"
DAMAGES = [
    ("sam-nano", shifted, "image_encoder.patch_embed.proj.bias", "image_encoder.patch_embed"),
    ("sam-nano", rolled, "image_encoder.pos_embed", "image_encoder.patch_embed"),
    ("sam-nano", scaled, "image_encoder.blocks.3.attn.qkv.weight", "image_encoder.blocks.3"),
    ("sam-nano", shifted, "image_encoder.blocks.7.mlp.lin1.bias", "image_encoder.blocks.7"),
    ("sam-nano", rolled, "image_encoder.blocks.5.attn.rel_pos_h", "image_encoder.blocks.5"),
    ("sam-nano", swapped, "image_encoder.blocks.|4|5", "image_encoder.blocks.4"),
    ("sam-nano", scaled, "image_encoder.neck.3.weight", "image_encoder.neck"),
    ("sam-nano", shifted, f"{DECODER}.0.self_attn.q_proj.bias", f"{DECODER}.0.queries"),
    ("sam2-nano", scaled, f"{SAM2_TRUNK}.2.attn.qkv.weight", f"{SAM2_TRUNK}.2"),
    ("sam2-nano", shifted, f"{SAM2_TRUNK}.5.norm1.bias", f"{SAM2_TRUNK}.5"),
    ("sam2-nano", swapped, f"{SAM2_TRUNK}.|6|7", f"{SAM2_TRUNK}.6"),
    ("sam2-nano", shifted, "image_encoder.neck.convs.0.conv.bias", "image_encoder.neck.2"),
    ("sam2-nano", scaled, "sam_mask_decoder.conv_s0.weight", "sam_mask_decoder.conv_s0"),
    ("sam2-nano", scaled, f"sam_{DECODER}.1.mlp.layers.0.weight", f"sam_{DECODER}.1.queries"),
    ("sam3-nano", scaled, f"{SAM3_TRUNK}.blocks.2.attn.qkv.weight", f"{SAM3_TRUNK}.blocks.2"),
    ("sam3-nano", shifted, f"{SAM3_TRUNK}.ln_pre.bias", f"{SAM3_TRUNK}.ln_pre"),
    ("sam3-nano", swapped, f"{SAM3_TRUNK}.blocks.|4|6", f"{SAM3_TRUNK}.blocks.4"),
]


def save(path, source, weights):
    """Write weights with the metadata of the file that they come from."""
    with safetensors.safe_open(str(source), "np") as file:
        metadata = file.metadata()
    safetensors.numpy.save_file(
        {n: np.ascontiguousarray(w) for n, w in weights.items()}, path, metadata
    )


def damaged(folder, name, damage, tensor):
    """Write a nano with one damage, and return its path."""
    weights = safetensors.numpy.load_file(trained(name))
    weights = {n: w.astype(np.float32) for n, w in weights.items()}
    damage(weights, tensor)
    save(folder / "damaged.safetensors", trained(name), weights)
    return folder / "damaged.safetensors"


@pytest.mark.parametrize(("name", "damage", "tensor", "layer"), quick(DAMAGES, 2, 12, 15))
def test_a_damaged_layer_is_named(tmp_path, name, damage, tensor, layer):
    path = damaged(tmp_path, name, damage, tensor)
    stage = "image" if "trunk" in layer or layer.startswith("image_encoder") else "point"
    report = parity.check(path, reference_checkpoint=trained(name), stages=[stage])
    assert not report.same
    assert report.first_difference == layer, str(report)
    with pytest.raises(AssertionError, match=f"first in layer {layer}"):
        report.check()


SAM3_DECODER = "detector.transformer.decoder"
SAM3_MEMORY = "tracker.transformer.encoder.layers.0"
# Of each: file, damage, tensor, stage, and the layer that is named.
OTHER_DAMAGES = [
    (
        "sam-nano",
        half_swapped,
        "image_encoder.blocks.4.attn.qkv.weight",
        "image",
        "image_encoder.blocks.4",
    ),
    (
        "sam-nano",
        transposed,
        "image_encoder.blocks.6.attn.proj.weight",
        "image",
        "image_encoder.blocks.6",
    ),
    ("sam-nano", lost, "prompt_encoder.no_mask_embed.weight", "point", f"{DECODER}.0.queries"),
    (
        "sam-nano",
        lost,
        "prompt_encoder.not_a_point_embed.weight",
        "point",
        "prompt_encoder.sparse_embeddings",
    ),
    ("sam2-nano", half_swapped, f"{SAM2_TRUNK}.3.attn.qkv.weight", "image", f"{SAM2_TRUNK}.3"),
    ("sam2-nano", transposed, f"{SAM2_TRUNK}.3.attn.proj.weight", "image", f"{SAM2_TRUNK}.3"),
    (
        "sam2-nano",
        rolled,
        "image_encoder.trunk.pos_embed_window",
        "image",
        "image_encoder.trunk.patch_embed",
    ),
    ("sam2-nano", lost, "no_mem_embed", "point", f"sam_{DECODER}.0.queries"),
    ("sam2-nano", late, "maskmem_tpos_enc", "video", "memory_attention.layers.0"),
    (
        "sam3-nano",
        half_swapped,
        f"{SAM3_TRUNK}.blocks.3.attn.qkv.weight",
        "image",
        f"{SAM3_TRUNK}.blocks.3",
    ),
    (
        "sam3-nano",
        transposed,
        f"{SAM3_DECODER}.layers.0.self_attn.out_proj.weight",
        "text",
        f"{SAM3_DECODER}.layers.0",
    ),
    ("sam3-nano", rolled, f"{SAM3_TRUNK}.pos_embed", "image", f"{SAM3_TRUNK}.patch_embed"),
    ("sam3-nano", lost, "tracker.no_mem_embed", "point", f"tracker.sam_{DECODER}.0.queries"),
    ("sam3-nano", late, "tracker.maskmem_tpos_enc", "video", SAM3_MEMORY),
    (
        "sam3-nano",
        lost,
        "detector.geometry_encoder.cls_embed.weight",
        "text",
        "detector.geometry_encoder.norm",
    ),
]


@pytest.mark.parametrize(("name", "damage", "tensor", "stage", "layer"), quick(OTHER_DAMAGES, 14))
def test_other_damages_are_named(tmp_path, name, damage, tensor, stage, layer):
    path = damaged(tmp_path, name, damage, tensor)
    report = parity.check(path, reference_checkpoint=trained(name), stages=[stage])
    assert report.first_difference == layer, str(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tensor", "begin"),
    [
        ("backbone.language_backbone.encoder.ln_final.bias", "backbone.language_backbone"),
        ("transformer.encoder.layers.1.linear1.bias", "transformer.encoder.layers.1"),
        ("transformer.decoder.layers.0.linear1.bias", "transformer.decoder.layers.0"),
    ],
)
def test_a_damaged_layer_of_the_detector_is_named(tmp_path, tensor, begin):
    path = damaged(tmp_path, "sam3-nano", shifted, f"detector.{tensor}")
    report = parity.check(path, reference_checkpoint=trained("sam3-nano"), stages=["text"])
    assert report.first_difference.startswith(f"detector.{begin}"), str(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tensor", "layer"),
    [
        ("sam2-nano", "memory_attention.layers.1.linear1.bias", "memory_attention.layers.1"),
        (
            "sam3-nano",
            "tracker.maskmem_backbone.fuser.layers.0.pwconv1.bias",
            "tracker.maskmem_backbone.fuser.layers.0",
        ),
    ],
)
def test_a_damaged_layer_of_the_memory_is_named(tmp_path, name, tensor, layer):
    path = damaged(tmp_path, name, shifted, tensor)
    report = parity.check(path, reference_checkpoint=trained(name), stages=["video"])
    assert report.first_difference == layer, str(report)


@pytest.mark.parametrize(
    ("name", "norm", "stage", "layer"),
    quick(
        [
            ("sam-nano", "image_encoder.blocks.3.norm1", "image", "image_encoder.blocks.3"),
            ("sam2-nano", f"{SAM2_TRUNK}.5.norm1", "image", f"{SAM2_TRUNK}.5"),
            ("sam2-nano", f"sam_{DECODER}.1.norm3", "point", f"sam_{DECODER}.1.queries"),
            (
                "sam3-nano",
                "transformer.encoder.layers.1.norm1",
                "text",
                "detector.transformer.encoder.layers.1",
            ),
        ],
        0,
    ),
)
def test_another_epsilon_of_a_norm_is_named(monkeypatch, name, norm, stage, layer):
    """No file has it, so the reference gets another one."""
    build = networks.load_weights

    def with_another(*arguments):
        network = build(*arguments)
        network.get_submodule(norm).eps = 1e-3
        return network

    monkeypatch.setattr(networks, "load_weights", with_another)
    monkeypatch.setattr(sam3_network, "load_weights", with_another)
    report = parity.check(name, stages=[stage])
    assert report.first_difference == layer, str(report)


def test_reduced_precision_has_wider_bounds():
    report = parity.check("sam-nano", precision="bfloat16", stages=["image", "point"])
    assert report.same, str(report)
    assert report.precision == "bfloat16"
    assert max(layer.relative for layer in report.layers) > 1e-4


def test_files_of_a_report(tmp_path, capsys):
    files = {kind: tmp_path / f"report.{kind}" for kind in ("json", "junit", "html")}
    options = [part for kind, path in files.items() for part in (f"--{kind}", str(path))]
    assert (
        cli.main(["parity", "sam-nano", "--stage", "point", "--tolerance", "1e-9", *options]) == 1
    )
    printed = capsys.readouterr().out
    assert "DIFFERS" in printed
    report = json.loads(files["json"].read_text(encoding="utf-8"))
    jsonschema.validate(report, parity.SCHEMA)
    assert report["same"] is False
    assert report["first_difference"] == report["layers"][0]["path"]
    (suite,) = junitparser.JUnitXml.fromfile(str(files["junit"]))
    wrong = [entry for entry in report["layers"] + report["masks"] if not entry["same"]]
    assert suite.tests == len(list(suite)) == len(report["layers"]) + len(report["masks"])
    assert suite.failures == len(wrong) == sum(not case.is_passed for case in suite)
    assert {case.classname for case in suite} == {"parity.image", "parity.point"}
    page = files["html"].read_text(encoding="utf-8")
    assert page.count("data:image/png") == 3 * len(report["masks"])
    assert "http" not in page


def test_the_schema_is_one_and_refuses(tmp_path):
    """The report is of a model that is loaded already."""
    jsonschema.Draft202012Validator.check_schema(parity.SCHEMA)
    model = sam_rlx.load_model("sam-nano")
    found = parity.check(model, np.full((40, 60, 3), 128, np.uint8), stages=["image"])
    assert found.same, str(found)
    assert found.masks == ()
    report = found.to_dict()
    validator = jsonschema.Draft202012Validator(parity.SCHEMA)
    assert validator.is_valid(report)
    for damage in ({"same": "yes"}, {"format": "other"}, {"family": "sam4"}, {"more": 1}):
        assert not validator.is_valid({**report, **damage})
    layer = {**report["layers"][0], "relative": -1}
    assert not validator.is_valid({**report, "layers": [layer]})
    assert not validator.is_valid({key: report[key] for key in report if key != "layers"})


def test_stages_and_inputs_are_checked(tmp_path):
    with pytest.raises(InvalidArgumentError, match="stages: expected some of"):
        parity.check("sam-nano", stages=["text"])
    with pytest.raises(InvalidArgumentError, match="images: expected at least one"):
        parity.check("sam-nano", [])
    with pytest.raises(InvalidArgumentError, match="precision"):
        parity.check("sam-nano", precision="float16")
    with pytest.raises(FileNotFoundError):
        parity.check("sam-nano", tmp_path / "none.png")


def test_a_clip(tmp_path, capsys):
    """Nine frames of a user's own, of which the first eight are compared."""
    y, x = np.mgrid[:90, :126]
    for t in range(9):
        frame = np.full((90, 126, 3), 60, np.uint8)
        frame[np.hypot(x - 50 - 3 * t, y - 45) < 21] = 200, 80, 40
        Image.fromarray(frame).save(tmp_path / f"{t}.png")
    command = ["parity", "sam2-nano", "--clip", str(tmp_path), "--stage", "video"]
    command += ["--tolerance", "1e-3"]  # float64 is not needed
    report = tmp_path / "report.json"
    assert cli.main([*command, "--json", str(report)]) == 0, capsys.readouterr().out
    (calls,) = json.loads(report.read_text(encoding="utf-8"))["masks"]
    assert (calls["item"], calls["count"], calls["iou"]) == (tmp_path.name, 8, 1.0)


PLUGIN = """
import pytest

@pytest.mark.sam_rlx_parity("sam-nano", stages=["point"])
def test_parity(sam_rlx_parity):
    sam_rlx_parity().check()

@pytest.mark.sam_rlx_parity("sam2-nano", images=["cup.png"], reference="transformers", stages="box")
def test_own_image(sam_rlx_parity):
    report = sam_rlx_parity()
    assert [call.item for call in report.masks] == ["0: cup.png"]
    report.check()

@pytest.mark.sam_rlx_parity("sam2-nano")
def test_all_stages(sam_rlx_parity, request):
    assert sam_rlx_parity.keywords["stages"] == [request.node.callspec.id]

def test_without_a_marker(sam_rlx_parity):
    report = sam_rlx_parity("sam-nano", "cup.png", stages=["image"], tolerance=1e-9)
    with pytest.raises(AssertionError, match="differs: first in layer image_encoder"):
        report.check()
"""


def test_the_plugin_runs_a_test_for_each_stage(tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["sam_rlx.pytest_plugin"]\n')
    (tmp_path / "test_checkpoint.py").write_text(PLUGIN)
    image = np.random.default_rng(0).integers(0, 256, (50, 70, 3), np.uint8)
    Image.fromarray(image).save(tmp_path / "cup.png")
    command = [sys.executable, "-m", "pytest", "-v", "-n", "0", "-p", "no:cacheprovider"]
    command += ["--strict-markers", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    names = {"test_parity[point]", "test_own_image[box]"}
    names |= {f"test_all_stages[{stage}]" for stage in SAM2_STAGES} | {"test_without_a_marker"}
    lines = [line for line in done.stdout.splitlines() if "PASSED" in line]
    passed = {line.split("::")[-1].split()[0] for line in lines}
    assert passed == names, done.stdout + done.stderr


def test_layouts():
    maps = np.random.default_rng(0).standard_normal((1, 4, 5, 3)).astype(np.float32)
    assert np.array_equal(in_our_layout(maps, maps.transpose(0, 3, 1, 2)), maps[0])
    assert np.array_equal(in_our_layout(maps, maps.reshape(20, 1, 3)), maps[0])
    assert np.array_equal(in_our_layout(maps[0, 0, :2], maps[0, 0]), maps[0, 0, :2])
    assert in_our_layout(maps, maps[..., :2]) is None


def test_judgement():
    exact = np.linspace(1, 2, 9)
    single = exact + 1e-7
    judge = LayerJudge(Bounds())
    assert judge.layer(("s", "a"), exact + 3e-7, single, exact).same
    assert not judge.layer(("s", "b"), exact + 1e-5, single, exact).same
    alone = LayerJudge(Bounds()).layer(("s", "c"), exact + 1e-4, exact, None)
    assert alone.same
    assert math.isnan(alone.reference_error)
    mask = np.zeros((2, 4, 4), bool)
    mask[0, :2] = True
    other = mask[:, ::-1]
    scores = np.array([0.5, 0.25])
    entry = compare_masks(("s", "i"), (mask, scores), (mask, scores + 5e-4), Bounds())
    assert (entry.iou, entry.same) == (1.0, True)
    assert compare_masks(("s", "i"), (mask, scores), (other, scores), Bounds()).iou == 0
    assert not compare_masks(("s", "i"), (mask, scores), (mask[:1], scores[:1]), Bounds()).same
    assert not compare_masks(("s", "i"), (mask, scores), (mask, scores + 1), Bounds()).same
