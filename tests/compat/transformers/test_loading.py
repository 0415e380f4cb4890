"""How models of the drop-in for transformers are loaded, what they tell and what they refuse."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
import sam_rlx.compat.transformers as drop_in
from sam_rlx.compat.transformers import configs, notes, refusals
from sam_rlx.errors import SamRlxError

transformers = pytest.importorskip("transformers", minversion="5")
torch = pytest.importorskip("torch")

from support import parity as rule  # noqa: E402
from support import transformers_models as upstream  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return upstream.save("SamModel", tmp_path_factory.mktemp("loading") / "sam")


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return drop_in.SamModel.from_pretrained(folder)


@pytest.fixture
def prompts() -> dict[str, Any]:
    values = upstream.inputs("SamModel")
    return upstream.tensors(
        {name: values[name] for name in ("pixel_values", "input_points", "input_labels")}
    )


def same(left: Any, right: Any) -> None:
    rule.same_bits(np.asarray(left), np.asarray(right), "masks")


# ---------------------------------------------------------------- sources


def test_file_and_auto_classes_give_the_folders_model(folder: Path, model: Any, prompts: Any):
    expected = model(**prompts).pred_masks
    made = [
        drop_in.SamModel.from_pretrained(folder / "model.safetensors"),
        drop_in.SamModel.from_pretrained(folder.parent, subfolder="sam"),
        drop_in.AutoModel.from_pretrained(str(folder)),
        drop_in.AutoModelForMaskGeneration.from_pretrained(folder, device_map="auto"),
        drop_in.SamModel.from_pretrained(
            folder, attn_implementation="sdpa", low_cpu_mem_usage=True, torch_dtype=torch.float32
        ),
    ]
    for each in made:
        assert type(each) is drop_in.SamModel
        same(each(**prompts).pred_masks, expected)


def test_packaged_model_is_loaded_by_its_name():
    model = drop_in.SamModel.from_pretrained("sam-nano")
    side = model.config.vision_config.image_size
    pixels = np.zeros((1, 3, side, side), np.float32)
    found = model(pixels, input_points=np.full((1, 1, 1, 2), 100.0))
    assert found.pred_masks.shape == (1, 1, 3, *(model.model.mask_side,) * 2)


@pytest.mark.parametrize(
    ("source", "options"),
    [("no/such folder", {}), ("nobody/nothing", {"local_files_only": True})],
)
def test_missing_sources_are_os_errors(source: str, options: Any):
    with pytest.raises(OSError, match="expected"):
        drop_in.SamModel.from_pretrained(source, **options)


def test_folder_of_another_class_and_without_settings(folder: Path, tmp_path: Path):
    with pytest.raises(SamRlxError, match=r"Sam2Model, found 'sam'"):
        drop_in.Sam2Model.from_pretrained(folder)
    with pytest.raises(OSError, match=r"expected a file named config\.json"):
        drop_in.SamModel.from_pretrained(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(NotImplementedError, match="merge_and_unload"):
        drop_in.SamModel.from_pretrained(tmp_path)


def test_unknown_arguments_and_settings_by_name(folder: Path):
    with pytest.raises(TypeError, match="nonsense"):
        drop_in.SamModel.from_pretrained(folder, nonsense=1)
    with pytest.raises(NotImplementedError, match='precision="int8"'):
        drop_in.SamModel.from_pretrained(folder, quantization_config={"bits": 8})
    found, info = drop_in.SamModel.from_pretrained(folder, output_loading_info=True)
    assert type(found) is drop_in.SamModel
    assert info["missing_keys"] == set()
    made = drop_in.SamModel.from_pretrained(folder, return_dict=False)
    assert made.config.return_dict is False


def test_settings_of_a_program_replace_those_of_the_folder(folder: Path, prompts: Any):
    config = drop_in.SamConfig.from_pretrained(folder)
    config.mask_decoder_config.layer_norm_eps = 1e-5
    changed = drop_in.SamModel.from_pretrained(folder, config=config)
    network = upstream.model("SamModel", 1e-5)
    values = {name: value.numpy() for name, value in prompts.items()}
    exact = upstream.computed(network, values, "float64")["pred_masks"]
    # The encoder of that network has the other epsilon, too: near, not equal.
    assert np.abs(changed(**prompts).pred_masks.numpy() - exact).max() < 1e-3 * np.abs(exact).max()


def test_types_of_weights(folder: Path, prompts: Any):
    notes._told.clear()
    with pytest.warns(UserWarning, match="results stay float32"):
        model = drop_in.SamModel.from_pretrained(folder, dtype=torch.bfloat16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = drop_in.SamModel.from_pretrained(folder).to("cpu", torch.bfloat16)
    assert model.model.precision == again.model.precision == "bfloat16"
    assert model(**prompts).pred_masks.dtype == torch.float32
    assert drop_in.SamModel.from_pretrained(folder, precision="int8").model.precision == "int8"
    assert again.to(torch.float32).model.precision == "float32"
    with pytest.warns(UserWarning, match="float16"):
        assert again.to(dtype=torch.float16).model.precision == "float32"


# ---------------------------------------------------------------- what a model tells


def test_what_programs_ask_of_a_model(model: Any, folder: Path):
    network = transformers.SamModel.from_pretrained(folder)
    assert model.dtype == torch.float32
    assert model.device == torch.device("cpu")
    assert model.device == next(model.parameters()).device
    assert model.name_or_path == str(folder)
    assert model.num_parameters() == network.num_parameters()
    named = {name: tuple(each.shape) for name, each in model.named_parameters()}
    assert named == {name: tuple(each.shape) for name, each in network.named_parameters()}
    assert model.eval() is model.cpu() is model.float() is model.to("cpu") is model
    assert model.train(False) is model.requires_grad_(False) is model
    assert model.training is False
    assert not hasattr(model, "no_such_attribute")
    for each in model.parameters():
        each.requires_grad_(False)
        each.requires_grad = False


def test_a_parameter_under_two_names_counts_once(folder: Path, tmp_path: Path):
    """As in the folders that transformers' own scripts and sam-rlx convert write."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, tmp_path / "sam")
    path = tmp_path / "sam" / "model.safetensors"
    weights = load_file(path)
    name = "shared_image_embedding.positional_embedding"
    weights["prompt_encoder.shared_embedding.positional_embedding"] = weights[name].clone()
    save_file(weights, path, metadata={"format": "pt"})
    ours, theirs = (
        each.SamModel.from_pretrained(tmp_path / "sam") for each in (drop_in, transformers)
    )
    assert ours.num_parameters() == theirs.num_parameters()
    assert {name for name, _ in ours.named_parameters()} == dict(theirs.named_parameters()).keys()


def test_a_saved_folder_is_the_same_model(model: Any, prompts: Any, tmp_path: Path):
    model.save_pretrained(tmp_path / "saved")
    again = drop_in.SamModel.from_pretrained(tmp_path / "saved")
    same(again(**prompts).pred_masks, model(**prompts).pred_masks)
    theirs = transformers.SamModel.from_pretrained(tmp_path / "saved")
    assert theirs.config.vision_config.hidden_size == 64


def test_values_of_a_program_replace_those_of_the_file(folder: Path, prompts: Any):
    made = drop_in.SamModel.from_pretrained(folder)
    before = made(**prompts).pred_masks
    name = "mask_decoder.iou_token.weight"
    value = torch.zeros(1, 64)
    result = made.load_state_dict({name: value}, strict=False)
    assert name not in result.missing_keys
    assert result.unexpected_keys == []
    network = upstream.model("SamModel", seed=0)
    with torch.no_grad():
        kept = network.state_dict()[name].clone()
        network.load_state_dict({name: value}, strict=False)
        expected = network(**prompts).pred_masks
        network.load_state_dict({name: kept}, strict=False)
    found = made(**prompts).pred_masks
    assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
    assert (found - before).abs().max() > 1e-3 * expected.abs().max()
    with pytest.raises(RuntimeError, match="missing"):
        made.load_state_dict({name: value})
    with pytest.raises(RuntimeError, match="shape"):
        made.load_state_dict({name: torch.zeros(1, 65)}, strict=False)


@pytest.mark.parametrize(
    "name", sorted({*configs.CLASSES} - {"TimmWrapperConfig", "CLIPTextConfig"})
)
def test_settings_have_upstreams_defaults(name: str):
    try:
        theirs = getattr(transformers, name)().to_dict()
    except (ImportError, ModuleNotFoundError):
        pytest.skip("needs timm")
    ours = configs.CLASSES[name]().to_dict()
    if name.startswith("EdgeTam"):
        for settings in (theirs, ours):
            for part in ("vision_config", "backbone_config"):
                settings.pop(part, None)
    assert plain(ours) == plain(theirs)


def plain(settings: dict[str, Any]) -> Any:
    """Return settings as JSON has them, without what tells no model apart."""
    unread = {"id2label", "label2id", "_name_or_path", "text_config"}
    found = json.loads(json.dumps(settings, default=str))

    def cleaned(part: Any) -> Any:
        if not isinstance(part, dict):
            return part
        return {k: cleaned(v) for k, v in part.items() if k not in unread}

    return cleaned(found)


def test_sides_reach_all_parts():
    config = drop_in.Sam3VideoConfig()
    config.image_size = 560
    assert config.detector_config.vision_config.backbone_config.image_size == 560
    assert config.tracker_config.prompt_encoder_config.image_size == 560


# ---------------------------------------------------------------- what stops


TRAINING = ("gradient_checkpointing_enable", "named_modules", "state_dict", "zero_grad")


@pytest.mark.parametrize("name", TRAINING)
def test_training_is_refused_with_its_words(model: Any, name: str):
    with pytest.raises(NotImplementedError, match=r"cannot train it\. Train with transformers"):
        getattr(model, name)()


def test_optimizers_and_freezing_stop_at_their_line(model: Any):
    with pytest.raises(SamRlxError, match="cannot train it"):
        torch.optim.Adam(model.parameters(), lr=1e-5)
    with pytest.raises(SamRlxError, match="cannot train it"):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for action in (model.train, model.requires_grad_):
        with pytest.raises(SamRlxError, match="cannot train it"):
            action()


@pytest.mark.parametrize("kind", ["SamModel", "Sam2VideoModel"])
def test_frozen_parameters_are_upstreams_and_the_others_are_refused(kind: str, tmp_path: Path):
    folder = upstream.save(kind, tmp_path / kind)
    ours, theirs = (getattr(each, kind).from_pretrained(folder) for each in (drop_in, transformers))
    told = []
    for network in (ours, theirs):
        before = network.num_parameters(only_trainable=True)
        for name, each in network.named_parameters():
            if name.startswith("vision_encoder"):
                each.requires_grad_(False)
            elif name.startswith("prompt_encoder"):
                each.requires_grad = False
        wanted = {name for name, each in network.named_parameters() if each.requires_grad}
        told.append((before, network.num_parameters(only_trainable=True), wanted))
    assert told[0] == told[1]
    assert told[0][0] == ours.num_parameters() > told[0][1] > 0
    trained = [each for each in ours.parameters() if each.requires_grad]
    for make in (torch.optim.AdamW, torch.optim.SGD):
        with pytest.raises(refusals.RefusedError, match="cannot train it"):
            make(trained, lr=1e-5)
        with pytest.raises(refusals.RefusedError, match="cannot train it"):
            make([{"params": filter(lambda each: each.requires_grad, ours.parameters())}], lr=1e-5)
    with pytest.raises(refusals.RefusedError, match="cannot train it"):
        trained[0].requires_grad = True
    for network in (ours, theirs):
        assert not any(each.requires_grad for each in network.requires_grad_(False).parameters())


def test_layers_adapters_devices_and_random_weights(model: Any):
    for name in ("mask_decoder", "vision_encoder", "prompt_encoder", "shared_image_embedding"):
        with pytest.raises(SamRlxError, match="layers of the network are not objects"):
            getattr(model, name)
    with pytest.raises(SamRlxError, match="adapters are not applied"):
        model.load_adapter("somewhere")
    for action in (lambda: model.to("cuda"), model.cuda, lambda: model.to(device="mps")):
        with pytest.raises(AssertionError, match="run on the CPU only") as caught:
            action()
        assert isinstance(caught.value, NotImplementedError)
    with pytest.raises(SamRlxError, match="no random weights"):
        drop_in.SamModel(drop_in.SamConfig())
    with pytest.raises(SamRlxError, match="no random weights"):
        drop_in.AutoModel.from_config(drop_in.SamConfig())
    with pytest.raises(SamRlxError, match="Sam3Model"):
        drop_in.Sam3LiteTextModel.from_pretrained("x/y")


PROGRAMS = {
    "mask_generation": """
        for name, param in model.named_parameters():
            if name.startswith("vision_encoder") or name.startswith("prompt_encoder"):
                param.requires_grad_(False)
        optimizer = torch.optim.Adam(model.mask_decoder.parameters(), lr=1e-5)
    """,
    "fine_tune": """
        model.to("cpu")
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, weight_decay=0)
    """,
    "persam": """
        outputs = model(
            input_points=torch.tensor([[[[40.0, 30.0]]]]),
            input_labels=torch.tensor([[[1]]]),
            image_embeddings=model.get_image_embeddings(torch.zeros(1, 3, 128, 128)),
            multimask_output=False,
            attention_similarity=torch.zeros(1, 1, 1, 64),
            target_embedding=torch.zeros(1, 1, 64),
        )
    """,
}


@pytest.mark.parametrize(
    ("name", "code"),
    [("mask_generation", "layers"), ("fine_tune", "training"), ("persam", "inner values")],
)
def test_training_programs_stop_with_words(name: str, code: str, folder: Path):
    import textwrap

    space = {"torch": torch, "model": drop_in.SamModel.from_pretrained(folder)}
    with pytest.raises(refusals.RefusedError) as caught:
        exec(compile(textwrap.dedent(PROGRAMS[name]), name, "exec"), space)
    assert refusals.WORDS[code] in str(caught.value)


# ---------------------------------------------------------------- names


def test_import_takes_neither_torch_nor_transformers(folder: Path):
    program = f"""
import sys
import numpy as np
from sam_rlx.compat.transformers import SamModel
from sam_rlx.compat.transformers.models.sam.modeling_sam import SamModel as again
assert again is SamModel
model = SamModel.from_pretrained({str(folder)!r})
pixels = np.zeros((1, 3, 128, 128), np.float32)
masks = model(pixels, input_points=np.full((1, 1, 1, 2), 40.0)).pred_masks
assert type(masks).__name__ == "TensorArray" and masks.shape == (1, 1, 3, 32, 32)
assert not {{"torch", "transformers"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_other_names_are_those_of_the_installed_one():
    assert drop_in.AutoTokenizer is transformers.AutoTokenizer
    with pytest.raises(AttributeError):
        _ = drop_in.NoSuchClass


def test_other_names_without_an_installed_one_say_so():
    program = """
import sys
sys.modules["transformers"] = None
import sam_rlx.compat.transformers as drop_in
try:
    drop_in.BertModel
except ImportError as error:
    assert "BertModel" in str(error) and "pip install transformers" in str(error), error
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_version():
    assert drop_in.__version__ == "5.24.0"
    assert sam_rlx.compat.transformers is drop_in
