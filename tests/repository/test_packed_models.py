"""The packaged models are made of the trained ones by a command, bit for bit."""

import sys
from pathlib import Path

import pytest
from support.trained import CHECKPOINTS

pytestmark = pytest.mark.source_tree

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


def test_the_package_has_no_model_from_elsewhere(pack):
    assert {path.stem for path in pack.ASSETS.glob("*.gguf")} == set(pack.OVERRIDES)
    assert {path.stem for path in CHECKPOINTS.iterdir()} == set(pack.OVERRIDES)


def test_the_command_tells_another_file(pack, tmp_path, capsys):
    assert pack.main(["sam2-nano", "--check"]) == 0
    content = bytearray((pack.ASSETS / "sam2-nano.gguf").read_bytes())
    content[-1] ^= 1
    path = tmp_path / "sam2-nano.gguf"
    path.write_bytes(content)
    assert pack.main(["sam2-nano", "--check", "--output", str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"sam2-nano: as packed\nsam2-nano: {path} is another file\n"
    assert path.read_bytes() == content
    with pytest.raises(SystemExit):
        pack.main(["sam4-nano"])
