"""The pipeline "mask-generation", beside transformers' on the same folders."""

from __future__ import annotations

import base64
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", exc_type=ImportError)

import sam_rlx
import torch
from PIL import Image
from sam_rlx.compat import transformers as ours
from sam_rlx.compat.transformers.notes import IgnoredWarning
from sam_rlx.errors import SamRlxError
from support import transformers_models, upstream
from support.hugging_face_configs import side

upstream.prepare()
COFFEE = Path(sam_rlx.__file__).parent / "assets" / "coffee.jpg"
# Small networks with random weights give masks all over the image, of scores around 0.
ALL = {
    "pred_iou_thresh": -9.0,
    "stability_score_thresh": 0.3,
    "stability_score_offset": 0.1,
    "crops_nms_thresh": 1.0,
    "points_per_crop": 4,
}
pytestmark = pytest.mark.filterwarnings("ignore:SamHQModel:UserWarning")
KINDS = {
    "SamModel": "SamImageProcessor",
    "SamHQModel": "SamImageProcessor",
    "Sam2Model": "Sam2ImageProcessor",
    "EdgeTamModel": "Sam2ImageProcessor",
    "Sam3TrackerModel": "Sam3ImageProcessor",
}


def processor_of(name: str) -> Any:
    """Return transformers' image processor of a small model."""
    import transformers

    length = side(name)
    if "SamImage" in KINDS[name]:
        square = {"height": length, "width": length}
        return transformers.SamImageProcessor(size={"longest_edge": length}, pad_size=square)
    return getattr(transformers, KINDS[name])(size={"height": length, "width": length})


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return the folder of a small model with its image processor."""
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = transformers_models.save(name, tmp_path_factory.mktemp("pipe") / name)
            processor_of(name).save_pretrained(made[name])
        return made[name]

    return get


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """Return the folder of a packaged model."""
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("packaged") / name
            sam_rlx.conversion.convert(name, made[name])
        return made[name]

    return get


def photograph(width: int = 160) -> Image.Image:
    image = Image.open(COFFEE)
    return image.resize((width, width * image.height // image.width))


def theirs(folder: Path, **options: Any) -> Any:
    import transformers

    transformers.logging.set_verbosity_error()
    return transformers.pipeline("mask-generation", model=str(folder), device="cpu", **options)


def iou(a: Any, b: Any) -> float:
    a, b = np.asarray(a), np.asarray(b)
    return float((a & b).sum() / max((a | b).sum(), 1))


def alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Hold masks to the order and the pixels of upstream's."""
    assert list(found) == list(expected)
    assert len(found["masks"]) == len(expected["masks"])
    assert found["scores"].dtype == expected["scores"].dtype
    np.testing.assert_allclose(found["scores"], expected["scores"], atol=1e-4)
    for mine, their in zip(found["masks"], expected["masks"], strict=True):
        assert mine.dtype == their.dtype
        assert mine.shape == their.shape
        assert iou(mine, their) >= 0.999
    if "bounding_boxes" in expected:
        assert found["bounding_boxes"].dtype == expected["bounding_boxes"].dtype
        assert found["bounding_boxes"].shape == expected["bounding_boxes"].shape
    for mine, their in zip(found.get("rle_mask", ()), expected.get("rle_mask", ()), strict=True):
        assert mine["size"] == their["size"]
        assert sum(mine["counts"]) == sum(their["counts"])
        assert all(type(count) is int for count in mine["counts"])


@pytest.mark.parametrize("layers", [0, 1])
@pytest.mark.parametrize("name", KINDS)
def test_small_networks(folders, name, layers):
    folder, image = folders(name), photograph()
    options = {**ALL, "crops_n_layers": layers, "points_per_batch": 7}
    options |= {"output_rle_mask": True, "output_bboxes_mask": True}
    expected = theirs(folder)(image, **options)
    found = ours.pipeline("mask-generation", model=folder)(image, **options)
    assert len(expected["masks"]) > 2
    alike(found, expected)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sam-nano", {"points_per_crop": 12}),
        ("sam-nano", {"points_per_crop": 6, "crops_n_layers": 1, "points_per_batch": None}),
        ("sam2-nano", {"points_per_crop": 12, "points_per_batch": 50}),
        ("sam2-nano", {"points_per_crop": 6, "crops_n_layers": 1, "crops_nms_thresh": 0.4}),
    ],
)
def test_packaged_models(converted, name, options):
    folder, image = converted(name), photograph(240)
    options = {"pred_iou_thresh": 0.5, "stability_score_thresh": 0.6, **options}
    expected = theirs(folder)(image, **options)
    found = ours.pipeline("mask-generation", model=folder)(image, **options)
    assert len(expected["masks"]) > 2
    alike(found, expected)


def test_nothing_that_is_good(folders):
    """Without masks boxes are floats, as upstream; also where one batch of points has none."""
    folder, image = folders("SamModel"), photograph()
    options = {"pred_iou_thresh": 1e6, "points_per_crop": 3}
    options |= {"output_rle_mask": True, "output_bboxes_mask": True}
    found = ours.pipeline("mask-generation", model=folder)(image, **options)
    expected = theirs(folder)(image, **options)
    assert found["masks"] == expected["masks"] == []
    assert found["rle_mask"] == expected["rle_mask"] == []
    for key in ("scores", "bounding_boxes"):
        assert found[key].dtype == expected[key].dtype
        assert found[key].shape == expected[key].shape


@pytest.fixture(scope="module")
def both(folders):
    folder = folders("SamModel")
    return ours.pipeline("mask-generation", model=folder, **ALL), theirs(folder, **ALL)


def as_base64(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "png")
    return base64.b64encode(file.getvalue()).decode()


def test_forms_of_images(both, tmp_path):
    image = photograph(64)
    path = tmp_path / "image.png"
    image.save(path)
    text = as_base64(image)
    sources = [str(path), text, f"data:image/png;base64,{text}", [image], [image, str(path)]]
    for source in sources:
        found, expected = (each(source) for each in both)
        assert type(found) is type(expected)
        if isinstance(source, list):
            assert len(found) == len(expected) == len(source)
            found, expected = found[-1], expected[-1]
        alike(found, expected)
    for mode in ("L", "RGBA", "P"):
        alike(*(each(image.convert(mode)) for each in both))
    stream = both[0](each for each in [image])
    alike(next(iter(stream)), both[1](image))


BAD: dict[str, tuple[Any, dict[str, Any]]] = {
    "an array": (np.zeros((64, 64, 3), np.uint8), {}),
    "a tensor": (torch.zeros(3, 64, 64), {}),
    "no images": ([], {}),
    "a tuple": ((photograph(32),), {}),
    "no file": ("no_such_file.jpg", {}),
    "no points": (photograph(32), {"points_per_batch": 0}),
    "grids that differ": (
        photograph(64),
        {"crops_n_layers": 1, "crop_n_points_downscale_factor": 2},
    ),
    "an area": (photograph(32), {"max_hole_area": 1.0}),
    "a batch": ([photograph(32), photograph(32)], {"batch_size": 2}),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(both, name):
    source, options = BAD[name]
    with pytest.raises(Exception) as expected:  # noqa: PT011
        both[1](source, **options)
    with pytest.raises(expected.type) as found:
        both[0](source, **options)
    assert isinstance(found.value, SamRlxError)


def test_arguments_of_the_constructor_and_those_that_are_ignored(both, folders):
    image = photograph(64)
    model = ours.SamModel.from_pretrained(folders("SamModel"))
    images = ours.SamImageProcessor.from_pretrained(folders("SamModel"))
    expected = both[0](image, points_per_crop=2, num_workers=0)
    for made in (
        ours.pipeline("mask-generation", model=model, image_processor=images, **ALL),
        ours.pipeline(
            "mask-generation", model=model, processor=ours.SamProcessor(images), device=-1, **ALL
        ),
        ours.MaskGenerationPipeline(model=model, image_processor=images, device="cpu", **ALL),
    ):
        alike(made(image, points_per_crop=2), expected)
    with pytest.warns(IgnoredWarning, match="points_per_crop is what it should be called"):
        alike(made(image, points_per_side=2), both[0](image))
    alike(pickle.loads(pickle.dumps(made))(image, points_per_crop=2), expected)
    with pytest.raises(AttributeError, match="expected one that takes points"):
        ours.MaskGenerationPipeline(model=object(), image_processor=images)(image)


def test_areas_have_no_effect_on_sam2(folders):
    folder, image = folders("Sam2Model"), photograph(64)
    pipe = ours.pipeline("mask-generation", model=folder, **ALL)
    plain = pipe(image)
    alike(pipe(image, max_hole_area=50.0, max_sprinkle_area=50.0), plain)
    alike(plain, theirs(folder, **ALL)(image, max_hole_area=50.0))
