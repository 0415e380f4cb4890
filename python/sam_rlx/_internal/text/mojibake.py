"""Repair of text that was decoded with the wrong encoding, as SAM 3's tokenizer expects it.

Upstream cleans prompts with the package ``ftfy``; this gives what `fix_encoding` of ftfy 6.3
gives. The classes of characters and the sequences that betray a wrong encoding are ftfy's.
"""

import re
from functools import cache

# Classes of characters that occur in UTF-8 that was read as a one-byte encoding: ranges of code
# points, hexadecimal.
_CLASSES = {
    "c1": "80-9F",
    "common": "A0 AD B4 B7 2013-2015 2019 2026",
    "bad": (
        "A4 A6 A8 AA AC AF B8 BA 192 2C6-2C7 2D8 2DB-2DC 2020-2021 2030 2310 25CA FFFD"
    ),  # hardly ever meant
    "law": "A7 B6",
    "currency": "A2-A3 A5 20A7 20AC",
    "open": "A1 A9 AB BF 384-385 2018 201A 201C 201E 2022 2039 F8FF",
    "close": "AE BB 2DD 201D 203A 2122",
    "number": (
        "B1-B3 B5 B9 BC-BE D7 F7 2044 2116 2202 2206 220F 2211 221A 221E 2229 222B 2248 2260-2261 "
        "2264-2265"
    ),
    "face": "B0 D2-D6 D9-DC F2-F6 F8-FC 14C 150 16A 172",  # of emoticons
    "upper": (
        "C0-D1 D8 DC-DD 100 102 104 106 10C 10E 110 112 116 118 11A 11E 122 12A 130 136 139 13B "
        "13D 141 143 145 147 152 158 15A 15E 160 162 164 16E 170 178-179 17B 17D 490"
    ),
    "lower": (
        "DF-F1 FC 101 103 105 107 10D 10F 111 113 117 119 11B 11F 123 12B 12F 137 13A 13C 13E 142 "
        "153 155 15B 15F 161 165 17A 17C 17E 491 FB01-FB02"
    ),
    "word_upper": "DE 386 388-38A 38C 38E-38F 391-3AB 401-42F",
    "word_lower": "3AC-3C9 430-45F",
    "box": "2502 250C 2510 2518 251C 2524 252C 253C 2550-256C 2580 2584 2588 258C 2590-2593",
    "az": "61-7A",
    "AZaz": "41-5A 61-7A",
}

# Neighbours that betray a wrong encoding: one word for each character, with classes, or code
# points in hexadecimal behind "u", joined by "+". "=" stands before a piece of a pattern.
_SEQUENCES = (
    "c1",
    "bad+lower+upper+box+open+close+currency+number+law bad",
    "bad lower+upper+box+open+close+currency+number+law",
    "AZaz word_lower+word_upper bad",
    "lower+word_lower+box+close+currency+number upper",
    "box+close+currency+number lower",
    "lower+box+close currency",
    r"=\s upper currency",
    "upper+box number+law",
    "lower+upper+box+currency+close open number",
    "lower+upper+currency+number+box+law close open",
    "currency+number+box open",
    "az upper open+currency",
    "box face",
    "lower+upper+currency+number+open+close+law box",
    "box close",
    r"lower+upper open+close =\w",
    "u152+u153 =[^A-Za-z]",
    "upper uB0",
    # Windows-1252: Latin letters, multiplication signs, Arabic and South Asian letters
    "uC2+uC3+uCE+uD0 "
    "open+close+u20AC+u153+u160+u161+uA2+uA3+u178+u17E+uA0+uAD+uAE+uB0+uB7+u2013+u2014+uB4",
    "uD7 uB2+uB3",
    "uD8+uD9 common+currency+bad+number+open+u178+u160+uAE+uB0+uB5+uBB"
    " uD8+uD9 common+currency+bad+number+open+u178+u160+uAE+uB0+uB5+uBB",
    "uE0 uB2+uB5+uB9+uBC+uBD+uBE",
    "uC3 uA0+uA1",
    r"az =\s? uC2+uC3 u20",
    "=^ uC2+uC3 u20",
    "az+close+u2E+u2C+u3F+u21 uC2 open+close+u20",
    # MacRoman
    "u221A uB1+u2202+u2020+u2260+uAE+u2122+uB4+u2264+u2265+uA5+uB5+uF8",
    "u2248 uB0+uA2",
    "u201A uC4 uEC+uEE+uEF+uF2+uF4+uFA+uF9+uFB+u2020+uB0+uA2+u3C0",
    "u201A uE2+uF3 uE0+uE4+uB0+uEA",
    # Windows-1251
    "u432 u402",
    "u412+u413+u420+u421 c1+bad+open+close+currency+uB0+uB5 u412+u413+u420+u421",
    "u413 u45E u412 u402 u412 =. AZaz+u20",
    # Windows-1253 and Windows-1257
    "u3B2 u20AC u2122+uA0+u386+uAD+uAE+uB0",
    "u392+u393+u39E+u39F c1+bad+open+close+currency+uB0 u392+u393+u39E+u39F",
    "u101 u20AC",
)


def _ranges(text: str) -> str:
    """Turn ranges of code points into what stands between the brackets of a pattern."""
    ends = (part.partition("-") for part in text.split())
    return "".join(rf"\u{a:0>4}{dash}" + (rf"\u{b:0>4}" if b else "") for a, dash, b in ends)


@cache
def _unlikely() -> re.Pattern[str]:
    def item(word: str) -> str:
        if word[0] == "=":
            return word[1:]
        names = word.split("+")
        return f"[{''.join(_ranges(_CLASSES.get(name, name[1:])) for name in names)}]"

    return re.compile("|".join("".join(map(item, line.split())) for line in _SEQUENCES))


def is_bad(text: str) -> bool:
    """Tell whether a text has neighbours that betray a wrong encoding."""
    return _unlikely().search(text) is not None


# One-byte encodings that UTF-8 is mistaken for, in the order of trial. A "sloppy" one gives bytes
# that it leaves out the meaning of Latin-1, and byte 1A the meaning of U+FFFD.
_SLOPPY = tuple(f"cp{number}" for number in (1252, 1251, 1250, 1253, 1254, 1257))
_ENCODINGS = ("latin-1", *_SLOPPY, "iso-8859-2", "mac-roman", "cp437")


@cache
def _characters(encoding: str) -> str:
    """Return the 256 characters of an encoding."""
    every = bytes(range(256))
    characters = every.decode(encoding, "replace")
    if encoding not in _SLOPPY:
        return characters
    plain = every.decode("latin-1")
    filled = [b if a == "\ufffd" else a for a, b in zip(characters, plain, strict=True)]
    filled[0x1A] = "\ufffd"
    return "".join(filled)


@cache
def _bytes_of(encoding: str) -> dict[str, int]:
    return {character: byte for byte, character in enumerate(_characters(encoding))}


def _encode(text: str, encoding: str) -> bytes | None:
    table = _bytes_of(encoding)
    try:
        return bytes(map(table.__getitem__, text))
    except KeyError:
        return None


# UTF-8 whose byte A0 became a space, where the character is a likely one.
_LOST_A0 = re.compile(
    rb"[\xc2\xc3\xc5\xce\xd0\xd9] |[\xe2\xe3] [\x80-\x84\x86-\x9f\xa1-\xbf]"
    rb"|[\xe0-\xe3][\x80-\x84\x86-\x9f\xa1-\xbf] "
    rb"|\xf0(?: [\x80-\xbf]{2}|[\x80-\xbf] [\x80-\xbf]|[\x80-\xbf]{2} )"
)
# The letter a with a grave accent as a word: its space is one, unless the word is Portuguese.
_LOST_A_GRAVE = re.compile(rb"\xc3 (?! |quele|quela|quilo|s )")

# UTF-8, or two surrogates in UTF-8, some bytes of which became U+FFFD (byte 1A here) or, once in a
# sequence, a question mark.
_LOST_BYTES = re.compile(
    rb"[\xc2-\xdf]\x1a|[\xc2\xc3]\?"
    rb"|\xed[\xa0-\xaf][\x1a?]\xed[\xb0-\xbf][\x1a?\x80-\xbf]"
    rb"|\xed[\xa0-\xaf][\x1a?\x80-\xbf]\xed[\xb0-\xbf][\x1a?]"
    rb"|[\xe0-\xef](?:[\x1a?][\x1a\x80-\xbf]|[\x1a\x80-\xbf][\x1a?])"
    rb"|[\xf0-\xf4](?:[\x1a?][\x1a\x80-\xbf]{2}|[\x1a\x80-\xbf][\x1a?][\x1a\x80-\xbf]"
    rb"|[\x1a\x80-\xbf]{2}[\x1a?])"
    rb"|\x1a"
)

# What UTF-8 may hold besides: two bytes for NUL, and characters as two surrogates. The line break
# that may end a line is accepted as their last byte.
_VARIANTS = re.compile(
    rb"\xc0(?:\x80|\n\Z)|\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf](?:[\x80-\xbf]|\n\Z)"
)


def _decode(data: bytes) -> str:
    """Decode UTF-8 and its variants. Raises UnicodeDecodeError."""
    parts: list[str] = []
    position = 0
    for match in _VARIANTS.finditer(data):
        parts.append(data[position : match.start()].decode("utf-8"))
        position = match.end()
        found = match[0]
        if len(found) == 2:
            parts.append("\0")
        else:
            high = (found[1] & 0x0F) << 16 | (found[2] & 0x3F) << 10
            parts.append(chr(0x10000 + high + ((found[4] & 0x0F) << 6 | found[5] & 0x3F)))
    parts.append(data[position:].decode("utf-8"))
    return "".join(parts)


def _restored(data: bytes, encoding: str) -> bytes:
    """Put back what a decoder or an editor lost of UTF-8 that was read as `encoding`."""
    if encoding != "mac-roman" and _LOST_A0.search(data):
        data = _LOST_A_GRAVE.sub(b"\xc3\xa0 ", data)
        data = _LOST_A0.sub(lambda match: match[0].replace(b" ", b"\xa0"), data)
    if encoding in _SLOPPY:
        data = _LOST_BYTES.sub("\ufffd".encode(), data)
    return data


@cache
def _utf8_in_text() -> re.Pattern[str]:
    """Find runs of characters that are UTF-8 in one of the encodings of letters."""
    letters = _ENCODINGS[: _ENCODINGS.index("mac-roman")]

    def among(*numbers: int) -> str:
        found = {_characters(encoding)[byte] for encoding in letters for byte in numbers}
        return "".join(sorted(found))

    later = among(*range(0x80, 0xC0))
    # Dashes, quotes, bullets and dots may stand beside a sequence for themselves.
    strict = re.sub(r"[\u2013-\u2015\u2018\u2019\u201a\u201c-\u201e\u2022\u2026]", "", later)
    return re.compile(
        f"(?<![{strict}])(?:[{among(*range(0xC2, 0xE0))}][ {later}]"
        f"|[{among(*range(0xE0, 0xF0))}][ {later}]{{2}}|[{among(0xF0, 0xF3)}][ {later}]{{3}})+"
    )


def fix_c1(text: str) -> str:
    """Replace control characters U+0080 to U+009F by the characters of Windows-1252."""
    windows = _characters("cp1252")
    return re.sub("[\x80-\x9f]", lambda match: windows[ord(match[0])], text)


def _fix_once(text: str) -> str:
    if text.isascii() or not is_bad(text):
        return text
    for encoding in _ENCODINGS:
        data = _encode(text, encoding)
        if data is not None:
            try:
                return _decode(_restored(data, encoding))
            except UnicodeDecodeError:
                continue

    def fix_part(match: re.Match[str]) -> str:
        part = match[0]
        return fix_encoding(part) if len(part) < len(text) and is_bad(part) else part

    fixed = _utf8_in_text().sub(fix_part, text)
    return fixed if fixed != text else fix_c1(text)


def fix_encoding(text: str) -> str:
    """Undo UTF-8 that was read as another encoding, and control characters of Latin-1.

    Parameters
    ----------
    text : str
        Any text; one without signs of a wrong encoding is returned as it is.

    Returns
    -------
    str
        What ``ftfy.fix_encoding`` of ftfy 6.3 returns.
    """
    while (fixed := _fix_once(text)) != text:
        text = fixed
    return text
