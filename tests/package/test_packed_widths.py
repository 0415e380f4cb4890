"""Packed models with the widths of ViT-B, whose rows are whole blocks of 256 numbers.

The files are packed from float weights. The judge is PyTorch, with the weights that the package
`gguf` finds in them.
"""

import numpy as np
import pytest
import sam_rlx
from sam_rlx._internal.weights.gguf import conversion
from support import packed_files, tiny
from support.cases import quick

pytest.importorskip("torch", reason="needs the reference packages")
parity = pytest.importorskip("sam_rlx.parity")
pytest.importorskip("gguf")
pytestmark = pytest.mark.parity

# The widths of ViT-B; one block with windows, one global. The grid of 8 is no multiple of 3.
WIDE = tiny.SamConfig(img_size=128, depth=2, window_size=3, global_attn_indexes=(1,))
MATRICES = [
    f"image_encoder.blocks.{i}.{name}.weight"
    for i in (0, 1)
    for name in ("attn.qkv", "attn.proj", "mlp.lin1", "mlp.lin2")
]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    weights = tiny.sam_weights(WIDE, seed=5)
    path = tmp_path_factory.mktemp("wide") / "float.safetensors"
    return tiny.save_safetensors(path, weights, WIDE), weights


@pytest.mark.parametrize("kind", quick(packed_files.K_TYPES, 0))
def test_rows_of_whole_blocks(source, tmp_path, kind):
    path, weights = source
    assert all(weights[name].shape[1] % 256 == 0 for name in MATRICES)
    conversion.to_gguf(path, tmp_path / "packed.gguf", kind)
    numbers, kinds = packed_files.unpacked(tmp_path / "packed.gguf", "sam", weights)
    assert set(numbers) == set(weights)
    assert kinds[kind] >= len(MATRICES)
    assert all((numbers[name] != weights[name]).any() for name in MATRICES)
    model = sam_rlx.load_model(tmp_path / "packed.gguf")
    assert model.precision == kind
    judge = tiny.save_safetensors(tmp_path / "judge.safetensors", numbers, WIDE)
    image = np.random.default_rng(1).integers(0, 256, (90, 120, 3), np.uint8)
    report = parity.check(
        model, image, reference_checkpoint=judge, stages=["image", "point", "box"]
    )
    assert report.exact
    assert report.same, str(report)
    # The judge can tell: with one matrix as it was before it finds another model.
    numbers[MATRICES[-1]] = weights[MATRICES[-1]]
    tiny.save_safetensors(judge, numbers, WIDE)
    report = parity.check(model, image, reference_checkpoint=judge, stages=["image"])
    assert report.first_difference == "image_encoder.blocks.1"
