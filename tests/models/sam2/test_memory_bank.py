"""Which frames a frame attends to: against upstream's own function, in many situations."""

import numpy as np
import pytest
from support import tiny

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam2 = pytest.importorskip("support.upstream_sam2", reason="needs sam2")
pytestmark = pytest.mark.parity

TINY = tiny.Sam2HeadsConfig(grid=1, num_layers=1, dim_feedforward=8)


class Recorder:
    """Stands for the memory attention and keeps what it is given."""

    def __call__(self, curr, curr_pos, memory, memory_pos, num_obj_ptr_tokens):
        self.memory = memory[:, 0, 0].numpy().copy()
        self.pos = memory_pos[:, 0, 0].numpy().copy()
        self.pointer_tokens = num_obj_ptr_tokens
        return curr[0]


def chosen_by_upstream(module, case, monkeypatch):
    """Frames, conditioning or not, with the rows and distances that upstream gives them.

    Features and pointers hold the number of their frame, plus 1000 when the frame has prompts; the
    temporal table holds its row.
    """
    torch = upstream.torch
    recorder, distances = Recorder(), []
    del module.memory_attention
    module.memory_attention = recorder
    width, c = TINY.mem_dim, TINY.d_model
    table = torch.arange(module.num_maskmem, dtype=torch.float32)[:, None, None, None]
    module.maskmem_tpos_enc.data = table.expand(-1, 1, 1, width).clone()

    def sine(positions, dim):
        distances.extend(positions.tolist())
        return torch.zeros(len(positions), dim)

    monkeypatch.setattr(upstream.sam2.base, "get_1d_sine_pe", sine)

    def output(value):
        return {
            "maskmem_features": torch.full((1, width, 1, 1), float(value)),
            "maskmem_pos_enc": [torch.zeros(1, width, 1, 1)],
            "obj_ptr": torch.full((1, c), float(value)),
        }

    with torch.no_grad():
        module._prepare_memory_conditioned_features(
            frame_idx=case["frame_idx"],
            is_init_cond_frame=False,
            current_vision_feats=[torch.zeros(1, 1, c)],
            current_vision_pos_embeds=[torch.zeros(1, 1, c)],
            feat_sizes=[(1, 1)],
            output_dict={
                "cond_frame_outputs": {t: output(t + 1000) for t in case["cond"]},
                "non_cond_frame_outputs": {t: output(t) for t in case["non_cond"]},
            },
            num_frames=case["num_frames"],
            track_in_reverse=case["reverse"],
        )
    tokens = recorder.pointer_tokens
    maps = len(recorder.memory) - tokens
    per_pointer = c // width

    def frames(values):
        return [(int(v) % 1000, v >= 1000) for v in values]

    return (
        [
            (*frame, round(row))
            for frame, row in zip(
                frames(recorder.memory[:maps]), recorder.pos[:maps].tolist(), strict=True
            )
        ],
        frames(recorder.memory[maps::per_pointer]),
        distances,
    )


def random_case(random):
    num_frames = int(random.integers(1, 40))
    frames = random.permutation(num_frames)
    cond = frames[: random.integers(1, min(6, num_frames) + 1)].tolist()
    rest = frames[len(cond) :]
    tracked = np.sort(rest[random.random(len(rest)) < random.choice([0.2, 0.8, 1.0])])
    non_cond = tracked.tolist()
    return {
        "frame_idx": int(random.integers(num_frames)),
        "num_frames": num_frames,
        "reverse": bool(random.integers(2)),
        "cond": cond,
        "non_cond": non_cond,
    }


SWITCHES = [
    {},
    {"max_cond_frames_in_attn": 2},
    {"max_cond_frames_in_attn": 4, "memory_temporal_stride_for_eval": 3},
    {"memory_temporal_stride_for_eval": 5, "use_signed_tpos_enc_to_obj_ptrs": False},
    {"only_obj_ptrs_in_the_past_for_eval": False, "max_obj_ptrs_in_encoder": 4},
    {"num_maskmem": 3, "max_cond_frames_in_attn": 3},
]


@pytest.mark.parametrize("switches", SWITCHES, ids=lambda s: ",".join(s) or "released")
def test_random_situations(testing, monkeypatch, switches):
    module = upstream_sam2.build_sam2_heads(TINY, **switches)
    random = np.random.default_rng(len(str(switches)))
    met = set()
    for _ in range(150):
        case = random_case(random)
        if case["num_frames"] == 1:
            continue
        maps, pointers, distances = chosen_by_upstream(module, case, monkeypatch)
        ours = testing.select_memory(config=switches, **case)
        assert ours[0] == maps, case
        assert [p[:2] for p in ours[1]] == pointers, case
        np.testing.assert_allclose(
            [p[2] / ours[2] for p in ours[1]], distances, rtol=1e-6, err_msg=str(case)
        )
        met.update({("reverse", case["reverse"]), ("no pointers", not pointers)})
        met.update(("conditioning", p[1]) for p in pointers)
        met.add(("negative distance", any(d < 0 for d in distances)))
    assert ("reverse", True) in met
    assert ("reverse", False) in met
    assert ("conditioning", True) in met
    assert ("conditioning", False) in met
    if switches.get("only_obj_ptrs_in_the_past_for_eval", True):
        assert ("no pointers", True) in met
    else:
        assert ("negative distance", True) in met


def test_steady_frame(testing):
    maps, pointers, scale = testing.select_memory(
        config={}, frame_idx=20, num_frames=50, reverse=False, cond=[0], non_cond=[*range(1, 20)]
    )
    assert maps == [(0, True, 6)] + [(20 - d, False, d - 1) for d in (6, 5, 4, 3, 2, 1)]
    assert pointers == [(0, True, 20)] + [(20 - d, False, d) for d in range(1, 16)]
    assert scale == 15


def test_video_of_one_frame(testing):
    """Upstream divides by 0 here."""
    maps, pointers, scale = testing.select_memory(
        config={}, frame_idx=0, num_frames=1, reverse=False, cond=[0], non_cond=[]
    )
    assert (maps, pointers, scale) == ([(0, True, 6)], [(0, True, 0)], 1)


def test_prompt_only_in_the_future(testing):
    """No pointer: upstream's CPU path fails in such a frame, for a reason of types."""
    maps, pointers, _ = testing.select_memory(
        config={}, frame_idx=2, num_frames=9, reverse=False, cond=[5], non_cond=[]
    )
    assert (maps, pointers) == ([(5, True, 6)], [])


def test_limit_of_conditioning_frames(testing):
    with pytest.raises(ValueError, match="max_cond_frames_in_attn: expected -1 or at least 2"):
        testing.select_memory(
            config={"max_cond_frames_in_attn": 1},
            frame_idx=2,
            num_frames=9,
            reverse=False,
            cond=[5, 0],
            non_cond=[],
        )
