"""Calls of processors and models of clips in many forms: what transformers gives, or refuses."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from support import transformers_clip_forms as forms

STORED = json.loads(forms.STORED.read_text(encoding="utf-8"))
MODEL = "Sam2VideoModel"


def names(group):
    return [pytest.param(form, id=form) for form in forms.lines(group)]


@pytest.fixture(scope="module")
def processor():
    """Ours, small."""
    from sam_rlx.compat.transformers.image_processors import Sam2ImageProcessor
    from sam_rlx.compat.transformers.video_processing import Sam2VideoProcessor
    from sam_rlx.compat.transformers.video_processors import Sam2VideoVideoProcessor

    return forms.processor(Sam2ImageProcessor, Sam2VideoVideoProcessor, Sam2VideoProcessor)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Ours, of a folder that transformers writes."""
    pytest.importorskip("transformers", reason="needs transformers")
    from support import transformers_clips as clips

    folder = clips.save(clips.theirs(MODEL).model, tmp_path_factory.mktemp("clips") / "folder")
    return clips.ours(MODEL, folder, bfloat16_memory=True).model


@pytest.mark.parametrize("group", forms.FORMS)
def test_the_outcomes_of_all_forms_are_stored(group):
    assert list(STORED[group]) == forms.lines(group)


@pytest.mark.parametrize("form", [*names("session"), *names("prompts")])
def test_sessions_and_prompts(processor, form):
    if "S(t(" in form:
        pytest.importorskip("torch", reason="needs PyTorch")
    group = "session" if form.startswith("S") else "prompts"
    found = forms.run(form, processor)
    assert not (told := forms.difference(form, found, STORED[group][form])), told


@pytest.mark.parametrize("form", names("model"))
def test_models(processor, model, form):
    found = json.loads(json.dumps(forms.run(form, processor, model)))
    assert not (told := forms.difference(form, found, STORED["model"][form])), told


def test_frames_are_kept_as_bytes(processor):
    """At 1024 a clip of 180 frames takes 0.57 GB; floats would take 2.3."""
    frames = np.random.default_rng(1).integers(0, 256, (3, 75, 100, 3), np.uint8)
    session = processor.init_video_session(frames)
    assert session.processed_frames.nbytes == 3 * 128 * 128 * 3
    assert np.asarray(session.get_frame(2)).dtype == np.float32
    session.add_new_frame(session.get_frame(0))
    assert (session.num_frames, session.processed_frames.nbytes) == (4, 128 * 128 * (9 + 12))


@pytest.mark.parity
def test_what_is_stored_is_what_transformers_gives():
    pytest.importorskip("transformers", reason="needs transformers")
    from support import upstream

    upstream.prepare()
    assert "torch" in sys.modules
    for group, found in json.loads(json.dumps(forms.theirs())).items():
        for form, outcome in found.items():
            kept = STORED[group][form]
            expected = kept.get("error", kept)
            assert (outcome["error"][:1] if "error" in outcome else outcome) == expected, form
