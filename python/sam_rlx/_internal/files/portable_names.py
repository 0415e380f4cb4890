"""Names of files that every system can hold."""

# Windows takes these for devices, in any case and with any suffix.
_DEVICES = frozenset(
    (
        *("con", "prn", "aux", "nul", "conin$", "conout$"),
        *(f"{port}{number}" for port in ("com", "lpt") for number in "0123456789¹²³"),
    )
)
_REFUSED = frozenset('<>:"/\\|?*') | {chr(code) for code in range(32)}


def portable_name(name: str) -> str:
    r"""Write what Windows refuses in a name as ``%`` and the hexadecimal of its bytes.

    Characters such as ``:`` and ``\\``, a dot or a space at the end, and the first letter of a
    device such as ``con`` or ``NUL.png``. Other names stay. If a ``%`` in the names is written so
    already, different names stay different.

    Parameters
    ----------
    name : str
        Name of a file in its folder, not empty.
    """
    end = len(name.rstrip(". "))
    device = name.partition(".")[0].rstrip(" ").casefold() in _DEVICES
    return "".join(
        _escaped(char) if char in _REFUSED or index >= end or (device and not index) else char
        for index, char in enumerate(name)
    )


def _escaped(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))
