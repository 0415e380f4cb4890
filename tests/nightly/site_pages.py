"""Every page of the documentation site in Chromium: errors, broken links, and its search.

Builds the site unless a folder is given. Needs the extra ``docs``, playwright and Chromium.
Example: ``python tests/nightly/site_pages.py build/site --images build/pages``
"""

from __future__ import annotations

import argparse
import ast
import functools
import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

ROOT = Path(__file__).parents[2]


def build(folder: Path) -> Path:
    """Build the site with warnings as errors."""
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "-q", str(ROOT / "docs"), str(folder)]
    subprocess.run(command, check=True)
    return folder


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine; the address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class _Names(HTMLParser):
    """Links and ids of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name == "href" and tag == "a" and value and not urlsplit(value).scheme:
                self.links.append(value)


def read(folder: Path, name: str) -> tuple[list[str], set[str]]:
    """Read a page without a browser: its internal links, from the site's root, and its ids."""
    parser = _Names()
    parser.feed((folder / name).read_text(encoding="utf-8"))
    base = f"http://site/{name}"
    return [urljoin(base, link)[len("http://site/") :] for link in parser.links], parser.ids


def broken_links(pages: dict[str, tuple[list[str], set[str]]], files: set[str]) -> list[str]:
    """Return the links that lead to no file or to no heading.

    `pages` has links and ids of each page, by its path; `files` all paths.
    """
    problems = []
    for page, (links, _) in pages.items():
        for link in links:
            address, anchor = urldefrag(link)
            target = unquote(address) or page
            if target not in files:
                problems.append(f"{page}: link to {target}, which is not there")
            elif anchor and target in pages and unquote(anchor) not in pages[target][1]:
                problems.append(f"{page}: link to {target}#{anchor}, which has no such anchor")
    return problems


def _visit(page: Any, base: str, path: str, problems: list[str]) -> tuple[list[str], set[str]]:
    """Open a page; return its internal links and the ids of its elements."""
    page.goto(base + path, wait_until="load")
    width, shown = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    if width > shown + 1:
        problems.append(f"{path}: {width} pixels wide in a window of {shown}")
    links = page.evaluate("[...document.links].map(link => link.href)")
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(element => element.id)")
    host = urlsplit(base).netloc
    return [link[len(base) :] for link in links if urlsplit(link).netloc == host], set(ids)


def visit(folder: Path, images: Path | None = None) -> tuple[int, list[str]]:
    """Open every page of a built site; return their number and what is wrong."""
    from playwright.sync_api import sync_playwright

    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    paths = sorted(name for name in files if name.endswith(".html"))
    problems: list[str] = []
    found: dict[str, tuple[list[str], set[str]]] = {}
    chromium = shutil.which("chromium") or os.environ.get("CHROMIUM")
    with served(folder) as base, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        current = [""]

        def say(text: str) -> None:
            problems.append(f"{current[0]}: {text}")

        page.on("console", lambda m: m.type in ("error", "warning") and say(f"console: {m.text}"))
        page.on("pageerror", lambda error: say(f"error: {error}"))
        page.on("request", lambda r: r.url.startswith((base, "data:")) or say(f"asks {r.url}"))
        page.on("response", lambda r: r.status >= 400 and say(f"{r.status} for {r.url}"))
        for path in paths:
            current[0] = path
            found[path] = _visit(page, base, path, problems)
            if images is not None:
                name = images / f"{path.removesuffix('.html').replace('/', '_')}.png"
                page.screenshot(path=name)
        browser.close()
    return len(paths), problems + broken_links(found, files)


# What the engine of the site answers, without what its page draws.
_SEARCH = """
async words => {
  const answered = () => typeof Search !== "undefined" && Search.hasIndex();
  for (let left = 600; !answered() && left; left--)
    await new Promise(done => setTimeout(done, 100));
  return words.map(word =>
    Search._performSearch(...Search._parseQuery(word)).reverse().map(found => found[0]));
}
"""


def search(folder: Path, words: list[str]) -> dict[str, list[str]]:
    """Search a built site in Chromium by its own engine: pages for each text, the best first."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or os.environ.get("CHROMIUM")
    with served(folder) as base, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{base}search.html", wait_until="load")
        found = page.evaluate(_SEARCH, words)
        browser.close()
    # A page may be found by its title, its text and headings: it counts once.
    return {word: list(dict.fromkeys(each)) for word, each in zip(words, found, strict=True)}


def search_problems(folder: Path) -> list[str]:
    """Return the words of `docs/_site/search_words.py` that do not find their page at once."""
    pages = {word: page for page, words in search_words().items() for word in words}
    found = search(folder, list(pages))
    return [
        f"search: {word}: expected {page} first or second, found {found[word][:3]}"
        for word, page in pages.items()
        if page not in found[word][:2]
    ]


def search_words() -> dict[str, tuple[str, ...]]:
    """Return the words for each page."""
    return dict(_value("search_words.py", "WORDS"))


def groups() -> set[str]:
    """Return the modules that have a group in the reference."""
    return {module for modules in _value("pages.py", "GROUPS").values() for module in modules}


def _value(file: str, name: str) -> Any:
    """Return a constant of `docs/_site`, whose modules need Sphinx."""
    tree = ast.parse((ROOT / "docs" / "_site" / file).read_text(encoding="utf-8"))
    (found,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    )
    return ast.literal_eval(found)


def main(amount: int = 0, seed: int = 0) -> int:
    """Build the site and open its pages: the number of problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", nargs="?", type=Path, help="folder of a built site")
    parser.add_argument("--images", type=Path, help="folder for an image of each page")
    args = parser.parse_args(None if Path(sys.argv[0]).name == Path(__file__).name else [])
    if args.images:
        args.images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        site = args.site or build(Path(folder))
        count, problems = visit(site, args.images)
        problems += search_problems(site)
    for problem in problems:
        print(problem)
    print(f"site_pages: {count} pages, {len(problems)} problems")
    return len(problems)


if __name__ == "__main__":
    sys.exit(min(1, main()))
