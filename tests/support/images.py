"""Real images of awkward shapes and formats, from scikit-image's own files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]


def _rgb(image: NDArray[np.uint8]) -> Image:
    return np.ascontiguousarray(image if image.ndim == 3 else np.stack([image] * 3, axis=-1))


def rgb_images() -> dict[str, Image]:
    """RGB arrays (H, W, 3): square, wide, tall, odd, tiny, and one pixel wide or high."""
    from skimage import data

    astronaut, coffee, chelsea = data.astronaut(), data.coffee(), data.chelsea()
    return {
        "square 512x512": _rgb(astronaut),
        "wide 400x600": _rgb(coffee),
        "tall 451x300": _rgb(np.transpose(chelsea, (1, 0, 2))),
        "odd 303x384": _rgb(data.coins()),
        "large 1411x1411": _rgb(data.retina()),
        "tiny 7x5": _rgb(coffee[100:107, 200:205]),
        "one column 120x1": _rgb(astronaut[100:220, 256:257]),
        "one row 1x90": _rgb(coffee[200:201, 150:240]),
    }


def image_files(folder: Path) -> dict[str, Path]:
    """Write files whose pixels are not plain RGB: what a user's disk holds."""
    from PIL import Image
    from skimage import data

    chelsea, coins = Image.fromarray(data.chelsea()), data.coins()
    paths = {
        name: folder / f"{name}.{suffix}"
        for name, suffix in (
            ("rgb", "png"),
            ("grey", "png"),
            ("rgba", "png"),
            ("palette", "png"),
            ("bilevel", "png"),
            ("sixteen_bit", "png"),
            ("rotated", "jpg"),
            ("column", "png"),
        )
    }
    chelsea.save(paths["rgb"])
    Image.fromarray(coins).save(paths["grey"])
    Image.fromarray(data.logo()).save(paths["rgba"])
    chelsea.convert("P", palette=Image.Palette.ADAPTIVE).save(paths["palette"])
    Image.fromarray(coins).convert("1").save(paths["bilevel"])
    Image.fromarray(coins.astype(np.uint16) * 257).save(paths["sixteen_bit"])
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by 90 degrees to show
    chelsea.save(paths["rotated"], exif=exif, quality=95)
    Image.fromarray(data.astronaut()[:, 256:257].copy()).save(paths["column"])
    return paths
