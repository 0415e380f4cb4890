"""SAM 3.1's buckets: attention, masks and memory, beside a reference in float64."""

import numpy as np
import pytest
from support.cases import quick

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
reference = pytest.importorskip("support.multiplex_reference", reason="needs sam3")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity

SIZES = reference.Sizes()
# Another number of slots, one head of another width, a map whose side is odd.
OTHER = reference.Sizes(
    d_model=32, grid=5, slots=3, num_heads=2, num_layers=1, dim_feedforward=48, fuser_layers=1
)
ALL_SIZES = pytest.mark.parametrize("sizes", quick([SIZES, OTHER], 0))


class Held(torch.nn.Module):
    """A tracker under the name that it has in a file."""

    def __init__(self, sizes):
        super().__init__()
        self.model = reference.Tracker(sizes)


@pytest.mark.parametrize("maps", [1, 3])
@pytest.mark.parametrize("pointers", [2, 21])
@ALL_SIZES
def test_attention(parity, sizes, maps, pointers):
    def fuse(module, map, pos, images, features, tpos, memory_pos, pointers, pointer_pos):
        positions = (memory_pos[None] + tpos[:, None]).flatten(0, 1)
        return module(
            map[None],
            pos[None],
            images.flatten(0, 1)[None],
            torch.cat([features.flatten(0, 1), pointers])[None],
            torch.cat([positions, pointer_pos])[None],
        )[0]

    n, width = sizes.grid**2, sizes.d_model
    parity.check(
        "sam3.MultiplexAttention",
        reference.Attention(sizes),
        sizes.config,
        adapt=fuse,
        map=(n, width),
        pos=(n, width),
        images=(maps, n, width),
        features=(maps, n, width),
        tpos=(maps, width),
        memory_pos=(n, width),
        pointers=(pointers, width),
        pointer_pos=(pointers, width),
    )


@ALL_SIZES
def test_mask_decoder(parity, sizes):
    def decode(module, map, image_pe, level0, level1, slot_embed):
        level0, level1, map, image_pe = (
            x.permute(2, 0, 1)[None] for x in (level0, level1, map, image_pe)
        )
        s0, s1 = module.conv_s0(level0), module.conv_s1(level1)
        masks, ious, tokens, scores = module(map, image_pe, s0, s1, slot_embed[None])
        return masks[0], ious[0], tokens[0], scores[0]

    g, width = sizes.grid, sizes.d_model
    parity.check(
        "sam3.MultiplexMaskDecoder",
        reference.BucketDecoder(sizes),
        sizes.config,
        adapt=decode,
        map=(g, g, width),
        image_pe=(g, g, width),
        level0=(4 * g, 4 * g, width),
        level1=(2 * g, 2 * g, width),
        slot_embed=(sizes.slots, width),
    )


# Slots, the side of the masks in sixteenths of the map, scores, and what was shown on the frame.
MEMORIES = {
    "one": ([0], 16, [3.0], [True]),
    "low resolution": ([2, 0], 4, [1.5, -2.0], [False, True]),
    "another side": ([1], 11, [0.0], [False]),
}


@pytest.mark.parametrize("case", MEMORIES)
@ALL_SIZES
def test_memory(parity, sizes, case):
    slots, side, scores, shown = MEMORIES[case]

    def remember(module, pix_feat, masks, slots, scores, is_conditioning):
        map_ = pix_feat.permute(2, 0, 1)
        memory = module.model.remember(map_, slots, masks, scores, is_conditioning)
        return memory.permute(1, 2, 0)

    g = sizes.grid
    parity.check(
        "sam3.BucketMemory",
        Held(sizes),
        sizes.config,
        adapt=remember,
        pix_feat=(g, g, sizes.d_model),
        masks=(len(slots), side * g, side * g),
        slots=slots,
        scores=np.array(scores, np.float32),
        is_conditioning=shown,
    )


# Frames with a memory, those with prompts, the frame, whether backwards, slots with an object.
STEPS = {
    "after the first frame": ([0], [0], 1, False, [0]),
    "a long past": ([*range(17)], [0, 9], 17, False, [0, 1, 2]),
    "many prompts": ([0, 2, 4, 6, 8, 10, 11], [0, 2, 4, 6, 8, 10], 12, False, [1]),
    "backwards": ([12, 11, 10, 2], [12, 2], 9, True, [2, 0]),
}


@pytest.mark.parametrize("case", STEPS)
@ALL_SIZES
def test_step(parity, sizes, case):
    frames, prompted, frame, reverse, slots = STEPS[case]
    num_frames = 20

    def step(module, map, level0, level1, pos, images, features, pointers, **_):
        model, past = module.model, reference.Past()
        for i, t in enumerate(frames):
            left = reference.Left(
                images[i].permute(2, 0, 1), features[i].permute(2, 0, 1), pointers[i]
            )
            (past.prompted if t in prompted else past.tracked)[t] = left
        conditioned = model.condition(map.permute(2, 0, 1), frame, num_frames, past, reverse)
        levels = [x.permute(2, 0, 1)[None] for x in (level0, level1)]
        out = model.decode(conditioned, levels, slots)
        return out.masks, out.pointers, out.ious, out.scores

    g, width, count = sizes.grid, sizes.d_model, len(frames)
    pos = reference.sine(g, width, torch.zeros(1)).reshape(g, g, width).numpy()
    parity.check(
        "sam3.BucketStep",
        Held(sizes),
        sizes.config,
        adapt=step,
        map=(g, g, width),
        level0=(4 * g, 4 * g, width // 8),
        level1=(2 * g, 2 * g, width // 4),
        pos=pos.astype(np.float32),
        images=(count, g, g, width),
        features=(count, g, g, width),
        pointers=(count, sizes.slots, width),
        frames=frames,
        prompted=prompted,
        frame=frame,
        num_frames=num_frames,
        reverse=reverse,
        slots=slots,
    )
