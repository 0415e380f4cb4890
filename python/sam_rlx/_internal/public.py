"""What a public module shows of itself: its names, and signatures as they are written."""

import importlib
import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

# A signature with more parameters would leave no line of a screen for the first sentence.
_MAX_LINES = 15
_PACKAGE = __name__.partition(".")[0]


class _Written(str):
    """An annotation that signatures show as it stands in the source, without quotation marks.

    It is a str, so that ``typing.get_type_hints`` and ``inspect.signature(..., eval_str=True)``
    resolve it.
    """

    __slots__ = ()
    __repr__ = str.__str__


class _Filled(inspect.Signature):
    """A signature that fills its lines. `help` of Python 3.13 begins one for each parameter."""

    def format(self, *, max_width: int | None = None, **options: Any) -> str:
        """Return the text, as ``inspect.Signature.format`` does."""
        text: str = super().format(**options)  # type: ignore[misc]
        if max_width is None or len(text) <= max_width:
            return text
        return textwrap.fill(text, max_width, subsequent_indent="    ", break_on_hyphens=False)


def public_names(
    module: str, parts: Mapping[str, str | None] | None = None
) -> Callable[[], list[str]]:
    """Return the ``__dir__`` of a module, whose signatures from now on read as they are written.

    Call it where the module ends. NumPy's ``ArrayLike`` alone is 280 characters where Python writes
    it out, so that `help` of a method filled a screen before its first sentence.

    Parameters
    ----------
    module : str
        Its ``__name__``.
    parts : mapping, optional
        Public modules below it, as for `loader`.
    """
    for value in _public(module).values():
        _read_as_written(value)

    def names() -> list[str]:
        space = vars(sys.modules[module])
        of_python = (name for name in space if name.startswith("__") and name.endswith("__"))
        return sorted({*of_python, *_public(module), *_ready(parts or {})})

    return names


def loader(module: str, parts: Mapping[str, str | None]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that loads public modules at their first use.

    Parameters
    ----------
    module : str
        The package.
    parts : mapping
        The names of its public modules, and what each cannot be loaded without, if anything.
    """

    def load(name: str) -> Any:
        if name in parts:
            return importlib.import_module(f"{module}.{name}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return load


def _ready(parts: Mapping[str, str | None]) -> Iterable[str]:
    """Return those that load: whoever lists a module's names then gets their values, as `help`."""
    return (
        name
        for name, needed in parts.items()
        if needed is None or importlib.util.find_spec(needed) is not None
    )


def _public(module: str) -> dict[str, Any]:
    """Return what `__all__` lists, or what a module without it defines."""
    space = vars(sys.modules[module])
    if "__all__" in space:
        return {name: space[name] for name in space["__all__"]}
    return {
        name: value
        for name, value in space.items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module
    }


def _read_as_written(value: Any) -> None:
    """Change the annotations of a function, or of all methods of a class and of its bases here."""
    if inspect.isclass(value):
        for each in value.__mro__:
            if each.__module__.partition(".")[0] == _PACKAGE:
                for member in vars(each).values():
                    _read_as_written(_function(member))
    elif inspect.isfunction(value):
        for function in {value, inspect.unwrap(value)}:
            hints = function.__annotations__
            hints.update({k: _Written(v) for k, v in hints.items() if isinstance(v, str)})
        described: Any = value
        code = inspect.unwrap(value).__code__
        if code.co_argcount + code.co_kwonlyargcount > _MAX_LINES:
            described.__signature__ = _Filled.from_callable(value)


def _function(member: Any) -> Any:
    """Return the function behind a member of a class; None if there is none."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return member if inspect.isfunction(member) else None
