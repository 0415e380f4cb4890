"""Do the five jobs of serve.md with the mouse and keys alone, in Chromium; count the gestures.

Run ``python docs/make_jobs.py FOLDER [NAME ...]`` from the checkout, with chromium on PATH; needs
the extra ``test``, which has scikit-image and its photographs. A screenshot of each step goes into
the folder, for a person to look at. What comes out is checked.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sam_rlx
import skimage

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.interactive import Server  # noqa: E402
from support.jupyter import browser  # noqa: E402
from support.views import View, masks  # noqa: E402

SKIMAGE = Path(skimage.__file__).parent / "data"
ASSETS = Path(sam_rlx.__file__).parent / "assets"
MEDIA = ROOT / "docs" / "media"

# By photograph: class and position of each object, and positions outside of the last one.
COIN, VEHICLE, OBJECT = "2", "3", "1"
PHOTOS: dict[str, tuple[Path, list[tuple[str, int, int]], list[tuple[int, int]]]] = {
    "01 coins.png": (
        SKIMAGE / "coins.png",
        [(COIN, x, y) for x, y in ((44, 54), (101, 56), (155, 51), (216, 51), (276, 52), (335, 44))]
        + [(COIN, 46, 125), (COIN, 102, 126)],
        [(74, 160)],
    ),
    "02 cup.png": (
        SKIMAGE / "coffee.png",
        [(OBJECT, 365, 290), (OBJECT, 290, 150), (OBJECT, 130, 270)],
        [(540, 220)],
    ),
    "03 astronaut.png": (
        SKIMAGE / "astronaut.png",
        [(VEHICLE, 415, 60), (OBJECT, 370, 440), (OBJECT, 170, 385), (OBJECT, 100, 330)],
        [(30, 420)],
    ),
    "04 motorcycle.png": (
        SKIMAGE / "motorcycle_left.png",
        [(OBJECT, 560, 70), (VEHICLE, 240, 200), (VEHICLE, 420, 195)],
        [(560, 220)],
    ),
    "05 motorcycle again.png": (
        SKIMAGE / "motorcycle_right.png",
        [(VEHICLE, 200, 200), (VEHICLE, 380, 195), (OBJECT, 520, 70)],
        [(560, 150)],
    ),
    "06 street.jpg": (
        MEDIA / "street.jpg",
        [(OBJECT, x, y) for x, y in ((225, 205), (560, 200), (570, 350), (770, 200), (115, 30))]
        + [(VEHICLE, 250, 430), (VEHICLE, 680, 320)],
        [(560, 550)],
    ),
    "07 rocket.jpg": (SKIMAGE / "rocket.jpg", [(VEHICLE, 320, 250)], [(260, 200)]),
    "08 cat.png": (
        SKIMAGE / "chelsea.png",
        [(OBJECT, 168, 112), (OBJECT, 322, 135), (OBJECT, 263, 243)],
        [(200, 180)],
    ),
    "09 galaxies.jpg": (
        SKIMAGE / "hubble_deep_field.jpg",
        [(OBJECT, 122, 400), (OBJECT, 727, 473), (OBJECT, 290, 108), (OBJECT, 978, 490)],
        [(900, 400)],
    ),
    "10 cell.png": (SKIMAGE / "cell.png", [(OBJECT, 430, 375)], [(100, 100)]),
    "11 clock.png": (SKIMAGE / "clock_motion.png", [(OBJECT, 210, 150)], [(60, 60)]),
    "12 tissue.png": (
        SKIMAGE / "ihc.png",
        [(OBJECT, 320, 405), (OBJECT, 395, 100), (OBJECT, 100, 100)],
        [(200, 400)],
    ),
}
# Middles of all of them on the first photograph.
COINS = (
    *((44, 54), (101, 56), (155, 51), (216, 51), (276, 52), (335, 44)),
    *((46, 125), (102, 126), (155, 127), (206, 124), (271, 119), (337, 125)),
    *((44, 197), (101, 195), (154, 197), (212, 193), (273, 194), (345, 188)),
    *((46, 262), (114, 265), (172, 263), (247, 264), (301, 264), (358, 268)),
)
MAX_COIN = 4500  # pixels
# On the first frame of the clip: the hawk, and the tree behind it.
CLIP = MEDIA / "hawk.mp4"
CLIP_POSITIONS = ((220, 150), (415, 90))


class Person:
    """Does gestures on a view, counts them, and takes screenshots."""

    def __init__(self, chrome: Any, address: str, folder: Path, job: str) -> None:
        self.view = View(chrome, address, (1366, 768))
        self.folder, self.job = folder, job
        self.count = self.shots = 0
        self.rest()

    def click(self, x: float, y: float, **options: Any) -> None:
        """Click on the image."""
        self.count += 1
        self.view.canvas.click(x, y, **options)
        self.rest()

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.count += 1
            self.view.page.keyboard.press(key)
            self.rest()

    def push(self, selector: str) -> None:
        """Click on a control."""
        self.count += 1
        self.view.page.locator(selector).first.click()
        self.rest()

    def word(self, words: str) -> None:
        """Type words."""
        self.count += 1
        self.view.page.keyboard.type(words)

    def rest(self) -> dict[str, Any]:
        """Wait for the answers."""
        self.view.page.wait_for_timeout(30)
        return self.view.idle()

    def file(self, form: str) -> Path:
        """Export a form; return the file that comes."""
        self.press("Control+e")
        if form:
            self.push(f"dialog label.srx-form:has(input[value='{form}'])")
        self.shot(f"export {form or 'one file'}")
        with self.view.page.expect_download() as download:
            self.press("Enter")
        path = self.folder / f"{self.job} {download.value.suggested_filename}"
        download.value.save_as(path)
        return path

    def shot(self, what: str) -> None:
        """Take a screenshot."""
        self.shots += 1
        self.view.page.wait_for_timeout(150)
        name = f"{self.job}_{self.shots:02}_{what.replace(' ', '_')}.png"
        self.view.page.screenshot(path=self.folder / name)


def photographs(folder: Path) -> Path:
    """Lay the photographs out, in their order."""
    folder.mkdir()
    for name, (source, *_) in PHOTOS.items():
        shutil.copy(source, folder / name)
    return folder


def job_a(chrome: Any, folder: Path, shots: Path) -> int:
    """Twelve photographs, objects of three classes, corrections; COCO and YOLO out."""
    server = Server(str(photographs(folder / "photos")))
    person = Person(chrome, server.project(folder / "photos"), shots, "a")
    person.shot("begin")
    for name in ("coin", "vehicle"):
        person.push(".srx-classes button")
        person.word(name)
        person.press("Enter")
    person.shot("classes")
    last, objects = VEHICLE, 0
    for index, (_, positions, corrections) in enumerate(PHOTOS.values()):
        for number, (kind, x, y) in enumerate(positions):
            if kind != last:
                person.press(kind)
                last = kind
            person.click(x, y)
            objects += 1
            if number == 0:
                person.shot(f"image {index + 1} first")
            if number == len(positions) - 1:
                for at in corrections:
                    person.click(*at, button="right")
            person.press("Enter")
        person.shot(f"image {index + 1} all")
        person.press("Control+Enter" if index == len(PHOTOS) - 1 else "d")
    coco, yolo = person.file("coco"), person.file("yolo")
    with zipfile.ZipFile(coco) as packed:
        document = json.loads(packed.read("annotations.json"))
    assert len(document["annotations"]) == objects, len(document["annotations"])
    assert [one["name"] for one in document["categories"]] == ["object", "coin", "vehicle"]
    with zipfile.ZipFile(yolo) as packed:
        lines = [packed.read(one).decode() for one in packed.namelist() if one.endswith(".txt")]
    assert sum(len(text.splitlines()) for text in lines) >= objects
    person.view.close()
    server.kill()
    # e: the next day
    server.start()
    again = Person(chrome, server.project(folder / "photos"), shots, "e")
    again.count = 1  # the address
    again.rest()
    again.shot("the next day")
    items = again.rest()["items"]
    assert sum(one[2] for one in items) == objects
    again.view.close()
    server.kill()
    print(f"e: {again.count} gesture, {objects} objects are there")
    return person.count


def job_b(chrome: Any, folder: Path, shots: Path) -> int:
    """Two objects through a clip, corrections where it is wrong, out."""
    clip = Path(shutil.copy(CLIP, folder))
    server = Server(str(clip), "--model", "sam2-nano")
    person = Person(chrome, server.project(clip), shots, "b")
    person.click(*CLIP_POSITIONS[0])
    person.press("Enter")
    person.click(*CLIP_POSITIONS[1])
    person.shot("two objects")
    person.press("t")
    person.shot("tracked")
    for number in range(3):
        listed = person.view.page.locator(".srx-warn.srx-row").count()
        person.press("n" if listed else "Shift+.")  # without a list by eye, 10 frames on
        person.shot(f"to check {number + 1}, {listed} listed")
        person.click(*CLIP_POSITIONS[0 if person.rest()["current"] == 1 else 1])
        person.press("t")
        person.shot(f"corrected {number + 1}")
    file = person.file("")
    document = json.loads(file.read_text())
    assert len(document["annotations"]) >= 2
    person.view.close()
    server.kill()
    return person.count


def job_c(chrome: Any, folder: Path, shots: Path) -> int:
    """Count what is alike: everything, keep all, then what is wrong or missing."""
    image = folder / "coins.png"
    shutil.copy(SKIMAGE / "coins.png", image)
    server = Server(str(image))
    person = Person(chrome, server.project(image), shots, "c")
    person.press("g")
    person.shot("found")
    person.press("k")
    person.shot("kept")

    def objects() -> dict[int, Any]:
        person.rest()
        return masks(person.view)

    begun = len(objects())
    for number, mask in objects().items():  # what is no coin
        held = [at for at in COINS if mask[at[1], at[0]]]
        if len(held) == 1 and mask.sum() < MAX_COIN:
            continue
        if number in objects():
            rows, columns = np.nonzero(mask)
            middle = len(rows) // 2
            person.click(columns[middle] + 0.5, rows[middle] + 0.5)
            person.press("Delete")
    person.shot("without what is wrong")
    for x, y in COINS:  # what is missing
        if not any(mask[y, x] for mask in objects().values()):
            person.click(x, y)
            person.press("Enter")
    person.shot("all")
    print(f"c: {begun} kept at first, {len(objects())} in the end, of {len(COINS)}")
    assert len(objects()) == len(COINS)
    table = person.file("csv")
    assert zipfile.is_zipfile(table)
    person.view.close()
    server.kill()
    return person.count


def job_d(chrome: Any, folder: Path, shots: Path) -> int:
    """Words over a folder, then corrections."""
    server = Server(str(photographs(folder / "words")), "--model", "sam3-nano")
    person = Person(chrome, server.project(folder / "words"), shots, "d")
    person.press("/")
    person.word("circle")
    person.press("Shift+Enter")
    person.shot("found")
    person.press("Escape")
    for index in range(1, len(PHOTOS)):
        person.press("d")
        person.shot(f"image {index + 1}")
    items = person.rest()["items"]
    print("d:", {name: count for name, _, count in items})
    person.view.close()
    server.kill()
    return person.count


JOBS: dict[str, Callable[[Any, Path, Path], int]] = {
    "a": job_a, "b": job_b, "c": job_c, "d": job_d,
}  # fmt: skip


def main() -> None:
    """Do the jobs that are named, or all."""
    shots = Path(sys.argv[1])
    shots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser() as chrome:
        os.environ["XDG_STATE_HOME"] = str(Path(folder, "state"))
        for name in sys.argv[2:] or JOBS:
            own = Path(folder, name)
            own.mkdir()
            print(f"{name}: {JOBS[name](chrome, own, shots)} gestures", flush=True)


if __name__ == "__main__":
    main()
