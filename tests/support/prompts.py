"""Texts for tests of the tokenizer: ordinary ones and all kinds of odd ones, from a seed."""

from __future__ import annotations

import html.entities
import random
import unicodedata
from collections.abc import Callable, Iterator


def _split(text: str) -> list[str]:
    return text.split()


WORDS = _split(
    "cat dog person yellow school bus player in white striped shirt traffic light 3rd don't it's "
    "we'll ice-cream left-most VERY Large O'Neil's unhappiness photosynthesis antidisestablishment "
    "café naïve jalapeño Straße İstanbul ÉCOLE œuvre smörgåsbord Ελληνικά Οδυσσεύς привет МИР "
    "Україна العربية שלום हिन्दी தமிழ் ไทย 狗 日本語 カタカナ 한국어 ქართული"
)
LETTERS = "eeeetttaaaooiinnsshhrrdlucmwfgypbvkjxqz"
EMOJI = _split("😀 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 ❤️ 🇩🇪 1️⃣ ☕ 🦜 🏴\U000e0067\U000e0062\U000e007f")
PUNCTUATION = _split(
    "! ? . , ; : ' \" - -- ... !!! ?!?! *** _ __ @#$% && ()[] {} / \\ | ~ ` ^ + = < > <>"
)
SPECIAL = _split(
    "<start_of_text> <end_of_text> <START_OF_TEXT> <\u017ftart_of_text> <start_of_text"
)
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\r", "\u00a0", "\u3000", "\u2003", "\u2028", "\x85", "\v"]
QUOTES = _split("\u2018 \u2019 \u201a \u201b \u201c \u201d \u201e \u201f \u02bc \u00ab \u00bb")
CONTROLS = ["\x00", "\x07", "\x1a", "\x1c", "\x1f", "\x7f", "\ufeff", "\ufffc", "\u206a", "\x93"]
CONTROLS += ["\x1b[31m", "\x1b[0;1m", "\x1b[\u0663m", "\u200d", "\u200e", "\u0345"]
LIGATURES = [chr(c) for c in (*range(0xFB00, 0xFB07), 0x132, 0x149, 0x1C4, 0x1C8, 0x1F3, 0xE6)]
SURROGATES = ["\ud83d\ude00", "\ud83d", "\ude00\ud83d"]
ENCODINGS = _split("latin-1 cp1252 cp1251 cp1250 cp1253 cp1254 cp1257 iso-8859-2 mac-roman cp437")


def full_width(text: str) -> str:
    """Return a text with ASCII in its wide forms."""
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


def misread(text: str, random_: random.Random) -> str:
    """Return UTF-8 that was read as another encoding, once or more, and perhaps edited after."""
    for _ in range(random_.choice((1, 1, 1, 2, 3))):
        encoding = random_.choice(ENCODINGS)
        data = text.encode("utf-8", "surrogatepass")
        strict = random_.random() < 0.5
        text = "".join(_character(byte, encoding, strict) for byte in data)
    if random_.random() < 0.3:
        text = text.replace("\u00a0", " ")
    if random_.random() < 0.2:
        position = random_.randrange(len(text) + 1)
        text = text[:position] + random_.choice("\ufffd?\x1a") + text[position + 1 :]
    return text


def _character(byte: int, encoding: str, strict: bool) -> str:
    try:
        return bytes([byte]).decode(encoding)
    except UnicodeDecodeError:
        return "\ufffd" if strict else chr(byte)


def _known(random_: random.Random, first: int, end: int) -> str:
    """Return a character that every version of Unicode knows: of Unicode 3.2."""
    while unicodedata.ucd_3_2_0.category(found := chr(random_.randrange(first, end))) == "Cn":
        pass
    return found


def _pieces(random_: random.Random) -> list[Callable[[], str]]:
    entities = sorted(html.entities.html5)

    def word() -> str:
        return random_.choice(WORDS)

    return [
        word,
        word,
        word,
        lambda: word().upper(),
        lambda: "".join(random_.choices(LETTERS, k=random_.randrange(3, 9))),
        lambda: str(random_.randrange(10**6)),
        lambda: random_.choice("\u0661\u0967\u00b2\u00bd\u216b\u2460\U0001d7d8"),
        lambda: random_.choice(EMOJI),
        lambda: random_.choice(PUNCTUATION) * random_.choice((1, 1, 2, 7)),
        lambda: random_.choice(QUOTES) + word() + random_.choice(QUOTES),
        lambda: random_.choice(CONTROLS),
        lambda: random_.choice(LIGATURES) + word(),
        lambda: full_width(word()),
        lambda: "\uff76\uff9e\uff70\uff84\uffe5",
        lambda: "&" + random_.choice(entities),
        lambda: "&" + random_.choice(entities).upper(),
        lambda: "&amp;" + random_.choice(("lt;", "amp;", "#x41;", "#128;", "#xd800;", "eacute;")),
        lambda: f"&#{random_.choice((28, 39, 65, 133, 160, 8217, 55357, 128512, 99999999))};",
        lambda: misread(random_.choice((*WORDS, *EMOJI, *QUOTES)), random_),
        lambda: random_.choice(SPECIAL),
        lambda: random_.choice(SURROGATES),
        lambda: "e\u0301o\u0308\u1100\u1161\u0323\u0307",
        lambda: "".join(_known(random_, 0x20, 0x3000) for _ in range(3)),
        lambda: _known(random_, 0, 0x110000),
        lambda: "".join(chr(random_.randrange(0x80, 0x180)) for _ in range(4)),
        lambda: random_.choice("abc!\u00e9\u72d7'") * random_.choice((2, 3, 60)),
    ]


def draw(count: int, seed: int) -> Iterator[str]:
    """Yield `count` texts; some are empty, some far too long."""
    random_ = random.Random(seed)
    pieces = _pieces(random_)
    for _ in range(count):
        length = random_.choice((0, 1, 1, 2, 3, 4, 5, 8, 40))
        parts = [random_.choice(pieces)() for _ in range(length)]
        text = "".join(part + random_.choice(("", " ", " ", " ")) for part in parts)
        if random_.random() < 0.2:
            position = random_.randrange(len(text) + 1)
            text = text[:position] + random_.choice(SPACES) + text[position:]
        yield text
