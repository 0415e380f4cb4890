"""The packaged models are the trained ones, packed."""

import sys
from pathlib import Path

import pytest
from support.trained import CHECKPOINTS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pack():
    sys.path.insert(0, str(ROOT))
    from training import pack

    yield pack
    sys.path.remove(str(ROOT))


@pytest.mark.parametrize("name", ["sam-nano", "sam2-nano", "sam3-nano"])
def test_the_package_has_what_was_trained(pack, tmp_path, name):
    assert pack.TRAINED == CHECKPOINTS
    path = tmp_path / f"{name}.gguf"
    assert pack.pack(name, path) <= 8_000_000
    assert path.read_bytes() == (pack.ASSETS / f"{name}.gguf").read_bytes()
