"""Classes of a project: their colours, digits and names, and what changes with them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sam_rlx.apps.annotator.limits import MAX_CLASSES
from sam_rlx.apps.annotator.values import ClassDef, Color, Document, Object, Project
from sam_rlx.errors import InvalidArgumentError

DIGITS = "1234567890"
_COUNT = 20
_LIGHTNESSES, _CHROMA = (0.72, 0.58, 0.86), 0.12  # of Oklch


def _hue(turn: float, lightness: float) -> Color:
    """Return a colour: Oklch to sRGB (Ottosson, "A perceptual color space")."""
    angle = 2 * math.pi * turn
    a, b = _CHROMA * math.cos(angle), _CHROMA * math.sin(angle)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    red, green, blue = (round(255 * _companded(min(max(one, 0.0), 1.0))) for one in linear)
    return red, green, blue


def _companded(value: float) -> float:
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055


# 20 hues of equal lightness, around the circle; darker and lighter ones for more classes.
HUES, DARKER, LIGHTER = (
    tuple(_hue((k + 0.5) / _COUNT, lightness) for k in range(_COUNT)) for lightness in _LIGHTNESSES
)
COLORS: tuple[Color, ...] = (*HUES, *DARKER, *LIGHTER)


def next_color(taken: Iterable[Color], mean: Color | None = None) -> Color:
    """Return the colour of a new class.

    Of the colours that fewest classes have, and of these of one lightness, the one whose hue
    differs most from those of all classes; of equal ones the one that differs most from the mean
    colour of the image.
    """
    known = list(taken)
    counts = [known.count(one) for one in COLORS]
    rings = [range(first, first + _COUNT) for first in range(0, len(COLORS), _COUNT)]
    ring = min(rings, key=lambda ring: min(counts[k] for k in ring))
    least = min(counts[k] for k in ring)
    near = [min(ring, key=lambda k: _distance(COLORS[k], one)) for one in known]

    def apart(at: int) -> tuple[int, int]:
        nearest = min((_steps(at, there) for there in near), default=0)
        return nearest, 0 if mean is None else _distance(COLORS[at], mean)

    return COLORS[max((k for k in ring if counts[k] == least), key=apart)]


def _steps(at: int, there: int) -> int:
    """Return how far two hues are apart around their circle."""
    return min((at - there) % _COUNT, (there - at) % _COUNT)


def _distance(one: Color, other: Color) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def free_digit(classes: Sequence[ClassDef]) -> str:
    """Return the first digit that no class has, "" if there is none."""
    taken = {one.digit for one in classes}
    return next((digit for digit in DIGITS if digit not in taken), "")


def with_class(
    project: Project,
    name: str,
    color: Color | None = None,
    digit: str | None = None,
    mean: Color | None = None,
    above: int = 0,
) -> tuple[Project, ClassDef]:
    """Return a project with a class of a name: the one that is there, or a new one.

    The number of a new one is larger than those of all others, and than `above`.
    """
    known = project.class_named(name)
    if known is not None:
        return project, known
    if len(project.classes) >= MAX_CLASSES:
        raise InvalidArgumentError(f"classes: expected at most {MAX_CLASSES}, found more")
    number = max(above, *(one.number for one in project.classes)) + 1
    made = ClassDef(
        number,
        name,
        color or next_color((one.color for one in project.classes), mean),
        free_digit(project.classes) if digit is None else digit,
    )
    return replace(project, classes=(*_without_digit(project.classes, made.digit), made)), made


def changed_class(
    project: Project,
    known: ClassDef,
    name: str | None = None,
    color: Color | None = None,
    digit: str | None = None,
) -> Project:
    """Return a project in which a class has another name, colour or digit.

    Raises
    ------
    InvalidArgumentError
        Another class has the name.
    """
    other = project.class_named(name) if name is not None else None
    if other is not None and other.number != known.number:
        raise InvalidArgumentError(f"name: expected one that no class has, found {name!r}")
    made = replace(
        known,
        name=known.name if name is None else name,
        color=color or known.color,
        digit=known.digit if digit is None else digit,
    )
    others = [one for one in project.classes if one.number != known.number]
    classes = [*_without_digit(others, digit or ""), made]
    return replace(project, classes=tuple(sorted(classes, key=lambda one: one.number)))


def _without_digit(classes: Sequence[ClassDef], digit: str) -> list[ClassDef]:
    """Return classes that leave a digit to another one."""
    return [replace(one, digit="") if digit and one.digit == digit else one for one in classes]


def default_name(one: ClassDef, number: int) -> str:
    """Return what an object of a class is called that nobody named."""
    return f"{one.name} {number}"


def classed(one: Object, before: ClassDef, after: ClassDef) -> Object:
    """Return an object with another class; a name that nobody chose follows it."""
    unnamed = one.name == default_name(before, one.number)
    name = default_name(after, one.number) if unnamed else one.name
    return replace(one, class_number=after.number, name=name)


def moved(documents: dict[str, Document], before: ClassDef, after: ClassDef) -> dict[str, Document]:
    """Return the documents in which objects go from one class to another, or to its new name."""
    found = {}
    for key, document in documents.items():
        some = [
            classed(one, before, after)
            for one in document.objects
            if one.class_number == before.number
        ]
        if some:
            found[key] = document.with_objects(*some)
    return found
