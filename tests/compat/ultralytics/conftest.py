import numpy as np
import pytest
from sam_rlx.compat.ultralytics import SAM, arguments
from support.discs import disc
from support.half_size import half_size


@pytest.fixture(scope="session")
def image():
    """Two discs, RGB."""
    pixels = disc(40, 40).copy()
    other = disc(115, 75) != disc(-100, -100)
    pixels[other] = disc(115, 75)[other]
    return pixels


@pytest.fixture(scope="session")
def bgr(image):
    return np.ascontiguousarray(image[:, :, ::-1])


@pytest.fixture(scope="session")
def sam():
    return SAM(half_size("sam-nano"))


@pytest.fixture(scope="session")
def clip(tmp_path_factory):
    """A clip of a disc that moves to the right, 160 x 120."""
    pytest.importorskip("av")
    from sam_rlx._internal.media.clip_writer import ClipWriter

    path = tmp_path_factory.mktemp("clip") / "disc.mp4"
    with ClipWriter(path, 10) as writer:
        for index in range(4):
            writer.add(disc(40 + 6 * index, 60, size=(160, 120)))
    return path


@pytest.fixture(autouse=True)
def untold(monkeypatch):
    """Each test gets the warnings that a process gets once."""
    monkeypatch.setattr(arguments, "_told", set())
