"""The page of ``sam-rlx serve`` as a person uses it: files, keys, the pointer, and what is seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from support.jupyter import PATIENCE, Canvas, wait_for

# Middles of the discs of `discs`.
DISCS = ((80, 70), (210, 90), (150, 180))


def discs(path: Path, seed: int = 0, hw: tuple[int, int] = (240, 320)) -> Path:
    """Write an image of three discs on a dark ground with grain."""
    random = np.random.default_rng(seed)
    y, x = np.ogrid[: hw[0], : hw[1]]
    pixels = np.full((*hw, 3), 45 + seed * 9, np.uint8)
    colors = ((220, 70, 60), (70, 120, 220), (230, 200, 60))
    for (cx, cy), color in zip(DISCS, colors, strict=True):
        pixels[(y - cy) ** 2 + (x - cx) ** 2 < 34**2] = color
    noisy = np.clip(pixels + random.normal(0, 6, pixels.shape), 0, 255)
    Image.fromarray(noisy.astype(np.uint8)).save(path)
    return path


class View:
    """A page on which a person works.

    Parameters
    ----------
    chrome : playwright Browser
    address : str
        Of a server.
    size : (int, int)
        Of the window.
    options
        Of the browser's context.
    """

    def __init__(
        self, chrome: Any, address: str, size: tuple[int, int] = (1366, 768), **options: Any
    ) -> None:
        self.context = chrome.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._heard)
        self.page.goto(address)
        self.page.locator(".srx-openfiles").wait_for(timeout=1000 * PATIENCE)

    def _heard(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(message.text)

    def open(self, *files: Path) -> dict[str, Any]:
        """Open images, and wait until the first of these is shown."""
        before = self.peek()
        self.page.set_input_files("input.srx-files", [str(file) for file in files])
        count = len(files) + (before["count"] if before else 0)
        return self.idle(lambda now: now["count"] >= count or now["error"])

    def peek(self) -> dict[str, Any] | None:
        """Return what the view shows; None before there is an image."""
        found: dict[str, Any] | None = self.page.evaluate(
            "document.querySelector('.srx')?.front?.peek() ?? null"
        )
        return found

    def idle(self, condition: Callable[[dict[str, Any]], Any] = lambda now: True) -> dict[str, Any]:
        """Wait until nothing is asked and a condition holds; return what is shown then."""

        def found() -> Any:
            now = self.peek()
            return now if now and not now["busy"] and condition(now) else None

        return wait_for(found, "a view at rest")  # type: ignore[no-any-return]

    @property
    def canvas(self) -> Canvas:
        """The image."""
        return Canvas(self.page)

    def click(self, x: float, y: float, **options: Any) -> dict[str, Any]:
        """Click on the image, and wait for the answer."""
        before = self.idle()
        self.canvas.click(x, y, **options)
        return self.idle(lambda now: now["n"] > before["n"] or now["current"] != before["current"])

    def key(self, key: str) -> dict[str, Any]:
        """Press a key, wherever the focus is."""
        self.page.keyboard.press(key)
        self.page.wait_for_timeout(20)
        return self.idle()

    def said(self) -> str:
        """Return the sentence over the image, "" if there is none."""
        self.peek()
        badge = self.page.locator(".srx-badge")
        return str(badge.inner_text()) if badge.is_visible() else ""

    def box(self, selector: str) -> tuple[float, float, float, float] | None:
        """Return (x0, y0, x1, y1) of an element on the page; None if it is not seen."""
        found = self.page.locator(selector).first
        box = found.bounding_box() if found.count() else None
        if box is None or not box["width"] or not box["height"]:
            return None
        return box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]

    def names(self) -> Sequence[str]:
        """Return the names of the objects."""
        now = self.peek()
        return [one["name"] for one in now["objects"]] if now else []

    def close(self) -> None:
        """Close the page, on which nothing went wrong."""
        self.context.close()
        assert self.problems == []
