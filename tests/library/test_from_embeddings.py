"""Everything mode and text prompts that start from embeddings: the same results, no encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx import InvalidArgumentError

LOOSE = {"points_per_side": 4, "pred_iou_thresh": 0.0, "stability_score_thresh": 0.0}


@pytest.fixture(params=["sam", "sam2"])
def any_model(request: pytest.FixtureRequest) -> sam_rlx.Model:
    name = {"sam": "model", "sam2": "sam2_model"}[request.param]
    found: sam_rlx.Model = request.getfixturevalue(name)
    return found


def rows(records: list[sam_rlx.MaskRecord]) -> list[Any]:
    return [(r.counts.tobytes(), r.predicted_iou, r.point_coords, r.crop_box) for r in records]


def test_everything_mode(any_model: sam_rlx.Model, image: np.ndarray, tmp_path: Path) -> None:
    generator = sam_rlx.MaskGenerator(any_model, **LOOSE)
    expected = rows(generator.generate(image))
    assert expected
    predictor = sam_rlx.ImagePredictor(any_model)
    predictor.set_image(image)
    predictor.save_embedding(tmp_path / "image.safetensors")
    embeddings = predictor.image_embeddings
    seen: list[tuple[int, int]] = []
    found = generator.generate(
        embedding=embeddings,
        orig_hw=(400, 600),
        progress=lambda done, total: seen.append((done, total)),
    )
    assert rows(found) == expected
    assert seen[-1] == (16, 16)
    assert rows(generator.generate(embedding=tmp_path / "image.safetensors")) == expected
    assert rows(generator.generate(embedding=str(tmp_path / "image.safetensors"))) == expected
    # The image again, which was not set by the embedding.
    assert rows(generator.generate(image)) == expected


def test_crops_need_the_image(model: sam_rlx.Model, predictor: sam_rlx.ImagePredictor) -> None:
    generator = sam_rlx.MaskGenerator(model, **LOOSE, crop_n_layers=1)
    with pytest.raises(InvalidArgumentError, match=r"an image for crops.*crop_n_layers=1"):
        generator.generate(embedding=predictor.image_embeddings, orig_hw=(400, 600))


def test_what_everything_mode_refuses(
    model: sam_rlx.Model,
    sam2_model: sam_rlx.Model,
    predictor: sam_rlx.ImagePredictor,
    image: np.ndarray,
    tmp_path: Path,
) -> None:
    generator, embeddings = sam_rlx.MaskGenerator(model, **LOOSE), predictor.image_embeddings
    calls: dict[str, dict[str, Any]] = {
        "expected image or embedding, found both": {
            "image": image,
            "embedding": embeddings,
            "orig_hw": (400, 600),
        },
        "orig_hw: expected one beside arrays": {"embedding": embeddings},
        "embedding: expected one beside orig_hw": {"orig_hw": (400, 600)},
        "an int >= 1, found 0": {"embedding": embeddings, "orig_hw": (0, 600)},
        "expected shape": {"embedding": embeddings[0][:, :4], "orig_hw": (400, 600)},
        "float32": {"embedding": embeddings[0].astype(np.float64), "orig_hw": (400, 600)},
    }
    for text, arguments in calls.items():
        with pytest.raises(InvalidArgumentError, match=text):
            generator.generate(**arguments)
    with pytest.raises(InvalidArgumentError, match="found NoneType"):
        generator.generate()
    predictor.save_embedding(tmp_path / "sam.safetensors")
    with pytest.raises(InvalidArgumentError, match="expected none beside a file"):
        generator.generate(embedding=tmp_path / "sam.safetensors", orig_hw=(400, 600))
    with pytest.raises(sam_rlx.CheckpointError):
        sam_rlx.MaskGenerator(sam2_model, **LOOSE).generate(embedding=tmp_path / "sam.safetensors")
    with pytest.raises(FileNotFoundError):
        generator.generate(embedding=tmp_path / "none.safetensors")
    assert generator.generate(image)


def test_text_prompts(images: dict[str, np.ndarray], tmp_path: Path) -> None:
    model = sam_rlx.load_model("sam3-nano")
    one, other = sam_rlx.ConceptPredictor(model), sam_rlx.ConceptPredictor(model)
    prompt = {"text": ["circle", "square"], "boxes": [[20, 30, 90, 120]], "threshold": 0.02}
    expected = one.predict(images["wide 400x600"], **prompt)
    one.save_embedding(tmp_path / "image.safetensors")
    for source in (
        {"embedding": one.image_embeddings, "orig_hw": (400, 600)},
        {"embedding": tmp_path / "image.safetensors"},
    ):
        found = other.predict(**source, **prompt)
        assert found.scores.tobytes() == expected.scores.tobytes()
        assert found.masks.tobytes() == expected.masks.tobytes()
    # It is the current image now, and stays so when a call fails.
    assert other.orig_hw == (400, 600)
    again = other.predict(**prompt)
    assert again.masks.tobytes() == expected.masks.tobytes()
    for arguments in (
        {"image": images["tall 451x300"], "embedding": tmp_path / "image.safetensors"},
        {"embedding": one.image_embeddings},
        {"embedding": one.image_embeddings[:2], "orig_hw": (451, 300)},
    ):
        with pytest.raises(InvalidArgumentError):
            other.predict(**arguments, **prompt)
    assert other.predict(**prompt).masks.tobytes() == expected.masks.tobytes()
