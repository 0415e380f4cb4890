"""A stream without end: sam3-nano follows a text on pushed frames and forgets what left."""

import numpy as np
import pytest
import sam_rlx

STAYS, LEAVES = 0, 1
SEEN, HIDDEN = 6, 7
RED = (215, 40, 35)


def paint(t):
    """One red disc that stays, and one that is hidden for a while."""
    y, x = np.mgrid[:240, :320]
    frame = np.stack([120 + 14 * np.sin(x / 7 + y / 13)] * 3, -1)
    frame[np.hypot(x - 200, y - 180) < 22] = RED
    if not SEEN <= t < SEEN + HIDDEN:
        frame[np.hypot(x - 60 - 8 * (t % SEEN), y - 60) < 25] = RED
    return frame.astype(np.uint8)


@pytest.fixture(scope="module")
def follow():
    model = sam_rlx.load_model("sam3-nano")

    def run(forget_unseen_after, obj_id=None):
        options = {"forget_unseen_after": forget_unseen_after}
        session = sam_rlx.VideoPredictor(model, text_options=options).add_text("red circle")
        frames, alive = [], []
        for t in range(SEEN + HIDDEN + 2):
            frames.append(session.push(paint(t)))
            alive.append(session.obj_ids)
            if t == 0 and obj_id is not None:
                session.add_prompt(0, obj_id, point_coords=[[62, 62]], point_labels=[1])
        return session, frames, alive

    return run


@pytest.mark.parametrize("most", [0, HIDDEN])
def test_an_object_that_returns_in_time_keeps_its_name(follow, most):
    _, frames, alive = follow(most)
    assert alive == [[STAYS, LEAVES]] * len(alive)
    assert sorted(frames[SEEN - 1].masks) == sorted(frames[-1].masks) == [STAYS, LEAVES]
    assert all(list(f.masks) == [STAYS] for f in frames[SEEN : SEEN + HIDDEN])


def test_an_object_that_stays_away_is_forgotten(follow):
    """It gets a new name; the one that stays has the masks that it has without forgetting."""
    most = 4
    _, kept, _ = follow(0)
    session, frames, alive = follow(most)
    assert alive[SEEN + most - 1] == [STAYS, LEAVES]
    assert alive[SEEN + most] == [STAYS]
    assert alive[-1] == [STAYS, LEAVES + 1]
    for frame, expected in zip(frames, kept, strict=True):
        assert np.array_equal(frame.masks[STAYS], expected.masks[STAYS])
    assert set(session.obj_ids) == {STAYS, LEAVES + 1}


def test_a_corrected_object_is_forgotten_too(follow):
    session, _, alive = follow(2, obj_id=LEAVES)
    assert alive[SEEN - 1] == [STAYS, LEAVES]
    assert alive[SEEN + 2] == [STAYS]
    assert session._core.texts[0].refined == []
