"""The tools that judge the layers are themselves judged here."""

from types import SimpleNamespace

import numpy as np
import pytest
from support import parity as rules
from support import times, tiny


def reference(rng, shape=(4, 5)):
    exact = rng.standard_normal(shape)
    return exact, (exact + 1e-7 * rng.standard_normal(shape)).astype(np.float32)


def test_close_accepts_rounding_and_refuses_more():
    exact, single = reference(np.random.default_rng(0))
    rules.close(exact.astype(np.float32), exact, single)
    wrong = exact.astype(np.float32)
    wrong[1, 2] += 3e-5
    with pytest.raises(AssertionError, match=r"out: .*allowed.*relative.*cosine"):
        rules.close(wrong, exact, single, "out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.astype(np.float64), "expected float32"),
        (lambda x: x[:, :-1], "expected shape"),
        (lambda x: np.full_like(x, np.nan), "not finite"),
    ],
)
def test_close_refuses_other_forms(change, message):
    exact, single = reference(np.random.default_rng(0))
    with pytest.raises(AssertionError, match=message):
        rules.close(change(exact.astype(np.float32)), exact, single)


def test_close_takes_empty_arrays():
    exact = np.zeros((2, 0, 4))
    rules.close(exact.astype(np.float32), exact, exact)


def test_trace_names_the_first_layer():
    rng = np.random.default_rng(1)
    pairs = {path: reference(rng) for path in ("a", "b", "c")}
    exact = {path: pair[0] for path, pair in pairs.items()}
    single = {path: pair[1] for path, pair in pairs.items()}
    ours = {path: value.astype(np.float32) for path, value in exact.items()}
    parity = rules.Parity(SimpleNamespace(available_isas=lambda: ["generic"]))
    parity.trace(ours, exact, single, required=("a", "c"))
    ours["b"] = ours["b"] + 1
    ours["c"] = ours["c"] + 1
    with pytest.raises(AssertionError, match=r"first of 2 layers that differ, of 3:\nb:"):
        parity.trace(ours, exact, single)
    with pytest.raises(AssertionError, match="upstream does not have: \\['d'\\]"):
        parity.trace({"d": ours["a"]}, exact, single)
    with pytest.raises(AssertionError, match="not recorded: \\['b'\\]"):
        parity.trace({"a": ours["a"]}, exact, single, required=("b",))


def test_masks_agree_forgives_only_unclear_pixels():
    logits = np.linspace(-1, 1, 4000).reshape(1, 40, 100)
    rules.masks_agree(logits > 2e-4, logits)
    with pytest.raises(AssertionError, match="a clear pixel differs"):
        rules.masks_agree(logits > 0.1, logits)


class FakeTesting:
    """Stands for the extension: a scaled copy, wrong when asked to be."""

    def __init__(self, fault):
        self.fault = fault

    def available_isas(self):
        return ["generic", "avx2"]

    def op(self, name, *, isa, num_threads, x, factor):
        assert name == "scale"
        y = x * np.float32(factor)
        if self.fault == "isa" and isa == "avx2":
            y = y + np.float32(1e-3)
        if self.fault == "threads" and num_threads == 3:
            y = np.nextafter(y, np.float32(9), dtype=np.float32)
        if self.fault == "strides" and not x.flags.c_contiguous:
            y = y[::-1]
        return y


@pytest.mark.parametrize(
    ("fault", "message"),
    [("isa", "isa avx2 result 0"), ("threads", "3 threads"), ("strides", "strided input")],
)
def test_check_op_finds(fault, message):
    def formula(x, factor):
        return x * x.dtype.type(factor)

    call = {"x": (3, 7), "options": {"factor": 0.3}}
    rules.Parity(FakeTesting(None)).check_op("scale", formula, **call)
    with pytest.raises(AssertionError, match=message):
        rules.Parity(FakeTesting(fault)).check_op("scale", formula, **call)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["tiny", "vit_b", "vit_l", "vit_h"])
def test_shapes_are_those_of_upstream(name):
    import torch
    from support import upstream

    config = {"tiny": tiny.TINY, **tiny.VARIANTS}[name]
    with torch.device("meta"):
        model = upstream.build_sam(config, seed=None)
    expected = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    assert tiny.sam_shapes(config) == expected


def test_random_weights_are_the_same_everywhere(tiny_weights):
    again = tiny.sam_weights(tiny.TINY, seed=0)
    assert all(np.array_equal(again[name], tiny_weights[name]) for name in again)
    name = "image_encoder.blocks.0.attn.rel_pos_h"
    assert not np.array_equal(tiny.sam_weights(tiny.TINY, seed=1)[name], again[name])
    assert all(np.ptp(value) > 0 for value in again.values())


def test_images_have_awkward_shapes(images, image_files):
    shapes = {image.shape for image in images.values()}
    assert len(shapes) >= 6
    assert all(p.dtype == np.uint8 and p.ndim == 3 and p.shape[2] == 3 for p in images.values())
    assert any(shape[1] == 1 for shape in shapes)
    assert all(path.stat().st_size > 0 for path in image_files.values())


def test_times_are_summed_by_folder_and_file():
    phases = [("a/b/x.py::one", "setup", 1.0), ("a/b/x.py::one", "call", 2.0)]
    phases += [("a/b/y.py::two[3]", "call", 0.5), ("a/c/z.py::three", "teardown", 4.0)]
    reports = [
        SimpleNamespace(nodeid=nodeid, when=when, cpu=cpu, duration=2 * cpu)
        for nodeid, when, cpu in phases
    ]
    rows = [tuple(line.split()) for line in times.table(reports) if line]
    assert rows[1:] == [
        ("7.5", "15.0", "2", "all"),
        ("4.0", "8.0", "0", "a/c"),
        ("3.5", "7.0", "2", "a/b"),
        ("4.0", "8.0", "0", "a/c/z.py"),
        ("3.0", "6.0", "1", "a/b/x.py"),
        ("0.5", "1.0", "1", "a/b/y.py"),
    ]
