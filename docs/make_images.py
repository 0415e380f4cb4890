"""Make street.webp, hawk.webp and large_images.webp: what the packaged models answer, unchanged.

Run ``python docs/make_images.py`` from the checkout; needs the extra ``cli``. `media/README.md`
says where the photograph and the clip are from.
"""

import sys
from pathlib import Path

import sam_rlx
from PIL import Image, ImageDraw
from sam_rlx import io, viz
from sam_rlx.frames import open_frames

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.large_scene import LargeScene

DOCS = Path(__file__).parent
# Prompts in pixels of media/street.jpg: side, red panel and window of the trailer, two helmets,
# door, flag, lamp, grass.
STREET = (
    {"box": [90, 325, 330, 485], "point_coords": [[250, 430], [130, 350], [160, 440]]},
    {"box": [235, 140, 375, 315], "point_coords": [[330, 270], [270, 270]]},
    {"box": [310, 150, 500, 325]},
    {"box": [165, 158, 282, 246], "point_coords": [[220, 200], [260, 210]]},
    {"box": [508, 298, 620, 400], "point_coords": [[565, 350]]},
    {"box": [333, 0, 445, 108]},
    {"box": [90, 0, 143, 60]},
    {"box": [898, 195, 950, 226]},
    {"point_coords": [[900, 590]]},
)
HAWK = [129, 34, 324, 269]  # a box around it on the first frame of media/hawk.mp4
HAWK_COLOR = 3
SHOWN = (640, 394)
TILE, OVERLAP = 512, 200
EDGE = (120, 220, 255)  # of tiles


def street() -> Image.Image:
    """Return the photograph with the best mask of each prompt."""
    image = io.read_image(DOCS / "media" / "street.jpg")
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model("sam-nano"))
    predictor.set_image(image)
    masks = []
    for prompt in STREET:
        inside = [1] * len(prompt["point_coords"]) if "point_coords" in prompt else None
        result = predictor.predict(**prompt, point_labels=inside)
        masks.append(result.masks[result.best().index])
    return Image.fromarray(viz.overlay(image, masks)).resize(SHOWN, Image.Resampling.LANCZOS)


def hawk() -> list[Image.Image]:
    """Return the frames of the clip with the mask that is tracked from a box on the first one."""
    clip = DOCS / "media" / "hawk.mp4"
    frames = open_frames(clip)
    video = sam_rlx.VideoPredictor(sam_rlx.load_model("sam2-nano"), clip)
    video.add_prompt(0, obj_id=1, box=HAWK)
    drawn = []
    for found in video.propagate():
        image = frames.read(found.frame_index)
        marked = viz.overlay(image, [found.masks[1]], identities=[HAWK_COLOR], opacity=0.4)
        drawn.append(Image.fromarray(marked))
    return drawn


def large_scene() -> Image.Image:
    """Return a made scene with the edges of its tiles and the masks that are found in them."""
    scene = LargeScene(3, 5, 260, seed=5)
    height, width = scene.shape
    generator = sam_rlx.MaskGenerator(
        sam_rlx.load_model("sam-nano"),
        points_per_side=8,
        pred_iou_thresh=0.7,
        stability_score_thresh=0.8,
        objects_only=True,
    )
    records = generator.generate(scene, tile=TILE, overlap=OVERLAP)
    print(len(scene), "objects,", len(records), "masks")
    image = Image.fromarray(viz.overlay_records(scene.read(0, height, 0, width), records))
    draw = ImageDraw.Draw(image)
    for x, y, w, h in {tuple(record.crop_box) for record in records}:
        if w == h == TILE:
            draw.rectangle((x, y, x + w - 1, y + h - 1), outline=EDGE)
    return image.resize((width // 2, height // 2), Image.Resampling.LANCZOS)


def main() -> None:
    """Write all images."""
    large_scene().save(DOCS / "large_images.webp", quality=80, method=6)
    street().save(DOCS / "street.webp", quality=80, method=6)
    first, *others = hawk()
    first.save(
        DOCS / "hawk.webp",
        save_all=True,
        append_images=others,
        duration=125,
        loop=0,
        quality=50,
        method=6,
    )
    for name in ("large_images.webp", "street.webp", "hawk.webp"):
        print(name, (DOCS / name).stat().st_size, "bytes")


if __name__ == "__main__":
    main()
