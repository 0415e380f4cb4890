"""Adapters (LoRA) merged into the weights of a model, against the arithmetic of PEFT."""

import json
import math

import numpy as np
import pytest
import sam_rlx
from sam_rlx import CheckpointError, UnsupportedError, _core
from sam_rlx.conversion import convert
from support import adapters, tiny
from support.adapters import peft_name

BLOCK = "image_encoder.blocks.{}.attn.qkv"
LAYERS = [BLOCK.format(0), "image_encoder.blocks.1.mlp.lin1", "mask_decoder.transformer."
          "layers.0.self_attn.q_proj"]  # fmt: skip


@pytest.fixture
def base(tmp_path, tiny_weights):
    return adapters.base(tmp_path, tiny_weights)


def read(source, lora=None):
    checkpoint = _core.Checkpoint(str(source), None, None if lora is None else str(lora))
    checkpoint.to_meta_names()
    return {
        name: checkpoint.encode(name, "F32").view(np.float32).reshape(shape)
        for name, _, shape in checkpoint.tensors
    }


def check(base, lora, wanted):
    """Compare the tensors of a merge, and the model that is made of them, with others."""
    found = read(base, lora)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name].tobytes() == value.astype(np.float32).tobytes(), name
    model = sam_rlx.load_model(base, lora=lora)
    plain = sam_rlx.load_model(adapters.base(base.parent / "..", wanted))
    assert model.core.weights_hash == plain.core.weights_hash
    return model


# ---------------------------------------------------------------- PEFT


@pytest.mark.parametrize("rank", [1, 3, 4, 16])
def test_linear_layers(tmp_path, base, tiny_weights, rank):
    tensors, wanted = adapters.for_modules(tiny_weights, LAYERS, rank, 8 / rank)
    lora = adapters.save(tmp_path / "lora", tensors, r=rank)
    model = check(base, lora, wanted)
    assert sorted(model.report()["merged"]) == sorted(f"{name}.weight" for name in LAYERS)
    assert model.lora == str(lora)


@pytest.mark.parametrize(
    "module", ["image_encoder.patch_embed.proj", "image_encoder.neck.0", "image_encoder.neck.2"]
)
def test_convolutions(tmp_path, base, tiny_weights, module):
    assert tiny_weights[f"{module}.weight"].ndim == 4
    tensors, wanted = adapters.for_modules(tiny_weights, [module], 4, 2.0)
    check(base, adapters.save(tmp_path / "lora", tensors), wanted)


def test_embeddings(tmp_path, base, tiny_weights):
    module = "prompt_encoder.point_embeddings.1"
    weight = tiny_weights[f"{module}.weight"]
    rng = np.random.default_rng(0)
    a, b = adapters.pair(rng, weight.T, 4)
    name = peft_name(module)
    tensors = {f"{name}.lora_embedding_A": a, f"{name}.lora_embedding_B": b}
    wanted = tiny_weights | {f"{module}.weight": adapters.merged(weight.T, a, b, 2.0).T.copy()}
    check(base, adapters.save(tmp_path / "lora", tensors), wanted)


def test_attention_of_pytorch(tmp_path):
    """A layer without `weight` is that of queries, keys and values: SAM 3's, with Meta's names."""
    weights = {"a.self_attn.in_proj_weight": np.ones((6, 2), np.float32)}
    weights |= {"a.self_attn.out_proj.weight": np.ones((2, 2), np.float32)}
    rng = np.random.default_rng(0)
    inner, outer = (adapters.pair(rng, value, 2) for value in weights.values())
    name = peft_name("a.self_attn")
    tensors = {f"{name}.lora_A.weight": inner[0], f"{name}.lora_B.weight": inner[1]}
    tensors |= {
        f"{name}.base_layer.out_proj.lora_A.weight": outer[0],
        f"{name}.base_layer.out_proj.lora_B.weight": outer[1],
    }
    sign = {"detector.backbone.vision_backbone.trunk.pos_embed": np.ones((1, 4, 2), np.float32)}
    base = adapters.save_file(tmp_path / "base.safetensors", {
        **{f"detector.{key}": value for key, value in weights.items()}, **sign})  # fmt: skip
    tensors = {key.replace(".a.", ".detector.a."): value for key, value in tensors.items()}
    found = read(base, adapters.save(tmp_path / "lora", tensors, r=2))
    for (key, weight), (a, b) in zip(weights.items(), (inner, outer), strict=True):
        assert (found[f"detector.{key}"] == adapters.merged(weight, a, b, 4.0)).all()


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        ({"lora_alpha": 1}, 0.25),
        ({"lora_alpha": 12.0, "use_rslora": True}, 6.0),
        ({"lora_alpha": 3, "r": 8}, 0.75),  # the rank is that of the tensors
        ({"alpha_pattern": {"attn.qkv": 2}}, 0.5),
        ({"alpha_pattern": {"kv": 2}}, 2.0),  # begins in the middle of a part
        ({"alpha_pattern": {BLOCK.format(0): 2, "qkv": 4}}, 0.5),
        ({"alpha_pattern": {"^attn.qkv": 2}}, 2.0),
        ({"alpha_pattern": {"^image_encoder\\.blocks\\.0\\.attn\\.qkv$": 2}}, 0.5),
        ({"alpha_pattern": {}, "rank_pattern": {"qkv": 4}}, 2.0),
        ({"init_lora_weights": "gaussian", "fan_in_fan_out": True, "use_dora": False}, 2.0),
        ({"target_modules": "all-linear", "modules_to_save": None, "bias": "none"}, 2.0),
    ],
)
def test_the_scale(tmp_path, base, tiny_weights, config, scale):
    tensors, wanted = adapters.for_modules(tiny_weights, [BLOCK.format(0)], 4, scale)
    check(base, adapters.save(tmp_path / "lora", tensors, config), wanted)


def test_a_scale_that_is_no_number_of_float32(tmp_path, base, tiny_weights):
    scale = 7 / math.sqrt(5)
    tensors, wanted = adapters.for_modules(tiny_weights, [BLOCK.format(0)], 5, scale)
    check(base, adapters.save(tmp_path / "x", tensors, lora_alpha=7, use_rslora=True), wanted)


def test_whole_tensors_and_biases(tmp_path, base, tiny_weights):
    """`modules_to_save`, `bias="lora_only"` and `lora_bias`."""
    tensors, wanted = adapters.for_modules(tiny_weights, [BLOCK.format(0)], 4, 2.0)
    rng = np.random.default_rng(3)
    bias = f"{BLOCK.format(0)}.bias"
    tensors[f"{peft_name(BLOCK.format(0))}.lora_B.bias"] = adapters.exact(
        rng, *tiny_weights[bias].shape
    )
    wanted[bias] = tiny_weights[bias] + 2 * tensors[f"{peft_name(BLOCK.format(0))}.lora_B.bias"]
    for name, value in tiny_weights.items():
        if name.startswith("mask_decoder.") or name == f"{BLOCK.format(1)}.bias":
            wanted[name] = tensors[peft_name(name)] = adapters.exact(rng, *value.shape)
    check(base, adapters.save(tmp_path / "lora", tensors, lora_bias=True), wanted)


def test_dora(tmp_path, base, tiny_weights):
    """Rows get lengths. Nothing else rounds: float64 gives the sums of squares."""
    module = BLOCK.format(0)
    tensors, wanted = adapters.for_modules(tiny_weights, [module], 4, 2.0)
    rng = np.random.default_rng(5)
    rows = wanted[f"{module}.weight"]
    lengths = rng.uniform(0.5, 2, len(rows)).astype(np.float32)
    tensors[f"{peft_name(module)}.lora_magnitude_vector"] = lengths
    norms = np.sqrt((rows.astype(np.float64) ** 2).sum(1))
    truth = rows * (lengths / norms)[:, None]
    found = read(base, adapters.save(tmp_path / "lora", tensors, use_dora=True))
    np.testing.assert_allclose(found[f"{module}.weight"], truth, rtol=3 * 2.0**-24)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_numbers_are_float32(tmp_path, base, tiny_weights, dtype):
    tensors, wanted = adapters.for_modules(tiny_weights, LAYERS, 4, 2.0)
    tensors = {name: value.astype(dtype) for name, value in tensors.items()}
    check(base, adapters.save(tmp_path / "lora", tensors), wanted)


@pytest.mark.parametrize("form", ["folder", "file", "bin"])
def test_forms_of_a_peft_adapter(tmp_path, base, tiny_weights, form):
    from support import checkpoint_files as files

    tensors, wanted = adapters.for_modules(tiny_weights, LAYERS, 4, 2.0)
    lora = adapters.save(tmp_path / "lora", tensors)
    if form == "bin":
        stored = {name: files.stored(value) for name, value in tensors.items()}
        (lora / "adapter_model.safetensors").unlink()
        (lora / "adapter_model.bin").write_bytes(files.torch_bytes(stored))
    check(base, lora / "adapter_model.safetensors" if form == "file" else lora, wanted)


@pytest.mark.parametrize("begin", ["", "sam.", "module.model."])
def test_names_behind_those_of_a_wrapper(tmp_path, base, tiny_weights, begin):
    tensors, wanted = adapters.for_modules(tiny_weights, LAYERS, 4, 2.0)
    root = peft_name("")
    renamed = {root + begin + name.removeprefix(root): value for name, value in tensors.items()}
    check(base, adapters.save(tmp_path / "lora", renamed), wanted)


def test_names_of_a_part_of_the_model(tmp_path, base, tiny_weights):
    tensors, wanted = adapters.for_modules(tiny_weights, [BLOCK.format(i) for i in (0, 1)], 4, 2.0)
    renamed = {name.replace("image_encoder.", ""): value for name, value in tensors.items()}
    check(base, adapters.save(tmp_path / "lora", renamed), wanted)


def test_a_part_of_two_parts_is_refused(tmp_path, base, tiny_weights):
    module = "mask_decoder.output_hypernetworks_mlps.0.layers.0"
    tensors, _ = adapters.for_modules(tiny_weights, [module], 4, 2.0)
    renamed = {
        name.replace("mask_decoder.output_hypernetworks_mlps.0.", ""): value
        for name, value in tensors.items()
    }
    with pytest.raises(CheckpointError, match=r"one part.*mlps\.0\., .*mlps\.1\."):
        sam_rlx.load_model(base, lora=adapters.save(tmp_path / "lora", renamed))


# ---------------------------------------------------------------- SAMed and micro-sam


def counted(weights, rank=4):
    """Return the tensors of SAMed's files for all blocks, and the weights after a merge."""
    rng = np.random.default_rng(7)
    tensors, wanted, count = {}, dict(weights), 0
    for block in range(sum(name.endswith(".attn.qkv.weight") for name in weights)):
        name = f"{BLOCK.format(block)}.weight"
        wanted[name] = weights[name].copy()
        for part in np.array_split(wanted[name], 3)[::2]:
            a, b = adapters.pair(rng, part, rank)
            tensors[f"w_a_{count:03d}"], tensors[f"w_b_{count:03d}"] = a, b
            part[:] = adapters.merged(part, a, b, 1.0)
            count += 1
    return tensors, wanted


def test_files_that_count_blocks(tmp_path, base, tiny_weights):
    tensors, wanted = counted(tiny_weights)
    for name in ("mask_decoder.iou_token.weight", "prompt_encoder.no_mask_embed.weight"):
        tensors[name] = wanted[name] = np.ones_like(tiny_weights[name])
    check(base, adapters.save_file(tmp_path / "lora.safetensors", tensors), wanted)


@pytest.mark.parametrize("left_out", [("001",), ("002", "003"), ("000", "001", "002", "003")])
def test_counts_that_do_not_fit(tmp_path, base, tiny_weights, left_out):
    tensors, _ = counted(tiny_weights)
    for number in left_out:
        del tensors[f"w_a_{number}"]
    tensors = {
        name: value
        for name, value in tensors.items()
        if name[4:] not in left_out or left_out == ("001",)
    } or {"w_b_000": np.ones((2, 2), np.float32)}
    with pytest.raises(sam_rlx.SamRlxError, match=r"pairs|both matrices|LoRA adapter of"):
        sam_rlx.load_model(base, lora=adapters.save_file(tmp_path / "x.safetensors", tensors))


def inner(weights, letters="qv", mlp=False, rank=4):
    """Return the tensors of micro-sam's checkpoints, and the weights after a merge."""
    rng = np.random.default_rng(9)
    tensors, wanted = {}, dict(weights)
    for name, value in weights.items():
        here = name
        if ".attn.qkv." in name:
            here = name.replace(".qkv.", ".qkv.qkv_proj.")
        elif mlp and "image_encoder." in name and ".mlp." in name:
            here = name.replace(".mlp.", ".mlp.mlp_layer.")
        tensors[here] = value
        layer = name.removesuffix(".weight")
        if name.endswith(".attn.qkv.weight"):
            wanted[name] = value.copy()
            thirds = dict(zip("qkv", np.array_split(wanted[name], 3), strict=True))
            for letter in letters:
                a, b = adapters.pair(rng, thirds[letter], rank)
                tensors[f"{layer}.w_a_linear_{letter}.weight"] = a
                tensors[f"{layer}.w_b_linear_{letter}.weight"] = b
                thirds[letter][:] = adapters.merged(thirds[letter], a, b, 1.0)
        elif mlp and name.endswith((".lin1.weight", ".lin2.weight")) and here != name:
            a, b = adapters.pair(rng, value, rank)
            tensors[f"{layer[:-5]}.w_a_linear_{layer[-1]}.weight"] = a
            tensors[f"{layer[:-5]}.w_b_linear_{layer[-1]}.weight"] = b
            wanted[name] = adapters.merged(value, a, b, 1.0)
    return tensors, wanted


@pytest.mark.parametrize("begin", ["", "sam."])
@pytest.mark.parametrize(("letters", "mlp"), [("qv", False), ("k", False), ("qkv", True)])
def test_a_checkpoint_with_an_adapter_inside(tmp_path, tiny_weights, begin, letters, mlp):
    """It loads as it is, and it counts as an adapter for another checkpoint of that model."""
    tensors, wanted = inner(tiny_weights, letters, mlp)
    renamed = {begin + name: value for name, value in tensors.items()}
    path = tiny.save_safetensors(tmp_path / "micro.safetensors", renamed)
    plain = sam_rlx.load_model(adapters.base(tmp_path, wanted)).core.weights_hash
    assert sam_rlx.load_model(path).core.weights_hash == plain
    other = adapters.base(tmp_path, tiny.sam_weights(seed=4))
    assert sam_rlx.load_model(other, lora=path).core.weights_hash == plain


def test_the_state_dict_of_sameds_module(tmp_path, tiny_weights):
    tensors, wanted = inner(tiny_weights)
    names = {
        ".qkv.qkv_proj.": ".qkv.qkv.",
        ".w_a_linear_": ".linear_a_",
        ".w_b_": ".",
    }
    renamed = {}
    for name, value in tensors.items():
        name = name.replace(".w_b_linear_", ".linear_b_")
        for old, new in names.items():
            name = name.replace(old, new)
        renamed[name] = value
    path = tiny.save_safetensors(tmp_path / "samed.safetensors", renamed)
    found = sam_rlx.load_model(path).core.weights_hash
    assert found == sam_rlx.load_model(adapters.base(tmp_path, wanted)).core.weights_hash


# ---------------------------------------------------------------- other doors


def test_packed_weights_are_unpacked_where_an_adapter_changes_them(tmp_path, tiny_weights):
    packed = tmp_path / "base.gguf"
    convert(adapters.base(tmp_path, tiny_weights), packed, dtype="Q8_0")
    unpacked = read(packed)
    module = "image_encoder.blocks.0.mlp.lin1"
    tensors, wanted = adapters.for_modules(unpacked, [module], 4, 2.0)
    lora = adapters.save(tmp_path / "lora", tensors)
    model = sam_rlx.load_model(packed, lora=lora)
    assert model.precision == "Q8_0"
    assert model.report()["merged"] == [f"{module}.weight"]
    assert read(packed, lora)[f"{module}.weight"].tobytes() == wanted[f"{module}.weight"].tobytes()
    plain = sam_rlx.load_model(packed)
    assert model.core.weights_hash != plain.core.weights_hash


@pytest.mark.parametrize("suffix", [".safetensors", ".gguf", ""])
def test_convert_writes_the_merged_weights(tmp_path, base, tiny_weights, suffix):
    tensors, wanted = adapters.for_modules(tiny_weights, LAYERS, 4, 2.0)
    lora = adapters.save(tmp_path / "lora", tensors)
    output = tmp_path / f"merged{suffix}"
    convert(base, output, lora=lora)
    found = sam_rlx.load_model(output)
    assert found.core.weights_hash == sam_rlx.load_model(base, lora=lora).core.weights_hash
    if suffix == ".safetensors":
        assert read(output).keys() == wanted.keys()


def test_a_pickle_remembers_the_adapter(tmp_path, base, tiny_weights, monkeypatch):
    import pickle

    tensors, _ = adapters.for_modules(tiny_weights, LAYERS, 4, 2.0)
    adapters.save(tmp_path / "lora", tensors)
    monkeypatch.chdir(tmp_path)
    model = sam_rlx.load_model(base, lora="lora")
    data = pickle.dumps(model)
    monkeypatch.chdir("/")
    assert pickle.loads(data).core.weights_hash == model.core.weights_hash


# ---------------------------------------------------------------- what is refused


def refused(base, lora, kind, words):
    with pytest.raises(kind, match=words):
        sam_rlx.load_model(base, lora=lora)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"peft_type": "LOHA"}, "peft_type: expected LORA, found LOHA"),
        ({"peft_type": "ADALORA"}, "ADALORA"),
        ({"alora_invocation_tokens": [1]}, "alora_invocation_tokens.*activated"),
        ({"arrow_config": {"top_k": 3}}, "arrow_config.*router"),
        ({"layer_replication": [[0, 2]]}, "layer_replication"),
        ({"target_parameters": ["x.weight"]}, "target_parameters"),
        ({"trainable_token_indices": [3]}, "trainable_token_indices"),
        ({"use_qalora": True}, "use_qalora"),
        ({"use_later_thing": True}, "use_later_thing.*unknown here"),
        ({"init_lora_weights": "pissa_niter_4"}, "init_lora_weights.*pissa_niter_4"),
        ({"init_lora_weights": "olora"}, "olora"),
        ({"alpha_pattern": {".*qkv": 4}}, r"alpha_pattern.*expression \"\.\*qkv\""),
    ],
)
def test_settings_that_no_merge_has(tmp_path, base, tiny_weights, config, words):
    tensors, _ = adapters.for_modules(tiny_weights, LAYERS, 4, 2.0)
    refused(base, adapters.save(tmp_path / "lora", tensors, config), UnsupportedError, words)


def changed(tensors, end, change):
    name = next(name for name in tensors if name.endswith(end))
    return tensors | {name: change(tensors[name])}


@pytest.mark.parametrize(
    ("end", "change", "words"),
    [
        ("lora_A.weight", lambda a: a[:, 1:], r"lora_A\.weight: .* \(4, 64\).*\(4, 63\)"),
        ("lora_A.weight", lambda a: a[:0], "rank 1 or more"),
        ("lora_A.weight", lambda a: np.tile(a, (60, 1)), r"rank of at most 192, .* found 240"),
        ("lora_A.weight", lambda a: a[0], "rank 1 or more"),
        ("lora_B.weight", lambda b: b[:, 1:], r"lora_B\.weight: expected shape"),
        ("lora_B.weight", lambda b: b[1:], r"lora_B\.weight: expected shape"),
        ("lora_B.weight", lambda b: b.T.copy(), r"lora_B\.weight: expected shape"),
        ("lora_B.weight", lambda b: b * np.float32(np.nan), r"lora_B\.weight: .*finite"),
        ("lora_A.weight", lambda a: a + np.float32(np.inf), r"lora_A\.weight: .*finite"),
        ("lora_B.weight", lambda b: (b * 1e30).astype(np.float32), "after the merge"),
        ("lora_B.weight", lambda b: b.astype(np.int32), "floating-point numbers"),
    ],
)
def test_tensors_that_do_not_fit(tmp_path, base, tiny_weights, end, change, words):
    tensors, _ = adapters.for_modules(tiny_weights, [BLOCK.format(0)], 4, 2.0)
    if "merge" in words:
        tensors = changed(tensors, "lora_A.weight", lambda a: (a * 1e30).astype(np.float32))
    tensors = changed(tensors, end, change)
    refused(base, adapters.save(tmp_path / "lora", tensors), CheckpointError, words)


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("x.lora_A.weight", CheckpointError, "both matrices.*only A"),
        ("image_encoder.blocks.9.attn.qkv.weight", CheckpointError, r"1 names that.*\n.*blocks\.9"),
        (f"{BLOCK.format(0)}.lora_E", UnsupportedError, r"lora_E: .*another kind"),
        (f"{BLOCK.format(0)}.hada_w1_a", CheckpointError, "hada_w1_a"),
        (f"{BLOCK.format(0)}.lora_A.other.weight", UnsupportedError, r'two: "" and "other"'),
        (f"{BLOCK.format(0)}.lora_magnitude_vector", CheckpointError, "use_dora is not set"),
        (f"{BLOCK.format(0)}.lora_A.bias", UnsupportedError, "no bias"),
    ],
)
def test_names_that_do_not_fit(tmp_path, base, tiny_weights, name, kind, words):
    tensors, _ = adapters.for_modules(tiny_weights, [BLOCK.format(0)], 4, 2.0)
    tensors[peft_name(name)] = np.ones((2, 2), np.float32)
    refused(base, adapters.save(tmp_path / "lora", tensors), kind, words)


def test_dora_without_lengths(tmp_path, base, tiny_weights):
    tensors, _ = adapters.for_modules(tiny_weights, LAYERS, 4, 2.0)
    lora = adapters.save(tmp_path / "lora", tensors, use_dora=True)
    refused(base, lora, CheckpointError, "lora_magnitude_vector, as use_dora says")


def test_an_adapter_of_another_model(tmp_path, base):
    weights = {"vision.layers.0.qkv.weight": np.ones((6, 2), np.float32)}
    tensors, _ = adapters.for_modules(weights, ["vision.layers.0.qkv"], 4, 2.0)
    lora = adapters.save(tmp_path / "lora", tensors)
    refused(base, lora, CheckpointError, r"adapter of this model.*\n.*vision\.layers\.0\.qkv")


def test_files_that_are_no_adapters(tmp_path, base, tiny_weights):
    tensors, _ = adapters.for_modules(tiny_weights, LAYERS, 4, 2.0)
    alone = adapters.save_file(tmp_path / "alone.safetensors", tensors)
    refused(base, alone, CheckpointError, "adapter_config.json beside it.*lora_alpha")
    refused(base, base, UnsupportedError, "LoRA adapter of PEFT, SAMed or micro-sam")
    (tmp_path / "empty").mkdir()
    refused(base, tmp_path / "empty", CheckpointError, "adapter_config.json")
    (tmp_path / "empty" / "adapter_config.json").write_text("{}")
    refused(base, tmp_path / "empty", CheckpointError, "adapter_model.safetensors or")
    refused(base, tmp_path / "none", FileNotFoundError, "load_model.lora: .*none")
    refused(base, 3, sam_rlx.InvalidArgumentError, "load_model.lora")
    lora = adapters.save(tmp_path / "lora", tensors)
    (lora / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    refused(base, lora, CheckpointError, "lora_alpha")


def test_a_part_of_an_inner_adapter_is_refused(tmp_path, tiny_weights):
    tensors, _ = inner(tiny_weights)
    name = next(name for name in tensors if "w_b_linear_q" in name)
    del tensors[name]
    path = tiny.save_safetensors(tmp_path / "micro.safetensors", tensors)
    with pytest.raises(CheckpointError, match=r"both matrices.*only A"):
        sam_rlx.load_model(path)
    tensors = dict(tiny_weights) | {"x.w_a_linear_q.weight": np.ones((1, 2), np.float32)}
    tensors |= {"x.w_b_linear_q.weight": np.ones((2, 1), np.float32)}
    path = tiny.save_safetensors(tmp_path / "micro.safetensors", tensors)
    with pytest.raises(CheckpointError, match=r"1 names that it has not\n  x"):
        sam_rlx.load_model(path)
