"""GGUF and safetensors files that the library writes: what other tools and it itself read."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from numpy.typing import NDArray
from sam_rlx import _core, io
from sam_rlx._internal.weights.gguf import conversion as gguf_conversion
from sam_rlx.apps.cli import demo
from support import checkpoint_files, tiny, tiny_sam2
from support.cases import quick
from support.trained import trained

POINTS = [[[100, 150]], [[346, 185]], [[200, 60]], [[60, 255]], [[290, 120]]]


def wide_weights() -> tiny.Weights:
    """A tiny SAM 2 with rows that 256 divides and rows that it does not."""
    return tiny_sam2.weights(tiny_sam2.TINY, 3)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sources")
    return {
        "sam": tiny.save_safetensors(folder / "sam.safetensors", tiny.sam_weights()),
        "sam2": tiny_sam2.save_safetensors(
            folder / "sam2.safetensors", tiny_sam2.TINY, wide_weights()
        ),
        "sam3": trained("sam3-nano"),
    }


# ---------------------------------------------------------------- other tools


DTYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4", "Q8_0", "Q4_K", "Q6_K"]
# Each dtype of one family, and one of the others.
WRITTEN = [
    *(("sam2", dtype) for dtype in DTYPES),
    *((family, dtype) for family in ("sam", "sam3") for dtype in DTYPES),
]


@pytest.mark.parametrize(("family", "dtype"), quick(WRITTEN, *range(12), 22))
def test_the_gguf_package_reads_what_is_written(
    testing: Any, sources: dict[str, Path], tmp_path: Path, family: str, dtype: str
) -> None:
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "x.gguf"
    written = gguf_conversion.to_gguf(sources[family], path, dtype)
    reader = gguf.GGUFReader(path)
    original = testing.open_checkpoint(sources[family])
    ours = testing.open_checkpoint(path)
    assert set(ours.keys()) == set(original.keys())
    kinds: dict[str, int] = {}
    for tensor in reader.tensors:
        name = testing.from_short_name(family, tensor.name)
        assert len(tensor.name.encode()) < 64
        kind = tensor.tensor_type.name
        kinds[kind] = kinds.get(kind, 0) + 1
        theirs = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        assert theirs.size == ours[name].size
        np.testing.assert_array_equal(theirs.reshape(ours[name].shape), ours[name])
        assert ours[name].shape == original[name].shape
        if kind == "F32":
            np.testing.assert_array_equal(ours[name], original[name])
    assert kinds == written.dtypes
    assert sum(tensor.n_bytes for tensor in reader.tensors) == written.nbytes
    values = {key: field.contents() for key, field in reader.fields.items()}
    assert values["general.architecture"] == family
    assert values["general.license"] == "apache-2.0"
    assert values[f"{family}.naming"] == "short-1"
    assert len(values[f"{family}.image_mean"]) == 3
    assert values[f"{family}.vision.embedding_length"] > 0
    assert json.loads(values[f"{family}.config"]) == json.loads(original.metadata["config"])


@pytest.mark.source_tree
@pytest.mark.parametrize("family", ["sam", "sam2", "sam3"])
def test_an_exact_file_gives_the_same_model(
    sources: dict[str, Path], tmp_path: Path, family: str, images: dict[str, np.ndarray]
) -> None:
    path = tmp_path / "x.gguf"
    gguf_conversion.to_gguf(sources[family], path, "F32")
    low_res = []
    models = [sam_rlx.load_model(source) for source in (sources[family], path)]
    for model in models:
        predictor = sam_rlx.ImagePredictor(model, num_threads=1)
        predictor.set_image(images["wide 400x600"])
        low_res.append(predictor.predict(point_coords=[[300, 200]], point_labels=[1]).low_res_masks)
    np.testing.assert_array_equal(*low_res)
    assert models[0].config == models[1].config
    assert models[0].variant == models[1].variant


def answers(model: sam_rlx.Model, image: np.ndarray, threads: int) -> list[np.ndarray]:
    predictor = sam_rlx.ImagePredictor(model, num_threads=threads)
    predictor.set_image(image)
    found = [predictor.predict(point_coords=[[300, 200]], point_labels=[1]).low_res_masks]
    if model.family == "sam3":
        concepts = sam_rlx.ConceptPredictor(model, num_threads=threads)
        named = concepts.predict(image, text="a red square", threshold=0.0)
        found += [named.boxes, named.scores, named.masks]
    return found


@pytest.mark.source_tree
@pytest.mark.parametrize("dtype", ["Q8_0", "Q4_K"])
@pytest.mark.parametrize("family", ["sam", "sam2", "sam3"])
def test_packed_weights_in_memory_change_no_bit(
    sources: dict[str, Path],
    tmp_path: Path,
    images: dict[str, np.ndarray],
    family: str,
    dtype: str,
) -> None:
    path = tmp_path / "x.gguf"
    gguf_conversion.to_gguf(sources[family], path, dtype)
    packed = sam_rlx.load_model(path)
    assert packed.precision in ("Q8_0", "Q4_0", "Q4_K")
    widened = sam_rlx.load_model(path, precision="float32")
    assert widened.precision == "float32"
    assert packed.num_parameters == widened.num_parameters
    image = images["wide 400x600"]
    expected = answers(widened, image, 1)
    for threads in (1, 2, 3):
        for ours, theirs in zip(answers(packed, image, threads), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


# ---------------------------------------------------------------- masks


def click_masks(
    model: str | Path, best: list[int] | None = None
) -> tuple[NDArray[np.bool_], list[int]]:
    """Masks of clicks, and which one of each: those that the model thinks best, or `best`."""
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(model))
    predictor.set_image(io.read_image(demo.IMAGE))
    found = [predictor.predict(point_coords=p, point_labels=[1]) for p in POINTS]
    best = best or [one.best()[0] for one in found]
    return np.stack([one.masks[i] for one, i in zip(found, best, strict=True)]), best


@pytest.fixture(scope="module")
def exact_masks() -> Callable[[Path], tuple[NDArray[np.bool_], list[int]]]:
    return functools.cache(click_masks)


LEAST = {"Q8_0": 0.98, "Q6_K": 0.95, "Q5_K": 0.95, "Q4_K": 0.95}


@pytest.mark.source_tree
@pytest.mark.parametrize(
    ("name", "dtype"),
    quick(itertools.product(("sam-nano", "sam2-nano", "sam3-nano"), LEAST), 0, 5, 10, 3),
)
def test_masks_of_a_packed_nano_are_those_of_the_original(
    exact_masks: Callable[[Path], tuple[NDArray[np.bool_], list[int]]],
    tmp_path: Path,
    name: str,
    dtype: str,
) -> None:
    path = tmp_path / "nano.gguf"
    gguf_conversion.to_gguf(trained(name), path, dtype)
    expected, best = exact_masks(trained(name))
    masks, _ = click_masks(path, best)
    union, common = (masks | expected).sum((1, 2)), (masks & expected).sum((1, 2))
    assert (union > 500).all()
    assert LEAST[dtype] <= (common / union).mean() < 1, common / union  # 1: nothing was rounded


# ---------------------------------------------------------------- safetensors


def test_safetensors_keep_names_dtypes_and_bits(tmp_path: Path) -> None:
    numpy_io = pytest.importorskip("safetensors.numpy")
    rng = np.random.default_rng(0)
    arrays = {
        "module.b.weight": rng.standard_normal((3, 5)).astype(np.float32),
        "module.a.half": rng.standard_normal(7).astype(np.float16),
        "module.steps": np.array(5, np.int64),
        "module.flags": np.array([True, False, True]),
        "module.empty": np.zeros((0, 3), np.float32),
    }
    tensors = {name: checkpoint_files.stored(array) for name, array in arrays.items()}
    tensors["module.complex"] = checkpoint_files.stored(np.ones(2, np.complex64))
    storages = checkpoint_files.Storages()
    value = {name: storages.tensor(tensor) for name, tensor in tensors.items()}
    turned = np.ascontiguousarray(arrays["module.b.weight"].T)
    view = checkpoint_files.Stored("F32", turned.tobytes(), (3, 5), (1, 3))
    value["module.turned"] = storages.tensor(view)
    source = tmp_path / "x.pth"
    entries = checkpoint_files.torch_entries({"model": value}, storages)
    source.write_bytes(checkpoint_files.zip_bytes(entries))
    output = tmp_path / "x.safetensors"
    written = sam_rlx.convert(source, output)
    assert written.skipped == ["complex: complex64"] or "complex64" in written.skipped[0]
    found = numpy_io.load_file(output)
    assert set(found) == {name.removeprefix("module.") for name in value} - {"complex"}
    for name, array in {**arrays, "module.turned": arrays["module.b.weight"]}.items():
        kept = found[name.removeprefix("module.")]
        assert kept.dtype == array.dtype
        np.testing.assert_array_equal(kept, array)


def test_a_pth_and_its_conversion_are_the_same_model(
    testing: Any, tiny_pth: Path, tmp_path: Path
) -> None:
    output = tmp_path / "x.safetensors"
    sam_rlx.convert(tiny_pth, output)
    before, after = testing.open_checkpoint(tiny_pth), testing.open_checkpoint(output)
    assert set(before.keys()) == set(after.keys())
    for name in before.keys():  # noqa: SIM118
        np.testing.assert_array_equal(before[name], after[name])


# ---------------------------------------------------------------- failures and the command line


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    weights = tiny.sam_weights()
    weights["image_encoder.blocks.1.mlp.lin2.weight"][3, 5] = np.nan
    source = tiny.save_safetensors(tmp_path / "bad.safetensors", weights)
    with pytest.raises(
        sam_rlx.CheckpointError, match=r"blocks\.1\.mlp\.lin2\.weight: expected num"
    ):
        gguf_conversion.to_gguf(source, tmp_path / "x.gguf", "Q8_0")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.safetensors"]


def test_quantize_says_what_it_did(
    run_cli: Callable[..., tuple], sources: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "x.gguf"
    code, out, err = run_cli("quantize", sources["sam"], path, "--type", "Q4_K", "--threads", 1)
    assert (code, err) == (0, "")
    assert f"wrote {path}" in out
    assert "rows do not fit Q4_K" in out
    assert sam_rlx.load_model(path).family == "sam"
    code, out, _ = run_cli("quantize", sources["sam"], path, "--type", "Q4_K", "--json")
    found = json.loads(out)
    assert (code, found["file"]) == (0, str(path))
    assert {item["got"] for item in found["fell_back"]} <= {"Q4_0", "Q8_0", "F16"}
    assert [file.name for file in tmp_path.iterdir()] == ["x.gguf"]


def test_convert_writes_both_kinds(
    run_cli: Callable[..., tuple], sources: dict[str, Path], tmp_path: Path
) -> None:
    for name, options in (("x.gguf", []), ("y.gguf", ["--type", "F16"]), ("x.safetensors", [])):
        code, out, err = run_cli("convert", sources["sam2"], tmp_path / name, *options)
        assert (code, err) == (0, "")
        assert name in out
        assert sam_rlx.load_model(tmp_path / name).family == "sam2"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["quantize", "sam-nano", "x.gguf"], 2),
        (["quantize", "sam-nano", "x.gguf", "--type", "Q9"], 2),
        (["quantize", "sam-nano", "x.bin", "--type", "Q8_0"], 2),
        (["convert", "sam-nano", "x.pth"], 2),
        (["convert", "sam-nano", "x.safetensors", "--type", "Q8_0"], 2),
        (["quantize", "absent.pth", "x.gguf", "--type", "Q8_0"], 1),
    ],
)
def test_wrong_usage(
    run_cli: Callable[..., tuple],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    found, _, err = run_cli(*arguments)
    assert found == code
    assert "sam-rlx" in err
    assert list(tmp_path.iterdir()) == []


def test_packed_tensors_become_float32_in_safetensors(
    run_cli: Callable[..., tuple], sources: dict[str, Path], tmp_path: Path
) -> None:
    """The numbers that the gguf package unpacks, and the masks of the packed file's numbers."""
    gguf = pytest.importorskip("gguf", reason="needs gguf")
    numpy_io = pytest.importorskip("safetensors.numpy", reason="needs safetensors")
    path, output = tmp_path / "x.gguf", tmp_path / "x.safetensors"
    gguf_conversion.to_gguf(sources["sam2"], path, "Q8_0")
    code, out, err = run_cli("convert", path, output)
    assert (code, err) == (0, "")
    assert re.search(r"Q8_0 -> F32: \d+ tensors, exactly", out)
    found = numpy_io.load_file(output)
    names = {_core.to_short_name("sam2", name): name for name in found}
    packed = 0
    for tensor in gguf.GGUFReader(path).tensors:
        kept = found[names[tensor.name]]
        if tensor.tensor_type == gguf.GGMLQuantizationType.Q8_0:
            value = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            np.testing.assert_array_equal(kept, value.reshape(kept.shape))
            packed += 1
    assert packed > 5
    assert sam_rlx.load_model(output).config == sam_rlx.load_model(path).config


def test_a_gguf_file_can_be_packed_again(
    run_cli: Callable[..., tuple], sources: dict[str, Path], tmp_path: Path
) -> None:
    first, again = tmp_path / "a.gguf", tmp_path / "b.gguf"
    gguf_conversion.to_gguf(sources["sam"], first, "F32")
    gguf_conversion.to_gguf(first, again, "Q8_0")
    direct = tmp_path / "c.gguf"
    gguf_conversion.to_gguf(sources["sam"], direct, "Q8_0")
    assert again.read_bytes() == direct.read_bytes()


@pytest.mark.parametrize("suffix", ["safetensors", "gguf"])
def test_a_file_without_tensors_is_an_error(tmp_path: Path, suffix: str) -> None:
    source, output = tmp_path / "x.pth", tmp_path / f"y.{suffix}"
    entries = checkpoint_files.torch_entries({"epoch": 3}, checkpoint_files.Storages())
    source.write_bytes(checkpoint_files.zip_bytes(entries))
    convert = {"safetensors": sam_rlx.convert, "gguf": to_f32_gguf}[suffix]
    with pytest.raises(sam_rlx.CheckpointError, match=r"found n.*, but epoch: not a tensor"):
        convert(source, output)
    assert not output.exists()


def to_f32_gguf(source: Path, output: Path) -> Any:
    return gguf_conversion.to_gguf(source, output, "F32")
