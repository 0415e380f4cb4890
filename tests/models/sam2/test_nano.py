"""The trained weights of sam2-nano beside upstream: every layer of an image, and whole clips."""

import numpy as np
import pytest
import sam_rlx
from support.trained import trained

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam2 = pytest.importorskip("support.upstream_sam2")
upstream_video = pytest.importorskip("support.upstream_video")
pytestmark = pytest.mark.parity

CHECKPOINT = trained("sam2-nano")
CLICKS = {"point_coords": np.array([[360.0, 190.0], [40.0, 40.0]]), "point_labels": [1, 0]}
TRUNK, NECK, DECODER = "image_encoder.trunk", "image_encoder.neck", "sam_mask_decoder"

# ---------------------------------------------------------------- an image, layer by layer


def plain(value):
    """Drop leading axes of one: ours handle one image and one prompt at a time."""
    value = np.asarray(value)
    while value.ndim > 1 and value.shape[0] == 1:
        value = value[0]
    return value


def taps_of(records, blocks):
    """Upstream's results by our paths, in our layout."""
    maps = {f"{DECODER}.conv_s{i}": records[f"{DECODER}.conv_s{i}"] for i in (0, 1)}
    # The two finer levels of ours have been through the decoder's convolutions.
    maps.update({f"{NECK}.{i}": records[f"{DECODER}.conv_s{i}"] for i in (0, 1)})
    maps.update({f"{NECK}.{i}": records[NECK][0][i] for i in (2, 3)})
    taps = {path: np.moveaxis(plain(value), 0, -1) for path, value in maps.items()}
    for path in [f"{TRUNK}.patch_embed", *(f"{TRUNK}.blocks.{i}" for i in range(blocks))]:
        taps[path] = plain(records[path])
    transformer = f"{DECODER}.transformer"
    for path in (f"{transformer}.layers.0", f"{transformer}.layers.1", transformer):
        for part, value in zip(("queries", "keys"), records[path], strict=False):
            taps[f"{path}.{part}"] = plain(value)
    for head in ("iou_prediction_head", "pred_obj_score_head"):
        taps[f"{DECODER}.{head}"] = np.atleast_1d(plain(records[f"{DECODER}.{head}"]))
    taps["sam_prompt_encoder.sparse_embeddings"] = plain(records["sam_prompt_encoder"][0])
    # Of the tokens, ours finishes those that are read: object score, IoU and masks.
    prompts = len(taps["sam_prompt_encoder.sparse_embeddings"])
    taps[f"{transformer}.queries"] = taps[f"{transformer}.queries"][:-prompts]
    taps[f"{DECODER}.low_res_masks"] = plain(records[DECODER][0])
    return taps


def reference(model, image):
    predictor = upstream_sam2.image_predictor(model)
    patches = []  # with the position table, as ours records them

    def call():
        predictor.set_image(image)
        prompts = {key: np.array(value) for key, value in CLICKS.items()}
        predictor.predict(**prompts, multimask_output=True)

    trunk = model.image_encoder.trunk
    handle = trunk.blocks[0].register_forward_pre_hook(lambda _, args: patches.append(args[0]))
    records = dict(upstream.record(model, call))
    handle.remove()
    records[f"{TRUNK}.patch_embed"] = patches[0].numpy()
    return taps_of(records, len(trunk.blocks))


def test_layers(parity, testing, images):
    image = images["wide 400x600"]
    model = upstream_sam2.build_sam2_nano()
    single = reference(model, image)
    with upstream.float64():
        exact = reference(upstream.double(model), image)
    prompts = {key: np.array(value, np.float64) for key, value in CLICKS.items()}
    prompts["point_labels"] = prompts["point_labels"].astype(np.int32)
    for isa in parity.isas:
        records = testing.trace(str(CHECKPOINT), image, isa=isa, **prompts)
        ours = {path: plain(value) for path, value in records}
        parity.trace(ours, exact, single, required=exact)


# ---------------------------------------------------------------- clips


def crossing(count, hw=(180, 240)):
    """Frames of a disc that passes behind a pillar, and a square that comes the other way."""
    height, width = hw
    y, x = np.mgrid[:height, :width]
    ground = np.stack([90 + 20 * np.sin(x / 9), 110 + 15 * np.cos(y / 7), 80 + (x + y) / 8], -1)
    frames = []
    for t in range(count):
        frame = ground.copy()
        frame[(x - 30 - 18 * t) ** 2 + (y - 60) ** 2 < 20**2] = (230, 60, 40)
        frame[(abs(x - 200 + 12 * t) < 16) & (abs(y - 140) < 18)] = (50, 90, 220)
        frame[(abs(x - 120) < 24) & (y < 100)] = (205, 200, 190)
        frames.append(frame.astype(np.uint8))
    return np.stack(frames)


STEPS = [
    ("points", 0, "disc", [[30, 60]], [1]),
    ("box", 0, "square", [184, 122, 216, 158]),
    ("track", {}),
    ("remove", "square"),
    ("points", 8, "disc", [[174, 60]], [1]),
    ("track", {"start_frame": 8}),
    ("track", {"start_frame": 1, "reverse": True}),
]


@pytest.mark.slow
def test_clips(parity):
    """Two objects, one of them hidden for a while, then removed; a correction; backwards."""
    predictor = upstream_video.build_nano(add_all_frames_to_correct_as_cond=True)
    model = sam_rlx.load_model(CHECKPOINT)
    found = upstream_video.check(parity, model, predictor, crossing(10), STEPS)
    tracked = found[2:12]  # more frames than the memory holds
    areas = [int(frame.masks["disc"].sum()) for frame in tracked]
    assert min(areas[:3]) > 900
    assert areas[5] == 0
    assert min(areas[8:]) > 900
    assert all(frame.masks["square"].sum() > 900 for frame in tracked)
