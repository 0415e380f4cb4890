"""SAM 3's decoder: queries with boxes, and the presence token."""

import numpy as np
import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
parts = pytest.importorskip("support.sam3_detector", reason="needs sam3")
pytestmark = pytest.mark.parity
torch = upstream.torch


def refined(module, states, boxes):
    """Return upstream's last boxes, which it makes outside of the decoder."""
    inverse = upstream_sam3.sam3.model_misc.inverse_sigmoid(boxes[-1])
    return (inverse + module.bbox_embed(states[-1])).sigmoid()


def adapt(module, memory, pos, prompt):
    states, boxes, presence = parts.decode(module, memory, pos, prompt)
    return states[-1][:, 0], refined(module, states, boxes)[:, 0], presence[-1][0]


def inputs(config, grid=(6, 8), tokens=5):
    channels = config.d_model
    return {"memory": (*grid, channels), "pos": (*grid, channels), "prompt": (tokens, channels)}


@pytest.mark.parametrize("config", ["TINY", "WIDE", "NARROW"])
@pytest.mark.parametrize(("grid", "tokens"), [((6, 8), 5), ((1, 1), 1), ((9, 5), 33)])
def test_decoder(parity, config, grid, tokens):
    config = getattr(parts, config)
    parity.check(
        "sam3.TransformerDecoder",
        upstream_sam3.decoder(config),
        parts.sizes(config),
        adapt=adapt,
        **inputs(config, grid, tokens),
    )


def drawn(seed=0, **options):
    generator = np.random.default_rng(seed)
    shapes = inputs(parts.WIDE, **options)
    return {k: generator.standard_normal(v, np.float32) for k, v in shapes.items()}


def layer_of(testing, weights, **kwargs):
    return testing.layer("sam3.TransformerDecoder", parts.sizes(parts.WIDE), weights, **kwargs)


def test_each_layer(testing, parity):
    """Queries, presence token and boxes behind each layer, and the first one that differs."""
    module = upstream.randomise(upstream_sam3.decoder(parts.WIDE), 3)
    arrays = drawn()

    def taps(module, memory, pos, prompt):
        layers = []
        handles = [
            layer.register_forward_hook(
                lambda m, a, out: layers.append(torch.cat([out[1], out[0]]))
            )
            for layer in module.layers
        ]
        states, boxes, _ = parts.decode(module, memory, pos, prompt)
        for handle in handles:
            handle.remove()
        behind = [*boxes[1:], refined(module, states, boxes)]
        return *(x[:, 0] for x in layers), *(x[:, 0] for x in behind), states[-1][:, 0]

    count = parts.WIDE.decoder_layers
    names = [f"layers.{i}" for i in range(count)] + [f"layers.{i}.boxes" for i in range(count)]
    names.append(".norm")
    exact = upstream.run64(upstream.double(module), arrays, taps)
    single = upstream.run(module, arrays, taps)
    ours = dict(layer_of(testing, upstream.state_dict(module)).trace(**arrays))
    parity.trace(
        {name: ours[name] for name in ours if name in names},
        dict(zip(names, exact, strict=True)),
        dict(zip(names, single, strict=True)),
        required=names,
    )


CLAMPED = {"zero": -40.0, "one": 40.0, "small": -7.5}


@pytest.mark.parametrize("value", CLAMPED.values(), ids=CLAMPED)
def test_boxes_at_the_clamps(testing, parity, value):
    """Reference boxes whose inverse sigmoid is cut."""
    module = upstream.randomise(upstream_sam3.decoder(parts.WIDE), 1)
    module.reference_points.weight.data[::2] = value
    arrays = drawn(1)
    found = layer_of(testing, upstream.state_dict(module)).forward(**arrays)
    exact = upstream.run64(upstream.double(module), arrays, adapt)
    single = upstream.run(module, arrays, adapt)
    for name, *result in zip(("states", "boxes", "presence"), found, exact, single, strict=True):
        parity.close(*result, name)


@pytest.mark.parametrize("bias", [-30.0, -8.0, 8.0, 30.0])
def test_presence_is_not_clamped(testing, parity, bias):
    """Upstream writes a clamp to 10 and drops its result."""
    module = upstream.randomise(upstream_sam3.decoder(parts.WIDE), 2)
    module.presence_token_head.layers[-1].bias.data.fill_(bias)
    arrays = drawn(2)
    presence = layer_of(testing, upstream.state_dict(module)).forward(**arrays)[2]
    exact = upstream.run64(upstream.double(module), arrays, adapt)[2]
    parity.close(presence, exact, upstream.run(module, arrays, adapt)[2])
    assert abs(presence[0]) > 10 or abs(bias) < 10


CHANGES = (
    "presence_token.weight",
    "query_embed",
    "reference_points",
    "bbox_embed.layers.2",
    "boxRPB_embed_x.layers.1.weight",
    "boxRPB_embed_y.layers.1.weight",
    "ref_point_head.layers.1",
    "layers.1.self_attn.out_proj",
    "layers.1.ca_text.out_proj",
    "layers.1.cross_attn.out_proj",
    "layers.1.linear2",
    "layers.1.norm1.bias",
    "layers.1.norm2.bias",
    "layers.1.catext_norm.bias",
    "layers.1.norm3.bias",
    "norm.bias",
)


@pytest.mark.parametrize("change", [*CHANGES, "pos", "memory", "prompt"])
def test_every_step_counts(testing, parity, change):
    """A decoder that lacks one step is further from ours than the tolerance, by far."""
    module = upstream.randomise(upstream_sam3.decoder(parts.WIDE), 0)
    arrays = drawn()
    weights = upstream.state_dict(module)
    states = layer_of(testing, weights).forward(**arrays)[0]
    if change in arrays:
        arrays = {**arrays, change: np.zeros_like(arrays[change])}
    else:
        for name, weight in module.named_parameters():
            if name.startswith(change):
                weight.data.zero_()
    lacking = upstream.run64(upstream.double(module), arrays, adapt)
    assert np.max(np.abs(lacking[0] - states)) > 1e-3 * np.max(np.abs(states))


def test_the_presence_token_counts(testing):
    """Its logit is read from it, and no bias of a box is added for it."""
    module = upstream.randomise(upstream_sam3.decoder(parts.WIDE), 0)
    weights, arrays = upstream.state_dict(module), drawn()
    presence = layer_of(testing, weights).forward(**arrays)[2]
    for part in ("presence_token.weight", "presence_token_out_norm.bias"):
        changed = {k: 0 * v if k == part else v for k, v in weights.items()}
        assert abs(layer_of(testing, changed).forward(**arrays)[2] - presence) > 1e-3
