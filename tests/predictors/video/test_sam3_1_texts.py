"""Everything that a text names through a video of SAM 3.1, beside Meta's whole model.

Its code is on no package index: what it gives is recorded, see `data/make_sam3_1_texts.py`.
"""

import pytest
import sam_rlx
from support.cases import quick

pytest.importorskip("support.upstream", reason="needs the reference packages")
texts = pytest.importorskip("support.sam3_1_texts")
oracle = pytest.importorskip("support.upstream_sam3_1_masklets", reason="needs sam3")
sessions = pytest.importorskip("support.multiplex_sessions", reason="needs sam3")
text_clips = pytest.importorskip("support.text_clips", reason="needs sam3")
pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return a function that gives the model of a seed."""
    made = {}

    def get(seed):
        if seed not in made:
            path = tmp_path_factory.mktemp("sam3_1_texts") / "tiny.safetensors"
            made[seed] = sam_rlx.load_model(sessions.save(path, oracle.weights(seed)))
        return made[seed]

    return get


@pytest.mark.parametrize("name", quick(list(texts.CASES), 0, 3))
def test_session(models, name):
    case = texts.CASES[name]
    session = sam_rlx.VideoPredictor(
        models(case.seed), case.clip(), resize="integer", history=None, text_options=case.given
    )
    texts.hold(text_clips.play(session, case.steps, texts.HW), texts.read(name))
