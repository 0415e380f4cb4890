"""The form of a text that SAM 3's tokenizer splits: repaired, unescaped, in lower case.

Upstream: ``sam3/model/tokenizer_ve.py``, the cleaning "lower": ``ftfy.fix_text``, two times
``html.unescape``, single spaces, lower case.
"""

import html
import html.entities
import re
import unicodedata
from functools import cache

from sam_rlx._internal.text import mojibake

_MAX_SEGMENT = 1_000_000  # characters; longer lines are repaired in parts
_ENTITY = re.compile("&#?[0-9A-Za-z]{1,24};")
_TERMINAL_ESCAPE = re.compile(r"\x1b\[[\d;]*[a-zA-Z]")
_LINE_BREAK = re.compile("\r\n|[\r\u2028\u2029\x85]")
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
# White space of Unicode; Python's \s counts U+001C to U+001F too.
_SPACES = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
# Ligatures and digraphs of Latin letters.
_LIGATURES = (*range(0x132, 0x134), 0x149, *range(0x1C4, 0x1CD), *range(0x1F1, 0x1F4))
_LIGATURE_FORMS = range(0xFB00, 0xFB07)
_WIDTH_FORMS = range(0xFF01, 0xFFF0)
_STRAIGHT = {
    **dict.fromkeys((0x2BC, *range(0x2018, 0x201C)), "'"),
    **dict.fromkeys(range(0x201C, 0x2020), '"'),
}
_REMOVED: dict[int, None] = dict.fromkeys(
    (
        *(*range(0x09), 0x0B, *range(0x0E, 0x20), 0x7F),  # controls that are no white space
        *(*range(0x206A, 0x2070), 0xFEFF, *range(0xFFF9, 0xFFFD)),  # invisible ones
    )
)


def _parts(character: str) -> str:
    """Return what a character is a compatibility form of, one step of Unicode's table."""
    _form, *codes = unicodedata.decomposition(character).split()
    return "".join(chr(int(code, 16)) for code in codes)


@cache
def _entities() -> dict[str, str]:
    """Return HTML's entities, and those that stay clear in upper case."""
    found = {}
    for name, value in html.entities.html5.items():
        if not name.endswith(";"):
            continue
        found[f"&{name}"] = value
        upper = f"&{name.upper()}"
        if name.islower() and html.unescape(upper) == upper:
            found[upper] = value.upper()
    return found


@cache
def _plain_forms() -> dict[int, str]:
    """Return the letters that ligatures and forms of another width stand for."""
    forms = {code: _parts(chr(code)) for code in (*_LIGATURES, *_LIGATURE_FORMS)}
    for code in _WIDTH_FORMS:
        forms[code] = unicodedata.normalize("NFKC", chr(code))
    return {**forms, 0x3000: " "}


def _unescape(match: re.Match[str]) -> str:
    entity = match[0]
    if not entity.startswith("&#"):
        return _entities().get(entity, entity)
    value = html.unescape(entity)
    return entity if ";" in value else value  # only a part of it is a number


def _join_surrogates(match: re.Match[str]) -> str:
    pair = match[0]
    if len(pair) == 1:
        return "\ufffd"
    return chr(0x10000 + (ord(pair[0]) - 0xD800 << 10) + ord(pair[1]) - 0xDC00)


def _fix_segment(text: str, unescape: bool) -> str:
    while True:
        before = text
        if unescape:
            text = _ENTITY.sub(_unescape, text)
        text = mojibake.fix_c1(mojibake.fix_encoding(text))
        text = text.translate(_plain_forms()).translate(_STRAIGHT)
        text = _LINE_BREAK.sub("\n", text)
        text = _SURROGATES.sub(_join_surrogates, text)
        text = _TERMINAL_ESCAPE.sub("", text).translate(_REMOVED)
        text = unicodedata.normalize("NFC", text)
        if text == before:
            return text


def fix_text(text: str) -> str:
    """Repair a text: encoding, entities, ligatures, widths, quotes, line ends, controls, NFC.

    Parameters
    ----------
    text : str
        Any text, surrogates included.

    Returns
    -------
    str
        What ``ftfy.fix_text`` of ftfy 6.3 returns. HTML entities stay from the first line on that
        has a ``<``: such a text is HTML.
    """
    if text.isascii() and text.isprintable() and "&" not in text:
        return text
    fixed, position, unescape = [], 0, True
    while position < len(text):
        end = text.find("\n", position) + 1 or len(text)
        end = min(end, position + _MAX_SEGMENT)
        segment = text[position:end]
        unescape = unescape and "<" not in segment
        fixed.append(_fix_segment(segment, unescape))
        position = end
    return "".join(fixed)


def clean(text: str) -> str:
    """Clean a text as SAM 3's tokenizer does.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        Repaired (`fix_text`), HTML entities replaced, white space single, in lower case; without
        surrogates.
    """
    text = html.unescape(html.unescape(fix_text(text))).strip()
    return _SPACES.sub(" ", text).strip().lower()
