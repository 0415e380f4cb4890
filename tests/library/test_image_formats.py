"""Which formats of images are read, and what is lost of them: no file starts a program."""

from __future__ import annotations

import subprocess
import warnings
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import sam_rlx
from PIL import Image, ImageFile
from sam_rlx import io


@pytest.mark.parametrize("kind", ["rgb48le", "rgba64le"])
def test_16_bits_of_jpeg_2000_are_told(tmp_path: Path, kind: str) -> None:
    """Pillow keeps the upper 8 bits of two, three and four colours."""
    encoder = av.CodecContext.create("jpeg2000", "w")
    encoder.width, encoder.height, encoder.pix_fmt = 32, 24, kind
    encoder.time_base = Fraction(1, 25)
    for highest in (4000, 65535):
        frame = av.VideoFrame(32, 24, kind)
        row = frame.planes[0].line_size // 2
        values = np.linspace(0, highest, 24 * row).astype(np.uint16)
        frame.planes[0].update(values.tobytes())
        path = tmp_path / f"{highest}.jp2"
        path.write_bytes(b"".join(bytes(packet) for packet in encoder.encode(frame)))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            io.read_image(path)
        assert any("16-bit colours" in str(one.message) for one in told) == (highest == 4000)


def test_no_file_starts_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostScript under any name, also where Pillow would hand it to Ghostscript."""
    started: list[object] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: started.append(a))
    data = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    (tmp_path / "a.png").write_bytes(data)
    for read in (io.read_image, io.read_mask, io.read_image):
        with pytest.raises(sam_rlx.InvalidArgumentError, match="PostScript is a program"):
            read(tmp_path / "a.png")
    assert not started


def test_formats_that_a_user_registers_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Own(ImageFile.ImageFile):
        format = "OWN"

        def _open(self) -> None:
            self.fp.read(4)
            self._size, self._mode = (3, 2), "RGB"
            self.tile = [ImageFile._Tile("raw", (0, 0, 3, 2), 4, ("RGB", 0, 1))]

    monkeypatch.setitem(Image.OPEN, "OWN", (Own, lambda start: start.startswith(b"OWN!")))
    (tmp_path / "a.own").write_bytes(b"OWN!" + bytes(range(18)))
    np.testing.assert_array_equal(io.read_image(tmp_path / "a.own").ravel(), np.arange(18))
