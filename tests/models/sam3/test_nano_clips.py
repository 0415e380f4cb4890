"""sam3-nano following a text through a clip, beside upstream with the same weights."""

import numpy as np
import pytest
import sam_rlx
from support.trained import trained

pytest.importorskip("support.upstream", reason="needs the reference packages")
text_clips = pytest.importorskip("support.text_clips", reason="needs sam3")
oracle = pytest.importorskip("support.upstream_sam3_masklets", reason="needs sam3")
pytestmark = pytest.mark.parity

RED, BLUE = (215, 40, 35), (40, 60, 210)
LEAVES, CROSSES, RETURNS, ENTERS = range(4)
# The released values, which wait for 15 frames before they show an object.
RELEASED = {
    "score_threshold_detection": 0.5,
    "det_nms_thresh": 0.1,
    "assoc_iou_thresh": 0.1,
    "trk_assoc_iou_thresh": 0.5,
    "new_det_thresh": 0.7,
    "hotstart_delay": 15,
    "hotstart_unmatch_thresh": 8,
    "hotstart_dup_thresh": 8,
    "fill_hole_area": 16,
    "recondition_every_nth_frame": 16,
}


def paint(count=20, hw=(240, 320)):
    """Five discs, four of them red, and a pillar that one of these passes behind."""
    height, width = hw
    y, x = np.mgrid[:height, :width]
    ground = np.stack([120 + 14 * np.sin(x / 7 + y / 13)] * 3, -1)
    light = (1.1 - 0.25 * (x + y) / (height + width))[..., None]
    frames = []
    for t in range(count):
        frame = ground.copy()
        for u, v, radius, colour in (
            (30 + 11 * t, 60, 25, RED),  # is hidden, and returns
            (280 - 12 * t, 190, 27, RED),  # these two cross
            (40 + 12 * t, 200, 20, BLUE),
            (110 - 16 * t, 125, 18, RED),  # leaves
            (370 - 9 * t, 130, 20, RED),  # enters
        ):
            cover = np.clip(radius - np.hypot(x - u, y - v) + 0.5, 0, 1)[..., None]
            frame += cover * (np.array(colour) - frame)
        frame[(abs(x - 150) < 28) & (y < 95)] = (205, 200, 190)
        frames.append((frame * light).clip(0, 255).astype(np.uint8))
    return np.stack(frames)


@pytest.fixture(scope="module")
def models():
    return sam_rlx.load_model(trained("sam3-nano")), oracle.nano_detector()


def shown(frames, obj):
    """Frames in which an object is to be seen."""
    return [f.frame_index for f in frames if obj in f.masks]


@pytest.mark.slow
def test_objects_enter_leave_cross_and_return(models):
    steps = [("text", 0, "red circle"), ("track", {"start_frame_idx": 0})]
    found = text_clips.check(*models, paint(), steps, RELEASED)[1:]
    assert shown(found, LEAVES) == list(range(9))
    assert shown(found, CROSSES) == list(range(20))
    assert {9, 10, 11} - set(shown(found, RETURNS)) == {11}
    assert shown(found, RETURNS)[-1] == 19
    assert shown(found, ENTERS) == list(range(6, 20))


@pytest.mark.slow
def test_a_removed_object(models):
    """It is gone, the others stay; a click then corrects one of them."""
    steps = [
        ("text", 4, "red circle"),
        ("track", {"start_frame_idx": 4}),
        ("remove", LEAVES),
        ("points", 12, CROSSES, [[0.425, 0.79], [0.55, 0.85]], [1, 0]),
        ("track", {"start_frame_idx": 12}),
    ]
    found = text_clips.check(*models, paint(), steps, RELEASED)
    before, after = found[:17], found[17:]
    assert shown(before, LEAVES)
    assert not shown(after, LEAVES)
    assert shown(after, CROSSES) == [12, *range(12, 20)]
    assert shown(after, ENTERS)[-1] == 19
