"""Make the images of docs/cookbook: each from what the program of its page writes, unchanged.

Run ``python docs/make_cookbook.py [PAGE ...]`` from the checkout; needs the extra ``test``, and
``parity`` for checkpoint_ci. `tests/support/cookbook.py` makes what the programs read.
"""

import contextlib
import io as streams
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sam_rlx
from PIL import Image, ImageDraw, ImageFont
from sam_rlx import io, viz
from sam_rlx.frames import open_frames

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support import cookbook, pages  # noqa: E402

WIDTH, GAP = 640, 10
CHECKS = ((236, 236, 236), (206, 206, 206))  # behind what is transparent
PAPER, INK, LINE = "white", (40, 44, 52), (45, 110, 200)


def beside(*images: Image.Image, height: int = 200) -> Image.Image:
    """Return images of one height in a row, no wider than a page's text."""
    rows = [one.resize((round(one.width * height / one.height), height)) for one in images]
    row = Image.new("RGB", (sum(one.width + GAP for one in rows) - GAP, height), PAPER)
    left = 0
    for one in rows:
        row.paste(one, (left, 0))
        left += one.width + GAP
    if row.width > WIDTH:
        row = row.resize((WIDTH, round(row.height * WIDTH / row.width)), Image.Resampling.LANCZOS)
    return row


def opened(name: str) -> Image.Image:
    """Open a file that the page's program has written or read."""
    return Image.open(name).convert("RGB")


def on_checks(name: str) -> Image.Image:
    """Show a cut-out on the squares that stand for transparency."""
    cut = Image.open(name)
    squares = np.indices((cut.height, cut.width)) // 12
    ground = Image.fromarray(np.array(CHECKS, np.uint8)[squares.sum(axis=0) % 2])
    ground.paste(cut, mask=cut.getchannel("A"))
    return ground


def written(text: str, size: int = 15) -> Image.Image:
    """Return lines of a terminal."""
    font = ImageFont.truetype("DejaVuSansMono.ttf", size)
    lines = text.rstrip().splitlines()
    image = Image.new("RGB", (WIDTH, round(1.45 * size * len(lines)) + 20), PAPER)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((10, 10 + round(1.45 * size * number)), line, INK, font)
    return image


def cut_outs(_: str) -> Image.Image:
    """Show photographs, and their cut-outs below them."""
    names = sorted(path.name for path in Path("products").iterdir())
    rows = [
        beside(*(opened(f"products/{name}") for name in names)),
        beside(*(on_checks(f"cut/{name}.png") for name in names)),
    ]
    both = Image.new("RGB", (WIDTH, sum(row.height + GAP for row in rows) - GAP), PAPER)
    both.paste(rows[0], (0, 0))
    both.paste(rows[1], ((WIDTH - rows[1].width) // 2, rows[0].height + GAP))
    return both


def cells(printed: str) -> Image.Image:
    """Show cells with their masks."""
    print(printed.strip())
    return beside(opened("cells.jpg"), opened("counted.png"), height=230)


def coco_boxes(_: str) -> Image.Image:
    """Draw the boxes that were given, and the masks that came out."""
    image = io.read_image("coins.jpg")
    boxes = np.array(
        [one["bbox"] for one in json.loads(Path("boxes.json").read_text())["annotations"]]
    )
    boxes[:, 2:] += boxes[:, :2]
    (row,) = sam_rlx.batch.read("coco/")
    found = sam_rlx.batch.result(row)
    given = viz.overlay(image, np.zeros((0, *image.shape[:2]), bool), boxes=boxes)
    return beside(
        Image.fromarray(given), Image.fromarray(found.plot(image, names="coin")), height=245
    )


def text_folder(_: str) -> Image.Image:
    """Show three of the images."""
    return beside(*(opened(f"named/table_{number}.jpg/overlay.png") for number in range(3)))


def label_folder(_: str) -> Image.Image:
    """Draw the outlines of label files on their images."""
    shown = []
    for number in range(3):
        image = opened(f"dataset/images/table_{number}.jpg")
        draw = ImageDraw.Draw(image)
        for line in Path(f"dataset/labels/table_{number}.txt").read_text().splitlines():
            category, *values = line.split()
            corners = np.array(values, float).reshape(-1, 2) * image.size
            color = viz.color(int(category))
            draw.polygon([tuple(corner) for corner in corners], outline=color, width=3)
            for x, y in corners:
                draw.ellipse((x - 3, y - 3, x + 3, y + 3), color)
        shown.append(image)
    return beside(*shown)


def clip(_: str) -> Image.Image:
    """Show three frames of the overlay."""
    drawn = open_frames("overlay.mp4")
    return beside(*(Image.fromarray(drawn.read(index)) for index in (0, 4, 7)), height=160)


def aerial(_: str) -> Image.Image:
    """Draw the outlines of the GeoJSON file on the image."""
    scene = opened("scene.tif")
    drawn = scene.copy()
    draw = ImageDraw.Draw(drawn)
    left, top = cookbook.ORIGIN
    for feature in json.loads(Path("map/masks.geojson").read_text())["features"]:
        geometry = feature["geometry"]
        parts = geometry["coordinates"]
        for part in parts if geometry["type"] == "MultiPolygon" else [parts]:
            rings = [
                (np.array(ring) - (left, top)) / (cookbook.METER, -cookbook.METER) for ring in part
            ]
            for ring in rings:
                draw.line([tuple(corner) for corner in ring], (255, 240, 60), 3)
    return beside(scene, drawn, height=235)


def checkpoint_ci(printed: str) -> Image.Image:
    """Show the first and the last lines of the report."""
    from sam_rlx import parity

    stages = ["image", "point", "box"]
    report = parity.check("mine.safetensors", images=["photo.jpg"], stages=stages)
    lines = [line.replace(" " * 24, "", 1) for line in str(report).splitlines()]
    return written("\n".join([*lines[:7], "...", *lines[-5:]]), 11)


def encode_once(_: str) -> Image.Image:
    """Show masks of three clicks on one embedding."""
    image = io.read_image("photos/table_0.jpg")
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model("sam-nano"))
    predictor.load_embedding("embeddings/table_0.safetensors")
    shown = []
    for x, y in ((60, 186), (170, 186), (270, 66)):
        found = predictor.predict(point_coords=[[x, y]], point_labels=[1])
        marked = viz.overlay(
            image, found.masks[found.best().index][None], point_coords=[[x, y]], point_labels=[1]
        )
        shown.append(Image.fromarray(marked))
    return beside(*shown)


def similar(_: str) -> Image.Image:
    """Show the image, and the object that was asked for with those that are like it."""
    return beside(opened("parts.jpg"), opened("alike.png"), height=300)


def many_images(printed: str) -> Image.Image:
    """Show what the program prints."""
    return written("\n".join(line for line in printed.splitlines() if line.strip()), 14)


def small_machine(_: str) -> Image.Image:
    """Draw megabytes of a file and the IoU of its masks, for each type."""
    image = io.read_image("photos/table_0.jpg")
    sizes, ious, names = [], [], ("F32", "F16", "Q8_0", "Q6_K", "Q4_K")
    truth = None
    for name in names:
        size = sam_rlx.convert("mine.safetensors", f"{name}.gguf", dtype=name).nbytes
        predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(f"{name}.gguf"))
        predictor.set_image(image)
        boxes = [[20, 146, 100, 226], [130, 146, 214, 228], [230, 26, 312, 106]]
        masks = predictor.predict(box=boxes, multimask_output=False).masks[:, 0]
        truth = masks if truth is None else truth
        both, either = (masks & truth).sum((1, 2)), (masks | truth).sum((1, 2))
        sizes.append(size / 1e6)
        ious.append(float((both / either).mean()))
    drawn = Image.new("RGB", (WIDTH, 40 + 34 * len(names)), PAPER)
    draw, font = ImageDraw.Draw(drawn), ImageFont.load_default(15)
    for row, (name, size, iou) in enumerate(zip(names, sizes, ious, strict=True)):
        y = 20 + 34 * row
        length = round(360 * size / max(sizes))
        draw.text((16, y), name, INK, font)
        draw.rectangle((80, y, 80 + length, y + 20), LINE)
        draw.text((90 + length, y), f"{size:.1f} MB, IoU {iou:.3f}", INK, font)
    return drawn


def port(_: str) -> Image.Image:
    """Show the photograph and the mask."""
    return beside(opened("coins.jpg"), opened("mask.png"), height=200)


MAKERS: dict[str, Callable[[str], Image.Image]] = {
    maker.__name__: maker
    for maker in (
        *(cut_outs, cells, coco_boxes, text_folder, label_folder, clip, aerial, checkpoint_ci),
        *(encode_once, similar, many_images, small_machine, port),
    )
}


def main() -> None:
    """Write the images of the pages that are named, or of all."""
    for name in sys.argv[1:] or MAKERS:
        page = ROOT / "docs" / "cookbook" / f"{name}.md"
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            cookbook.lay_out(Path(folder))
            out = streams.StringIO()
            with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
                exec(compile(pages.program(page), page, "exec"), {"__name__": "__main__"})
            image = MAKERS[name](out.getvalue())
        target = page.with_suffix(".webp")
        image.save(target, quality=80, method=6)
        print(target.name, image.size, target.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
