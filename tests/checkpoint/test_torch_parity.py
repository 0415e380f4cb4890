"""What torch.save writes is read as torch.load reads it."""

import copy
from collections import OrderedDict

import numpy as np
import pytest
import sam_rlx

pytestmark = pytest.mark.parity

FORMATS = {"zip": {}, "legacy": {"_use_new_zipfile_serialization": False}}
FORMATS |= {f"protocol {number}": {"pickle_protocol": number} for number in (3, 4, 5)}


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("support.upstream", reason="needs PyTorch").torch


@pytest.fixture(scope="module")
def model(torch):
    """A small model with shared, strided, half, integer and empty tensors."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(4, 5, bias=False))
    net.register_buffer("steps", torch.tensor(7))
    net.register_buffer("transposed", torch.randn(4, 6).t())
    net.register_buffer("slice", torch.randn(6, 6)[1:4, ::2])
    net.register_buffer("f16", torch.randn(5).half())
    net.register_buffer("bf16", torch.randn(5).bfloat16())
    net.register_buffer("f64", torch.randn(5).double())
    net.register_buffer("flags", torch.tensor([True, False]))
    net.register_buffer("empty", torch.zeros(0, 3))
    net.register_buffer("i16", torch.arange(-3, 3).short())
    x = torch.randn(3, 5)
    net.register_buffer("mean", x.mean().expand_as(x))
    net.register_buffer("rows", x.half()[1].expand(4, 5))
    net.register_buffer("columns", x[:, 2:3].expand(2, 3, 4))
    net.tied = torch.nn.Linear(4, 5, bias=False)
    net.tied.weight = net[1].weight
    return net


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("wrap", [None, "model", "state_dict"])
def test_a_saved_state_dict_equals_torch_load(testing, torch, model, tmp_path, format_name, wrap):
    path = tmp_path / "model.pth"
    state = model.state_dict()
    optimizer = torch.optim.AdamW(model.parameters()).state_dict()
    training = {wrap: state, "optimizer": optimizer, "epoch": 3}
    torch.save(training if wrap else state, path, **FORMATS[format_name])
    expected = torch.load(path, weights_only=False)
    expected = expected[wrap] if wrap else expected
    found = testing.open_checkpoint(path)
    assert found.keys() == list(expected)
    for name, value in expected.items():
        reference = value.float().numpy()
        assert found[name].shape == reference.shape
        np.testing.assert_array_equal(found[name], reference, name)


def test_parameters_and_plain_dicts(testing, torch, model, tmp_path):
    path = tmp_path / "model.pth"
    torch.save(dict(model.named_parameters()), path)
    found = testing.open_checkpoint(path)
    np.testing.assert_array_equal(found["0.weight"], model[0].weight.detach().numpy())


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.", "sam."])
def test_prefixes_of_wrapping_classes_go(testing, torch, model, tmp_path, prefix):
    path = tmp_path / "model.pth"
    state = model.state_dict()
    torch.save(OrderedDict((prefix + name, value) for name, value in state.items()), path)
    assert testing.open_checkpoint(path).keys() == list(state)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("wrap", [False, True])
def test_a_pickled_module_is_named(testing, torch, model, tmp_path, format_name, wrap):
    path = tmp_path / "model.pth"
    module = copy.deepcopy(model)
    torch.save({"net": module, "epoch": 3} if wrap else module, path, **FORMATS[format_name])
    with pytest.raises(sam_rlx.UnsupportedError) as caught:
        testing.open_checkpoint(path)
    found = "found a whole module of the class torch.nn.modules.container.Sequential"
    assert found + (' under the key "net";' if wrap else ";") in str(caught.value)
    assert "state_dict()" in str(caught.value)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_is_named(testing, torch, tmp_path):
    path = tmp_path / "model.pt"
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 3)), path)
    with pytest.raises(
        sam_rlx.UnsupportedError, match=r"a TorchScript archive; .*torch\.jit\.load"
    ):
        testing.open_checkpoint(path)


def test_truncations_of_real_files(refuse, torch, tmp_path):
    path = tmp_path / "model.pth"
    for options in (FORMATS["zip"], FORMATS["legacy"]):
        torch.save({"a": torch.ones(3), "b": torch.ones(2).half()}, path, **options)
        whole = path.read_bytes()
        for size in range(0, len(whole), 3):
            refuse(whole[:size])


def test_the_tiny_sam_loads(testing, tiny_pth, tiny_weights):
    found = testing.open_checkpoint(tiny_pth)
    assert found.to_meta_names() == "sam"
    for name, value in tiny_weights.items():
        np.testing.assert_array_equal(found[name], value)
