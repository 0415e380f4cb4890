"""What `sam_rlx.parity` and ``sam-rlx parity`` refuse, and files with several or other models."""

import json

import junitparser
import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import InvalidArgumentError, UnsupportedError
from sam_rlx.apps import cli
from support import adapters, tiny

torch = pytest.importorskip("torch", reason="needs the reference packages")
parity = pytest.importorskip("sam_rlx.parity")
pytestmark = [pytest.mark.parity]

IMAGE = np.random.default_rng(0).integers(0, 256, (50, 70, 3), np.uint8)


save = tiny.save_safetensors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stages": []}, "stages: expected some of .*'mask'.* found none"),
        ({"stages": 3}, "stages: expected an iterable, found int"),
        ({"stages": "text"}, "stages: expected some of .* found 'text'"),
        ({"tolerance": -1}, "tolerance: expected .*, found -1"),
        ({"tolerance": float("nan")}, "tolerance: expected .*, found nan"),
        ({"tolerance": "small"}, "tolerance: expected .*, found 'small'"),
        ({"precision": "float16"}, "precision: expected one of .* found 'float16'"),
        ({"precision": "int8"}, "precision: expected that of the model, 'float32', found 'int8'"),
        ({"key": "ema"}, "key: expected none for a loaded model, found 'ema'"),
        ({"lora": "mine"}, "lora: expected none for a loaded model, found 'mine'"),
        ({"clip": "cup.mp4"}, r"clip: expected one of the stages \['video', 'video_text'\], found"),
        ({"reference": "keras"}, "reference: expected one of"),
    ],
)
def test_wrong_arguments_of_a_loaded_model(model, options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        parity.check(model, IMAGE, **options)


@pytest.mark.parametrize("reference", ["meta", "transformers"])
def test_weights_of_another_network(tmp_path, model, reference):
    pytest.importorskip("transformers")
    with pytest.raises(UnsupportedError, match="weights of the reference: expected all param"):
        parity.check(
            model, IMAGE, reference=reference, reference_checkpoint="sam2-nano", stages="image"
        )
    weights = tiny.sam_weights()
    name = "image_encoder.neck.0.weight"
    weights[name] = weights[name][:, :-1].copy()
    other = save(tmp_path / "other.safetensors", weights)
    with pytest.raises(UnsupportedError, match="weights of the reference: expected shape"):
        parity.check(model, IMAGE, reference=reference, reference_checkpoint=other, stages="image")


def test_one_of_several_models_in_a_file(tmp_path, capsys):
    weights = {key: torch.from_numpy(value) for key, value in tiny.sam_weights().items()}
    average = {key: value.clone() for key, value in weights.items()}
    average["image_encoder.blocks.1.mlp.lin1.bias"] += 0.1
    path = tmp_path / "several.pth"
    torch.save({"model": weights, "ema": average}, path)
    Image.fromarray(IMAGE).save(tmp_path / "cup.png")
    command = ["parity", str(path), "--image", str(tmp_path / "cup.png"), "--stage", "image"]
    command += ["--tolerance", "1e-4"]  # float64 is not needed
    assert cli.main([*command, "--key", "ema"]) == 0, capsys.readouterr()
    ema = sam_rlx.load_model(path, key="ema")
    assert ema.key == "ema"
    model = sam_rlx.load_model(path, key="model")
    report = parity.check(
        model,
        IMAGE,
        stages="image",
        reference_checkpoint=save_average(tmp_path, average),
        tolerance=1e-4,
    )
    assert report.first_difference == "image_encoder.blocks.1"


def test_an_adapter_is_merged_into_both_sides(tmp_path, capsys):
    weights = tiny.sam_weights()
    base = save(tmp_path / "base.safetensors", weights)
    tensors, _ = adapters.for_modules(weights, ["image_encoder.blocks.1.attn.qkv"], 4, 2.0)
    lora = adapters.save(tmp_path / "lora", tensors)
    given = {"stages": "image", "tolerance": 1e-4, "lora": lora}
    assert parity.check(base, IMAGE, **given).same
    report = parity.check(base, IMAGE, **given, reference_checkpoint=base)
    assert report.first_difference == "image_encoder.blocks.1"
    Image.fromarray(IMAGE).save(tmp_path / "cup.png")
    command = (base, "--image", tmp_path / "cup.png", "--stage", "image", "--tolerance", "1e-4")
    assert status(*command, "--lora", lora) == 0, capsys.readouterr()
    assert status(*command, "--lora", tmp_path / "none") == 1


def save_average(folder, weights):
    arrays = {key: value.numpy() for key, value in weights.items()}
    return save(folder / "average.safetensors", arrays)


def test_weights_with_nan_differ_and_can_be_reported(tmp_path):
    weights = tiny.sam_weights()
    weights["image_encoder.blocks.1.mlp.lin1.bias"][3] = np.nan
    path = save(tmp_path / "nan.safetensors", weights)
    with np.errstate(all="ignore"):
        report = parity.check(path, IMAGE, stages=["image", "point"], tolerance=1e-4)
    assert report.first_difference == "image_encoder.blocks.1"
    for kind in ("json", "junit", "html"):
        getattr(report, f"write_{kind}")(tmp_path / f"report.{kind}")
    found = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    wrong = next(layer for layer in found["layers"] if not layer["same"])
    assert wrong["relative"] is None
    (suite,) = junitparser.JUnitXml.fromfile(str(tmp_path / "report.junit"))
    assert suite.failures > 0


def status(*arguments):
    """Return the exit status of the command: the parser raises it."""
    try:
        return cli.main(["parity", *map(str, arguments)])
    except SystemExit as end:
        return end.code


def test_usage_and_failures_of_the_command(tmp_path, capsys):
    image = tmp_path / "cup.png"
    Image.fromarray(IMAGE).save(image)
    one = ("sam-nano", "--image", image, "--stage", "image")
    for wrong in (
        (*one, "--stage", "imag"),
        (*one, "--tolerance", "-1"),
        (*one, "--tolerance", "nan"),
        (*one, "--threads", "0"),
        (*one, "--clip", tmp_path),
        (*one, "--json", tmp_path),
        (*one, "--html", image),
        (*one, "--json", tmp_path / "a", "--junit", tmp_path / "a"),
        (tmp_path, "--json", image),
    ):
        assert status(*wrong) == 2, wrong
        assert "expected" in capsys.readouterr().err.splitlines()[-1]
    with Image.open(image) as still_there:
        assert still_there.size == (70, 50)
    for broken in (
        ("sam-nano", "--image", tmp_path / "none.png"),
        ("sam-nano", "--image", tmp_path),
        (tmp_path / "none.pth",),
        (image,),
        ("sam2-nano", "--clip", tmp_path / "none.mp4"),
    ):
        assert status(*broken) == 1, broken
        printed = capsys.readouterr()
        assert printed.out == ""
        assert len(printed.err.splitlines()) == 1
