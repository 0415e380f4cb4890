"""What work on the page costs: bytes, memory. Times are those of benchmarks/annotator.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sam_rlx.apps.serve.tabs import unpacked
from sam_rlx.widget import SegmentWidget
from support.cases import quick
from support.half_size import half_size
from support.interactive import Server
from support.views import DISCS, View, discs

pytestmark = pytest.mark.timeout(7200)


def with_objects(path: Path, hw: tuple[int, int], count: int) -> Path:
    """Write an image with a project beside it: so many round objects, but for the lower right."""
    rows, columns = hw
    pixels = np.full((*hw, 3), 70, np.uint8)
    y, x = np.ogrid[:rows, :columns]
    middle, radius = (columns * 15 // 16, rows * 15 // 16), rows // 40
    pixels[(x - middle[0]) ** 2 + (y - middle[1]) ** 2 < radius**2] = (220, 70, 60)
    Image.fromarray(pixels).save(path)
    widget = SegmentWidget(half_size("sam-nano"), path)
    across, side = 25, columns // 32
    for at in range(count):
        mask = np.zeros(hw, bool)
        top, left = (at // across) * side + 4, (at % across) * side + 4
        mask[top : top + side - 8, left : left + side - 8] = True
        widget.start(mask)
    widget.commit()
    widget.close()
    return path


def sent_for_a_click(
    chrome: Any, servers: Any, path: Path, count: int, part: tuple[float, float]
) -> tuple[dict[str, int], float]:
    """Return the bytes that the page gets for a click beside so many objects, by message.

    And the part of the image that the box of the largest answer has.
    """
    server = servers(str(path))
    view = View(chrome, "about:blank")
    received: list[bytes] = []

    def listen(socket: Any) -> None:
        socket.on("framereceived", lambda data: received.append(data))

    view.page.on("websocket", listen)
    view.go(server.project(path))
    now = view.idle(lambda now: len(now["objects"]) == count)
    with Image.open(path) as image:
        x, y = (side * at for side, at in zip(image.size, part, strict=True))
    box = view.canvas.canvas.bounding_box()
    at = box["x"] + now["left"] + x * now["scale"], box["y"] + now["top"] + y * now["scale"]
    view.page.mouse.move(*at)  # its hover is none of the click
    view.idle(lambda now: now["hover"] and now["sharp"])
    received.clear()
    view.page.mouse.down()
    view.page.mouse.up()
    view.idle(lambda now: len(now["objects"]) == count + 1)
    # What is sent for the click comes before the answer to this.
    view.page.mouse.move(at[0] - 60, at[1] - 60)
    view.idle(lambda now: now["hover"])
    view.close()
    server.kill()
    heads = [(unpacked(data)[0], len(data)) for data in received]
    heads = [(head, length) for head, length in heads if head["type"] != "hover"]
    masks = [mask for head, _ in heads if head["type"] == "edit" for mask in head["masks"]]
    boxes = [(mask["box"], mask["size"]) for mask in masks]
    largest = max((x1 - x0) * (y1 - y0) / (w * h) for (x0, y0, x1, y1), (w, h) in boxes)
    return {head["type"]: length for head, length in heads}, largest


@pytest.mark.parametrize(
    ("height", "width", "most"), quick([(1200, 1600, 100), (3648, 5472, 500)], 0)
)
def test_speed_and_memory_of_a_click(
    chrome: Any, servers: Any, tmp_path: Path, height: int, width: int, most: int
) -> None:
    """A click beside many objects sends what one beside 3 objects sends, and below 4 kB."""
    few, many = (
        sent_for_a_click(
            *(chrome, servers, with_objects(tmp_path / f"{count}.png", (height, width), count)),
            *(count, (15 / 16, 15 / 16)),
        )[0]
        for count in (3, most)
    )
    assert sum(many.values()) < 4000, many
    assert sum(many.values()) < 1.2 * sum(few.values()), (few, many)


@pytest.mark.parametrize(
    ("height", "width", "count"), quick([(1200, 1600, 100), (3648, 5472, 500)], 0)
)
def test_speed_and_memory_of_a_click_on_the_ground(
    chrome: Any, servers: Any, tmp_path: Path, height: int, width: int, count: int
) -> None:
    """Where an answer is all that lies around the objects it is below 4 kB too."""
    path = with_objects(tmp_path / "many.png", (height, width), count)
    told, largest = sent_for_a_click(chrome, servers, path, count, (0.5, 0.94))
    assert largest > 0.8
    assert sum(told.values()) < 4000, told


def resident(server: Server) -> int:
    """Return the memory of a server in MB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory of other processes")
@pytest.mark.parametrize("gestures", quick([40, 3600], 0))
@pytest.mark.slow
def test_speed_and_memory(chrome: Any, servers: Any, tmp_path: Path, gestures: int) -> None:
    """Random work leaves the memory of the server where it was: 3600 gestures are an hour."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for at in range(3):
        discs(folder / f"disc {at}.png", at)
    server = servers(str(folder))
    view = View(chrome, server.project(folder))
    random = np.random.default_rng(gestures)
    view.click(*DISCS[0])
    begun = 0
    for number in range(gestures):
        if number == gestures // 4:  # what is made once is there
            begun = resident(server)
        view.idle()
        match int(random.integers(8)):
            case 0 | 1 | 2:
                view.canvas.click(*random.uniform((4, 4), (316, 236)))
            case 3:
                view.canvas.click(*random.uniform((4, 4), (316, 236)), button="right")
            case 4:
                view.key("Enter")
            case 5:
                view.key("Delete")
            case 6:
                view.key("Control+z")
            case _:
                view.to(int(random.integers(3)))
    view.idle()
    assert (
        resident(server) - begun < 40 + gestures // 200
    )  # undo keeps 2 kB a click, at most 200 MB
    view.close()


@pytest.mark.slow
def test_speed_and_memory_of_10000_images(chrome: Any, servers: Any, tmp_path: Path) -> None:
    """A folder of 10,000 images is opened, and takes less than 200 MB more than one of 10."""
    sizes = []
    for count in (10, 10_000):
        folder = tmp_path / f"{count}"
        folder.mkdir()
        pixels = np.zeros((32, 32, 3), np.uint8)
        for at in range(count):
            pixels[0, 0] = at % 256, at // 256, 0
            Image.fromarray(pixels).save(folder / f"{at:05}.png")
        server = servers(str(folder))
        view = View(chrome, server.project(folder))
        assert view.idle()["count"] == count
        view.to(count - 1)
        view.idle()
        sizes.append(resident(server))
        view.close()
        server.kill()
    assert sizes[1] - sizes[0] < 200
