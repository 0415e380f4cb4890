"""A pool of random silhouettes, stored as signed distance fields.

A distance field is sampled at any scale with crisp edges, and also gives rims, shading heights
and soft shadows. Fields are in units of half the cell: a shape spans about -0.8..0.8.
"""

from __future__ import annotations

import functools
import multiprocessing

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from scipy import ndimage

RASTER = 256
FIELD = 128
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabdefghkmnpqrstuy0123456789&?@#%"


def _fill(points: np.ndarray) -> np.ndarray:
    """Rasterise a closed outline given in -1..1."""
    canvas = np.zeros((RASTER, RASTER), np.uint8)
    pixels = np.round((points + 1) * RASTER / 2 * 16).astype(np.int32)
    cv2.fillPoly(canvas, [pixels], 1, cv2.LINE_8, 4)
    return canvas


def disc(rng: np.random.Generator) -> np.ndarray:
    """A circle, at most slightly elliptic."""
    angle = np.linspace(0, 2 * np.pi, 96, endpoint=False)
    squash = rng.uniform(0.9, 1.0)
    return _fill(0.8 * np.stack([np.cos(angle), squash * np.sin(angle)], 1))


def ellipse(rng: np.random.Generator) -> np.ndarray:
    """A superellipse: from diamond-like over elliptic to a rounded rectangle."""
    angle = np.linspace(0, 2 * np.pi, 128, endpoint=False)
    power = rng.choice([0.25, 0.4, 0.7, 1.0, 1.0, 1.2])
    c, s = np.cos(angle), np.sin(angle)
    x, y = np.sign(c) * abs(c) ** power, np.sign(s) * abs(s) ** power
    return _fill(0.8 * np.stack([x, rng.uniform(0.35, 1.0) * y], 1))


def blob(rng: np.random.Generator) -> np.ndarray:
    """A smooth outline from a few random harmonics of the radius."""
    angle = np.linspace(0, 2 * np.pi, 160, endpoint=False)
    orders = np.arange(1, rng.integers(3, 9))
    size = rng.normal(size=len(orders)) * rng.uniform(0.1, 0.5) / orders**0.7
    radius = 1 + (size * np.cos(np.outer(angle, orders) + rng.uniform(0, 7, len(orders)))).sum(1)
    radius = np.clip(radius, 0.15, None)
    outline = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
    outline -= (outline.max(0) + outline.min(0)) / 2
    return _fill(0.8 * outline / abs(outline).max())


def polygon(rng: np.random.Generator) -> np.ndarray:
    """A regular, irregular or star-shaped polygon."""
    n = int(rng.integers(3, 10))
    angle = (np.arange(n) + rng.uniform(-0.35, 0.35, n) * (rng.random() < 0.7)) * 2 * np.pi / n
    radius = rng.uniform(0.45, 1.0, n) if rng.random() < 0.6 else np.ones(n)
    if n >= 6 and rng.random() < 0.4:
        radius[::2] *= rng.uniform(0.4, 0.7)
    outline = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
    return _fill(0.8 * outline / abs(outline).max())


def letter(rng: np.random.Generator) -> np.ndarray:
    """One character of the font that comes with Pillow."""
    image = Image.new("L", (RASTER, RASTER))
    font = ImageFont.load_default(int(rng.integers(190, 250)))
    draw = ImageDraw.Draw(image)
    text = str(rng.choice(list(LETTERS)))
    weight = int(rng.integers(0, 9))
    draw.text((RASTER / 2, RASTER / 2), text, 255, font, anchor="mm", stroke_width=weight)
    return (np.asarray(image) > 127).astype(np.uint8)


def stroke(rng: np.random.Generator) -> np.ndarray:
    """A smooth open curve of some thickness."""
    knots = rng.uniform(-0.75, 0.75, (int(rng.integers(2, 6)), 2))
    t = np.linspace(0, len(knots) - 1, 80)
    curve = np.stack([np.interp(t, np.arange(len(knots)), knots[:, i]) for i in (0, 1)], 1)
    curve = ndimage.gaussian_filter1d(curve, 6, axis=0, mode="nearest")
    canvas = np.zeros((RASTER, RASTER), np.uint8)
    pixels = np.round((curve + 1) * RASTER / 2).astype(np.int32)
    cv2.polylines(canvas, [pixels], False, 1, int(rng.integers(8, 46)))
    return canvas


def organic(rng: np.random.Generator) -> np.ndarray:
    """The largest island of thresholded smooth noise."""
    noise = ndimage.gaussian_filter(rng.normal(size=(RASTER, RASTER)), rng.uniform(9, 26))
    y, x = np.mgrid[-1 : 1 : RASTER * 1j, -1 : 1 : RASTER * 1j]
    field = noise / noise.std() + 2.2 * (0.62 - np.hypot(x, y))
    field[np.maximum(abs(x), abs(y)) > 0.9] = -9
    return _largest((field > rng.uniform(-0.2, 0.4)).astype(np.uint8))


def creature(rng: np.random.Generator) -> np.ndarray:
    """A body with a head and limbs: silhouettes like animals, tools and plants."""
    canvas = np.zeros((RASTER, RASTER), np.uint8)
    centre = RASTER / 2 + rng.normal(size=2) * 10
    axes = rng.uniform(28, 72, 2)
    tilt = rng.uniform(0, 180)
    cv2.ellipse(canvas, (tuple(centre), tuple(2 * axes), tilt), 1, -1)
    for _ in range(int(rng.integers(1, 7))):
        angle = rng.uniform(0, 2 * np.pi)
        start = centre + 0.7 * axes.min() * np.array([np.cos(angle), np.sin(angle)])
        bend = angle + rng.normal() * 0.6
        end = start + rng.uniform(30, 85) * np.array([np.cos(bend), np.sin(bend)])
        end = np.clip(end, 18, RASTER - 18)
        p, q = tuple(start.astype(int).tolist()), tuple(end.astype(int).tolist())
        cv2.line(canvas, p, q, 1, int(rng.integers(6, 30)))
        if rng.random() < 0.4:
            cv2.circle(canvas, q, int(rng.integers(8, 34)), 1, -1)
    canvas[:12], canvas[-12:], canvas[:, :12], canvas[:, -12:] = 0, 0, 0, 0
    return canvas


def ring(rng: np.random.Generator) -> np.ndarray:
    """A shape with a hole, or a band."""
    outer = _any_simple(rng)
    depth = ndimage.distance_transform_edt(outer)
    hole = depth > rng.uniform(0.25, 0.75) * depth.max()
    if rng.random() < 0.3:
        hole = np.roll(hole, rng.integers(-14, 15, 2), (0, 1))
    return (outer & ~hole).astype(np.uint8)


def compound(rng: np.random.Generator) -> np.ndarray:
    """Two overlapping simple shapes as one."""
    first, second = _any_simple(rng), _any_simple(rng)
    zoom = rng.uniform(0.4, 0.8)
    move = rng.uniform(-0.35, 0.35, 2) * RASTER + (1 - zoom) * RASTER / 2
    matrix = np.array([[zoom, 0, move[0]], [0, zoom, move[1]]])
    second = cv2.warpAffine(second, matrix, (RASTER, RASTER), flags=cv2.INTER_NEAREST)
    both = _largest(first | second)
    both[:8], both[-8:], both[:, :8], both[:, -8:] = 0, 0, 0, 0
    return both


def _any_simple(rng: np.random.Generator) -> np.ndarray:
    return (disc, ellipse, blob, polygon)[int(rng.integers(4))](rng)


def _largest(mask: np.ndarray) -> np.ndarray:
    """Keep the largest connected island."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask)
    if count < 3:
        return mask
    return (labels == 1 + stats[1:, cv2.CC_STAT_AREA].argmax()).astype(np.uint8)


FAMILIES = (
    (disc, 0.10),
    (ellipse, 0.14),
    (blob, 0.20),
    (polygon, 0.12),
    (letter, 0.07),
    (stroke, 0.07),
    (organic, 0.08),
    (creature, 0.10),
    (ring, 0.05),
    (compound, 0.07),
)


def _field(seed: int, kind: int) -> np.ndarray:
    """Draw one silhouette and return its distance field, positive inside."""
    rng = np.random.default_rng(seed)
    mask = FAMILIES[kind][0](rng)
    while mask.sum() < 0.01 * mask.size:
        mask = FAMILIES[kind][0](rng)
    inside = ndimage.distance_transform_edt(mask)
    outside = ndimage.distance_transform_edt(mask == 0)
    field = np.where(mask > 0, inside - 0.5, 0.5 - outside) / (RASTER / 2)
    field = field.reshape(FIELD, 2, FIELD, 2).mean((1, 3))
    return field.clip(-0.5, 1.0).astype(np.float16)


def make_pool(count: int, seed: int, workers: int) -> tuple[np.ndarray, np.ndarray]:
    """Make a pool of silhouettes.

    Parameters
    ----------
    count : int
        Number of shapes.
    seed : int
        Pools of different seeds share no shape.
    workers : int
        Processes to use.

    Returns
    -------
    tuple of ndarray
        Distance fields (count, 128, 128) float16 and family numbers (count,).
    """
    rng = np.random.default_rng(seed)
    weights = np.array([w for _, w in FAMILIES])
    kinds = rng.choice(len(FAMILIES), count, p=weights / weights.sum())
    seeds = rng.integers(0, 2**62, count)
    jobs = list(zip(seeds.tolist(), kinds.tolist(), strict=True))
    if workers <= 1:
        return np.stack([_field(*job) for job in jobs]), kinds
    with multiprocessing.get_context("spawn").Pool(workers, _one_thread) as pool:
        fields = pool.starmap(_field, jobs, chunksize=32)
    return np.stack(fields), kinds


def _one_thread() -> None:
    cv2.setNumThreads(1)


@functools.cache
def family_number(name: str) -> int:
    """Return the number of a family by the name of its function."""
    return [f.__name__ for f, _ in FAMILIES].index(name)
