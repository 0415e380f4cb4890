"""The folder that a reader of the cookbook has: photographs of the package, and made ones.

What is on the made images is known, so that results can be counted.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import sam_rlx
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter
from sam_rlx import io

STREET = Path(__file__).parents[2] / "docs" / "media" / "street.jpg"
ASSETS = Path(sam_rlx.__file__).parent / "assets"
COINS = ((315, 153, 380, 214), (305, 14, 368, 76), (19, 32, 71, 80), (79, 34, 125, 80))
PRODUCTS = {  # boxes on the photograph of the docs
    "helmet": (165, 158, 282, 246),
    "panel": (235, 140, 375, 315),
    "window": (310, 150, 500, 325),
}
CELLS = 18
ROOFS = 12
SHAPES = {"red circle": (205, 50, 40), "blue square": (50, 80, 200), "green circle": (40, 150, 60)}
PHOTOS = 5
FRAMES, CLIP = 8, (240, 320)
ORIGIN, METER = (500_000.0, 5_400_000.0), 0.5  # corner of scene.tif in UTM zone 33, its pixels


def lay_out(folder: Path) -> None:
    """Write all files that the pages of the cookbook name."""
    for name in ("products", "photos"):
        (folder / name).mkdir()
    _products(folder)
    save(folder / "cells.jpg", cells())
    for number in range(PHOTOS):
        save(folder / "photos" / f"table_{number}.jpg", table(number))
    save(folder / "parts.jpg", parts())
    coins = folder / "coins.jpg"
    coins.write_bytes((ASSETS / "coins.jpg").read_bytes())
    (folder / "photo.jpg").write_bytes((ASSETS / "coffee.jpg").read_bytes())
    (folder / "boxes.json").write_text(json.dumps(boxes()))
    io.write_video(folder / "clip.mp4", clip(), rate=12)
    write_geotiff(folder / "scene.tif", roofs())
    sam_rlx.convert("sam-nano", folder / "mine.safetensors", names="meta")


def save(path: Path, pixels: NDArray[np.uint8]) -> None:
    """Write a photograph of good quality."""
    Image.fromarray(pixels).save(path, quality=92)


def _products(folder: Path) -> None:
    """Write three products and a table of the boxes around them."""
    street = io.read_image(STREET)
    lines = []
    for name, (x0, y0, x1, y1) in PRODUCTS.items():
        top, left = max(y0 - 40, 0), max(x0 - 40, 0)
        save(folder / "products" / f"{name}.jpg", street[top : y1 + 40, left : x1 + 40])
        lines.append(f"{name}.jpg,{x0 - left},{y0 - top},{x1 - left},{y1 - top}")
    (folder / "boxes.csv").write_text("\n".join(lines) + "\n")


def boxes() -> dict[str, object]:
    """Return a COCO document with the boxes of four coins, numbered as its author did."""
    return {
        "images": [{"id": 7, "file_name": "coins.jpg", "height": 303, "width": 384}],
        "categories": [{"id": 3, "name": "coin"}],
        "annotations": [
            {"id": 40 + i, "image_id": 7, "category_id": 3, "bbox": [x0, y0, x1 - x0, y1 - y0]}
            for i, (x0, y0, x1, y1) in enumerate(COINS)
        ],
    }


def _noise(hw: tuple[int, int], strength: float, seed: int) -> NDArray[np.float64]:
    """Return grain as a microscope or a camera has it, mean 0."""
    rng = np.random.default_rng(seed)
    return rng.normal(0, strength, (*hw, 1))


def _finished(image: Image.Image, blur: float, grain: float, seed: int) -> NDArray[np.uint8]:
    soft = np.asarray(image.filter(ImageFilter.GaussianBlur(blur)), np.float64)
    noisy = soft + _noise((image.height, image.width), grain, seed)
    return np.clip(noisy, 0, 255).astype(np.uint8)


def cells() -> NDArray[np.uint8]:
    """Return cells under a microscope, each with a nucleus, brighter than the ground."""
    rng = np.random.default_rng(3)
    image = Image.new("RGB", (384, 288), (30, 30, 30))
    draw = ImageDraw.Draw(image)
    for index in range(CELLS):
        row, column = divmod(index, 6)
        x, y = 35 + 62 * column + rng.integers(-7, 8), 50 + 94 * row + rng.integers(-14, 15)
        width, height = rng.integers(18, 26), rng.integers(18, 26)
        tone = int(rng.integers(-20, 21))
        _disc(draw, int(x), int(y), int(width), int(height), 170 + tone)
        nx, ny, r = x + rng.integers(-5, 6), y + rng.integers(-5, 6), rng.integers(6, 9)
        _disc(draw, int(nx), int(ny), int(r), int(r), 225 + tone)
    return _finished(image, 1.2, 4, 3)


def parts() -> NDArray[np.uint8]:
    """Return nine parts on a belt, three of each of `SHAPES`, mixed."""
    rng = np.random.default_rng(4)
    image = Image.new("RGB", (336, 336), (188, 184, 176))
    draw = ImageDraw.Draw(image)
    for corner, kind in enumerate(rng.permutation(9) % 3):
        name, color = list(SHAPES.items())[kind]
        x, y = 58 + 110 * (corner % 3) + int(rng.integers(-8, 9)), 58 + 110 * (corner // 3)
        r = int(rng.integers(26, 36))
        shape = draw.ellipse if "circle" in name else draw.rectangle
        shape((x - r, y - r, x + r, y + r), color)
    return _finished(image, 0.8, 3, 4)


def _disc(draw: ImageDraw.ImageDraw, x: int, y: int, width: int, height: int, tone: int) -> None:
    draw.ellipse((x - width, y - height, x + width, y + height), (tone,) * 3)


def table(number: int) -> NDArray[np.uint8]:
    """Return a table with a red circle, a blue square and a green circle, each somewhere else."""
    rng = np.random.default_rng(number)
    image = Image.new("RGB", (336, 252), tuple(int(v) for v in rng.integers(165, 215, 3)))
    draw = ImageDraw.Draw(image)
    corners = rng.permutation(6)[: len(SHAPES)]
    for corner, (name, color) in zip(corners, SHAPES.items(), strict=True):
        x, y = 60 + 108 * (corner % 3) + rng.integers(-8, 9), 66 + 120 * (corner // 3)
        r = int(rng.integers(30, 40))
        shape = draw.ellipse if "circle" in name else draw.rectangle
        shape((x - r, y - r, x + r, y + r), color)
    return _finished(image, 0.8, 3, number)


def clip() -> list[NDArray[np.uint8]]:
    """Return frames in which two coins pass each other on a table."""
    coins = Image.open(ASSETS / "coins.jpg").convert("RGB")
    ground = Image.open(ASSETS / "coffee.jpg").convert("RGB").crop((0, 0, 150, 112))
    ground = ground.resize(CLIP[::-1]).filter(ImageFilter.GaussianBlur(3))
    frames = []
    for index in range(FRAMES):
        frame = ground.copy()
        for (x0, y0, x1, y1), (x, y) in zip(
            COINS[:2], ((30 + 14 * index, 30 + 3 * index), (225 - 14 * index, 150)), strict=True
        ):
            side = (x1 - x0, y1 - y0)
            disc = Image.new("L", side)
            ImageDraw.Draw(disc).ellipse((1, 1, side[0] - 2, side[1] - 2), 255)
            frame.paste(coins.crop((x0, y0, x1, y1)), (x, y), disc)
        frames.append(np.asarray(frame))
    return frames


def roofs() -> NDArray[np.uint8]:
    """Return houses on grass along a road, seen from above."""
    rng = np.random.default_rng(11)
    image = Image.new("RGB", (640, 480), (58, 74, 46))
    draw = ImageDraw.Draw(image)
    draw.line((0, 238, 640, 250), (96, 94, 90), 16)
    tones = ((176, 92, 70), (168, 160, 150), (192, 120, 88), (140, 136, 134), (206, 196, 180))
    for index in range(ROOFS):
        row, column = divmod(index, 4)
        x, y = 160 * column + 80 + rng.integers(-18, 19), (75, 175, 350)[row] + rng.integers(-8, 9)
        angle, width, height = rng.uniform(-0.3, 0.3), rng.integers(32, 52), rng.integers(24, 34)
        cos, sin = np.cos(angle), np.sin(angle)
        corners = [
            (x + a * width * cos - b * height * sin, y + a * width * sin + b * height * cos)
            for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))
        ]
        draw.polygon(corners, tones[(index * 3 + row) % len(tones)])
    return _finished(image, 1.0, 5, 11)


def write_geotiff(path: Path, pixels: NDArray[np.uint8]) -> None:
    """Write a TIFF with the tags of GeoTIFF 1.1: UTM zone 33 north, pixels of half a metre."""
    import tifffile  # not where wheels are tried

    keys = (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32633)
    tags = [
        (33550, "d", 3, (METER, METER, 0.0), True),
        (33922, "d", 6, (0.0, 0.0, 0.0, *ORIGIN, 0.0), True),
        (34735, "H", len(keys), keys, True),
    ]
    tifffile.imwrite(
        path, pixels, photometric="rgb", tile=(256, 256), compression="zlib", extratags=tags
    )
