"""SAM 2's memory attention with layers of fewer bits, beside the same in float32."""

import numpy as np
import pytest
from support.ops import ISAS
from support.parity import same_bits
from support.tiny import random_state_dict
from support.tiny_sam2 import memory_attention_shapes

WIDTH, MEMORY, POINTERS = 32, 16, 7


def weights():
    shapes = {}
    memory_attention_shapes(shapes, "", WIDTH, MEMORY, layers=2, hidden=64)
    return random_state_dict(shapes)


def inputs(side, maps):
    positions = side * side
    shapes = {
        "curr": (positions, WIDTH),
        "curr_pos": (positions, WIDTH),
        "features": (maps, positions, MEMORY),
        "pos": (maps, positions, MEMORY),
        "tpos": (maps, MEMORY),
        "pointers": (POINTERS, MEMORY),
        "pointer_pos": (POINTERS, MEMORY),
    }
    random = np.random.default_rng([side, maps])
    return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("format", "bound"), [("bfloat16", 0.01), ("int8", 0.03)])
@pytest.mark.parametrize(
    ("side", "maps", "threads"),
    [
        (11, 1, 2),
        (11, 3, 2),  # keys of several maps are made where tile registers multiply them
        (46, 0, 8),  # threads have rows of their own in the MLP
    ],
)
def test_fewer_bits_are_near(testing, isa, format, bound, side, maps, threads):
    config = {"d_model": WIDTH, "kv_in_dim": MEMORY, "feat_size": side, "num_layers": 2}
    arrays = inputs(side, maps)

    def result(name, threads):
        named = {**config, "dim_feedforward": 64, "format": name}
        layer = testing.layer("sam2.MemoryAttention", named, weights(), isa=isa)
        layer.num_threads = threads
        return layer.forward(**arrays)

    exact, found = result("float32", 1), result(format, 1)
    same_bits(found, result(format, threads), f"{threads} threads")
    distance = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    assert 0 < distance < bound
