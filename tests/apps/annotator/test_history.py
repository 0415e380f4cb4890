"""One history over all that changes: what was undone to the start and redone is the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sam_rlx.apps.annotator import history as module
from sam_rlx.apps.annotator.history import History
from sam_rlx.apps.annotator.values import Document, Mask, Object, PackedMask
from support.edits import KEYS, Worker, project, state


@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(60, 1000), marks=pytest.mark.slow)]
)
def test_sequences_are_undone_to_the_start_and_redone_to_the_end(seeds: range) -> None:
    for seed in seeds:
        history = History(project())
        first = state(history)
        worker = Worker(history, seed)
        for _ in range(40):
            worker.do()
        _all(history, back=False)
        last = state(history)
        _all(history, back=True)
        assert state(history) == first, seed
        _all(history, back=False)
        assert history.undone == []
        assert state(history) == last, seed


def _all(history: History, back: bool) -> None:
    """Undo, or redo, from each item in turn until nothing is left."""
    while any((history.undo if back else history.redo)(key) for key in KEYS):
        pass


@pytest.mark.parametrize("seed", range(10))
def test_each_undo_and_redo_is_exact(seed: int) -> None:
    """Of one item: each state on the way back is one of the way there."""
    history = History(project())
    worker = Worker(history, seed)
    worker.key = lambda: KEYS[2]  # type: ignore[method-assign]
    seen = [state(history)]
    for _ in range(60):
        record = worker.click() if worker.random.uniform() < 0.6 else worker.track()
        if record is not None:
            seen.append(state(history))
    for wanted in reversed(seen[:-1]):
        assert history.undo(KEYS[2])
        assert state(history) == wanted
    assert history.undo(KEYS[2]) is None
    for wanted in seen[1:]:
        assert history.redo(KEYS[2])
        assert state(history) == wanted


def _object(number: int, name: str = "a") -> Object:
    mask = Mask(PackedMask((4, 4), (0, 0, 4, 4), b"\xf0" * 4), 1.0, "hand")
    return Object(number, name, (0, 0, 0), masks={0: mask})


def put(history: History, key: str, document: Document, gesture: str = "click") -> None:
    assert history.record({key: document}, gesture, gesture)


def test_undo_of_a_view_leaves_other_items() -> None:
    history = History(project())
    put(history, "aaaa", Document().with_objects(_object(1)))
    put(history, "bbbb", Document().with_objects(_object(1)))
    assert history.undo("aaaa")
    assert not history.document("aaaa").objects
    assert history.document("bbbb").objects
    assert history.undo("aaaa") is None
    assert history.redo("aaaa")
    assert history.document("aaaa").objects


def test_what_builds_on_an_edit_of_several_items_goes_first() -> None:
    history = History(project())
    both = {key: Document().with_objects(_object(1)) for key in ("aaaa", "bbbb")}
    assert history.record(both, "load", "load")
    changed = history.document("bbbb").with_objects(_object(1, "b"))
    put(history, "bbbb", changed, "rename")
    edit = history.next_undo("aaaa")
    assert edit is not None
    assert edit.gesture == "rename"
    history.undo("aaaa")
    history.undo("aaaa")
    assert state(history) == state(History(project()))


@pytest.mark.parametrize("seed", range(3))
def test_an_object_as_it_was(seed: int) -> None:
    """What it was after each record; what was undone since then counts as never done."""
    history = History(project())
    worker = Worker(history, seed)
    work = (worker.click, worker.click, worker.paint, worker.delete, worker.merge, worker.split)
    seen: list[tuple[int, dict[str, Document]]] = []
    for _ in range(40):
        work[int(worker.random.integers(len(work)))]()
        seen.append((history.n, dict(history.documents)))

    def check() -> None:
        for n, documents in seen:
            for key, document in documents.items():
                for number in range(1, document.next_number + 1):
                    assert history.object_at(key, number, n) == document.get(number)

    check()
    assert worker.click()
    assert worker.click()
    check()
    (key,) = history.edits[-1].documents
    assert history.undo(key)
    check()


def test_numbers_are_never_used_again() -> None:
    history = History(project())
    put(history, "aaaa", Document().with_objects(_object(1)))
    history.undo("aaaa")
    assert history.document("aaaa").next_number == 2
    put(history, "aaaa", history.document("aaaa").with_objects(_object(2)))
    assert history.next_redo("aaaa") is None
    assert [one.number for one in history.document("aaaa").objects] == [2]


def test_frames_that_come_later_belong_to_their_edit() -> None:
    history = History(project())
    key = "cccc"
    one = replace(_object(1), masks={})
    put(history, key, Document().with_objects(one))
    before = state(history)
    mask = _object(1).masks[0]
    edit = history.record(
        {key: history.document(key).with_objects(replace(one, masks={0: mask}))}, "track", "1"
    )
    assert edit
    by_hand = Mask(mask.packed, 0.25, "hand")
    put(history, key, history.document(key).with_objects(replace(one, masks={0: mask, 2: by_hand})))
    tracked = {0: mask, 1: mask, 2: mask}
    assert history.extend(
        edit.n, key, Document().with_objects(replace(one, masks=tracked)), "3 frames"
    )
    found = history.document(key).objects[0].masks
    assert found == {0: mask, 1: mask, 2: by_hand}
    history.undo(key)
    title = history.next_undo(key)
    assert title is not None
    assert title.title == "3 frames"
    history.undo(key)
    assert state(history) == before
    assert (
        history.extend(edit.n, key, Document().with_objects(replace(one, masks=tracked)), "4")
        is None
    )


def test_the_oldest_edits_are_forgotten_beyond_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EDITS", 5)
    history = History(project())
    for k in range(20):
        put(history, "aaaa", history.document("aaaa").with_objects(_object(1, f"{k}")))
    count = 0
    while history.undo("aaaa"):
        count += 1
    assert count == 5
    monkeypatch.setattr(module, "MAX_UNDO_BYTES", 450)
    assert history.redo("aaaa")
    put(history, "aaaa", history.document("aaaa").with_objects(_object(1, "z")))
    assert len(history.edits) == 2
