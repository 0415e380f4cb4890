"""SAM 3's detector behind its backbone: prompts of different lengths on one image."""

import numpy as np
import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
parts = pytest.importorskip("support.sam3_detector", reason="needs sam3")
pytestmark = pytest.mark.parity

LENGTH = 8  # of a text with its padding


def image(config, grid=(6, 6), seed=0):
    random = np.random.default_rng([seed, *grid])
    return {
        f"level{i}": random.standard_normal((k * grid[0], k * grid[1], config.d_model), np.float32)
        for i, k in enumerate((4, 2, 1))
    }


def texts(config, padding, seed=0):
    random = np.random.default_rng([seed, 5])
    text = random.standard_normal((len(padding), LENGTH, config.d_model), np.float32)
    return {"text": text, "padding": np.array(padding, bool)}


def right_padded(*lengths):
    return [[i >= n for i in range(LENGTH)] for n in lengths]


def geometry(points, boxes, seed=0):
    random = np.random.default_rng([seed, points, boxes])
    entry = {}
    if points:
        entry["points"] = parts.random_points(random, points)
        entry["point_labels"] = parts.random_labels(random, points)
    if boxes:
        entry["boxes"] = parts.random_boxes(random, boxes)
        entry["box_labels"] = parts.random_labels(random, boxes)
    return entry


def check(parity, arrays, config="TINY", seeds=(0, 1), change=None, **switches):
    config = getattr(parts, config)
    for seed in seeds:
        module = upstream.randomise(parts.detector(config, **switches), seed)
        if change is not None:
            change(module)
        exact = upstream.run64(upstream.double(module), arrays, parts.ground)
        single = upstream.run(module, arrays, parts.ground)
        weights = upstream.state_dict(module)

        def run(isa, threads, inputs, weights=weights):
            sizes = {**parts.sizes(config), **switches}
            layer = parity.testing.layer(
                "sam3.DetectorHeads", sizes, weights, isa=isa, num_threads=threads
            )
            return layer.forward(**inputs)

        parity._compare(f"detector seed {seed}", run, arrays, exact, [single])


MASKS = {"kept": [0, 3, 9], "semantic": True}


@pytest.mark.parametrize("grid", [(6, 6), (5, 7)])
def test_text_alone(parity, grid):
    """The class token stands behind the words; padded words are none."""
    prompts = texts(parts.TINY, right_padded(2, 8, 5))
    check(parity, {**image(parts.TINY, grid), **prompts, **MASKS})


@pytest.mark.parametrize("config", ["WIDE", "NARROW"])
def test_other_sizes(parity, config):
    sizes = getattr(parts, config)
    arrays = {**image(sizes, (3, 4)), **texts(sizes, right_padded(3, 1)), "kept": [0]}
    check(parity, arrays, config, seeds=(0,))


def test_geometry(parity):
    """Prompts with points and boxes of different numbers, and one without."""
    prompts = texts(parts.TINY, right_padded(3, 2, 7, 4))
    prompts["geometry"] = [geometry(0, 1), geometry(2, 3), {}, geometry(1, 0)]
    check(parity, {**image(parts.TINY), **prompts, **MASKS})


def test_padding_within_a_text(parity):
    """Upstream takes one byte of rare texts for padding, wherever it stands."""
    padding = [[False, True, False, False, True, False, True, True], [True] * LENGTH]
    check(parity, {**image(parts.TINY), **texts(parts.TINY, padding), **MASKS}, seeds=(0,))


@pytest.mark.parametrize("bias", [-8.0, 8.0])
def test_presence(parity, bias):
    def change(module):
        module.transformer.decoder.presence_token_head.layers[-1].bias.data.fill_(bias)

    arrays = {**image(parts.TINY), **texts(parts.TINY, right_padded(4))}
    check(parity, arrays, seeds=(0,), change=change)


@pytest.mark.parametrize("bias", [-8.0, 0.0, 8.0])
def test_joint_logits(parity, bias):
    """The detector of the video model: logits carry the presence."""

    def change(module):
        module.transformer.decoder.presence_token_head.layers[-1].bias.data.fill_(bias)

    arrays = {**image(parts.TINY), **texts(parts.TINY, right_padded(4, 2))}
    check(parity, arrays, change=change, supervise_joint_box_scores=True)


def test_trace(testing, parity):
    """The first layer that differs, where one does."""
    module = upstream.randomise(parts.detector(parts.WIDE), 1)
    arrays = {**image(parts.WIDE), **texts(parts.WIDE, right_padded(5)), **MASKS}

    def taps(module, **inputs):
        out = []
        by_path = {}
        for path, value in upstream.record(
            module, lambda: out.extend(parts.ground(module, **inputs))
        ):
            if path.startswith("transformer.encoder.layers.") and path.count(".") == 3:
                by_path[path] = value[0]
            elif path.startswith("geometry_encoder.encode.") and path.count(".") == 2:
                by_path[path] = value[:, 0]
            elif path.startswith("transformer.decoder.layers.") and path.count(".") == 3:
                by_path[path] = np.concatenate(value[::-1])[:, 0]
            elif path == "geometry_encoder":
                by_path[path] = value[0][:, 0]
            elif path == "transformer.decoder.norm":
                by_path[path] = value[:, 0]
            elif path == "dot_prod_scoring":
                by_path[path] = value[-1, 0, :, 0]
        by_path["segmentation_head.masks"] = upstream.array(out[3][0])
        by_path["segmentation_head.semantic_seg"] = upstream.array(out[4][0])
        return tuple(by_path), tuple(by_path.values())

    paths, single = upstream.run(module, arrays, taps)
    exact = upstream.run64(upstream.double(module), arrays, taps)[1]
    layer = testing.layer(
        "sam3.DetectorHeads", parts.sizes(parts.WIDE), upstream.state_dict(module)
    )
    ours = dict(layer.trace(**arrays))
    parity.trace(
        {path: ours[path] for path in ours if path in paths},
        dict(zip(paths, exact, strict=True)),
        dict(zip(paths, single, strict=True)),
        required=paths,
    )


# ---------------------------------------------------------------- properties


@pytest.fixture(scope="module")
def weights():
    return upstream.state_dict(upstream.randomise(parts.detector(parts.TINY), 0))


def layer_of(testing, weights, **kwargs):
    return testing.layer("sam3.DetectorHeads", parts.sizes(parts.TINY), weights, **kwargs)


def test_prompts_do_not_meet(testing, parity, weights):
    """A batch is the loop over its prompts, bit for bit."""
    prompts = texts(parts.TINY, right_padded(3, 8, 1))
    entries = [geometry(0, 2), {}, geometry(1, 1)]
    layer = layer_of(testing, weights)
    batch = layer.forward(**image(parts.TINY), **prompts, **MASKS, geometry=entries)
    for i, entry in enumerate(entries):
        one = {name: value[i : i + 1] for name, value in prompts.items()}
        alone = layer.forward(**image(parts.TINY), **one, **MASKS, geometry=[entry])
        parity.same_bits(alone, [part[i : i + 1] for part in batch], f"prompt {i}")


def test_padded_words_have_no_say(testing, parity, weights):
    prompts = texts(parts.TINY, right_padded(3))
    other = {**prompts, "text": prompts["text"].copy()}
    other["text"][:, 3:] = 1e3
    layer = layer_of(testing, weights)
    found = layer.forward(**image(parts.TINY), **prompts, **MASKS)
    parity.same_bits(found, layer.forward(**image(parts.TINY), **other, **MASKS), "padding")
    full = {**prompts, "padding": np.zeros_like(prompts["padding"])}
    unmasked = layer.forward(**image(parts.TINY), **full, **MASKS)
    assert np.max(np.abs(unmasked[0] - found[0])) > 1e-3


def test_masks_are_made_on_request(testing, parity, weights):
    """Scores and boxes do not depend on the masks that are asked for, nor masks on each other."""
    arrays = {**image(parts.TINY), **texts(parts.TINY, right_padded(3, 5))}
    layer = layer_of(testing, weights)
    full = layer.forward(**arrays, kept=list(range(10)), semantic=True)
    parity.same_bits(layer.forward(**arrays), full[:3], "no masks")
    found = layer.forward(**arrays, kept=[7, 2])
    parity.same_bits(found, [*full[:3], full[3][:, [7, 2]]], "two masks")
    parity.same_bits(layer.forward(**arrays, semantic=True), [*full[:3], full[4]], "semantic")


def scratch_of(testing, weights, *lengths, **options):
    layer = layer_of(testing, weights)
    arrays = {**image(parts.TINY, (9, 9)), **texts(parts.TINY, right_padded(*lengths))}
    for _ in range(2):  # the second call joins the blocks
        layer.forward(**arrays, **options)
    return layer.workspace_bytes


def test_memory_does_not_grow_with_the_prompts(testing, weights):
    one = scratch_of(testing, weights, 8, kept=[0, 1])
    assert scratch_of(testing, weights, *[8] * 7, kept=[0, 1]) == one


def test_a_mask_less_prompt_needs_no_pixels(testing, weights):
    assert scratch_of(testing, weights, 8) < scratch_of(testing, weights, 8, kept=[0])


def test_steady_state_allocates_the_results_alone(testing, weights):
    layer = layer_of(testing, weights)
    prompts = texts(parts.TINY, right_padded(3, 8))
    arrays = {**prompts, **MASKS, "geometry": [geometry(1, 2), {}]}
    for seed in range(2):  # the second call joins the blocks
        layer.forward(**image(parts.TINY, seed=seed), **arrays)
    before = testing.allocation_count()
    layer.forward(**image(parts.TINY, seed=2), **arrays)
    assert testing.allocation_count() - before == 5


def test_images_of_other_sizes(testing, parity, weights):
    """What an image leaves behind does not change the next one."""
    prompts = texts(parts.TINY, right_padded(4))
    used = layer_of(testing, weights)
    for grid in ((6, 6), (3, 8), (6, 6)):
        found = used.forward(**image(parts.TINY, grid), **prompts, **MASKS)
        fresh = layer_of(testing, weights)
        parity.same_bits(found, fresh.forward(**image(parts.TINY, grid), **prompts, **MASKS), "")


def test_levels_that_do_not_fit(testing, weights):
    arrays = {**image(parts.TINY), **texts(parts.TINY, right_padded(4))}
    arrays["level1"] = arrays["level1"][:-1]
    with pytest.raises(ValueError, match=r"detector: levels: expected \(24, 24, 64\)"):
        layer_of(testing, weights).forward(**arrays)
