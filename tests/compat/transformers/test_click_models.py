"""Click models of the drop-in for transformers: its numbers, by its rules, beside Meta's."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

transformers = pytest.importorskip("transformers", minversion="5")
torch = pytest.importorskip("torch")

import sam_rlx  # noqa: E402
import sam_rlx.compat.transformers as drop_in  # noqa: E402
from sam_rlx.compat.transformers import notes  # noqa: E402
from support import hugging_face_models  # noqa: E402
from support import parity as rule  # noqa: E402
from support import transformers_models as upstream  # noqa: E402

# Told once in a process, see test_sam_hq_tells_which_map_its_masks_are_of.
pytestmark = pytest.mark.filterwarnings("ignore:SamHQModel")
PROMPTS = {
    "points": ("input_points", "input_labels"),
    "boxes": ("input_boxes",),
    "both": ("input_points", "input_labels", "input_boxes"),
    "mask": ("input_points", "input_labels", "input_masks"),
    "nothing": (),
}
# Each prompt with several masks, some with one.
CASES = [(name, True) for name in PROMPTS] + [("points", False), ("nothing", False)]
EPSILONS = (1e-6, 1e-5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the folder of a tiny model of a class."""
    made: dict[tuple[str, float], Any] = {}

    def get(name: str, epsilon: float = 1e-6) -> Any:
        if (name, epsilon) not in made:
            path = tmp_path_factory.mktemp("transformers") / name
            made[name, epsilon] = upstream.save(name, path, epsilon)
        return made[name, epsilon]

    return get


def same(left: Any, right: Any, name: str) -> None:
    rule.same_bits(np.asarray(left), np.asarray(right), name)


def load(name: str, path: Any, **options: Any) -> Any:
    return getattr(drop_in, name).from_pretrained(path, **options)


def chosen(name: str, prompt: str) -> dict[str, Any]:
    values = upstream.inputs(name)
    return {key: values[key] for key in ("pixel_values", *PROMPTS[prompt])}


def assert_close(name: str, found: Any, values: dict[str, Any], network: Any) -> None:
    """Hold each field to the rule: at most 4 times the error of upstream's float32."""
    exact = upstream.computed(network, values, "float64")
    single = upstream.computed(network, values)
    nudged = [
        upstream.computed(
            network,
            {**values, "pixel_values": rule.last_bits(values["pixel_values"], seed)},
        )
        for seed in range(rule.NUDGES)
    ]
    ours = upstream.fields(found)
    assert ours.keys() == exact.keys()
    for field, value in ours.items():
        more = [each[field] for each in nudged]
        rule.close(value, exact[field], single[field], f"{name}.{field}", more)


@pytest.mark.parametrize("name", upstream.CLASSES)
@pytest.mark.parametrize(("prompt", "multimask"), CASES)
def test_every_field_follows_transformers(name: str, prompt: str, multimask: bool, folder: Any):
    values = {**chosen(name, prompt), "multimask_output": multimask}
    found = load(name, folder(name))(**upstream.tensors(values))
    assert isinstance(found.pred_masks, torch.Tensor)
    assert_close(f"{name} {prompt}", found, values, upstream.model(name))


@pytest.mark.parametrize("name", upstream.CLASSES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_epsilons_are_those_of_the_settings(name: str, epsilon: float, folder: Any):
    values = chosen(name, "mask")
    found = load(name, folder(name, epsilon))(**upstream.tensors(values))
    assert_close(f"{name} {epsilon}", found, values, upstream.model(name, epsilon))


@pytest.mark.parametrize("name", ["Sam2Model", "EdgeTamModel", "Sam3TrackerModel"])
def test_large_logits_stay_as_they_are(name: str, tmp_path: Path):
    """Meta's are at most 32."""
    network = copy.deepcopy(upstream.model(name))
    with torch.no_grad():
        for head in network.mask_decoder.output_hypernetworks_mlps:
            head.proj_out.weight *= 100
    values = chosen(name, "points")
    found = load(name, hugging_face_models.save(network, tmp_path / name))
    output = found(**upstream.tensors(values))
    assert output.pred_masks.abs().max() > 64
    assert_close(name, output, values, network)


def test_the_only_token_of_sam_hq(folder: Any):
    values = {**chosen("SamHQModel", "both"), "hq_token_only": True}
    found = load("SamHQModel", folder("SamHQModel"))(**upstream.tensors(values))
    assert found.pred_masks.shape[2] == 1
    assert found.iou_scores.shape[2] == 3
    assert_close("SamHQModel", found, values, upstream.model("SamHQModel"))


@pytest.mark.parametrize("name", upstream.CLASSES)
def test_embeddings_serve_instead_of_pixels(name: str, folder: Any):
    values = upstream.tensors(chosen(name, "points"))
    model = load(name, folder(name))
    whole = model(**values)
    embeddings = model.get_image_embeddings(values.pop("pixel_values"))
    more = {}
    if name == "SamHQModel":
        embeddings, more["intermediate_embeddings"] = embeddings
        assert [each.shape[1:] for each in more["intermediate_embeddings"]] == [(8, 8, 64)]
    again = model(**values, image_embeddings=embeddings, **more)
    same(again.pred_masks, whole.pred_masks, "masks")
    # Real arrays: what a program kept on disk serves as well.
    as_list = embeddings if isinstance(embeddings, list) else [embeddings]
    arrays = [each.numpy().copy() for each in as_list]
    kept = arrays if isinstance(embeddings, list) else arrays[0]
    again = model(**values, image_embeddings=kept, **more)
    same(again.pred_masks, whole.pred_masks, "masks of kept embeddings")


@pytest.mark.parametrize("name", upstream.CLASSES)
def test_embeddings_follow_transformers(name: str, folder: Any):
    network, model = upstream.model(name), load(name, folder(name))
    values = upstream.inputs(name)

    def maps(of: Any, pixels: Any) -> dict[str, Any]:
        found = of.get_image_embeddings(pixels)
        if name == "SamHQModel":
            found = [found[0], *found[1]]
        found = found if isinstance(found, list) else [found]
        return {str(i): np.asarray(each) for i, each in enumerate(found)}

    pixels = torch.from_numpy(values["pixel_values"])
    single, ours = maps(network, pixels), maps(model, pixels)
    with upstream.double(network):
        exact = maps(network, pixels.double())
    for key, value in ours.items():
        rule.close(value, exact[key], single[key], f"{name}.embeddings.{key}")


@pytest.mark.parametrize("name", upstream.CLASSES)
@pytest.mark.parametrize("prompt", ["points", "both", "mask"])
def test_prompt_embeddings_follow_transformers(name: str, prompt: str, folder: Any):
    network, model = upstream.model(name), load(name, folder(name))
    values = {key: upstream.inputs(name)[key] for key in PROMPTS[prompt]}

    def embedded(of: Any, dtype: str = "float32") -> list[Any]:
        given = upstream.tensors(values, dtype)
        names = ("input_points", "input_labels", "input_boxes", "input_masks")
        with torch.no_grad():
            return [np.asarray(x) for x in of.get_prompt_embeddings(*map(given.get, names))]

    ours, single = embedded(model), embedded(network)
    with upstream.double(network):
        exact = embedded(network, "float64")
    for part, kind in enumerate(("sparse", "dense")):
        rule.close(ours[part], exact[part], single[part], f"{name}.{kind}")


@pytest.mark.parametrize("name", ["Sam2Model", "EdgeTamModel", "Sam3TrackerModel"])
def test_image_features_follow_transformers(name: str, folder: Any):
    network, model = upstream.model(name), load(name, folder(name))
    pixels = torch.from_numpy(upstream.inputs(name)["pixel_values"])
    with torch.no_grad():
        single = upstream.fields(network.get_image_features(pixels))
        with upstream.double(network):
            exact = upstream.fields(network.get_image_features(pixels.double()))
    for field, value in upstream.fields(model.get_image_features(pixels)).items():
        rule.close(value, exact[field], single[field], f"{name}.{field}")


# ---------------------------------------------------------------- beside Meta's rules


def metas(path: Any, pixels: Any) -> Any:
    """Return the masks of our own classes for the first image."""
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(path))
    predictor.set_image(pixels)
    return predictor.predict(point_coords=[[40, 30]], point_labels=[1]).low_res_masks


@pytest.mark.parametrize("name", ["SamModel", "SamHQModel", "Sam2Model"])
def test_one_file_by_both_rules_in_any_order(name: str, folder: Any):
    path = folder(name)
    values = upstream.tensors(chosen(name, "points"))
    image = np.random.default_rng(1).integers(0, 256, (75, 100, 3), np.uint8)
    ours_first = metas(path, image)
    theirs = load(name, path)(**values).pred_masks
    again = metas(path, image)
    same(again, ours_first, "Meta's rules")
    same(load(name, path)(**values).pred_masks, theirs, "transformers' rules")


def test_padding_is_a_token_by_one_rule_alone(folder: Any):
    values = upstream.tensors(chosen("SamModel", "points"))
    path = folder("SamModel")
    by_rule = load("SamModel", path)
    model = sam_rlx.load_model(path)
    by_meta = sam_rlx._core.TensorPredictor(model.core)
    maps = [np.asarray(by_rule.get_image_embeddings(values["pixel_values"]))]
    points = np.asarray(values["input_points"], np.float64)
    labels = np.asarray(values["input_labels"], np.int32)
    masks, _, _ = by_meta.decode(maps, points, labels, None, None, True)
    found = np.asarray(by_rule(**values).pred_masks)
    # The third object of a set without padding differs by its epsilons alone.
    assert np.abs(masks - found)[1, 0].max() < 1e-3 * np.abs(found).max()
    assert np.abs(masks - found)[0].max() > 1e-2 * np.abs(found).max()


def test_a_model_is_copied_and_pickled_with_its_rules(folder: Any):
    model = load("SamModel", folder("SamModel"))
    values = upstream.tensors(chosen("SamModel", "mask"))
    expected = model(**values).pred_masks
    for made in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert made.config == model.config
        same(made(**values).pred_masks, expected, "masks")


def test_sam_hq_tells_which_map_its_masks_are_of(folder: Any):
    notes._told.clear()
    with pytest.warns(UserWarning, match="another map"):
        load("SamHQModel", folder("SamHQModel"))
