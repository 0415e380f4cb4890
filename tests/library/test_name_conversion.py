"""Checkpoints with other names: what is written loads in transformers and computes the same.

The judges: transformers' own loader, its models, and Meta's packages in float64.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx import InvalidArgumentError, UnsupportedError

torch = pytest.importorskip("torch", reason="needs PyTorch")
transformers = pytest.importorskip("transformers", reason="needs transformers")
pytestmark = pytest.mark.parity

import safetensors.numpy  # noqa: E402
import safetensors.torch  # noqa: E402
from sam_rlx.apps.parity import networks  # noqa: E402
from support import hugging_face_models as hf  # noqa: E402
from support import (  # noqa: E402
    hugging_face_sam3,
    sam3_detector,
    sam3cpp_files,
    tiny_sam2,
    tiny_sam3,
    upstream,
    upstream_sam2,
    upstream_sam3,
)
from support.cases import quick  # noqa: E402
from support.parity import NUDGES, last_bits  # noqa: E402
from support.trained import trained  # noqa: E402

upstream.prepare()

TINY3 = tiny_sam3.TINY
# As wide as transformers' memory has to be.
_WIDE = dataclasses.replace(tiny_sam2.TINY, d_model=256)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Models and their folders by class, made when a test asks for one."""
    return hf.folders(tmp_path_factory.mktemp("transformers"))


def from_pretrained(name: str, folder: Path) -> Any:
    """Load a folder by a class of transformers; nothing may be missing, unexpected or misshaped."""
    model, found = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    assert not any(found[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return hf.mended(model)


def same_weights(found: Any, expected: Any) -> None:
    """Compare the weights of two models bit for bit."""
    weights = found.state_dict()
    assert weights.keys() == expected.state_dict().keys()
    for name, value in expected.state_dict().items():
        assert torch.equal(weights[name], value), name


@pytest.mark.parametrize("name", hf.CLASSES)
def test_names_there_and_back(parity, testing, folders, tmp_path, name):
    """A folder of transformers becomes a file with Meta's names, and a folder again."""
    model, folder = folders(name)
    meta, again = tmp_path / "meta.safetensors", tmp_path / "again"
    sam_rlx.convert(folder, meta, names="meta")
    written = sam_rlx.convert(meta, again)
    assert not written.skipped
    counters = {("I64", "I64")} if name.startswith("EdgeTam") else set()  # of its batch norms
    assert set(written.changes) == {("F32", "F32")} | counters
    names = {entry[0] for entry in sam_rlx.model.list_tensors(meta)}
    assert not any(".layer_norm" in each or "q_proj.q_proj" in each for each in names)
    loaded = from_pretrained(name, again)
    same_weights(loaded, model)
    theirs = [list(hf.reference(each, "float32").values()) for each in (model, loaded)]
    parity.same_bits(*theirs, f"{name}: in transformers")
    results = [list(hf.ours(testing, name, each).values()) for each in (folder, meta, again)]
    parity.same_bits(results[0], results[1], name)
    parity.same_bits(results[0], results[2], name)


@pytest.mark.parametrize("name", hf.CLASSES)
def test_the_settings_are_those_of_transformers(folders, tmp_path, name):
    """All that a class reads of config.json has the value that transformers wrote."""
    model, folder = folders(name)
    sam_rlx.convert(folder, tmp_path / "again")
    found = from_pretrained(name, tmp_path / "again").config.to_dict()
    differing = dict(_differences(found, model.config.to_dict()))
    # Meta's epsilon, of norms that transformers gives the other one by default.
    assert all(path.endswith("layer_norm_eps") for path in differing), differing
    assert json.loads((tmp_path / "again" / "config.json").read_text())["architectures"] == [name]


@pytest.mark.parametrize(
    "name",
    ["SamModel", "Sam2Model", "Sam2VideoModel", "Sam3TrackerModel", "Sam3TrackerVideoModel"],
)
def test_the_processor_of_the_class_loads(folders, tmp_path, name):
    """transformers' own processor makes of the folder's settings the pixels that we compute with.

    Those of SAM 3 with texts need the files of a tokenizer besides.
    """
    model, folder = folders(name)
    sam_rlx.convert(folder, tmp_path / "again")
    kind = getattr(transformers, name.replace("Model", "Processor"))
    processor = kind.from_pretrained(tmp_path / "again")
    image = hf.image(hf.model_side(model))
    found = processor(images=image, return_tensors="np")["pixel_values"]
    np.testing.assert_allclose(found, hf.pixel_values(name, image), atol=1e-5)
    if "Video" in name:
        session = processor.init_video_session(video=[image, image])
        np.testing.assert_allclose(session.get_frame(1).numpy(), found[0], atol=1e-5)


def _differences(found: Any, expected: Any, path: str = "") -> Any:
    unread = ("_name_or_path", "architectures", "dtype", "transformers_version")
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in expected:
            if key not in unread:
                yield from _differences(found.get(key), expected[key], f"{path}.{key}".strip("."))
    elif _plain(found) != _plain(expected):
        yield path, (found, expected)


def _plain(value: Any) -> Any:
    """A side that is written once or twice is the same."""
    if isinstance(value, (list, tuple)):
        parts = [_plain(each) for each in value]
        return parts[0] if len(parts) == 2 and parts[0] == parts[1] else parts
    return value


def metas_click(network: Any, name: str, image: Any, dtype: Any) -> list[Any]:
    """Run Meta's image encoder and heads on the click of `hf.reference`: masks, IoU."""
    network = network.to(dtype)
    pixels = torch.from_numpy(hf.pixel_values(name, image)).to(dtype)
    prompts = {"points": (torch.tensor([[hf.POINT]], dtype=dtype), torch.ones(1, 1).int())}
    with torch.no_grad():
        if name == "SamModel":
            encoder, decoder = network.prompt_encoder, network.mask_decoder
            embeddings, more = network.image_encoder(pixels), {}
        else:
            encoder, decoder = network.sam_prompt_encoder, network.sam_mask_decoder
            _, features, _, sizes = network._prepare_backbone_features(
                network.forward_image(pixels)
            )
            features[-1] = features[-1] + network.no_mem_embed
            maps = [
                part.permute(1, 2, 0).view(1, -1, *size)
                for part, size in zip(features, sizes, strict=True)
            ]
            embeddings, more = maps[-1], {"repeat_image": False, "high_res_features": maps[:-1]}
        sparse, dense = encoder(**prompts, boxes=None, masks=None)
        masks, iou, *_ = decoder(
            image_embeddings=embeddings,
            image_pe=encoder.get_dense_pe().to(dtype),
            sparse_prompt_embeddings=sparse,
            dense_prompt_embeddings=dense,
            multimask_output=True,
            **more,
        )
    clamped = masks if name == "SamModel" else masks.clamp(-32, 32)
    return [clamped[0].numpy(), iou[0].numpy()]


@pytest.mark.parametrize(
    ("source", "name", "build"),
    quick(
        [
            ("sam-nano", "SamModel", upstream.build_sam_nano),
            ("sam2-nano", "Sam2VideoModel", upstream_sam2.build_sam2_nano),
        ],
        1,
    ),
)
def test_meta_to_transformers(parity, tmp_path, source, name, build):
    """Trained weights with Meta's names compute in transformers what Meta's package computes."""
    written = sam_rlx.convert(trained(source), tmp_path / "folder", dtype="F32")
    assert set(written.changes) <= {("F16", "F32"), ("F32", "F32")}
    assert not written.rounded
    model, network = from_pretrained(name, tmp_path / "folder"), build()
    image = hf.image(hf.model_side(model))
    single = metas_click(network, name, image, torch.float32)
    with upstream.float64():
        exact = metas_click(network, name, image, torch.float64)
    pixels = torch.from_numpy(hf.pixel_values(name, image)).float()
    with torch.no_grad():
        found = hf._click(hf.click_model(model), pixels)
    parity.close(found["low_res"].numpy(), exact[0], single[0], "masks")
    parity.close(found["iou"].numpy(), exact[1], single[1], "IoU")


@pytest.mark.parametrize("family", ["sam", "sam2"])
def test_metas_package_loads_metas_names(folders, tmp_path, family):
    """Strictly: no tensor is missing, none is left over, each has its shape."""
    if family == "sam":
        source, build = folders("SamModel")[1], networks.sam
    else:  # the tiny class has a projection that Meta's package has not at this width
        source, build = tmp_path / "folder", networks.sam2
        metadata = tiny_sam2.metadata(_WIDE)
        first = tmp_path / "first.safetensors"
        safetensors.numpy.save_file(tiny_sam2.weights(_WIDE), first, metadata)
        sam_rlx.convert(first, source)
    meta = tmp_path / "meta.safetensors"
    sam_rlx.convert(source, meta, names="meta")
    _, network = build(sam_rlx.load_model(meta), networks.read_weights(str(meta)))
    network.load_state_dict(safetensors.torch.load_file(meta), strict=True)


def test_metas_package_loads_sam3_and_computes_the_same(parity, testing, tmp_path):
    """What transformers has not is computed by Meta's package, or nothing reads it."""
    meta, kept = tmp_path / "meta.safetensors", [0, 7, 3]
    model = hf.fill(transformers.Sam3Model(hugging_face_sam3.detector_config(TINY3)))
    sam_rlx.convert(hf.save(model, tmp_path / "folder"), meta, names="meta")
    weights = safetensors.torch.load_file(meta)
    network = upstream_sam3.image_model()
    found = network.load_state_dict(
        {key.removeprefix("detector."): value for key, value in weights.items()}, strict=False
    )
    assert not found.unexpected_keys
    points = "geometry_encoder.points_"
    assert {key for key in found.missing_keys if not key.endswith(".freqs_cis")} == {
        key for key in network.state_dict() if key.startswith(points)
    }
    with torch.no_grad():
        table = network.backbone.vision_backbone.trunk.pos_embed
        assert not table[:, 0].any()
        table[:, 0] = float("nan")
        for key, value in network.named_parameters():
            if key.startswith(points):
                value.fill_(float("nan"))

    texts = ["a cat", "yellow school bus"]
    ids = upstream_sam3.tokenizer()(texts, context_length=TINY3.context_length).numpy()
    image = tiny_sam3.noise(TINY3)[None] / np.float32(127.5) - np.float32(1)
    inputs = {"image": image, "texts": texts, "kept": kept}
    exact = upstream.run64(upstream.double(network), inputs, sam3_detector.ground_image)
    singles = [
        upstream.run(network, {**inputs, "image": each}, sam3_detector.ground_image)
        for each in (image, *(last_bits(image, seed) for seed in range(NUDGES)))
    ]
    ours = testing.sam3_detect(str(meta), image, ids, kept)
    for index, name in enumerate(("logits", "boxes", "presence", "masks", "semantic")):
        first, *more = (single[index] for single in singles)
        parity.close(ours[index], exact[index], first, name, more)


def test_a_memory_of_another_width_is_refused(run_cli, tmp_path):
    with pytest.raises(UnsupportedError, match=r"width of the memory: expected 64, .* found 48"):
        sam_rlx.convert("sam3-nano", tmp_path / "folder")
    code, _, err = run_cli("convert", "sam3-nano", tmp_path / "folder")
    assert code == 1
    assert "transformers' classes have fixed" in err
    assert list(tmp_path.iterdir()) == []


def test_what_a_folder_cannot_say_is_refused(tmp_path):
    """A setting of Meta's that transformers' classes have not."""
    config = json.loads(tiny_sam2.metadata(_WIDE)["config"])
    metadata = {"config": json.dumps(config | {"memory_temporal_stride_for_eval": 2})}
    source = tmp_path / "source.safetensors"
    safetensors.numpy.save_file(tiny_sam2.weights(_WIDE), source, metadata)
    text = "memory_temporal_stride_for_eval: expected 1, found 2, which transformers has no setting"
    with pytest.raises(UnsupportedError, match=text):
        sam_rlx.convert(source, tmp_path / "folder")


# ---------------------------------------------------------------- number formats


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_rounding_is_that_of_pytorch(folders, tmp_path, dtype):
    model, folder = folders("Sam2VideoModel")
    written = sam_rlx.convert(folder, tmp_path / "half", dtype=dtype)
    assert written.rounded == written.changes == {("F32", dtype): sum(written.dtypes.values())}
    kind = {"F16": "float16", "BF16": "bfloat16"}[dtype]
    with hf.rounded(model, kind):
        same_weights(from_pretrained("Sam2VideoModel", tmp_path / "half").float(), model)


def test_the_command_says_what_was_rounded(run_cli, folders, tmp_path):
    _, folder = folders("SamModel")
    half, meta = tmp_path / "sam-1.5-half", tmp_path / "meta.safetensors"
    code, out, err = run_cli("convert", folder, half, "--type", "F16")
    assert (code, err) == (0, "")
    assert "F32 -> F16: 175 tensors, rounded" in out
    code, out, _ = run_cli("convert", half, meta, "--names", "meta", "--type", "F32", "--json")
    found = json.loads(out)
    assert (code, found["file"]) == (0, str(meta))
    assert found["changes"] == [{"from": "F16", "to": "F32", "tensors": 174, "rounded": False}]
    assert sam_rlx.load_model(meta).family == "sam"


def test_packed_files_become_folders(parity, testing, tmp_path):
    """GGUF packed by us, to transformers: the numbers of the blocks, unpacked."""
    packed, folder = tmp_path / "q8_0.gguf", tmp_path / "folder"
    sam_rlx.convert("sam2-nano", packed, dtype="Q8_0")
    written = sam_rlx.convert(packed, folder)
    assert ("Q8_0", "F32") in written.changes
    assert not written.rounded
    from_pretrained("Sam2VideoModel", folder)
    plain = tmp_path / "plain.safetensors"
    sam_rlx.convert(packed, plain)
    found = [list(hf.ours(testing, "Sam2VideoModel", each).values()) for each in (folder, plain)]
    parity.same_bits(*found, "unpacked")


def test_files_of_sam3cpp_become_folders(tmp_path):
    weights = tiny_sam2.weights(_WIDE)
    settings = sam3cpp_files.sam2_settings(json.loads(tiny_sam2.metadata(_WIDE)["config"]))
    tensors = sam3cpp_files.packed(sam3cpp_files.sam2_weights(weights), "F32", lambda value: value)
    source = tmp_path / "sam2.ggml"
    source.write_bytes(sam3cpp_files.ggml_bytes("sam2", settings, tensors))
    sam_rlx.convert(source, tmp_path / "folder")
    model = from_pretrained("Sam2VideoModel", tmp_path / "folder")
    key = "memory_attention.layers.0.linear1.weight"
    np.testing.assert_array_equal(model.state_dict()[key].numpy(), weights[key])


# ---------------------------------------------------------------- wrong arguments


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["x.pth"], "expected an output .safetensors or .gguf, or a folder"),
        (["x.gguf", "--names", "transformers"], "expected an output other than .gguf"),
        (["folder", "--type", "Q8_0"], "expected an output file that ends in .gguf"),
        (["folder", "--names", "meta"], "found the name of a folder"),
        (["x.safetensors", "--names", "hub"], "invalid choice"),
    ],
)
def test_wrong_usage(run_cli, tmp_path, monkeypatch, arguments, text):
    monkeypatch.chdir(tmp_path)
    code, _, err = run_cli("convert", "sam-nano", *arguments)
    assert code == 2
    assert text in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("output", "options", "text"),
    [
        ("x.pth", {}, "output: expected .safetensors, .gguf or a folder"),
        ("x.gguf", {"names": "transformers"}, "names: expected None or 'meta'"),
        ("folder", {"names": "meta"}, "names: expected None or 'transformers'"),
        ("x.safetensors", {"names": "hub"}, r"names: expected one of \['meta', 'transformers'\]"),
        ("x.safetensors", {"dtype": "Q8_0"}, r"dtype: expected one of \['F32', 'F16', 'BF16'\]"),
        ("folder", {"dtype": "float16"}, "dtype: expected one of"),
        ("x.gguf", {"dtype": "Q9"}, "dtype: expected one of"),
        ("x.gguf", {"num_threads": 0}, "num_threads: expected an int >= 1"),
        (3, {}, "path: expected str or path"),
    ],
)
def test_wrong_arguments(tmp_path, monkeypatch, output, options, text):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgumentError, match=text):
        sam_rlx.convert("sam-nano", output, **options)
    assert list(tmp_path.iterdir()) == []


def test_the_source_is_not_replaced(folders):
    _, folder = folders("SamModel")
    before = (folder / "model.safetensors").read_bytes()
    for source, output in ((folder, folder), (folder / "model.safetensors", folder)):
        with pytest.raises(InvalidArgumentError, match="another file than the source"):
            sam_rlx.convert(source, output)
    assert (folder / "model.safetensors").read_bytes() == before


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "folder").write_text("mine")
    with pytest.raises(InvalidArgumentError, match="expected a folder, found the file"):
        sam_rlx.convert("sam-nano", tmp_path / "folder")
    assert (tmp_path / "folder").read_text() == "mine"
