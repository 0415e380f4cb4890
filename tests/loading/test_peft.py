"""Adapters trained on transformers' classes: merged weights are those of PyTorch and of PEFT."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import sam_rlx
from sam_rlx import _core
from sam_rlx.conversion import convert

torch = pytest.importorskip("torch", reason="needs PyTorch")
pytest.importorskip("transformers", reason="needs transformers")
pytestmark = pytest.mark.parity

from support import adapters, upstream  # noqa: E402
from support import hugging_face_models as hf  # noqa: E402

upstream.prepare()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Models and their folders by class, made when a test asks for one."""
    return hf.folders(tmp_path_factory.mktemp("transformers"))


def digest(source, lora=None):
    return sam_rlx.load_model(source, lora=lora).core.weights_hash


def layers(model, kinds=(torch.nn.Linear,)):
    return [name for name, module in model.named_modules() if isinstance(module, kinds)]


@pytest.fixture
def with_metas_names(tmp_path):
    """Return a function that converts a folder. SAM 3's then has a class token more."""
    numbers = itertools.count()

    def converted(folder):
        path = tmp_path / f"meta_{next(numbers)}.safetensors"
        convert(folder, path, names="meta")
        return path

    return converted


@pytest.mark.parametrize("dialect", ["transformers", "meta"])
@pytest.mark.parametrize("name", hf.CLASSES)
def test_every_linear_layer_and_convolution(folders, with_metas_names, tmp_path, name, dialect):
    """Products that no order of sums changes, of all layers that adapters are trained for."""
    model, folder = folders(name)
    weights = {key: value.numpy() for key, value in model.state_dict().items()}
    modules = layers(model, (torch.nn.Linear, torch.nn.Conv2d))
    ungrouped = [m for m in modules if getattr(model.get_submodule(m), "groups", 1) == 1]
    tensors, wanted = adapters.for_modules(weights, ungrouped, 4, 2.0)
    lora = adapters.save(tmp_path / "lora", tensors)
    changed = copy.deepcopy(model)
    changed.load_state_dict({key: torch.from_numpy(value) for key, value in wanted.items()})
    source, merged = folder, hf.save(changed, tmp_path / "merged")
    if dialect == "meta":
        source, merged = with_metas_names(source), with_metas_names(merged)
    assert digest(source, lora) == digest(merged) != digest(source)


@pytest.mark.parametrize("rank", [1, 2, 3, 8, 16, 64, 90])
def test_sums_of_any_numbers_are_pytorchs(tmp_path, tiny_weights, rank):
    """Fused multiply-adds in the order of the ranks, as PyTorch's with AVX2 and AVX-512."""
    module = "image_encoder.blocks.0.attn.qkv"
    weight = torch.from_numpy(tiny_weights[f"{module}.weight"])
    seeded = torch.Generator().manual_seed(rank)
    a = torch.randn(rank, weight.shape[1], generator=seeded)
    b = torch.randn(weight.shape[0], rank, generator=seeded)
    scale = 7 / rank
    wanted = weight + (b @ a) * scale
    name = adapters.peft_name(module)
    tensors = {f"{name}.lora_A.weight": a.numpy(), f"{name}.lora_B.weight": b.numpy()}
    lora = adapters.save(tmp_path / "lora", tensors, lora_alpha=7)
    base = adapters.base(tmp_path, tiny_weights)
    merged = tiny_weights | {f"{module}.weight": wanted.numpy()}
    found = digest(base, lora)
    assert found == digest(adapters.base(tmp_path / "..", merged))


# ---------------------------------------------------------------- PEFT itself

ENDS = ("attn.qkv", "mlp.lin1")

CONFIGS = {
    "linear": {"r": 4, "lora_alpha": 7, "target_modules": "all-linear"},
    "rslora": {"r": 6, "lora_alpha": 5, "use_rslora": True, "target_modules": "all-linear"},
    "patterns": {
        "r": 4,
        "lora_alpha": 4,
        "target_modules": ["qkv", "q_proj", "v_proj", "proj"],
        "rank_pattern": {"q_proj": 3, "qkv": 3},
        "alpha_pattern": {"v_proj": 9, "attn.proj": 2},
    },
    "convolutions": {"r": 4, "target_modules": r".*(neck.*conv1|projection|proj1|proj2)"},
    "bias": {"r": 2, "target_modules": "all-linear", "bias": "all"},
    "fan in": {"r": 2, "target_modules": "all-linear", "fan_in_fan_out": True},
    "decoder": {
        "r": 4,
        "target_modules": ["qkv", "q_proj"],
        "exclude_modules": "mask_decoder.*",
        "modules_to_save": ["mask_decoder"],
    },
}


def trained(peft, model, settings):
    """Return a copy of a model with an adapter, whose sums are the same in any order.

    PyTorch's order depends on the processor, on MKL's settings and on sizes: products of a few rows
    have one of their own where MKL_CBWR is set, as it is in these tests.
    """
    rng = np.random.default_rng(0)
    wrapped = peft.get_peft_model(copy.deepcopy(model), peft.LoraConfig(**settings))
    with torch.no_grad():
        for name, value in wrapped.named_parameters():
            if value.requires_grad and "magnitude" not in name:
                value.copy_(torch.from_numpy(adapters.exact(rng, *value.shape)))
    return wrapped


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", ["SamModel", "Sam2Model", "Sam2VideoModel", "Sam3Model"])
def test_merge_and_unload(folders, with_metas_names, tmp_path, name, config):
    peft = pytest.importorskip("peft", reason="needs peft")
    model, folder = folders(name)
    wrapped = trained(peft, model, CONFIGS[config])
    wrapped.save_pretrained(tmp_path / "lora")
    merged = hf.save(wrapped.merge_and_unload(), tmp_path / "merged")
    assert digest(folder, tmp_path / "lora") == digest(merged)
    assert digest(with_metas_names(folder), tmp_path / "lora") == digest(with_metas_names(merged))


@pytest.mark.filterwarnings("ignore")
def test_dora_is_as_exact_as_pefts(folders, tmp_path):
    """Lengths of rows are sums in another order: both are compared with float64."""
    peft = pytest.importorskip("peft", reason="needs peft")
    model, folder = folders("SamModel")
    settings = {"r": 4, "use_dora": True, "target_modules": r"vision_encoder.*(qkv|lin1)"}
    wrapped = trained(peft, model, settings)
    wrapped.save_pretrained(tmp_path / "lora")
    rival = copy.deepcopy(wrapped).merge_and_unload().state_dict()
    truth = copy.deepcopy(wrapped).double().merge_and_unload().state_dict()
    checkpoint = _core.Checkpoint(str(folder), None, str(tmp_path / "lora"))
    changed = [f"vision_encoder.layers.{i}.{end}.weight" for i in (0, 1) for end in ENDS]
    for name in changed:
        numbers = checkpoint.encode(name, "F32").view(np.float32)
        ours = torch.from_numpy(numbers.reshape(rival[name].shape))
        assert not torch.equal(ours, model.state_dict()[name])
        error, bound = ((each.double() - truth[name]).abs().max() for each in (ours, rival[name]))
        assert error <= 1.5 * bound, name
        np.testing.assert_allclose(ours, rival[name], rtol=2.0**-21)
