"""SAM 3 at another side than its file's, beside upstream's network built at that side.

The file is of side 112, whose grid has windows of 4 and a table of positions of 4.
"""

from dataclasses import replace

import pytest
import sam_rlx
from support import tiny_sam3
from support.cases import quick
from support.click_prompts import PROMPTS
from support.video_scripts import ALL, BACK, CLICK, MASK

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
upstream_video = pytest.importorskip("support.upstream_video")
clicks = pytest.importorskip("support.sam3_clicks", reason="needs sam3")
concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
oracle = pytest.importorskip("support.upstream_sam3_video", reason="needs sam3")
scripts = pytest.importorskip("support.sam3_scripts", reason="needs sam3")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity

# One grid is the table's, one is cut from two tables, one of seven positions pads its windows,
# one is larger than the file's.
SIDES = [56, 168, 98, 224]


def load(folder, network, side, config=tiny_sam3.TINY):
    """Return ours at a side, of a file that says another one."""
    path = tiny_sam3.save_safetensors(
        folder / "tiny.safetensors", config, upstream_sam3.meta_weights(network)
    )
    model = sam_rlx.load_model(path, image_size=side)
    assert model.image_size == side != config.img_size
    return model


@pytest.mark.parametrize("side", quick(SIDES, 2))
def test_texts_and_boxes(tmp_path, images, side):
    image = images["odd 303x384"]
    module = concepts.image_model(config=replace(concepts.CONFIG, img_size=side))
    judges = concepts.Judges(module, side)
    judges.call("set_image", torch.from_numpy(image).permute(2, 0, 1))
    predictor = sam_rlx.ConceptPredictor(
        load(tmp_path, module, side, concepts.CONFIG), resize="integer"
    )
    predictor.set_image(image)
    for prompts in (
        {"text": "a cat"},
        {"text": "dog", "boxes": [[30, 60, 200, 280], [250, 20, 380, 90]], "box_labels": [1, 0]},
    ):
        expected, threshold = concepts.ground(judges, **prompts)
        found = predictor.predict(threshold=threshold, **prompts)
        concepts.check(expected, found.masks, found.boxes, found.scores)


@pytest.mark.parametrize("side", quick(SIDES, 2))
def test_clicks(parity, tmp_path, images, side):
    image, prompts = images["wide 400x600"], PROMPTS["points"]
    network = upstream_sam3.image_model(replace(tiny_sam3.TINY, img_size=side), clicks=True)
    single = clicks.predict_inst(network, image, prompts, True)
    with upstream.float64():
        exact = clicks.predict_inst(upstream.double(network), image, prompts, True)
    predictor = sam_rlx.ImagePredictor(load(tmp_path, network, side), resize="integer")
    predictor.set_image(image)
    found = predictor.predict(**prompts, multimask_output=True, return_logits=True)
    ours = (*predictor.image_embeddings, found.masks, found.iou_predictions, found.low_res_masks)
    for name, mine, wide, narrow in zip(clicks.NAMES, ours, exact, single, strict=True):
        parity.close(mine, wide, narrow, name)
    parity.masks_agree(found.masks > 0, exact[3])


@pytest.mark.parametrize("side", quick(SIDES, 1))
def test_clips(parity, tmp_path, side):
    """Two objects, a correction, backwards: masks for the memory have 16 times the grid.

    A network on which upstream's own float32 keeps its masks of some 50 pixels: it resizes the mask
    of a prompt in float32, which moves logits by 0.015 of 5.
    """
    network = oracle.network(replace(tiny_sam3.TINY, img_size=side), seed=3)
    steps = [
        CLICK,
        ("mask", 0, 5, MASK),
        ALL,
        ("points", 4, "disc", [[30, 30]], [1]),
        ("track", {"start_frame": 2}),
        BACK,
    ]
    scripts.check(parity, (load(tmp_path, network, side), network), steps)
