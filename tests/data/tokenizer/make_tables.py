"""Write the tables of SAM 3's tokenizer: ``python <this file> bpe_simple_vocab_16e6.txt.gz``.

The argument is the vocabulary of OpenAI's CLIP (MIT licence), which the package open_clip_torch
carries. Needs the package ``regex``, with which upstream splits words.
"""

import gzip
import hashlib
import re
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
MERGES = ROOT / "python" / "sam_rlx" / "assets" / "clip-merges.bin"
RANGES = ROOT / "cpp" / "models" / "sam3" / "unicode_ranges.inl"
SHA256 = "924691ac288e54409236115652ad4aa250f48203de50a9e4722a6ecd48d6804a"
NUM_MERGES = 48894  # of the file's 262,144, those that the vocabulary of 49,408 ids has


def _alphabet() -> list[str]:
    """Return the characters that stand for bytes in the file, in the order of their ids."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [chr(byte) for byte in visible] + [chr(0x100 + i) for i in range(256 - len(visible))]


def merges(vocabulary: bytes) -> bytes:
    """Return the ids of both parts of each merge, little-endian 16-bit numbers."""
    assert hashlib.sha256(vocabulary).hexdigest() == SHA256
    lines = gzip.decompress(vocabulary).decode("utf-8").split("\n")[1 : NUM_MERGES + 1]
    symbols = _alphabet()
    symbols += [f"{symbol}</w>" for symbol in symbols]
    pairs = [line.split() for line in lines]
    symbols += ["".join(pair) for pair in pairs]
    ids = {symbol: index for index, symbol in enumerate(symbols)}
    assert len(ids) == len(symbols) == 512 + NUM_MERGES
    return b"".join(struct.pack("<2H", *(ids[part] for part in pair)) for pair in pairs)


def ranges(pattern: str) -> list[tuple[int, int]]:
    """Return the runs of code points that the package regex matches."""
    import regex

    every = "".join(map(chr, range(0x110000)))
    return [(m.start(), m.end() - 1) for m in regex.finditer(f"{pattern}+", every)]


def ranges_file() -> str:
    """Return the C++ tables of letters and numbers."""
    lines = ["// Written by tests/data/tokenizer/make_tables.py: code points, first and last."]
    for name, pattern in (("kLetters", r"\p{L}"), ("kNumbers", r"\p{N}")):
        entries = "".join(f"{{{a:#x}, {b:#x}}}, " for a, b in ranges(pattern))
        rows = re.findall(r".{1,94}(?<=\},) ", entries)
        lines += [f"constexpr CodeRange {name}[] = {{", *(f"    {row.rstrip()}" for row in rows)]
        lines.append("};")
    return "// clang-format off\n" + "\n".join(lines) + "\n// clang-format on\n"


if __name__ == "__main__":
    MERGES.write_bytes(merges(Path(sys.argv[1]).read_bytes()))
    RANGES.write_text(ranges_file())
